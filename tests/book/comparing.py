# SPDX-License-Identifier: Apache-2.0
"""Whether what was printed is what a page shows.

Three dots within a line stand for anything in it, a line of three dots for any number of lines. Blanks at the ends of lines and
empty lines at both ends count for nothing.
"""

import re

DOTS = "..."


def trimmed(text):
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines()).strip("\n")


def pattern_of(shown):
    """A pattern that what was printed has to match as a whole."""
    parts = []
    for line in trimmed(shown).splitlines():
        if line.strip() == DOTS:
            parts.append(r"(?:.*\n)*?")
        else:
            parts.append(".*?".join(re.escape(piece) for piece in line.split(DOTS)) + "\n")
    return re.compile("".join(parts))


def fits(shown, printed):
    return pattern_of(shown).fullmatch(trimmed(printed) + "\n") is not None
