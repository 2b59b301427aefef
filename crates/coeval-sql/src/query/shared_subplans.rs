// SPDX-License-Identifier: Apache-2.0
//! Finds parts of a plan that occur in it several times, and has them computed once.
//!
//! DataFusion writes each `WITH` query into all places that name it, plans each copy for itself and computes it for itself. Where the
//! copies have come out the same, the first one stays and the others read its rows ([`coeval_operators::shared_subplans`]):
//!
//! 1. From the leaves up each node gets a number, the same one as another node if it does the same with inputs of the same numbers
//!    ([`same_nodes`]). Nodes that nothing is known of, and those that call what gives something else each time, get none, nor does
//!    anything above them.
//! 2. From the root down, a node whose number was met before is a copy. What is below a copy is not looked at: it will not be there.
//! 3. From the root down once more, the first node of a number with copies gets the operator on top, and copies become readers.
//!
//! So the largest parts are shared, and smaller ones inside of them with those elsewhere.
//!
//! # What is worth it
//!
//! A scan is quicker done again than kept. What groups, computes windows or sorts is shared always: filters from above seldom go through
//! these. A join or a union is shared if it is estimated to give few rows of those that it reads. The price of sharing is that filters
//! from above end there: a join that would have told one copy which keys it looks for, and the other copy other keys, tells none of them.
//!
//! # What stays as it is
//!
//! What may be run more than once: the terms of a recursive query, and the left side of a nested loop join, which is run again when there
//! is no memory for it. Statements that take values of sequences or ask the catalog. Plans that read spread tables, parts of which go to
//! other nodes. And all statements in which a query is `NOT MATERIALIZED`, which is how PostgreSQL is told to compute it in each place.
//!
//! The rule stands before joins tell scans what they look for, so that copies are still the same.

mod same_nodes;
#[cfg(test)]
mod tests;

use crate::carried::Carry;
use crate::catalog::CatalogAccess;
use crate::plan_rule::PlanRule;
use crate::provider::{SpreadScan, is_scan, read_the_same};
use crate::sequences::SequenceAccess;
use crate::stack::with_room;
use crate::walk::any_query;
use coeval_operators::shared_subplans::SharedExec;
use datafusion::common::config::ConfigOptions;
use datafusion::common::{Result, Statistics};
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::union::{InterleaveExec, UnionExec};
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr};
use datafusion::sql::sqlparser::ast::{CteAsMaterialized, Query};
use same_nodes::{are_same, comparable_expressions, hash_of, is_known};
use std::collections::HashMap;
use std::sync::Arc;

/// By how many times a join or a union gives fewer rows than it reads, if it is shared.
const FEWER: usize = 4;

/// Leaves of a plan are compared with each other if they are no more.
const COMPARED_LEAVES_MAX: usize = 64;

/// The setting that switches the rule off. It counts as off for a statement with a query that is `NOT MATERIALIZED`.
pub(super) const SHARED_SUBPLANS_SETTING: &str = "coeval.shared_subplans";

/// Whether a query, or one within it, has a `WITH` query that is `NOT MATERIALIZED`.
pub(super) fn asks_for_copies(query: &Query) -> bool {
    any_query(query, |query| {
        let mut named = query.with.iter().flat_map(|with| &with.cte_tables);
        named.any(|named| named.materialized == Some(CteAsMaterialized::NotMaterialized))
    })
}

/// The rule.
pub(crate) const SHARED_SUBPLANS: PlanRule =
    PlanRule::new("coeval_shared_subplans", with_shared_subplans).switched_by(SHARED_SUBPLANS_SETTING);

fn with_shared_subplans(
    plan: Arc<dyn ExecutionPlan>,
    options: &ConfigOptions,
) -> Result<Arc<dyn ExecutionPlan>> {
    let is_left_alone =
        SequenceAccess::carried_by(options).is_some() || CatalogAccess::carried_by(options).is_some();
    if is_left_alone || !may_have_copies(&plan) {
        return Ok(plan);
    }
    let mut copies = Copies::default();
    let numbered = copies.numbered(&plan);
    copies.find(&numbered);
    if copies.numbers.iter().any(Number::has_copies) { copies.shared(&numbered) } else { Ok(plan) }
}

