# SPDX-License-Identifier: Apache-2.0
"""The page as a person uses it."""

import re

from playwright.sync_api import expect

CELLS = """rows => rows.map(row => [Number(row.dataset.row),
  [...row.querySelectorAll('[role=gridcell]')].map(cell => cell.textContent)])"""


class Console:
    def __init__(self, page, server):
        self.page, self.server = page, server

    def open(self):
        self.page.goto(self.server.address)
        return self

    def log_in(self, user=None, password=None, *, read_only=False):
        self.page.get_by_label("User").fill(user or self.server.user)
        self.page.get_by_label("Password").fill(self.server.password if password is None else password)
        if read_only:
            self.page.get_by_label("Read only").check()
        self.page.get_by_role("button", name="Log in").click()

    def ready(self):
        self.open()
        self.log_in()
        expect(self.editor).to_be_visible()
        return self

    @property
    def editor(self):
        return self.page.get_by_role("textbox", name="SQL")

    def write(self, sql):
        """Replaces the text of the editor."""
        self.editor.click()
        self.page.keyboard.press("Control+a")
        self.page.keyboard.press("Delete")
        self.page.keyboard.insert_text(sql)
        return self

    def run(self, sql):
        """Runs a text and waits for its end."""
        self.write(sql)
        self.page.keyboard.press("Control+Enter")
        return self.done()

    def done(self):
        expect(self.button("Run")).to_be_visible(timeout=30_000)
        expect(self.page.locator(".elapsed")).to_have_text(re.compile(r"\d"))
        return self

    def button(self, name):
        return self.page.get_by_role("button", name=name, exact=True)

    def tab(self, name):
        return self.page.get_by_role("tab", name=name)

    @property
    def grid(self):
        return self.page.get_by_role("grid")

    def cells(self):
        """The rows in view, by their numbers."""
        expect(self.page.locator(".grid .row[data-row]:not(.coming)").first).to_be_visible()
        rows = self.page.locator(".grid .row[data-row]").evaluate_all(CELLS)
        return {number: row for number, row in rows if row}

    @property
    def messages(self):
        return self.page.locator(".messages")

    @property
    def state(self):
        return self.page.locator(".transaction .state")

    def part(self, name):
        self.page.get_by_role("navigation", name="Parts").get_by_role("link", name=name).click()
        return self
