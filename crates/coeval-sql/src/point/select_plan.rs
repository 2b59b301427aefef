// SPDX-License-Identifier: Apache-2.0
//! SELECT by key, compiled: which rows, what is computed from them, in which order, how many.

use super::access::{NextColumn, Step};
use super::aggregate::Grouping;
use super::choice::{Keyless, WantedOrder, order};
use super::condition::Condition;
use super::output::Output;
use super::source::{Conjunct, Planner, Source};
use crate::row_locking::RowLocking;
use crate::scalar::{AggregateFunction, AggregateScope, Refusal, Scalar, Scope, folded};
use crate::walk::any_outside_queries;
use coeval_store::{ColumnType, Direction, IfLocked, Privilege};
use coeval_txn::LockStrength;
use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, Fetch, GroupByExpr, LimitClause, LockClause, ObjectNamePart, OrderByExpr, OrderByKind,
    Query, Select, SelectItem, SetExpr, Value as Literal,
};

/// A SELECT, compiled.
#[derive(Debug)]
pub(super) struct SelectPlan {
    pub(super) steps: Vec<Step>,
    pub(super) grouping: Option<Grouping>,
    pub(super) output: Output,
    /// How rows are sorted; nothing if they come in the wanted order, or none is wanted.
    pub(super) sort: Vec<SortKey>,
    pub(super) limit: Option<Scalar>,
    pub(super) offset: Option<Scalar>,
    /// The tables whose rows are locked.
    pub(super) locked: Vec<(usize, LockStrength)>,
    pub(super) if_locked: IfLocked,
    /// Whether the first row that is met decides the only aggregate.
    pub(super) first_decides: bool,
}

/// One key of a sort.
#[derive(Debug)]
pub(super) struct SortKey {
    pub(super) scalar: Scalar,
    pub(super) direction: Direction,
    pub(super) nulls: Nulls,
}

/// Where NULLs come in a sort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Nulls {
    First,
    Last,
}

impl SelectPlan {
    pub(super) fn output(&self) -> &Output {
        &self.output
    }

    /// Compiles a query.
    pub(super) fn compile(planner: &mut Planner<'_>, query: &Query) -> Result<Self, Refusal> {
        let select = plain_select(query)?;
        // Nor are they taken in the order of ORDER BY here.
        planner.refuse_numbers();
        let mut joins = Vec::new();
        // Locking rows needs UPDATE, since it keeps others from changing them.
        let needs: &[Privilege] = match query.locks.is_empty() {
            true => &[Privilege::Select],
            false => &[Privilege::Select, Privilege::Update],
        };
        let source = planner.source(&select.from, &Scope::empty(), &mut joins, needs)?;
        if source.tables.is_empty() {
            return Err(Refusal::unsupported("a SELECT without FROM"));
        }
        // The first place that says what a parameter is counts: FROM, then what is selected, then WHERE.
        let mut conditions = Condition::compile_all(planner, &source, &joins)?;
        let is_distinct = matches!(select.distinct, Some(Distinct::Distinct));
        let mut groups = match is_distinct {
            true => Some(groups_of_outputs(planner, &source, select)?),
            false => groups_of(planner, &source, select)?,
        };
        let mut lookups = Vec::new();
        let output = match &mut groups {
            Some(groups) => Output::compile(planner, &source, &select.projection, Some(groups))?,
            None => Output::with_lookups(planner, &source, &select.projection, &mut lookups)?,
        };
        if is_distinct {
            require_outputs(query, &output)?;
        }
        if let Some(selection) = &select.selection {
            conditions.extend(Condition::compile_all(planner, &source, &Conjunct::of_where(selection))?);
        }
        let having = match (&select.having, &mut groups) {
            (Some(having), Some(groups)) => {
                Some(planner.compiler(&source.scope).over_groups(groups).condition(having)?)
            }
            _ => None,
        };
        let mut sort = sort_keys(planner, &source, query, &output, groups.as_mut())?;
        let (limit, offset) = limits(planner, query)?;
        let wanted = if groups.is_none() { wanted_order(&source, &sort) } else { None };
        let keyless = if limit.is_some() && groups.is_none() { Keyless::Allowed } else { Keyless::Refused };
        let choice = order(&source, &conditions, wanted.as_ref(), keyless)?;
        if choice.ordered || (groups.as_ref().is_some_and(|groups| groups.keys().next().is_none())) {
            sort.clear();
        }
        let (locked, if_locked) = locked_tables(&source, &query.locks)?;
        if groups.is_some() && !locked.is_empty() {
            return Err(Refusal::unsupported("FOR UPDATE of groups"));
        }
        let grouping = groups.map(|groups| Grouping {
            keys: groups.keys().cloned().collect(),
            calls: groups.calls,
            having,
        });
        let mut steps = choice.steps;
        if let Some(last) = steps.last_mut() {
            last.lookups = lookups;
        }
        let first_decides = grouping.as_ref().is_some_and(|grouping| first_decides(grouping, &mut steps));
        Ok(Self { steps, grouping, output, sort, limit, offset, locked, if_locked, first_decides })
    }

