"""Makes dumps for the tests: hand-written directories in the formats of mydumper and MySQL Shell."""

import gzip
import json

from bakeoff.engine import Engine
from bakeoff.run.arms import ArmSetup
from bakeoff.run.own_data import databases_in, load_dump
from bakeoff.spec import Arm, Data, Study, Workload, parse_server
from bakeoff.stats.progress import Listener


class Listening(Listener):
    """Keeps the notes and the progress."""

    def __init__(self):
        self.notes, self.seen = [], []

    def note(self, text):
        self.notes.append(text)

    def progress(self, label, done, total, unit):
        self.seen.append((done, total, unit))


def study_of(source, database="shop", name="mysql:8.0.15"):
    arm = Arm(name="A", label=name, server=parse_server(name), data=Data(charset="utf8mb4", source=str(source)))
    return Study(
        title="own data",
        arms=(arm, arm.model_copy(update={"name": "B"})),
        workloads=(Workload(script="own.lua"),),
        database=database,
    )


def load(server, source, name, *, database="shop"):
    """Load a dump into a running server. Return what was loaded, and the listener."""
    study, listener = study_of(source, database, name), Listening()
    server.query(f"DROP DATABASE IF EXISTS {database}")
    if database not in databases_in(str(source)):
        server.query(f"CREATE DATABASE {database} CHARACTER SET utf8mb4")
    with Engine() as engine:
        return load_dump(engine, ArmSetup(study.arms[0]), server, study, listener, threads=2), listener


def checksums(server, database="shop"):
    tables = server.query(
        "SELECT table_name FROM information_schema.tables "
        "WHERE table_schema = %s AND table_type = 'BASE TABLE' ORDER BY 1",
        (database,),
    )
    return {name: server.query(f"CHECKSUM TABLE {database}.`{name}`")[0][1] for (name,) in tables}


HEAD = "/*!40101 SET NAMES utf8mb4*/;\n/*!40103 SET TIME_ZONE='+00:00' */;\n"
VIEW = "CREATE ALGORITHM=UNDEFINED DEFINER=`boss`@`%` SQL SECURITY DEFINER VIEW `many` AS select `id` from `word`;\n"


