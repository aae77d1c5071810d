"""Start an ssh server with generated keys, and give the command that reaches it."""

import os
import shlex
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from tests.conftest import wait_for


class Sshd:
    """An sshd that runs until `close`, inside the network namespace `space` if one is given.

    Attributes:
        command: for `$BAKEOFF_SSH`.
        cache: the cache folder of whoever logs in.
    """

    def __init__(self, folder: Path, *, space: str = "") -> None:
        program = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
        if not program:
            pytest.skip("openssh-server is not installed: tools/setup --tests")
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)
        self.folder = folder
        self.cache = folder / "there"
        self._inside = ["ip", "netns", "exec", space] if space else []
        self._program = program
        for key in ("host_key", "own_key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / key], check=True)
        self.port = free_port() if not space else 2222
        self._known = folder / "known_hosts"
        key = (folder / "host_key.pub").read_text()
        names = [f"[{address}]:{self.port}" for address in ("127.0.0.1", "10.0.0.1", "10.1.0.1", "fd00::1")]
        self._known.write_text(f"{','.join(names)} {key}")
        (folder / "sshd_config").write_text(
            f"Port {self.port}\nHostKey {folder}/host_key\nPidFile none\nUsePAM no\n"
            f"AuthorizedKeysFile {folder}/own_key.pub\nStrictModes no\nPasswordAuthentication no\n"
            f"SetEnv XDG_CACHE_HOME={self.cache}\n"
        )
        self.command = self.command_with()
        self.start()

    def start(self):
        self._process = subprocess.Popen(
            [*self._inside, self._program, "-D", "-f", self.folder / "sshd_config"],
            stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def command_with(self, *, key="own_key", known=None, more=""):
        """The ssh command with another key or other known hosts."""
        words = ["ssh", "-F", "/dev/null", "-p", str(self.port), "-i", f"{self.folder}/{key}"]
        words += ["-o", "IdentitiesOnly=yes", "-o", f"UserKnownHostsFile={known or self._known}"]
        return f"{shlex.join(words)} {more}".strip()

    def wait_until_it_answers(self):
        wait_for(self._answers, 20, "sshd")

    def _answers(self):
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as peer:
                return peer.recv(4) == b"SSH-"
        except OSError:
            return False

    def close(self):
        self._process.terminate()
        self._process.wait(10)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]
