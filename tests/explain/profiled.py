"""Profiles in a synthetic run directory, where the contender takes more time in some functions; those of a real run."""

from datetime import UTC, datetime

import numpy as np

from bakeoff.explain.explained import Explained
from bakeoff.explain.profiles import KERNEL, PROFILE_FILE, Function, Profile
from bakeoff.report.context import Context
from bakeoff.results import Outcome
from bakeoff.stats.model import Analysis

SERVER, LIBC = "mysqld", "libc.so.6"
BASE = (Function("handle_connection", SERVER), Function("do_command", SERVER), Function("dispatch_command", SERVER))
EXECUTE = (*BASE, Function("mysql_execute_command", SERVER), Function("JOIN::exec", SERVER))
SEND = (*BASE, Function("net_write_packet", SERVER), Function("send", LIBC), Function("unix_stream_sendmsg", KERNEL))
READ = (*EXECUTE, Function("row_search_mvcc", SERVER))
STACKS = {
    BASE: 300,
    (*BASE, Function("MYSQLparse", SERVER)): 900,
    (*EXECUTE, Function("JOIN::optimize", SERVER)): 700,
    READ: 1500,
    (*READ, Function("row_sel_store_mysql_rec", SERVER), Function("__memmove_avx_unaligned_erms", LIBC)): 800,
    (*READ, Function("btr_cur_search_to_nth_level", SERVER)): 1200,
    SEND: 1400,
    (*SEND, Function("try_to_wake_up", KERNEL)): 600,
}
MORE = {READ: 1.3}
"""How much more the contender takes, as a factor."""


def profile(stacks, rng=None, *, events=10_000, period_ns=500_000, incomplete=0):
    """Make a profile with these numbers of samples, or with Poisson draws around them if `rng` is given."""
    counts = {stack: int(rng.poisson(mean)) if rng else int(mean) for stack, mean in stacks.items()}
    fields = {"event": "cpu-clock", "period_ns": period_ns, "events": events, "seconds": 5.0, "outside": 3}
    return Profile.of_stacks(counts, **fields, incomplete=incomplete)


def contender_stacks(more=MORE):
    return {stack: mean * more.get(stack, 1.0) for stack, mean in STACKS.items()}


def add_profiles(run, *, cells, epochs=3, seed=1, stacks=STACKS, arms=("A", "B")):
    """Write explaining epochs of kind `profile` for two arms; the second takes more."""
    rng = np.random.default_rng(seed)
    directory = run.explaining("profile")
    first = len(directory.finished_epochs())
    for number in range(first, first + epochs):
        writer = directory.epoch(number, 0)
        for arm, means in zip(arms, (stacks, contender_stacks()), strict=True):
            profiles = {cell: profile(means, rng).model_dump(mode="json") for cell in cells}
            writer.write_server_json(arm, PROFILE_FILE, profiles)
        started = datetime(2026, 11, 21, 21, number, tzinfo=UTC)
        writer.finish(Outcome(epoch=number, build=0, started_at=started, wall_s=12.0, measured_s=5.0))


def profiles_of(run):
    """Return what the profiles found in the only comparison, by cell."""
    context = Context(run, run.read("analysis.json", Analysis))
    return {pair.cell: found for pair, found in context.once(Explained).profiles.items()}