def mydumper(folder):
    """A database `shop` as mydumper writes it: two tables, one in two parts, a view, a function, a trigger."""
    files = {
        "metadata": "Started dump at: 2026-11-24 00:00:00\n",
        "shop-schema-create.sql": "CREATE DATABASE `shop` /*!40100 DEFAULT CHARACTER SET latin1 */;\n",
        "shop.word-schema.sql": HEAD
        + "CREATE TABLE `word` (\n `id` int NOT NULL,\n `text` varchar(20), PRIMARY KEY (`id`)\n) "
        "ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;\n",
        "shop.word.00000.sql": HEAD + "INSERT INTO `word` VALUES (1,'a;\nb'),\n(2,'ß');\n",
        "shop.word.00001.sql": HEAD + "INSERT INTO `word` VALUES (3,NULL);\n",
        "shop.empty-schema.sql": HEAD + "CREATE TABLE `empty` (`id` int) ENGINE=InnoDB;\n",
        "shop.many-schema.sql": "CREATE TABLE IF NOT EXISTS `many` (`id` int);\n",
        "shop.many-schema-view.sql": HEAD + "DROP TABLE IF EXISTS `many`;\nDROP VIEW IF EXISTS `many`;\n" + VIEW,
        "shop-schema-post.sql": HEAD
        + "CREATE DEFINER=`boss`@`%` FUNCTION `twice`(x INT) RETURNS int\n    DETERMINISTIC\n"
        "BEGIN\n  SET x = x + x; \n  RETURN x; \nEND;\n",
        "shop.word-schema-triggers.sql": HEAD
        + "CREATE DEFINER=`boss`@`%` TRIGGER `t` BEFORE INSERT ON `word` FOR EACH ROW "
        "BEGIN\n  SET NEW.text = 'x'; \nEND;\n",
        "mysql.user-schema.sql": "CREATE TABLE `user` (this is never read);\n",
    }
    folder.mkdir()
    for name, text in files.items():
        if name.endswith(".sql"):
            (folder / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
        else:
            (folder / name).write_text(text)
    return folder


def renamed_mydumper(folder, name, pack=gzip.compress, end=".gz"):
    """Like `mydumper`, for a database whose name mydumper does not use in file names."""
    mydumper(folder)
    for path in folder.glob("shop*"):
        path.rename(path.with_name(path.name.replace("shop", "mydumper_0", 1).replace(".word", ".mydumper_1", 1)))
    (folder / "mydumper_0-schema-create.sql.gz").unlink()
    create = f"{HEAD}CREATE DATABASE /*!32312 IF NOT EXISTS*/ {name} /*!40100 DEFAULT CHARACTER SET latin1 */;\n"
    (folder / f"mydumper_0-schema-create.sql{end}").write_bytes(pack(create.encode()))
    return folder


def zstd(content):
    """One frame of one block that is not compressed."""
    size = len(content)
    return bytes.fromhex("28b52ffd20") + bytes([size]) + (size << 3 | 1).to_bytes(3, "little") + content


def mysql_shell(folder):
    """The same as MySQL Shell writes it, with a column of bytes, and a table of two partitions in zstd."""
    table = {
        "options": {
            "schema": "shop", "table": "word", "columns": ["id", "text", "bytes"],
            "decodeColumns": {"bytes": "FROM_BASE64"}, "defaultCharacterSet": "utf8mb4", "fieldsTerminatedBy": "\t",
            "fieldsEnclosedBy": "", "fieldsEscapedBy": "\\", "linesTerminatedBy": "\n",
        },
        "extension": "tsv",
        "chunking": True,
    }  # fmt: skip
    sale = {
        "options": {"schema": "shop", "table": "sale", "columns": ["id"], "decodeColumns": {}},
        "extension": "tsv.zst",
        "chunking": True,
        "basenames": {"p0": "shop@sale@p0", "p1": "shop@sale@p1"},
    }
    files = {
        "@.json": json.dumps({"schemas": ["shop"], "basenames": {"shop": "shop"}, "users": ["'root'@'localhost'"]}),
        "@.done.json": "{}",
        "@.sql": "-- MySQL Shell dump\n",
        "@.post.sql": "-- end\n",
        "@.users.sql": "DROP USER 'root'@'localhost';\n",
        "shop.json": json.dumps(
            {
                "tables": ["word", "sale"],
                "views": ["many"],
                "functions": ["twice"],
                "includesData": True,
                "basenames": {"word": "shop@word", "sale": "shop@sale", "many": "shop@many"},
            }
        ),
        "shop.sql": "CREATE DATABASE /*!32312 IF NOT EXISTS*/ `shop` /*!40100 DEFAULT CHARACTER SET utf8mb4 */;\n"
        "USE `shop`;\nDELIMITER //\nCREATE DEFINER=`boss`@`%` FUNCTION `twice`(x INT) RETURNS int\n DETERMINISTIC\n"
        "RETURN x + x//\nDELIMITER ;\n",
        "shop@word.sql": "CREATE TABLE IF NOT EXISTS `word` (`id` int NOT NULL PRIMARY KEY, `text` varchar(20), "
        "`bytes` blob) DEFAULT CHARSET=utf8mb4;\n",
        "shop@word.json": json.dumps(table),
        "shop@word@0.tsv": "1\ta\\tb'\tAP8=\n2\tß\\\\\t\n",
        "shop@word@@1.tsv": "3\t\\N\t\\N\n",
        "shop@sale.sql": "CREATE TABLE IF NOT EXISTS `sale` (`id` int NOT NULL PRIMARY KEY)\n"
        "/*!50100 PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (9), PARTITION p1 VALUES LESS THAN (99))*/;\n",
        "shop@sale.json": json.dumps(sale),
        "shop@sale@p0@0.tsv.zst": zstd(b"1\n2\n"),
        "shop@sale@p0@0.tsv.zst.idx": bytes(8),
        "shop@sale@p0@@1.tsv.zst": zstd(b"3\n"),
        "shop@sale@p0@@1.tsv.zst.idx": bytes(8),
        "shop@sale@p1@@0.tsv.zst": zstd(b"11\n"),
        "shop@sale@p1@@0.tsv.zst.idx": bytes(8),
        "shop@many.pre.sql": "CREATE OR REPLACE VIEW `many` AS SELECT 1 AS `id`;\n",
        "shop@many.sql": "DROP VIEW IF EXISTS `many`;\n" + VIEW,
        "shop@word.triggers.sql": "CREATE DEFINER=`boss`@`%` TRIGGER `t` BEFORE INSERT ON `word` "
        "FOR EACH ROW SET NEW.text = 'x';\n",
    }
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder
