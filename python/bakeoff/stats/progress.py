"""What a run reports while it measures. The run prints nothing: its listener decides what a person sees."""

from collections.abc import Sequence
from typing import Self

from bakeoff.spec import Arm
from bakeoff.stats.model import Comparison
from bakeoff.stats.resolution import NoiseCard


class Listener:
    """Does nothing; subclasses override what they show. Use as a context manager, or call `close`.

    Methods are called from several threads and must return at once.
    """

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None: ...
    def stage(self, text: str) -> None: ...  # what happens now: `loading mysql:8.0.15 (build 1 of 2)`
    def progress(self, label: str, done: int, total: int | None, unit: str) -> None: ...  # in `bytes`, `rows` …
    def throughput(self, cell: str, arm: str, per_s: float) -> None: ...  # of an arm's latest slices
    def noise_card(self, card: NoiseCard) -> None: ...  # once, after the pilot epochs
    def epoch_finished(
        self, epoch: int, comparisons: Sequence[Comparison], elapsed_s: float, remaining_s: float | None
    ) -> None: ...
    def arm_joins(self, arm: Arm) -> None: ...  # one more arm is measured from now on
    def note(self, text: str) -> None: ...  # worth a line: a discarded epoch, a setting that the server ignored

    def left_behind(self, text: str) -> None:
        """Report what stays on a running server after the run; shown with --quiet, too."""
        self.note(text)
