// SPDX-License-Identifier: Apache-2.0
//! Subqueries that run once for each row they depend on.
//!
//! # Why
//! DataFusion turns a correlated subquery into a join. It does so for aggregates, EXISTS and IN in conditions, over
//! equalities. PostgreSQL's clients send others: a scalar subquery that picks a row, EXISTS in the select list,
//! recursive subqueries that name an outer column. Over the catalog's few rows it does not matter how they run.
//!
//! # Terms
//! The *inner plan* is the subquery's; its *outer columns* are the columns of the row around it that it names.
//!
//! # Steps
//! ```text
//! SELECT a, (SELECT b FROM s WHERE s.k = t.k) FROM t
//!   -> SELECT a, coeval_apply[inner plan](t.k) FROM t
//! ```
//! The function puts a row's values in the places of the outer columns, plans and runs the inner plan, and gives
//! its only value (21000 if there are two), whether there is a row, or how a value compares with its rows. Inner
//! subqueries are replaced first, so each runs within the one around it.
//!
//! # Cost
//! Where a statement runs, most of these calls become joins ([`mod@joined`] says which). The others cost
//! planning and running the inner plan for each distinct combination of outer values in a batch: about a
//! millisecond each. What depends on nothing around it, as the rows of `l.x NOT IN (SELECT v FROM s)` in a query within that of `l`, is one
//! such combination: it is run once for each batch. The thread that asks waits; the plan runs on a thread of its own. A subquery over the
//! catalog that has no rows even without its conditions on those columns is run a few times at most ([`relaxed`]).

mod candidates;
mod copies;
mod joined;
mod not_among;
mod only_row;
mod pulled;
mod relaxed;

pub(super) use joined::joined;

use super::dependencies::{
    OuterArguments, depends_on_outer, has_correlated, names_outer, outer_arguments, subquery_of,
};
use super::ordering::with_columns_of_subqueries;
use super::origins::catalog_type;
use super::rewriting::{Below, has_concern, has_concern_anywhere, rewrite_node, rewrite_plan};
use super::subquery_environment::{StatementEnvironment, StatementTime};
use super::watched::{lifeline_of, watched};
use crate::cancel::Lifeline;
use crate::carried::Carry;
use crate::error::SqlError;
use crate::memory::bytes_of_rows;
use crate::relations::CatalogType;
use arrow::array::{Array, ArrayRef, ListArray, RecordBatch, StructArray};
use arrow::buffer::OffsetBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use candidates::Candidates;
use copies::Copies;
use datafusion::common::config::ConfigOptions;
use datafusion::common::metadata::FieldMetadata;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, DataFusionError, Result, ScalarValue};
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::context::SessionState;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::logical_expr::expr::{Exists, ScalarFunction, SetQuantifier};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::{merge_schema, split_conjunction};
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, JoinType, LogicalPlan, Operator, Projection, ReturnFieldArgs,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Subquery, TypeSignature, Volatility, lit,
};
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::SessionConfig;
use futures::StreamExt;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// So many combinations of outer values are looked at before it is asked whether there are rows for any.
const RUNS_BEFORE_RELAXED: usize = 8;

/// The function that a subquery becomes.
const NAME: &str = "coeval_apply";

/// Which correlated subqueries are run for each row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// All: the tables are small.
    AllCorrelated,
    /// Those that DataFusion does not make a join of.
    OnlyOthers,
}

/// Where an expression stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// In a condition, where DataFusion makes joins of EXISTS and IN.
    Condition,
    /// In the condition of a join, where it makes joins of none.
    Join,
    /// Anywhere else, where it makes joins of aggregates.
    Value,
}

/// What is asked of the subquery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Question {
    /// Its only value.
    Value,
    /// Whether it has rows.
    Exists,
    /// How the first argument compares with them.
    Compares(Operator, SetQuantifier),
    /// All of its rows, as an array.
    Rows,
}

