"""Turn a function into a command: its annotated parameters, and the fields of its models, become options.

A parameter is one option, `Annotated[TYPE, Option(...)]`, or a model with such fields.
"""

import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import annotated_types
import click
from click.core import ParameterSource
from pydantic_core import PydanticUndefined

from bakeoff.cli.commands import HELP_NAMES, Command, Group
from bakeoff.errors import SpecError
from bakeoff.spec.fields import Argument, Frozen, Option


class Take:
    """Which fields of a model a command has as options; `shown` and `defaults` replace the model's defaults."""

    def __init__(self, *names: str, shown: str = "", **defaults: str) -> None:
        self.names, self.shown, self.defaults = names, shown, defaults


@dataclass
class _Field:
    name: str
    kind: Any
    option: Option
    default: Any = None
    flags: str = ""
    limits: list[Any] = field(default_factory=list)


def command(
    *examples: str, most_used: Sequence[str] = (), into: Group | None = None, name: str | None = None
) -> Callable[[Callable[..., Any]], Command]:
    """Turn a function into a command; `into` adds it to a group. The function returns an exit code, or None for 0."""

    def make(function: Callable[..., Any]) -> Command:
        hints = get_type_hints(function, include_extras=True)
        parameters = {each.name: (hints[each.name], each.default) for each in signature(function).parameters.values()}
        made = Command(
            name=name or function.__name__,
            callback=lambda **values: function(**_arguments(parameters, values)),
            help=function.__doc__,
            params=[_parameter(each) for each in _fields(parameters)],
            context_settings=HELP_NAMES,
        )
        made.examples, made.most_used = examples, most_used
        if into is not None:
            into.add_command(made)
        return made

    return make


def _arguments(parameters: dict[str, tuple[Any, Any]], values: dict[str, Any]) -> dict[str, Any]:
    """Return a function's arguments: only what was typed, so that models can tell it from their defaults."""
    source = click.get_current_context().get_parameter_source
    typed = {name: value for name, value in values.items() if source(name) is ParameterSource.COMMANDLINE}
    arguments: dict[str, Any] = {}
    for name, (hint, _) in parameters.items():
        model, take = _model_of(hint)
        if model is not None:
            arguments[name] = model(
                **take.defaults | {each: typed[each] for each in _names(model, take) if each in typed}
            )
        elif name in typed:
            arguments[name] = typed[name]
    return arguments


def _model_of(hint: Any) -> tuple[type[Frozen] | None, Take]:  # noqa: ANN401
    kind, *extras = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    take = next((each for each in extras if isinstance(each, Take)), Take())
    return (kind, take) if isinstance(kind, type) and issubclass(kind, Frozen) else (None, take)


def _names(model: type[Frozen], take: Take) -> tuple[str, ...]:
    return take.names or tuple(model.model_fields)


def _fields(parameters: dict[str, tuple[Any, Any]]) -> Iterator[_Field]:
    for name, (hint, default) in parameters.items():
        model, take = _model_of(hint)
        if model is None:
            kind, *extras = get_args(hint)
            yield _field(name, kind, extras, default if default is not Parameter.empty else PydanticUndefined)
            continue
        for each in _names(model, take):
            info = model.model_fields[each]
            found = _field(each, info.annotation, info.metadata, info.default, str(info.validation_alias or each))
            found = replace(found, option=replace(found.option, section=found.option.section or model.SECTION))
            if each in take.defaults:
                found = replace(found, default=take.defaults[each], option=replace(found.option, default=""))
            elif take.shown:
                found = replace(found, option=replace(found.option, default=take.shown))
            yield found


def _field(name: str, kind: Any, extras: list[Any], default: Any, flag: str = "") -> _Field:  # noqa: ANN401
    option = next((each for each in reversed(extras) if isinstance(each, Option)), Option())
    flags = option.flags or f"--{(flag or name).replace('_', '-')}"
    return _Field(name, kind, option, default, flags, [each for each in extras if not isinstance(each, Option)])


