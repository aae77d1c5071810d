"""The account that servers run as: ourselves, or a system account without privileges when we are root.

`BAKEOFF_SERVER_USER` names another account. mysqld refuses to run as root for good reasons, and `--user=root` is
never given.
"""

import os
import pwd
import shutil
import subprocess
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from bakeoff.errors import HostError

DEFAULT_ACCOUNT = "bakeoff"


@dataclass(frozen=True)
class Identity:
    """User and group that a server process has.

    Attributes:
        switch: we are root and must become this account before exec.
    """

    name: str
    uid: int
    gid: int
    switch: bool

    def own(self, *paths: Path) -> None:
        """Give files to this account; nothing to do when we are it."""
        if self.switch:
            for path in paths:
                os.chown(path, self.uid, self.gid, follow_symlinks=False)


@lru_cache(maxsize=1)
def server_identity() -> Identity:
    """Who servers run as; makes the system account `bakeoff` the first time that root asks.

    Raises:
        HostError: the account named by BAKEOFF_SERVER_USER does not exist or is root, or none can be made.
    """
    wanted = os.environ.get("BAKEOFF_SERVER_USER")
    if os.geteuid() != 0:
        me = pwd.getpwuid(os.geteuid())
        if wanted and wanted != me.pw_name:
            raise HostError(
                f"BAKEOFF_SERVER_USER is {wanted}, but only root can start servers as someone else.", hint="Unset it."
            )
        return Identity(me.pw_name, os.geteuid(), os.getegid(), switch=False)
    name = wanted or DEFAULT_ACCOUNT
    entry = _account(name)
    if entry is None and not wanted:
        _make_system_account(name)
        entry = _account(name)
    if entry is None:
        raise HostError(
            f"account {name!r} does not exist.", hint=f"Run: useradd --system --shell /usr/sbin/nologin {name}"
        )
    if entry.pw_uid == 0:
        raise HostError("BAKEOFF_SERVER_USER names root; servers never run as root.", hint="Name a system account.")
    return Identity(entry.pw_name, entry.pw_uid, entry.pw_gid, switch=True)


def _account(name: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None


def _make_system_account(name: str) -> None:
    program = shutil.which("useradd", path="/usr/sbin:/sbin:/usr/bin:/bin")
    if program is None:
        raise HostError(
            "servers must not run as root, and there is no useradd to make an account.", hint="Set BAKEOFF_SERVER_USER."
        )
    shell = "/usr/sbin/nologin" if Path("/usr/sbin/nologin").exists() else "/bin/false"
    made = subprocess.run(
        [program, "--system", "--user-group", "--no-create-home", "--shell", shell, name],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode not in (0, 9):  # 9: someone else made it meanwhile
        raise HostError(
            f"account {name!r} for the servers could not be made: {made.stderr.strip()}",
            hint="Set BAKEOFF_SERVER_USER.",
        )