/// The plan with subqueries of this extent as functions of the columns they depend on, and whether it is another one.
///
/// # Errors
/// What DataFusion finds wrong while it rebuilds the plan.
pub(super) fn applied(
    plan: LogicalPlan,
    state: &SessionState,
    extent: Extent,
) -> Result<Transformed<LogicalPlan>> {
    if !has_subqueries(&plan)? {
        return Ok(Transformed::no(plan));
    }
    let separated = plan.transform_up_with_subqueries(super::join_conditions::without_subqueries)?;
    let plan =
        separated.transform_data(|plan| plan.transform_up_with_subqueries(with_columns_of_subqueries))?;
    let is_prepared = plan.transformed;
    let mut apply = |plan: LogicalPlan, below| {
        let lateral = super::lateral::replaced(plan, state)?;
        if lateral.transformed {
            return Ok(lateral);
        }
        let plan = lateral.data;
        let place = match plan {
            LogicalPlan::Filter(_) => Place::Condition,
            LogicalPlan::Join(_) => Place::Join,
            _ => Place::Value,
        };
        let open = if place == Place::Condition { with_open_answers(&plan)? } else { Vec::new() };
        let below = if is_prepared { Below::Changed } else { below };
        rewrite_node(plan, below, is_subquery, &|expression: Expr, schema: &DFSchema| {
            let place = if open.contains(&expression) { Place::Value } else { place };
            replaced(expression, schema, state, (extent, place))
        })
    };
    rewrite_plan(plan.data, &mut apply)
}

/// Whether a plan has subqueries that run for each row.
///
/// # Errors
/// If a node cannot be looked at: a bug.
pub(super) fn runs_for_rows(plan: &LogicalPlan) -> Result<bool> {
    has_concern_anywhere(plan, |part| matches!(part, Expr::ScalarFunction(call) if call.func.name() == NAME))
}

/// Whether a plan has subqueries that may have to run for each row, in its expressions or in FROM.
fn has_subqueries(plan: &LogicalPlan) -> Result<bool> {
    plan.exists(|node| Ok(matches!(node, LogicalPlan::Subquery(_)) || has_concern(node, is_subquery)?))
}

fn is_subquery(part: &Expr) -> bool {
    subquery_of(part).is_some()
}

