// SPDX-License-Identifier: Apache-2.0
//! Which part of a table a scan's result depends on, by what its filters and its limit say: what counts as read at
//! SERIALIZABLE.
//!
//! A scan passes over chunks and not over keys, so it may look at more. What it gives depends on the rows that pass
//! its filters alone: whoever changes another row, or makes one that does not pass, changes nothing of it. So it is
//! right to note the ranges that hold all rows which can pass: of the primary key, or of an index together with the
//! rows behind its entries.

use super::prune::Pruner;
use coeval_store::{Key, KeyRange, KeyWriter, Nullable, Scanned, TableDef, Value};
use datafusion::logical_expr::Operator;
use std::ops::Bound;

/// More ranges than this are not worth their place in a read set.
const RANGES_MAX: usize = 64;

/// The parts of a table that hold all rows which pass these filters, the most precise first; none if that may be any.
pub(super) fn extents(def: &TableDef, filters: &Pruner) -> Vec<Scanned> {
    let keys = restricted(filters, &def.primary_key, Nullable::No);
    let mut found: Vec<(usize, Scanned)> = Vec::new();
    let depth_of_keys = keys.as_ref().map_or(0, |keys| keys.depth);
    for index in &def.indexes {
        let entries = restricted(filters, &index.columns, Nullable::Yes);
        if let Some(entries) = entries.filter(|entries| entries.depth > depth_of_keys) {
            found.push((entries.depth, Scanned::Entries { index: index.id, ranges: entries.ranges }));
        }
    }
    found.sort_by_key(|(depth, _)| std::cmp::Reverse(*depth));
    let keys = keys.map(|keys| Scanned::Keys(keys.ranges));
    found.into_iter().map(|(_, entries)| entries).chain(keys).collect()
}

/// Ranges of a key.
struct Restricted {
    ranges: Vec<KeyRange>,
    /// How many of its columns they restrict.
    depth: usize,
}

/// The ranges of a key over these columns in which all rows lie that a predicate can be true for; `None` if they may
/// lie anywhere.
fn restricted(predicate: &Pruner, columns: &[usize], nullable: Nullable) -> Option<Restricted> {
    let mut conjuncts = Vec::new();
    flatten(predicate, &mut conjuncts);
    if conjuncts.contains(&&Pruner::Never) {
        return Some(Restricted { ranges: Vec::new(), depth: usize::MAX });
    }
    let mut prefixes = vec![KeyWriter::new()];
    let mut depth = 0;
    while let Some(&column) = columns.get(depth) {
        let values = conjuncts.iter().find_map(|conjunct| values_of(conjunct, column));
        let Some(values) = values.filter(|values| prefixes.len() * values.len() <= RANGES_MAX) else { break };
        prefixes = prefixes
            .iter()
            .flat_map(|prefix| values.iter().map(|value| extended(prefix, value, nullable)))
            .collect();
        depth += 1;
    }
    if depth == columns.len() && nullable == Nullable::No {
        let ranges = prefixes.iter().map(|prefix| KeyRange::point(prefix.finish())).collect();
        return Some(Restricted { ranges, depth });
    }
    let bounds: Vec<(Operator, &Value)> = match columns.get(depth) {
        Some(&column) => conjuncts.iter().filter_map(|conjunct| bound_of(conjunct, column)).collect(),
        None => Vec::new(),
    };
    if depth == 0 && bounds.is_empty() {
        return conjuncts.iter().find_map(|conjunct| of_alternatives(conjunct, columns, nullable));
    }
    let ranges = prefixes.iter().filter_map(|prefix| bounded(prefix, &bounds, nullable)).collect();
    Some(Restricted { ranges, depth: depth + usize::from(!bounds.is_empty()) })
}

