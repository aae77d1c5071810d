"""A study named on the command line, with the scale, servers and other changes that the user asks for."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bakeoff.errors import HostError, KeyPath, SpecError
from bakeoff.plan.factorial import make_study
from bakeoff.spec import Study, parse_server
from bakeoff.spec.study_file import LoadedStudy, find_study, read_study


@dataclass(frozen=True)
class StudyRequest:
    loaded: LoadedStudy
    study: Study


def request_study(
    name: str, *, scale: str = "", changes: Mapping[str, Any] | None = None, servers: Sequence[str] = ()
) -> StudyRequest:
    """Read a study file, with other values for some of its keys; `servers`, the baseline first, replace those in it."""
    loaded = read_study(find_study(name), scale=scale, installed=_installed)
    loaded = replace(loaded, form=loaded.form.model_copy(update=changes))
    if servers:
        loaded = loaded.with_servers(servers)
    return StudyRequest(loaded, make_study(loaded))


def _installed(named: Sequence[str]) -> list[str]:
    """List the catalogue's servers that are in the cache and not named, oldest first within a flavour."""
    from bakeoff.servers import Catalog, is_installed, known_servers  # importing it takes a tenth of a second

    catalog = Catalog.load()
    known = set()
    for name in named:
        with contextlib.suppress(SpecError):  # a mistake is reported later, with its line
            server = parse_server(name)
            if not (server.options or server.cnf_files or server.env):
                known.add(catalog.resolve(server, is_installed).name)
    here = [entry for entry in known_servers() if is_installed(entry) and entry.name not in known]
    return [f"{entry.flavour}:{entry.version}" for entry in here]


@contextlib.contextmanager
def naming_the_line(request: StudyRequest) -> Iterator[None]:
    """Add file and line to errors in a field of the study that only show on this machine or its servers."""
    try:
        yield
    except (SpecError, HostError) as error:
        if not error.field:
            raise
        place = _place_of(error.field, request)
        message = request.loaded.error(*place, reason=error.message).message
        raise type(error)(message, hint=error.hint) from None


def _place_of(field: KeyPath, request: StudyRequest) -> KeyPath:
    loaded, design = request.loaded, request.study.design
    match field:
        case ("arms", str(name), *rest) if design and name in design.levels:
            factors = (factor.name for factor in design.factors)
            return loaded.place_of_field(tuple(rest), dict(zip(factors, design.levels[name], strict=True)))
    return field
