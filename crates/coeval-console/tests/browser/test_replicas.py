# SPDX-License-Identifier: Apache-2.0
"""What is shown of replicas: of none, of some, of those that commits wait for, and of one that has gone. The page is told of them in
the server's place: each that ran would be a program more. That the server tells the truth is in its own tests."""

import pytest
from playwright.sync_api import expect

COLUMNS = [
    "pid",
    "usename",
    "application_name",
    "client_addr",
    "state",
    "sent_lsn",
    "flush_lsn",
    "replay_lsn",
    "replay_lag",
    "sync_state",
    "reply_time",
    "now",
]
NOW = "2026-11-29 12:00:00+00"


def replica(pid, name, **said):
    """A row of `pg_stat_replication`, of a replica that has just said that it has everything."""
    row = {"pid": str(pid), "usename": "copier", "application_name": name, "client_addr": "10.0.0.2", "state": "streaming"}
    places = {"sent_lsn": "0/5000", "flush_lsn": "0/5000", "replay_lsn": "0/5000", "replay_lag": "00:00:00.002"}
    return {**row, **places, "sync_state": "async", "reply_time": "2026-11-29 11:59:59.5+00", "now": NOW, **said}


class Told:
    """What the page is told."""

    def __init__(self):
        self.replicas = []
        self.names = ""
        self.waiting = "0"
        self.figures = ""

    def answer(self, sql):
        """The columns and rows in place of the server's; none where that is to answer."""
        if "pg_stat_replication" in sql:
            return COLUMNS, self.replicas
        if "synchronous_standby_names" in sql:
            return ("names", "waiting"), [{"names": self.names, "waiting": self.waiting}]
        return None

    def question(self, route):
        answer = self.answer(route.request.post_data_json["sql"])
        if answer is None:
            route.continue_()
            return
        columns, rows = answer
        route.fulfill(
            json={
                "columns": [{"name": name} for name in columns],
                "rows": [[row.get(name) for name in columns] for row in rows],
                "truncated": False,
            }
        )

    def metrics(self, route):
        route.fulfill(content_type="text/plain", body=route.fetch().text() + self.figures)


@pytest.fixture
def told(console, page, server):
    told = Told()
    page.route(f"{server.address}api/query", told.question)
    page.route(f"{server.address}api/figures", told.metrics)
    yield told
    page.unroute_all(behavior="ignoreErrors")


@pytest.fixture
def panel(page):
    return page.get_by_role("region", name="Replication")


def rows(panel):
    return panel.get_by_role("table", name="Replicas").locator("tbody tr")


def fact(panel, name):
    """The value of a figure with a name."""
    return panel.locator(".facts > div").filter(has_text=name).locator("dd")


def test_without_replicas_there_is_nothing_to_show(console, page, told, panel):
    console.part("Now")
    expect(page.get_by_role("region", name="Safe snapshots")).to_contain_text("Commits behind")
    expect(panel).to_have_count(0)


def test_who_is_waited_for_and_not_there_is_missed(console, told, panel):
    told.names = "ANY 1 (north, south)"
    console.part("Now")
    expect(fact(panel, "Commits wait for")).to_have_text("ANY 1 (north, south)")
    expect(panel).to_contain_text("No replica is connected.")
    connected = fact(panel, "Of these connected")
    expect(connected).to_have_text("0")
    expect(connected).to_have_class("warning")
    # One that nobody waits for is of no help.
    told.replicas = [replica(70, "west")]
    told.waiting = "3"
    expect(fact(panel, "Sessions that wait for them")).to_have_text("3")
    expect(connected).to_have_text("0")
    expect(connected).to_have_class("bad")


def test_a_replica_that_nobody_waits_for(console, told, panel):
    told.replicas = [replica(70, "north")]
    told.figures = '\ncoeval_replica_behind_bytes{pid="70",stage="flushed"} 0\n' + (
        'coeval_replica_behind_bytes{pid="70",stage="applied"} 3072\n'
    )
    console.part("Now")
    for text in ("north", "streaming", "async", "0 B", "3.00 KiB", "00:00:00.002", "500 ms ago"):
        expect(rows(panel)).to_contain_text(text)
    expect(panel).not_to_contain_text("Commits wait for")


def test_two_replicas_of_which_one_has_said_nothing_yet(console, told, panel):
    told.names = "FIRST 1 (north, south)"
    told.replicas = [
        replica(70, "north", sync_state="sync"),
        replica(71, "south", sync_state="potential", reply_time=None, replay_lag=None, flush_lsn=None, replay_lsn=None),
    ]
    # Nothing that it has said counts as nothing that it has: of all the log that there ever was.
    told.figures = "".join(
        f'\ncoeval_replica_behind_bytes{{pid="{pid}",stage="{stage}"}} {lacking}\n'
        for pid, lacking in ((70, 0), (71, 20_480))
        for stage in ("flushed", "applied")
    )
    console.part("Now")
    expect(rows(panel)).to_have_count(2)
    expect(rows(panel).nth(0)).to_contain_text("sync")
    expect(rows(panel).nth(0)).to_contain_text("0 B")
    expect(rows(panel).nth(1)).to_contain_text("potential")
    expect(rows(panel).nth(1)).not_to_contain_text("KiB")
    connected = fact(panel, "Of these connected")
    expect(connected).to_have_text("2")
    expect(connected).not_to_have_class("warning")


def test_a_replica_that_goes(console, told, panel):
    told.names = "ANY 2 (north, south)"
    told.replicas = [replica(70, "north", sync_state="quorum"), replica(71, "South", sync_state="quorum")]
    console.part("Now")
    connected = fact(panel, "Of these connected")
    expect(connected).to_have_text("2")
    # Its machine has lost power: the connection is still there, and beside it the next one.
    silent = replica(71, "South", sync_state="quorum", reply_time="2026-11-29 11:58:00+00", replay_lag="00:02:00")
    told.replicas = [told.replicas[0], silent, replica(72, "south", sync_state="quorum")]
    expect(rows(panel)).to_have_count(3)
    expect(rows(panel).nth(1).locator(".warning")).to_have_text("2:00 min ago")
    expect(rows(panel).nth(0).locator(".warning")).to_have_count(0)
    expect(connected).to_have_text("2")
    told.replicas = told.replicas[:1]
    expect(rows(panel)).to_have_count(1)
    expect(connected).to_have_text("1")
    expect(connected).to_have_class("warning")


def test_a_role_that_is_not_told_is_told_nothing_wrong(console, told, panel):
    told.names = "ANY 1 (north)"
    hidden = dict.fromkeys(["client_addr", "state", "sync_state", "reply_time", "replay_lag", "flush_lsn", "replay_lsn"])
    told.replicas = [replica(70, "north", **hidden)]
    console.part("Now")
    expect(rows(panel)).to_contain_text("not shown to this role")
    expect(fact(panel, "Commits wait for")).to_have_text("ANY 1 (north)")
    expect(fact(panel, "Of these connected")).to_have_count(0)
