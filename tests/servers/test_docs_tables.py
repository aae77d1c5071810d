"""The tables of docs/reference/servers.md are those of the catalogue."""

from tools.docs_tables import DOCS, built_in_catalog, servers_page


def test_the_page_is_up_to_date():
    text = (DOCS / "servers.md").read_text("utf-8")
    assert servers_page(text, built_in_catalog()) == text, "write it anew: make docs"


def test_every_server_is_on_the_page():
    text = (DOCS / "servers.md").read_text("utf-8")
    assert all(f"`{entry.flavour}:{entry.version}`" in text for entry in built_in_catalog().entries)
