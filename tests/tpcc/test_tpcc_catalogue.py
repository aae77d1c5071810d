"""TPC-C on every server of the catalogue, one at a time (`make test-tpcc`), with two warehouses."""

import collections

import pytest
from tpcc_shop import SMALL, Shop

from bakeoff.engine import Engine
from bakeoff.servers import ServerPool, install, settings_for
from bakeoff.servers.catalog import Catalog
from bakeoff.spec import Data, Profile, parse_server

pytestmark = [pytest.mark.server, pytest.mark.slow]

SERVERS = [f"{entry.flavour}:{entry.version}" for entry in Catalog.load().entries]
GROUPS = 100
TYPES = ("new_order", "payment", "order_status", "delivery", "stock_level")


@pytest.fixture(params=SERVERS)
def shop(request, tmp_path_factory):
    """Start one server with two warehouses, and stop it afterwards: nineteen at once would not fit into memory."""
    spec = parse_server(request.param)
    installation = install(spec)
    settings = settings_for(installation, spec, Profile.MATCHED, Data(), SMALL, connections=32)
    with Engine() as engine, ServerPool() as pool:
        instance = pool.create("S", installation, settings)
        instance.start()
        opened = Shop(engine, instance)
        opened.open()
        opened.command("prepare", scale=2)
        yield opened


def near(count, of, share):
    """Whether a count fits its share within five standard deviations."""
    return abs(count / of - share) < 5 * (share * (1 - share) / of) ** 0.5


def chi_square(values, least, most):
    """Return the chi-square of these values in equal groups against the uniform law."""
    width = (most - least + 1) // GROUPS
    counts = collections.Counter(min((value - least) // width, GROUPS - 1) for value in values)
    expected = len(values) / GROUPS
    return sum((counts[group] - expected) ** 2 / expected for group in range(GROUPS))


def test_conditions_and_shares_hold(shop):
    assert shop.failed_conditions(scale=2) == set()
    more, outside, _ = shop.uncounted_orders(seconds=6.0, scale=2)
    assert shop.failed_conditions(scale=2) == set()
    assert 0 <= more <= outside

    *uncounted_alone, counts = shop.uncounted_orders(seconds=6.0, scale=2, threads=1)
    assert uncounted_alone == [0, 0]
    # Decks of 23 cards: what is dealt strays from the mix by less than one deck.
    decks = sum(counts[kind] for kind in TYPES) / 23
    for kind, cards in zip(TYPES, (10, 10, 1, 1, 1), strict=True):
        assert abs(counts[kind] - decks * cards) <= cards, counts
    assert near(counts.get("new_order.rollback", 0), counts["new_order"], 0.01)

    lines = shop.sql("SELECT ol_i_id, ol_supply_w_id <> ol_w_id FROM order_line WHERE ol_o_id > 3000")
    assert near(sum(remote for _, remote in lines), len(lines), 0.01)
    paid = "SELECT h_c_w_id <> h_w_id FROM history WHERE h_date > '2026-01-01'"
    remote = [row[0] for row in shop.sql(paid)]
    assert near(sum(remote), len(remote), 0.15)

    # Loaded items are uniform (99 degrees of freedom: 5 standard deviations are 70), ordered ones have NURand's skew.
    loaded = shop.sql("SELECT ol_i_id FROM order_line WHERE ol_o_id <= 3000 AND ol_d_id = 1")
    assert chi_square([item for (item,) in loaded], 1, 100_000) < 170
    assert chi_square([item for item, _ in lines], 1, 100_000) > 0.01 * len(lines) + 170
