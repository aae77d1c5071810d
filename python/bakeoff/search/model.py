"""The question of a search: which build is the first slow one, or which settings matter."""

from collections.abc import Callable
from typing import ClassVar

from bakeoff.spec import Arm, Frozen, Question, Study
from bakeoff.stats.differences import variable_of

SERVER = "server"  # factor of everything in which the servers differ besides their settings

_FIELDS = {"option": "options", "env": "env", "limit": "limits"}  # of a `ServerSpec`


class Setting(Frozen):
    """A setting in which the good and the bad arm differ."""

    factor: str  # `option.NAME`, `env.NAME`, `limit.NAME`, `data`, `connection` or `server`
    good: str  # both values as a reader sees them
    bad: str
    pairs: tuple[tuple[str, str], ...] = ()  # what replaces every option of that name; () removes it
    declared: bool = True  # typed by somebody, not just another version's default
    rest: str = "the version itself"  # what `server` stands for

    @property
    def name(self) -> str:
        """`innodb_flush_method`, `LD_PRELOAD`, `data`, `the version itself`."""
        return self.rest if self.factor == SERVER else self.factor.partition(".")[2] or self.factor

    @property
    def shown(self) -> str:
        return f"{self.name}: {self.good} → {self.bad}" if self.good or self.bad else self.name

    def applied(self, arm: Arm, bad: Arm) -> Arm:
        """Return an arm with the bad value of this setting; for `server`, the bad arm itself."""
        kind, _, name = self.factor.partition(".")
        if kind == SERVER:
            return bad
        if kind not in _FIELDS:
            return arm.model_copy(update={kind: getattr(bad, kind)})
        field = _FIELDS[kind]
        kept = [pair for pair in getattr(arm.server, field) if key_of(kind, pair[0]) != key_of(kind, name)]
        server = arm.server.model_copy(update={field: (*kept, *self.pairs)})
        return arm.with_server(server)

    def is_bad(self, arm: Arm, bad: Arm) -> bool:
        kind, _, name = self.factor.partition(".")
        if kind == SERVER:
            return False
        if kind not in _FIELDS:
            return bool(getattr(arm, kind) == getattr(bad, kind))
        typed = getattr(arm.server, _FIELDS[kind])
        return tuple(pair for pair in typed if key_of(kind, pair[0]) == key_of(kind, name)) == self.pairs


def key_of(kind: str, name: str) -> str:
    """Return the variable that an option sets, or the environment variable itself."""
    return variable_of(name) if kind == "option" else name


class Search(Question):
    """One of two questions; the study's baseline is good, its second arm is bad, and further arms join."""

    adds_arms: ClassVar[bool] = True
    noun: ClassVar[str] = "bisection"

    kind: str = "search"
    builds: tuple[Arm, ...] = ()  # arms in order, the first good and the last bad: which is the first bad one?
    settings: tuple[Setting, ...] = ()  # those in which good and bad differ: which of them matter?

    def map_arms(self, change: Callable[[tuple[Arm, ...]], tuple[Arm, ...]]) -> "Search":
        return self.model_copy(update={"builds": change(self.builds)})


def search_of(study: Study) -> Search:
    assert isinstance(study.question, Search), "only a bisection searches"
    return study.question
