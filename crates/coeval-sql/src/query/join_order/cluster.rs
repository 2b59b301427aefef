// SPDX-License-Identifier: Apache-2.0
//! A cluster of inner joins taken apart into relations and predicates, and put together again in another order.
//!
//! Columns that are equated with each other, directly or through others, form a *class*: whichever two of its
//! members two sides of a join have, equating those is enough, because within each side all members are equal
//! already. So an order may join on an equation that nobody wrote (`a.x = c.z` out of `a.x = b.y AND b.y = c.z`).

use super::estimate::Relation;
use super::search::{Class, CompositeKey, Predicate, Set, Sizes, Tree};
use crate::provider::UNKNOWN_DISTINCT;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchemaRef, DataFusionError, JoinConstraint, NullEquality, Result};
use datafusion::logical_expr::utils::{conjunction, split_binary_owned, split_conjunction_owned};
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, Filter, Join, JoinType, LogicalPlan, Operator, Projection,
};
use datafusion::optimizer::OptimizerConfig;
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// As many as a set has bits.
const RELATIONS_MAX: usize = 64;

/// Share of combinations that pass an equation between expressions of which nothing can be found out.
const EQUATION_SELECTIVITY: f64 = 0.005;

/// Share of combinations that pass any other predicate.
const PREDICATE_SELECTIVITY: f64 = 0.33;

/// A column of one of the relations.
#[derive(Clone, Debug, PartialEq)]
struct Member {
    relation: usize,
    column: Column,
}

/// Where a column is: its relation, and its place among the fields of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::query) struct Place {
    pub(in crate::query) relation: usize,
    pub(in crate::query) field: usize,
}

/// By what two sides are joined.
struct Conditions {
    /// Expressions over the left side and what they are equal to on the right one.
    on: Vec<(Expr, Expr)>,
    rest: Vec<Expr>,
}

/// What a cluster consists of.
pub(in crate::query) struct Cluster {
    relations: Vec<LogicalPlan>,
    /// Predicates over one relation each.
    filters: Vec<Vec<Expr>>,
    /// Columns that are all equal; of each relation at most one.
    classes: Vec<Vec<Member>>,
    /// Predicates over several relations.
    predicates: Vec<(Set, Expr)>,
    /// Predicates that stay above all joins: they are volatile, hold subqueries, or are over no column.
    top: Vec<Expr>,
    /// The relations of columns that were looked for: each is named many times, and to find it takes a look at each name before.
    found: RefCell<HashMap<Column, usize>>,
}

impl Cluster {
    /// The cluster at the top of this plan; `None` if there is none of at least so many relations.
    pub(in crate::query) fn of(plan: &LogicalPlan, relations_min: usize) -> Result<Option<Self>> {
        // To take it apart copies all relations and predicates.
        let count = relations_in(plan);
        if !(relations_min..=RELATIONS_MAX).contains(&count) {
            return Ok(None);
        }
        let mut parts = Parts::default();
        if !parts.take_apart(plan) {
            return Ok(None);
        }
        debug_assert_eq!(parts.relations.len(), count, "what is counted is what is taken apart");
        let mut cluster = Self {
            filters: vec![Vec::new(); parts.relations.len()],
            relations: parts.relations,
            classes: Vec::new(),
            predicates: Vec::new(),
            top: Vec::new(),
            found: RefCell::default(),
        };
        for (left, right) in parts.equations {
            cluster.add_predicate(left.eq(right))?;
        }
        for predicate in parts.predicates {
            cluster.add_predicate(predicate)?;
        }
        cluster.close_classes();
        Ok(Some(cluster))
    }

    /// The relations, whose places here are their numbers.
    pub(in crate::query) fn relations(&self) -> &[LogicalPlan] {
        &self.relations
    }

    /// The predicates over this relation alone.
    pub(in crate::query) fn filters(&self, relation: usize) -> &[Expr] {
        &self.filters[relation]
    }