/// Whether it is worth a look: at least two nodes of a plan do more than scan, none goes to other nodes of a cluster, and something is read
/// twice.
fn may_have_copies(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let (mut working, mut leaves, mut waiting) = (0, Vec::new(), vec![plan]);
    while let Some(node) = waiting.pop() {
        if node.is::<SpreadScan>() {
            return false;
        }
        working += usize::from(groups_or_sorts(node.as_ref()) || gathers(node.as_ref()));
        let inputs = node.children();
        if inputs.is_empty() {
            leaves.push(node.as_ref());
        }
        waiting.extend(inputs);
    }
    working > 1 && are_read_twice(&leaves)
}

/// Whether two of a plan's leaves may give the same: copies have the same leaves. Of many it is not asked, as each would be compared with
/// all others.
fn are_read_twice(mut leaves: &[&dyn ExecutionPlan]) -> bool {
    if leaves.len() > COMPARED_LEAVES_MAX {
        return true;
    }
    while let &[one, ref others @ ..] = leaves {
        if others.iter().any(|&other| may_give_the_same(one, other)) {
            return true;
        }
        leaves = others;
    }
    false
}

/// Whether two leaves may give the same.
fn may_give_the_same(one: &dyn ExecutionPlan, other: &dyn ExecutionPlan) -> bool {
    if is_scan(one) { read_the_same(one, other) } else { one.name() == other.name() }
}

fn groups_or_sorts(node: &dyn ExecutionPlan) -> bool {
    node.is::<AggregateExec>()
        || node.is::<BoundedWindowAggExec>()
        || node.is::<SortExec>()
        || node.is::<WindowAggExec>()
}

/// Whether it makes rows of those of several inputs.
fn gathers(node: &dyn ExecutionPlan) -> bool {
    node.is::<CrossJoinExec>()
        || node.is::<HashJoinExec>()
        || node.is::<InterleaveExec>()
        || node.is::<NestedLoopJoinExec>()
        || node.is::<UnionExec>()
}

/// Whether a node runs this input once.
fn runs_once(node: &dyn ExecutionPlan, input: usize) -> bool {
    !(node.is::<RecursiveQueryExec>() || input == 0 && node.is::<NestedLoopJoinExec>())
}

/// Whether it groups what a second step groups once more. Rules that come later put other operators in the place of a first step, which may
/// divide their groups otherwise.
fn is_first_step(node: &dyn ExecutionPlan) -> bool {
    let aggregate = node.downcast_ref::<AggregateExec>();
    aggregate.is_some_and(|aggregate| *aggregate.mode() == AggregateMode::Partial)
}

/// Whether the rows of a plan are better kept than computed again.
fn is_worth_keeping(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let mut node = plan;
    loop {
        if groups_or_sorts(node.as_ref()) {
            return !is_first_step(node.as_ref());
        }
        if gathers(node.as_ref()) {
            return gives_few_rows(plan);
        }
        match node.children().as_slice() {
            &[input] => node = input,
            _ => return false,
        }
    }
}

/// Whether a plan is estimated to give few rows of those that its scans give it.
fn gives_few_rows(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let Some(given) = rows_of(plan) else { return false };
    let (mut read, mut waiting) = (0_usize, vec![plan]);
    while let Some(node) = waiting.pop() {
        let inputs = node.children();
        if inputs.is_empty() {
            let Some(rows) = rows_of(node) else { return false };
            read = read.saturating_add(rows);
        }
        waiting.extend(inputs);
    }
    given.saturating_mul(FEWER) <= read
}

fn statistics_of(plan: &Arc<dyn ExecutionPlan>) -> Option<Arc<Statistics>> {
    StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new()).ok()
}

fn rows_of(plan: &Arc<dyn ExecutionPlan>) -> Option<usize> {
    statistics_of(plan)?.num_rows.get_value().copied()
}

/// A node with the number that it has in common with all that give the same.
struct Numbered {
    node: Arc<dyn ExecutionPlan>,
    number: Option<usize>,
    inputs: Vec<Numbered>,
}

