"""Captures as a kind of workload: they run on tables that a dump, a script or a running server provides."""

from contextlib import suppress
from pathlib import Path

from bakeoff.plan.workloads import Options, WorkloadKind

_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


def is_capture(path: str) -> bool:
    with suppress(OSError), Path(path).open("rb") as file:
        return file.read(len(_ZSTD_MAGIC)) == _ZSTD_MAGIC
    return False


class CaptureKind(WorkloadKind):
    feature = "replay"
    fills_tables = False
    fixed_work = True
    sized_by = ()

    def owns(self, script: str) -> bool:
        return is_capture(script)

    def sizes(self, options: Options) -> dict[str, int]:
        return {}

    def loaded_bytes(self, script: str, options: Options) -> int:
        return 0


WORKLOAD = CaptureKind()
