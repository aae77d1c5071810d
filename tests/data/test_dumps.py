"""What is learned about a dump before anything is loaded."""

import gzip
import json
import lzma
import os
from pathlib import Path

import pytest
from made_dumps import mydumper, mysql_shell, renamed_mydumper, study_of, zstd

from bakeoff.errors import HostError, SpecError
from bakeoff.plan.workloads import data_bytes, database_of
from bakeoff.run.forecast import forecast
from bakeoff.run.own_data import check_source, own_data
from bakeoff.spec import Workload, dumps
from bakeoff.spec.dumps import as_loaded, read_dump

SHOP = Path(__file__).parent / "shop.sql"


def names(dump):
    return [sorted(Path(file["path"]).name.removesuffix(".gz") for file in stage) for stage in dump.stages]


def test_files_of_mydumper_are_loaded_in_order(tmp_path):
    dump = read_dump(str(mydumper(tmp_path / "dump")))
    assert dump.databases == ("shop",)
    assert names(dump) == [
        ["shop-schema-create.sql"],
        ["shop.empty-schema.sql", "shop.many-schema.sql", "shop.word-schema.sql"],
        ["shop.word.00000.sql", "shop.word.00001.sql"],
        ["shop-schema-post.sql"],
        ["shop.many-schema-view.sql"],
        ["shop.word-schema-triggers.sql"],
    ]


@pytest.mark.parametrize(("name", "own"), [("`shop$eu`", "shop$eu"), ("`a``b.c`", "a`b.c"), ('"shop eu"', "shop eu")])
@pytest.mark.parametrize(("pack", "end"), [(bytes, ""), (gzip.compress, ".gz"), (lzma.compress, ".xz"), (zstd, ".zst")])
def test_a_database_mydumper_renamed_keeps_its_real_name(tmp_path, name, own, pack, end):
    dump = read_dump(str(renamed_mydumper(tmp_path / "dump", name, pack, end)))
    assert dump.databases == (own,)
    assert {file["database"] for stage in dump.stages[1:] for file in stage} == {own}
    assert [len(stage) for stage in dump.stages] == [1, 3, 2, 1, 1, 1]


def test_a_renamed_database_without_its_real_name_is_refused(tmp_path):
    folder = renamed_mydumper(tmp_path / "dump", "`shop$eu`")
    create = folder / "mydumper_0-schema-create.sql.gz"
    create.unlink()
    assert "mydumper_0 stands for a database whose name is not in mydumper_0-schema-create.sql" in refusal(
        create.parent
    )
    create.write_bytes(gzip.compress(b"-- nothing\n"))
    assert "--no-schemas" in refusal(folder)


def test_files_of_mysql_shell_are_loaded_in_order(tmp_path):
    dump = read_dump(str(mysql_shell(tmp_path / "dump")))
    assert dump.databases == ("shop",)
    assert names(dump) == [
        ["shop.sql"],
        ["shop@many.pre.sql", "shop@sale.sql", "shop@word.sql"],
        [
            "shop@sale@p0@0.tsv.zst",
            "shop@sale@p0@@1.tsv.zst",
            "shop@sale@p1@@0.tsv.zst",
            "shop@word@0.tsv",
            "shop@word@@1.tsv",
        ],
        ["shop@many.sql"],
        ["shop@word.triggers.sql"],
        ["@.post.sql"],
    ]
    rows = dump.stages[2][0]["rows"]
    assert rows["insert"] == "INSERT INTO `shop`.`word` (`id`, `text`, `bytes`) VALUES "
    assert rows["functions"] == ["", "", "FROM_BASE64"]


