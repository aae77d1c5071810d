"""Read a study file (docs/reference/studies.md) and report mistakes with file and line."""

import difflib
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.resources import files
from io import StringIO
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError, field_validator
from pydantic_core import PydanticCustomError
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import Node, ScalarNode, SequenceNode

from bakeoff.errors import KeyPath, SpecError
from bakeoff.spec.factors import check_level, part_of, settings_behind
from bakeoff.spec.fields import IN_FILE, Conditions, Frozen, Sizes
from bakeoff.spec.machine import storage_text
from bakeoff.spec.server_name import UNWRITABLE
from bakeoff.spec.study import OptionValue, WorkloadFields

_CHARACTERS_MAX = 100_000
_VALUES_MAX = 5_000  # with aliases expanded
_CONTROL = re.compile(r"[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_WORDS = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("null", "Null", "NULL", "~", "")),
}
_WHOLE_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)")
_LONG_NUMBER = re.compile(r"[-+.]?[0-9][-+_.,0-9a-fxo]{40,}", re.IGNORECASE)


def level_text(value: object) -> object:
    """Return a level as text, as mysqld writes it: ON for true. Limits of storage become `iops=3000,latency=1ms`."""
    if isinstance(value, bool):
        return "ON" if value else "OFF"
    if isinstance(value, dict) and value and all(isinstance(each, (str, int)) for each in value.values()):
        return storage_text(value)
    return str(value) if isinstance(value, int) else value


Level = Annotated[
    str, BeforeValidator(level_text, json_schema_input_type=str | int | float | bool | dict[str, str | int])
]
Levels = list[Level] | dict[str, dict[str, Level]]
"""Levels of a factor: values of one setting, or named bundles of settings."""


class WorkloadForm(WorkloadFields):
    """A workload with options; a bare name is a workload without any."""

    options: dict[str, OptionValue] = Field(default={}, description="Options of the script, on every arm.")


class Exclusion(Frozen):
    """Combinations that are left out."""

    exclude: dict[str, Level | list[Level]] = Field(
        alias="not", description="Factor: level, or a list of levels; a combination that fits all of them is left out."
    )


class ClaimForm(Frozen):
    """A published statement about pairs of arms that differ as it says and in nothing else."""

    says: str = Field(min_length=1, description="The statement in a few words.")
    of: dict[str, Level] = Field(min_length=1, description="Factor: level of the arm that is judged.")
    over: dict[str, Level] = Field(min_length=1, description="Factor: level of the arm it is compared with.")
    ratio: str = Field(description="Throughput of the one over the other: 0.94, 1.1..1.2, > 1 or < 1.")
    workload: str = Field(default="", description="Its name in the cells; default: all.")
    threads: int | None = Field(default=None, description="Default: all thread counts.")

    @property
    def bounds(self) -> tuple[float | None, float | None]:
        above, below = self.ratio.startswith(">"), self.ratio.startswith("<")
        low, _, high = self.ratio.strip("<> ").partition("..")
        return None if below else float(low), None if above else float(high or low)

    @field_validator("ratio")
    @classmethod
    def _a_ratio(cls, text: str) -> str:
        number = r"\d+(?:\.\d+)?"
        if not re.fullmatch(rf"{number}(?:\.\.{number})?|[<>] ?{number}", text) or not re.search("[1-9]", text):
            hint = "Write 0.94, 1.1..1.2, > 1 or < 1."
            raise PydanticCustomError("spec", "{reason}", {"reason": f"{text!r} is not a ratio.", "hint": hint})
        low, _, high = text.partition("..")
        if high and float(low) > float(high):
            hint = f"Write {high}..{low}."
            raise PydanticCustomError("spec", "{reason}", {"reason": f"{text!r} ends below its start.", "hint": hint})
        return text


