# SPDX-License-Identifier: Apache-2.0
"""What can be told wrong without being seen: figures, quantiles, ranges of bricks, plans. And what the page may load."""

import pathlib
import re
import urllib.request

import pytest


@pytest.fixture
def call(page, server):
    """Calls a function of one of the page's modules."""
    page.goto(server.address)

    def call(module, name, *arguments):
        return page.evaluate(
            "async ([module, name, given]) => (await import(module))[name](...given)",
            [f"{server.address}{module}", name, list(arguments)],
        )

    return call


def test_quantiles(call):
    buckets = [{"bound": 0.001, "count": 0}, {"bound": 0.01, "count": 10}, {"bound": 1, "count": 20}]
    before = [{"bound": bucket["bound"], "count": 0} for bucket in buckets]
    assert call("now/figures_text.js", "quantile", before, buckets, 0.5) == pytest.approx(0.01)
    assert call("now/figures_text.js", "quantile", before, buckets, 0.25) == pytest.approx(0.0055)
    assert call("now/figures_text.js", "quantile", before, buckets, 0.99) == pytest.approx(0.01 + 0.99 * 0.98)
    # Only what came between the two readings counts.
    assert call("now/figures_text.js", "quantile", buckets, buckets, 0.5) is None
    later = [{"bound": 0.001, "count": 4}, {"bound": 0.01, "count": 14}, {"bound": 1, "count": 24}]
    assert call("now/figures_text.js", "quantile", buckets, later, 0.5) == pytest.approx(0.0005)


def test_ranges_of_bricks(call):
    def ranges(text):
        return [
            (one["dimension"], one["from"], one["to"]) for one in call("data/brick_ranges.js", "parseRanges", text)
        ]

    assert ranges("region in 'CA'..'NY', day in 2026-01-01..2026-01-07") == [
        ("region", "CA", "NY"),
        ("day", "2026-01-01", "2026-01-07"),
    ]
    assert ranges("n in -8..-5") == [("n", "-8", "-5")]
    assert ranges("at in 2026-01-01 00:00:00..2026-01-07 23:59:59.999999, n in 0..3") == [
        ("at", "2026-01-01 00:00:00", "2026-01-07 23:59:59.999999"),
        ("n", "0", "3"),
    ]
    assert ranges("a in 'it's, so'..'x', b in 'y'..'z'") == [("a", "it's, so", "x"), ("b", "y", "z")]
    assert ranges(None) == []


def test_cells_of_bricks(page, call, server):
    def brick(place, **given):
        figures = ("rows", "visible_rows", "bytes", "value_bytes", "epochs_entries", "epochs_bytes")
        return {"place": place, **dict.fromkeys(figures, "1"), "newest_epoch": None, "last_load": None, **given}

    # Two bricks of other regions in one cell, and one of another day of which nothing is known.
    bricks = [
        brick({"day": "1"}, newest_epoch="7", last_load="2026-11-27 20:00:00+00"),
        brick({"day": "1"}, newest_epoch="10", last_load="2026-11-27 19:00:00+00"),
        brick({"day": "2"}),
        brick({"day": "3"}, newest_epoch="3", last_load="2026-11-27 18:00:00.5+00"),
    ]
    read = """async ([module, bricks]) => {
      const { at, most, loads } = (await import(module)).cells(bricks, 'day', null);
      return { cells: ['1', '2', '3'].map(day => at(day, null)), most: most('rows'), loads: loads() };
    }"""
    address = f"{server.address}data/brick_ranges.js"
    found = page.evaluate(read, [address, bricks])
    latest, earliest = (
        call("figures.js", "moment", text) for text in ("2026-11-27 20:00:00+00", "2026-11-27 18:00:00.5+00")
    )
    assert [cell["newestEpoch"] for cell in found["cells"]] == [10, None, 3]
    assert [cell["lastLoad"] for cell in found["cells"]] == [latest, None, earliest]
    assert (found["most"], found["loads"]) == (2, {"first": earliest, "last": latest})
    assert page.evaluate(read, [address, [bricks[2]]])["loads"] is None


