# SPDX-License-Identifier: Apache-2.0
"""The page of the seconds: a table for each way, between marks."""

import os
import platform
import re


def table(way):
    """The steps of a way and their seconds; those up to the first answer in the last row."""
    lines = [f"| {name} | {took:.2f} s |" for name, took in way.seconds]
    return "\n".join(["| step | |", "|---|---:|", *lines, f"| **to the first answer** | **{way.first_answer:.1f} s** |"])


def written(text, way, day):
    """The page with the figures of a way in the place of those that it has."""
    region = re.compile(rf"(<!-- made by tests/first-steps/run: {way.name} -->\n).*?(<!-- end -->)", re.DOTALL)
    machine = f"{os.cpu_count()} processors, {platform.python_implementation()} {platform.python_version()}, {day}."
    # Between empty lines: a table right behind a mark would be a part of it.
    figures = f"\n{table(way)}\n\n{machine}\n\n"
    page, count = region.subn(lambda found: found[1] + figures + found[2], text)
    if count != 1:
        raise SystemExit(f"the page has {count} places for {way.name}")
    return page
