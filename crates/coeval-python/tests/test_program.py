# SPDX-License-Identifier: Apache-2.0
"""The program that the package carries."""

import importlib.metadata
import re
import subprocess
import sys
import sysconfig

import coeval

PROGRAM = sysconfig.get_path("scripts") + "/coeval"


def run(*command, **options):
    """One that does not end is killed, and named with what it has said."""
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **options)


def test_it_runs():
    done = run(PROGRAM, "--help")
    assert done.returncode == 0 and "Usage: coeval" in done.stdout
    done = run(PROGRAM, "sql", "--in-memory", input="SELECT 1 + 1 AS two;")
    assert (done.returncode, "2" in done.stdout) == (0, True), done.stderr
    done = run(sys.executable, "-m", "coeval", "check", "/nowhere")
    assert done.returncode == 1 and done.stderr.startswith("coeval: ")
    assert run(PROGRAM, "nonsense").returncode == 2


def test_versions():
    assert coeval.__version__ == importlib.metadata.version("coeval")


def test_one_wheel_is_for_all_pythons_and_systems():
    """Python's stable interface, and a C library that is not this machine's alone."""
    wheel = importlib.metadata.distribution("coeval").read_text("WHEEL")
    tags = re.findall(r"^Tag: (\S+)$", wheel, re.MULTILINE)
    assert tags
    for tag in tags:
        assert re.fullmatch(r"cp310-abi3-manylinux(_\d+_\d+|2014)_\w+", tag), tags
