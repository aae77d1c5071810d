"""The tables of docs/servers.md are those of the catalogue."""

from pathlib import Path

from bakeoff.servers.catalog import Catalog
from bakeoff.servers.table import filled

PAGE = Path(__file__).parents[2] / "docs/servers.md"


def test_the_page_is_up_to_date():
    text = PAGE.read_text("utf-8")
    assert filled(text, Catalog.load(Path("/nonexistent"))) == text, "run: python -m bakeoff.servers.table --write"


def test_every_server_is_on_the_page():
    text = PAGE.read_text("utf-8")
    assert all(f"`{entry.flavour}:{entry.version}`" in text for entry in Catalog.load(Path("/nonexistent")).entries)
