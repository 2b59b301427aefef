// SPDX-License-Identifier: Apache-2.0
//! Whether syntax holds a subquery.

use datafusion::sql::sqlparser::ast::{Query, Visit, Visitor};
use std::ops::ControlFlow;

/// Whether there is a query anywhere in it: then it needs the database.
pub(crate) fn has_subquery<V: Visit>(syntax: &V) -> bool {
    struct Subqueries;
    impl Visitor for Subqueries {
        type Break = ();
        fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            ControlFlow::Break(())
        }
    }
    syntax.visit(&mut Subqueries).is_break()
}
