# SPDX-License-Identifier: Apache-2.0
"""For everybody: keyboard, contrast, names of everything, dark, small windows."""

import re

import pytest
from axe_playwright_python.base import AXE_FILE_PATH
from playwright.sync_api import expect

from console import Console

AA_TEXT, AA_EDGE = 4.5, 3.0
AXE_RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]

# Pairs of a colour and what it stands on.
TEXTS = [
    (text, ground)
    for text in ("--text", "--muted")
    for ground in ("--background", "--surface", "--raised", "--row-odd", "--row-hover")
]
TEXTS += [
    ("--on-accent", "--accent"),
    ("--accent", "--background"),
    ("--accent", "--raised"),
    ("--text", "--accent-soft"),
    ("--text", "--selected"),
    ("--bad", "--background"),
    ("--bad", "--bad-soft"),
    ("--warn", "--background"),
    ("--warn", "--warn-soft"),
    ("--good", "--background"),
]
TEXTS += [
    (f"--syntax-{kind}", ground)
    for kind in ("keyword", "string", "number", "type")
    for ground in ("--surface", "--row-hover")
]
EDGES = [("--border-strong", "--background"), ("--accent", "--surface")] + [
    (f"--series-{number}", "--surface") for number in range(1, 7)
]

# Whatever can be used has a name, ids are there once, and what refers to one finds it.
AUDIT = """() => {
  const wrong = [];
  const all = selector => [...document.querySelectorAll(selector)];
  const seen = e => e.checkVisibility();
  const told = e => e.outerHTML.slice(0, 120);
  const labelled = e => (e.getAttribute('aria-labelledby') ?? '').split(' ')
    .map(id => document.getElementById(id)?.textContent ?? '').join('');
  const labels = e => [...(e.labels ?? [])].map(label => label.textContent).join('');
  const name = e => (e.getAttribute('aria-label') || e.textContent || labels(e) || e.title || labelled(e)).trim();
  const used = 'button, a, input, select, [role=tab], [role=grid], [role=tree], [role=img], [role=separator]';
  for (const e of all(used + ', table, dialog, fieldset, nav, section'))
    if (seen(e) && !name(e)) wrong.push(`no name: ${told(e)}`);
  const ids = all('[id]').map(e => e.id);
  for (const id of new Set(ids.filter((id, i) => ids.indexOf(id) !== i))) wrong.push(`twice: #${id}`);
  for (const attribute of ['aria-controls', 'aria-labelledby', 'aria-activedescendant'])
    for (const e of all(`[${attribute}]`))
      if (seen(e) && !document.getElementById(e.getAttribute(attribute)))
        wrong.push(`${attribute} to nothing: ${told(e)}`);
  const parents = { tab: 'tablist', treeitem: 'tree', gridcell: 'row', rowheader: 'row', columnheader: 'row' };
  for (const [role, parent] of Object.entries(parents))
    for (const e of all(`[role=${role}]`))
      if (!e.parentElement.closest(`[role=${parent}]`)) wrong.push(`${role} outside of ${parent}`);
  for (const list of all('[role=tablist], [role=tree]'))
    if (seen(list) && list.querySelectorAll('[tabindex="0"]').length !== 1)
      wrong.push(`not one stop: ${list.getAttribute('aria-label')}`);
  for (const e of all('[tabindex]')) if (e.tabIndex > 0) wrong.push('tabindex above 0');
  if (all('main').length !== 1) wrong.push('not one main');
  if (!document.documentElement.lang || !document.title) wrong.push('no language or title');
  return wrong;
}"""

# Controls and headings that reach out of the window, unless they are in something that scrolls by itself.
OUTSIDE = """() => [...document.querySelectorAll('button, input, select, h1, h2')]
  .filter(e => e.checkVisibility() && !e.closest('.tab-list, .table-scroll, .grid, .picture-scroll'))
  .filter(e => { const r = e.getBoundingClientRect(); return r.width > 1 && (r.right > innerWidth + 1 || r.left < -1); })
  .map(e => e.outerHTML.slice(0, 100))"""


def luminance(colour):
    red, green, blue = (int(part) / 255 for part in re.findall(r"\d+", colour)[:3])
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (red, green, blue)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def colour(page, name):
    return page.evaluate(
        "name => { const e = document.createElement('i'); e.style.color = `var(${name})`; document.body.append(e);"
        "const c = getComputedStyle(e).color; e.remove(); return c; }",
        name,
    )


def everywhere(console):
    """Goes through the parts, stopping where there is something to look at."""
    page = console.page
    console.run("SELECT id, owner, balance, note FROM accounts ORDER BY id")
    yield "table"
    page.get_by_text("Chart", exact=True).click()
    expect(page.locator(".plot canvas")).to_be_visible()
    yield "chart"
    console.run("SELECT nothing")
    yield "messages"
    console.button("Parameters").click()
    console.button("Add $1").click()
    yield "parameters"
    console.button("Parameters (1)").click()
    console.part("Now")
    expect(page.get_by_role("table", name="Latest conflicts")).to_be_visible()
    yield "now"
    console.part("Data")
    expect(page.get_by_role("treeitem").first).to_be_visible()
    yield "tree"
    page.get_by_role("treeitem", name="events", exact=True).click()
    expect(page.get_by_role("table", name="Columns")).to_be_visible()
    yield "columns"
    console.tab("Definition").click()
    yield "definition"
    console.tab("Bricks").click()
    yield "bricks"
    console.tab("Rows").click()
    yield "rows"


