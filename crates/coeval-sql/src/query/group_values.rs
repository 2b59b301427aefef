// SPDX-License-Identifier: Apache-2.0
//! By what an aggregate groups: by values, or by several sets of them (GROUPING SETS, ROLLUP, CUBE).

use datafusion::logical_expr::{Aggregate, Expr};

/// Whether it is by several sets.
pub(super) fn is_of_sets(aggregate: &Aggregate) -> bool {
    matches!(aggregate.group_expr.as_slice(), [Expr::GroupingSet(_)])
}

/// By what it groups; of several sets all that any of them has.
pub(super) fn group_values(aggregate: &Aggregate) -> Vec<&Expr> {
    match aggregate.group_expr.as_slice() {
        [Expr::GroupingSet(sets)] => sets.distinct_expr(),
        values => values.iter().collect(),
    }
}
