"""What replays of equal servers claim about queries, and whether they find one query of thirty that takes 20 % longer.

    python bench/replay/claims.py [--equal 20] [--slowed 5] [--server mysql:8.0.15] [--budget 90s] [--seed 0]

Real servers, restarted for every epoch. One query spends nearly all of its time in BENCHMARK, whose count is a setting
of the server (max_error_count): the second server of a slowed replay has 20 % more.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import record

ROWS, DIGESTS, STATEMENTS, CONNECTIONS = 20_000, 30, 20_000, 4
LOOPS, LOOPS_SLOWED = 2_000, 2_400  # 2,000 take about 0.3 ms
SPINNING = "SELECT c, BENCHMARK(@@max_error_count, SHA2('x', 256)) FROM t WHERE id = {id}"
HEAD = "mysqld, Version: 8.0.15 (x). started with:\nTcp port: 0  Unix socket: x\nTime  Id Command    Argument\n"


def write_files(folder: Path) -> None:
    """Write the dump and the general log: 29 queries of 1 to 200 rows, and the one that spins."""
    chance = random.Random(7)
    dump = ["CREATE DATABASE shop;\nUSE shop;\nCREATE TABLE t (id INT PRIMARY KEY, k INT, c CHAR(60), KEY (k));\n"]
    for first in range(1, ROWS + 1, 1000):
        rows = (f"({row},{chance.randrange(ROWS)},'{chance.random()}')" for row in range(first, first + 1000))
        dump.append(f"INSERT INTO t VALUES {','.join(rows)};\n")
    (folder / "shop.sql").write_text("".join(dump))
    queries = [SPINNING]
    for number in range(1, DIGESTS):
        length = 1 if number % 2 else round(200 ** (number / DIGESTS))
        queries.append(
            f"SELECT id AS id{number}, c FROM t WHERE id BETWEEN {{id}} AND {{id}} + {length - 1} ORDER BY c"
        )
    with (folder / "shop.log").open("w") as log:
        log.write(HEAD)
        for at in range(STATEMENTS):
            sql = chance.choices(queries, [1] + [3] * (DIGESTS - 1))[0].format(id=chance.randrange(1, ROWS - 200))
            begun = datetime.fromtimestamp(1_795_392_000 + at / 1000, UTC)
            log.write(f"{begun:%Y-%m-%dT%H:%M:%S.%f}Z\t    {1 + at % CONNECTIONS} Query\t{sql}\n")


def replay(folder: Path, arms: list[str], *, budget: str, seed: int) -> dict[str, object]:
    """Run one replay and return what it found for each query."""
    command = [
        sys.executable, "-m", "bakeoff.cli.start", "replay", "shop.log", *arms, "--data", "shop.sql",
        "--threads", str(CONNECTIONS), "--budget", budget, "--seed", str(seed), "--format", "json",
        "--runs", str(folder / "runs"),
    ]  # fmt: skip
    begin = time.monotonic()
    ran = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True, check=True)
    rows = json.loads(ran.stdout)["queries"]
    claims = {row["query"]: row["verdict"] for row in rows if row["verdict"] in ("SLOWER", "FASTER")}
    (spinning,) = [row for row in rows if "BENCHMARK" in row["query"]]
    differing = {row["query"]: row["differs"] for row in rows if row["differs"]}
    about = ("ratio", "ratio_low", "ratio_high", "verdict")
    return {
        "arms": arms, "seed": seed, "seconds": round(time.monotonic() - begin, 1), "claims": claims,
        "differing": differing, "spinning": {name: spinning[name] for name in about},
    }  # fmt: skip


def main() -> None:
    """Replay equal and slowed servers in turn, print a line for each and the counts, and keep them in bench/results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--equal", type=int, default=20)
    parser.add_argument("--slowed", type=int, default=5)
    parser.add_argument("--server", default="mysql:8.0.15")
    parser.add_argument("--budget", default="90s")
    parser.add_argument("--seed", type=int, default=0, help="of the first replay; the next ones count on")
    asked = parser.parse_args()
    at = datetime.now(UTC)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder)
        equal = [f"{asked.server},max_error_count={LOOPS}"] * 2
        slowed = [equal[0], f"{asked.server},max_error_count={LOOPS_SLOWED}"]
        kinds = random.Random(1).sample(["equal"] * asked.equal + ["slowed"] * asked.slowed, asked.equal + asked.slowed)
        found = []
        for seed, kind in enumerate(kinds, asked.seed):
            arms = equal if kind == "equal" else slowed
            found.append({"kind": kind, **replay(folder, arms, budget=asked.budget, seed=seed)})
            print(json.dumps(found[-1]), flush=True)
            # After each one, so that a replay that fails loses none of the earlier ones.
            to = record.write("replay-claims", {"settings": vars(asked), "replays": found}, at=at)
    claiming = sum(bool(each["claims"] or each["differing"]) for each in found if each["kind"] == "equal")
    right = sum(
        len(each["claims"]) == 1 and not each["differing"] and each["spinning"]["verdict"] == "SLOWER"
        for each in found
        if each["kind"] == "slowed"
    )
    print(f"equal servers: {claiming} of {asked.equal} claim anything; slowed: {right} of {asked.slowed} found, alone")
    print(to)


if __name__ == "__main__":
    main()
