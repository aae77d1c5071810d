"""What a trial tells while it runs. The trial prints nothing: whoever listens decides what a person sees."""

from typing import Protocol

from bakeoff.stats.model import Comparison
from bakeoff.stats.resolution import NoiseCard


class Listener(Protocol):
    """Called from the trial's own thread, and from the loaders' threads for `progress`; must return at once."""

    def stage(self, text: str) -> None:
        """What happens now: `loading mysql:8.0.15 (build 1 of 2)`."""

    def progress(self, label: str, done: int, total: int | None) -> None:
        """`done` of `total` units of `label` (`mysql:8.0.15 rows`); None: nobody knows."""

    def throughput(self, cell: str, arm: str, per_s: float) -> None:
        """Events per second of an arm in its latest slices."""

    def noise_card(self, card: NoiseCard) -> None:
        """What this machine can resolve, told once, after the pilot epochs."""

    def epoch_finished(
        self, epoch: int, comparisons: tuple[Comparison, ...], elapsed_s: float, remaining_s: float | None
    ) -> None:
        """An epoch was added to the evidence; `remaining_s` is an estimate or None."""

    def note(self, text: str) -> None:
        """Something worth a line: a discarded epoch, a setting that the server ignored."""
