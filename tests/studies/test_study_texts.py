"""Settings of texts, columns and character sets: what they become, and what a character set cannot hold."""

import codecs
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import study_files
from study_files import assert_refused, study_of

from bakeoff import servers
from bakeoff.cli.study_request import request_study
from bakeoff.errors import SpecError
from bakeoff.plan.factorial import make_study
from bakeoff.plan.workloads import kind_of
from bakeoff.run.arms import ArmSetup, address_of, load_key
from bakeoff.run.measuring import script_options
from bakeoff.servers import install
from bakeoff.servers.client import ROOT
from bakeoff.spec import Arm, Data, parse_server
from bakeoff.spec.factors import CONTENTS, client_charset, holds
from bakeoff.spec.study_file import read_study

ALPHABETS = Path(__file__).parents[2] / "crates" / "script" / "src" / "random" / "alphabets.txt"

GOOD = """\
title: Texts
servers: ["mysql:8.0.15"]
settings: {column_type: varchar, column_length: 300}
factors:
  content: [text, japanese]
  compressibility: [default, 0.5]
  table_collation: [utf8mb4_bin, ujis_bin]
  text_length: [100, 280]
where:
  - not: {content: japanese, table_collation: ujis_bin}
workloads: [oltp_read_write]
"""


def made(tmp_path, text=GOOD):
    return study_of(tmp_path, text)


def test_text_settings_belong_to_the_data_and_reach_the_script(tmp_path):
    study = made(tmp_path)
    assert len(study.arms) == 12
    assert len({load_key(arm) for arm in study.arms}) == 12
    arm = next(arm for arm in study.arms if arm.label == "japanese · 0.5 · utf8mb4_bin · 280")
    options = script_options(study, study.workloads[0], arm.data)
    assert options["create_table_options"] == "DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
    assert {name: options[name] for name in ("content", "compressibility", "text_length", "column_type")} == {
        "content": "japanese", "compressibility": 0.5, "text_length": 280, "column_type": "varchar",
    }  # fmt: skip
    assert "content" not in script_options(
        study, study.workloads[0], study.arms[0].data.model_copy(update={"options": ()})
    )
    small = kind_of("oltp_read_write").loaded_bytes("oltp_read_write", {"content": "ascii"})
    assert (
        kind_of("oltp_read_write").loaded_bytes("oltp_read_write", {"content": "japanese"}) > small + 10_000 * 2 * 119
    )


LEVELS = """\
title: Levels
servers: ["mysql:8.0.15"]
factors:
  at:
    server: {server_charset: latin1, charset: default, connection_charset: latin1}
    database: {collation: latin1_swedish_ci}
    table: {charset: utf8mb4, table_charset: latin1}
    column: {charset: utf8mb4, column_collation: latin1_bin}
    connection: {collation: latin1_swedish_ci, connection_charset: utf8mb4}
    ucs2: {collation: ucs2_bin}
workloads: [oltp_read_only]
"""


def test_a_character_set_can_be_set_at_every_level(tmp_path):
    study = made(tmp_path, LEVELS)
    arms = dict(zip(("server", "database", "table", "column", "connection", "ucs2"), study.arms, strict=True))
    assert dict(arms["server"].server.options) == {"character_set_server": "latin1"}
    assert arms["server"].data.text_charset is None
    spoken = {name: arm.connection.charset or client_charset(arm.data.text_charset) for name, arm in arms.items()}
    assert spoken == {
        "server": "latin1", "database": "latin1", "table": "latin1", "column": "latin1", "connection": "utf8mb4",
        "ucs2": "utf8mb4",
    }  # fmt: skip
    workload = study.workloads[0]
    assert script_options(study, workload, arms["table"].data)["create_table_options"] == "DEFAULT CHARACTER SET latin1"
    column = script_options(study, workload, arms["column"].data)
    assert (column["column_charset"], column["column_collation"]) == ("latin1", "latin1_bin")
    assert arms["column"].data.charset == "utf8mb4"