class PublishedForm(Frozen):
    """What was published: figures as a CSV file with one row a figure, or claims in words, or both."""

    source: str = Field(description="Who, where, when.")
    file: str = Field(default="", description="CSV, beside the study file.")
    value: str = Field(default="", description="Column of the throughput.")
    columns: dict[str, str] = Field(default={}, description="Factor (or `workload`, `threads`): its column.")
    claims: list[ClaimForm] = Field(default=[], description="Statements of direction and size.")


Workloads = Annotated[list[str | WorkloadForm], Field(min_length=1)] | None


class Scale(Sizes):
    """One size of the study."""

    workloads: Workloads = None
    keep: dict[str, list[Level]] = Field(default={}, description="Factor: the levels that remain at this scale.")
    settings: dict[str, Level] = Field(default={}, description="Settings of every arm at this scale.")


class StudyFile(Sizes, Conditions):
    """A study file."""

    title: str = Field(min_length=1, description="Short; names the run.")
    question: str = Field(default="", description="The question in a sentence; stands above the report.")
    about: str = Field(default="", description="Background: who asked the question, and where.")
    workloads: Workloads = None
    servers: list[str] | None = Field(
        default=None, min_length=1, description="Short for the factor `server`; `installed`: every installed one."
    )
    factors: dict[str, Levels] = Field(default={}, description="What is varied, and its levels.")
    settings: dict[str, Level] = Field(default={}, description="Settings that are the same on every arm.")
    baseline: dict[str, Level] = Field(
        default={}, description="Factor: level. Factors not named are at their first level."
    )
    where: list[Exclusion] = Field(default=[], description="Combinations left out.")
    design: Literal["auto", "full", "fraction"] = Field(
        default="auto", description="full: all combinations; fraction; auto: a fraction from five factors on."
    )
    control: bool = Field(default=False, description="A second instance of the baseline, as a control.")
    scales: dict[str, Scale] = Field(default={}, description="demo, small, paper: sizes of the same question.")
    published: PublishedForm | None = None

    @property
    def varied(self) -> dict[str, Levels]:
        servers: dict[str, Levels] = {"server": self.servers} if self.servers else {}
        return servers | self.factors


@dataclass(frozen=True)
class Lines:
    """Line numbers (from 1) of the values of the file `name`, by their path of keys and indexes."""

    name: str
    known: dict[KeyPath, int]

    def error(self, path: KeyPath, reason: str, *, hint: str = "") -> SpecError:
        """Make an error at the innermost known value of a path: `my.yaml:14: factors.charset: REASON HINT`."""
        around = (path[:length] for length in range(len(path), 0, -1))
        line = next((self.known[each] for each in around if each in self.known), 1)
        where = ".".join(str(part) for part in path)
        return SpecError(f"{self.name}:{line}: {where + ': ' if where else ''}{reason}", hint=hint)


