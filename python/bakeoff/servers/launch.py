"""Become a server: run by the spawner as a program of its own, it drops privileges, ties its life to ours, and execs.

`python -I -S launch.py DESCRIPTOR`, from which it reads JSON with {parent, uid, gid, cpus, argv, env}: the environment
may hold a password, and arguments are for everyone to see. Imports nothing but built-in modules, so that it starts in
milliseconds. It exists because the order matters: the kernel clears PR_SET_PDEATHSIG when the user changes, and keeps
it over exec.
"""

import ctypes
import json
import os
import resource
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Never returns: the process becomes the server, or dies with one line on standard error."""
    with os.fdopen(int(sys.argv[1]), encoding="utf-8") as file:
        order = json.load(file)
    try:
        soft_limit, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (hard_limit if hard_limit != resource.RLIM_INFINITY else 1 << 20, hard_limit)
        )
    except (ValueError, OSError):
        del soft_limit  # the server runs with what it has, and says so in its log
    try:
        if order["cpus"]:
            os.sched_setaffinity(0, order["cpus"])
        if order["uid"] is not None:
            os.setgroups([])
            os.setgid(order["gid"])
            os.setuid(order["uid"])
        if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
        if os.getppid() != order["parent"]:
            os._exit(1)  # bakeoff died before the signal was armed
        signal.pthread_sigmask(signal.SIG_SETMASK, set())
        os.execve(order["argv"][0], order["argv"], order["env"])
    except OSError as problem:
        sys.stderr.write(f"bakeoff launch: {order['argv'][0]}: {problem.strerror or problem}\n")
        sys.stderr.flush()
        os._exit(126)


main()
