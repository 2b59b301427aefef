# SPDX-License-Identifier: Apache-2.0
import json
import re

from playwright.sync_api import expect

# How many of a canvas' points have a colour.
DRAWN = """canvas => canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data
  .filter((value, index) => index % 4 === 3 && value > 0).length"""


def test_several_results_of_one_run(console):
    console.run("SELECT 1 AS a; SELECT 2 AS b, 'x' AS c; CREATE TEMPORARY TABLE t (a int)")
    expect(console.tab("1: 1 row")).to_be_visible()
    expect(console.tab("2: 1 row")).to_have_attribute("aria-selected", "true")
    assert console.cells()[0] == ["2", "x"]
    console.tab("1: 1 row").click()
    expect(console.page.locator("[role=gridcell]")).to_have_text(["1"])
    console.tab("Messages").click()
    expect(console.messages).to_contain_text("CREATE TABLE")


def test_only_the_selection_runs(console, page):
    console.write("SELECT 'first';\nSELECT 'second'")
    page.keyboard.press("Shift+Home")
    page.keyboard.press("Control+Enter")
    console.done()
    expect(console.tab("1 row")).to_have_count(1)
    assert console.cells()[0] == ["second"]


def test_null_and_numbers_look_their_part(console):
    console.run("SELECT NULL AS a, 12.50 AS b, '' AS c")
    cells = console.page.locator("[role=gridcell]")
    expect(cells.nth(0).locator(".null")).to_have_text("NULL")
    assert cells.nth(1).evaluate("cell => getComputedStyle(cell).textAlign") == "right"


def test_error_is_told_and_marked(console):
    console.run("SELECT 1;\nSELECT nothing\nFROM accounts")
    alert = console.messages.get_by_role("alert")
    expect(alert).to_contain_text("nothing")
    expect(alert).to_contain_text("42703")
    expect(alert).to_contain_text("Line 2, column 8")
    expect(console.page.locator(".cm-error-place")).to_have_text("nothing")


def test_error_in_a_selection_is_marked_in_the_text(console, page):
    console.write("-- äöü 𝄞\nSELECT 1;\nSELECT 'ä', missing FROM accounts")
    page.keyboard.press("Shift+Home")
    page.keyboard.press("Control+Enter")
    console.done()
    expect(page.locator(".cm-error-place")).to_have_text("missing")


def test_long_statement_is_cancelled(console):
    console.write("SELECT pg_sleep(30)")
    console.page.keyboard.press("Control+Enter")
    expect(console.page.locator(".elapsed")).to_contain_text("running")
    console.button("Cancel").click()
    console.done()
    expect(console.messages).to_contain_text("57014")


def test_state_of_the_transaction_is_in_sight(console):
    expect(console.state).to_have_text("No transaction")
    console.run("BEGIN")
    expect(console.state).to_have_text("In a transaction")
    console.run("SELECT 1 / 0")
    expect(console.state).to_have_text("Transaction failed")
    expect(console.button("Commit")).to_have_count(0)
    console.button("Rollback").click()
    expect(console.state).to_have_text("No transaction")
    console.run("BEGIN; CREATE TEMPORARY TABLE kept (a int)")
    console.button("Commit").click()
    expect(console.state).to_have_text("No transaction")
    console.run("SELECT count(*) FROM kept")
    assert console.cells()[0] == ["0"]


def test_each_tab_is_a_session(console, page):
    console.run("BEGIN")
    console.button("New tab").click()
    expect(console.state).to_have_text("No transaction")
    console.run("SELECT 7 AS seven")
    console.tab("Query 1").click()
    expect(console.state).to_have_text("In a transaction")
    console.button("Rollback").click()
    console.tab("Query 2").focus()
    page.keyboard.press("Delete")
    expect(console.tab("Query 2")).to_have_count(0)
    expect(console.tab("Query 1")).to_be_focused()


def test_last_tab_gives_way_to_an_empty_one(console, page):
    console.run("SELECT 'old'")
    console.tab("Query 1").focus()
    page.keyboard.press("Delete")
    expect(console.editor).to_contain_text("SELECT ...")
    expect(page.get_by_role("gridcell")).to_have_count(0)
    console.run("SELECT 'new'")
    assert console.cells()[0] == ["new"]