@dataclass(frozen=True)
class LoadedStudy:
    """A study file with one of its scales applied.

    `written` is the form without the scale; `levels` map factor -> level -> settings, in the file's order.
    """

    path: Path
    form: StudyFile
    written: StudyFile
    lines: Lines
    scale: str
    levels: dict[str, dict[str, dict[str, str]]]
    cnf_folder: Path

    def place_of(self, factor: str, level: str) -> KeyPath:
        if factor == "server" and "server" not in self.written.factors:
            return ("servers", (self.written.servers or []).index(level))
        levels = self.written.factors[factor]
        return ("factors", factor, level if isinstance(levels, dict) else levels.index(level))

    def place_of_field(self, field: KeyPath, combination: Mapping[str, str]) -> KeyPath:
        return self.place_of_setting((*settings_behind(field), "server"), combination)

    def place_of_setting(self, names: Sequence[str], combination: Mapping[str, str]) -> KeyPath:
        for setting in names:
            for factor, level in reversed(tuple(combination.items())):
                if setting in self.levels[factor][level]:
                    place = self.place_of(factor, level)
                    return (*place, setting) if isinstance(place[-1], str) else place
            if setting in self.form.settings:
                return ("settings", setting)
        return ("factors",)

    def with_servers(self, servers: Sequence[str]) -> "LoadedStudy":
        odd = [name for name, levels in self.levels.items() if name != "server" and len(levels) > 1]
        if odd:
            reason = f"{odd[0]} varies beside the servers that were named."
            raise self.error("factors", odd[0], reason=reason, hint="Leave the servers out, or take the factor out.")
        if len(set(servers)) < len(servers):
            raise SpecError("study: a server was named twice.", hint="Name each once.")
        settings = {name: value for name, value in self.form.settings.items() if name != "server"}
        for factor, levels in self.levels.items():  # a factor that its scale reduced to one level
            settings |= next(iter(levels.values())) if factor != "server" else {}
        nothing: dict[str, object] = {"factors": {}, "baseline": {}, "where": [], "published": None}
        form = self.form.model_copy(update=nothing | {"servers": list(servers), "settings": settings})
        named = {each: {"server": each} for each in servers}
        return replace(self, form=form, written=form, levels={"server": named}, cnf_folder=Path())

    def error(self, *place: str | int, reason: str, hint: str = "") -> SpecError:
        """Make an error at a place of this file, or of its scale if that is what sets it."""
        chosen = self.form.scales.get(self.scale)
        if chosen and place:
            in_settings = place[0] == "settings" and len(place) > 1
            if place[1] in chosen.settings if in_settings else place[0] in chosen.given():
                place = ("scales", self.scale, *place)
        return self.lines.error(place, reason, hint=hint)


INSTALLED = "installed"
"""Stands in `servers` for every installed server that is not named."""

Installed = Callable[[Sequence[str]], Sequence[str]]
"""Given the servers that are named, returns the installed ones that they do not cover."""


def read_study(path: Path, *, scale: str = "", installed: Installed = lambda named: ()) -> LoadedStudy:
    """Read a study file and apply one of its scales; SpecError names file, line, reason and remedy."""
    try:
        with path.open("rb") as file:
            content = file.read(4 * _CHARACTERS_MAX + 1)
        text = content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise SpecError(f"{path.name}:{line}: a byte that is not UTF-8 text.", hint="Save the file as UTF-8.") from None
    except OSError as error:
        raise SpecError(f"study {path} cannot be read: {error.strerror}.", hint="See `bakeoff list studies`.") from None
    document, lines = load_yaml(text, path.name)
    if not isinstance(document, dict):
        hint = "It begins with `title: …`; see docs/reference/studies.md."
        raise lines.error((), "a study is a mapping of keys.", hint=hint)
    try:
        form = StudyFile.model_validate(_with_installed(document, installed, lines), context=IN_FILE)
    except ValidationError as error:
        raise _first_mistake(error, lines) from None
    whole = LoadedStudy(path, form, form, lines, "", _all_levels(form, lines, varied=True), path.parent)
    _check_part(form, whole.levels, lines, ())
    _check(whole)
    scales = {}
    for name, part in form.scales.items():  # a mistake in any scale is reported, whichever is chosen
        scaled = _scaled(form, name, lines)
        levels = _all_levels(scaled, lines, varied=False)
        _check_part(part, levels, lines, ("scales", name))
        scales[name] = replace(whole, form=scaled, scale=name, levels=levels)
    if not scale:
        return whole
    if scale not in scales:
        have = ", ".join(scales) or "none"
        raise lines.error(("scales",), f"scale {scale} is unknown.", hint=f"This study has {have}.")
    _check_baseline(scales[scale])
    return scales[scale]


def _with_installed(document: dict[str, Any], installed: Installed, lines: Lines) -> dict[str, Any]:
    servers = document.get("servers")
    if not isinstance(servers, list) or INSTALLED not in servers:
        return document
    more = installed([name for name in servers if isinstance(name, str) and name != INSTALLED])
    expanded = [(at, each) for at, name in enumerate(servers) for each in (more if name == INSTALLED else [name])]
    lines.known.update({("servers", new): lines.known["servers", at] for new, (at, _) in enumerate(expanded)})
    return document | {"servers": [each for _, each in expanded]}