@pytest.mark.parametrize("scheme", ["light", "dark"])
class TestColours:
    @pytest.fixture
    def options(self, scheme):
        return {"viewport": {"width": 1200, "height": 800}, "color_scheme": scheme}

    def test_contrast(self, console, page, scheme):
        assert page.locator("html").get_attribute("data-theme") == scheme
        for pairs, least in ((TEXTS, AA_TEXT), (EDGES, AA_EDGE)):
            for text, ground in pairs:
                found = contrast(colour(page, text), colour(page, ground))
                assert found >= least, f"{text} on {ground}: {found:.2f}"

    def test_switch_goes_against_the_system(self, console, page, scheme):
        other = {"light": "dark", "dark": "light"}[scheme]
        before = page.locator("body").evaluate("b => getComputedStyle(b).backgroundColor")
        page.get_by_label("Colours").select_option(other)
        assert page.locator("html").get_attribute("data-theme") == other
        assert page.locator("body").evaluate("b => getComputedStyle(b).backgroundColor") != before
        page.reload()
        expect(console.editor).to_be_visible()
        assert page.locator("html").get_attribute("data-theme") == other


@pytest.mark.parametrize("options", [
    {"viewport": {"width": 1280, "height": 800}, "color_scheme": "light"},
    {"viewport": {"width": 380, "height": 760}, "color_scheme": "dark"},
], ids=["light, wide", "dark, narrow"])
def test_axe_finds_nothing(console, page, options):
    wrong = []
    # Not as a script of the page, whose policy would not have it.
    rules = AXE_FILE_PATH.read_text()
    for place in everywhere(console):
        page.evaluate(rules + "\n0")
        found = page.evaluate(f"axe.run(document, {{ runOnly: {AXE_RULES} }})")["violations"]
        wrong += [f"{place}: {one['id']}: {node['html'][:120]}" for one in found for node in one["nodes"]]
    assert not wrong, "\n".join(wrong)


def test_everything_has_a_name(console, page):
    for place in everywhere(console):
        assert page.evaluate(AUDIT) == [], place


class TestSmall:
    @pytest.fixture
    def options(self):
        return {"viewport": {"width": 360, "height": 740}, "has_touch": True}

    def test_nothing_is_wider_than_the_window(self, console, page):
        for place in everywhere(console):
            assert page.evaluate("document.documentElement.scrollWidth") <= 360, place
            assert page.evaluate(OUTSIDE) == [], place

    def test_way_back_from_a_table(self, console, page):
        console.part("Data")
        page.get_by_role("treeitem", name="accounts", exact=True).click()
        page.get_by_role("link", name="All tables").click()
        expect(page.get_by_role("tree")).to_be_visible()


def test_by_keyboard_alone(page, server):
    console = Console(page, server).open()
    expect(page.get_by_label("User")).to_be_focused()
    page.keyboard.type(server.user)
    page.keyboard.press("Tab")
    page.keyboard.type(server.password)
    page.keyboard.press("Enter")
    expect(console.editor).to_be_visible()
    # The first stop leads past the bar on top.
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    for _ in range(20):
        page.keyboard.press("Tab")
        if console.editor.evaluate("e => e === document.activeElement"):
            break
    expect(console.editor).to_be_focused()
    page.keyboard.type("SELECT 1 AS one, 2 AS two")
    page.keyboard.press("Escape")
    page.keyboard.press("Control+Enter")
    console.done()
    # The editor does not keep the focus.
    page.keyboard.press("Tab")
    expect(page.get_by_role("separator")).to_be_focused()
    page.keyboard.press("Tab")
    expect(console.tab("1 row")).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(console.tab("Messages")).to_be_focused()
    page.keyboard.press("ArrowLeft")
    for _ in range(8):
        page.keyboard.press("Tab")
        if console.grid.evaluate("e => e === document.activeElement"):
            break
    expect(console.grid).to_be_focused()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page.get_by_role("complementary", name="Value")).to_contain_text("two")
    page.keyboard.press("Control+c")
    assert page.evaluate("navigator.clipboard.readText()") == "2"
    page.keyboard.press("Escape")
    expect(page.get_by_role("complementary", name="Value")).to_have_count(0)


def test_run_is_read_aloud(console, page):
    console.run("SELECT 1")
    expect(page.locator("[aria-live=polite].visually-hidden")).to_have_text(re.compile(r"Done: 1 row, .*"))
    console.run("SELECT nothing")
    expect(page.locator("[aria-live=polite].visually-hidden")).to_contain_text("Error")