/// The IN of a node's conditions whose answer may be NULL so that it matters: those below anything but AND and OR,
/// such as NOT, but for a NOT IN by itself that is not correlated. The joins that DataFusion makes of them know true
/// and false alone.
fn with_open_answers(plan: &LogicalPlan) -> Result<Vec<Expr>> {
    let mut open = Vec::new();
    plan.apply_expressions(|expression| {
        for condition in split_conjunction(expression) {
            let is_join = matches!(condition, Expr::InSubquery(within)
                if within.negated && within.subquery.outer_ref_columns.is_empty());
            if !is_join {
                collect_open(condition, &mut open)?;
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(open)
}

fn collect_open(expression: &Expr, open: &mut Vec<Expr>) -> Result<()> {
    match expression {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And | Operator::Or, right }) => {
            collect_open(left, open)?;
            collect_open(right, open)
        }
        Expr::InSubquery(within) if !within.negated => Ok(()),
        other => other
            .apply(|part| {
                if matches!(part, Expr::InSubquery(_)) {
                    open.push(part.clone());
                }
                Ok(TreeNodeRecursion::Continue)
            })
            .map(|_| ()),
    }
}

fn replaced(
    expression: Expr,
    schema: &DFSchema,
    state: &SessionState,
    (extent, place): (Extent, Place),
) -> Result<Transformed<Expr>> {
    let (question, subquery, mut arguments, negated) = match &expression {
        Expr::ScalarSubquery(subquery) => (Question::Value, subquery, Vec::new(), false),
        Expr::Exists(exists) => (Question::Exists, &exists.subquery, Vec::new(), exists.negated),
        Expr::InSubquery(within) => {
            let question = Question::Compares(Operator::Eq, SetQuantifier::Any);
            (question, &within.subquery, vec![within.expr.as_ref().clone()], within.negated)
        }
        Expr::SetComparison(comparison) => {
            let question = Question::Compares(comparison.op, comparison.quantifier);
            (question, &comparison.subquery, vec![comparison.expr.as_ref().clone()], false)
        }
        _ => return Ok(Transformed::no(expression)),
    };
    let dependencies = outer_arguments(&subquery.subquery, schema)?;
    let is_correlated = dependencies.outer.iter().any(|one| matches!(one, Expr::OuterReferenceColumn(..)));
    let is_other = match question {
        Question::Value => is_correlated && (place == Place::Join || !is_aggregate(&subquery.subquery)),
        _ => place != Place::Condition || is_misjoined(&expression),
    };
    let runs_alone = extent == Extent::AllCorrelated
        || is_no_join(&subquery.subquery)?
        || (question != Question::Value && counts_rows(&subquery.subquery)?);
    // DataFusion takes what a LATERAL subquery depends on for what the subquery around it does.
    let has_lateral = subquery.subquery.exists(|node| Ok(matches!(node, LogicalPlan::Subquery(_))))?;
    if let Expr::InSubquery(within) = &expression
        && within.negated
        && place == Place::Condition
        && !(is_correlated || has_lateral)
        && let Some(counted) = not_among::counted_once(&within.expr, &within.subquery.subquery)?
    {
        return Ok(Transformed::yes(counted));
    }
    if !(is_other || has_lateral || (is_correlated && runs_alone)) {
        return match expression {
            Expr::Exists(exists) if computes_outputs(&exists.subquery.subquery) => {
                of_rows_alone(exists).map(Transformed::yes)
            }
            other => Ok(Transformed::no(other)),
        };
    }
    let (asked, OuterArguments { outer, columns }) = match question {
        Question::Exists if computes_outputs(&subquery.subquery) => {
            let rows = Arc::new(without_outputs(&subquery.subquery)?);
            let dependencies = outer_arguments(&rows, schema)?;
            (rows, dependencies)
        }
        _ => (Arc::clone(&subquery.subquery), dependencies),
    };
    arguments.extend(columns);
    let call = Apply::new(question, &asked, outer, state).call(arguments);
    Ok(Transformed::yes(if negated { Expr::Not(Box::new(call)) } else { call }))
}

/// Whether DataFusion makes no join of a comparison with the rows of a subquery, or one that has another answer:
///
/// - of `< ANY` and its like with a value of a query further out: it compares within an EXISTS of its own, from where that value is one query
///   too far away;
/// - of NOT IN whose value is not made of columns of the row, as of one of a query further out: a join without a key of the row does not know
///   that a NULL leaves the answer open. Where the value is the same for all rows, [it is looked for once](not_among).
fn is_misjoined(expression: &Expr) -> bool {
    match expression {
        Expr::SetComparison(comparison) => comparison.expr.contains_outer(),
        Expr::InSubquery(within) => within.negated && !is_of_row(&within.expr),
        _ => false,
    }
}

/// Whether a value is made of columns of the row, and of nothing from other queries.
fn is_of_row(value: &Expr) -> bool {
    let has_subquery = || value.exists(|part| Ok(is_subquery(part))).unwrap_or(true);
    !value.column_refs().is_empty() && !value.contains_outer() && !has_subquery()
}

/// Whether what is selected in a subquery is more than columns and constants, or more is done with its rows than to find them.
fn computes_outputs(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(selected) => {
            let rows = selected.input.as_ref();
            !selected.expr.iter().all(is_given) || !std::ptr::eq(joined::rows_of_exists(rows), rows)
        }
        _ => true,
    }
}

/// Whether an output is a column or a constant, under whatever name.
fn is_given(output: &Expr) -> bool {
    match output {
        Expr::Alias(alias) => is_given(&alias.expr),
        other => matches!(other, Expr::Column(_) | Expr::OuterReferenceColumn(..) | Expr::Literal(..)),
    }
}

/// The rows of a subquery of which it is only asked whether there are any. What is selected of them is not computed, and so cannot fail.
fn without_outputs(plan: &LogicalPlan) -> Result<LogicalPlan> {
    let rows = Arc::new(joined::rows_of_exists(plan).clone());
    Ok(LogicalPlan::Projection(Projection::try_new(vec![lit(true)], rows)?))
}

/// EXISTS of which DataFusion makes a join. That would compute what is made distinct, and beside OR what is selected.
fn of_rows_alone(exists: Exists) -> Result<Expr> {
    let rows = without_outputs(&exists.subquery.subquery)?;
    let outer_ref_columns = rows.all_out_ref_exprs();
    let subquery = Subquery { subquery: Arc::new(rows), outer_ref_columns, spans: exists.subquery.spans };
    Ok(Expr::Exists(Exists::new(subquery, exists.negated)))
}

/// Whether DataFusion makes no join of a correlated subquery: one that makes rows of arrays, that has subqueries
/// which depend on the same, or that names what it depends on at the side of a join that is filled up or inside of
/// another query in its FROM.
///
/// # Errors
/// If the plan cannot be walked: a bug.
pub(super) fn is_no_join(plan: &LogicalPlan) -> Result<bool> {
    plan.exists(|node| {
        let is_beyond = match node {
            LogicalPlan::Unnest(_) => true,
            LogicalPlan::SubqueryAlias(inner) => depends_on_outer(&inner.input)?,
            LogicalPlan::Join(join) => match join.join_type {
                JoinType::Inner => false,
                JoinType::Left => names_outer(node)? || depends_on_outer(&join.right)?,
                JoinType::Right => names_outer(node)? || depends_on_outer(&join.left)?,
                _ => names_outer(node)? || depends_on_outer(&join.left)? || depends_on_outer(&join.right)?,
            },
            _ => false,
        };
        Ok(is_beyond || applies_to_outer(node)? || is_deep(node)?)
    })
}

/// Whether how many rows there are for a row around a subquery decides what rows it has: an aggregate of all of them has one of none, and
/// OFFSET leaves some out. Of the joins that DataFusion makes of conditions both are left out.
fn counts_rows(plan: &LogicalPlan) -> Result<bool> {
    let is_set = |group: &Expr| matches!(group, Expr::GroupingSet(_));
    plan.exists(|node| match node {
        LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.iter().all(is_set) => {
            depends_on_outer(&aggregate.input)
        }
        LogicalPlan::Limit(limit) if pulled::counts_of(limit).is_none_or(|(skipped, _)| skipped > 0) => {
            depends_on_outer(&limit.input)
        }
        _ => Ok(false),
    })
}

/// Whether a subquery of a node depends on a query further out than the one it stands in.
fn is_deep(node: &LogicalPlan) -> Result<bool> {
    let schema = merge_schema(&node.inputs());
    let mut found = false;
    node.apply_expressions(|expression| {
        found |= expression.exists(|part| {
            let Some(subquery) = subquery_of(part) else { return Ok(false) };
            Ok(outer_arguments(subquery, &schema)?.columns.iter().any(Expr::contains_outer))
        })?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

/// Whether a subquery of a node runs for each row, with columns of a query further out.
fn applies_to_outer(node: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    node.apply_expressions(|expression| {
        found |= expression.exists(|part| {
            Ok(match part {
                Expr::ScalarFunction(call) => {
                    call.func.name() == NAME && call.args.iter().any(Expr::contains_outer)
                }
                _ => false,
            })
        })?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

/// Whether a subquery has one row because it is an aggregate of all of its rows.
fn is_aggregate(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => is_aggregate(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => is_aggregate(&alias.input),
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        _ => false,
    }
}

/// A subquery as a function of its outer columns.
pub(super) struct Apply {
    question: Question,
    plan: Arc<LogicalPlan>,
    /// Outer columns and parameters.
    outer: Vec<Expr>,
    state: SessionState,
    signature: Signature,
}

impl std::fmt::Debug for Apply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Apply").field("question", &self.question).finish_non_exhaustive()
    }
}

impl PartialEq for Apply {
    fn eq(&self, other: &Self) -> bool {
        self.question == other.question && Arc::ptr_eq(&self.plan, &other.plan)
    }
}

impl Eq for Apply {}

impl Hash for Apply {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.question.hash(state);
        Arc::as_ptr(&self.plan).hash(state);
    }
}

impl ScalarUDFImpl for Apply {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.question {
            Question::Value => self.plan.schema().field(0).data_type().clone(),
            Question::Exists | Question::Compares(..) => DataType::Boolean,
            Question::Rows => DataType::List(Arc::new(Field::new_list_field(
                DataType::Struct(row_fields(&self.plan)),
                true,
            ))),
        })
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types: Vec<DataType> =
            arguments.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let field = Field::new(self.name(), self.return_type(&types)?, true);
        Ok(Arc::new(match self.question {
            Question::Value => {
                let field = field.with_metadata(self.plan.schema().field(0).metadata().clone());
                match catalog_type(&self.plan, 0) {
                    Some(ty) => ty.mark(field),
                    None => CatalogType::unmark(field),
                }
            }
            _ => field,
        }))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays: Vec<ArrayRef> =
            args.args.iter().map(|argument| argument.to_array(args.number_rows)).collect::<Result<_>>()?;
        let ty = args.return_type().clone();
        let options = Arc::clone(&args.config_options);
        // DataFusion's threads do not wait for each other: the inner plan has a thread and a runtime to itself. Others go on with this
        // one's place meanwhile.
        let answers = crate::hand_over::with_place_given(|| {
            std::thread::scope(|scope| {
                let thread = std::thread::Builder::new().stack_size(crate::engine::STATEMENT_STACK_BYTES);
                let running = thread.spawn_scoped(scope, || {
                    let rows = || self.rows(&arrays, args.number_rows, &ty, &options);
                    // What the inner plan holds goes there, too.
                    lifeline_of(&options).map_or_else(rows, |lifeline| lifeline.during(rows))
                })?;
                running.join().unwrap_or_else(|_| Err(SqlError::internal("a subquery has panicked").into()))
            })
        })?;
        Ok(ColumnarValue::Array(answers))
    }
}

/// The name of a field of the rows that are given as an array.
pub(super) fn field_name(place: usize) -> String {
    format!("c{place}")
}

/// The columns of a plan as fields of a row; their names may repeat there.
fn row_fields(plan: &LogicalPlan) -> Fields {
    let fields = plan.schema().fields().iter().enumerate();
    fields
        .map(|(place, field)| field.as_ref().clone().with_name(field_name(place)).with_nullable(true))
        .collect()
}

impl Apply {
    /// The subquery as a function of what it depends on.
    pub(super) fn new(
        question: Question,
        plan: &Arc<LogicalPlan>,
        outer: Vec<Expr>,
        state: &SessionState,
    ) -> Self {
        let arguments = vec![TypeSignature::VariadicAny, TypeSignature::Nullary];
        let signature = Signature::one_of(arguments, Volatility::Volatile);
        Self { question, plan: Arc::clone(plan), outer, state: state.clone(), signature }
    }

    /// Its call.
    pub(super) fn call(self, arguments: Vec<Expr>) -> Expr {
        Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(ScalarUDF::from(self)), arguments))
    }

    /// All rows as one array.
    fn all_rows(&self, batches: &[RecordBatch], count: usize) -> Result<ScalarValue> {
        let fields = row_fields(&self.plan);
        let item = Arc::new(Field::new_list_field(DataType::Struct(fields.clone()), true));
        let columns = fields.iter().enumerate().map(|(place, field)| {
            let parts: Vec<ArrayRef> = batches
                .iter()
                .map(|batch| cast(batch.column(place), field.data_type()))
                .collect::<std::result::Result<_, _>>()?;
            if parts.is_empty() {
                return Ok(arrow::array::new_empty_array(field.data_type()));
            }
            let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
            Ok(arrow::compute::concat(&parts)?)
        });
        let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
        let rows = StructArray::try_new_with_length(fields, columns, None, count)?;
        let offsets = OffsetBuffer::from_lengths([count]);
        Ok(ScalarValue::List(Arc::new(ListArray::try_new(item, offsets, Arc::new(rows), None)?)))
    }

    /// The answer for each row, which are of type `ty`.
    fn rows(
        &self,
        arrays: &[ArrayRef],
        rows: usize,
        ty: &DataType,
        options: &Arc<ConfigOptions>,
    ) -> Result<ArrayRef> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let state = self.statement_state(options);
        let (compared, outer) = arrays.split_at(arrays.len() - self.outer.len());
        let mut known: HashMap<Vec<ScalarValue>, Answer> = HashMap::new();
        let kept = MemoryConsumer::new("the rows of a subquery").register(&state.runtime_env().memory_pool);
        let mut copies = Copies::none(options, &kept);
        let mut has_none = None;
        let mut results = Vec::with_capacity(rows);
        for row in 0..rows {
            lifeline_of(options).map_or(Ok(()), Lifeline::check)?;
            let scalar = |array: &ArrayRef| ScalarValue::try_from_array(array, row);
            let key: Vec<ScalarValue> = outer.iter().map(scalar).collect::<Result<_>>()?;
            let value = compared.first().map(scalar).transpose()?;
            if known.len() == RUNS_BEFORE_RELAXED && has_none.is_none() {
                // Without the conditions there may be an error that they keep away: then nothing is known.
                has_none = Some(runtime.block_on(self.has_none(&state, &kept)).unwrap_or(false));
            }
            let answer = match known.entry(key) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(place) if has_none == Some(true) => {
                    place.insert(Answer::Same(self.answer_of_none()?))
                }
                Entry::Vacant(place) => {
                    let ty = value.as_ref().map(ScalarValue::data_type);
                    let answer = runtime.block_on(self.answer(place.key(), ty, &state, &kept))?;
                    place.insert(answer)
                }
            };
            results.push(match (answer, value) {
                (Answer::Candidates(candidates), Some(value)) => candidates.compared(&value)?,
                (Answer::Candidates(_), None) => return Err(SqlError::internal("a value to compare").into()),
                (Answer::Same(result), _) => copies.of(result)?,
            });
        }
        if results.is_empty() {
            return Ok(arrow::array::new_empty_array(ty));
        }
        ScalarValue::iter_to_array(results)
    }

    /// Whether there are no rows for any outer values, as far as that is found out at little cost.
    ///
    /// # Errors
    /// What the plan without its conditions on outer values meets.
    async fn has_none(&self, state: &SessionState, kept: &MemoryReservation) -> Result<bool> {
        if !matches!(self.question, Question::Exists | Question::Value) {
            return Ok(false);
        }
        let Some(plan) = relaxed::relaxed(&self.plan)? else { return Ok(false) };
        let optimized = state.optimize(&plan)?;
        let physical = state.query_planner().create_physical_plan(&optimized, state).await?;
        let physical = watched(physical, state.config_options())?;
        let before = kept.size();
        let collected = self.collected(physical, state, kept).await;
        kept.try_resize(before)?;
        Ok(collected?.1 == 0)
    }

    /// The answer where there are no rows.
    fn answer_of_none(&self) -> Result<ScalarValue> {
        match self.question {
            Question::Exists => Ok(ScalarValue::Boolean(Some(false))),
            _ => ScalarValue::try_new_null(self.plan.schema().field(0).data_type()),
        }
    }

    /// The engine's state with the statement's options: its snapshot, its time zone, its catalog.
    fn statement_state(&self, options: &Arc<ConfigOptions>) -> SessionState {
        let mut options = ConfigOptions::clone(options);
        options.execution.target_partitions = 1;
        let started = StatementTime::carried_by(&options).and_then(|time| time.0);
        let config = SessionConfig::from(options);
        let mut builder = SessionStateBuilder::new_from_existing(self.state.clone());
        if let Some(environment) = StatementEnvironment::carried_by(config.options()) {
            builder = builder.with_runtime_env(Arc::clone(&environment.0));
        }
        let mut state = builder.with_config(config).build();
        let options = Arc::clone(state.config_options());
        let properties = state.execution_props_mut();
        properties.config_options = Some(options);
        properties.query_execution_start_time = started;
        state
    }

    /// The answer for these values of the outer columns, where values of type `compared` are compared. What it keeps is
    /// added to `kept`.
    async fn answer(
        &self,
        outer: &[ScalarValue],
        compared: Option<DataType>,
        state: &SessionState,
        kept: &MemoryReservation,
    ) -> Result<Answer> {
        let values: HashMap<&Expr, &ScalarValue> = self.outer.iter().zip(outer).collect();
        let optimized = self.optimized(with_values(self.plan.as_ref().clone(), &values)?, state)?;
        let physical = state.query_planner().create_physical_plan(&optimized, state).await?;
        let physical = watched(physical, state.config_options())?;
        let before = kept.size();
        let (batches, count) = self.collected(physical, state, kept).await?;
        let answer = Answer::Same(match self.question {
            Question::Compares(operator, quantifier) => {
                let own = self.plan.schema().field(0).data_type();
                let other = compared.unwrap_or(DataType::Null);
                let candidates = Candidates::new((operator, quantifier), &batches, own, &other, kept)?;
                return Ok(Answer::Candidates(candidates));
            }
            Question::Exists => ScalarValue::Boolean(Some(count > 0)),
            Question::Rows => self.all_rows(&batches, count)?,
            Question::Value if count > 1 => {
                return Err(too_many_rows());
            }
            Question::Value => match batches.iter().find(|batch| batch.num_rows() == 1) {
                Some(batch) => ScalarValue::try_from_array(batch.column(0), 0)?,
                None => ScalarValue::try_new_null(self.plan.schema().field(0).data_type())?,
            },
        });
        if let (Question::Exists | Question::Value, Answer::Same(value)) = (&self.question, &answer) {
            kept.try_resize(before + value.size())?;
        }
        Ok(answer)
    }

    /// The optimized plan, in which subqueries that DataFusion makes no join of run for each of its rows, as in the query around it.
    fn optimized(&self, plan: LogicalPlan, state: &SessionState) -> Result<LogicalPlan> {
        let first = state.optimize(&plan);
        let is_done = first.as_ref().is_ok_and(|optimized| !has_correlated(optimized));
        if is_done || !has_correlated(&plan) {
            return first;
        }
        state.optimize(&applied(plan, &self.state, Extent::AllCorrelated)?.data)
    }

    /// The subquery's rows, as far as the answer depends on them, and how many they are.
    async fn collected(
        &self,
        physical: Arc<dyn ExecutionPlan>,
        state: &SessionState,
        kept: &MemoryReservation,
    ) -> Result<(Vec<RecordBatch>, usize)> {
        let (copies, rows_max) = match self.question {
            Question::Exists => (1, 1),
            // A second one is an error.
            Question::Value => (1, 2),
            Question::Compares(..) => (2, usize::MAX),
            // Batches, one array of them, and that beside those of other rows.
            Question::Rows => (3, usize::MAX),
        };
        let mut stream = execute_stream(physical, state.task_ctx())?;
        let (mut batches, mut count) = (Vec::new(), 0);
        while count < rows_max
            && let Some(batch) = stream.next().await
        {
            let batch = batch?;
            kept.try_grow(bytes_of_rows(&batch)?.saturating_mul(copies))?;
            count += batch.num_rows();
            batches.push(batch);
        }
        Ok((batches, count))
    }
}

