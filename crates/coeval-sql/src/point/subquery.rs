// SPDX-License-Identifier: Apache-2.0
//! Subqueries that are answered by keys: `EXISTS (SELECT ...)` and `x IN (SELECT ...)`, and the value of `(SELECT ...)` ([`Lookup`]).
//!
//! Of a condition, either the subquery's rows are looked up for each row of the query around, until one is found ([`Exists`]). Or, of `x IN`, they come
//! first and give the keys by which `x` is looked up ([`Found`]); that is taken where both are possible and the keys are the best that the
//! table has.

use super::access::Step;
use super::aggregate::Grouping;
use super::choice::{Keyless, order};
use super::condition::{Condition, KeyUse, Sample, Test, UseKind};
use super::key::KeyPart;
use super::output::is_plain_wildcard;
use super::select_plan::{has_aggregate, is_grouped, plain_select};
use super::source::{Conjunct, Planner, Source, bits};
use super::walk::VALUES;
use crate::query::calls_volatile;
use crate::scalar::{AggregateCall, AggregateScope, Refusal, Scalar};
use coeval_store::Privilege;
use datafusion::sql::sqlparser::ast::{Expr, Query, Select, SelectItem};

/// A subquery of which it matters only whether it has rows.
#[derive(Clone, Debug)]
pub(super) struct Exists {
    pub(super) steps: Vec<Step>,
    pub(super) wanted: Wanted,
}

/// Whether a row of the query around is taken if the subquery has rows, or if it has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Rows,
    NoRows,
}

/// A subquery whose values are keys.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) steps: Vec<Step>,
    /// What is looked up, over the subquery's rows.
    pub(super) part: KeyPart,
}

/// A subquery whose value is an output.
#[derive(Clone, Debug)]
pub(super) struct Lookup {
    pub(super) steps: Vec<Step>,
    pub(super) given: Given,
}

/// What a subquery's value is computed from.
#[derive(Clone, Debug)]
pub(super) enum Given {
    /// Its only row; NULL if there is none.
    Row(Scalar),
    /// All its rows together.
    Rows(Grouping, Scalar),
}

impl Lookup {
    /// For EXPLAIN.
    pub(super) fn explain(&self) -> Vec<String> {
        explain("value", &self.steps)
    }
}

impl Exists {
    /// For EXPLAIN.
    pub(super) fn explain(&self) -> Vec<String> {
        let what = match self.wanted {
            Wanted::Rows => "exists",
            Wanted::NoRows => "not exists",
        };
        explain(what, &self.steps)
    }
}

impl Found {
    /// For EXPLAIN.
    pub(super) fn explain(&self) -> Vec<String> {
        explain("in", &self.steps)
    }
}

/// A line for each step, and those of subqueries within it behind, which are set in further.
fn explain(what: &str, steps: &[Step]) -> Vec<String> {
    let set_in = |line: String| match line.starts_with(' ') {
        true => format!("  {line}"),
        false => format!("  {what}: {line}"),
    };
    steps.iter().flat_map(Step::explain).map(set_in).collect()
}

/// A subquery over tables, with nothing but conditions.
struct Inner<'q> {
    select: &'q Select,
    source: Source,
    conditions: Vec<Condition>,
}

impl<'q> Inner<'q> {
    /// Its tables, and the conditions of their joins. What it selects comes behind them, and then its [WHERE](Self::add_where): the first
    /// place that says what a parameter is counts.
    fn compile(planner: &mut Planner<'_>, around: &Source, query: &'q Query) -> Result<Self, Refusal> {
        let select = plain_select(query)?;
        // Which of equal rows is left makes no difference here, so DISTINCT has no meaning.
        let is_plain = query.order_by.is_none()
            && query.limit_clause.is_none()
            && query.fetch.is_none()
            && query.locks.is_empty();
        if is_grouped(select) || !is_plain {
            return Err(Refusal::unsupported("a clause of this subquery"));
        }
        // One that names no row around it is to be asked once; here it is asked for each row.
        if calls_volatile(query) {
            return Err(Refusal::unsupported("a volatile subquery"));
        }
        let mut joins = Vec::new();
        let source = planner.source(&select.from, &around.scope, &mut joins, &[Privilege::Select])?;
        if source.tables.is_empty() {
            return Err(Refusal::unsupported("a subquery without FROM"));
        }
        let conditions = Condition::compile_all(planner, &source, &joins)?;
        Ok(Self { select, source, conditions })
    }

    /// Adds the conditions of its WHERE.
    fn add_where(&mut self, planner: &mut Planner<'_>) -> Result<(), Refusal> {
        let Some(selection) = &self.select.selection else { return Ok(()) };
        let conditions = Condition::compile_all(planner, &self.source, &Conjunct::of_where(selection))?;
        self.conditions.extend(conditions);
        Ok(())
    }

    /// The tables of queries around, a bit each.
    fn around(&self) -> u64 {
        bits(0, self.source.scope.first())
    }