def _scaled(form: StudyFile, scale: str, lines: Lines) -> StudyFile:
    chosen = form.scales[scale]
    changed = chosen.given()
    changed.pop("keep", None)
    factors = form.varied
    for name, levels in chosen.keep.items():
        place = ("scales", scale, "keep", name)
        _refer(factors, lines, place, levels)
        if not levels:
            raise lines.error(place, "a factor needs a level.", hint="Leave one of them.")
        known = factors[name]
        kept = [level for level in known if level in levels]
        factors[name] = {level: known[level] for level in kept} if isinstance(known, dict) else kept
    changed |= {"factors": factors, "servers": None, "settings": form.settings | chosen.settings}
    return form.model_copy(update=changed)


def _all_levels(form: StudyFile, lines: Lines, *, varied: bool) -> dict[str, dict[str, dict[str, str]]]:
    if form.servers and "server" in form.factors:
        raise lines.error(("servers",), "servers and factors.server say the same.", hint="Keep one of them.")
    found: dict[str, dict[str, dict[str, str]]] = {}
    for factor, levels in form.varied.items():
        place: KeyPath = ("servers",) if factor == "server" and form.servers else ("factors", factor)
        if not levels:
            raise lines.error(place, "a factor needs a level.", hint="Write at least two, or move it to settings.")
        if len(levels) == 1 and factor != "server" and varied:
            raise lines.error(place, "one level varies nothing.", hint="Write at least two, or move it to settings.")
        if isinstance(levels, dict):
            found[factor] = levels
            for level, settings in levels.items():
                for name, value in settings.items():
                    _checked(lines, (*place, level, name), name, value)
            continue
        for index, value in enumerate(levels):
            if value in levels[:index]:
                raise lines.error((*place, index), f"level {value!r} appears twice.", hint="Leave one out.")
            _checked(lines, (*place, index), factor, value)
        found[factor] = {value: {factor: value} for value in levels}
    return found


def _check_part(
    part: StudyFile | Scale, levels: Mapping[str, Mapping[str, Mapping[str, str]]], lines: Lines, place: KeyPath
) -> None:
    for name, value in part.settings.items():
        here = (*place, "settings", name)
        _checked(lines, here, name, value)
        for factor, bundles in levels.items():
            if any(name in settings for settings in bundles.values()):
                raise lines.error(here, f"factor {factor} varies it already.", hint="Keep one of the two.")
    for index, count in enumerate(part.threads):
        if count in part.threads[:index]:
            raise lines.error((*place, "threads", index), f"{count} appears twice.", hint="Leave one out.")
    for index, script in enumerate(part.workloads or []):
        if not (script if isinstance(script, str) else script.script).strip():
            raise lines.error(
                (*place, "workloads", index), "a workload needs a name.", hint="See `bakeoff list workloads`."
            )


def _checked(lines: Lines, place: KeyPath, name: str, value: str) -> None:
    try:
        check_level(name, value)
    except SpecError as error:
        raise lines.error(place, error.message, hint=error.hint) from None


def _check(loaded: LoadedStudy) -> None:
    form, levels = loaded.form, loaded.levels
    if "server" not in form.settings and not any(
        "server" in settings for bundles in levels.values() for settings in bundles.values()
    ):
        raise loaded.error(reason="no server is named.", hint="Write servers: [mysql:5.7, mysql:8.0].")
    _check_baseline(loaded)
    for index, exclusion in enumerate(form.where):
        for factor, wanted in exclusion.exclude.items():
            place = ("where", index, "not", factor)
            _refer(levels, loaded.lines, place, [wanted] if isinstance(wanted, str) else wanted)
    if not form.workloads:
        raise loaded.error(reason="no workload is named.", hint="Write workloads: [oltp_read_only].")
    if form.published and not form.published.claims and not (form.published.file and form.published.value):
        reason, hint = "it has neither figures nor claims.", "Write file and value, or claims."
        raise loaded.error("published", reason=reason, hint=hint)
    for index, claim in enumerate(form.published.claims if form.published else ()):
        for key in ("of", "over"):
            for factor, level in getattr(claim, key).items():
                _refer(levels, loaded.lines, ("published", "claims", index, key, factor), [level])
    for factor in form.published.columns if form.published else ():
        if factor not in levels and factor not in ("workload", "threads", *form.settings):
            _refer(levels, loaded.lines, ("published", "columns", factor), ())


