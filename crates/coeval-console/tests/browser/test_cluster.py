# SPDX-License-Identifier: Apache-2.0
"""What is shown of a cluster: of none, of nodes that have bricks, of one to which bricks are on their way, and of one that says nothing.
The page is told of them in the server's place: each that ran would be a program more. That the server tells the truth is in its own
tests."""

import pytest
from playwright.sync_api import expect

COLUMNS = [
    "node",
    "address",
    "is_own",
    "has_keeper",
    "state",
    "connection",
    "last_error",
    "bricks",
    "rows",
    "bytes",
    "bricks_to_come",
]


def node(number, **said):
    """A row of `coeval_cluster_nodes`, of another node that has all its bricks."""
    row = {"node": str(number), "address": f"db{number}:7001", "is_own": "f", "has_keeper": "f", "state": "live"}
    has = {"connection": "connected", "bricks": "96", "rows": "1200000", "bytes": "3145728", "bricks_to_come": "0"}
    return {**row, **has, **said}


class Told:
    """What the page is told."""

    def __init__(self):
        self.nodes = []

    def question(self, route):
        if "coeval_cluster_nodes" not in route.request.post_data_json["sql"]:
            route.continue_()
            return
        route.fulfill(
            json={
                "columns": [{"name": name} for name in COLUMNS],
                "rows": [[row.get(name) for name in COLUMNS] for row in self.nodes],
                "truncated": False,
            }
        )


@pytest.fixture
def told(console, page, server):
    told = Told()
    page.route(f"{server.address}api/query", told.question)
    yield told
    page.unroute_all(behavior="ignoreErrors")


@pytest.fixture
def panel(page):
    return page.get_by_role("region", name="Cluster")


def tile(panel, number):
    """A node on the map."""
    return panel.locator(".uses > div").filter(has_text=f"Node {number}")


def test_without_a_cluster_there_is_nothing_to_show(console, page, told, panel):
    console.part("Now")
    expect(page.get_by_role("region", name="Safe snapshots")).to_contain_text("Commits behind")
    expect(panel).to_have_count(0)


def test_each_node_has_its_bricks(console, told, panel):
    told.nodes = [
        node(1, has_keeper="t", is_own="t", connection=None),
        node(2, bricks="48"),
    ]
    console.part("Now")
    expect(tile(panel, 1)).to_contain_text("this one")
    expect(tile(panel, 1)).to_contain_text("96 bricks")
    expect(tile(panel, 1).locator("meter")).to_have_attribute("max", "96")
    expect(tile(panel, 2).locator("meter")).to_have_attribute("value", "48")
    rows = panel.get_by_role("table", name="Nodes").locator("tbody tr")
    expect(rows).to_have_count(2)
    for text in ("db1:7001", "live", "here", "1,200,000", "3.00 MiB", "this one"):
        expect(rows.nth(0)).to_contain_text(text)
    expect(rows.nth(1)).to_contain_text("connected")


def test_bricks_that_are_to_come_and_a_node_that_says_nothing(console, told, panel):
    silent = dict.fromkeys(["bricks", "rows", "bytes", "bricks_to_come"])
    told.nodes = [
        node(1, is_own="t", connection=None, bricks_to_come=None),
        node(2, state="joining", bricks="1", bricks_to_come="130"),
        node(3, state="away", connection="pausing", last_error="db3:7001: connection refused", **silent),
        node(4, state="removed", address=None, connection=None, **silent),
    ]
    console.part("Now")
    expect(tile(panel, 2)).to_contain_text("1 brick")
    expect(tile(panel, 2)).to_contain_text("130 to come")
    expect(tile(panel, 2).locator(".warning")).to_have_text("joining")
    expect(tile(panel, 1).locator("meter")).to_have_attribute("max", "131")
    expect(tile(panel, 3)).to_contain_text("has not said")
    expect(tile(panel, 3).locator(".bad")).to_have_text("away")
    expect(tile(panel, 3).locator("meter")).to_have_count(0)
    expect(tile(panel, 4)).to_have_count(0)
    rows = panel.get_by_role("table", name="Nodes").locator("tbody tr")
    expect(rows.nth(2)).to_contain_text("connection refused")
    expect(rows.nth(3)).to_contain_text("removed")