    /// For EXPLAIN.
    pub(super) fn explain(&self) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        for step in &self.steps {
            let begins = lines.len();
            lines.extend(step.explain());
            lines[begins].insert_str(0, "Point path: ");
        }
        if self.first_decides {
            lines.push("  first row decides".to_owned());
        } else if let Some(grouping) = &self.grouping {
            let (keys, calls) = (grouping.keys.len(), grouping.calls.len());
            lines.push(format!("  aggregate: {calls} results by {keys} keys"));
        }
        if !self.sort.is_empty() {
            lines.push(format!("  sort: {} keys", self.sort.len()));
        }
        if self.limit.is_some() || self.offset.is_some() {
            lines.push("  limit".to_owned());
        }
        if !self.locked.is_empty() {
            lines.push("  rows are locked".to_owned());
        }
        lines
    }
}

/// The one SELECT that a query is, with nothing around it that this path does not know. It may be DISTINCT.
pub(super) fn plain_select(query: &Query) -> Result<&Select, Refusal> {
    let SetExpr::Select(select) = query.body.as_ref() else { return Err(Refusal::unsupported("this query")) };
    let plain_query = query.with.is_none()
        && query.for_clause.is_none()
        && query.settings.is_none()
        && query.format_clause.is_none()
        && query.pipe_operators.is_empty();
    let plain_select = !matches!(select.distinct, Some(Distinct::On(_)))
        && select.select_modifiers.is_none()
        && select.top.is_none()
        && select.exclude.is_none()
        && select.into.is_none()
        && select.lateral_views.is_empty()
        && select.prewhere.is_none()
        && select.connect_by.is_empty()
        && select.cluster_by.is_empty()
        && select.distribute_by.is_empty()
        && select.sort_by.is_empty()
        && select.named_window.is_empty()
        && select.qualify.is_none()
        && select.value_table_mode.is_none()
        && select.optimizer_hints.is_empty();
    if plain_query && plain_select { Ok(select) } else { Err(Refusal::unsupported("a clause of this query")) }
}

/// The group scope of a query that has groups or aggregates.
fn groups_of(
    planner: &mut Planner<'_>,
    source: &Source,
    select: &Select,
) -> Result<Option<AggregateScope>, Refusal> {
    let GroupByExpr::Expressions(expressions, modifiers) = &select.group_by else {
        return Err(Refusal::unsupported("GROUP BY ALL"));
    };
    if !modifiers.is_empty() {
        return Err(Refusal::unsupported("this GROUP BY"));
    }
    let aggregated = select.having.is_some() || select.projection.iter().any(has_aggregate);
    if expressions.is_empty() && !aggregated {
        return Ok(None);
    }
    if expressions.iter().any(|expression| matches!(expression, Expr::Value(_))) {
        return Err(Refusal::unsupported("GROUP BY a position"));
    }
    grouped_by(planner, source, expressions).map(Some)
}

/// The group scope of SELECT DISTINCT: rows with the same outputs are one.
fn groups_of_outputs(
    planner: &mut Planner<'_>,
    source: &Source,
    select: &Select,
) -> Result<AggregateScope, Refusal> {
    if is_grouped(select) || select.projection.iter().any(has_aggregate) {
        return Err(Refusal::unsupported("DISTINCT groups"));
    }
    let outputs = select.projection.iter().map(|item| match item {
        SelectItem::UnnamedExpr(expression) | SelectItem::ExprWithAlias { expr: expression, .. } => {
            Ok(expression)
        }
        other => Err(Refusal::unsupported(other)),
    });
    grouped_by(planner, source, outputs.collect::<Result<Vec<_>, _>>()?)
}

/// Whether a SELECT has GROUP BY or HAVING.
pub(super) fn is_grouped(select: &Select) -> bool {
    let groups_by_nothing = matches!(&select.group_by, GroupByExpr::Expressions(keys, modifiers)
        if keys.is_empty() && modifiers.is_empty());
    !groups_by_nothing || select.having.is_some()
}

