# SPDX-License-Identifier: Apache-2.0
"""What MkDocs does not do by itself.

Documents beside the code become pages under `repository/`, so that one search finds them all. Links between documents stay what they are in
the files; those to code become its path. Drawings stand in the page, so that they have the colours of light and dark. What stands behind
a fence's language, for the tests, becomes the title of the block.
"""

import html
import pathlib
import posixpath
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import fences  # noqa: E402
from mkdocs.exceptions import PluginError  # noqa: E402
from mkdocs.structure.files import File  # noqa: E402

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent.parent
BESIDE_THE_CODE = ["README.md", "ARCHITECTURE.md", "crates/*/README.md", "crates/*/src/**/README.md", "bench/README.md",
                   "bench/results/*.md", "bench/results/*.svg"]
PREFIX = "repository/"
WEIGHTS = [(PREFIX + "bench/", 0.2), (PREFIX, 0.5), ("concepts/", 4), ("how-to/", 4), ("reference/", 3), ("", 2)]
LINK = re.compile(r"(?P<image>!?)\[(?P<text>(?:[^\[\]]|\[[^\[\]]*\])*)\]\((?P<target>[^()\s]+)\)")
FENCED = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
STYLE = re.compile(r"<style>.*?</style>", re.DOTALL)
LIST_ITEM = re.compile(r"^([-*]|\d+\.) ")


def on_config(config):
    """Lists the results, so that a new page of them needs no line elsewhere."""
    results = sorted(path.relative_to(REPOSITORY).as_posix() for path in REPOSITORY.glob("bench/results/*.md"))
    sections = [entry for section in config.nav for entries in section.values() if isinstance(entries, list) for entry in entries]
    next(entry for entry in sections if isinstance(entry, dict) and "Results" in entry)["Results"] = [PREFIX + name for name in results]
    return config


def on_files(files, config):
    """Adds the documents beside the code."""
    found = {path.relative_to(REPOSITORY).as_posix(): path for pattern in BESIDE_THE_CODE for path in REPOSITORY.glob(pattern)}
    for name, path in sorted(found.items()):
        files.append(File.generated(config, PREFIX + name, abs_src_path=str(path)))
    return files


def place_of(source):
    """Where a page's file lies in the repository."""
    return source.removeprefix(PREFIX) if source.startswith(PREFIX) else f"docs/{source}"


def on_page_markdown(markdown, page, config, files):
    source = page.file.src_uri
    # Who searches wants what is written for readers before what is beside the code, and figures last.
    weight = next(weight for start, weight in WEIGHTS if source.startswith(start))
    page.meta.setdefault("search", {})["boost"] = weight
    parts = FENCED.split(markdown)
    for index, part in enumerate(parts):
        parts[index] = fence(part) if index % 2 else separated(LINK.sub(lambda link: linked(link, source, files), part))
    return "".join(parts)


def linked(link, source, files):
    target, _, anchor = link["target"].partition("#")
    if not target or "://" in target or target.startswith("mailto:"):
        return link[0]
    path = posixpath.normpath(posixpath.join(posixpath.dirname(place_of(source)), target))
    if not (REPOSITORY / path).exists():
        raise PluginError(f"{source}: {target} is not there")
    page = path.removeprefix("docs/") if path.startswith("docs/") else PREFIX + path
    if link["image"] and path.startswith("docs/drawings/"):
        return drawing(REPOSITORY / path, link["text"])
    if files.get_file_from_path(page) is None:
        # Code is not in the book.
        return link["text"]
    relative = posixpath.relpath(page, posixpath.dirname(source))
    return f"{link['image']}[{link['text']}]({relative}{'#' + anchor if anchor else ''})"


def drawing(path, text):
    """The drawing itself, whose colours the book's style sheet gives."""
    svg = STYLE.sub("", path.read_text().partition("-->")[2]).strip()
    svg = re.sub(r"\n\s*", "", svg).replace("<svg ", f'<svg role="img" aria-label="{html.escape(text)}" ', 1)
    return f'<figure class="drawing">{svg}</figure>'


def fence(block):
    """A fenced block whose words are what a reader is told."""
    first, _, rest = block.partition("\n")
    language, _, info = first.removeprefix("```").partition(" ")
    words = fences.words_of(language, info.strip(), 0)
    title = words.get("file") or ("window" in words and f"window: {words['window']}")
    marks = f' title="{title}"' if title else ""
    if "output" in words:
        # In a style of its own: nobody types it.
        return f"```{{ .text .output }}\n{rest}"
    return f"```{language or 'text'}{marks}\n{rest}"


def separated(text):
    """A list or table behind a line of text begins a block, in the files as in most renderers; Python's wants an empty line there."""
    lines, out = text.split("\n"), []
    for line in lines:
        before = out[-1] if out else ""
        begins_list = LIST_ITEM.match(line) and before.strip() and not LIST_ITEM.match(before) and not before.startswith(" ")
        is_continued = any(LIST_ITEM.match(earlier) for earlier in paragraph(out))
        begins_table = line.startswith("|") and before.strip() and not before.startswith("|")
        if (begins_list and not is_continued) or begins_table:
            out.append("")
        out.append(line)
    return "\n".join(out)


def paragraph(lines):
    """The lines since the last empty one."""
    for line in reversed(lines):
        if not line.strip():
            return
        yield line


def on_page_content(content, page, config, files):
    """Refuses what was meant as a table, a list or a block and became text."""
    outside = re.sub(r"<(pre|code|svg)\b.*?</\1>", "", content, flags=re.DOTALL)
    for sign in ("|---", "| ---", "\n- ", "```"):
        if sign in outside:
            at = outside.index(sign)
            raise PluginError(f"{page.file.src_uri}: {sign!r} is left as text: {outside[max(at - 80, 0):at + 80]!r}")
    return content