def test_connections_use_utf8mb4_if_no_client_can_speak_the_databases_charset():
    """The study names none: it is the default of the server, or of a running server's database."""

    def spoken(charset):
        server = SimpleNamespace(
            address=lambda _: {"socket": "/s"}, account=lambda *_, **__: ROOT, query=lambda *_, **__: [(charset,)]
        )
        arm = Arm(name="A", label="A", server=parse_server("mysql:8.0"), data=Data())
        return address_of(ArmSetup(arm), server, "d").charset

    assert {charset: spoken(charset) for charset in ("ucs2", "utf16le", "latin1")} == {
        "ucs2": "utf8mb4", "utf16le": "utf8mb4", "latin1": "latin1",
    }  # fmt: skip


def test_a_connection_collation_alone_implies_its_character_set(tmp_path):
    title, servers, *_ = LEVELS.splitlines()
    settings = "settings: {collation: utf8mb4_bin, connection_collation: latin1_bin}"
    factors = "factors: {prepare_mode: [server, client]}"
    study = made(tmp_path, f"{title}\n{servers}\n{settings}\n{factors}\nworkloads: [oltp_read_only]\n")
    server = SimpleNamespace(address=lambda _: {"socket": "/s"}, account=lambda *_, **__: ROOT)
    address = address_of(ArmSetup(study.arms[0]), server, "d")
    assert (address.charset, address.collation) == ("latin1", "latin1_bin")


COLLATIONS = """\
title: Collations
servers: ["mariadb:11.8"]
factors:
  at:
    first: {charset: default, collation: utf8mb4_bin}
    last: {collation: utf8mb4_bin, charset: default}
    no_charset: {charset: default, collation: uca1400_ai_ci}
    table: {table_collation: uca1400_ai_ci, charset: utf8mb3}
    upper: {charset: LATIN1, collation: latin1_bin}
    not_spoken: {charset: UCS2}
workloads: [oltp_read_only]
"""


def test_a_collation_wins_over_a_charset_in_either_order(tmp_path):
    first, last, no_charset, table, upper, not_spoken = (arm.data for arm in made(tmp_path, COLLATIONS).arms)
    assert (first.charset, first.collation) == (last.charset, last.collation) == ("utf8mb4", "utf8mb4_bin")
    assert (no_charset.charset, no_charset.collation) == ("utf8mb4", "uca1400_ai_ci")
    assert (table.table_charset, table.table_collation) == ("utf8mb3", "uca1400_ai_ci")
    assert (upper.charset, upper.collation) == ("latin1", "latin1_bin")
    assert client_charset(not_spoken.text_charset) == "utf8mb4"


changed = partial(study_files.changed, GOOD)