    /// Whether a predicate is over this relation and others, and does more than to equate columns.
    pub(in crate::query) fn is_compared(&self, relation: usize) -> bool {
        self.predicates.iter().any(|(over, _)| over >> relation & 1 == 1)
    }

    /// Columns that are all equal in what comes out of the joins, and not NULL; of each relation at most one.
    ///
    /// # Errors
    /// If a relation has no such column.
    pub(in crate::query) fn equal_columns(&self) -> Result<Vec<Vec<Place>>> {
        let of_class = |class: &Vec<Member>| {
            let places = class.iter().map(|member| self.place_of_member(member));
            places.collect::<Result<Vec<_>>>()
        };
        self.classes.iter().map(of_class).collect()
    }

    /// The place of a column that a relation has.
    ///
    /// # Errors
    /// If none has it.
    pub(in crate::query) fn place(&self, column: &Column) -> Result<Place> {
        self.place_of_member(&self.member(column)?)
    }

    fn place_of_member(&self, member: &Member) -> Result<Place> {
        let schema = self.relations[member.relation].schema();
        Ok(Place { relation: member.relation, field: schema.index_of_column(&member.column)? })
    }

    /// The joins of these relations alone, of those of a plan that this cluster was made of. `None` if something links some of them
    /// only through others, or there are predicates that must not be moved.
    ///
    /// # Errors
    /// What DataFusion finds wrong with the joins.
    pub(in crate::query) fn joined_alone(&self, plan: &LogicalPlan, set: Set) -> Result<Option<LogicalPlan>> {
        let Some(tree) = tree_of(plan, &mut 0).within(set) else { return Ok(None) };
        if !self.top.is_empty() || !self.is_linked(&tree)? {
            return Ok(None);
        }
        self.plan_of(&tree, &mut Ok).map(Some)
    }

    /// Whether each join of a tree has an equation.
    fn is_linked(&self, tree: &Tree) -> Result<bool> {
        match tree {
            Tree::Relation(_) => Ok(true),
            Tree::Join(left, right) => Ok(!self.conditions(left, right)?.on.is_empty()
                && self.is_linked(left)?
                && self.is_linked(right)?),
        }
    }

    /// The plan whose joins are this tree, with the columns of `schema`. `of_relation` gives the plan of a
    /// relation, whose own joins may be in need of an order too.
    pub(super) fn joined(
        self,
        tree: &Tree,
        schema: &DFSchemaRef,
        of_relation: &mut dyn FnMut(LogicalPlan) -> Result<LogicalPlan>,
    ) -> Result<LogicalPlan> {
        let mut plan = self.plan_of(tree, of_relation)?;
        if plan.schema() != schema {
            plan = LogicalPlan::Projection(Projection::new_from_schema(Arc::new(plan), Arc::clone(schema)));
        }
        match conjunction(self.top) {
            Some(top) => Ok(LogicalPlan::Filter(Filter::try_new(top, Arc::new(plan))?)),
            None => Ok(plan),
        }
    }

    fn plan_of(
        &self,
        tree: &Tree,
        of_relation: &mut dyn FnMut(LogicalPlan) -> Result<LogicalPlan>,
    ) -> Result<LogicalPlan> {
        let (left, right) = match tree {
            Tree::Relation(number) => {
                let plan = of_relation(self.relations[*number].clone())?;
                return match conjunction(self.filters[*number].iter().cloned()) {
                    Some(filter) => Ok(LogicalPlan::Filter(Filter::try_new(filter, Arc::new(plan))?)),
                    None => Ok(plan),
                };
            }
            Tree::Join(left, right) => (left, right),
        };
        let Conditions { on, rest } = self.conditions(left, right)?;
        let left = self.plan_of(left, of_relation)?;
        let right = self.plan_of(right, of_relation)?;
        Ok(LogicalPlan::Join(Join::try_new(
            Arc::new(left),
            Arc::new(right),
            on,
            conjunction(rest),
            JoinType::Inner,
            JoinConstraint::On,
            NullEquality::NullEqualsNothing,
            false,
        )?))
    }

