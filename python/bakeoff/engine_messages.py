"""What the engine is asked to measure, and what it answers (docs/reference/engine.md)."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from bakeoff.errors import EngineError

_ROW = ConfigDict(extra="forbid")


class Work(TypedDict, total=False):
    """The fields of a request to measure that depend on the kind of workload: a script, or a capture."""

    script: str
    options: dict[str, Any]
    arm_options: dict[str, dict[str, Any]]
    load: dict[str, str | float]
    capture: str
    chunk_events: int
    speed: float | None
    reads_only: bool


class MeasureRequest(Work):
    """A request to measure one cell."""

    cell: str
    threads: int
    arms: list[str]
    seconds: float | None
    blocks: int | None
    slice_ns: int
    guard_ns: int
    order_seed: int
    key_seed: int
    placement: str
    freeze: bool


@with_config(_ROW)
class SliceMessage(TypedDict):
    """One slice; None for what the server or `/proc` does not tell."""

    type: Literal["slice"]
    id: int
    cell: str
    arm: str
    block: int
    position: int
    start_ns: int
    length_ns: int
    load_ns: int
    busy_ns: int
    connections: int
    events: int
    outside_events: int
    reads: int
    writes: int
    other: int
    errors: dict[str, int]
    retries: int
    reconnects: int
    late_starts: int
    dropped: int
    latency_sum_ns: int
    latency_max_ns: int
    sent_bytes: int
    received_bytes: int
    client_user_ns: int | None
    client_system_ns: int | None
    server_cpu_ns: int | None
    server_read_bytes: int | None
    server_write_bytes: int | None
    server_rss_bytes: int | None
    host_user_ns: int | None
    host_system_ns: int | None
    host_iowait_ns: int | None
    host_steal_ns: int | None
    host_idle_ns: int | None
    context_switches: int | None
    threads: dict[str, int]


@with_config(_ROW)
class HistogramMessage(TypedDict):
    """Latencies of one operation on one arm; `hdr` is the whole histogram."""

    type: Literal["histogram"]
    id: int
    cell: str
    arm: str
    operation: str
    clock: Literal["service", "response"]
    count: int
    mean_ns: float
    min_ns: int
    max_ns: int
    quantiles_ns: dict[str, int]
    hdr: str


@with_config(_ROW)
class FailureCount(TypedDict):
    operation: str
    sql_errno: int
    count: int
    message: str


@with_config(_ROW)
class FailuresMessage(TypedDict):
    """What failed in a replay on one arm."""

    type: Literal["failures"]
    id: int
    cell: str
    arm: str
    failures: list[FailureCount]


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True)


class Hello(_Answer):
    type: Literal["hello"]
    contract: int
    engine: str
    build: dict[str, str]
    pid: int

    def facts(self) -> dict[str, Any]:
        return self.model_dump(exclude={"type", "pid"})


class Log(_Answer):
    type: Literal["log"]
    level: str
    message: str


class Failed(_Answer):
    """The last answer to a request that failed; `id` is None if the engine could not read it."""

    type: Literal["error"]
    id: int | None
    message: str
    code: str
    arm: str | None = None
    sql_errno: int | None = None


class Progress(_Answer):
    type: Literal["progress"]
    id: int
    label: str
    done: int
    total: int


class Translated(_Answer):
    """What a load replaced because the server does not know it, and how many statements it left out, by reason."""

    type: Literal["translated"] = "translated"
    id: int = 0
    names: dict[str, str] = {}
    left_out: dict[str, int] = {}


class Done(_Answer):
    type: Literal["done"]
    id: int
    seconds: float
    workers_stopped: int = 0


class Cpus(_Answer):
    """How long two CPUs take to pass a cache line to each other and back; None with one CPU, or busy ones."""

    type: Literal["cpus"]
    id: int
    cache_line_ns: int | None


class Probed(_Answer):
    """The network between the engine and the servers' host: median round trip, and bytes/s towards the engine."""

    type: Literal["probed"]
    id: int
    rtt_ns: int
    bytes_per_s: float


class Note(_Answer):
    """An answer of which only the kind matters."""

    type: Literal["opened", "started", "pong"]
    id: int


Row = SliceMessage | HistogramMessage | FailuresMessage
Answer = Row | Hello | Log | Failed | Progress | Translated | Done | Cpus | Probed | Note

_ANSWERS: TypeAdapter[Answer] = TypeAdapter(Annotated[Answer, Field(discriminator="type")])


def read_answer(line: str) -> Answer:
    try:
        return _ANSWERS.validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise EngineError(
            f"the engine sent a line that this bakeoff does not understand ({where}: {first['msg']}): {line[:80]}",
            hint="Build both from the same tree: make setup.",
        ) from None