fn grouped_by<'e>(
    planner: &mut Planner<'_>,
    source: &Source,
    expressions: impl IntoIterator<Item = &'e Expr>,
) -> Result<AggregateScope, Refusal> {
    let mut keys = Vec::new();
    for expression in expressions {
        let key = planner.compiler(&source.scope).scalar(expression)?;
        // Documents that are equal may be kept as several texts.
        if matches!(key.ty(), ColumnType::Json | ColumnType::Jsonb) {
            return Err(Refusal::unsupported("GROUP BY documents"));
        }
        keys.push((expression.clone(), key));
    }
    Ok(AggregateScope::new(keys))
}

/// Refuses a DISTINCT query that is ordered by something else than its outputs.
fn require_outputs(query: &Query, output: &Output) -> Result<(), Refusal> {
    let Some(OrderByKind::Expressions(expressions)) = query.order_by.as_ref().map(|order| &order.kind) else {
        return Ok(());
    };
    for OrderByExpr { expr, .. } in expressions {
        let is_written = output.written.iter().any(|(_, written)| written.as_ref() == Some(expr));
        if !is_written && output_column(expr, output)?.is_none() {
            return Err(Refusal::unsupported("DISTINCT that is not ordered by its outputs"));
        }
    }
    Ok(())
}

/// Whether an output calls an aggregate, those of subqueries aside.
pub(super) fn has_aggregate(item: &SelectItem) -> bool {
    let (SelectItem::UnnamedExpr(expression) | SelectItem::ExprWithAlias { expr: expression, .. }) = item
    else {
        return false;
    };
    any_outside_queries(expression, |inner| {
        matches!(inner, Expr::Function(function)
            if matches!(function.name.0.as_slice(), [ObjectNamePart::Identifier(name)]
                if matches!(folded(name).as_str(), "count" | "sum" | "min" | "max" | "avg")))
    })
}

fn sort_keys(
    planner: &mut Planner<'_>,
    source: &Source,
    query: &Query,
    output: &Output,
    mut groups: Option<&mut AggregateScope>,
) -> Result<Vec<SortKey>, Refusal> {
    let Some(order_by) = &query.order_by else { return Ok(Vec::new()) };
    let (OrderByKind::Expressions(expressions), None) = (&order_by.kind, &order_by.interpolate) else {
        return Err(Refusal::unsupported("this ORDER BY"));
    };
    let mut keys = Vec::with_capacity(expressions.len());
    for OrderByExpr { expr, options, with_fill } in expressions {
        if with_fill.is_some() {
            return Err(Refusal::unsupported("WITH FILL"));
        }
        let scalar = match output_column(expr, output)? {
            Some(place) => output.columns[place].clone(),
            None => {
                let mut compiler = planner.compiler(&source.scope);
                if let Some(groups) = groups.as_deref_mut() {
                    compiler = compiler.over_groups(groups);
                }
                compiler.scalar(expr)?
            }
        };
        if matches!(scalar.ty(), ColumnType::Json | ColumnType::Jsonb) {
            return Err(Refusal::unsupported(format!("ORDER BY {}", scalar.ty())));
        }
        let direction = if options.asc == Some(false) { Direction::Backward } else { Direction::Forward };
        let nulls = match (options.nulls_first, direction) {
            (Some(true), _) | (None, Direction::Backward) => Nulls::First,
            (Some(false), _) | (None, Direction::Forward) => Nulls::Last,
        };
        keys.push(SortKey { scalar, direction, nulls });
    }
    Ok(keys)
}

/// The result column that an ORDER BY names, by its position or its name.
fn output_column(expression: &Expr, output: &Output) -> Result<Option<usize>, Refusal> {
    match expression {
        Expr::Value(value) => match &value.value {
            Literal::Number(text, _) => {
                let place =
                    text.parse::<usize>().ok().filter(|place| (1..=output.columns.len()).contains(place));
                place
                    .map(|place| Some(place - 1))
                    .ok_or_else(|| Refusal::unsupported("this ORDER BY position"))
            }
            _ => Err(Refusal::unsupported("ORDER BY a constant")),
        },
        Expr::Identifier(ident) => Ok(output.named(&folded(ident))),
        _ => Ok(None),
    }
}

