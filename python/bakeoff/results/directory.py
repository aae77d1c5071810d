"""Create, write and read run directories."""

import fcntl
import gzip
import hashlib
import platform
import re
import secrets as random_text
import shutil
import zlib
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, TypeVar, cast
from urllib.parse import unquote

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import from_json

from bakeoff.errors import BakeoffError, ResultsError
from bakeoff.files import sync_directory, write_atomically
from bakeoff.plan import Plan
from bakeoff.redaction import Redactor
from bakeoff.results import epoch_data
from bakeoff.results.frame import Frame, read_parquet
from bakeoff.results.manifest import (
    FORMAT,
    NETWORK,
    Host,
    Manifest,
    Network,
    bakeoff_version,
    checkout_commit,
    gather_host,
)
from bakeoff.spec import Study
from bakeoff.units import visible

T = TypeVar("T")

_REASON_MAX = 200  # characters: a reason may quote the file
_DERIVED = ("analysis.json", "wall.json", "report.html", "gate.md")  # made again when a run ends
_EPOCHS = "epochs"


class RunDirectory:
    """A run on disk. Get one from `RunDirectory.create` or `open_run`."""

    def __init__(self, path: Path, *, redactor: Redactor | None = None, epochs: str = _EPOCHS) -> None:
        self.path = path
        self._redactor = redactor or Redactor()
        self._epochs = epochs
        self._plan: tuple[int, Plan | None] = (0, None)

    @classmethod
    def create(
        cls,
        root: Path,
        study: Study,
        *,
        command: Sequence[str] = (),
        engine: Mapping[str, Any] | None = None,
        data_path: Path | None = None,
        secrets: Iterable[str] = (),
    ) -> "RunDirectory":
        """Create `root/TITLE-TIME-XXXX` with its manifest and study; raise `ResultsError` if it cannot be written.

        `secrets` are passwords that must never be written; the manifest describes the file system of `data_path`.
        """
        redactor = Redactor(secrets, study)
        created = datetime.now(UTC).replace(microsecond=0)
        name = f"{slug(study.title)}-{created:%Y%m%dT%H%M%SZ}-{random_text.token_hex(2)}"
        manifest = Manifest(
            name=name,
            title=study.title,
            created_at=created,
            bakeoff=bakeoff_version(),
            commit=checkout_commit(),
            python=f"{platform.python_implementation()} {platform.python_version()}",
            command=tuple(visible(redactor.free_text(word)) for word in command),  # a file's name may not be UTF-8
            seed=study.seed,
            engine=dict(engine or {}),
            host=gather_host(root, data_path),
        )
        run = cls(root / name, redactor=redactor)
        making = root / f".{name}.part"
        try:
            (making / _EPOCHS).mkdir(parents=True)
            for file, model in (("manifest.json", manifest), ("study.json", study)):
                write_atomically(making / file, redactor.json_bytes(model))
            making.rename(run.path)
            sync_directory(root)
        except BaseException as error:
            shutil.rmtree(making, ignore_errors=True)
            if not isinstance(error, OSError):
                raise
            raise ResultsError(
                f"run directory {run.path} cannot be created: {error.strerror}.",
                hint="Set BAKEOFF_RUNS or --runs to a writable directory.",
            ) from error
        return run

    @property
    def name(self) -> str:
        return self.path.name

    def explaining(self, kind: str) -> "RunDirectory":
        """Return the same run with its extra epochs of one kind (`explain/KIND`) in place of the measured ones."""
        return RunDirectory(self.path, redactor=self._redactor, epochs=f"explain/{kind}")

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Lock the run for writing, or raise `ResultsError` if another process holds it."""
        with (self.path / ".lock").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ResultsError(f"run {self.name} is being written by another bakeoff.") from None
            except OSError as error:
                raise ResultsError(f"run {self.name} cannot be locked: {error.strerror}.") from None
            yield

    # ---- writing -----------------------------------------------------------------------------------------------

    def write_json(self, name: str, content: BaseModel | Mapping[str, Any] | Sequence[Any]) -> None:
        """Write `plan.json`, `builds/A-0.json` … atomically, without passwords."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, self._redactor.json_bytes(content))

    def write_text(self, name: str, text: str) -> None:
        write_atomically(self.path / name, text.encode())

    def epoch(self, number: int, build: int) -> epoch_data.EpochWriter:
        """Begin an epoch. An unfinished attempt is kept as `epochs/NNN.abandoned-K`; stale reports are removed."""
        path = self.path / self._epochs / f"{number:03d}"
        if (path / "outcome.json").exists():
            raise ResultsError(f"run {self.name}: epoch {number} is finished and is not written again.")
        for derived in _DERIVED if self._epochs == _EPOCHS else ():
            (self.path / derived).unlink(missing_ok=True)
        if path.exists():
            names = (path.with_name(f"{path.name}.abandoned-{attempt}") for attempt in count(1))
            path.rename(next(name for name in names if not name.exists()))
        path.mkdir(parents=True)
        return epoch_data.EpochWriter(path, epoch=number, build=build, redactor=self._redactor)

    # ---- reading -----------------------------------------------------------------------------------------------

    def manifest(self) -> Manifest:
        return self._needed("manifest.json", Manifest)

    def machines(self) -> dict[str, Host]:
        """Return the machine of each host of a cluster, by name; empty for a run on one machine."""
        found = [name for name in self._names_in("hosts") if name.endswith(".json")]
        return {unquote(name.removesuffix(".json")): self._needed(f"hosts/{name}", Host) for name in found}

    def measured_on(self) -> tuple[Host, ...]:
        """Return the machines that measured the valid epochs, else the machine of the run."""
        outcomes = [outcome for epoch in self.finished_epochs() if (outcome := self.outcome(epoch)).valid]
        return tuple(
            self._needed(f"hosts/{epoch_data.arm_directory_name(host)}.json", Host) if host else self.manifest().host
            for host in sorted({outcome.host for outcome in outcomes} or {""})
        )

    def network(self) -> Network | None:
        return self.read(NETWORK, Network)

    def study(self) -> Study:
        return self._needed("study.json", Study)

    def read_json(self, name: str) -> Any:  # noqa: ANN401 — what JSON holds
        return self.read(name, cast(type[Any], Any))

    def read(self, name: str, kind: type[T]) -> T | None:
        """Return a JSON file (`.json`, `.json.gz`) as a type that pydantic validates, or None if it does not exist."""
        content = self._bytes(name)
        return None if content is None else self._parsed(name, content, kind)

    def builds(self) -> dict[str, dict[str, Any]]:
        """Return the document of each load of the data: {"A-0": {rows, seconds, bytes …}}."""
        names = [name for name in self._names_in("builds") if name.endswith(".json")]
        return {name.removesuffix(".json"): dict(self._needed(f"builds/{name}", epoch_data.Load)) for name in names}

    def finished_epochs(self) -> tuple[int, ...]:
        """Return the numbers of epochs that have an outcome, valid or discarded, ascending."""
        names = [name for name in self._names_in(self._epochs) if self._has(f"{self._epochs}/{name}/outcome.json")]
        return tuple(sorted(int(name) for name in names if re.fullmatch(r"\d{3,9}", name)))

    def abandoned_epochs(self) -> int:
        """Count the attempts at an epoch that were killed or crashed."""
        begun = [name for name in self._names_in(self._epochs) if re.match("[0-9]", name)]
        return sum(not self._has(f"{self._epochs}/{name}/outcome.json") for name in begun)

    def outcome(self, epoch: int) -> epoch_data.Outcome:
        return self._needed(f"{self._epochs}/{epoch:03d}/outcome.json", epoch_data.Outcome)

    def load_epoch(self, epoch: int, *, whole: bool = True) -> epoch_data.EpochData:
        """Read one finished epoch; unless `whole`, only its outcome and slices."""
        outcome = self.outcome(epoch)
        return epoch_data.EpochData(
            epoch=epoch,
            build=outcome.build,
            valid=outcome.valid,
            discard_reason=outcome.discard_reason,
            slices=self._slices(epoch),
            histograms=self.histograms(epoch) if whole else [],
            variables=self.variables(epoch) if whole else {},
            changes=self.server_json(epoch, epoch_data.CHANGES, epoch_data.CellChanges) if whole else {},
            failures=self.failures(epoch) if whole else [],
            host=outcome.host,
        )

    def load_epochs(self) -> Iterator[epoch_data.EpochData]:
        return map(self.load_epoch, self.finished_epochs())

    def slices(self, *columns: str) -> Frame:
        """Return the slices of all valid epochs; name columns to save memory."""
        valid = (epoch for epoch in self.finished_epochs() if self.outcome(epoch).valid)
        chosen = columns or tuple(epoch_data.SLICE_SCHEMA)
        none = Frame.of_rows([], epoch_data.SLICE_SCHEMA)
        return Frame.concat([each.select(*chosen) for each in (none, *map(self._slices, valid))])

    def failures(self, epoch: int) -> list[epoch_data.FailureRow]:
        name = f"{self._epochs}/{epoch:03d}/failures.json"
        content = self._checked_bytes(name)
        return [] if content is None else self._parsed(name, content, list[epoch_data.FailureRow])

    def histograms(self, epoch: int) -> list[dict[str, Any]]:
        name = f"{self._epochs}/{epoch:03d}/histograms.jsonl"
        if (content := self._checked_bytes(name)) is None:
            raise self._missing(name)
        with self._reading(name):
            return [from_json(line) for line in content.splitlines()]

    def variables(self, epoch: int) -> dict[str, dict[str, str]]:
        return self.server_json(epoch, "variables.json", dict[str, str])

    def newest_variables(self) -> dict[str, dict[str, str]]:
        newest = self.newest("variables.json")
        by_epoch = {epoch: self.variables(epoch) for epoch in set(newest.values())}
        return {arm: by_epoch[epoch][arm] for arm, epoch in newest.items()}

    def newest(self, name: str) -> dict[str, int]:
        """Return each arm's newest valid epoch that has this server file; not every epoch measures every arm."""
        found: dict[str, int] = {}
        arms = {arm.name for arm in self.study().arms}
        for epoch in reversed(self.finished_epochs()):
            folder = f"{self._epochs}/{epoch:03d}/servers"
            for arm in self._names_in(folder) if self.outcome(epoch).valid else ():
                if self._has(f"{folder}/{arm}/{name}"):
                    found.setdefault(unquote(arm), epoch)
            if found.keys() >= arms:
                break
        return found

    def server_json(self, epoch: int, name: str, kind: type[T]) -> dict[str, T]:
        """Return a server file (`variables.json`, `status-before.json` …) of each arm in an epoch."""
        folder = f"{self._epochs}/{epoch:03d}/servers"
        found = [arm for arm in self._names_in(folder) if self._has(f"{folder}/{arm}/{name}")]
        return {unquote(arm): self._needed(f"{folder}/{arm}/{name}", kind) for arm in found}

    def server_text(self, epoch: int, arm: str, name: str) -> str | None:
        content = self._bytes(f"{self._epochs}/{epoch:03d}/servers/{epoch_data.arm_directory_name(arm)}/{name}")
        return None if content is None else content.decode(errors="replace")

    def damaged(self, name: str, reason: str) -> ResultsError:
        """Return the one-line error for a file that is not as bakeoff wrote it."""
        first = (reason.strip().splitlines() or ["unreadable"])[0].rstrip(".")[:_REASON_MAX]
        return ResultsError(f"run {self.name}: {name} is damaged: {first}.", hint="Restore the file or measure again.")

    # ---- inside ------------------------------------------------------------------------------------------------

    def _slices(self, epoch: int) -> Frame:
        path = self.path / "plan.json"
        written_ns = path.stat().st_mtime_ns if path.exists() else 0
        if self._plan[0] != written_ns:  # a plan takes longer to read than an epoch
            self._plan = written_ns, self.read("plan.json", Plan)
        plan = self._plan[1]
        name = f"{self._epochs}/{epoch:03d}/slices.parquet"
        if (content := self._checked_bytes(name)) is None:
            raise self._missing(name)
        with self._reading(name):
            slices, found = read_parquet(content)
        if found != epoch_data.SLICE_SCHEMA:
            raise self.damaged(name, "its columns are not those of this format")
        return epoch_data.with_open_loop_time(
            slices, {cell.name for cell in plan.cells if cell.open_loop} if plan else set()
        )

    def _names_in(self, folder: str) -> list[str]:
        path = self.path / folder
        with self._reading(folder):
            return sorted(each.name for each in path.iterdir()) if path.exists() else []

    def _has(self, name: str) -> bool:
        return (self.path / name).exists()

    def _bytes(self, name: str) -> bytes | None:
        with self._reading(name):
            try:
                return (self.path / name).read_bytes()
            except FileNotFoundError:
                return None

    def _checked_bytes(self, name: str) -> bytes | None:
        """Read a file of an epoch and verify its checksum, if the epoch has any; None if it was never written."""
        folder, _, own = name.rpartition("/")
        content, sums = self._bytes(name), self._bytes(f"{folder}/{epoch_data.CHECKSUMS}")
        if sums is None:
            return content
        with self._reading(f"{folder}/{epoch_data.CHECKSUMS}"):
            known = dict(line.split("  ", 1)[::-1] for line in sums.decode().splitlines())
        if content is None and own in known:
            raise self._missing(name)
        if content is not None and known.get(own) != hashlib.sha256(content).hexdigest():
            raise self.damaged(name, f"its checksum is not the one in {epoch_data.CHECKSUMS}")
        return content

    def _needed(self, name: str, kind: type[T]) -> T:
        content = self._bytes(name)
        if content is None:
            raise self._missing(name)
        return self._parsed(name, content, kind)

    def _parsed(self, name: str, content: bytes, kind: type[T]) -> T:
        with self._reading(name):
            document = from_json(gzip.decompress(content) if name.endswith(".gz") else content)
            parsed: T = _adapter(cast(Hashable, kind)).validate_python(document)
            return parsed

    @contextmanager
    def _reading(self, name: str) -> Iterator[None]:
        try:
            yield
        except ValidationError as error:
            first = error.errors(include_input=False, include_context=False)[0]
            place = ".".join(map(str, first["loc"]))
            raise self.damaged(name, f"{place}: {first['msg']}" if place else first["msg"]) from None
        except BakeoffError as error:  # a study that contradicts itself
            raise self.damaged(name, error.message) from None
        except (OSError, ValueError, EOFError, zlib.error) as error:
            raise self.damaged(name, getattr(error, "strerror", None) or str(error)) from None

    def _missing(self, name: str) -> ResultsError:
        hint = "Is this a run directory of bakeoff?" if "/" not in name else "Restore the file or measure again."
        return ResultsError(f"run {self.name}: {name} is missing.", hint=hint)


@cache
def _adapter(kind: Hashable) -> TypeAdapter[Any]:
    return TypeAdapter(cast(Any, kind))


def check_format(path: Path) -> None:
    document = RunDirectory(path)._needed("manifest.json", dict[str, Any])
    if document.get("format") != FORMAT:
        raise ResultsError(
            f"run {path.name}: manifest.json has format {document.get('format')}; bakeoff {bakeoff_version()} reads "
            f"format {FORMAT}.",
            hint=f"It was written by bakeoff {document.get('bakeoff', '?')}: use that version.",
        )


def slug(title: str) -> str:
    """Return a title as part of a file name: `mysql:5.7 vs mysql:8` is `mysql-5.7-vs-mysql-8` (60 characters)."""
    plain = re.sub(r"[^a-z0-9.]+", "-", title.lower())
    return re.sub(r"-?\.{2,}-?", "-", plain)[:60].strip("-.") or "run"
