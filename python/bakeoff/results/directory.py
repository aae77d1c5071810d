"""Create, write and read run directories."""

import errno
import fcntl
import hashlib
import os
import re
import secrets as random_text
import shutil
import stat
import zlib
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast
from urllib.parse import unquote

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import from_json

from bakeoff.errors import BakeoffError, ResultsError
from bakeoff.files import sync_directory, write_atomically
from bakeoff.plan import Plan
from bakeoff.redaction import Redactor
from bakeoff.results.epoch_data import (
    CHANGES,
    CHECKSUMS,
    HOST_SCHEMA,
    SLICE_SCHEMA,
    CellChanges,
    EpochData,
    EpochWriter,
    FailureRow,
    HistogramMessage,
    Load,
    Outcome,
    OwnCounts,
    arm_directory_name,
    table_mistake,
    with_open_loop_time,
)
from bakeoff.results.frame import Frame, Schema, read_parquet
from bakeoff.results.manifest import (
    FORMAT,
    NETWORK,
    Host,
    Manifest,
    Network,
    bakeoff_version,
    checkout_commit,
    gather_host,
    now,
    python_version,
)
from bakeoff.spec import Study
from bakeoff.units import visible

T = TypeVar("T")
Json = Any  # what JSON holds

_REASON_MAX = 200  # characters: a reason may quote the file
_DERIVED = ("analysis.json", "wall.json", "report.html", "gate.md")  # made anew when a run ends
_EPOCHS = "epochs"
_UNPACKED_MAX = 2**27


