// SPDX-License-Identifier: Apache-2.0
//! How a SELECT finds the rows of its tables: what its WHERE demands of columns by constants.
//!
//! Conditions on a key's columns hold for all versions of a row or for none, so they may be looked at before the newest
//! version is chosen. Most engines do that themselves where versions are ranked by these columns; where they are ranked by
//! the concatenated key they cannot know, and are told. MonetDB is always told.

use crate::engine::{Pushdown, Text};
use crate::literal::{Row, joined, printed};
use crate::names::{folded, quoted};
use crate::packed::{bits, packed};
use crate::physical::KEY;
use crate::schema::{Definition, KeyColumns};
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{BinaryOperator, DataType, Expr, Select, UnaryOperator, Value};
use std::collections::HashMap;

/// A column as a query names it: its qualifier, if there is one, and its name.
type ColumnName = (Option<String>, String);

/// How one place of a table in a query finds rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct FoundBy {
    /// Columns of the key and what they equal.
    pub(crate) equal: Vec<(usize, ScalarValue)>,
    /// The text of the whole key, if all of it is given.
    pub(crate) key: Option<String>,
    /// Whether `conditions` look the whole key up in its one column.
    is_by_key_column: bool,
    /// What holds of the key's columns and has to be written where versions are read, as SQL.
    pub(crate) conditions: Vec<String>,
}

impl FoundBy {
    /// Whether a row could be found.
    pub(crate) fn may_find(&self, row: &[ScalarValue]) -> bool {
        self.equal.iter().all(|(column, value)| printed(&row[*column]) == printed(value))
    }

    /// A row of the table with what is known of its key.
    fn row(&self, table: &Definition) -> Row {
        let mut row = vec![ScalarValue::Null; table.columns.len()];
        for (place, value) in &self.equal {
            row[*place] = value.clone();
        }
        row
    }

    /// A row of the table with what is known of its key, and how many of the key's columns are known from the first on.
    pub(crate) fn start_of_key(&self, table: &Definition) -> (Row, usize) {
        let is_known = |column: &&usize| self.equal.iter().any(|(known, _)| known == *column);
        (self.row(table), table.key.iter().take_while(is_known).count())
    }

    /// The whole key as it is stored in its one column, as SQL. `None` if the key's columns cannot hold the values.
    fn key_column_value(&self, table: &Definition) -> Option<String> {
        let key = self.key.as_ref()?;
        match table.key_columns {
            KeyColumns::Separate => None,
            KeyColumns::Concatenated => Some(Text::Plain.literal(key)),
            KeyColumns::Packed => packed(table, &self.row(table)).map(|number| number.to_string()),
        }
    }
}

/// Writes a comparison for this name of its column.
type Comparison = Box<dyn Fn(&str) -> String>;

/// What the WHERE of one SELECT demands.
#[derive(Default)]
pub(crate) struct Lookups {
    /// The literal that a column equals; other look-ups by constants have none.
    columns: HashMap<ColumnName, Option<ScalarValue>>,
    /// Comparisons of a column with constants, to be written with the column's name alone.
    comparisons: Vec<(ColumnName, Comparison)>,
    tables: usize,
}

impl Lookups {
    pub(crate) fn of(select: &Select) -> Self {
        let mut lookups = Self::default();
        if let Some(condition) = &select.selection {
            lookups.add(condition);
        }
        lookups.tables = select.from.iter().map(|from| 1 + from.joins.len()).sum();
        lookups
    }

