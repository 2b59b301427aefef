# SPDX-License-Identifier: Apache-2.0
"""Whether two systems answer the same: CSV files of rows, in which numbers may differ by their rounding."""

import csv
import math

# Systems keep averages and quotients of decimals with different numbers of digits.
RELATIVE_MOST = 1e-6
ABSOLUTE_MOST = 1e-4


def differing_rows(ours, theirs):
    """How many rows of two files differ."""
    return len(differences(read_rows(ours), read_rows(theirs)))


def differences(ours, theirs):
    """The rows that differ, each beside what stands in its place; None for a row that the other does not have."""
    longer = max(len(ours), len(theirs))
    pairs = zip(padded(ours, longer), padded(theirs, longer))
    return [(left, right) for left, right in pairs if left is None or right is None or not same_row(left, right)]


def differences_in_any_order(ours, theirs):
    """The same for rows whose order the query leaves open: first row by row, and what differs then wherever it stands."""
    lone, waiting = [], []
    for left, right in differences(ours, theirs):
        lone += [] if left is None else [left]
        waiting += [] if right is None else [right]
    missing = []
    for row in lone:
        place = next((place for place, other in enumerate(waiting) if same_row(row, other)), None)
        if place is None:
            missing.append(row)
        else:
            del waiting[place]
    longer = max(len(missing), len(waiting))
    return list(zip(padded(missing, longer), padded(waiting, longer)))


def padded(rows, count):
    return rows + [None] * (count - len(rows))


def read_rows(path):
    with open(path, newline="") as file:
        return list(csv.reader(file))[1:]


def same_row(left, right):
    return len(left) == len(right) and all(map(same_value, left, right))


def same_value(left, right):
    left, right = left.strip(), right.strip()
    if left == right:
        return True
    try:
        left, right = float(left), float(right)
    except ValueError:
        return False
    return math.isclose(left, right, rel_tol=RELATIVE_MOST, abs_tol=ABSOLUTE_MOST) or (math.isnan(left) and math.isnan(right))
