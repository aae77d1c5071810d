"""Find the settings in which two arms of a run differ, and make the study that searches them.

Everything else in which the servers differ is one more setting, `server`, which only the contender itself has.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from bakeoff.errors import SpecError
from bakeoff.plan.factorial import arm_names
from bakeoff.plan.workloads import workload_names
from bakeoff.search.model import SERVER, Search, Setting, key_of
from bakeoff.spec import Arm, Origin, Study
from bakeoff.stats.differences import DifferenceOrigin, differences, same_value, variable_of
from bakeoff.stats.model import Analysis, Frozen

DOCUMENT = "attribution.json"  # in the run directory of a search: the `Attribution` that it was made for
FOLDER = "explain/attribute"  # below the run directory that is explained: the run directories of searches

SETTINGS_MAX = 100

_KNOWN = tomllib.loads(Path(__file__).with_name("can_matter.toml").read_text("utf-8"))["patterns"]
_CAN_MATTER = [re.compile(pattern) for pattern in _KNOWN]


class Attribution(Frozen):
    """The settings in which two arms of a run differ."""

    baseline: str
    contender: str
    settings: tuple[Setting, ...]  # those that can be told apart; `server` is last if the binaries differ, too
    left_out: dict[str, tuple[str, ...]] = {}  # by reason, other settings that differ; they are part of `server`

    def without(self, reasons: Mapping[str, str]) -> "Attribution":
        """Leave out settings for a reason, by factor."""
        left_out = dict(self.left_out)
        for setting in self.settings:
            if reason := reasons.get(setting.factor):
                left_out[reason] = (*left_out.get(reason, ()), setting.name)
        kept = tuple(each for each in self.settings if each.factor not in reasons)
        return self.model_copy(update={"settings": kept, "left_out": left_out})


def differing(study: Study, baseline: Arm, contender: Arm, variables: Mapping[str, Mapping[str, str]]) -> Attribution:
    """Find the settings in which two arms differ, by their global variables as far as these are known."""
    for arm in (baseline, contender):
        if arm.server.is_running:
            raise SpecError(
                f"attribute: {arm.label} is a running server, whose settings bakeoff does not change.",
                hint="Compare two servers that bakeoff starts.",
            )
    mine, theirs = (variables.get(arm.name, {}) for arm in (baseline, contender))
    server = _binaries(baseline) != _binaries(contender)
    can_be_limited = baseline.server.origin is not Origin.DOCKER
    found = [
        *typed_settings(
            "option", baseline.server.options, contender.server.options, mine, theirs, other_default=server
        ),
        *typed_settings("env", baseline.server.env, contender.server.env),
        *(typed_settings("limit", baseline.server.limits, contender.server.limits) if can_be_limited else []),
        *(
            Setting(factor=part, good=_parts(baseline, contender, part), bad=_parts(contender, baseline, part))
            for part in ("data", "connection")
            if getattr(baseline, part) != getattr(contender, part)
        ),
    ]
    left_out: dict[str, list[str]] = {}
    if server:
        pair = study.with_arms((baseline, contender))
        found += _other_defaults(pair, mine, theirs, {each.name for each in found}, left_out)
    if not found and not server:
        raise SpecError(f"attribute: no setting differs between {baseline.label} and {contender.label}.")
    if beyond := [each.name for each in found[SETTINGS_MAX:]]:
        left_out["more than one run can separate"] = beyond
    rest = _rest(baseline, contender)
    whole = [Setting(factor=SERVER, good="", bad="", rest=rest)] if server or left_out else []
    return Attribution(
        baseline=baseline.name,
        contender=contender.name,
        settings=(*found[:SETTINGS_MAX], *whole),
        left_out={reason: tuple(names) for reason, names in left_out.items()},
    )


def _binaries(arm: Arm) -> object:
    plain = arm.server.with_settings(options=(), env=(), limits=())
    return (plain, arm.slowdown_percent)


def _rest(baseline: Arm, contender: Arm) -> str:
    mine, theirs = (
        str(arm.server.with_settings(options=(), env=(), limits=(), cnf_files=())) for arm in (baseline, contender)
    )
    if mine != theirs:
        return "the version itself"
    if baseline.server.cnf_files != contender.server.cnf_files:
        return "the rest of the cnf files"
    return "the injected slowdown" if baseline.slowdown_percent != contender.slowdown_percent else "the other settings"


def typed_settings(
    kind: str,
    mine: Sequence[tuple[str, str]],
    theirs: Sequence[tuple[str, str]],
    my_variables: Mapping[str, str] = MappingProxyType({}),
    their_variables: Mapping[str, str] = MappingProxyType({}),
    *,
    other_default: bool = False,
) -> list[Setting]:
    """Find options, environment variables or limits that were typed differently and are not read as the same."""
    found = []
    for name in dict.fromkeys(key_of(kind, each) for each, _ in (*theirs, *mine)):
        ours, value = (tuple(pair for pair in pairs if key_of(kind, pair[0]) == name) for pairs in (mine, theirs))
        if ours == value or _are_equal(name, my_variables, their_variables):
            continue
        if not value and other_default and name in their_variables:
            value = ((name, their_variables[name]),)
        shown = _shown(ours, my_variables.get(name)), _shown(value, their_variables.get(name))
        if shown[0] != shown[1]:
            found.append(Setting(factor=f"{kind}.{name}", good=shown[0], bad=shown[1], pairs=value))
    return found


def _are_equal(name: str, mine: Mapping[str, str], theirs: Mapping[str, str]) -> bool:
    known = name in mine and name in theirs and f"{name}_basename" not in mine
    return known and same_value(mine[name], theirs[name])


def _shown(typed: Sequence[tuple[str, str]], variable: str | None) -> str:
    if variable is not None and not any(value for _, value in typed):
        return variable
    return ", ".join(value or name for name, value in typed) or "(not set)"


def _parts(arm: Arm, other: Arm, part: str) -> str:
    ours, theirs = (dict(getattr(each, part)) for each in (arm, other))
    texts = []
    for name, value in ours.items():
        if value == theirs[name]:
            continue
        if name == "options":
            texts += [f"{each}={text}" for each, text in value if (each, text) not in theirs[name]]
        else:
            texts.append(f"{name}={value}" if value else f"no {name.replace('_', ' ')}")
    return ", ".join(texts) or "(by default)"


def _other_defaults(
    pair: Study, mine: Mapping[str, str], theirs: Mapping[str, str], known: set[str], left_out: dict[str, list[str]]
) -> list[Setting]:
    """Find settings that nobody typed, that both servers know with different values, and that can matter."""
    baseline, contender = pair.arms
    off = ("binlog_", "gtid_") if {mine.get("log_bin"), theirs.get("log_bin")} <= {"OFF", "0"} else ()
    in_files = {variable_of(name) for arm in pair.arms for name in arm.server.cnf_options}
    ranked = []
    for each in differences(mine, theirs, pair, contender):
        follows = each.origin is DifferenceOrigin.DECLARED and each.variable not in in_files
        if each.variable in known or follows:
            continue
        ranks = (at for at, known in enumerate(_CAN_MATTER) if known.fullmatch(each.variable))
        rank = None if each.variable.startswith(off) else next(ranks, None)
        if each.baseline is None or each.contender is None:
            if rank is not None:
                label = (baseline if each.contender is None else contender).label
                left_out.setdefault(f"only {label} has it", []).append(each.variable)
        elif rank is None:
            left_out.setdefault("it is not known to change the speed", []).append(each.variable)
        elif (value := _settable(each.variable, each.baseline, each.contender)) is None:
            left_out.setdefault("it has values that only one of them knows", []).append(each.variable)
        else:
            setting = Setting(
                factor=f"option.{each.variable}",
                good=value[0],
                bad=value[1],
                pairs=((each.variable, value[1]),),
                declared=each.variable in in_files,
            )
            ranked.append((rank, setting))
    return [setting for _, setting in sorted(ranked, key=lambda pair: pair[0])]


def _settable(name: str, mine: str, theirs: str) -> tuple[str, str] | None:
    """Return both values as an option takes them, without flags that only one server knows; None if nothing is left."""
    if name == "optimizer_switch":
        ours, others = (dict(flag.partition("=")[::2] for flag in text.split(",")) for text in (mine, theirs))
        changed = [flag for flag in ours if flag in others and ours[flag] != others[flag]]
        texts = (",".join(f"{flag}={side[flag]}" for flag in changed) for side in (ours, others))
    elif name == "sql_mode":  # a mode that only one version has would keep the other from starting
        return None
    else:
        return mine, theirs
    first, second = texts
    return (first, second) if first else None


def search_study(study: Study, analysis: Analysis, asked: Attribution, *, budget_s: float) -> Study:
    """Return the study that searches these settings, in the cell with the largest difference that was claimed."""
    arms = {arm.name: arm for arm in study.arms}
    baseline, contender = arms[asked.baseline], arms[asked.contender]
    if len(asked.settings) < 2:
        alone = asked.settings[0].name if asked.settings else "their binaries"
        raise SpecError(
            f"attribute: {baseline.label} and {contender.label} differ in {alone} alone: it explains the difference.",
            hint="Nothing needs to be measured.",
        )
    names = arm_names(2)
    workload, threads = _clearest_cell(study, analysis, asked)
    return study.model_copy(
        update={
            "title": f"{baseline.label} to {contender.label}",
            "arms": tuple(arm.renamed(name, arm.label) for arm, name in zip((baseline, contender), names, strict=True)),
            "workloads": (study.workloads[workload],),
            "threads": (threads,),
            "has_target": False,
            "budget_s": budget_s,
            "design": None,
            "question": Search(settings=asked.settings),
        }
    )


def _clearest_cell(study: Study, analysis: Analysis, asked: Attribution) -> tuple[int, int]:
    claimed = [
        each
        for each in analysis.comparisons
        if analysis.baseline == asked.baseline and each.contender == asked.contender and each.verdict.claims
    ]
    if not claimed:
        return 0, study.threads[0]
    largest = max(claimed, key=lambda each: abs(each.estimate.mean))
    return workload_names(study.workloads).index(largest.workload), largest.threads
