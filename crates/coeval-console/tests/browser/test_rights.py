# SPDX-License-Identifier: Apache-2.0
"""A role that may do little: what it may not see is said, and nothing breaks."""

import pytest
from playwright.sync_api import expect

from console import Console
from server import Api

ROLE, SECRET = "reader", "read it"


@pytest.fixture(scope="module")
def reader(server):
    """The role, with a right on one table."""
    if not server.is_coeval:
        pytest.skip("roles are made by the tests' own server")
    api = Api(server)
    tab = api.tab()
    api.must(tab, f"CREATE ROLE {ROLE} LOGIN PASSWORD '{SECRET}'")
    api.must(tab, f"GRANT SELECT ON sales.orders TO {ROLE}")
    api.must(tab, f"GRANT USAGE ON SCHEMA sales TO {ROLE}")
    api.must(tab, "SELECT 'only for its own role'")
    yield api
    api.close_tab(tab)


@pytest.fixture
def as_reader(page, server, reader):
    console = Console(page, server).open()
    console.log_in(ROLE, SECRET)
    expect(console.editor).to_be_visible()
    return console


def test_now_says_what_is_hidden(as_reader, page):
    as_reader.part("Now")
    sessions = page.get_by_role("table", name="Sessions")
    expect(sessions).to_contain_text("not shown to this role")
    expect(sessions).to_contain_text(ROLE)
    expect(page.get_by_role("table", name="Latest conflicts")).to_be_visible()
    expect(page.locator(".now")).not_to_contain_text("only for its own role")
    expect(page.get_by_role("alert")).to_have_count(0)


def test_figures_of_all_are_for_members_of_pg_monitor(as_reader, page, reader):
    as_reader.part("Now")
    now = page.locator(".now")
    expect(now).to_contain_text("members of pg_monitor")
    expect(page.get_by_role("img", name="Commits, the last five minutes")).to_have_count(0)
    expect(page.get_by_role("img", name="Sessions, the last five minutes")).to_be_visible()
    tab = reader.tab()
    reader.must(tab, f"GRANT pg_monitor TO {ROLE}")
    expect(page.get_by_role("img", name="Commits, the last five minutes")).to_be_visible()
    expect(page.get_by_role("table", name="Sessions")).not_to_contain_text("not shown to this role")
    reader.must(tab, f"REVOKE pg_monitor FROM {ROLE}")
    expect(now).to_contain_text("members of pg_monitor")
    reader.close_tab(tab)


def test_data_says_what_is_hidden(as_reader, page):
    as_reader.part("Data")
    page.get_by_role("treeitem", name="accounts", exact=True).click()
    as_reader.tab("Rows").click()
    expect(page.locator(".about")).to_contain_text("Not shown to this role")
    page.get_by_role("treeitem", name="orders", exact=True).click()
    as_reader.tab("Rows").click()
    expect(page.get_by_role("gridcell").first).to_be_visible()
    page.get_by_role("treeitem", name="events", exact=True).click()
    as_reader.tab("Bricks").click()
    expect(page.locator(".about")).to_contain_text("Their ranges are not shown to this role")


def test_another_users_text_is_not_shown(as_reader, page, server):
    as_reader.write("SELECT 'mine'")
    page.wait_for_timeout(500)
    as_reader.button("Log out").click()
    as_reader.log_in()
    expect(as_reader.editor).not_to_contain_text("mine")
    as_reader.button("Log out").click()
    as_reader.log_in(ROLE, SECRET)
    expect(as_reader.editor).to_contain_text("mine")