@pytest.mark.parametrize(
    ("text", "line", "named", "remedy"),
    [
        (changed("[text, japanese]", "[text, japaneese]"), 5, "content cannot be 'japaneese'", "japanese, chinese"),
        (changed("[default, 0.5]", "[default, 1.5]"), 6, "must be 0 to 1, got '1.5'", "zlib"),
        (changed("[100, 280]", "[100, many]"), 8, "text_length cannot be 'many'", "characters"),
        (changed("text_length: [100, 280]", "script.text-length: [100, many]"), 8, "cannot be 'many'", "16383"),
        (changed("content: [text, japanese]", "script.content: [text, klingon]").replace(
            "content: japanese", "script.content: klingon").replace("utf8mb4_bin", "latin1_bin"),
            5, "content klingon cannot be stored in latin1", "ASCII",
        ),
        (changed("[100, 280]", "[100, 301]"), 8, "text_length 301 is longer than column_length 300", "as long"),
        (changed("column_type: varchar", "column_type: char"), 3, "column_length 300 is too long", "varchar"),
        (changed("column_type: varchar", "column_type: text"), 3, "column_type cannot be 'text'", "char, varchar"),
        (
            changed("where:\n  - not: {content: japanese, table_collation: ujis_bin}\n", ""),
            5,
            "content japanese cannot be sent over a connection in ujis",
            "connection_charset: utf8mb4",
        ),
        (changed("ujis_bin]", "latin1_bin]").replace("table_collation: ujis", "table_collation: latin1").replace(
            "content: [text, japanese]", "content: [text, emoji]").replace("content: japanese", "content: text"),
            5, "content emoji cannot be stored in latin1 (latin1_bin)", "where",
        ),
        (changed("ujis_bin]", "ujs_bin]"), 7, "character set ujs is unknown", "ujis?"),
        (changed("settings: {", "settings: {connection_charset: ucs2, "), 3, "no client can use ucs2", "utf8mb4"),
        (
            changed("settings: {", "settings: {connection_charset: utf8mb4, connection_collation: latin1_bin, "),
            3, "connection_collation latin1_bin does not belong to connection_charset utf8mb4", "implies it",
        ),
        (
            changed("settings: {", "settings: {connection_collation: latin1_bin, "),
            5, "content japanese cannot be sent over a connection in latin1", "utf8mb4",
        ),
        (changed("  text_length: [100", "  page_compression: [zip, lz4]\n  text_length: [100"), 8, "'zip'", "lz4"),
    ],
)  # fmt: skip
def test_a_mistake_is_reported_with_its_line_and_its_remedy(tmp_path, text, line, named, remedy):
    assert_refused(tmp_path, text, line=line, named=named, remedy=remedy)


HEAD = 'title: x\nservers: ["mysql:8.0"]\nworkloads: [oltp_read_only]\nsettings: {column_length: 150}\nfactors:\n'


@pytest.mark.parametrize(
    ("factors", "place"),
    [
        # The value 200 is a level of another factor, too.
        ("  rows: [200, 300]\n  text_length: [100, 200]\n", "my.yaml:7: factors.text_length.1: "),
        (
            "  kind:\n    a: {rows: 1k}\n    b:\n      rows: 2k\n      text_length: 200\n",
            "my.yaml:10: factors.kind.b.text",
        ),
    ],
)
def test_the_place_of_a_mistake_follows_from_its_field(tmp_path, factors, place):
    with pytest.raises(SpecError, match="text_length 200 is longer than column_length 150") as caught:
        made(tmp_path, HEAD + factors)
    assert str(caught.value).startswith(place)


def test_an_arm_without_a_server_is_refused(tmp_path):
    factors = "factors:\n  kind:\n    a: {server: 'mysql:8.0'}\n    b: {page_size: 8k}\n"
    text = "title: x\nworkloads: [oltp_read_only]\n" + factors
    with pytest.raises(SpecError, match=r"my.yaml:3: factors: b: no server is named for it. Add server to settings"):
        made(tmp_path, text)


def test_a_workload_without_the_option_is_reported(shell, inside):
    (shell.folder / "my.yaml").write_text(
        'title: x\nservers: ["mysql:8.0.15"]\nfactors: {content: [text, latin]}\nworkloads: [bulk_insert]\n'
    )
    ran = inside("plan", "my.yaml")
    assert ran.code == 2
    assert "my.yaml:3: factors.content" in ran.complaint
    assert "bulk_insert: it has no option content" in ran.complaint


@pytest.mark.server
@pytest.mark.parametrize(
    ("servers", "settings", "named"),
    [
        ("mysql:5.6.24", "page_compression: zlib", "has no page_compression"),
        (
            "mysql:8.0.15",
            "{page_size: 8k, key_block_size: 16, row_format: compressed}",
            "key_block_size 16 exceeds innodb_page_size",
        ),
        ("mysql:8.0.15", "engine: rocksdb", "does not include MyRocks (engine rocksdb)"),
        ("mysql:5.7.22", "column_collation: utf8mb4_0900_ai_ci", "has no collation utf8mb4_0900_ai_ci"),
    ],
)
def test_plan_reports_features_that_a_version_lacks(shell, inside, servers, settings, named):
    install(parse_server(servers))
    bundle = settings if settings.startswith("{") else f"{{{settings}}}"
    (shell.folder / "my.yaml").write_text(
        f"title: x\nservers: ['{servers}']\nfactors:\n  kind:\n    plain: {{rows: 1k}}\n    other: {bundle}\n"
        "workloads: [oltp_read_only]\n"
    )
    ran = inside("plan", "my.yaml")
    assert ran.code == 2, ran
    assert "my.yaml:6: " in ran.complaint
    assert named in ran.complaint


