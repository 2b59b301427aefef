# SPDX-License-Identifier: Apache-2.0
"""The fenced blocks of a page, and what stands behind their language.

| behind the language | of | means |
|---|---|---|
| `window="name"` | `sh` | the one command of the block goes on and takes what later blocks type: psql, `coeval sql` |
| `window="name"` | `sql` | typed in that window; without it, in the one of the block before |
| `fails` | `sh` | the command ends with an error, which is the point |
| `not-run="why"` | `sh`, `sql`, `python` | it is not run here, for that reason |
| `output` | `text` | what the block before has printed |
| `file="name"` | any other | the file of that name, which later blocks use |
"""

import re
from dataclasses import dataclass, field

FENCE = re.compile(r"^```(?P<language>[a-z,]*)[ ]*(?P<info>.*)$")
WORD = re.compile(r'(?P<name>[a-z-]+)(?:="(?P<value>[^"]*)")?(?:\s+|$)')
KNOWN = {
    "sh": {"window", "fails", "not-run"},
    "sql": {"window", "not-run"},
    "python": {"file", "not-run"},
    "text": {"output"},
}


@dataclass
class Block:
    """A fenced block; `line` is that of its fence."""

    language: str
    line: int
    words: dict = field(default_factory=dict)
    lines: list = field(default_factory=list)
    output: "Block | None" = None

    @property
    def text(self):
        return "\n".join(self.lines) + "\n"

    @property
    def is_run(self):
        is_typed = self.language in ("sh", "sql") and "not-run" not in self.words
        return is_typed or "file" in self.words


class BadFence(Exception):
    """A fence that nobody knows how to read, or a block without an end."""


def words_of(language, info, line):
    """What stands behind a language, as a dictionary."""
    words, at = {}, 0
    while at < len(info):
        word = WORD.match(info, at)
        if not word:
            raise BadFence(f"line {line}: cannot read {info[at:]!r}")
        words[word["name"]] = word["value"] if word["value"] is not None else ""
        at = word.end()
    unknown = set(words) - KNOWN.get(language, {"file"})
    if unknown:
        raise BadFence(f"line {line}: {', '.join(sorted(unknown))} says nothing of {language or 'no language'}")
    return words


def blocks_of(text):
    """All fenced blocks of a page, each output with the block that printed it."""
    blocks, opened = [], None
    for number, line in enumerate(text.splitlines(), 1):
        fence = FENCE.match(line)
        if opened is None and fence:
            opened = Block(fence["language"], number, words_of(fence["language"], fence["info"].strip(), number))
        elif opened is not None and line == "```":
            attach(blocks, opened)
            opened = None
        elif opened is not None:
            opened.lines.append(line)
    if opened is not None:
        raise BadFence(f"line {opened.line}: the block does not end")
    return blocks


def attach(blocks, block):
    """Puts a block behind the others, or an output to the block that printed it."""
    if "output" not in block.words:
        blocks.append(block)
        return
    # What Python prints that is not run here is compared by whoever runs it.
    is_run = bool(blocks) and (blocks[-1].is_run or blocks[-1].language == "python")
    if not is_run or blocks[-1].output:
        raise BadFence(f"line {block.line}: an output without a block that is run before it")
    blocks[-1].output = block
