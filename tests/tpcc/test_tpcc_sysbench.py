"""`bakeoff sysbench tpcc …` with the options that people know, on a real server, as a user types it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

BAKEOFF = Path(sys.executable).parent / "bakeoff"

pytestmark = [pytest.mark.server, pytest.mark.slow]

# Options of `prepare` and `run` alike, and the tables that they make.
SETS = [
    ("--scale=1", "new_orders"),
    ("--warehouses=1 --tables=1 --table-suffix=always --new-order-table=new_order --use-fk=off", "new_order1"),
    (
        "--scale=1 --force-pk --create-table-options=ROW_FORMAT=COMPACT --db-ps-mode=disable --prepared=off",
        "new_orders",
    ),
    ("--scale=1 --mysql-storage-engine=myisam --load-index=before", "new_orders"),
]
RUNS = [
    "--trx_level=RC --statements=multi",
    "--trx_level=SER --deck=off --mix=45,43,4,4,4",
    "--home-warehouse=random --ramp-up=1 --report-interval=1",
    "--keying-time --think-time --mix=1,1,1,1,1",
]


@pytest.fixture
def sysbench(open_shop):
    """Run `sysbench("--scale=1", "run")` on an empty database; returns exit code and output."""
    shop = open_shop("mysql:5.7.22")
    shop.sql("CREATE DATABASE IF NOT EXISTS typed")

    def run(options, command):
        where = [f"--mysql-socket={shop.instance.socket_path}", "--mysql-user=root", "--mysql-db=typed", "--threads=4"]
        line = [str(BAKEOFF), "sysbench", "tpcc", *where, *options.split(), command]
        done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=300)
        return done.returncode, done.stdout + done.stderr

    run.shop = shop
    yield run
    shop.sql("DROP DATABASE typed")


def value_of(said, name):
    return re.search(rf"^ +{re.escape(name)}: +(.+)$", said, re.MULTILINE)[1]


@pytest.mark.parametrize(("options", "table"), SETS)
def test_tables_can_be_created_in_every_way(sysbench, options, table):
    code, said = sysbench(options, "prepare")
    assert code == 0, said
    assert re.search(r"\d+ rows in [\d.]+ s \(\d+ rows/s\)", said), said
    found = {row[0] for row in sysbench.shop.sql("SHOW TABLES FROM typed")}
    assert table in found
    assert len(found) == 9
    code, said = sysbench(options, "check")
    assert (code, said.count(": holds")) == (0, 12), said
    # Without transactions two terminals take one order number: MyISAM is for loading and for one thread.
    alone = " --threads=1" if "myisam" in options else ""
    code, said = sysbench(f"{options} --time=2{alone}", "run")
    assert code == 0, said
    assert float(value_of(said, "tpmC")) > 0
    code, said = sysbench(options, "cleanup")
    assert code == 0, said
    assert not sysbench.shop.sql("SHOW TABLES FROM typed")


def test_every_way_to_run_works_and_a_failing_check_is_reported(sysbench):
    assert sysbench("--scale=1", "prepare")[0] == 0
    for options in RUNS:
        code, said = sysbench(f"--scale=1 --time=5 {options}", "run")
        assert code == 0, said
        for name in (
            "tpmC",
            "tpmTotal",
            "response times (90%)",
            "mix",
            "rollbacks (1%)",
            "deliveries skipped",
            "retried",
        ):
            assert value_of(said, name), said
        assert ("efficiency:" in said) == ("--think-time" in options)
    assert sysbench("--scale=1", "check")[0] == 0
    sysbench.shop.sql("UPDATE typed.warehouse SET w_ytd = w_ytd + 0.01")
    code, said = sysbench("--scale=1", "check")
    assert code == 1
    # Conditions are dealt to the threads; the first that does not hold ends the command.
    assert "W_YTD = sum(D_YTD): FAILED" in said or "W_YTD = sum(H_AMOUNT): FAILED" in said