    /// Whether an aggregate is one of a query around: whose columns it names, and none of this one.
    fn is_of_around(&self, call: &AggregateCall) -> bool {
        let inputs = call.input.iter().chain(&call.filter);
        let tables = inputs.fold(0, |tables, input| tables | input.tables());
        tables != 0 && tables & self.source.bits() == 0
    }

    /// Those that its conditions name.
    fn needs(&self) -> u64 {
        self.conditions.iter().fold(0, |needs, condition| needs | condition.tables) & self.around()
    }
}

/// The condition that a subquery has rows, or has none.
pub(super) fn exists(
    planner: &mut Planner<'_>,
    around: &Source,
    query: &Query,
    wanted: Wanted,
) -> Result<Condition, Refusal> {
    let mut inner = Inner::compile(planner, around, query)?;
    for item in &inner.select.projection {
        // Nobody looks at it, but it has to mean something.
        match item {
            SelectItem::UnnamedExpr(expression) | SelectItem::ExprWithAlias { expr: expression, .. } => {
                planner.compiler(&inner.source.scope).scalar(expression)?;
            }
            SelectItem::Wildcard(options) if is_plain_wildcard(options) => {}
            other => return Err(Refusal::unsupported(other)),
        }
    }
    inner.add_where(planner)?;
    let steps = order(&inner.source, &inner.conditions, None, Keyless::Refused)?.steps;
    let test = Test::Exists(Exists { steps, wanted });
    Ok(Condition { test, tables: inner.needs(), fills: None, uses: Vec::new() })
}

/// The condition that a value is one of those that a subquery gives.
pub(super) fn contains(
    planner: &mut Planner<'_>,
    around: &Source,
    value: &Expr,
    query: &Query,
) -> Result<Condition, Refusal> {
    let mut inner = Inner::compile(planner, around, query)?;
    let [SelectItem::UnnamedExpr(given) | SelectItem::ExprWithAlias { expr: given, .. }] =
        inner.select.projection.as_slice()
    else {
        return Err(Refusal::unsupported("the columns of this subquery"));
    };
    let given = planner.compiler(&inner.source.scope).scalar(given)?;
    inner.add_where(planner)?;
    let scalar = planner.compiler(&around.scope).scalar_like(value, given.ty())?;
    if scalar.is_volatile() {
        return Err(Refusal::unsupported("a volatile operand of IN"));
    }
    let needs = inner.needs() | (given.tables() & inner.around());
    let mut uses = Vec::new();
    if let Some((table, column)) = scalar.as_column()
        && needs & (1 << table) == 0
        && let Some(sample) = Sample::new(given.clone(), scalar.ty(), query.to_string())
        && let Ok(choice) = order(&inner.source, &inner.conditions, None, Keyless::Refused)
    {
        let found = Found { steps: choice.steps, part: sample.part() };
        uses.push(KeyUse { table, column, needs, kind: UseKind::Found(found) });
    }
    let equality = Condition::equality(planner, &inner.source, (&given, &scalar), value.to_string())?;
    inner.conditions.push(equality);
    let test = match order(&inner.source, &inner.conditions, None, Keyless::Refused) {
        Ok(choice) => Test::Exists(Exists { steps: choice.steps, wanted: Wanted::Rows }),
        Err(refusal) if uses.is_empty() => return Err(refusal),
        Err(_) => Test::ByKeys,
    };
    Ok(Condition { test, tables: needs | scalar.tables(), fills: None, uses })
}

/// The value of a subquery, by its number among those of the query around.
pub(super) fn value(
    planner: &mut Planner<'_>,
    around: &Source,
    query: &Query,
    number: usize,
) -> Result<(Lookup, Scalar), Refusal> {
    let mut inner = Inner::compile(planner, around, query)?;
    let [SelectItem::UnnamedExpr(given) | SelectItem::ExprWithAlias { expr: given, .. }] =
        inner.select.projection.as_slice()
    else {
        return Err(Refusal::unsupported("the columns of this subquery"));
    };
    // Of equal rows DISTINCT leaves one.
    if inner.select.distinct.is_some() {
        return Err(Refusal::unsupported("DISTINCT of a value"));
    }
    let is_of_rows = inner.select.projection.iter().any(has_aggregate);
    let (scalar, given) = if is_of_rows {
        let mut groups = AggregateScope::new(Vec::new());
        let scalar = planner.compiler(&inner.source.scope).over_groups(&mut groups).scalar(given)?;
        if groups.calls.iter().any(|call| inner.is_of_around(call)) {
            return Err(Refusal::unsupported("an aggregate of the query around"));
        }
        let grouping = Grouping { keys: Vec::new(), calls: groups.calls, having: None };
        (scalar.clone(), Given::Rows(grouping, scalar))
    } else {
        let scalar = planner.compiler(&inner.source.scope).scalar(given)?;
        (scalar.clone(), Given::Row(scalar))
    };
    inner.add_where(planner)?;
    let steps = order(&inner.source, &inner.conditions, None, Keyless::Refused)?.steps;
    Ok((Lookup { steps, given }, Scalar::column(VALUES, number, scalar.ty())))
}
