"""One epoch being written: everything first, `outcome.json` last."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import polars as pl
from pydantic import BaseModel

from bakeoff.results.atomic import sync_directory, write_atomically
from bakeoff.results.epoch import Outcome
from bakeoff.results.frames import host_frame, slices_frame
from bakeoff.results.redaction import Redactor

_SAFE_IN_FILE_NAMES = " '+,=@()"


def arm_directory_name(arm: str) -> str:
    """An arm's name as one path component; `urllib.parse.unquote` gives the name back."""
    name = quote(arm, safe=_SAFE_IN_FILE_NAMES)
    return name.replace(".", "%2E") if name.startswith(".") else name


class EpochWriter:
    """Collects an epoch in memory and writes it when it is over; until `finish` the epoch does not count.

    Server files are written at once, so that they are there when something has gone wrong.

    Attributes:
        epoch: number from 0.
        build: which load of the data its servers run on.
        path: its directory.
    """

    def __init__(self, path: Path, *, epoch: int, build: int, redactor: Redactor) -> None:
        self.path = path
        self.epoch = epoch
        self.build = build
        self._redactor = redactor
        self._slices: list[Mapping[str, Any]] = []
        self._histograms: list[Mapping[str, Any]] = []
        self._warm_up: list[Mapping[str, Any]] = []
        self._host: list[Mapping[str, Any]] = []

    def add_slices(self, messages: Iterable[Mapping[str, Any]]) -> None:
        """The engine's `slice` messages of a measured cell, as they came."""
        self._slices.extend(messages)

    def add_warm_up(self, messages: Iterable[Mapping[str, Any]]) -> None:
        """The engine's `slice` messages from before measuring: no evidence, only the warm-up curve."""
        self._warm_up.extend(messages)

    def add_histograms(self, messages: Iterable[Mapping[str, Any]]) -> None:
        """The engine's `histogram` messages of a measured cell, as they came."""
        self._histograms.extend(messages)

    def add_host_samples(self, samples: Iterable[Mapping[str, Any]]) -> None:
        """Samples of the machine, one a second: fields of `HOST_SCHEMA`, and `rss_bytes:ARM`."""
        self._host.extend(samples)

    def server_directory(self, arm: str) -> Path:
        """Where an arm's server files of this epoch go; made when it is not there."""
        path = self.path / "servers" / arm_directory_name(arm)
        path.mkdir(parents=True, exist_ok=True)
        return path

    def write_server_text(self, arm: str, name: str, text: str) -> None:
        """`my.cnf` or `error.log` of an arm's server, passwords struck out."""
        content = self._redactor.free_text(text).encode("utf-8", errors="replace")
        write_atomically(self.server_directory(arm) / name, content)

    def write_server_json(self, arm: str, name: str, values: Mapping[str, Any]) -> None:
        """`variables.json`, `status-before.json`, `status-after.json`, `recount.json`: a server's values by name."""
        text = json.dumps(self._redactor.tree(dict(values)), indent=1, ensure_ascii=False, sort_keys=True)
        write_atomically(self.server_directory(arm) / name, text.encode())

    def finish(self, outcome: Outcome) -> None:
        """Write the tables, then the outcome: from here on the epoch counts (or counts as voided).

        Raises:
            ResultsError: a slice does not fit the format; the outcome is then not written.
            ValueError: the outcome belongs to another epoch or build.
        """
        if (outcome.epoch, outcome.build) != (self.epoch, self.build):
            raise ValueError(
                f"outcome of epoch {outcome.epoch}, build {outcome.build} given to {self.epoch}, {self.build}"
            )
        self._write_parquet("slices.parquet", slices_frame(self._slices, epoch=self.epoch, build=self.build))
        if self._warm_up:
            self._write_parquet("warm-up.parquet", slices_frame(self._warm_up, epoch=self.epoch, build=self.build))
        self._write_parquet("host.parquet", host_frame(self._host))
        lines = "".join(json.dumps(message, ensure_ascii=False) + "\n" for message in self._histograms)
        write_atomically(self.path / "histograms.jsonl", lines.encode())
        write_atomically(self.path / "outcome.json", self._model_text(outcome).encode())

    def _model_text(self, model: BaseModel) -> str:
        return json.dumps(self._redactor.tree(model.model_dump(mode="json")), indent=1, ensure_ascii=False) + "\n"

    def _write_parquet(self, name: str, frame: pl.DataFrame) -> None:
        part = self.path / f".{name}.part"
        with part.open("wb") as file:
            frame.write_parquet(file, compression="zstd")
            file.flush()
        part.replace(self.path / name)
        sync_directory(self.path)
