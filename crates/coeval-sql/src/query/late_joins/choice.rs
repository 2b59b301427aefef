// SPDX-License-Identifier: Apache-2.0
//! Which tables come behind an aggregate, and by what the others are grouped before.
//!
//! Of each table it is asked whether it *may* come behind (nothing of it is computed, and nothing but equations of columns names it) and
//! whether it *can*: whether it is joined by a key with what is there already, and what it is joined with follows from the groups. A table
//! that cannot stays with the others, and what was to be joined with it is looked at again; so a chain of tables, customers and their
//! nations, comes behind as a whole or as far as it can.
//!
//! What follows from groups: whatever is equal to what follows, and all columns of a table of which a key follows. An equation has no
//! NULLs, but a key that is grouped by may have some; then it tells nothing.

use crate::query::join_order::{Cluster, Place, Relation, Set};
use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan};
use datafusion::optimizer::OptimizerConfig;
use std::collections::BTreeSet;

/// Fewer rows are not worth it.
const ROWS_MIN: f64 = 10_000.0;

/// Rows that there must be for each group if nothing else is gained: a group costs its place in a table, a row of a join a look-up.
const ROWS_PER_GROUP_MIN: f64 = 2.0;

/// The share of rows that must have partners: those that have none are grouped in vain.
const KEPT_MIN: f64 = 0.8;

/// A join behind the aggregate.
pub(super) struct LateJoin {
    /// The table that is joined.
    pub(super) relation: usize,
    /// What is there already, and what of the table is equal to it.
    pub(super) on: Vec<(Place, Place)>,
}

/// What comes behind the aggregate.
pub(super) struct Behind<'c> {
    cluster: &'c Cluster,
    /// In the order in which they are joined.
    joins: Vec<LateJoin>,
    /// By what the others are grouped.
    groups: Vec<Expr>,
}

impl<'c> Behind<'c> {
    /// `None` if no table can come behind, or it does not pay.
    ///
    /// # Errors
    /// If the aggregate names columns that no relation has.
    pub(super) fn of(
        cluster: &'c Cluster,
        aggregate: &Aggregate,
        config: &dyn OptimizerConfig,
    ) -> Result<Option<Self>> {
        let tables = Tables::of(cluster, aggregate, config)?;
        let order = tables.behind(&tables.candidates(aggregate)?);
        if order.is_empty() {
            return Ok(None);
        }
        let mut behind = Self { cluster, joins: Vec::new(), groups: Vec::new() };
        let is_behind = |place: &Place| order.contains(&place.relation);
        let mut there: BTreeSet<Place> = BTreeSet::new();
        for value in &aggregate.group_expr {
            match value {
                Expr::Column(column) => {
                    let place = cluster.place(column)?;
                    if !is_behind(&place) && there.insert(place) {
                        behind.groups.push(value.clone());
                    }
                }
                value => behind.groups.push(value.clone()),
            }
        }
        for class in tables.classes.iter().filter(|class| class.iter().any(is_behind)) {
            let mut others = class.iter().filter(|place| !is_behind(place));
            if let Some(first) = others.next()
                && !there.contains(first)
                && !others.any(|place| there.contains(place))
            {
                there.insert(*first);
                let column = behind.column(*first);
                behind.groups.push(column);
            }
        }
        for relation in order {
            let with = |class: &Vec<Place>| {
                let own = class.iter().find(|place| place.relation == relation)?;
                let other = class.iter().find(|place| there.contains(*place))?;
                Some((*other, *own))
            };
            let on = tables.classes.iter().filter_map(with).collect();
            behind.joins.push(LateJoin { relation, on });
            there.extend(places_of(relation, &cluster.relations()[relation]));
        }
        Ok(tables.pays(&behind, aggregate, config)?.then_some(behind))
    }

    /// By what the others are grouped.
    pub(super) fn groups(&self) -> Vec<Expr> {
        self.groups.clone()
    }

    /// The joins, in their order.
    pub(super) fn joins(&self) -> &[LateJoin] {
        &self.joins
    }

    /// The column that is there.
    pub(super) fn column(&self, place: Place) -> Expr {
        let schema = self.cluster.relations()[place.relation].schema();
        Expr::Column(Column::from(schema.qualified_field(place.field)))
    }

    /// The relations that do not come behind.
    pub(super) fn others(&self) -> Set {
        let is_behind = |relation: usize| self.joins.iter().any(|join| join.relation == relation);
        (0..self.cluster.relations().len()).filter(|one| !is_behind(*one)).map(|one| 1 << one).sum()
    }
}

