// SPDX-License-Identifier: Apache-2.0
//! How the rows of one table are found: by a key, by a range of keys, through an index.

use super::key::KeyPart;
use super::subquery::{Exists, Found, Lookup};
use crate::scalar::Scalar;
use coeval_store::{Direction, Nullable, TableDef};
use std::sync::Arc;

/// Which keys are looked up.
#[derive(Clone, Debug)]
pub(super) struct Access {
    /// The table.
    pub(super) table: Arc<TableDef>,
    /// Its rows, or an index of it.
    pub(super) path: Path,
    /// What the first columns of the key are equal to.
    pub(super) equals: Vec<KeyPart>,
    /// What bounds the column behind those.
    pub(super) next: NextColumn,
    /// Which way to walk.
    pub(super) direction: Direction,
}

/// Where the keys are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Path {
    /// The primary key.
    Primary,
    /// The secondary index at this place of the definition.
    Index(usize),
}

/// What is known of the key column behind those that are equal to something.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "a plan is made once and shared")]
pub(super) enum NextColumn {
    /// Nothing.
    Free,
    /// It is one of these.
    List(Vec<KeyPart>),
    /// It is one of those that a subquery gives.
    Found(Found),
    /// It lies between these.
    Range { lower: Option<KeyBound>, upper: Option<KeyBound> },
}

/// One end of a range.
#[derive(Clone, Debug)]
pub(super) struct KeyBound {
    pub(super) part: KeyPart,
    pub(super) edge: Edge,
}

/// Whether the bound itself belongs to the range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edge {
    Included,
    Excluded,
}

impl Access {
    /// The columns of the key, in order: of an index first its own, then the primary key's.
    pub(super) fn key_columns(&self) -> Vec<usize> {
        key_columns(&self.table, self.path)
    }

    /// Whether the key is that of one row.
    pub(super) fn is_single(&self) -> bool {
        self.path == Path::Primary && self.equals.len() == self.table.primary_key.len()
    }

    /// Whether components of the key may be NULL.
    pub(super) fn nullable(&self) -> Nullable {
        match self.path {
            Path::Primary => Nullable::No,
            Path::Index(_) => Nullable::Yes,
        }
    }

    /// For EXPLAIN: `get t by primary key (a, b)`.
    pub(super) fn describe(&self) -> String {
        let table = &self.table.name;
        let columns = self.key_columns();
        let name = |place: usize| self.table.columns[columns[place]].name.as_str();
        let mut keys: Vec<String> = self
            .equals
            .iter()
            .enumerate()
            .map(|(place, part)| format!("{} = {}", name(place), part.text))
            .collect();
        let place = self.equals.len();
        match &self.next {
            NextColumn::Free => {}
            NextColumn::List(list) => {
                let values: Vec<&str> = list.iter().map(|part| part.text.as_str()).collect();
                keys.push(format!("{} in ({})", name(place), values.join(", ")));
            }
            NextColumn::Found(found) => keys.push(format!("{} in ({})", name(place), found.part.text)),
            NextColumn::Range { lower, upper } => {
                for (bound, symbol) in [(lower, '>'), (upper, '<')] {
                    if let Some(bound) = bound {
                        let or_equal = if bound.edge == Edge::Included { "=" } else { "" };
                        keys.push(format!("{} {symbol}{or_equal} {}", name(place), bound.part.text));
                    }
                }
            }
        }
        let what = if self.is_single() { "get" } else { "scan" };
        let path = match self.path {
            Path::Primary => "primary key".to_owned(),
            Path::Index(place) => format!("index {}", self.table.indexes[place].name),
        };
        let backward = if self.direction == Direction::Backward { ", backward" } else { "" };
        if keys.is_empty() {
            format!("{what} {table} by {path}{backward}")
        } else {
            format!("{what} {table} by {path} ({}){backward}", keys.join(", "))
        }
    }
}

/// The columns of a key, in order.
pub(super) fn key_columns(table: &TableDef, path: Path) -> Vec<usize> {
    match path {
        Path::Primary => table.primary_key.clone(),
        Path::Index(place) => {
            table.indexes[place].columns.iter().chain(&table.primary_key).copied().collect()
        }
    }
}

/// What becomes of the rows before a step for which it finds none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Join {
    /// They are left out.
    Inner,
    /// They are filled up with NULLs.
    Outer,
}

/// One table of a statement: how its rows are found, and what they must satisfy beyond that.
#[derive(Clone, Debug)]
pub(super) struct Step {
    /// The number of the table.
    pub(super) table: usize,
    pub(super) access: Access,
    pub(super) join: Join,
    /// Conditions on its rows that can be decided here and are not already in the key.
    pub(super) residual: Vec<Scalar>,
    /// Those on what an outer join gives.
    pub(super) filters: Vec<Scalar>,
    /// Subqueries that can be asked here.
    pub(super) checks: Vec<Exists>,
    /// Subqueries whose values are wanted of what is left then.
    pub(super) lookups: Vec<Lookup>,
}

impl Step {
    /// For EXPLAIN: itself, then its subqueries.
    pub(super) fn explain(&self) -> Vec<String> {
        let mut lines = vec![self.describe()];
        if let NextColumn::Found(found) = &self.access.next {
            lines.extend(found.explain());
        }
        lines.extend(self.checks.iter().flat_map(Exists::explain));
        lines.extend(self.lookups.iter().flat_map(Lookup::explain));
        lines
    }

    fn describe(&self) -> String {
        let join = match self.join {
            Join::Inner => "",
            Join::Outer => "left join: ",
        };
        let access = self.access.describe();
        match self.residual.len() + self.filters.len() {
            0 => format!("{join}{access}"),
            1 => format!("{join}{access}, 1 condition more"),
            count => format!("{join}{access}, {count} conditions more"),
        }
    }
}