def test_open_transaction_is_not_closed_by_mistake(console, page):
    console.run("BEGIN")
    console.tab("Query 1").focus()
    page.keyboard.press("Delete")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("rolled back")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(console.state).to_have_text("In a transaction")
    console.button("Log out").click()
    dialog.get_by_role("button", name="Log out").click()
    expect(page.get_by_label("Password")).to_be_visible()


def test_tab_is_renamed_and_kept_over_a_reload(console, page):
    console.write("SELECT 'kept'")
    console.tab("Query 1").focus()
    page.keyboard.press("F2")
    page.get_by_role("textbox", name="Name").fill("mine")
    page.keyboard.press("Enter")
    page.wait_for_timeout(500)
    page.reload()
    expect(console.tab("mine")).to_be_visible()
    expect(console.editor).to_contain_text("SELECT 'kept'")


def test_parameters(console, page):
    console.button("Parameters").click()
    console.button("Add $1").click()
    page.get_by_label("$1").fill("7")
    console.run("SELECT owner FROM accounts WHERE id = $1")
    assert console.cells()[0] == ["owner 7"]
    page.get_by_label("NULL").check()
    console.run("SELECT owner FROM accounts WHERE id = $1")
    expect(page.get_by_text("No rows.")).to_be_visible()
    assert (
        "7"
        not in json.loads(
            page.evaluate("localStorage.getItem(Object.keys(localStorage).find(k => k.includes('history')))")
        )[0]["sql"]
    )


def test_a_million_rows_to_the_last(console, page):
    console.run("SELECT n, 'row ' || n AS text FROM generate_series(1, 1000000) AS g(n) ORDER BY n")
    expect(console.tab("1,000,000 rows")).to_be_visible(timeout=60_000)
    page.locator(".grid").evaluate("grid => { grid.scrollTop = grid.scrollHeight; }")
    expect(page.get_by_role("gridcell", name="row 1000000", exact=True)).to_be_visible()
    assert page.locator(".grid [role=row]").count() < 200
    page.locator(".grid").focus()
    page.keyboard.press("Control+Home")
    expect(page.get_by_role("gridcell", name="row 1", exact=True)).to_be_visible()
    # Beyond what the scroll bar can say, the wheel still goes by rows.
    page.locator(".grid").hover()
    page.mouse.wheel(0, 240)
    expect(page.get_by_role("gridcell", name="row 11", exact=True)).to_be_visible()
    assert 8 <= min(console.cells()) + 2 <= 12


def test_long_cell_is_shown_whole_and_copied(console, page):
    console.run("SELECT repeat('abc ', 200) AS text, 5 AS five")
    page.get_by_role("gridcell").first.click()
    pane = page.get_by_role("complementary", name="Value")
    expect(pane).to_contain_text("800 characters")
    pane.get_by_role("button", name="Copy cell").click()
    assert page.evaluate("navigator.clipboard.readText()") == "abc " * 200
    pane.get_by_role("button", name="Copy row").click()
    assert page.evaluate("navigator.clipboard.readText()") == "abc " * 200 + "\t5"
    page.keyboard.press("Escape")
    expect(pane).to_have_count(0)


def test_chart_in_two_clicks(console, page):
    console.run("SELECT owner, balance FROM accounts WHERE id <= 20 ORDER BY id")
    page.get_by_text("Chart", exact=True).click()
    chart = page.get_by_role("img", name="Bars of balance by owner, 20 points")
    expect(chart).to_be_visible()
    page.get_by_text("Lines", exact=True).click()
    expect(page.get_by_role("img", name="Lines of balance by owner, 20 points")).to_be_visible()
    assert page.locator(".plot canvas").evaluate(DRAWN) > 500


def test_csv_is_downloaded(console, page):
    console.run("SELECT id, owner FROM accounts WHERE id <= 3 ORDER BY id")
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV").click()
    with open(download.value.path(), encoding="utf-8") as file:
        lines = file.read().splitlines()
    assert lines == ["id,owner", "1,owner 1", "2,owner 2", "3,owner 3"]


