// SPDX-License-Identifier: Apache-2.0
//! What samples of tables have told in a statement, kept until its end.
//!
//! Each pass of the optimizer asks again what it asked in the pass before: which share of a table's rows passes a filter, how many
//! values a column has. The rows are those of the statement's snapshot, so the answer is the same; to find it takes a look at
//! thousands of rows.

use coeval_store::SpaceId;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::Expr;
use parking_lot::Mutex;
use std::collections::HashMap;

/// So many answers are kept: a subquery that is planned for each row may ask something else each time.
const KEPT_MAX: usize = 1_000;

/// Expressions of more parts, as lists of many values, are not kept.
const PARTS_MAX: usize = 100;

/// What is asked of a table's sample. Columns are known by their names, under which a table has each of them once.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Question {
    /// The share of rows that pass all these filters.
    Share(Vec<Expr>),
    /// How many values an expression has.
    Values(Expr),
}

impl Question {
    fn is_short(&self) -> bool {
        let expressions = match self {
            Self::Share(filters) => filters.as_slice(),
            Self::Values(expression) => std::slice::from_ref(expression),
        };
        let mut parts = 0;
        // The walk itself never fails.
        let _ = expressions.iter().try_for_each(|expression| {
            let counted = expression.apply(|_| {
                parts += 1;
                Ok(if parts > PARTS_MAX { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
            });
            counted.map(|_| ())
        });
        parts <= PARTS_MAX
    }
}

/// The answers of one statement's snapshot.
///
/// # Locking
/// `known` is a leaf lock, held for a look or an insertion, and never while an answer is found.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    known: Mutex<HashMap<(SpaceId, Question), Option<f64>>>,
}

impl Answers {
    /// What a table's sample tells, found out if it was not asked before; `None` if it does not tell.
    pub(crate) fn of(
        &self,
        table: SpaceId,
        question: Question,
        find: impl FnOnce() -> Option<f64>,
    ) -> Option<f64> {
        if !question.is_short() {
            return find();
        }
        let asked = (table, question);
        if let Some(known) = self.known.lock().get(&asked) {
            return *known;
        }
        let found = find();
        let mut known = self.known.lock();
        if known.len() < KEPT_MAX {
            known.insert(asked, found);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::logical_expr::{col, lit};

    #[test]
    fn each_question_is_answered_once() {
        let answers = Answers::default();
        let share = |column: &str| Question::Share(vec![col(column).eq(lit(1))]);
        let (table, other) = (SpaceId::new(1), SpaceId::new(2));
        assert_eq!(answers.of(table, share("t.a"), || Some(0.5)), Some(0.5));
        assert_eq!(answers.of(table, share("t.a"), || panic!("it is known")), Some(0.5));
        assert_eq!(answers.of(table, share("t.b"), || None), None);
        assert_eq!(answers.of(table, share("t.b"), || panic!("it is known that it is not known")), None);
        assert_eq!(answers.of(other, share("t.a"), || Some(0.1)), Some(0.1));
        assert_eq!(answers.of(table, Question::Values(col("t.a")), || Some(7.0)), Some(7.0));
    }

    #[test]
    fn long_lists_are_not_kept() {
        let answers = Answers::default();
        let list = || Question::Share(vec![col("a").in_list((0..1_000).map(lit).collect(), false)]);
        assert_eq!(answers.of(SpaceId::new(1), list(), || Some(0.5)), Some(0.5));
        assert_eq!(answers.of(SpaceId::new(1), list(), || Some(0.6)), Some(0.6));
    }
}