/// A subquery has more than its only row.
fn too_many_rows() -> DataFusionError {
    SqlError::several_rows().into()
}

/// What is known for a combination of outer values.
enum Answer {
    /// The same for each row.
    Same(ScalarValue),
    /// It depends on the value that is compared.
    Candidates(Candidates),
}

/// The plan with values in the places of outer columns.
fn with_values(plan: LogicalPlan, values: &HashMap<&Expr, &ScalarValue>) -> Result<LogicalPlan> {
    let put = |expression: Expr| match values.get(&expression) {
        Some(value) => {
            // What Arrow does not tell of a column's type goes with its value.
            let metadata = match &expression {
                Expr::OuterReferenceColumn(field, _) if !field.metadata().is_empty() => {
                    Some(FieldMetadata::new_from_field(field))
                }
                _ => None,
            };
            Ok(Transformed::yes(Expr::Literal((*value).clone(), metadata)))
        }
        None => Ok(Transformed::no(expression)),
    };
    let done = plan.transform_down_with_subqueries(|plan| {
        // Columns that are named for what they were keep their names.
        let names = NamePreserver::new(&plan);
        plan.map_expressions(|expression| {
            let name = names.save(&expression);
            let done = expression.transform_down(put)?;
            Ok(if done.transformed { done.update_data(|expression| name.restore(expression)) } else { done })
        })
    })?;
    Ok(done.data)
}