/// The ranges of a disjunction, each part of which is restricted.
fn of_alternatives(conjunct: &Pruner, columns: &[usize], nullable: Nullable) -> Option<Restricted> {
    let Pruner::Any(parts) = conjunct else { return None };
    let mut all = Restricted { ranges: Vec::new(), depth: usize::MAX };
    for part in parts {
        let part = restricted(part, columns, nullable)?;
        all.ranges.extend(part.ranges);
        all.depth = all.depth.min(part.depth);
    }
    (all.ranges.len() <= RANGES_MAX).then_some(all)
}

fn flatten<'p>(predicate: &'p Pruner, conjuncts: &mut Vec<&'p Pruner>) {
    match predicate {
        Pruner::All(parts) => parts.iter().for_each(|part| flatten(part, conjuncts)),
        other => conjuncts.push(other),
    }
}

/// The values that a column has one of wherever the predicate is true; `None` if it may have others.
fn values_of(predicate: &Pruner, column: usize) -> Option<Vec<&Value>> {
    match predicate {
        Pruner::Compare(compared, Operator::Eq, value) if *compared == column => Some(vec![value]),
        Pruner::OneOf(compared, values) if *compared == column => Some(values.iter().collect()),
        Pruner::Any(parts) => {
            let values: Option<Vec<_>> = parts.iter().map(|part| values_of(part, column)).collect();
            values.map(|values| values.concat())
        }
        Pruner::All(_)
        | Pruner::Unknown
        | Pruner::Never
        | Pruner::Compare(..)
        | Pruner::OneOf(..)
        | Pruner::Null(_)
        | Pruner::NotNull(_) => None,
    }
}

/// What a conjunct says of a column's order.
fn bound_of(conjunct: &Pruner, column: usize) -> Option<(Operator, &Value)> {
    match conjunct {
        Pruner::Compare(
            compared,
            operator @ (Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq),
            value,
        ) if *compared == column => Some((*operator, value)),
        _ => None,
    }
}

fn extended(prefix: &KeyWriter, value: &Value, nullable: Nullable) -> KeyWriter {
    let mut writer = prefix.clone();
    match nullable {
        Nullable::No => writer.push(value.borrow()),
        Nullable::Yes => writer.push_nullable(value.borrow()),
    }
    writer
}

/// The keys behind a prefix that satisfy all bounds of the next column; `None` if there are none.
fn bounded(prefix: &KeyWriter, bounds: &[(Operator, &Value)], nullable: Nullable) -> Option<KeyRange> {
    let mut range = match prefix.as_slice() {
        [] => KeyRange::all(),
        bytes => KeyRange::prefix(bytes),
    };
    for (operator, value) in bounds {
        let key = extended(prefix, value, nullable).finish();
        // Keys that go on behind this value come after it, so "above it" begins behind all of them.
        let behind = Key::after_prefix(key.as_slice());
        match operator {
            Operator::GtEq => range.lower = later(range.lower, key),
            Operator::Gt => range.lower = later(range.lower, behind?),
            Operator::Lt => range.upper = earlier(range.upper, Some(key)),
            _ => range.upper = earlier(range.upper, behind),
        }
    }
    (!range.is_empty()).then_some(range)
}

/// The later of two beginnings.
fn later(lower: Bound<Key>, other: Key) -> Bound<Key> {
    match lower {
        Bound::Included(key) | Bound::Excluded(key) if key >= other => Bound::Included(key),
        Bound::Included(_) | Bound::Excluded(_) | Bound::Unbounded => Bound::Included(other),
    }
}

/// The earlier of two ends; the second is none if nothing is behind it.
fn earlier(upper: Bound<Key>, other: Option<Key>) -> Bound<Key> {
    let Some(other) = other else { return upper };
    match upper {
        Bound::Included(key) | Bound::Excluded(key) if key <= other => Bound::Excluded(key),
        Bound::Included(_) | Bound::Excluded(_) | Bound::Unbounded => Bound::Excluded(other),
    }
}

#[cfg(test)]
mod tests;
