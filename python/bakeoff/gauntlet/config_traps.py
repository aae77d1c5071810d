"""G15: two servers that differ where nobody said so. Every difference must be listed, or the verdict refused."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from bakeoff.gauntlet.model import Check, Finding, Setting, Size
from bakeoff.servers import ServerHouse, ServerMemory, install, settings_for
from bakeoff.servers.places import work_root
from bakeoff.spec import Arm, Data, Origin, Profile, ServerSpec, Study, Workload, parse_server
from bakeoff.stats.analysis import analyse
from bakeoff.stats.model import Stop, Word
from bakeoff.stats.settings import differences, undeclared
from bakeoff.stats.simulate import QUIET, simulate_epoch

# Option files of a contender: the usual way in which a setting differs without anybody typing it.
_TRAPS: Mapping[str, tuple[str, ...]] = {
    "log_bin": ("log_bin=binlog", "server_id=7"),
    "innodb_doublewrite": ("innodb_doublewrite=OFF",),
    "sync_binlog": ("log_bin=binlog", "server_id=7", "sync_binlog=1000"),
    "innodb_flush_method": ("innodb_flush_method=O_DIRECT_NO_FSYNC",),
    "character_set_server": ("character_set_server=latin1", "collation_server=latin1_swedish_ci"),
    "innodb_flush_log_at_trx_commit": ("innodb_flush_log_at_trx_commit=2",),
}
_MEMORY = ServerMemory(buffer_pool_bytes=128 * 2**20, redo_bytes=96 * 2**20)


def settings(setting: Setting) -> Finding:
    """Start a server for each trap (quick: one with all of them) and look at what is listed."""
    together = setting.size is Size.QUICK
    files = {"all": tuple(dict.fromkeys(line for lines in _TRAPS.values() for line in lines))} if together else _TRAPS
    base = _study(parse_server(setting.server), parse_server(setting.server))
    missed = []
    with ServerHouse(work_root()) as house:
        plain = _variables(house, base.baseline)
        for name, lines in files.items():
            file = setting.folder / f"{name}.cnf"
            file.write_text("[mysqld]\n" + "\n".join(lines) + "\n", encoding="utf-8")
            setting.tell(f"{setting.server},@{file.name}")
            study = _study(base.baseline.server, _with_file(base.baseline.server, file))
            listed = undeclared(differences(plain, _variables(house, study.arms[1]), study, study.arms[1]))
            missed += [trap for trap in (_TRAPS if together else (name,)) if trap not in listed]
    rows = _rows_are_refused()
    listed_count = len(_TRAPS) - len(missed)
    return Finding(
        found=f"{listed_count} of {len(_TRAPS)} settings listed as undeclared"
        + (f", not {', '.join(missed)}" if missed else "")
        + f"; tables of other rows on running servers: {'no verdict' if rows else 'CLAIMED'}",
        passed=not missed and rows,
        figures={"traps": list(_TRAPS), "missed": missed},
    )


def _study(baseline: ServerSpec, contender: ServerSpec) -> Study:
    # Tables in the servers' own character set: a data set with one of its own would overrule the trap.
    arms = tuple(
        Arm(name=name, label=name, server=spec, data=Data())
        for name, spec in zip("AB", (baseline, contender), strict=True)
    )
    return Study(title="traps", arms=arms, workloads=(Workload(script="oltp_point_select"),))


def _with_file(server: ServerSpec, file: Path) -> ServerSpec:
    return server.model_copy(update={"cnf_files": (str(file),)})


def _variables(house: ServerHouse, arm: Arm) -> dict[str, str]:
    installation = install(arm.server)
    chosen = settings_for(installation, arm.server, Profile.MATCHED, arm.data, _MEMORY, connections=50)
    instance = house.create(arm.name, installation, chosen)
    try:
        instance.start()
        return instance.variables()
    finally:
        instance.remove()


def _rows_are_refused() -> bool:
    """Bakeoff loads equal rows into servers of its own. Running ones keep theirs, and get no verdict, however clear."""
    urls = [ServerSpec(origin=Origin.URL, location=f"mysql://root@127.0.0.1:{port}/") for port in (3306, 3307)]
    rng = np.random.default_rng(1)
    epochs = [simulate_epoch(rng, epoch=number, effects={"A": 0.0, "B": -0.3}, noise=QUIET) for number in range(8)]
    (told,) = analyse(epochs, _study(urls[0], urls[1]), ended=Stop.BUDGET).comparisons
    return set(told.verdict.words) == {Word.INCONCLUSIVE} and any("NO RESTARTS" in flag for flag in told.flags)


CHECKS = (
    Check(
        test="G15",
        what="servers that differ in what nobody declared",
        target="every difference listed, or the verdict refused",
        sizes=frozenset({Size.QUICK, Size.FULL}),
        run=settings,
    ),
)