/// The relations of a cluster, and what the groups above them tell of a row.
struct Tables<'c> {
    cluster: &'c Cluster,
    relations: Vec<Relation>,
    /// Columns that are all equal.
    classes: Vec<Vec<Place>>,
    /// Columns of which all rows of a group have the same value.
    told: BTreeSet<Place>,
}

impl<'c> Tables<'c> {
    fn of(cluster: &'c Cluster, aggregate: &Aggregate, config: &dyn OptimizerConfig) -> Result<Self> {
        let plans = cluster.relations().iter().enumerate();
        let relations =
            plans.map(|(number, plan)| Relation::of(plan, cluster.filters(number), config)).collect();
        let mut tables =
            Self { cluster, relations, classes: cluster.equal_columns()?, told: BTreeSet::new() };
        for value in &aggregate.group_expr {
            if let Expr::Column(column) = value {
                tables.told.insert(cluster.place(column)?);
            }
        }
        tables.tell_what_follows();
        Ok(tables)
    }

    /// Adds to what is told whatever follows from it.
    fn tell_what_follows(&mut self) {
        let cluster = self.cluster;
        loop {
            let known = self.told.len();
            for class in &self.classes {
                if self.is_exact(class[0]) && class.iter().any(|place| self.told.contains(place)) {
                    self.told.extend(class.iter().copied());
                }
            }
            for (relation, plan) in cluster.relations().iter().enumerate() {
                let key: Vec<usize> = places_of(relation, plan)
                    .filter(|place| self.told.contains(place) && self.is_exact(*place))
                    .filter(|place| !self.may_be_null(*place))
                    .map(|place| place.field)
                    .collect();
                if self.relations[relation].keeps_key(&key) {
                    self.told.extend(places_of(relation, plan));
                }
            }
            if self.told.len() == known {
                return;
            }
        }
    }

    /// Whether values of this column that are equal are the same.
    fn is_exact(&self, place: Place) -> bool {
        let ty = self.type_of(place);
        ty.is_integer()
            || ty.is_string()
            || matches!(
                ty,
                DataType::Boolean | DataType::Decimal128(..) | DataType::Date32 | DataType::Timestamp(..)
            )
    }

    fn type_of(&self, place: Place) -> &DataType {
        self.cluster.relations()[place.relation].schema().field(place.field).data_type()
    }

    /// Whether a column may be NULL in what comes out of the joins.
    fn may_be_null(&self, place: Place) -> bool {
        let field = self.cluster.relations()[place.relation].schema().field(place.field);
        field.is_nullable() && !self.classes.iter().any(|class| class.contains(&place))
    }

    /// The tables that may come behind: they keep nearly all their rows, what is named of them are groups and equations, and those have
    /// a key.
    fn candidates(&self, aggregate: &Aggregate) -> Result<BTreeSet<usize>> {
        let is_plain = |value: &&Expr| matches!(value, Expr::Column(_));
        let computed =
            aggregate.group_expr.iter().filter(|value| !is_plain(value)).chain(&aggregate.aggr_expr);
        let mut needed = BTreeSet::new();
        for column in computed.flat_map(Expr::column_refs) {
            needed.insert(self.cluster.place(column)?.relation);
        }
        let is_candidate = |number: &usize| {
            let relation = &self.relations[*number];
            let keeps_rows = relation.rows >= relation.base_rows() * KEPT_MIN;
            let is_named = needed.contains(number) || self.cluster.is_compared(*number);
            keeps_rows && !is_named && self.is_joined_by_key(*number, &BTreeSet::from([*number]))
        };
        Ok((0..self.relations.len()).filter(is_candidate).collect())
    }

    /// Those of these tables that can come behind together, in an order in which each is joined by a key with what is there before.
    fn behind(&self, candidates: &BTreeSet<usize>) -> Vec<usize> {
        let mut left = candidates.clone();
        if left.len() == self.relations.len() {
            // Something has to be grouped.
            let rows = |number: &usize| self.relations[*number].rows;
            let most = left.iter().copied().max_by(|one, other| rows(one).total_cmp(&rows(other)));
            left.retain(|number| Some(*number) != most);
        }
        loop {
            let order = self.order(&left);
            let stays = |relation: &usize| self.is_held(*relation, &left);
            let can: BTreeSet<usize> = order.iter().copied().filter(|relation| !stays(relation)).collect();
            if can.len() == left.len() {
                return order;
            }
            left = can;
        }
    }

