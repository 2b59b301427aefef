# SPDX-License-Identifier: Apache-2.0
"""What a newcomer types, taken from the pages that say it, and the right answers, known without the program."""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "book"))
import fences  # noqa: E402

# What the example of the package's README prints.
OF_PYTHON = "[('ann', Decimal('70.00')), ('bob', Decimal('80.00'))]"
# The sum of the balances in the front page's example.
OF_RUST = ["10"]

CATEGORIES = ["furniture", "light", "kitchen", "decoration"]


def example(page, language):
    """The first block of a language on a page."""
    found = [block.text for block in fences.blocks_of(page.read_text()) if block.language == language]
    if not found:
        sys.exit(f"{page} has no example in {language}")
    return found[0]


def python_example(repository):
    return example(repository / "crates/coeval-python/README.md", "python")


def rust_program(repository):
    """The front page's example as a program that prints what it has found."""
    body = "".join(f"    {line}\n" if line else "\n" for line in example(repository / "README.md", "rust").splitlines())
    return f'fn main() -> Result<(), Box<dyn std::error::Error>> {{\n{body}    println!("{{batches:?}}");\n    Ok(())\n}}\n'


def numbers(printed):
    """The values of the columns of batches, as Arrow prints them: a line for each."""
    return re.findall(r"^\s*(-?[\d.]+),$", printed, re.MULTILINE)


def rows(printed):
    """The rows of an aligned table, cell by cell."""
    lines = printed.splitlines()
    rule = next((number for number, line in enumerate(lines) if re.fullmatch(r"-[-+]*", line.strip())), None)
    if rule is None:
        return None
    below = [line for line in lines[rule + 1 :] if not re.fullmatch(r"\(\d+ rows?\)", line.strip())]
    return [[cell.strip() for cell in line.split("|")] for line in below if line.strip()]


def sales_by_category():
    """What `coeval init --example shop` suggests to ask: lines and sales of each category, the largest sales first.

    The rows come out of their numbers (crates/coeval-commands/src/init/shop.sql), so they are counted here once more, in cents.
    """
    counts, cents = dict.fromkeys(CATEGORIES, 0), dict.fromkeys(CATEGORIES, 0)
    for order in range(1, 30_001):
        for line in range(1, order % 4 + 2):
            product = (order * 131 + line * 17) % 200 + 1
            category = CATEGORIES[product % 4]
            price = 500 + product * 7919 % 49_500
            counts[category] += 1
            cents[category] += (order * line % 3 + 1) * price
    by_sales = sorted(CATEGORIES, key=lambda category: -cents[category])
    return [[name, str(counts[name]), f"{cents[name] // 100}.{cents[name] % 100:02}"] for name in by_sales]
