# SPDX-License-Identifier: Apache-2.0
"""The empty folder that a page begins in, and the environment of what runs there."""

import os


def prepared(place, program):
    """An empty folder, and an environment in which `coeval` is the program and nothing of the user's own counts."""
    programs, folder = place / "programs", place / "here"
    programs.mkdir()
    folder.mkdir()
    os.chmod(place, 0o755)
    (programs / "coeval").symlink_to(program)
    tools = os.environ.get("COEVAL_BOOK_DIR") or os.path.expanduser("~/.cache/coeval-book")
    paths = [str(programs), f"{tools}/venv/bin", "/usr/lib/postgresql/15/bin", os.environ["PATH"]]
    kept = {name: os.environ[name] for name in ("HOME", "USER", "LOGNAME") if name in os.environ}
    settings = {"PATH": ":".join(paths), "LC_ALL": "C.UTF-8", "TZ": "UTC", "PSQLRC": "/dev/null", "PAGER": "cat"}
    return folder, kept | settings