def alphabet(name):
    """Letters of a content, as the engine has them."""
    if name == "emoji":
        return "".join(map(chr, range(0x1F600, 0x1F650)))
    alphabets = dict(line.split(" ", 1) for line in ALPHABETS.read_text(encoding="utf-8").splitlines())
    return alphabets.get(name, "A")


CODECS = {
    "latin1": "cp1252", "cp850": "cp850", "cp1251": "cp1251", "cp866": "cp866", "koi8r": "koi8_r", "koi8u": "koi8_u",
    "sjis": "shift_jis", "cp932": "cp932", "ujis": "euc_jp", "gb2312": "gb2312", "gbk": "gbk", "gb18030": "gb18030",
    "euckr": "euc_kr", "big5": "big5", "latin2": "iso8859_2", "greek": "iso8859_7", "utf8mb4": "utf_8",
    "ascii": "ascii", "tis620": "tis_620", "hebrew": "iso8859_8", "cp1250": "cp1250", "utf16": "utf_16",
}  # fmt: skip


@pytest.mark.parametrize("content", CONTENTS)
def test_character_sets_hold_what_their_codecs_can_encode(content):
    letters = alphabet(content)

    def encodable(codec):
        try:
            codecs.encode(letters, codec)
        except UnicodeEncodeError:
            return False
        return True

    assert {name: holds(name, content) for name in CODECS} == {name: encodable(codec) for name, codec in CODECS.items()}
    assert holds("utf8", content) == (content != "emoji")


def test_installed_expands_to_the_installed_servers(tmp_path):
    (tmp_path / "my.yaml").write_text(
        'title: ladder\nservers: ["mysql:5.7.22", installed]\nworkloads: [oltp_read_only]\n'
    )
    have = ("mysql:5.5.34", "mysql:5.7.22", "mysql:8.0.15")
    loaded = read_study(tmp_path / "my.yaml", installed=lambda named: [name for name in have if name not in named])
    assert list(loaded.levels["server"]) == ["mysql:5.7.22", "mysql:5.5.34", "mysql:8.0.15"]
    with pytest.raises(SpecError, match="nothing is left to compare"):
        make_study(read_study(tmp_path / "my.yaml"), seed=1)


def test_errors_after_installed_name_the_line_in_the_file(tmp_path):
    text = 'title: ladder\nservers:\n- mysql:5.7.22\n- installed\n- "mysql:"\nworkloads: [oltp_read_only]\n'
    (tmp_path / "my.yaml").write_text(text)
    with pytest.raises(SpecError, match=r"my\.yaml:5: "):
        read_study(tmp_path / "my.yaml", installed=lambda _named: ["mysql:5.5.34", "mysql:8.0.15"])


@pytest.mark.parametrize(
    ("named", "more"),
    [("mysql:8.0", []), ("mysql:8.0.15", []), ("mysql:8.0,innodb_io_capacity=500", ["mysql:8.0.15"])],
)
def test_installed_does_not_repeat_a_server_named_by_its_series(tmp_path, monkeypatch, named, more):
    monkeypatch.setattr(servers, "is_installed", lambda entry: entry.name in ("mysql-8.0.15", "mysql-5.7.22"))
    (tmp_path / "my.yaml").write_text(f'title: ladder\nservers: ["{named}", installed]\nworkloads: [oltp_read_only]\n')
    study = request_study(str(tmp_path / "my.yaml")).study
    assert [arm.label for arm in study.arms] == [named, "mysql:5.7.22", *more]
