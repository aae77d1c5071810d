"""Formats of dumps: six of names and values, CREATE TABLE in four, summaries of percona-toolkit."""

import pytest

from bakeoff.audit.dumps import Damaged, named_values, split_status, summary, tables
from tests.audit.conftest import FORMATS

ROWS = [("Uptime", "12"), ("init_connect", ""), ("sql_mode", "A,B"), ("version", "8.0.31"), ("version_comment", "a b")]
CREATE = """CREATE TABLE `t` (
  `id` int(11) NOT NULL DEFAULT '0',
  `c` char(9) CHARACTER SET latin1 COLLATE latin1_bin NOT NULL,
  KEY `c` (`c`)
) ENGINE=InnoDB AUTO_INCREMENT=7 DEFAULT CHARSET=latin1 ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=8
/*!50100 PARTITION BY HASH (`id`)
PARTITIONS 2 */"""
# What the programs print, cut to a few lines.
PT_SUMMARY = """# Percona Toolkit System Summary Report ######################
        Date | 2026-11-29 23:58:44 UTC (local TZ: UTC +0000)
      Kernel | 6.18.44
# Processor ##################################################
  Processors | physical = 1, cores = 2, virtual = 2, hyperthreading = no
      Models | 2xAMD EPYC
# Memory #####################################################
       Total | 23.5G
# Memory mamagement ##########################################
Transparent huge pages are enabled.
# The End ####################################################
"""
PT_MYSQL_SUMMARY = """# Percona Toolkit MySQL Summary Report #######################
              System time | 2026-11-30 00:00:29 UTC (local TZ: UTC +0000)
# Report On Port 30418 #######################################
                  Version | 8.0.31 MySQL Community Server - GPL
# InnoDB #####################################################
                  Version | 8.0.31
         Buffer Pool Size | 128.0M
             Flush Method | fsync
      Flush Log At Commit | 1
               XA Support |
# Noteworthy Variables #######################################
         sort_buffer_size | 256k
               flush_time | 0
# The End ####################################################
"""


@pytest.mark.parametrize("form", FORMATS)
def test_names_and_values_are_read_from_every_format(form):
    found = named_values(FORMATS[form](ROWS))
    assert found == dict(ROWS)
    assert split_status(found) == (dict(ROWS[1:]), {"uptime": "12"})


@pytest.mark.parametrize(
    "text",
    [
        "version\t8.0\nUptime\t3\n",
        '{"rows": [{"Variable_name": "version", "Value": "8.0"}, {"Variable_name": "Uptime", "Value": 3}]}',
        '[{"VARIABLE_NAME": "version", "VARIABLE_VALUE": "8.0"}, {"VARIABLE_NAME": "Uptime", "VARIABLE_VALUE": "3"}]',
        "Variable_name;Value\nversion;8.0\nUptime;3\n",
        "mysql> ;\n+-+-+\n| Variable_name | Value |\n+-+-+\n| version | 8.0 |\n| Uptime  | 3 |\n+-+-+\n2 rows in set\n",
    ],
)
def test_variations_of_the_formats_are_read(text):
    assert named_values(text) == {"version": "8.0", "Uptime": "3"}


@pytest.mark.parametrize(
    "text", ["a\tb\nc\td\n", "innodb_x\tACTIVE\tENGINE\n", "one, two\n", '{"a": {"b": 1}}', "x" * 1000]
)
def test_other_texts_are_not_read_as_a_dump(text):
    assert named_values(text) == {}


@pytest.mark.parametrize(
    "text",
    [
        CREATE,
        f"-- dump\n{CREATE};\nINSERT INTO t VALUES (1);\n",
        f"+---+---+\n| Table | Create Table |\n+---+---+\n| t     | {CREATE} |\n+---+---+\n",
        "Table\tCreate Table\nt\t" + CREATE.replace("\n", "\\n") + "\n",
        f"*** 1. row ***\n       Table: t\nCreate Table: {CREATE}\n",
    ],
)
def test_create_table_is_read_from_every_format(text):
    (found,) = tables(text).values()
    assert (found.engine, found.collation) == ("InnoDB", "latin1_swedish_ci")
    assert found.options == "KEY_BLOCK_SIZE=8 ROW_FORMAT=COMPRESSED PARTITION BY HASH (`id`) PARTITIONS 2"
    assert found.lines == {"`id` int NOT NULL DEFAULT 0", "`c` char(9) COLLATE latin1_bin NOT NULL", "KEY `c` (`c`)"}


def test_the_same_table_in_the_words_of_two_versions_is_equal():
    old = (
        "CREATE TABLE `t` (\n  `k` int(10) unsigned DEFAULT '0',\n  `c` char(9)\n) ENGINE=InnoDB DEFAULT CHARSET=utf8\n"
    )
    new = (
        "CREATE TABLE `t` (\n  `k` int unsigned DEFAULT 0,\n"
        "  `c` char(9) CHARACTER SET utf8mb3 COLLATE utf8mb3_general_ci\n"
        ") ENGINE=InnoDB DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_general_ci\n"
    )
    assert tables(old) == tables(new)


def test_summaries_of_percona_toolkit_are_read():
    machine, nothing = summary(PT_SUMMARY)
    assert nothing == {}
    assert machine == {
        "kernel": "6.18.44", "memory": "23.5G", "CPU model": "2xAMD EPYC", "Transparent huge pages": "enabled",
        "processors": "physical = 1, cores = 2, virtual = 2, hyperthreading = no",
    }  # fmt: skip
    nothing, variables = summary(PT_MYSQL_SUMMARY)
    assert nothing == {}
    assert variables == {
        "version": "8.0.31 MySQL Community Server - GPL", "innodb_buffer_pool_size": "134217728",
        "innodb_flush_method": "fsync", "innodb_flush_log_at_trx_commit": "1", "sort_buffer_size": "262144",
        "flush_time": "0",
    }  # fmt: skip
    assert summary("# Percona Toolkit of another kind") is None


@pytest.mark.parametrize("text", [PT_SUMMARY[:200], PT_MYSQL_SUMMARY[:-80]])
def test_a_cut_summary_is_damaged(text):
    with pytest.raises(Damaged, match="its end is missing"):
        summary(text)
