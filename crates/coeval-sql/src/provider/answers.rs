// SPDX-License-Identifier: Apache-2.0
//! What samples of tables have told in a statement, kept until its end, or with its plan.
//!
//! Each pass of the optimizer asks again what it asked in the pass before: which share of a table's rows passes a filter, how many
//! values a column has, what a filtered scan gives. The rows are those of the statement's snapshot, so the answer is the same; to find
//! it takes a look at thousands of rows.
//!
//! A plan that is kept for the next execution was made by the answers of the first one, and holds as long as tables have about as many
//! rows. So the answers are kept with it and hold as long: they are estimates, and what is exact is asked of each snapshot anew.

use coeval_store::SpaceId;
use datafusion::common::Statistics;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::Expr;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// So many answers are kept: a subquery that is planned for each row may ask something else each time.
const KEPT_MAX: usize = 1_000;

/// Of so many scans it is kept what they give, which is more for each of them.
const SCANS_MAX: usize = 100;

/// Expressions of more parts, as lists of many values, are not kept.
const PARTS_MAX: usize = 100;

/// What is asked of a table's sample. Columns are known by their names, under which a table has each of them once.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Question {
    /// The share of rows that pass all these filters.
    Share(Vec<Expr>),
    /// How many values an expression has.
    Values(Expr),
    /// How many values a column has, by its place in the definition.
    ColumnValues(usize),
}

impl Question {
    fn is_short(&self) -> bool {
        let expressions = match self {
            Self::Share(filters) => filters.as_slice(),
            Self::Values(expression) => std::slice::from_ref(expression),
            Self::ColumnValues(_) => &[],
        };
        are_short(expressions)
    }
}

/// Whether all of these together have no more than [`PARTS_MAX`] parts.
fn are_short(expressions: &[Expr]) -> bool {
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

/// What a scan reads of a table: columns by their places in its definition, and the rows that all these filters let through.
#[derive(Debug, PartialEq, Eq, Hash)]
struct FilteredScan {
    columns: Vec<usize>,
    filters: Vec<Expr>,
}

/// What filtered scans of tables are estimated to give.
type ScanEstimates = HashMap<(SpaceId, Arc<FilteredScan>), Arc<Statistics>>;

/// The answers of one statement's snapshot, or of those of all executions of one plan.
///
/// # Locking
/// `known` and `scans` are leaf locks, held for a look or an insertion, and never while an answer is found.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    known: Mutex<HashMap<(SpaceId, Question), Option<f64>>>,
    scans: Mutex<ScanEstimates>,
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

    /// How many values a column of a table has, if somebody asked before and the sample has told.
    pub(super) fn column_values(&self, table: SpaceId, column: usize) -> Option<f64> {
        *self.known.lock().get(&(table, Question::ColumnValues(column)))?
    }

    /// Forgets what scans are estimated to give: of how many scans it was known.
    #[cfg(test)]
    pub(crate) fn forget_scans(&self) -> usize {
        std::mem::take(&mut *self.scans.lock()).len()
    }
}

/// A filtered scan, and where it is kept what it is estimated to give.
#[derive(Clone, Debug)]
pub(super) struct AskedScan {
    answers: Arc<Answers>,
    table: SpaceId,
    scan: Arc<FilteredScan>,
}

impl AskedScan {
    /// A scan of these columns of a table with these filters; `None` if they are too long to be kept.
    pub(super) fn new(
        answers: &Arc<Answers>,
        table: SpaceId,
        columns: Vec<usize>,
        filters: &[Expr],
    ) -> Option<Self> {
        if !are_short(filters) {
            return None;
        }
        let scan = Arc::new(FilteredScan { columns, filters: filters.to_vec() });
        Some(Self { answers: Arc::clone(answers), table, scan })
    }

    /// What it is estimated to give, estimated if that is not known.
    ///
    /// # Errors
    /// Those of `estimate`.
    pub(super) fn statistics(
        &self,
        estimate: impl FnOnce() -> Result<Statistics>,
    ) -> Result<Arc<Statistics>> {
        let asked = (self.table, Arc::clone(&self.scan));
        if let Some(known) = self.answers.scans.lock().get(&asked) {
            return Ok(Arc::clone(known));
        }
        let found = Arc::new(estimate()?);
        let mut scans = self.answers.scans.lock();
        if scans.len() < SCANS_MAX {
            scans.insert(asked, Arc::clone(&found));
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::Schema;
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
        assert_eq!(answers.column_values(table, 0), None, "nobody has asked");
        assert_eq!(answers.of(table, Question::ColumnValues(0), || Some(3.0)), Some(3.0));
        assert_eq!(answers.column_values(table, 0), Some(3.0));
        assert_eq!(answers.column_values(table, 1), None);
    }

    #[test]
    fn long_lists_are_not_kept() {
        let answers = Answers::default();
        let list = || Question::Share(vec![col("a").in_list((0..1_000).map(lit).collect(), false)]);
        assert_eq!(answers.of(SpaceId::new(1), list(), || Some(0.5)), Some(0.5));
        assert_eq!(answers.of(SpaceId::new(1), list(), || Some(0.6)), Some(0.6));
        let filters = [col("a").in_list((0..1_000).map(lit).collect(), false)];
        assert!(AskedScan::new(&Arc::default(), SpaceId::new(1), vec![0], &filters).is_none());
    }

    #[test]
    fn each_filtered_scan_is_estimated_once() {
        let answers: Arc<Answers> = Arc::default();
        let asked = |columns: &[usize], value: i32| {
            AskedScan::new(&answers, SpaceId::new(1), columns.to_vec(), &[col("a").eq(lit(value))]).unwrap()
        };
        let estimate = || Ok(Statistics::new_unknown(&Schema::empty()));
        let first = asked(&[0, 1], 1).statistics(estimate).unwrap();
        let again = asked(&[0, 1], 1).statistics(|| panic!("it is known")).unwrap();
        assert!(Arc::ptr_eq(&first, &again));
        for other in [asked(&[0], 1), asked(&[0, 1], 2)] {
            assert!(!Arc::ptr_eq(&first, &other.statistics(estimate).unwrap()));
        }
        assert_eq!(answers.forget_scans(), 3);
    }
}
