# SPDX-License-Identifier: Apache-2.0
from playwright.sync_api import expect

from console import Console


def test_wrong_password_is_told_and_right_one_lets_in(page, server):
    console = Console(page, server).open()
    console.log_in(password="wrong")
    expect(page.get_by_role("alert")).to_contain_text("password")
    console.log_in()
    expect(console.editor).to_be_visible()
    expect(page.locator(".who")).to_contain_text(server.user)


def test_login_survives_a_reload(console, page):
    page.reload()
    expect(console.editor).to_be_visible()


def test_read_only_login_refuses_changes(page, server):
    console = Console(page, server).open()
    console.log_in(read_only=True)
    expect(page.locator(".who")).to_contain_text("read only")
    console.run("CREATE TABLE nothing_of_it (a int)")
    expect(console.messages).to_contain_text("25006")


def test_text_stays_when_the_login_ends(console, page):
    console.write("SELECT 'kept'")
    page.wait_for_timeout(500)
    page.context.clear_cookies()
    page.keyboard.press("Control+Enter")
    expect(page.get_by_label("Password")).to_be_visible()
    console.log_in()
    expect(console.editor).to_contain_text("SELECT 'kept'")
    page.keyboard.press("Escape")
    console.editor.click()
    page.keyboard.press("Control+Enter")
    console.done()
    assert console.cells()[0] == ["kept"]


def test_form_says_who_gets_in(page, server):
    Console(page, server).open()
    expect(page.get_by_text("Any name will do where no role has a password.")).to_be_visible()


def test_logout_shows_the_form(console, page):
    console.button("Log out").click()
    expect(page.get_by_label("User")).to_be_visible()