    /// The conditions of a join of these two.
    fn conditions(&self, left: &Tree, right: &Tree) -> Result<Conditions> {
        let (in_left, in_right) = (left.set(), right.set());
        let member_in = |class: &[Member], set: Set| {
            let found = class.iter().find(|member| set >> member.relation & 1 == 1);
            found.map(|member| Expr::Column(member.column.clone()))
        };
        let on =
            self.classes.iter().filter_map(|class| member_in(class, in_left).zip(member_in(class, in_right)));
        let mut on: Vec<(Expr, Expr)> = on.collect();
        let mut rest = Vec::new();
        let new_here =
            |over: Set| over & !(in_left | in_right) == 0 && over & in_left != 0 && over & in_right != 0;
        for (_, predicate) in self.predicates.iter().filter(|(over, _)| new_here(*over)) {
            match self.sides(predicate, in_left, in_right)? {
                Some(sides) => on.push(sides),
                None => rest.push(predicate.clone()),
            }
        }
        Ok(Conditions { on, rest })
    }

    /// Whether the joins of a plan, of which this cluster was made, are this tree, by the conditions that they would get.
    pub(super) fn is_joined_by(&self, tree: &Tree, plan: &LogicalPlan) -> Result<bool> {
        Ok(self.top.is_empty()
            && self.filters.iter().all(Vec::is_empty)
            && self.is_part(tree, plan, &mut 0)?)
    }

    /// The same of a part of the plan, whose relations have the numbers from `next` on.
    fn is_part(&self, tree: &Tree, plan: &LogicalPlan, next: &mut usize) -> Result<bool> {
        match (tree, plan) {
            (tree, LogicalPlan::Projection(projection)) if is_inner_join(plan) => {
                self.is_part(tree, &projection.input, next)
            }
            (Tree::Relation(number), plan) => {
                let is_next = *number == *next && !is_inner_join(plan);
                *next += 1;
                Ok(is_next)
            }
            (Tree::Join(left, right), LogicalPlan::Join(join)) if is_inner_join(plan) => Ok(self
                .has_conditions(join, left, right)?
                && self.is_part(left, &join.left, next)?
                && self.is_part(right, &join.right, next)?),
            (Tree::Join(..), _) => Ok(false),
        }
    }

    /// Whether a join has the conditions that one of these two would get, by whichever members of a class.
    fn has_conditions(&self, join: &Join, left: &Tree, right: &Tree) -> Result<bool> {
        let Conditions { on, rest } = self.conditions(left, right)?;
        let are_alike = |one: &Expr, other: &Expr| {
            one == other || self.class_of(one).is_some_and(|class| self.class_of(other) == Some(class))
        };
        let is_met = |(left, right): &(Expr, Expr)| {
            join.on.iter().any(|key| are_alike(left, &key.0) && are_alike(right, &key.1))
        };
        Ok(on.len() == join.on.len() && on.iter().all(is_met) && conjunction(rest) == join.filter)
    }

    fn class_of(&self, expression: &Expr) -> Option<usize> {
        let Expr::Column(column) = expression else { return None };
        self.classes.iter().position(|class| class.iter().any(|member| member.column == *column))
    }

    /// The two sides of an equation, if each is over one side of the join.
    fn sides(&self, predicate: &Expr, in_left: Set, in_right: Set) -> Result<Option<(Expr, Expr)>> {
        let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = predicate else {
            return Ok(None);
        };
        let (of_left, of_right) = (self.relations_of(left)?, self.relations_of(right)?);
        if of_left == 0 || of_right == 0 {
            return Ok(None);
        }
        if of_left & !in_left == 0 && of_right & !in_right == 0 {
            return Ok(Some((left.as_ref().clone(), right.as_ref().clone())));
        }
        if of_left & !in_right == 0 && of_right & !in_left == 0 {
            return Ok(Some((right.as_ref().clone(), left.as_ref().clone())));
        }
        Ok(None)
    }

