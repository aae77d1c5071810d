"""What a search asks: which of some builds is the first slow one, or which of some options matter."""

from collections.abc import Callable
from typing import ClassVar

from bakeoff.spec import Arm, Frozen, Question, Study


class OptionPair(Frozen):
    """A server option with its two values; None: it is not set."""

    name: str
    good: str | None = None
    bad: str | None = None

    @property
    def shown(self) -> str:
        """`name: good → bad`."""
        good, bad = ("(not set)" if each is None else each or "(set)" for each in (self.good, self.bad))
        return f"{self.name}: {good} → {bad}"


class Search(Question):
    """One of two questions; the study's baseline is good, its second arm is bad, and further arms join.

    Attributes:
        builds: arms in order, the first good and the last bad: which is the first bad one?
        options: those in which good and bad differ: which of them matter?
    """

    adds_arms: ClassVar[bool] = True
    noun: ClassVar[str] = "bisection"

    kind: str = "search"
    builds: tuple[Arm, ...] = ()
    options: tuple[OptionPair, ...] = ()

    def map_arms(self, change: Callable[[tuple[Arm, ...]], tuple[Arm, ...]]) -> "Search":
        """Return the search with its builds changed."""
        return self.model_copy(update={"builds": change(self.builds)})


def search_of(study: Study) -> Search:
    """Return what a bisection's study looks for."""
    assert isinstance(study.question, Search), "only a bisection searches"
    return study.question