class RunDirectory:
    """A run on disk. Get one from `RunDirectory.create` or `open_run`.

    Attributes:
        path: its directory.
        name: the directory's name, by which people call the run.
    """

    def __init__(self, path: Path, *, redactor: Redactor | None = None, epochs: str = _EPOCHS) -> None:
        self.path = path
        self._redactor = redactor or Redactor()
        self._epochs = epochs
        self._root = os.path.realpath(path)
        self._kept: dict[str, tuple[int, object]] = {}

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
        """Make `root/TITLE-TIME-XXXX` with its manifest and study.

        Args:
            root: usually `runs_root()`; made when it is not there.
            study: its title gives the name.
            command: the command line; passwords in it are struck out.
            engine: the engine's `hello` message.
            data_path: where the servers' data will lie; the manifest describes its file system.
            secrets: passwords that must never be written.

        Raises:
            ResultsError: the directory cannot be made or written.
        """
        redactor = Redactor(secrets, study)
        created = now()
        name = f"{slug(study.title)}-{created:%Y%m%dT%H%M%SZ}-{random_text.token_hex(2)}"
        manifest = Manifest(
            name=name,
            title=study.title,
            created_at=created,
            bakeoff=bakeoff_version(),
            commit=checkout_commit(),
            python=python_version(),
            command=tuple(visible(redactor.free_text(word)) for word in command),  # a file's name may not be UTF-8
            seed=study.seed,
            engine={key: value for key, value in (engine or {}).items() if key not in ("type", "pid")},
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
                f"run directory {run.path} cannot be made: {error.strerror}.",
                hint="Set BAKEOFF_RUNS or --runs to a directory that can be written.",
            ) from error
        return run

    @property
    def name(self) -> str:
        """The directory's name."""
        return self.path.name

    def explaining(self, kind: str) -> "RunDirectory":
        """This run with the epochs that explain its verdicts, of one kind, in place of those that count."""
        return RunDirectory(self.path, redactor=self._redactor, epochs=f"explain/{kind}")

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Be the only process that writes here; the death of the process releases it too.

        Raises:
            ResultsError: another process holds it, or a link lies in the lock's place.
        """
        try:
            descriptor = os.open(self.path / ".lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise self.damaged(".lock", "it is a link") from None
            raise
        with os.fdopen(descriptor, "r+") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise ResultsError(f"run {self.name} is being written by another bakeoff.") from error
            yield

    # ---- writing -----------------------------------------------------------------------------------------------

    def write_json(self, name: str, content: BaseModel | Mapping[str, Any] | Sequence[Any]) -> None:
        """Write `plan.json`, `pilot.json`, `builds/A-0.json` … atomically, passwords struck out."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, self._redactor.json_bytes(content))

    def write_text(self, name: str, text: str) -> None:
        """Write a rendered file (`report.html`) atomically, as it is."""
        write_atomically(self.path / name, text.encode())

    def set_aside(self, epochs: Iterable[int], reason: str) -> None:
        """Take finished epochs out of the evidence, for every arm, for a reason that is shown: `set-aside.json`."""
        self.write_json("set-aside.json", {str(epoch): reason for epoch in epochs})

    def epoch(self, number: int, build: int) -> EpochWriter:
        """Begin an epoch. What an earlier, broken-off attempt left is kept beside it as `epochs/NNN.abandoned-K`.

        What a resumed run has derived from the epochs before is removed.

        Raises:
            ResultsError: this epoch is finished already.
        """
        path = self._epoch_path(number)
        if (path / "outcome.json").exists():
            raise ResultsError(f"run {self.name}: epoch {number} is finished and is not written again.")
        for derived in _DERIVED if self._epochs == _EPOCHS else ():
            (self.path / derived).unlink(missing_ok=True)
        if path.exists():
            attempt = 1
            while (aside := path.with_name(f"{path.name}.abandoned-{attempt}")).exists():
                attempt += 1
            path.rename(aside)
        path.mkdir(parents=True)
        return EpochWriter(path, epoch=number, build=build, redactor=self._redactor)

    # ---- reading -----------------------------------------------------------------------------------------------

    def manifest(self) -> Manifest:
        """Which program made this run, where and how."""
        return self._needed("manifest.json", Manifest)

    def machines(self) -> dict[str, Host]:
        """The machine of each host of a cluster, by name; none of a run on one machine."""
        found = [name for name in self._names_in("hosts") if name.endswith(".json")]
        return {unquote(name.removesuffix(".json")): self._needed(f"hosts/{name}", Host) for name in found}

    def measured_on(self) -> tuple[Host, ...]:
        """The machines that measured what counts: of the hosts in valid outcomes, else the machine of the run."""
        outcomes = [outcome for epoch in self.finished_epochs() if (outcome := self.outcome(epoch)).valid]
        epoch_of = {outcome.host: outcome.epoch for outcome in outcomes} or {"": 0}
        machines = self.machines() | {"": self.manifest().host}
        for host in epoch_of.keys() - machines.keys():
            missing = f"hosts/{arm_directory_name(host)}.json of its host is missing"
            raise self.damaged(f"{self._epochs}/{epoch_of[host]:03d}/outcome.json", missing)
        return tuple(machines[host] for host in sorted(epoch_of))

    def network(self) -> Network | None:
        """Return the network between client and servers, or None if they shared a machine."""
        return self.read(NETWORK, Network)

    def study(self) -> Study:
        """The study as asked for."""
        return self._needed("study.json", Study)

    def read_json(self, name: str) -> Json:
        """A JSON file's content, or None when it was never written.

        Raises:
            ResultsError: the file is not JSON.
        """
        return self._document(name, self._bytes(name))

    def _document(self, name: str, content: bytes | None) -> Json:
        if content is None:
            return None
        try:
            document = from_json(_unpacked(content) if name.endswith(".gz") else content)
        except (ValueError, zlib.error) as error:
            raise self.damaged(name, f"it is no JSON: {error}") from None
        if document is None:
            raise self.damaged(name, "it holds nothing")
        return document

    def read(self, name: str, kind: type[T]) -> T | None:
        """A JSON file's content as a model, or a dictionary of models; None when it was never written.

        Raises:
            ResultsError: the file is not JSON, or of another form.
        """
        document = self.read_json(name)
        return None if document is None else self._shaped(name, document, kind)

    def builds(self) -> dict[str, dict[str, Any]]:
        """Each load of the data: {"A-0": {rows, seconds, bytes …}}."""
        names = [name for name in self._names_in("builds") if name.endswith(".json")]
        return {name.removesuffix(".json"): dict(self._needed(f"builds/{name}", Load)) for name in names}

    def finished_epochs(self) -> tuple[int, ...]:
        """Numbers of the epochs that have an outcome, valid and discarded, ascending.

        Raises:
            ResultsError: their folder is missing, or one cannot be read.
        """
        names = [name for name in self._names_in(self._epochs) if self._has(f"{self._epochs}/{name}/outcome.json")]
        return tuple(sorted(int(name) for name in names if re.fullmatch(r"\d{3}|[1-9]\d{3,8}", name, re.ASCII)))

    def abandoned_epochs(self) -> int:
        """How many attempts at an epoch were broken off (killed, crashed)."""
        begun = [self._epochs_path / name for name in self._names_in(self._epochs) if re.match("[0-9]", name)]
        return sum(1 for path in begun if path.is_dir() and not (path / "outcome.json").exists())

    def outcome(self, epoch: int) -> Outcome:
        """How a finished epoch went; one that was set aside later is not valid."""
        outcome = self._needed(f"{self._epochs}/{epoch:03d}/outcome.json", Outcome)
        aside = self.read("set-aside.json", dict[str, str]) if self._epochs == _EPOCHS else None
        reason = (aside or {}).get(str(epoch))
        return outcome if reason is None else outcome.model_copy(update={"valid": False, "discard_reason": reason})

    def load_epoch(self, epoch: int, *, whole: bool = True) -> EpochData:
        """One finished epoch with its measurements; unless `whole` with its slices alone.

        Raises:
            ResultsError: a file of it is missing or damaged.
        """
        outcome = self.outcome(epoch)
        return EpochData(
            epoch=epoch,
            build=outcome.build,
            valid=outcome.valid,
            discard_reason=outcome.discard_reason,
            slices=self._slices(f"{self._epochs}/{epoch:03d}/slices.parquet"),
            histograms=self.histograms(epoch) if whole else [],
            variables=self.variables(epoch) if whole else {},
            changes=self.server_json(epoch, CHANGES, CellChanges) if whole else {},
            server_counts=self.server_json(epoch, "data-check.json", OwnCounts) if whole else {},
            failures=self.failures(epoch) if whole else [],
            host=outcome.host,
        )

    def load_epochs(self) -> Iterator[EpochData]:
        """All finished epochs, valid and discarded, ascending, each read when its turn comes."""
        return map(self.load_epoch, self.finished_epochs())

    def slices(self, *columns: str) -> Frame:
        """Slices of all valid epochs; with names only these columns, so that a million slices need little memory."""
        return self._all_slices("slices.parquet", columns)

    def warm_up(self, *columns: str) -> Frame:
        """Likewise slices from before measuring, of the valid epochs that kept them."""
        return self._all_slices("warm-up.parquet", columns)

    def failures(self, epoch: int) -> list[FailureRow]:
        """Statements of a replay that failed while an epoch was measured."""
        name = f"{self._epochs}/{epoch:03d}/failures.json"
        document = self._document(name, self._checked_bytes(name))
        return [] if document is None else self._shaped(name, document, list[FailureRow])

    def histograms(self, epoch: int) -> list[dict[str, Any]]:
        """The engine's `histogram` messages of an epoch, one a cell, arm and operation, with the `place` of each."""
        name = f"{self._epochs}/{epoch:03d}/histograms.jsonl"
        if (content := self._checked_bytes(name)) is None:
            raise self._missing(name)
        lines = content.splitlines()
        arms = self._arm_names()
        found: list[dict[str, Any]] = []
        for number, line in enumerate(lines, start=1):
            try:
                message = from_json(line)
            except ValueError as error:
                raise self.damaged(name, f"line {number} is no JSON: {error}") from None
            row = self._shaped(name, message, HistogramMessage, where=f"line {number}")
            if row["arm"] not in arms:
                raise self.damaged(name, f"line {number}: the study has no arm {row['arm']}")
            found.append({**row, "place": f"run {self.name}: {name} line {number}"})
        return found

    def host_samples(self, epoch: int) -> Frame:
        """The machine during an epoch: columns of `HOST_SCHEMA`, and `rss_bytes:ARM`."""
        return self._parquet(f"{self._epochs}/{epoch:03d}/host.parquet", HOST_SCHEMA)

    def variables(self, epoch: int) -> dict[str, dict[str, str]]:
        """Each arm's global variables in an epoch."""
        return self.server_json(epoch, "variables.json", dict[str, str])

    def newest_variables(self) -> dict[str, dict[str, str]]:
        """Each arm's global variables in the newest epoch that counts and measured it."""
        newest = self.newest("variables.json")
        by_epoch = {epoch: self.variables(epoch) for epoch in set(newest.values())}
        return {arm: by_epoch[epoch][arm] for arm, epoch in newest.items()}

    def newest(self, name: str) -> dict[str, int]:
        """Each arm's newest epoch that counts and has this file of its server: not every epoch measures every arm.

        Raises:
            ResultsError: an outcome is damaged.
        """
        found: dict[str, int] = {}
        for epoch in reversed(self.finished_epochs()):
            folder = f"{self._epochs}/{epoch:03d}/servers"
            for arm in self._names_in(folder) if self.outcome(epoch).valid else ():
                if self._has(f"{folder}/{arm}/{name}"):
                    found.setdefault(unquote(arm), epoch)
            if found.keys() >= self._arm_names():
                break
        return found

    def server_json(self, epoch: int, name: str, kind: type[T]) -> dict[str, T]:
        """`variables.json`, `status-before.json`, `status-after.json`, `rows.json` … of each arm in an epoch."""
        folder = f"{self._epochs}/{epoch:03d}/servers"
        found = [arm for arm in self._names_in(folder) if self._has(f"{folder}/{arm}/{name}")]
        return {unquote(arm): self._needed(f"{folder}/{arm}/{name}", kind) for arm in found}

    def server_text(self, epoch: int, arm: str, name: str) -> str | None:
        """`my.cnf` or `error.log` of an arm in an epoch; None when there is none."""
        content = self._bytes(f"{self._epochs}/{epoch:03d}/servers/{arm_directory_name(arm)}/{name}")
        return None if content is None else content.decode(errors="replace")

    def damaged(self, name: str, reason: str) -> ResultsError:
        """The error for a file that is not as bakeoff wrote it: one line that names it."""
        first = reason.strip().splitlines()[0].rstrip(".")[:_REASON_MAX] if reason.strip() else "unreadable"
        return ResultsError(f"run {self.name}: {name} is damaged: {first}.", hint="Restore the file or measure again.")

    # ---- inside ------------------------------------------------------------------------------------------------

    def _all_slices(self, name: str, columns: Sequence[str]) -> Frame:
        valid = [f"{self._epochs}/{epoch:03d}/{name}" for epoch in self.finished_epochs() if self.outcome(epoch).valid]
        files = [file for file in valid if name == "slices.parquet" or self._has(file) or self._checksum(file)]
        chosen = columns or tuple(SLICE_SCHEMA)
        none = Frame.of_rows([], SLICE_SCHEMA).select(*chosen)
        return Frame.concat([none, *(self._slices(file).select(*chosen) for file in files)])

    def _slices(self, name: str) -> Frame:
        plan = self._once("plan.json", Plan)
        open_loop = {cell.name for cell in plan.cells if cell.open_loop} if plan else set[str]()
        return with_open_loop_time(self._parquet(name, SLICE_SCHEMA), open_loop)

    def _arm_names(self) -> set[str]:
        study = self._once("study.json", Study) or self.study()
        return {arm.name for arm in study.arms}

    def _once(self, name: str, kind: type[T]) -> T | None:
        """As `read`, but only when the file was written since: a plan takes longer to read than an epoch."""
        path = self.path / name
        written_ns = path.stat().st_mtime_ns if path.exists() else 0
        if name not in self._kept or self._kept[name][0] != written_ns:
            self._kept[name] = written_ns, self.read(name, kind)
        return cast(T | None, self._kept[name][1])

    @property
    def _epochs_path(self) -> Path:
        return self.path / self._epochs

    def _epoch_path(self, number: int) -> Path:
        return self._epochs_path / f"{number:03d}"

    def _names_in(self, folder: str) -> list[str]:
        """What a folder of the run holds, sorted; nothing when it is not there, but a run is made with `epochs`."""
        try:
            return sorted(path.name for path in (self.path / folder).iterdir())
        except FileNotFoundError:
            if folder == _EPOCHS:
                raise self._missing(folder) from None
            return []
        except OSError as error:
            raise self.damaged(folder, error.strerror or str(error)) from None

    def _has(self, name: str) -> bool:
        try:
            os.lstat(self.path / name)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise self.damaged(name, error.strerror or str(error)) from None
        return True

    def _bytes(self, name: str) -> bytes | None:
        """A file's content, or None when there is none. A pipe would hang; a link may lead to somebody's secret."""
        path = self.path / name
        if not Path(os.path.realpath(path)).is_relative_to(self._root):
            raise self.damaged(name, "it is a link that leaves the run directory")
        try:
            with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    raise self.damaged(name, "it is no regular file")
                return file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self.damaged(name, error.strerror or str(error)) from None

    def _checked_bytes(self, name: str) -> bytes | None:
        """The content of a file of an epoch, after a look at its checksum; None when it was never written."""
        content, checksum = self._bytes(name), self._checksum(name)
        if content is None and checksum:
            raise self._missing(name)
        if content is not None and checksum == "":
            raise self.damaged(name, f"{CHECKSUMS} does not name it")
        if content is not None and checksum not in (None, hashlib.sha256(content).hexdigest()):
            raise self.damaged(name, f"its checksum is not that of {CHECKSUMS}")
        return content

    def _checksum(self, name: str) -> str | None:
        """What `CHECKSUMS` says of a file of an epoch; empty: nothing; None: the run is older than such files."""
        folder, _, own = name.rpartition("/")
        if (sums := self._bytes(f"{folder}/{CHECKSUMS}")) is None:
            return None
        found = re.search(rf"^(\S+)  {re.escape(own)}$", sums.decode(errors="replace"), re.MULTILINE)
        return found[1] if found else ""

    def _needed(self, name: str, kind: type[T]) -> T:
        if (document := self.read(name, kind)) is None:
            raise self._missing(name)
        return document

    def _shaped(self, name: str, document: Json, kind: type[T], *, where: str = "") -> T:
        try:
            shaped: T = _adapter(cast(Hashable, kind)).validate_python(document)
            return shaped
        except ValidationError as error:
            first = error.errors(include_input=False, include_context=False)[0]
            place = ".".join(str(part) for part in (where, *first["loc"]) if part != "")
            raise self.damaged(name, f"{place}: {first['msg']}" if place else first["msg"]) from None
        except BakeoffError as error:  # a study that contradicts itself
            raise self.damaged(name, error.message) from None

    def _parquet(self, name: str, schema: Schema) -> Frame:
        if (content := self._checked_bytes(name)) is None:
            raise self._missing(name)
        try:
            table, found = read_parquet(content)
        except ValueError as error:
            raise self.damaged(name, str(error)) from None
        if mistake := table_mistake(table, found, schema, arms=self._arm_names()):
            raise self.damaged(name, mistake)
        return table

    def _missing(self, name: str) -> ResultsError:
        hint = "Is this a run directory of bakeoff?" if "/" not in name else "Restore the file or measure again."
        return ResultsError(f"run {self.name}: {name} is missing.", hint=hint)


