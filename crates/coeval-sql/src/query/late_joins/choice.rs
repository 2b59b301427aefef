// SPDX-License-Identifier: Apache-2.0
//! Which tables come behind an aggregate, and by what the others are grouped before.
//!
//! Of each table it is asked whether it *may* come behind (nothing of it is aggregated, and nothing but equations of columns names it) and
//! whether it *can*: whether it is joined by a key with what is there already, and what it is joined with follows from the groups. A table
//! that cannot stays with the others, and what was to be joined with it is looked at again; so a chain of tables, customers and their
//! nations, comes behind as a whole or as far as it can.

use super::unfailing::cannot_fail;
use crate::query::group_values::{group_values, is_of_sets};
use crate::query::join_order::{Cluster, Place, Set, Sizes};
use crate::query::joined_tables::JoinedTables;
use crate::query::short_groups::is_short;
use datafusion::common::Result;
use datafusion::logical_expr::{Aggregate, Expr, ExprSchemable};
use datafusion::optimizer::OptimizerConfig;
use std::cell::OnceCell;
use std::collections::BTreeSet;

/// Fewer rows are not worth it.
const ROWS_MIN: f64 = 10_000.0;

/// Rows that there must be for each group if nothing else is gained: a group costs its place in a table, a row of a join a look-up.
const ROWS_PER_GROUP_MIN: f64 = 2.0;

/// The share of rows that must have partners: those that have none are grouped in vain.
const KEPT_MIN: f64 = 0.8;

/// The same where the groups are grouped once more behind the joins.
const ROWS_PER_GROUP_OF_TWO_STEPS_MIN: f64 = 3.0;

/// The same if the joins bring texts to group by.
const ROWS_PER_GROUP_BEFORE_TEXTS_MIN: f64 = 1.2;

/// The same if they are grouped by several sets. These are made of the finest groups, which are mostly few, and then codes find them without a look
/// at texts: a row saves a look-up and copies of codes, and a group costs its way to another thread and back to the joins.
const ROWS_PER_GROUP_OF_SETS_MIN: f64 = 10.0;

/// How an aggregate is divided by the joins that come behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Steps {
    /// It is done when they begin.
    One,
    /// What it gives is put together once more behind them.
    Two,
}

/// A join behind the aggregate.
pub(super) struct LateJoin {
    /// The table that is joined.
    pub(super) relation: usize,
    /// What is there already, and what of the table is equal to it.
    on: Vec<(Place, Place)>,
}

/// What comes behind the aggregate.
pub(super) struct Behind<'t, 'c> {
    tables: &'t Tables<'c>,
    /// In the order in which they are joined.
    joins: Vec<LateJoin>,
    /// By what the others are grouped.
    groups: Vec<Expr>,
}