@pytest.mark.parametrize("pack", [lambda text: text, gzip.compress, lzma.compress, zstd])
def test_the_database_is_found_at_the_start_of_a_dump(tmp_path, pack):
    file = tmp_path / "shop.dump"
    file.write_bytes(pack(b"-- MySQL dump\nCREATE DATABASE `shop`;\n\nUSE `shop`;\nuse shop ;\nUSE `mysql`;\n"))
    assert own_data(str(file)).database == "shop"
    file.write_bytes(pack(b"\xef\xbb\xbfUSE shop\nDELIMITER $$\nUSE `shop`$$\nuse shop$$\nUSE this in words\n"))
    assert own_data(str(file)).database == "shop"
    file.write_bytes(pack(b"USE `shop`;\nUSE `stock`;\n"))
    assert own_data(str(file)).database == ""
    with pytest.raises(SpecError, match=r"contains shop, stock, but the study measures sbtest\. Write --database shop"):
        check_source(study_of(file, "sbtest"))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_dump_that_powershell_has_written_is_refused(tmp_path, encoding, pack):
    path = tmp_path / "shop.sql"
    path.write_bytes(pack(SHOP.read_text().encode(encoding)))
    with pytest.raises(SpecError, match=r"shop\.sql: it is UTF-16 text, as PowerShell's `>` writes it\.") as caught:
        own_data(str(path))
    assert "--result-file" in str(caught.value.hint)
    path.write_bytes(pack(b"\xef\xbb\xbf" + b"USE `shop`;\n" + SHOP.read_bytes()))
    assert own_data(str(path)).database == "shop"


def test_data_size_is_estimated_from_plain_and_compressed_dumps(tmp_path):
    plain, packed = tmp_path / "a.sql", tmp_path / "a.sql.gz"
    plain.write_bytes(SHOP.read_bytes() * 100)
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    study = study_of(plain)
    assert data_bytes(study, study.baseline.data) == int(plain.stat().st_size * 1.3)
    other = study_of(packed)
    assert data_bytes(other, other.baseline.data) == int(packed.stat().st_size * 4 * 1.3)


def test_a_snapshot_of_a_running_server_counts_once_in_the_disk_forecast(tmp_path):
    size = 10**8
    (tmp_path / "shop.sql").write_bytes(b"x" * round(size / 1.3))
    loaded, taken = study_of(tmp_path / "shop.sql"), study_of("mysql://reader@db1/shop")
    arms = tuple(
        arm.model_copy(update={"data": arm.data.model_copy(update={"source_bytes": size})}) for arm in taken.arms
    )
    more = forecast(taken.model_copy(update={"arms": arms})).disk_bytes - forecast(loaded).disk_bytes
    assert more == pytest.approx(size / 2, abs=100)


def test_all_workloads_use_the_studys_database():
    study = study_of(SHOP)
    assert database_of(study, study.workloads[0]) == "shop"


def test_the_database_name_of_a_script_is_ascii():
    """The folder of a non-ASCII database is unknown (`folder_of`), so its size would read as 0."""
    study = study_of("")
    assert database_of(study, Workload(script="/x/größe-2.lua")) == "shop_gr__e_2"


def test_a_dump_that_cannot_be_read_in_time_is_an_error(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "shop.sql")  # as on a mount that hangs
    monkeypatch.setattr(dumps, "_HEAD_S", 0.2)
    with pytest.raises(HostError, match=r"^data .*/shop\.sql was not read within 0\.2 s\.$"):
        dumps.head_of(str(tmp_path / "shop.sql"))


def refusal(path):
    with pytest.raises(SpecError) as caught:
        read_dump(str(path))
    return str(caught.value)


def refused(folder, change):
    mysql_shell(folder)
    change(folder)
    return refusal(folder)


def test_dumps_that_cannot_be_read_are_refused(tmp_path):
    (tmp_path / "other").mkdir()
    assert "there is no such file" in refusal(tmp_path / "none")
    assert "not a dump of mydumper or MySQL Shell" in refusal(tmp_path / "other")
    assert "was not finished" in refused(tmp_path / "a", lambda folder: (folder / "@.done.json").unlink())
    assert "shop@word.json is missing or damaged" in refused(
        tmp_path / "b", lambda folder: (folder / "shop@word.json").write_text("{")
    )
    for name, damaged in (("@", "[]"), ("shop", '{"tables": ["word"]}'), ("shop@word", '{"includesData": true}')):
        assert "the dump's JSON files are damaged" in refused(
            tmp_path / name,
            lambda folder: (folder / f"{name}.json").write_text(damaged),  # noqa: B023
        )

    for option, value in (("fieldsTerminatedBy", ","), ("defaultCharacterSet", "sjis")):

        def with_option(folder, option=option, value=value):
            about = json.loads((folder / "shop@word.json").read_text())
            about["options"][option] = value
            (folder / "shop@word.json").write_text(json.dumps(about))

        complaint = refused(tmp_path / option, with_option)
        assert f"shop.word has a format that bakeoff cannot read ({option})" in complaint
    for name, missing in (
        ("shop@word@0.tsv", "1 file of rows of shop@word.tsv"),
        ("shop@sale@p1@@0.tsv.zst", "sale@p1"),
    ):
        assert f"{missing}" in refused(tmp_path / name, lambda folder, name=name: (folder / name).unlink())
    latin = mydumper(tmp_path / "latin")
    (latin / os.fsdecode(b"shop.caf\xe9.sql")).touch()
    assert "is not UTF-8" in refusal(latin) and "is not UTF-8" in refusal(tmp_path / os.fsdecode(b"caf\xe9.sql"))
    loose = mydumper(tmp_path / "d")
    (loose / "shop.word.00002.dat").touch()
    assert "shop.word.00002.dat holds rows for LOAD DATA" in refusal(loose)


