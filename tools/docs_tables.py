"""Write the parts of docs/ that follow from the code: the tables of servers.md, and study.schema.json. `make docs`."""

import json
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlsplit

from bakeoff.servers.catalog import Catalog, Entry
from bakeoff.servers.options import option_facts
from bakeoff.servers.releases import VersionRange, parse_range, version_text
from bakeoff.spec.study_file import StudyFile

DOCS = Path(__file__).parent.parent / "docs" / "reference"
_BASE_ENGINES = "InnoDB, MyISAM"
_FLAVOURS = (("mysql", "mysql"), ("percona", "mysql"), ("mariadb", "mariadb"))  # and the family whose ranges they share
_NAMES = {"archive": "ARCHIVE", "blackhole": "BLACKHOLE", "aria": "Aria", "sequence": "SEQUENCE", "rocksdb": "MyRocks"}


def servers_table(catalog: Catalog) -> str:
    """Return a row per build in a package registry: name, source, download size, engines."""
    rows = [_server_row(entry) for entry in catalog.entries]
    return _markdown(("server", "source", "download", "engines"), rows)


def vendors_table(catalog: Catalog) -> str:
    """Return a row per pattern of file names: which releases it covers, the files and their hosts."""
    rows = []
    for flavour, vendor in catalog.vendors.items():
        for names in vendor.files:
            hosts = dict.fromkeys(str(urlsplit(each).hostname) for each in (*names.addresses, *vendor.addresses))
            files = "<br>".join(f"`{name}`" for name in (*names.minimal, *names.full))
            glibc = f" (glibc {', '.join(names.glibc)})" if names.glibc != ("",) else ""
            rows.append((flavour, _range_text(parse_range(names.versions)), f"{files}{glibc}", "<br>".join(hosts)))
    return _markdown(("flavour", "versions", "files", "hosts"), rows)


def capabilities_table(catalog: Catalog) -> str:
    """Return a row per capability: which versions of each family have it."""
    rows = [
        (each.about, _range_text(each.range_for("mysql")), _range_text(each.range_for("mariadb")))
        for each in catalog.capabilities
    ]
    return _markdown(("what", "MySQL", "MariaDB"), rows)


def options_table() -> str:
    """Return a row per option that some versions ignore."""
    rows = [
        (
            f"`{name}`" + (" ¹" if "source" in row else ""),
            *(_range_text(parse_range(row.get(own, row.get(family)))) for own, family in _FLAVOURS),
            row["reason"],
        )
        for name, row in option_facts().items()
    ]
    return _markdown(("option", "MySQL", "Percona Server", "MariaDB", "elsewhere"), rows)


def servers_page(page: str, catalog: Catalog) -> str:
    """Return servers.md with the text between `<!-- table: NAME -->` and `<!-- end -->` replaced.

    Raises:
        ValueError: a marker is missing.
    """
    for name, text in (
        ("servers", servers_table(catalog)),
        ("vendors", vendors_table(catalog)),
        ("capabilities", capabilities_table(catalog)),
        ("options", options_table()),
    ):
        head, start, rest = page.partition(f"<!-- table: {name} -->\n")
        _, end, tail = rest.partition("<!-- end -->")
        if not start or not end:
            raise ValueError(f"no marker for the table {name}")
        page = f"{head}{start}\n{text}\n{end}{tail}"
    return page


def _server_row(entry: Entry) -> tuple[str, ...]:
    assert entry.source
    if entry.source.debian:
        source = f"Debian {entry.source.debian.suite}: {', '.join(f'`{each}`' for each in _shown_packages(entry))}"
    else:
        source = f"{entry.source.kind.replace('maven', 'Maven')} `{getattr(entry.source, entry.source.kind)}`"
    engines = ", ".join((_BASE_ENGINES, *(_NAMES.get(each, each) for each in entry.engines)))
    moving = " (moving)" if entry.moving else ""
    return (
        f"`{entry.flavour}:{entry.version}`{moving}",
        source,
        f"{entry.download_bytes / 1e6:.0f} MB",
        engines,
    )


def _shown_packages(entry: Entry) -> Iterable[str]:
    assert entry.source and entry.source.debian
    return (
        each
        for each in (*entry.source.debian.packages, *entry.source.debian.extra)
        if "server" in each or "plugin" in each
    )


def _range_text(versions: VersionRange) -> str:
    if versions.until == ():
        return "–"
    if versions.since is None and versions.until is None:
        return "all"
    since = f"≥ {version_text(versions.since)}" if versions.since else ""
    until = f"< {version_text(versions.until)}" if versions.until else ""
    return ", ".join(part for part in (since, until) if part)


def _markdown(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def study_schema() -> str:
    """Return study.schema.json: the JSON schema of a study file, for editors."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema"} | StudyFile.model_json_schema()
    schema["title"] = "bakeoff study"
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def built_in_catalog() -> Catalog:
    """Return the catalogue without the user's own entries."""
    return Catalog.load(Path("/nonexistent"))


def main() -> None:
    """Write both files anew."""
    page = DOCS / "servers.md"
    page.write_text(servers_page(page.read_text("utf-8"), built_in_catalog()), "utf-8")
    (DOCS / "study.schema.json").write_text(study_schema(), "utf-8")


if __name__ == "__main__":
    main()
