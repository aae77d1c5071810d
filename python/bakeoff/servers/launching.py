"""How a server's process is started: straight from its binary, or in a container."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bakeoff.servers import docker
from bakeoff.servers.identity import Identity, server_identity
from bakeoff.servers.model import Installation


@dataclass(frozen=True)
class Launch:
    """Arguments of `supervise.spawn`, ready.

    Attributes:
        container: name of the container; empty for a process of the host.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    identity: Identity
    cpus: frozenset[int] | None
    container: str = ""


def prepare(
    installation: Installation,
    options: Sequence[str],
    env: Mapping[str, str],
    folders: Sequence[Path],
    cpus: frozenset[int] | None = None,
    *,
    feeds: bool = False,
) -> Launch:
    """The launch of one server process.

    Args:
        installation: whose binary it is.
        env: the server's whole environment.
        cpus: that it may use; None: all.
        options: after the binary's own arguments and `--no-defaults`.
        folders: all that it reads and writes; the last one's path gives a container its name.
        feeds: it will read a script from standard input.

    Raises:
        ServerError: a container is needed, and no engine answers.
    """
    identity = server_identity()
    argv = (*installation.argv, "--no-defaults", *installation.base_options, *options)
    if not installation.container_image:
        return Launch(argv, env, identity, cpus)
    name = "-".join(folders[-1].parts[-2:]).lstrip(".")
    wrapped = docker.command(installation, argv, name, folders, env, cpus, identity, feeds=feeds)
    return Launch(
        tuple(wrapped), dict(os.environ), Identity(identity.name, identity.uid, identity.gid, switch=False), None, name
    )