def _check_baseline(loaded: LoadedStudy) -> None:
    for factor, level in loaded.form.baseline.items():
        _refer(loaded.levels, loaded.lines, ("baseline", factor), [level])


def _refer(known: Mapping[str, Collection[str]], lines: Lines, place: KeyPath, wanted: Sequence[str]) -> None:
    """Check that the factor a place ends with is known, and so are the levels wanted of it."""
    factor = str(place[-1])
    if factor not in known:
        hint = f"This study has {', '.join(known)}." if known else "Write factors: {NAME: [LEVEL, LEVEL]}."
        raise lines.error(place, f"factor {factor} is unknown.", hint=hint)
    for level in wanted:
        if level not in known[factor]:
            hint = f"It has {', '.join(known[factor])}."
            raise lines.error(place, f"factor {factor} has no level {level!r}.", hint=hint)


_REMEDIES = {
    "extra_forbidden": "Leave it out, or look for a typo; docs/reference/studies.md lists the keys.",
    "missing": "Write it.",
    "list_type": "Write a list: [4], or a line with - for each.",
    "tuple_type": "Write a list: [4], or a line with - for each.",
}

_REASONS = {"extra_forbidden": "there is no such key", "missing": "it is missing", "tuple_type": "it is not a list"}

_FORMS: dict[int | str, type[Frozen]] = {
    "workloads": WorkloadForm,
    "where": Exclusion,
    "published": PublishedForm,
    "scales": Scale,
}


def _first_mistake(error: ValidationError, lines: Lines) -> SpecError:
    """Turn pydantic's deepest error into one line; each branch of a union reports its own."""
    found = max(error.errors(), key=lambda each: (len(_path(each["loc"])), each["type"] == "extra_forbidden"))
    path = _path(found["loc"])
    if found["type"] == "spec":
        return lines.error(path, found["ctx"]["reason"], hint=found["ctx"]["hint"])
    reason = _REASONS.get(found["type"], found["msg"])
    reason = reason[0].lower() + reason[1:]
    hint = _REMEDIES.get(found["type"], "See docs/reference/studies.md.")
    if found["type"] == "extra_forbidden" and path:
        hint = _where_it_goes(str(path[-1]), path[0]) or hint
    elif path[:1] == ("settings",) and isinstance(found["input"], list):
        hint = "A setting has one value; write factors: {NAME: [LEVEL, LEVEL]}."
    return lines.error(path, f"{reason}.", hint=hint)


def _where_it_goes(key: str, within: int | str) -> str:
    """Return a hint for an unknown key: a setting belongs under `settings`, another may be misspelt."""
    if within not in _FORMS and key != "server":  # the key is servers
        with suppress(SpecError):
            part_of(key)
            return f"Write it under settings: {{{key}: …}}."
    fields = _FORMS.get(within, StudyFile).model_fields.items()
    near = difflib.get_close_matches(key, [str(field.validation_alias or name) for name, field in fields], n=1)
    return f"Did you mean {near[0]}?" if near else ""


def _path(location: tuple[int | str, ...]) -> KeyPath:
    """Return pydantic's location without the names of union branches."""
    unions = {"WorkloadForm", "str", "int", "float", "bool"}
    return tuple(part for part in location if not (isinstance(part, str) and (part in unions or "[" in part)))