impl<'t, 'c> Behind<'t, 'c> {
    /// `None` if no table can come behind, or it does not pay.
    ///
    /// # Errors
    /// If the aggregate names columns that no relation has.
    pub(super) fn of(
        tables: &'t Tables<'c>,
        aggregate: &Aggregate,
        steps: Steps,
        config: &dyn OptimizerConfig,
    ) -> Result<Option<Self>> {
        let candidates = tables.candidates(aggregate)?;
        let all = Self::of_candidates(tables, aggregate, steps, &candidates, config)?;
        if all.is_some() || steps == Steps::One || candidates.len() < 2 {
            return Ok(all);
        }
        // Together they may divide rows into too many groups.
        for candidate in candidates {
            let alone = BTreeSet::from([candidate]);
            let found = Self::of_candidates(tables, aggregate, steps, &alone, config)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    fn of_candidates(
        tables: &'t Tables<'c>,
        aggregate: &Aggregate,
        steps: Steps,
        candidates: &BTreeSet<usize>,
        config: &dyn OptimizerConfig,
    ) -> Result<Option<Self>> {
        let order = tables.behind(candidates, steps);
        if order.is_empty() {
            return Ok(None);
        }
        let is_behind = |place: &Place| order.contains(&place.relation);
        let (mut groups, mut there) = (Vec::new(), BTreeSet::new());
        for value in group_values(aggregate) {
            if tables.joined.table_of(value).is_some_and(|table| order.contains(&table)) {
                continue;
            }
            let is_column = matches!(value, Expr::Column(_));
            if !cannot_fail(value, aggregate.input.schema()) || (steps == Steps::Two && !is_column) {
                return Ok(None);
            }
            if let Expr::Column(column) = value {
                there.insert(tables.cluster.place(column)?);
            }
            groups.push(value.clone());
        }
        for class in tables.joined.classes.iter().filter(|class| class.iter().any(is_behind)) {
            let mut others = class.iter().filter(|place| !is_behind(place));
            if let Some(first) = others.next()
                && !there.contains(first)
                && !others.any(|place| there.contains(place))
            {
                there.insert(*first);
                groups.push(Expr::Column(tables.joined.column(*first)));
            }
        }
        let joins = tables.joins(order, there);
        let behind = Self { tables, joins, groups };
        Ok(behind.pays(aggregate, steps, config)?.then_some(behind))
    }

    /// By what the others are grouped.
    pub(super) fn groups(&self) -> Vec<Expr> {
        self.groups.clone()
    }

    /// What the aggregate gives, of the groups and what is joined with them.
    pub(super) fn outputs(&self, aggregate: &Aggregate) -> Vec<Expr> {
        let mut outputs: Vec<Expr> = aggregate.schema.columns().into_iter().map(Expr::Column).collect();
        for (place, value) in aggregate.group_expr.iter().enumerate() {
            if !matches!(value, Expr::Column(_)) && self.is_told_behind(value) {
                let (qualifier, field) = aggregate.schema.qualified_field(place);
                let value = value.clone().unalias();
                outputs[place] = value.alias_qualified(qualifier.cloned(), field.name());
            }
        }
        outputs
    }

    /// Whether a value is one of a table that comes behind.
    fn is_told_behind(&self, value: &Expr) -> bool {
        self.tables.joined.table_of(value).is_some_and(|table| self.has(table))
    }

    /// The joins, in their order.
    pub(super) fn joins(&self) -> &[LateJoin] {
        &self.joins
    }

    /// The equations of one of them.
    pub(super) fn on(&self, join: &LateJoin) -> Vec<(Expr, Expr)> {
        let column = |place: &Place| Expr::Column(self.tables.joined.column(*place));
        join.on.iter().map(|(there, own)| (column(there), column(own))).collect()
    }

    /// The relations that do not come behind.
    pub(super) fn others(&self) -> Set {
        let all = 0..self.tables.cluster.relations().len();
        all.filter(|relation| !self.has(*relation)).map(|relation| 1 << relation).sum()
    }

    /// Whether this relation comes behind.
    fn has(&self, relation: usize) -> bool {
        self.joins.iter().any(|join| join.relation == relation)
    }

    /// Whether it is estimated to pay.
    fn pays(&self, aggregate: &Aggregate, steps: Steps, config: &dyn OptimizerConfig) -> Result<bool> {
        let Tables { cluster, joined, .. } = self.tables;
        if self.kept() < KEPT_MIN {
            return Ok(false);
        }
        let rows = self.tables.rows_of(self.others(), config)?;
        if rows < ROWS_MIN {
            return Ok(false);
        }
        let mut has_texts = false;
        for value in group_values(aggregate) {
            has_texts |= self.is_told_behind(value) && !is_short(&value.get_type(aggregate.input.schema())?);
        }
        let rows_per_group = match steps {
            Steps::One if has_texts => return Ok(true),
            Steps::One => ROWS_PER_GROUP_MIN,
            Steps::Two if is_of_sets(aggregate) => ROWS_PER_GROUP_OF_SETS_MIN,
            Steps::Two if has_texts => ROWS_PER_GROUP_BEFORE_TEXTS_MIN,
            Steps::Two => ROWS_PER_GROUP_OF_TWO_STEPS_MIN,
        };
        let mut places = Vec::with_capacity(self.groups.len());
        for value in &self.groups {
            let Expr::Column(column) = value else { return Ok(false) };
            places.push(cluster.place(column)?);
        }
        let groups = joined.combinations_left(&places, config)?;
        Ok(groups.is_some_and(|groups| groups * rows_per_group <= rows))
    }

    /// The share of rows that find partners: of a table that its own filters leave, and of whole numbers those that are not beyond the
    /// table's. Within its bounds a key is taken to have what is looked up.
    fn kept(&self) -> f64 {
        let of_join = |join: &LateJoin| {
            let relation = &self.tables.joined.relations[join.relation];
            let own = (relation.rows / relation.base_rows()).min(1.0);
            let within = join.on.iter().map(|(there, own)| self.share_within(*there, *own));
            own * within.product::<f64>()
        };
        self.joins.iter().map(of_join).product()
    }

    /// The share of one column's range that lies within the range of the other; 1 if they are not known.
    fn share_within(&self, looked_up: Place, key: Place) -> f64 {
        let bounds = |place: Place| self.tables.joined.relations[place.relation].bounds(place.field);
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

/// The relations of a cluster, and what the groups above them tell of a row.
pub(super) struct Tables<'c> {
    cluster: &'c Cluster,
    joined: JoinedTables<'c>,
    /// Columns of which all rows of a group have the same value.
    told: BTreeSet<Place>,
    /// How many rows their joins give, once somebody has asked. Below most aggregates there is no table that can come behind.
    sizes: OnceCell<Sizes>,
}

impl<'c> Tables<'c> {
    /// Those of the cluster below an aggregate.
    ///
    /// # Errors
    /// If the aggregate names columns that no relation has.
    pub(super) fn of(
        cluster: &'c Cluster,
        aggregate: &Aggregate,
        config: &dyn OptimizerConfig,
    ) -> Result<Self> {
        let joined = JoinedTables::of_cluster(cluster, config)?;
        let mut groups = BTreeSet::new();
        for value in &aggregate.group_expr {
            if let Expr::Column(column) = value {
                groups.insert(cluster.place(column)?);
            }
        }
        let told = joined.with_followers(groups);
        Ok(Self { cluster, joined, told, sizes: OnceCell::new() })
    }

    /// About how many rows the joins of these relations give.
    fn rows_of(&self, set: Set, config: &dyn OptimizerConfig) -> Result<f64> {
        let of_class = |class: &Vec<Place>| {
            let places = class.iter().copied().filter(|place| set >> place.relation & 1 == 1);
            self.joined.partners_beyond_chance(&places.collect::<Vec<_>>(), config)
        };
        Ok(self.sizes(config)?.rows_of(set) * self.joined.classes.iter().map(of_class).product::<f64>())
    }

    fn sizes(&self, config: &dyn OptimizerConfig) -> Result<&Sizes> {
        if let Some(known) = self.sizes.get() {
            return Ok(known);
        }
        let sizes = self.cluster.sizes(config)?;
        Ok(self.sizes.get_or_init(|| sizes))
    }

    /// The tables that may come behind: they keep nearly all their rows, what is named of them are equations, which have a key, and groups
    /// that are of one table.
    fn candidates(&self, aggregate: &Aggregate) -> Result<BTreeSet<usize>> {
        let of_several =
            group_values(aggregate).into_iter().filter(|value| self.joined.table_of(value).is_none());
        let mut needed = BTreeSet::new();
        for column in of_several.chain(&aggregate.aggr_expr).flat_map(Expr::column_refs) {
            needed.insert(self.cluster.place(column)?.relation);
        }
        let is_candidate = |number: &usize| {
            let relation = &self.joined.relations[*number];
            let keeps_rows = relation.rows >= relation.base_rows() * KEPT_MIN;
            let is_named = needed.contains(number) || self.cluster.is_compared(*number);
            keeps_rows && !is_named && self.is_joined_by_key(*number, &BTreeSet::from([*number]))
        };
        Ok((0..self.joined.relations.len()).filter(is_candidate).collect())
    }

    /// Those of these tables that can come behind together, in an order in which each is joined by a key with what is there before.
    fn behind(&self, candidates: &BTreeSet<usize>, steps: Steps) -> Vec<usize> {
        let mut left = candidates.clone();
        if left.len() == self.joined.relations.len() {
            // Something has to be grouped.
            let rows = |number: &usize| self.joined.relations[*number].rows;
            let most = left.iter().copied().max_by(|one, other| rows(one).total_cmp(&rows(other)));
            left.retain(|number| Some(*number) != most);
        }
        loop {
            let order = self.order(&left);
            let can: BTreeSet<usize> =
                order.iter().copied().filter(|relation| !self.is_held(*relation, &left, steps)).collect();
            if can.len() == left.len() {
                return order;
            }
            left = can;
        }
    }

    /// Whether a table is joined with something before the aggregate that does not follow from the groups, if there are no others below, or
    /// by values of which equal ones differ.
    fn is_held(&self, relation: usize, behind: &BTreeSet<usize>, steps: Steps) -> bool {
        let is_own = |class: &&Vec<Place>| class.iter().any(|place| place.relation == relation);
        self.joined.classes.iter().filter(is_own).any(|class| {
            let is_told = |place: &Place| {
                steps == Steps::Two || behind.contains(&place.relation) || self.told.contains(place)
            };
            !self.joined.is_exact(class[0]) || !class.iter().all(is_told)
        })
    }

    /// As many of these tables as can be joined one after the other, each by a key.
    fn order(&self, behind: &BTreeSet<usize>) -> Vec<usize> {
        let (mut order, mut left) = (Vec::new(), behind.clone());
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
        let fields: Vec<usize> = self.joined.classes.iter().filter_map(of_class).collect();
        self.joined.relations[relation].keeps_key(&fields)
    }

    /// The joins of these tables, one after the other, with columns that are there.
    fn joins(&self, order: Vec<usize>, mut there: BTreeSet<Place>) -> Vec<LateJoin> {
        let mut joins = Vec::with_capacity(order.len());
        for relation in order {
            let with = |class: &Vec<Place>| {
                let own = class.iter().find(|place| place.relation == relation)?;
                let other = class.iter().find(|place| there.contains(*place))?;
                Some((*other, *own))
            };
            let on = self.joined.classes.iter().filter_map(with).collect();
            joins.push(LateJoin { relation, on });
            there.extend(self.joined.places_of(relation));
        }
        joins
    }
}
