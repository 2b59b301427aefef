// SPDX-License-Identifier: Apache-2.0
//! Which columns of joined tables follow from others: where rows agree in some columns, they agree in those as well.
//!
//! Whatever is equal to a column that is known is known, and of a table of which a key is known all columns are. An equation has no NULLs,
//! but a key that is only known may have some, and then it tells nothing. So columns that may be NULL are keys if they are equated alone.

use super::dependencies::subquery_of;
use super::join_order::{Cluster, Place, Relation, named_values};
use arrow::datatypes::DataType;
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{Column, Result};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::OptimizerConfig;
use std::collections::{BTreeMap, BTreeSet};

/// Tables, and which of their columns are equal in what comes out of their joins.
pub(super) struct JoinedTables<'p> {
    plans: &'p [LogicalPlan],
    /// The filters over each that are not in its plan.
    filters: Vec<&'p [Expr]>,
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
        let filters: Vec<&[Expr]> = (0..plans.len()).map(|number| cluster.filters(number)).collect();
        let relations = plans.iter().zip(&filters);
        let relations = relations.map(|(plan, filters)| Relation::of(plan, filters, config)).collect();
        Ok(Self { plans, filters, relations, classes: cluster.equal_columns()? })
    }

    /// A table by itself.
    pub(super) fn of_table(plan: &'p LogicalPlan, config: &dyn OptimizerConfig) -> Self {
        let filters: &[Expr] = &[];
        let relations = vec![Relation::of(plan, filters, config)];
        let plans = std::slice::from_ref(plan);
        Self { plans, filters: vec![filters], relations, classes: Vec::new() }
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

    /// The same in the rows that the filters of its table leave.
    ///
    /// # Errors
    /// If the table has no such column.
    fn values_left(&self, place: Place, config: &dyn OptimizerConfig) -> Result<Option<f64>> {
        let relation = &self.relations[place.relation];
        let filters = self.filters[place.relation];
        let named = named_values(&self.plans[place.relation], filters, &self.column(place));
        let known = named.into_iter().chain(self.values_of(place, config)?).reduce(f64::min);
        Ok(known.map(|values| values.min(relation.rows)))
    }

    /// About how many combinations of values these columns have in such rows, if that can be told: of each table no more than it has rows,
    /// because most of its columns follow from each other.
    ///
    /// # Errors
    /// If a table has no such column.
    pub(super) fn combinations_left(
        &self,
        places: &[Place],
        config: &dyn OptimizerConfig,
    ) -> Result<Option<f64>> {
        let mut of_tables: BTreeMap<usize, f64> = BTreeMap::new();
        for place in places {
            let Some(values) = self.values_left(*place, config)? else { return Ok(None) };
            let combinations = of_tables.entry(place.relation).or_insert(1.0);
            *combinations = (*combinations * values).min(self.relations[place.relation].rows);
        }
        Ok(Some(of_tables.into_values().product()))
    }

    /// How many times more partners these columns, which are equal, find in tables of which they are a key than if the filters of those were
    /// about other things.
    ///
    /// Sales of five years look up their days among those of two centuries. `year = 2001` leaves one in two hundred of these, but one in
    /// five of those that are looked up: that is forty times as many as chance would have it.
    pub(super) fn partners_beyond_chance(&self, equal: &[Place], config: &dyn OptimizerConfig) -> f64 {
        let bounds = |place: &Place| self.relations[place.relation].bounds(place.field);
        let both = |(from, to): (i64, i64), (min, max): (i64, i64)| (from.max(min), to.min(max));
        let common = equal.iter().filter_map(bounds).reduce(both);
        let Some((from, to)) = common.filter(|(from, to)| from <= to) else { return 1.0 };
        let of_place = |place: &Place| {
            let (relation, filters) = (&self.relations[place.relation], self.filters[place.relation]);
            let (min, max) = bounds(place)?;
            if (min, max) == (from, to) || !relation.keeps_key(&[place.field]) {
                return None;
            }
            let by_chance = (to.abs_diff(from) as f64 + 1.0) / (max.abs_diff(min) as f64 + 1.0);
            let (plan, column) = (&self.plans[place.relation], self.column(*place));
            let share = relation.share_between(plan, filters, &column, (from, to), config)?;
            // Each finds one partner at most.
            Some((share / by_chance).min(relation.base_rows() / relation.rows))
        };
        equal.iter().filter_map(of_place).product()
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