    /// The relation that has this column.
    fn member(&self, column: &Column) -> Result<Member> {
        let known = self.found.borrow().get(column).copied();
        if let Some(relation) = known {
            return Ok(Member { relation, column: column.clone() });
        }
        let has = |relation: &LogicalPlan| relation.schema().has_column(column);
        match self.relations.iter().position(has) {
            Some(relation) => {
                self.found.borrow_mut().insert(column.clone(), relation);
                Ok(Member { relation, column: column.clone() })
            }
            None => datafusion::common::internal_err!("no relation of the join has column {column}"),
        }
    }

    /// The relations whose columns an expression names.
    fn relations_of(&self, expression: &Expr) -> Result<Set> {
        let columns = expression.column_refs();
        columns.into_iter().try_fold(0, |set, column| Ok(set | 1 << self.member(column)?.relation))
    }

    /// Puts two columns into one class, with all that each is equal to.
    fn equate(&mut self, left: Member, right: Member) {
        let mut class = Vec::new();
        for member in [left, right] {
            match self.classes.iter().position(|class| class.contains(&member)) {
                Some(index) => class.extend(self.classes.swap_remove(index)),
                None if class.contains(&member) => {}
                None => class.push(member),
            }
        }
        self.classes.push(class);
    }

    fn add_predicate(&mut self, predicate: Expr) -> Result<()> {
        if let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = &predicate
            && let (Expr::Column(a), Expr::Column(b)) = (left.as_ref(), right.as_ref())
        {
            let (a, b) = (self.member(a)?, self.member(b)?);
            let ty = |side: &Expr, member: &Member| side.get_type(self.relations[member.relation].schema());
            if a.relation != b.relation && ty(left, &a)? == ty(right, &b)? {
                self.equate(a, b);
                return Ok(());
            }
        }
        if stays_above(&predicate) {
            self.top.push(predicate);
            return Ok(());
        }
        let over = self.relations_of(&predicate)?;
        match over.count_ones() {
            0 => self.top.push(predicate),
            1 => self.filters[over.trailing_zeros() as usize].push(predicate),
            _ => self.predicates.push((over, predicate)),
        }
        Ok(())
    }

    /// What an OR over several relations says of one alone: `(a.x = 1 AND b.y = 2) OR (a.x = 3 AND b.y = 4)` says
    /// `a.x = 1 OR a.x = 3`. `None` if some branch says nothing.
    fn implied(&self, predicate: &Expr, relation: usize) -> Result<Option<Expr>> {
        if !matches!(predicate, Expr::BinaryExpr(BinaryExpr { op: Operator::Or, .. })) {
            return Ok(None);
        }
        let mut said: Option<Expr> = None;
        for branch in split_binary_owned(predicate.clone(), Operator::Or) {
            let mut own = Vec::new();
            for part in split_conjunction_owned(branch) {
                if self.relations_of(&part)? == 1 << relation {
                    own.push(part);
                }
            }
            let Some(own) = conjunction(own) else { return Ok(None) };
            said = Some(match said {
                Some(said) => said.or(own),
                None => own,
            });
        }
        Ok(said)
    }

    /// Leaves one member of each relation in a class; that the others equal it becomes a filter of the relation.
    fn close_classes(&mut self) {
        for class in &mut self.classes {
            let mut kept: Vec<Member> = Vec::with_capacity(class.len());
            for member in class.drain(..) {
                match kept.iter().find(|other| other.relation == member.relation) {
                    Some(other) => {
                        let equal = Expr::Column(other.column.clone()).eq(Expr::Column(member.column));
                        self.filters[member.relation].push(equal);
                    }
                    None => kept.push(member),
                }
            }
            *class = kept;
        }
    }

