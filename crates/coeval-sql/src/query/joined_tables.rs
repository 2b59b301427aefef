// SPDX-License-Identifier: Apache-2.0
//! Which columns of joined tables follow from others: where rows agree in some columns, they agree in those as well.
//!
//! Whatever is equal to a column that is known is known, and of a table of which a key is known all columns are. An equation has no NULLs,
//! but a key that is only known may have some, and then it tells nothing. So columns that may be NULL are keys if they are equated alone.

use super::join_conditions::subquery_of;
use super::join_order::{Cluster, Place, Relation};
use arrow::datatypes::DataType;
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{Column, Result};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::OptimizerConfig;
use std::collections::BTreeSet;

/// Tables, and which of their columns are equal in what comes out of their joins.
pub(super) struct JoinedTables<'p> {
    plans: &'p [LogicalPlan],
    /// What is known of each.
    pub(super) relations: Vec<Relation>,
    /// Columns that are all equal, and not NULL.
    pub(super) classes: Vec<Vec<Place>>,
}

impl<'p> JoinedTables<'p> {
    /// The tables of a cluster of inner joins.
    ///
    /// # Errors
    /// If the cluster equates a column that no relation has.
    pub(super) fn of_cluster(cluster: &'p Cluster, config: &dyn OptimizerConfig) -> Result<Self> {
        let plans = cluster.relations();
        let relations = plans.iter().enumerate();
        let relations =
            relations.map(|(number, plan)| Relation::of(plan, cluster.filters(number), config)).collect();
        Ok(Self { plans, relations, classes: cluster.equal_columns()? })
    }

    /// A table by itself.
    pub(super) fn of_table(plan: &'p LogicalPlan, config: &dyn OptimizerConfig) -> Self {
        let relations = vec![Relation::of(plan, &[], config)];
        Self { plans: std::slice::from_ref(plan), relations, classes: Vec::new() }
    }

    /// The place of a column, if a table has it.
    pub(super) fn place(&self, column: &Column) -> Option<Place> {
        let relation = self.plans.iter().position(|plan| plan.schema().has_column(column))?;
        Some(Place { relation, field: self.plans[relation].schema().maybe_index_of_column(column)? })
    }

    /// The one table whose columns an expression names; `None` if it names those of several or none, or has not the same value whenever it is
    /// computed of the same row.
    pub(super) fn table_of(&self, value: &Expr) -> Option<usize> {
        if varies(value) {
            return None;
        }
        let table = |column: &Column| self.place(column).map(|place| place.relation);
        let mut tables = value.column_refs().into_iter().map(table);
        let first = tables.next()??;
        tables.all(|other| other == Some(first)).then_some(first)
    }

    /// Whether an expression has one value where rows agree in these columns.
    pub(super) fn is_told_by(&self, value: &Expr, known: &BTreeSet<Place>) -> bool {
        let is_known = |column: &Column| self.place(column).is_some_and(|place| known.contains(&place));
        !varies(value) && value.column_refs().into_iter().all(is_known)
    }

    /// The column that is there.
    pub(super) fn column(&self, place: Place) -> Column {
        Column::from(self.plans[place.relation].schema().qualified_field(place.field))
    }

    /// Its type.
    pub(super) fn type_of(&self, place: Place) -> &DataType {
        self.plans[place.relation].schema().field(place.field).data_type()
    }

    /// About how many values it has before any filter, if that can be told.
    ///
    /// # Errors
    /// If the table has no such column.
    pub(super) fn values_of(&self, place: Place, config: &dyn OptimizerConfig) -> Result<Option<f64>> {
        let plan = &self.plans[place.relation];
        self.relations[place.relation].distinct(&self.column(place), plan, config)
    }

    /// The places of all columns of a table.
    pub(super) fn places_of(&self, relation: usize) -> impl Iterator<Item = Place> + use<> {
        (0..self.plans[relation].schema().fields().len()).map(move |field| Place { relation, field })
    }

    /// These columns, and all that follow from them.
    pub(super) fn with_followers(&self, mut known: BTreeSet<Place>) -> BTreeSet<Place> {
        loop {
            let count = known.len();
            for class in &self.classes {
                if self.is_exact(class[0]) && class.iter().any(|place| known.contains(place)) {
                    known.extend(class.iter().copied());
                }
            }
            for (relation, table) in self.relations.iter().enumerate() {
                let is_told = |place: &Place| known.contains(place) && self.is_exact(*place);
                let key: Vec<usize> = self
                    .places_of(relation)
                    .filter(|place| is_told(place) && !self.may_be_null(*place))
                    .map(|place| place.field)
                    .collect();
                if table.keeps_key(&key) {
                    known.extend(self.places_of(relation));
                }
            }
            if known.len() == count {
                return known;
            }
        }
    }

    /// Whether values of this column that are equal are the same.
    pub(super) fn is_exact(&self, place: Place) -> bool {
        is_exact(self.type_of(place))
    }

    /// Whether a column may be NULL in what comes out of the joins.
    fn may_be_null(&self, place: Place) -> bool {
        let field = self.plans[place.relation].schema().field(place.field);
        field.is_nullable() && !self.classes.iter().any(|class| class.contains(&place))
    }
}

/// Whether values of this type that are equal are the same. Of floats `0` and `-0` are equal, of lengths of time a month and 30 days, and of
/// numbers without digits `1` and `1.0`.
pub(super) fn is_exact(ty: &DataType) -> bool {
    ty.is_integer()
        || ty.is_string()
        || matches!(
            ty,
            DataType::Boolean | DataType::Decimal128(..) | DataType::Date32 | DataType::Timestamp(..)
        )
}

/// Whether a value may be another one each time it is computed of the same row.
fn varies(value: &Expr) -> bool {
    let is_asked = |part: &Expr| {
        let is_outer = matches!(part, Expr::OuterReferenceColumn(..));
        is_outer || part.is_volatile_node() || subquery_of(part).is_some()
    };
    value.exists(|part| Ok(is_asked(part))).unwrap_or(true)
}
