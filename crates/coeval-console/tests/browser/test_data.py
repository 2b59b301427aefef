# SPDX-License-Identifier: Apache-2.0
import re

from playwright.sync_api import expect


def show(console, schema, name):
    console.part("Data")
    tree = console.page.get_by_role("tree")
    expect(tree.get_by_role("treeitem", name=schema).first).to_be_visible()
    tree.get_by_role("treeitem", name=re.compile(f"^{name}( view)?$")).first.click()
    expect(console.page.get_by_role("article", name=name)).to_be_visible()


def test_table_with_everything_about_it(console, page):
    show(console, "public", "accounts")
    columns = page.get_by_role("table", name="Columns", exact=True)
    expect(columns.get_by_role("row").filter(has_text="balance")).to_contain_text("numeric(12,2)")
    expect(columns.get_by_role("row").filter(has_text="bigint")).to_contain_text("primary key")
    expect(page.get_by_role("table", name="Indexes")).to_contain_text("accounts_owner")
    expect(page.get_by_role("table", name="Constraints")).to_contain_text("CHECK")
    expect(page.get_by_role("table", name="Referenced by")).to_contain_text("orders")
    expect(page.locator(".relation .facts")).to_contain_text("300")
    console.tab("Rows").click()
    expect(page.get_by_role("gridcell", name="owner 1", exact=True)).to_be_visible()
    console.tab("Definition").click()
    expect(page.locator(".definition pre")).to_contain_text(
        re.compile(r"CREATE TABLE public\.accounts \(\s+id bigint NOT NULL")
    )
    console.button("Query it").click()
    expect(console.editor).to_contain_text("FROM public.accounts")


def test_definition_makes_the_table_again(console, page, api, server):
    show(console, "sales", "orders")
    console.tab("Definition").click()
    text = page.locator(".definition pre").inner_text()
    tab = api.tab()
    api.must(tab, "BEGIN")
    api.must(tab, "DROP TABLE sales.orders")
    api.must(tab, text)
    api.must(tab, "ROLLBACK")
    api.close_tab(tab)


def test_definition_makes_a_brick_table_again(console, page, api):
    show(console, "public", "events")
    console.tab("Definition").click()
    text = page.locator(".definition pre").inner_text()
    assert "region CARDINALITY 64 RANGE SIZE 4" in text and "FROM '2026-01-01'" in text, text
    tab = api.tab()
    api.must(tab, "CREATE SCHEMA again")
    for statement in text.replace("public.events", "again.events").split(";\n"):
        api.must(tab, statement)
    of = "SELECT column_name, cardinality, range_size, origin, retention FROM coeval_dimensions WHERE table_schema ="
    events = api.must(tab, f"{of} 'again' EXCEPT {of} 'public'")
    assert [event["rows"] for event in events if event["event"] == "result"] == [0], events
    api.must(tab, "DROP SCHEMA again CASCADE")
    api.close_tab(tab)


def test_indexes_have_size_use_and_advice(console, page, api):
    tab = api.tab()
    api.must(tab, "CREATE INDEX twice ON accounts (owner, balance)")
    for _ in range(2):
        api.must(tab, "SELECT id FROM accounts WHERE owner = 'owner 9' AND balance = 90")
    show(console, "public", "accounts")
    indexes = page.get_by_role("table", name="Indexes")
    row = indexes.get_by_role("row").filter(has_text="accounts_owner")
    expect(row).to_contain_text(re.compile("[KM]iB|[0-9] B"))
    expect(row).to_contain_text("twice begins with the same columns")
    used = indexes.get_by_role("row").filter(has_text="twice ON")
    expect(used).not_to_contain_text("Not used")
    show(console, "sales", "orders")
    expect(page.locator(".advice")).to_contain_text("CREATE INDEX ON sales.orders (account)")
    api.must(tab, "DROP INDEX twice")
    api.close_tab(tab)


def test_tables_are_searched(console, page):
    console.part("Data")
    page.get_by_placeholder("Search tables").fill("order")
    items = page.get_by_role("treeitem").filter(has_text=re.compile("^orders$"))
    expect(items).to_have_count(1)
    expect(page.get_by_role("treeitem", name="accounts", exact=True)).to_have_count(0)


def test_view_has_its_query(console, page):
    show(console, "public", "rich")
    console.tab("Definition").click()
    expect(page.locator(".definition pre")).to_contain_text(re.compile("CREATE VIEW public.rich AS\n.*SELECT", re.S))


def test_bricks_are_a_picture(console, page):
    show(console, "public", "events")
    expect(page.locator(".relation > .facts")).to_contain_text("Epochs entries")
    console.tab("Bricks").click()
    picture = page.get_by_role("grid", name="Bricks")
    expect(picture).to_be_visible()
    filled = picture.locator("[role=gridcell]:not(.none)")
    assert filled.count() > 4
    filled.nth(2).hover()
    cell = page.get_by_role("complementary", name="The cell")
    for word in ("region", "day", "Rows", "Bytes", "Epochs entries", "Newest epoch", "Last load"):
        expect(cell).to_contain_text(word)
    expect(cell).not_to_contain_text("not known")
    page.get_by_label("Heat by").select_option("epochs entries")
    expect(page.locator(".about")).to_contain_text("epochs entries in a cell")
    page.get_by_label("Heat by").select_option("last load")
    expect(page.locator(".about")).to_contain_text("loaded last from")
    picture.focus()
    page.keyboard.press("Control+Home")
    page.keyboard.press("ArrowRight")
    expect(picture).to_have_attribute("aria-activedescendant", "brick-1-0")


def test_the_last_load_is_the_darkest(console, page, api):
    tab = api.tab()
    api.must(tab, "CREATE TABLE loads (day int, id int) USING brick PARTITION BY (day CARDINALITY 3 RANGE SIZE 1)")
    for rows in ("(0, 1), (1, 1), (2, 1)", "(0, 2), (0, 3), (0, 4), (0, 5)", "(2, 2)"):
        api.must(tab, f"INSERT INTO loads VALUES {rows}")
        # The page tells milliseconds apart.
        api.must(tab, "SELECT pg_sleep(0.01)")
    show(console, "public", "loads")
    console.tab("Bricks").click()
    cells = page.get_by_role("grid", name="Bricks").locator("[role=gridcell]")
    # `rgb(var(--heat) / 0.5)`
    strengths = r"cells => cells.map(cell => Number(/([\d.]+)\)$/.exec(cell.style.backgroundColor)[1]))"
    page.get_by_label("Heat by").select_option("rows")
    first, second, third = cells.evaluate_all(strengths)
    assert first > third > second
    page.get_by_label("Heat by").select_option("last load")
    expect(page.locator(".about")).to_contain_text("loaded last from")
    first, second, third = cells.evaluate_all(strengths)
    assert third > first > second
    api.must(tab, "DROP TABLE loads")
    api.close_tab(tab)


def test_system_table_is_shown(console, page):
    console.part("Data")
    page.get_by_placeholder("Search tables").fill("system coeval_store")
    page.get_by_role("treeitem", name="coeval_store").click()
    console.tab("Rows").click()
    expect(page.get_by_role("columnheader", name="durability")).to_be_visible()
