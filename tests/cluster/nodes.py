"""A Ray cluster of a head and nodes on this machine, each node with its own cache; ends with standard input.

`python nodes.py FOLDER NAME...` prints one line of JSON: addresses, process ids of the head's GCS and of every raylet.
"""

import contextlib
import json
import os
import socket
import sys
import tempfile
from pathlib import Path


def main(folder: Path, names: list[str]) -> None:
    os.environ |= {
        "RAY_TMPDIR": str(folder),  # else sessions fill /tmp/ray for ever
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_AUTH_TOKEN_PATH": str(folder / "token"),
        "RAY_worker_niceness": "0",
    }
    tempfile.tempdir = str(folder)
    (folder / "token").write_text("0" * 64)
    (folder / "token").chmod(0o600)
    from ray.cluster_utils import Cluster

    small = {"object_store_memory": 80_000_000}
    cluster = Cluster()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    head = cluster.add_node(
        num_cpus=0, include_dashboard=False, node_name="head", ray_client_server_port=port, wait=False, **small
    )
    nodes = {
        name: cluster.add_node(
            num_cpus=1, node_name=name, resources={"bench": 1}, wait=False,
            env_vars={"XDG_CACHE_HOME": str(folder / name)}, **small,
        )
        for name in names
    }  # fmt: skip
    cluster.wait_for_nodes()
    reported = {
        "address": cluster.address,
        "client": f"ray://127.0.0.1:{port}",
        "gcs": pid_of(head, "gcs_server"),
        "raylets": {name: pid_of(node, "raylet") for name, node in nodes.items()},
    }
    print(json.dumps(reported), flush=True)
    sys.stdin.read()
    with contextlib.suppress(Exception):  # a test may have killed parts of it
        cluster.shutdown()


def pid_of(node, kind: str) -> int:
    return node.all_processes[kind][0].process.pid


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
