# SPDX-License-Identifier: Apache-2.0
"""Takes the pictures of the book: `crates/coeval-console/pictures PROGRAM` runs it. What they show is made here, the examples of
`coeval init` and some sessions that do something, so that they can be taken again when the page has changed. Look at them before they are
committed."""

import os
import pathlib
import shutil
import threading

from playwright.sync_api import expect, sync_playwright

from console import Console
from server import Api, Server

ROOT = pathlib.Path(__file__).resolve().parents[4]
EXAMPLES = ROOT / "crates/coeval-commands/src/init"
PICTURES = ROOT / "docs/pictures"
WINDOW = {"width": 1200, "height": 760}
# For so long sessions do something, so that curves are seen.
SECONDS = 40

SALES = """SELECT p.category, count(*) AS lines, sum(l.quantity * l.price) AS sales, max(o.placed) AS latest
FROM order_lines l
  JOIN products p ON p.id = l.product_id
  JOIN orders o ON o.id = l.order_id
GROUP BY p.category
ORDER BY sales DESC"""


def fill(api):
    """The examples, statement by statement."""
    tab = api.tab()
    for name in ("shop.sql", "metrics.sql"):
        for statement in (EXAMPLES / name).read_text().split(";\n"):
            if statement.strip():
                api.must(tab, statement)
    api.must(tab, "CHECKPOINT")
    api.close_tab(tab)


class Busy:
    """Sessions that order and count, each in a login of its own."""

    def __init__(self, server):
        self._server, self._over = server, threading.Event()
        work = [f"UPDATE products SET stock = stock + 1 WHERE id = {product}" for product in (3, 5, 7)]
        work.append("BEGIN READ ONLY; SELECT status, count(*) FROM orders GROUP BY status; COMMIT")
        self._threads = [threading.Thread(target=self._go_on, args=(sql,), daemon=True) for sql in work]
        for thread in self._threads:
            thread.start()

    def _go_on(self, sql):
        api = Api(self._server)
        tab = api.tab()
        while not self._over.wait(0.05):
            api.must(tab, sql)

    def end(self):
        self._over.set()
        for thread in self._threads:
            thread.join(30)


def wait_for_each_other(server):
    """One session holds a row, another waits for it, and a third for both. Gives what ends that."""
    holder = Api(server)
    tab = holder.tab()
    holder.must(tab, "BEGIN")
    holder.must(tab, "UPDATE products SET price = price + 1 WHERE id = 42")
    waiting = [Api(server) for _ in range(2)]
    threads = [
        threading.Thread(target=api.run, args=(api.tab(), "UPDATE products SET stock = 0 WHERE id = 42"), daemon=True)
        for api in waiting
    ]
    for thread in threads:
        thread.start()

    def end():
        holder.must(tab, "ROLLBACK")
        for thread in threads:
            thread.join(30)

    return end


def shoot(shown, name):
    shown.screenshot(path=PICTURES / f"console-{name}.png")
    print(name, flush=True)


def relation(console, name):
    console.part("Data")
    console.page.get_by_role("tree").get_by_role("treeitem", name=name, exact=True).first.click()
    expect(console.page.get_by_role("article", name=name)).to_be_visible()


def take(page, server):
    console = Console(page, server).ready()
    console.run(SALES)
    console.cells()
    shoot(page, "query")
    console.button("Analyze").click()
    console.done()
    expect(page.get_by_role("table", name="Plan")).to_contain_text("Rows")
    shoot(page, "plan")
    busy, end_of_waits = Busy(server), wait_for_each_other(server)
    console.part("Now")
    expect(page.locator(".lock-session.waits")).to_have_count(2)
    page.wait_for_timeout(SECONDS * 1000)
    shoot(page, "now")
    shoot(page.get_by_role("region", name="Waits for locks", exact=True), "locks")
    end_of_waits()
    busy.end()
    relation(console, "orders")
    expect(page.get_by_role("table", name="Indexes")).to_be_visible()
    shoot(page, "data")
    relation(console, "metrics")
    console.tab("Bricks").click()
    expect(page.get_by_role("grid", name="Bricks")).to_be_visible()
    shoot(page, "bricks")


def main():
    server = Server(os.environ["COEVAL_PROGRAM"])
    try:
        fill(Api(server))
        with sync_playwright() as playwright:
            path = os.environ.get("COEVAL_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
            browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
            page = browser.new_context(locale="en-US", viewport=WINDOW, color_scheme="light").new_page()
            page.set_default_timeout(10_000)
            take(page, server)
            browser.close()
    finally:
        server.close()


if __name__ == "__main__":
    main()