    fn add(&mut self, condition: &Expr) {
        match condition {
            Expr::Nested(inner) => self.add(inner),
            Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
                self.add(left);
                self.add(right);
            }
            Expr::BinaryOp { left, op, right } => self.add_comparison(left, op, right),
            Expr::InList { expr, list, negated: false } if list.iter().all(is_constant) => {
                if let Some(column) = column_of(expr) {
                    self.columns.entry(column.clone()).or_insert(None);
                    let list: Vec<_> = list.iter().map(ToString::to_string).collect();
                    let list = list.join(", ");
                    self.comparisons.push((column, Box::new(move |name| format!("{name} IN ({list})"))));
                }
            }
            Expr::Between { expr, negated: false, low, high } if is_constant(low) && is_constant(high) => {
                if let Some(column) = column_of(expr) {
                    let range = format!("BETWEEN {low} AND {high}");
                    self.comparisons.push((column, Box::new(move |name| format!("{name} {range}"))));
                }
            }
            _ => {}
        }
    }

    fn add_comparison(&mut self, left: &Expr, op: &BinaryOperator, right: &Expr) {
        use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq};
        if !matches!(op, Eq | Gt | GtEq | Lt | LtEq) {
            return;
        }
        let (column, constant_text, is_left) = match (column_of(left), column_of(right)) {
            (Some(column), None) if is_constant(right) => (column, right.to_string(), true),
            (None, Some(column)) if is_constant(left) => (column, left.to_string(), false),
            _ => return,
        };
        if *op == Eq {
            self.columns.insert(column.clone(), constant(if is_left { right } else { left }));
        }
        let op = op.to_string();
        self.comparisons.push((
            column,
            Box::new(move |name| match is_left {
                true => format!("{name} {op} {constant_text}"),
                false => format!("{constant_text} {op} {name}"),
            }),
        ));
    }

    /// What a table's column is looked up by.
    pub(crate) fn get(&self, alias: &str, column: &str) -> Option<&Option<ScalarValue>> {
        let qualified = self.columns.get(&(Some(alias.to_owned()), column.to_owned()));
        qualified.or_else(|| self.columns.get(&(None, column.to_owned())))
    }

    /// Whether a name in the WHERE is this table's column. An unqualified one could be another table's.
    fn is_of(&self, name: &ColumnName, alias: &str, column: &str) -> bool {
        let is_of_table = match &name.0 {
            Some(qualifier) => qualifier == alias,
            None => self.tables == 1,
        };
        is_of_table && name.1 == column
    }

    /// How the rows of one of the SELECT's tables are found.
    pub(crate) fn found_by(&self, alias: &str, table: &Definition, pushdown: Pushdown) -> FoundBy {
        let mut found = FoundBy::default();
        for &place in &table.key {
            let column = &table.columns[place];
            let of_column = self.columns.iter().filter(|(name, _)| self.is_of(name, alias, &column.name));
            let values = of_column.filter_map(|(_, value)| value.clone());
            let is_of_type = |value: &ScalarValue| match &column.kind {
                DataType::Text | DataType::Varchar(_) => matches!(value, ScalarValue::Utf8(_)),
                _ => bits(column).is_some() && matches!(value, ScalarValue::Int64(_)),
            };
            found.equal.extend(values.filter(is_of_type).take(1).map(|value| (place, value)));
        }
        if found.equal.len() == table.key.len() && !table.key.is_empty() {
            found.key = Some(joined(&found.row(table), &table.key));
        }
        if let Some(key) = found.key_column_value(table) {
            found.conditions.push(format!("{} = {key}", quoted(KEY)));
            found.is_by_key_column = true;
        } else if table.has_key_column() || pushdown == Pushdown::Written {
            for &place in &table.key {
                let name = &table.columns[place].name;
                let of_column = self.comparisons.iter().filter(|(given, _)| self.is_of(given, alias, name));
                found.conditions.extend(of_column.map(|(_, write)| write(&quoted(name))));
            }
        }
        found
    }
}

impl Lookups {
    /// Takes out of a SELECT from one table what the concatenated key says as well: engines are quick to find one column.
    pub(crate) fn drop_key(&self, select: &mut Select, alias: &str, table: &Definition, found: &FoundBy) {
        if !found.is_by_key_column {
            return;
        }
        let is_said = |condition: &Expr| {
            let Expr::BinaryOp { left, op: BinaryOperator::Eq, right } = condition else { return false };
            let (name, value) = match (column_of(left), column_of(right)) {
                (Some(name), None) => (name, constant(right)),
                (None, Some(name)) => (name, constant(left)),
                _ => return false,
            };
            found.equal.iter().any(|(place, equal)| {
                self.is_of(&name, alias, &table.columns[*place].name) && value.as_ref() == Some(equal)
            })
        };
        select.selection = select.selection.take().and_then(|condition| without(condition, &is_said));
    }
}

/// A condition without some of the conditions that it demands together.
fn without(condition: Expr, is_said: &dyn Fn(&Expr) -> bool) -> Option<Expr> {
    match condition {
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            match (without(*left, is_said), without(*right, is_said)) {
                (Some(left), Some(right)) => {
                    let (left, right) = (Box::new(left), Box::new(right));
                    Some(Expr::BinaryOp { left, op: BinaryOperator::And, right })
                }
                (left, right) => left.or(right),
            }
        }
        condition if is_said(&condition) => None,
        condition => Some(condition),
    }
}

fn column_of(expr: &Expr) -> Option<ColumnName> {
    match expr {
        Expr::Identifier(column) => Some((None, folded(column))),
        Expr::CompoundIdentifier(parts) => {
            let [qualifier, column] = parts.as_slice() else { return None };
            Some((Some(folded(qualifier)), folded(column)))
        }
        Expr::Nested(inner) => column_of(inner),
        _ => None,
    }
}

fn is_constant(expr: &Expr) -> bool {
    match expr {
        Expr::Value(_) | Expr::TypedString(_) => true,
        Expr::UnaryOp { expr, .. } | Expr::Cast { expr, .. } | Expr::Nested(expr) => is_constant(expr),
        _ => false,
    }
}

/// An integer or a text that stands there.
fn constant(expr: &Expr) -> Option<ScalarValue> {
    match expr {
        Expr::Nested(inner) => constant(inner),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match constant(expr)? {
            ScalarValue::Int64(Some(number)) => Some(ScalarValue::from(-number)),
            _ => None,
        },
        Expr::Value(value) => match &value.value {
            Value::Number(number, _) => number.parse::<i64>().ok().map(ScalarValue::from),
            Value::SingleQuotedString(text) => Some(ScalarValue::from(text.as_str())),
            _ => None,
        },
        _ => None,
    }
}
