# SPDX-License-Identifier: Apache-2.0
"""The examples of the book's page and of the package's README, each page in an empty directory, and what they print."""

import contextlib
import io
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
PAGES = ["docs/how-to/python.md", "crates/coeval-python/README.md"]
BLOCK = re.compile(r"^```(python[^\n]*|text output)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_examples(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall((ROOT / page).read_text())
    assert any(kind.startswith("python") for kind, _ in blocks)
    names: dict = {"__name__": "__main__"}
    printed = ""
    for kind, text in blocks:
        if kind == "text output":
            assert printed == text
            continue
        if "it needs a server" in kind:
            continue
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(text, page, "exec"), names)
        printed = out.getvalue()
    names["db"].close()