    /// Whether a table is joined with something before the aggregate that does not follow from the groups, or by values of which equal
    /// ones differ.
    fn is_held(&self, relation: usize, behind: &BTreeSet<usize>) -> bool {
        let own = |class: &&Vec<Place>| class.iter().any(|place| place.relation == relation);
        self.classes.iter().filter(own).any(|class| {
            let is_told = |place: &Place| behind.contains(&place.relation) || self.told.contains(place);
            !self.is_exact(class[0]) || !class.iter().all(is_told)
        })
    }

    /// As many of these tables as can be joined one after the other, each by a key.
    fn order(&self, behind: &BTreeSet<usize>) -> Vec<usize> {
        let mut order: Vec<usize> = Vec::new();
        let mut left = behind.clone();
        loop {
            let next = left.iter().copied().find(|relation| self.is_joined_by_key(*relation, &left));
            let Some(next) = next else { return order };
            left.remove(&next);
            order.push(next);
        }
    }

    /// Whether all columns of a key of a table are equal to columns of what is there, which are all tables but those that are left.
    fn is_joined_by_key(&self, relation: usize, left: &BTreeSet<usize>) -> bool {
        let of_class = |class: &Vec<Place>| {
            let own = class.iter().find(|place| place.relation == relation)?;
            class.iter().any(|place| !left.contains(&place.relation)).then_some(own.field)
        };
        let fields: Vec<usize> = self.classes.iter().filter_map(of_class).collect();
        self.relations[relation].keeps_key(&fields)
    }

    /// Whether it is estimated to pay.
    fn pays(&self, behind: &Behind<'_>, aggregate: &Aggregate, config: &dyn OptimizerConfig) -> Result<bool> {
        let rows = self.cluster.sizes().rows_of(behind.others());
        if rows < ROWS_MIN || self.kept(behind) < KEPT_MIN {
            return Ok(false);
        }
        for value in &aggregate.group_expr {
            if let Expr::Column(column) = value {
                let place = self.cluster.place(column)?;
                let is_behind = behind.joins().iter().any(|join| join.relation == place.relation);
                if is_behind && !is_short(self.type_of(place)) {
                    return Ok(true);
                }
            }
        }
        let mut groups = 1.0;
        for value in &behind.groups {
            let Some(values) = self.values_of(value, config)? else { return Ok(false) };
            groups *= values;
        }
        Ok(groups * ROWS_PER_GROUP_MIN <= rows)
    }

    /// How many values a group's column has.
    fn values_of(&self, value: &Expr, config: &dyn OptimizerConfig) -> Result<Option<f64>> {
        let Expr::Column(column) = value else { return Ok(None) };
        let number = self.cluster.place(column)?.relation;
        self.relations[number].distinct(column, &self.cluster.relations()[number], config)
    }

    /// The share of rows that find partners: those of a table that its own filters leave, if each key is of as many rows as any other, and
    /// of whole numbers those that are not beyond the table's.
    fn kept(&self, behind: &Behind<'_>) -> f64 {
        let of_join = |join: &LateJoin| {
            let relation = &self.relations[join.relation];
            let own = (relation.rows / relation.base_rows()).min(1.0);
            let within = join.on.iter().map(|(looked_up, key)| self.share_within(*looked_up, *key));
            own * within.product::<f64>()
        };
        behind.joins().iter().map(of_join).product()
    }

    /// The share of one column's range that lies within the range of the other; 1 if they are not known.
    fn share_within(&self, looked_up: Place, key: Place) -> f64 {
        let bounds = |place: Place| self.relations[place.relation].bounds(place.field);
        let (Some((min, max)), Some((key_min, key_max))) = (bounds(looked_up), bounds(key)) else {
            return 1.0;
        };
        let (from, to) = (min.max(key_min), max.min(key_max));
        if to < from {
            return 0.0;
        }
        (to.abs_diff(from) as f64 + 1.0) / (max.abs_diff(min) as f64 + 1.0)
    }
}

/// The places of the columns of a relation.
fn places_of(relation: usize, plan: &LogicalPlan) -> impl Iterator<Item = Place> + use<> {
    (0..plan.schema().fields().len()).map(move |field| Place { relation, field })
}

/// Whether values of this type are compared as numbers, so that groups by several of them may be told by one.
fn is_short(ty: &DataType) -> bool {
    ty.is_signed_integer()
        || matches!(
            ty,
            DataType::Date32
                | DataType::Timestamp(..)
                | DataType::Time64(TimeUnit::Microsecond | TimeUnit::Nanosecond)
        )
}