def _parameter(each: _Field) -> click.Parameter:
    option, (kind, optional) = each.option, _without_none(each.kind)
    several = get_origin(kind) in (list, tuple) and option.parse is None
    required = each.default is PydanticUndefined and not optional and not option.default
    item = get_args(kind)[0] if several else kind
    if isinstance(option, Argument):
        of_kind = _click_type(item, each, option.metavar)
        argument = _Argument([each.name], type=of_kind, nargs=-1 if several else 1, required=required)
        argument.record = (option.metavar, option.help)
        return argument
    flags, attributes = each.flags, dict[str, Any]()
    if item is bool:
        flags += "" if (kind is bool and not optional) or "/" in flags else f"/--no-{flags[2:]}"
        attributes = {"is_flag": True, "default": None}
    else:
        words = "|".join(item) if isinstance(item, type) and issubclass(item, StrEnum) else None
        attributes = {"multiple": several, "metavar": option.metavar or words}
        attributes["type"] = _click_type(item, each, flags.split()[0])
        if option.metavar.startswith("["):
            attributes |= {"is_flag": False, "flag_value": "auto"}
    made = _Option([each.name, *flags.split()], help=_help(each), required=required, **attributes)
    made.section = option.section or Frozen.SECTION
    return made


class _Option(click.Option):
    """An option in a section of the help. Its help text already has the default and the range."""

    section = ""

    def get_help_extra(self, ctx: click.Context) -> Any:  # noqa: ANN401
        return {}


class _Argument(click.Argument):
    section = "Arguments"
    record = ("", "")

    def make_metavar(self, ctx: click.Context) -> str:
        shown = self.record[0] + ("..." if self.nargs == -1 else "")
        return shown if self.required else f"[{shown}]"


class _Words(click.Choice[str]):
    def __init__(self, kind: type[StrEnum]) -> None:
        super().__init__([str(each) for each in kind])
        self.kind = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401
        return self.kind(super().convert(value, param, ctx))


class _Parsed(click.ParamType[Any]):
    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name, self.parse = name, parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401
        try:
            return self.parse(value) if isinstance(value, str) else value
        except SpecError as error:
            raise SpecError(f"{self.name}: {error.message}", hint=error.hint) from None


def _click_type(kind: Any, each: _Field, name: str) -> Any:  # noqa: ANN401
    if each.option.parse is not None:
        return _Parsed(name, each.option.parse)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return _Words(kind)
    if kind is int:
        low, high = _range(each.limits)
        return click.IntRange(low, high)
    return {float: click.FLOAT, Path: click.Path(path_type=Path)}.get(kind, click.STRING)


def _range(limits: list[Any]) -> tuple[int | None, int | None]:
    found: dict[type, Any] = {}
    for limit in limits:
        for part in getattr(limit, "metadata", (limit,)):
            found[type(part)] = part
    low, high = found.get(annotated_types.Ge), found.get(annotated_types.Le)
    return low and low.ge, high and high.le


def _help(each: _Field) -> str:
    """Return the sentence with the default and the range added."""
    option, extras = each.option, []
    if default := option.default or _shown(each.default):
        extras.append(f"default: {default}")
    low, high = _range(each.limits)
    if high is not None and high < 2**31:
        extras.append(f"{low or 0} to {high}")
    return f"{option.help} [{'; '.join(extras)}]" if extras else option.help


def _shown(default: Any) -> str:  # noqa: ANN401
    if default is None or default is PydanticUndefined or isinstance(default, bool):
        return ""
    return ",".join(map(str, default)) if isinstance(default, list | tuple) else str(default)


def _without_none(kind: Any) -> tuple[Any, bool]:  # noqa: ANN401
    if get_origin(kind) not in (Union, types.UnionType):
        return kind, False
    (kind,) = (each for each in get_args(kind) if each is not type(None))
    return kind, True