    /// What the search for an order needs: an estimate of each relation, and of each column by which some are joined.
    ///
    /// # Errors
    /// If a relation has no such column.
    pub(in crate::query) fn sizes(&self, config: &dyn OptimizerConfig) -> Result<Sizes> {
        let mut relations = Vec::with_capacity(self.relations.len());
        for (number, (plan, filters)) in self.relations.iter().zip(&self.filters).enumerate() {
            let mut filters = filters.clone();
            for (over, predicate) in &self.predicates {
                if over >> number & 1 == 1 {
                    filters.extend(self.implied(predicate, number)?);
                }
            }
            relations.push(Relation::of(plan, &filters, config));
        }
        let distinct = |member: &Member| {
            let relation = &relations[member.relation];
            let found = relation.distinct(&member.column, &self.relations[member.relation], config)?;
            Ok::<_, DataFusionError>(found.unwrap_or(relation.rows.min(UNKNOWN_DISTINCT as f64)))
        };
        let mut classes = Vec::with_capacity(self.classes.len());
        for class in &self.classes {
            let of_members = class.iter().map(|member| Ok((member.relation, distinct(member)?)));
            classes.push(Class(of_members.collect::<Result<_>>()?));
        }
        let keys = self.composite_keys(&relations, &classes)?;
        let mut predicates = Vec::with_capacity(self.predicates.len());
        for (over, predicate) in &self.predicates {
            let (share, is_equation) = match predicate {
                Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => {
                    (self.equation_share([left, right], &relations, config)?, true)
                }
                _ => (PREDICATE_SELECTIVITY, false),
            };
            predicates.push(Predicate { over: *over, share, is_equation });
        }
        let rows = relations.iter().map(|relation| relation.rows).collect();
        Ok(Sizes { rows, classes, keys, predicates })
    }

    /// Keys of several columns, all of them equated with others.
    fn composite_keys(&self, relations: &[Relation], classes: &[Class]) -> Result<Vec<CompositeKey>> {
        let mut keys = Vec::new();
        for (number, relation) in relations.iter().enumerate() {
            let mut fields = Vec::new();
            let mut of_classes = Vec::new();
            for (index, class) in self.classes.iter().enumerate() {
                if let Some(member) = class.iter().find(|member| member.relation == number) {
                    fields.push(self.relations[number].schema().index_of_column(&member.column)?);
                    of_classes.push(index);
                }
            }
            if fields.len() > 1
                && relation.is_key(&fields)
                && !fields.iter().any(|&one| relation.is_key(&[one]))
            {
                let distinct = of_classes.iter().map(|&class| classes[class].distinct(number));
                let excess = (distinct.product::<f64>() / relation.base_rows()).max(1.0);
                keys.push(CompositeKey { relation: number, classes: of_classes, excess });
            }
        }
        Ok(keys)
    }

    /// What share of combinations passes an equation of these two sides: each value of the side with fewer finds itself
    /// among those of the other.
    fn equation_share(
        &self,
        sides: [&Expr; 2],
        relations: &[Relation],
        config: &dyn OptimizerConfig,
    ) -> Result<f64> {
        let mut most: Option<f64> = None;
        for side in sides {
            let over = self.relations_of(side)?;
            if over.count_ones() == 1 {
                let number = over.trailing_zeros() as usize;
                let found = relations[number].distinct_results(side, &self.relations[number], config);
                most = most.into_iter().chain(found).reduce(f64::max);
            }
        }
        Ok(most.map_or(EQUATION_SELECTIVITY, |distinct| 1.0 / distinct))
    }
}

/// What taking a cluster apart gives.
#[derive(Default)]
pub(in crate::query) struct Parts {
    pub(in crate::query) relations: Vec<LogicalPlan>,
    equations: Vec<(Expr, Expr)>,
    predicates: Vec<Expr>,
}

