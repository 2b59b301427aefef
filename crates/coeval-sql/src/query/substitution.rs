// SPDX-License-Identifier: Apache-2.0
//! Expressions in the places of columns that are computed by them.
//!
//! A column that is named twice has its expression twice then. Of queries within each other that do so at each level, forty levels make
//! more than any memory holds. So there is room for so many parts and no more, which is asked for before anything is copied.

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::Expr;

/// The parts of all expressions that are made together, at most.
const PARTS_MAX: usize = 20_000;

/// The parts that conditions get at most where they go below what their columns are computed by.
const GROWTH_MAX: usize = 1_000;

/// Whether conditions together would become too large with values in the places of their columns; a column that is only called
/// otherwise, or a constant, makes them no larger.
///
/// # Errors
/// If an expression cannot be walked: a bug.
pub(super) fn grow_too_large<'v>(
    conditions: &[&Expr],
    value_of: impl Fn(&Column) -> Option<&'v Expr>,
) -> Result<bool> {
    let mut room = Room { parts: GROWTH_MAX };
    let mut has_room = true;
    for condition in conditions {
        condition.apply(|part| {
            if let Expr::Column(column) = part
                && let Some(value) = value_of(column).filter(|value| !is_plain(value))
            {
                has_room = room.takes_all_of(value)?;
            }
            Ok(if has_room { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
        })?;
    }
    Ok(!has_room)
}

fn is_plain(value: &Expr) -> bool {
    match value {
        Expr::Alias(alias) => is_plain(&alias.expr),
        other => matches!(other, Expr::Column(_) | Expr::Literal(..)),
    }
}

/// Room for expressions.
pub(super) struct Room {
    parts: usize,
}

impl Default for Room {
    fn default() -> Self {
        Self { parts: PARTS_MAX }
    }
}

impl Room {
    /// The expression with values in the places of its columns, which are those of `schema`; `None` if there is no room for it.
    ///
    /// # Errors
    /// If it names another column: a bug.
    pub(super) fn put(
        &mut self,
        expression: &Expr,
        values: &[Expr],
        schema: &DFSchema,
    ) -> Result<Option<Expr>> {
        let mut is_full = false;
        expression.apply(|part| {
            let has_room = match part {
                Expr::Column(column) => self.takes_all_of(&values[schema.index_of_column(column)?])?,
                _ => self.takes_one(),
            };
            is_full = !has_room;
            Ok(if has_room { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
        })?;
        if is_full {
            return Ok(None);
        }
        let put = expression.clone().transform_up(|part| match &part {
            Expr::Column(column) => Ok(Transformed::yes(values[schema.index_of_column(column)?].clone())),
            _ => Ok(Transformed::no(part)),
        })?;
        Ok(Some(put.data))
    }

    /// Takes the place of one part, if there is one.
    fn takes_one(&mut self) -> bool {
        let left = self.parts.checked_sub(1);
        self.parts = left.unwrap_or(0);
        left.is_some()
    }

    fn takes_all_of(&mut self, value: &Expr) -> Result<bool> {
        let mut is_full = false;
        value.apply(|_| {
            is_full = !self.takes_one();
            Ok(if is_full { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        Ok(!is_full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::common::ToDFSchema;
    use datafusion::logical_expr::utils::conjunction;
    use datafusion::logical_expr::{col, lit};

    #[test]
    fn what_doubles_at_each_level_ends_before_it_is_large() {
        let schema = Schema::new(vec![Field::new("a", DataType::Int32, true)]).to_dfschema().unwrap();
        let twice = col("a") + col("a");
        let (mut room, mut value, mut levels) = (Room::default(), col("b"), 0);
        while let Some(next) = room.put(&twice, std::slice::from_ref(&value), &schema).unwrap() {
            value = next;
            levels += 1;
        }
        // The parts of all levels together are twice those of the last one.
        assert_eq!(levels, 12);
        assert!(room.put(&col("a"), &[col("b")], &schema).unwrap().is_none());
        assert_eq!(Room::default().put(&twice, &[col("b")], &schema).unwrap(), Some(col("b") + col("b")));
    }

    #[test]
    fn a_condition_grows_by_what_is_computed_alone() {
        let (many, few) = (vec![col("a"); 2_000], vec![col("a"); 300]);
        let (many, few) = (conjunction(many).unwrap(), conjunction(few).unwrap());
        let (plain, computed) = (col("b").alias("a"), col("b") + lit(1));
        assert!(!grow_too_large(&[&many], |_| Some(&plain)).unwrap());
        assert!(!grow_too_large(&[&many], |_| None).unwrap());
        assert!(!grow_too_large(&[&few], |_| Some(&computed)).unwrap());
        assert!(grow_too_large(&[&many], |_| Some(&computed)).unwrap());
        assert!(grow_too_large(&[&few, &few], |_| Some(&computed)).unwrap());
    }
}
