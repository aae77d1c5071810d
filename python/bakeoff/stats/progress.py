"""What a run reports while it goes on. The run itself prints nothing: whoever listens decides what a person sees."""

from collections.abc import Sequence
from typing import Self

from bakeoff.spec import Arm
from bakeoff.stats.model import Comparison
from bakeoff.stats.resolution import NoiseCard


class Listener:
    """Hears everything and does nothing; others override what they show.

    Called from the run's own thread and from its loaders' threads; must return at once. Use as a context manager, or
    call `close`.
    """

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Nothing more will come; give the terminal back."""

    def stage(self, text: str) -> None:
        """What happens now: `loading mysql:8.0.15 (build 1 of 2)`."""

    def progress(self, label: str, done: int, total: int | None, unit: str) -> None:
        """`done` of `total` of `label` (`mysql:8.0.15 rows`), in `bytes`, `rows`, …; None: the total is not known."""

    def throughput(self, cell: str, arm: str, per_s: float) -> None:
        """Events per second of an arm in its latest slices."""

    def noise_card(self, card: NoiseCard) -> None:
        """What this machine can resolve; reported once, after the pilot epochs."""

    def epoch_finished(
        self, epoch: int, comparisons: Sequence[Comparison], elapsed_s: float, remaining_s: float | None
    ) -> None:
        """An epoch was added to the evidence; `remaining_s` is an estimate or None."""

    def arm_joins(self, arm: Arm) -> None:
        """A bisection measures one more arm from now on."""

    def note(self, text: str) -> None:
        """Something worth a line: a discarded epoch, a setting that the server ignored."""

    def left_behind(self, text: str) -> None:
        """What stays on a running server when the run has ended, in whatever way; shown with --quiet, too."""
        self.note(text)