def test_who_is_connected_of_those_that_commits_wait_for(call):
    def synchronous(names, *replicas, waiting=0):
        keys = ("pid", "application_name", "sync_state")
        found = call("now/synchronous.js", "synchronous", names, [dict(zip(keys, row)) for row in replicas], waiting)
        return found and (found["connected"], found["mark"])

    north, south, west = (("1", "north", "quorum"), ("2", "South", "quorum"), ("3", "west", "async"))
    assert synchronous("", north) is None
    assert synchronous(None) is None
    assert synchronous("ANY 1 (north, south)") == (0, "warning")
    assert synchronous("ANY 1 (north, south)", west, waiting=1) == (0, "bad")
    assert synchronous("ANY 1 (north, south)", north, west, waiting=1) == (1, "")
    assert synchronous("ANY 2 (north, south)", north, west) == (1, "warning")
    # A name is one machine, and where any name will do each connection is one.
    assert synchronous("ANY 2 (north, south)", south, ("4", "south", "quorum")) == (1, "warning")
    assert synchronous("ANY 2 (*)", south, ("4", "south", "quorum")) == (2, "")
    assert synchronous('ANY 2 ("a*", south)', south, ("4", "south", "quorum")) == (1, "warning")
    assert synchronous("FIRST 1 (north)", ("1", "north", None)) == (None, "")


def test_plan_with_what_was_measured(call):
    node = {
        "Node Type": "AggregateExec",
        "Details": "mode=Final, gby=[a@0], metrics=[output_rows=1.50 K, elapsed_compute=310.2µs, "
        "output_bytes=1.2 KB, spill_count=0]",
        "Plans": [{"Node Type": "CoevalScan", "Details": "table=t, filter=a = 7"}],
    }
    read = call("query/plan.js", "read", node)
    assert (read["type"], read["details"]) == ("AggregateExec", "mode=Final, gby=[a@0]")
    assert (read["rows"], read["rowsText"], read["time"]) == (1500, "1.50 K", pytest.approx(0.3102))
    assert read["others"] == [["output_bytes", "1.2 KB"], ["spill_count", "0"]]
    assert (read["below"][0]["details"], read["below"][0]["time"]) == ("table=t, filter=a = 7", None)


def test_figures_are_written_short(call):
    assert [call("figures.js", "bytes", value) for value in (0, 1023, 1536, "1073741824")] == [
        "0 B",
        "1,023 B",
        "1.50 KiB",
        "1.00 GiB",
    ]
    assert [call("figures.js", "milliseconds", value) for value in (0.25, 5, 12.34, 1500, 61_000, 3_661_000)] == [
        "250 µs",
        "5.00 ms",
        "12.3 ms",
        "1.5 s",
        "1:01 min",
        "1:01:01 h",
    ]
    assert call("figures.js", "count", "9223372036854775807") == "9,223,372,036,854,775,807"
    assert call("figures.js", "moment", "2026-11-27 20:00:00.5+00") == call(
        "figures.js", "moment", "2026-11-27 21:00:00.5+01:00"
    )


def test_names_are_quoted_where_they_must_be(call):
    assert call("data/catalog.js", "qualified", {"schema": "public", "name": "accounts"}) == "public.accounts"
    assert call("data/catalog.js", "qualified", {"schema": "My", "name": 'say "x"'}) == '"My"."say ""x"""'
    assert call("data/catalog.js", "qualified", {"schema": None, "name": "order"}) == '"order"'


def test_policy(server):
    with urllib.request.urlopen(server.address) as response:
        text, policy = response.read().decode(), response.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy
    nonce = re.search(r'name="csp-nonce" content="([^"]+)"', text)[1]
    assert f"'nonce-{nonce}'" in policy
    with urllib.request.urlopen(server.address) as again:
        assert nonce not in again.read().decode()
    assert not re.search(r"<style|\sstyle=|<script(?![^>]*\ssrc=)|\son\w+=|https?://", text)


def test_the_page_is_small():
    """All that a browser fetches, uncompressed: the docs say less than 1 MB."""
    web = pathlib.Path(__file__).resolve().parents[2] / "web"
    not_served = re.search(r"NOT_SERVED.*?\[(.*?)\];", (web.parent / "build.rs").read_text(), re.DOTALL)[1]
    served = [path for path in web.rglob("*") if path.is_file() and "node_modules" not in path.parts]
    sizes = [path.stat().st_size for path in served if f'"{path.name}"' not in not_served]
    assert 500_000 < sum(sizes) < 1_000_000
