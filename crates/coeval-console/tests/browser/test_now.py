# SPDX-License-Identifier: Apache-2.0
import itertools
import threading

from playwright.sync_api import expect

from console import Console
from server import Api


def test_charts_are_drawn(console, page):
    console.part("Now")
    for name in ("Commits", "Statements", "Statement latency", "Commit latency", "Sessions"):
        expect(page.get_by_role("img", name=f"{name}, the last five minutes")).to_be_visible()
    expect(page.get_by_role("img", name="Commits, the last five minutes. Now: per second unknown")).to_have_count(0)


def test_no_mark_of_the_time_comes_twice(browser, server):
    """In charts that are wide enough marks stood at every half of a minute, and said the minute."""
    page = browser.new_context(locale="en-US", viewport={"width": 1200, "height": 800}).new_page()
    page.add_init_script(
        """window.times = [];
        const fillText = CanvasRenderingContext2D.prototype.fillText;
        CanvasRenderingContext2D.prototype.fillText = function (text, ...where) {
            if (/^\\d\\d:\\d\\d/.test(text)) window.times.push(text);
            return fillText.call(this, text, ...where);
        };"""
    )
    Console(page, server).ready().part("Now")
    expect(page.get_by_role("img", name="Sessions, the last five minutes")).to_be_visible()
    # Until the second samples have come.
    page.wait_for_timeout(3_000)
    # A chart writes its marks from left to right, each time that it is drawn.
    times = page.evaluate("window.times")
    assert len(times) > 20
    assert all(one != another for one, another in itertools.pairwise(times)), times
    page.context.close()


def test_session_is_shown_and_its_statement_cancelled(console, page, api):
    console.write("SELECT pg_sleep(20), 'watched'")
    page.keyboard.press("Control+Enter")
    expect(page.locator(".elapsed")).to_contain_text("running")
    console.part("Now")
    row = (
        page.get_by_role("table", name="Sessions")
        .get_by_role("row")
        .filter(has_text="'watched'")
        .filter(has_text="active")
    )
    expect(row).to_have_count(1)
    row.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("dialog")).to_contain_text("Cancel")
    # The safe answer has the focus.
    expect(console.button("Keep as it is")).to_be_focused()
    console.button("Cancel its statement").click()
    expect(row).to_have_count(0)
    console.part("Query")
    console.done()
    expect(console.messages).to_contain_text("57014")


def test_what_is_done_to_a_session_is_in_sight(console, page):
    console.part("Now")
    sessions = page.get_by_role("group", name="Sessions")
    button = sessions.get_by_role("button", name="End").first
    expect(button).to_be_visible()
    right = "element => element.getBoundingClientRect().right"
    assert button.evaluate(right) <= sessions.evaluate(right)


def test_session_is_ended(console, page, api):
    api.must(api.tab(), "SELECT 'to be ended'")
    console.part("Now")
    row = page.get_by_role("table", name="Sessions").get_by_role("row").filter(has_text="'to be ended'")
    expect(row).to_have_count(1)
    row.get_by_role("button", name="End").click()
    expect(page.get_by_role("dialog")).to_contain_text("End session")
    console.button("End the session").click()
    expect(row).to_have_count(0)


def test_conflict_is_a_row(console, page):
    console.part("Now")
    groups = page.get_by_role("table", name="Conflicts by table and reason")
    expect(groups.get_by_role("button", name="accounts").first).to_be_visible()
    latest = page.get_by_role("table", name="Latest conflicts")
    expect(latest).to_contain_text("UPDATE accounts SET balance = balance -")
    expect(latest).to_contain_text("UPDATE accounts SET balance = balance +")
    groups.get_by_role("button", name="accounts").first.click()
    expect(page.get_by_role("button", name="show all")).to_be_visible()


def test_open_transaction_holds_a_version(console, page):
    console.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM accounts")
    console.part("Now")
    expect(page.get_by_role("table", name="Versions held")).to_contain_text("pid")
    expect(page.get_by_role("region", name="Safe snapshots")).to_contain_text("Commits behind")
    expect(page.get_by_role("region", name="Log and checkpoint")).to_contain_text("fsync")
    console.part("Query")
    console.button("Rollback").click()
    expect(console.state).to_have_text("No transaction")


def test_waits_for_locks_are_a_picture(console, page, api, server):
    holder = api.tab()
    api.must(holder, "BEGIN")
    api.must(holder, "UPDATE accounts SET balance = 1 WHERE id = 7")
    # Each waits in a login of its own: one behind the other.
    waiting = [Api(server) for _ in range(2)]
    threads = []
    console.part("Now")
    for number, other in enumerate(waiting):
        tab = other.tab()
        threads.append(threading.Thread(target=other.run, args=(tab, "DELETE FROM accounts WHERE id = 7")))
        threads[-1].start()
        expect(page.locator(".lock-session.waits")).to_have_count(number + 1)
    expect(page.locator(".lock-session")).to_have_count(3)
    # To the holder both, and to the first one the second one, which stands behind it.
    expect(page.locator(".lock-wait")).to_have_count(3)
    expect(page.locator(".lock-wait.queued")).to_have_count(1)
    expect(page.locator(".lock-wait").first).to_contain_text("accounts (id)=(7)")
    table = page.get_by_role("table", name="Waits for locks")
    expect(table).to_contain_text("holds NO KEY UPDATE")
    expect(table).to_contain_text("DELETE FROM accounts WHERE id = 7")
    api.run(holder, "ROLLBACK")
    expect(page.get_by_text("Nobody waits for a lock.")).to_be_visible()
    for thread in threads:
        thread.join(20)
    api.must(holder, "INSERT INTO accounts (id, owner, balance) VALUES (7, 'owner 7', 70)")
    api.close_tab(holder)


def test_memory_is_told_by_its_use(console, page):
    console.part("Now")
    memory = page.get_by_role("region", name="Memory and data")
    expect(memory).to_contain_text("queries")
    expect(memory.get_by_role("meter", name="queries")).to_be_visible()