impl Parts {
    /// The columns that joins and the filters between them name.
    pub(in crate::query) fn named(&self) -> BTreeSet<Column> {
        self.conditions().flat_map(Expr::column_refs).cloned().collect()
    }

    /// Whether joins and the filters between them may be asked of groups of rows as well as of rows: none is volatile, or names more than
    /// its columns tell.
    pub(in crate::query) fn are_of_columns(&self) -> bool {
        !self.conditions().any(stays_above)
    }

    fn conditions(&self) -> impl Iterator<Item = &Expr> {
        let sides = self.equations.iter().flat_map(|(left, right)| [left, right]);
        sides.chain(&self.predicates)
    }

    /// Adds what is in a plan; false if a join in it treats NULLs as equal.
    pub(in crate::query) fn take_apart(&mut self, plan: &LogicalPlan) -> bool {
        match plan {
            LogicalPlan::Join(join) if join.join_type == JoinType::Inner => {
                self.equations.extend(join.on.iter().cloned());
                self.predicates.extend(join.filter.clone().into_iter().flat_map(split_conjunction_owned));
                join.null_equality == NullEquality::NullEqualsNothing
                    && self.take_apart(&join.left)
                    && self.take_apart(&join.right)
            }
            LogicalPlan::Filter(filter) if is_inner_join(&filter.input) => {
                self.predicates.extend(split_conjunction_owned(filter.predicate.clone()));
                self.take_apart(&filter.input)
            }
            LogicalPlan::Projection(projection) if is_inner_join(plan) => self.take_apart(&projection.input),
            _ => {
                self.relations.push(plan.clone());
                true
            }
        }
    }
}

/// How many relations taking a plan apart gives.
fn relations_in(plan: &LogicalPlan) -> usize {
    match plan {
        LogicalPlan::Join(join) if join.join_type == JoinType::Inner => {
            relations_in(&join.left) + relations_in(&join.right)
        }
        LogicalPlan::Filter(filter) if is_inner_join(&filter.input) => relations_in(&filter.input),
        LogicalPlan::Projection(projection) if is_inner_join(plan) => relations_in(&projection.input),
        _ => 1,
    }
}

/// How the relations of a cluster are joined now, which have the numbers from `next` on, in the order in which it is taken apart.
pub(super) fn tree_of(plan: &LogicalPlan, next: &mut usize) -> Tree {
    match plan {
        LogicalPlan::Join(join) if join.join_type == JoinType::Inner => {
            let left = tree_of(&join.left, next);
            Tree::Join(Box::new(left), Box::new(tree_of(&join.right, next)))
        }
        LogicalPlan::Filter(filter) if is_inner_join(&filter.input) => tree_of(&filter.input, next),
        LogicalPlan::Projection(projection) if is_inner_join(plan) => tree_of(&projection.input, next),
        _ => {
            *next += 1;
            Tree::Relation(*next - 1)
        }
    }
}

/// Whether a plan is an inner join, of which some columns may be picked: rules put such projections between joins.
pub(in crate::query) fn is_inner_join(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Join(join) => join.join_type == JoinType::Inner,
        LogicalPlan::Projection(projection) => {
            projection.expr.iter().all(|expression| matches!(expression, Expr::Column(_)))
                && is_inner_join(&projection.input)
        }
        _ => false,
    }
}

/// Whether a predicate must not be moved, or names more than its columns tell.
fn stays_above(predicate: &Expr) -> bool {
    let mut stays = predicate.is_volatile();
    // The closure cannot fail.
    let _ = predicate.apply(|part| {
        let is_query = matches!(
            part,
            Expr::ScalarSubquery(_)
                | Expr::InSubquery(_)
                | Expr::Exists(_)
                | Expr::SetComparison(_)
                | Expr::OuterReferenceColumn(..)
        );
        stays |= is_query;
        Ok(if is_query { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    stays
}
