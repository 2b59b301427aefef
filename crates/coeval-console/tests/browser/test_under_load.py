# SPDX-License-Identifier: Apache-2.0
"""The page while the server has all that it can do. It comes last, as nothing else needs what it leaves behind."""

import threading

import pytest
from playwright.sync_api import expect

from server import Api

WRITERS, READERS = 4, 4
ROWS = 20_000

TABLE = "CREATE TABLE loaded (id int PRIMARY KEY, n bigint NOT NULL)"
FILL = f"INSERT INTO loaded SELECT i, i FROM generate_series(1, {ROWS}) AS g(i)"
# Millions of pairs, more than both processors are through with while the test looks.
PAIRS = "BEGIN READ ONLY; SELECT sum(a.n % 7), 'heavy' FROM loaded a, loaded b WHERE a.id % 100 = b.id % 100; COMMIT"


class Load:
    """Sessions that write and read without a pause, each in a login of its own."""

    def __init__(self, server):
        self._server = server
        self._over = threading.Event()
        self.done, self.failed = [0] * (WRITERS + READERS), []
        statements = [f"UPDATE loaded SET n = n + 1 WHERE id = {number + 1}" for number in range(WRITERS)]
        statements += [PAIRS] * READERS
        self._threads = [
            threading.Thread(target=self._work, args=(number, sql), daemon=True)
            for number, sql in enumerate(statements)
        ]
        for thread in self._threads:
            thread.start()

    def _work(self, number, sql):
        try:
            api = Api(self._server)
            tab = api.tab()
            while not self._over.is_set():
                api.must(tab, sql)
                self.done[number] += 1
            api.close_tab(tab)
        except Exception as error:  # noqa: BLE001 -- told by the test, whatever it is
            self.failed.append(error)

    def end(self):
        self._over.set()
        for thread in self._threads:
            thread.join(60)


@pytest.fixture
def load(server):
    if not server.is_coeval:
        pytest.skip("the load is for the tests' own server")
    api = Api(server)
    tab = api.tab()
    api.must(tab, TABLE)
    api.must(tab, FILL)
    load = Load(server)
    yield load
    load.end()
    api.must(tab, "DROP TABLE loaded")
    api.close_tab(tab)


def test_the_page_works_while_the_server_has_all_it_can_do(console, page, load):
    console.part("Now")
    sessions = page.get_by_role("table", name="Sessions")
    expect(sessions.get_by_role("row").filter(has_text="'heavy'")).to_have_count(READERS)
    expect(page.get_by_role("img", name="Commits, the last five minutes. Now: per second unknown")).to_have_count(0)
    console.part("Query")
    console.run("SELECT owner FROM accounts WHERE id = 9")
    assert console.cells()[0] == ["owner 9"]
    console.write("SELECT sum(a.n % 5) FROM loaded a JOIN loaded b ON a.id % 2 = b.id % 2")
    page.keyboard.press("Control+Enter")
    expect(page.locator(".elapsed")).to_contain_text("running")
    console.button("Cancel").click()
    console.done()
    expect(console.messages).to_contain_text("57014")
    console.part("Data")
    expect(page.get_by_role("tree").get_by_role("treeitem", name="public").first).to_be_visible()
    load.end()
    assert not load.failed
    assert all(load.done), load.done
