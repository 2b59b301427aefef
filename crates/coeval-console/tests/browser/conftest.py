# SPDX-License-Identifier: Apache-2.0
"""A server for all tests, and for each of them a browser that has never seen it."""

import os
import re
import shutil

import pytest
from playwright.sync_api import expect, sync_playwright

import tables
from console import Console
from server import Api, Running, Server

# Browsers tell answers that are errors: those are what some tests are about.
EXPECTED = re.compile(r"Failed to load resource: the server responded with a status of (400|401|404|409|422)")

expect.set_options(timeout=10_000)


@pytest.fixture(scope="session")
def server():
    running = os.environ.get("COEVAL_CONSOLE")
    program = os.environ.get("COEVAL_PROGRAM")
    if not running and not program:
        pytest.skip("COEVAL_PROGRAM names no program")
    found = Running(running) if running else Server(program)
    if found.is_coeval:
        api = Api(found)
        tables.make(api)
        tables.conflict(api)
    yield found
    found.close()


@pytest.fixture(scope="session")
def browser():
    with sync_playwright() as playwright:
        path = os.environ.get("COEVAL_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
        # Without a sandbox: tests run as root in containers.
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def options():
    """What the browser's window is like; tests put their own in its place."""
    return {"viewport": {"width": 1200, "height": 800}}


@pytest.fixture
def page(browser, options, server):
    server.must_run()
    context = browser.new_context(accept_downloads=True, locale="en-US", **options)
    context.grant_permissions(["clipboard-read", "clipboard-write"], origin=server.address.rstrip("/"))
    page = context.new_page()
    page.set_default_timeout(10_000)
    said = []
    page.on("console", lambda message: said.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    yield page
    context.close()
    server.must_run()
    unexpected = [text for text in said if not EXPECTED.match(text)]
    assert not unexpected, f"the browser complained: {unexpected}"


@pytest.fixture
def console(page, server):
    """Logged in, the editor in front."""
    return Console(page, server).ready()


@pytest.fixture
def api(server):
    return Api(server)