def _unpacked(content: bytes) -> bytes:
    unpacking = zlib.decompressobj(wbits=31)
    inside = unpacking.decompress(content, _UNPACKED_MAX)
    if not unpacking.eof:
        raise ValueError(f"it ends early, or holds more than {_UNPACKED_MAX} bytes")
    return inside


@cache
def _adapter(kind: Hashable) -> TypeAdapter[Any]:
    return TypeAdapter(cast(Any, kind))


def check_format(path: Path) -> None:
    """Check that a directory is a run that this program can read.

    Raises:
        ResultsError: no run directory, or of a format that this bakeoff does not know.
    """
    run = RunDirectory(path)
    document = run.read_json("manifest.json")
    if document is None:
        raise run._missing("manifest.json")
    if not isinstance(document, dict) or type(document.get("format")) is not int:
        raise run.damaged("manifest.json", "it has no format version")
    if document["format"] != FORMAT:
        raise ResultsError(
            f"run {path.name} has format {document['format']}; bakeoff {bakeoff_version()} reads format {FORMAT}.",
            hint=f"It was written by bakeoff {document.get('bakeoff', '?')}: use that version.",
        )


def slug(title: str) -> str:
    """A title as a part of a file name: `mysql:5.7 vs mysql:8.0` is `mysql-5.7-vs-mysql-8.0`; at most 60 characters."""
    plain = re.sub(r"[^a-z0-9.]+", "-", title.lower())
    return re.sub(r"-?\.{2,}-?", "-", plain)[:60].strip("-.") or "run"