def test_all_of_a_query_is_downloaded_with_its_types(console, page, api, tmp_path):
    console.run("SELECT id, owner, balance FROM accounts WHERE id <= 5 ORDER BY id -- five of them")
    with page.expect_download() as download:
        page.get_by_role("button", name="Parquet").click()
    assert download.value.suggested_filename == "result.parquet"
    path = tmp_path / "five.parquet"
    download.value.save_as(path)
    tab = api.tab()
    # The server reads it back: a number is one, and 5 / 0 says that all rows are there.
    api.must(tab, f"SELECT 1 / (count(*) - 4) FROM '{path}'")
    events = api.run(tab, f"SELECT 1 / (count(*) - 5) FROM '{path}' WHERE owner LIKE 'owner %' AND balance + id > 0")
    assert [event["sqlstate"] for event in events if event["event"] == "error"] == ["22012"], events
    with page.expect_download() as download:
        page.get_by_role("button", name="Arrow").click()
    assert download.value.suggested_filename == "result.arrows"
    with open(download.value.path(), "rb") as file:
        head, size = file.read(4), len(file.read())
    assert head == b"\xff\xff\xff\xff" and size > 200
    # The tab's session goes on.
    console.run("SELECT 1")
    assert console.cells()[0] == ["1"]
    api.close_tab(tab)


def test_what_cannot_be_asked_again_says_why(console, page):
    console.run("SELECT 1; SELECT 2")
    expect(page.get_by_role("button", name="Parquet")).to_be_disabled()
    console.run("BEGIN")
    console.run("SELECT id FROM accounts")
    page.get_by_role("button", name="Arrow").click()
    expect(page.get_by_role("alert")).to_contain_text("Commit or roll back first")
    expect(console.state).to_have_text("In a transaction")
    console.button("Rollback").click()
    expect(console.state).to_have_text("No transaction")


def test_row_that_is_too_long_is_not_kept(console, page):
    console.run("SELECT n, CASE n WHEN 3 THEN repeat('x', 40000000) ELSE 'short' END FROM generate_series(1, 5) g(n)")
    expect(page.locator(".result")).to_contain_text("only the first 2 rows are kept")
    console.tab(re.compile("Messages")).click()
    expect(console.messages).to_contain_text(re.compile("row 3 has 39 MiB.*left", re.S))


def test_names_are_completed(console, page):
    console.write("SELECT a. FROM accounts a")
    for _ in range(len(" FROM accounts a")):
        page.keyboard.press("ArrowLeft")
    page.keyboard.press("Control+Space")
    listed = page.locator(".cm-tooltip-autocomplete")
    expect(listed).to_contain_text("balance")
    expect(listed).to_contain_text("owner")
    console.write("SELECT * FROM accoun")
    page.keyboard.press("Control+Space")
    expect(listed).to_contain_text("accounts")
    # Nobody is that fast, and what is offered is not taken by mistake.
    page.wait_for_timeout(150)
    page.keyboard.press("Tab")
    expect(console.editor).to_contain_text("FROM accounts")


def test_plan_is_a_tree(console, page):
    console.write("SELECT owner, sum(balance) FROM accounts GROUP BY owner ORDER BY owner")
    console.button("Explain").click()
    console.done()
    plan = page.get_by_role("table", name="Plan")
    expect(plan.get_by_role("row").nth(2)).to_be_visible()
    console.button("Analyze").click()
    console.done()
    expect(plan).to_contain_text("Rows")
    expect(page.locator(".plan-times")).to_contain_text("execution")


def test_history_finds_and_gives_back(console, page):
    console.run("SELECT 'needle'")
    console.run("SELECT 'hay'")
    console.write("")
    console.button("History").click()
    page.get_by_placeholder("Search", exact=True).fill("needle")
    entries = page.locator(".history button")
    expect(entries).to_have_count(1)
    entries.first.click()
    expect(console.editor).to_contain_text("SELECT 'needle'")


def test_notices_are_told(console):
    console.run("DROP TABLE IF EXISTS never_there")
    expect(console.messages).to_contain_text(re.compile("NOTICE.*never_there"))