/// The order of one table's key that would save the sort.
fn wanted_order(source: &Source, sort: &[SortKey]) -> Option<WantedOrder> {
    let first = sort.first()?;
    let ((table, _), direction) = (first.scalar.as_column()?, first.direction);
    let def = source.tables.get(table)?;
    let mut columns = Vec::with_capacity(sort.len());
    for key in sort {
        let (of_table, column) = key.scalar.as_column()?;
        let nulls_as_kept = match direction {
            Direction::Forward => key.nulls == Nulls::Last,
            Direction::Backward => key.nulls == Nulls::First,
        };
        if of_table != table || key.direction != direction || !(nulls_as_kept || def.columns[column].not_null)
        {
            return None;
        }
        columns.push(column);
    }
    Some(WantedOrder { table, columns, direction })
}

fn limits(planner: &mut Planner<'_>, query: &Query) -> Result<(Option<Scalar>, Option<Scalar>), Refusal> {
    let (limit, offset) = match &query.limit_clause {
        None => (None, None),
        Some(LimitClause::LimitOffset { limit, offset, limit_by }) if limit_by.is_empty() => {
            (limit.as_ref(), offset.as_ref().map(|offset| &offset.value))
        }
        Some(_) => return Err(Refusal::unsupported("this LIMIT")),
    };
    let limit = match (&query.fetch, limit) {
        (None, limit) => limit,
        (Some(Fetch { with_ties: false, percent: false, quantity: Some(quantity) }), None) => Some(quantity),
        _ => return Err(Refusal::unsupported("this FETCH")),
    };
    let scope = Scope::empty();
    let mut compile = |expression: &Expr| {
        let scalar = planner.compiler(&scope).scalar_like(expression, ColumnType::BigInt)?;
        match scalar.ty() {
            ColumnType::SmallInt | ColumnType::Int | ColumnType::BigInt => Ok(scalar),
            other => Err(Refusal::unsupported(format!("{other} as a number of rows"))),
        }
    };
    Ok((limit.map(&mut compile).transpose()?, offset.map(&mut compile).transpose()?))
}

/// The tables whose rows are locked, each with the strongest lock that is asked for, and what to do about rows that
/// others have locked.
fn locked_tables(
    source: &Source,
    clauses: &[LockClause],
) -> Result<(Vec<(usize, LockStrength)>, IfLocked), Refusal> {
    let mut locked: Vec<(usize, LockStrength)> = Vec::new();
    let mut if_locked = None;
    for clause in clauses {
        let clause =
            RowLocking::of_clause(clause).map_err(|_| Refusal::unsupported("this locking clause"))?;
        if if_locked.is_some_and(|known| known != clause.if_locked) {
            return Err(Refusal::unsupported(
                "locking clauses that differ in what they do about locked rows",
            ));
        }
        if_locked = Some(clause.if_locked);
        let tables = match &clause.of {
            None => 0..source.tables.len(),
            Some(name) => {
                let table = source.scope.table_index(name);
                let table = table.ok_or_else(|| Refusal::unsupported(name))?;
                table..table + 1
            }
        };
        for table in tables {
            if source.filled & (1 << table) != 0 {
                return Err(Refusal::unsupported("FOR UPDATE of what an outer join fills up"));
            }
            match locked.iter_mut().find(|(known, _)| *known == table) {
                Some((_, strength)) => *strength = clause.strength.max(*strength),
                None => locked.push((table, clause.strength)),
            }
        }
    }
    locked.sort_unstable();
    Ok((locked, if_locked.unwrap_or(IfLocked::Wait)))
}

/// Whether the only result is the least or greatest value of the key column behind the fixed ones: then the
/// first row from that end decides it. Turns the walk round for the greatest.
fn first_decides(grouping: &Grouping, steps: &mut [Step]) -> bool {
    let ([step], [call], []) = (steps, grouping.calls.as_slice(), grouping.keys.as_slice()) else {
        return false;
    };
    let direction = match call.function {
        AggregateFunction::Min => Direction::Forward,
        AggregateFunction::Max => Direction::Backward,
        AggregateFunction::Count | AggregateFunction::Sum | AggregateFunction::Average => return false,
    };
    let Some((_, column)) = call.input.as_ref().and_then(Scalar::as_column) else { return false };
    let access = &mut step.access;
    let is_next = access.key_columns().get(access.equals.len()) == Some(&column);
    let listed = matches!(access.next, NextColumn::List(_) | NextColumn::Found(_));
    if is_next && !listed && call.filter.is_none() && access.table.columns[column].not_null {
        access.direction = direction;
        true
    } else {
        false
    }
}
