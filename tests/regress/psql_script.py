# SPDX-License-Identifier: Apache-2.0
"""Reads a script of psql: its statements with what ends each of them, psql's own commands, and variables."""

import re
from typing import NamedTuple

DOLLAR_QUOTE = re.compile(r"\$([A-Za-z_\x80-\uffff][\w]*)?\$")
VARIABLE = re.compile(r""":(?P<plain>\w+)|:'(?P<text>\w+)'|:"(?P<name>\w+)\"""")
WORD = re.compile(r"[^\W\d][\w$]*")
COPY_FROM_CLIENT = re.compile(r"copy\b.*\bfrom\s+stdin\b", re.I | re.S)
END_OF_DATA = re.compile(r"^\\\.[ \t]*$", re.M)
ENDS_STATEMENT = re.compile(r"\\(gset|gexec|gx|g|gdesc|crosstabview|parse)\b")
ROUTINE = re.compile(r"create\s+(or\s+replace\s+)?(function|procedure)", re.I)


class Statement(NamedTuple):
    """SQL, the command that ends it (`;`, `\\gset` and the like), and what the script hands to its COPY."""

    sql: str
    end: str
    copied: str | None
    is_several: bool


class Command(NamedTuple):
    """A command of psql: its name and what stands behind it."""

    name: str
    rest: str


def quoted_end(text, start):
    """Where the literal, the quoted name or the dollar-quoted text that begins at `start` ends; `start` if none begins there."""
    quote = text[start]
    before = text[start - 1] if start else ""
    if quote == "$":
        found = None if re.match(r"\w", before) else DOLLAR_QUOTE.match(text, start)
        if not found:
            return start
        end = text.find(found.group(0), found.end())
        return len(text) if end < 0 else end + len(found.group(0))
    if quote not in "'\"":
        return start
    has_escapes = quote == "'" and re.search(r"(?<!\w)[eE]$", text[max(0, start - 2):start])
    at = start + 1
    while at < len(text):
        if has_escapes and text[at] == "\\":
            at += 2
        elif text[at] == quote and text[at + 1:at + 2] == quote:
            at += 2
        elif text[at] == quote:
            return at + 1
        else:
            at += 1
    return len(text)


def comment_end(text, start):
    """Where the comment that begins at `start` ends; `start` if none does. Comments of the second kind nest."""
    if text.startswith("--", start):
        end = text.find("\n", start)
        return len(text) if end < 0 else end
    if not text.startswith("/*", start):
        return start
    depth, at = 1, start + 2
    while at < len(text) and depth:
        step = {"/*": 1, "*/": -1}.get(text[at:at + 2], 0)
        depth += step
        at += 2 if step else 1
    return at


def parts(text):
    """The statements and commands of a script, in order."""
    return Reader(text).parts()


class Reader:
    """Where in the script it is, and what it has of the statement there."""

    def __init__(self, text):
        self.text, self.at = text, 0
        self.forget()

    def forget(self):
        self.read, self.parentheses, self.blocks, self.is_several = [], 0, 0, False

    def take(self, end):
        self.read.append(self.text[self.at:end])
        self.at = end

    def parts(self):
        while self.at < len(self.text):
            letter = self.text[self.at]
            behind_comment = comment_end(self.text, self.at)
            behind_quoted = quoted_end(self.text, self.at)
            word = WORD.match(self.text, self.at)
            if behind_comment > self.at:
                self.read.append(" ")
                self.at = behind_comment
            elif behind_quoted > self.at:
                self.take(behind_quoted)
            elif letter == "\\":
                yield from self.backslash()
            elif word:
                self.count_blocks(word.group().lower())
                self.take(word.end())
            elif letter == ";" and not self.parentheses and not self.blocks:
                self.at += 1
                yield from self.statement(";")
            else:
                self.parentheses = max(0, self.parentheses + {"(": 1, ")": -1}.get(letter, 0))
                self.take(self.at + 1)
        yield from self.statement(";")

    def count_blocks(self, word):
        """The body of a routine, BEGIN ATOMIC ... END, has semicolons of its own."""
        if word in ("begin", "case", "end") and ROUTINE.match("".join(self.read).lstrip()):
            if word == "begin" or (word == "case" and self.blocks):
                self.blocks += 1
            elif word == "end" and self.blocks:
                self.blocks -= 1

    def backslash(self):
        if self.text.startswith("\\;", self.at):
            # psql sends this statement and the next one together.
            self.is_several = True
            self.read.append(";")
            self.at += 2
            return
        end = self.text.find("\n", self.at)
        line = self.text[self.at:len(self.text) if end < 0 else end].strip()
        self.at = len(self.text) if end < 0 else end
        if ENDS_STATEMENT.match(line):
            yield from self.statement(line)
            return
        name, _, rest = line.partition(" ")
        if name in ("\\r", "\\reset"):
            self.forget()
        yield Command(name, rest.strip())

    def statement(self, end):
        sql, is_several = "".join(self.read).strip(), self.is_several
        self.forget()
        if sql:
            yield Statement(sql, end, self.data() if COPY_FROM_CLIENT.match(sql) else None, is_several)

    def data(self):
        """The lines behind a COPY, up to `\\.`"""
        begin = self.text.find("\n", self.at) + 1
        end = END_OF_DATA.search(self.text, begin)
        if not begin or not end or self.text[self.at:begin].strip():
            return None
        self.at = end.end()
        return self.text[begin:end.start()]


def with_variables(sql, variables):
    """The statement with psql's variables in it, those in literals left alone."""
    read, at = [], 0
    while at < len(sql):
        found = VARIABLE.match(sql, at) if sql[at] == ":" and sql[at - 1:at] != ":" else None
        name = found and (found["plain"] or found["text"] or found["name"])
        if name in variables:
            value = variables[name]
            quote = "'" if found["text"] else '"' if found["name"] else ""
            read.append(quote + (value.replace(quote, quote * 2) if quote else value) + quote)
            at = found.end()
            continue
        end = max(quoted_end(sql, at), at + 1)
        read.append(sql[at:end])
        at = end
    return "".join(read)
