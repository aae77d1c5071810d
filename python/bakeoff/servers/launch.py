"""Becomes a server process: drops privileges, asks to end with bakeoff, execs. `process.spawn` runs it as a program.

`python -I -S launch.py DESCRIPTOR` reads JSON {parent, uid, gid, cpus, groups, huge_pages, argv, env} from the
descriptor, because the environment may hold a password and everyone can see arguments. It imports only a few
standard modules, to start in milliseconds. The order matters: only root may join a group, and the kernel clears
PR_SET_PDEATHSIG when the user changes.
"""

import contextlib
import ctypes
import json
import os
import resource
import signal
import sys

PR_SET_PDEATHSIG = 1
PR_SET_THP_DISABLE = 41
MOST_FILES = 1 << 20


def allowed_files(most: int) -> int:
    """Cap the limit of open files, about 2**30 in a container: MySQL 5.5 to 5.7 allocate an entry for each file."""
    return MOST_FILES if most == resource.RLIM_INFINITY else min(most, MOST_FILES)


def main() -> None:
    with os.fdopen(int(sys.argv[1]), encoding="utf-8") as file:
        order = json.load(file)
    with contextlib.suppress(ValueError, OSError):  # the server's log says if it has too few
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed_files(most), most))
    try:
        for file in order["groups"]:
            with open(file, "w", encoding="ascii") as procs:  # noqa: PTH123 — pathlib takes milliseconds to import
                procs.write("0")
        libc, flags = ctypes.CDLL(None, use_errno=True), order["huge_pages"]
        if flags is not None and libc.prctl(PR_SET_THP_DISABLE, 1, flags, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_THP_DISABLE)")
        if order["cpus"]:
            os.sched_setaffinity(0, order["cpus"])
        if order["uid"] is not None:
            os.setgroups([])
            os.setgid(order["gid"])
            os.setuid(order["uid"])
        if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
        if os.getppid() != order["parent"]:
            os._exit(1)  # bakeoff died before the signal was armed
        signal.pthread_sigmask(signal.SIG_SETMASK, set())
        os.execve(order["argv"][0], order["argv"], order["env"])
    except OSError as problem:
        sys.stderr.write(f"bakeoff launch: {order['argv'][0]}: {problem.strerror or problem}\n")
        sys.stderr.flush()
        os._exit(126)


if __name__ == "__main__":
    main()