/// What is known of all nodes of one number.
struct Number {
    /// The first of them, the numbers of its inputs, and what it computes.
    node: Arc<dyn ExecutionPlan>,
    inputs: Vec<usize>,
    expressions: Vec<Arc<dyn PhysicalExpr>>,
    /// How many of them are not within copies of something larger.
    met: usize,
    /// Asked once there is a second one.
    is_worth_keeping: Option<bool>,
    /// Once the first of them has it.
    shared: Option<Arc<SharedExec>>,
    statistics: Option<Arc<Statistics>>,
}

impl Number {
    fn has_copies(&self) -> bool {
        self.is_worth_keeping == Some(true)
    }
}

/// The nodes of a plan by what they give.
#[derive(Default)]
struct Copies {
    numbers: Vec<Number>,
    /// Numbers of nodes that may be the same, by [`hash_of`].
    by_hash: HashMap<u64, Vec<usize>>,
    /// How many numbers are shared.
    count: usize,
}

impl Copies {
    /// The plan with numbers.
    fn numbered(&mut self, node: &Arc<dyn ExecutionPlan>) -> Numbered {
        let inputs = node.children().into_iter();
        let inputs: Vec<Numbered> = inputs.map(|input| with_room(|| self.numbered(input))).collect();
        let number = self.number_of(node, &inputs);
        Numbered { node: Arc::clone(node), number, inputs }
    }

    fn number_of(&mut self, node: &Arc<dyn ExecutionPlan>, inputs: &[Numbered]) -> Option<usize> {
        let inputs = inputs.iter().map(|input| input.number).collect::<Option<Vec<usize>>>()?;
        if !is_known(node.as_ref()) {
            return None;
        }
        let expressions = comparable_expressions(node.as_ref())?;
        let alike = self.by_hash.entry(hash_of(node.as_ref(), &inputs, &expressions)).or_default();
        let is_same = |number: &Number| {
            number.inputs == inputs
                && number.expressions == expressions
                && are_same(number.node.as_ref(), node.as_ref())
        };
        let known = alike.iter().copied().find(|known| is_same(&self.numbers[*known]));
        if known.is_some() {
            return known;
        }
        alike.push(self.numbers.len());
        self.numbers.push(Number {
            node: Arc::clone(node),
            inputs,
            expressions,
            met: 0,
            is_worth_keeping: None,
            shared: None,
            statistics: None,
        });
        Some(self.numbers.len() - 1)
    }

    /// Counts how often each number is met outside of copies.
    fn find(&mut self, part: &Numbered) {
        if let Some(number) = part.number {
            let number = &mut self.numbers[number];
            number.met += 1;
            let is_copy = number.met > 1
                && *number.is_worth_keeping.get_or_insert_with(|| is_worth_keeping(&number.node));
            if is_copy {
                return;
            }
        }
        for (place, input) in part.inputs.iter().enumerate() {
            if runs_once(part.node.as_ref(), place) {
                with_room(|| self.find(input));
            }
        }
    }

    /// The plan in which copies read what the first of their number gives.
    fn shared(&mut self, part: &Numbered) -> Result<Arc<dyn ExecutionPlan>> {
        let number = part.number.filter(|number| self.numbers[*number].has_copies());
        if let Some(copied) = number.map(|number| &self.numbers[number])
            && let (Some(shared), Some(statistics)) = (&copied.shared, &copied.statistics)
        {
            let properties = Arc::clone(part.node.properties());
            return Ok(Arc::new(shared.reader(properties, Arc::clone(statistics))));
        }
        let mut node = Arc::clone(&part.node);
        if !part.inputs.is_empty() {
            let inputs = part.inputs.iter().enumerate().map(|(place, input)| {
                match runs_once(part.node.as_ref(), place) {
                    true => with_room(|| self.shared(input)),
                    false => Ok(Arc::clone(&input.node)),
                }
            });
            node = replace_children_if_necessary(node, inputs.collect::<Result<_>>()?)?;
        }
        let Some(number) = number else { return Ok(node) };
        self.count += 1;
        let shared = Arc::new(SharedExec::new(self.count, node));
        let unknown = || Arc::new(Statistics::new_unknown(&part.node.schema()));
        self.numbers[number].statistics = Some(statistics_of(&part.node).unwrap_or_else(unknown));
        self.numbers[number].shared = Some(Arc::clone(&shared));
        Ok(shared)
    }
}