def load_yaml(text: str, name: str) -> tuple[Any, Lines]:
    """Read one YAML document as plain data with line numbers.

    A plain `true`, `null` or whole number is read as such; everything else is text as it is written, such as 8.10.
    """
    if len(text) > _CHARACTERS_MAX:
        raise SpecError(f"{name}:1: it has more than {_CHARACTERS_MAX:,} characters.", hint="A study is a short file.")
    if odd := _CONTROL.search(text):
        line = text.count("\n", 0, odd.start()) + 1
        raise SpecError(f"{name}:{line}: there is a control character (U+{ord(odd[0]):04X}).", hint="Remove it.")
    lines = Lines(name, {})
    try:
        document = YAML(typ="safe", pure=True).compose(StringIO(text))
        return document and _plain(document, (), lines), lines
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        reason = " ".join((error.problem or "it is not YAML").split())
        raise SpecError(
            f"{name}:{line}: {reason}.", hint="Look for a missing quote, colon or space, wrong indentation, or a tab."
        ) from None
    except YAMLError as error:
        raise SpecError(f"{name}:1: {' '.join(str(error).split())}.", hint="A study is a YAML file.") from None
    except RecursionError:
        hint = "See docs/reference/studies.md."
        raise SpecError(f"{name}:1: too many lists or mappings inside each other.", hint=hint) from None


def _plain(node: Node, path: KeyPath, lines: Lines) -> Any:  # noqa: ANN401 — whatever YAML holds
    lines.known.setdefault(path, node.start_mark.line + 1)
    if len(lines.known) > _VALUES_MAX:
        reason = f"more than {_VALUES_MAX:,} values, counting what aliases repeat."
        raise lines.error(path[:1], reason, hint="A study is a short file.")
    if isinstance(node, SequenceNode):
        return [_plain(each, (*path, index), lines) for index, each in enumerate(node.value)]
    if isinstance(node, ScalarNode):
        return _scalar(node, path, lines)
    made: dict[str, Any] = {}
    merged: dict[str, Any] = {}
    for key, content in node.value:
        if not isinstance(key, ScalarNode):
            raise lines.error(path, "a key must be a word or a number.", hint="Write NAME: VALUE.")
        name = str(level_text(_scalar(key, path, lines)))
        place = (*path, name)
        lines.known[place] = key.start_mark.line + 1
        if name in made:
            raise lines.error(place, "it appears twice.", hint="Leave one out.")
        value = _plain(content, place, lines)
        if name == "<<":
            for each in value if isinstance(value, list) else [value]:
                merged = (each if isinstance(each, dict) else {}) | merged
        else:
            made[name] = value
    return merged | made


def _scalar(node: ScalarNode, path: KeyPath, lines: Lines) -> Any:  # noqa: ANN401
    text: str = node.value
    if node.style == '"' and UNWRITABLE.search(text):
        raise lines.error(path, "a control character is escaped here.", hint="Write it without.")
    if _LONG_NUMBER.fullmatch(text):
        raise lines.error(path, f"a number of {len(text)} digits.", hint="Write a smaller one.")
    if node.style:
        return text
    return int(text) if _WHOLE_NUMBER.fullmatch(text) else _WORDS.get(text, text)


def shipped_studies() -> dict[str, Path]:
    folder = Path(str(files("bakeoff"))) / "studies"
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def find_study(text: str) -> Path:
    path = Path(text)
    if path.is_file():
        return path
    known = shipped_studies()
    if text in known:
        return known[text]
    if path.suffix in (".yaml", ".yml") or "/" in text:
        raise SpecError(f"study {text}: there is no such file.", hint="See `bakeoff list studies`.")
    near = difflib.get_close_matches(text, known, n=1)
    raise SpecError(
        f"study {text}: no study of this name ships with bakeoff, and there is no such file.",
        hint=f"Did you mean {near[0]}?" if near else "See `bakeoff list studies`.",
    )