def test_a_url_needs_a_database_and_keeps_no_password():
    own = own_data("mysql://reader:s3cret@db1:3307/shop")
    assert (own.source, own.database, own.password) == ("mysql://reader@db1:3307/shop", "shop", "s3cret")
    with pytest.raises(SpecError, match="no database is named") as caught:
        own_data("mysql://reader:s3cret@db1/")
    assert "s3cret" not in str(caught.value)


def test_bad_data_sources_are_refused(inside, shell):
    """On the command line, and in a study file with its line number."""
    ran = inside("duel", "mysql:5.7.22", "mysql:8.0.15", "--data", "none.sql")
    assert ran.code == 2
    assert "none.sql: there is no such file or directory" in ran.complaint
    ran = inside("duel", "mysql:5.7.22", "mysql://root@127.0.0.1/", "--data", str(SHOP))
    assert ran.code == 2
    assert "is a running server, and bakeoff does not load a dump into one" in ran.complaint
    ran = inside(
        "duel", "mysql:5.7.22", "mysql:8.0.15", "--data", str(SHOP), "--create-table-options", "ROW_FORMAT=COMPRESSED"
    )
    assert ran.code == 2
    assert "a dump defines its own tables" in ran.complaint
    study = shell.folder / "own.yaml"
    study.write_text(
        "title: own\nservers: ['mysql:5.7.22', 'mysql:8.0.15']\nsettings:\n  data: none.sql\n"
        "workloads: [oltp_read_only]\n"
    )
    ran = inside("plan", "own.yaml")
    assert ran.code == 2
    assert "own.yaml:4: settings.data:" in ran.complaint
    study.write_text(study.read_text().replace("none.sql", "mysql://root:pw@db1/shop"))
    ran = inside("plan", "own.yaml")
    assert "own.yaml:4: settings.data: a password does not belong in a study file" in ran.complaint


def test_an_unsupported_database_name_is_an_error(inside, shell):
    renamed_mydumper(shell.folder / "dump", "`db.dot`")
    ran = inside("duel", "mysql:5.7.22", "mysql:8.0.15", "--data", "dump", "-w", "own.lua")
    assert ran.code == 2
    assert "'db.dot' is not a database name (1 to 64 letters" in ran.complaint


def test_a_study_file_varies_its_data(inside, shell):
    (shell.folder / "one.sql").write_bytes(b"USE `shop`;\n" + SHOP.read_bytes())
    (shell.folder / "two.sql").write_bytes(b"USE `shop`;\n" + SHOP.read_bytes() * 2)
    (shell.folder / "own.yaml").write_text(
        "title: own\nservers: ['mysql:8.0.15']\nfactors:\n  data: [one.sql, two.sql]\nworkloads: [oltp_read_only]\n"
        "database: shop\n"
    )
    ran = inside("plan", "own.yaml", "--format", "json")
    assert ran.code == 0, ran
    assert json.loads(ran.out)["loads"] == 4


def test_the_note_lists_replaced_names():
    assert as_loaded("mysql:5.7", {}) == ""
    said = as_loaded("mysql:5.7", {"a_ci": "b_ci", "NO_X": ""})
    assert said == "mysql:5.7 has the dump's a_ci as b_ci, SQL mode NO_X left out"
