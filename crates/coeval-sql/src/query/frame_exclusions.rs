// SPDX-License-Identifier: Apache-2.0
//! Frames of windows that leave out rows: `EXCLUDE CURRENT ROW`, `EXCLUDE GROUP`, `EXCLUDE TIES`.
//!
//! DataFusion has none. The parser says of such a window, among what it is divided by, what its frame leaves out ([`Exclusion::mark`]). The
//! rule here takes that away and puts a window function in the place of the function, which goes over the rows of each frame but those:
//!
//! ```text
//! sum(b) OVER (PARTITION BY coeval_excludes_ties() ORDER BY a ROWS 2 PRECEDING)
//!   -> coeval_excluding(b) OVER (ORDER BY a ROWS 2 PRECEDING)
//! ```
//!
//! As in PostgreSQL, an aggregate begins anew with each row: a frame of n rows takes n steps.
//!
//! The same function goes over frames that DataFusion cannot find, [`number_ranges`](super::number_ranges). It is given the numbers behind
//! the condition of a FILTER, and all rows of the partition for a frame.

use super::number_ranges::NumberRange;
use super::rewriting::has_concern;
use crate::allowance::made;
use crate::cancel;
use crate::error::{SqlError, SqlState};
use crate::parse::Exclusion;
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::{filter, partition};
use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::function::{AccumulatorArgs, PartitionEvaluatorArgs, WindowUDFFieldArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, ColumnarValue, Expr, LogicalPlan, PartitionEvaluator, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility, WindowFrame, WindowFrameBound, WindowFrameUnits,
    WindowFunctionDefinition, WindowUDF, WindowUDFImpl,
};
use datafusion::optimizer::analyzer::AnalyzerRule;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, Literal};
use std::ops::Range;
use std::sync::Arc;

/// The name of the window function.
const EXCLUDING: &str = "coeval_excluding";

/// Memory is asked for in steps of this size.
const STEP_BYTES: usize = 64 << 10;

/// A value is there by itself, and once more in the column that is made of all.
const COPIES: usize = 2;

/// The functions that say what a frame leaves out.
pub(super) fn functions() -> [ScalarUDF; 3] {
    Exclusion::EACH.map(|exclusion| {
        ScalarUDF::new_from_impl(Mark { exclusion, signature: Signature::nullary(Volatility::Immutable) })
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Mark {
    exclusion: Exclusion,
    signature: Signature,
}

impl ScalarUDFImpl for Mark {
    fn name(&self) -> &str {
        self.exclusion.mark()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Err(SqlError::internal("what a frame leaves out is a part of it before a query runs").into())
    }
}

/// What the frame of a window leaves out, if this part of what the window is divided by says so.
fn exclusion_of(part: &Expr) -> Option<Exclusion> {
    match part {
        Expr::ScalarFunction(call) => Exclusion::of_mark(call.name()),
        _ => None,
    }
}

/// Whether the frame of a call leaves out rows because they are peers of the current one.
pub(super) fn leaves_out_peers(call: &WindowFunction) -> bool {
    let mut exclusions = call.params.partition_by.iter().filter_map(exclusion_of);
    exclusions.any(|exclusion| exclusion != Exclusion::CurrentRow)
}

/// Puts the window function in the place of functions whose frames leave out rows.
#[derive(Debug)]
pub(crate) struct FrameExclusions;

impl AnalyzerRule for FrameExclusions {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let mut has_any = false;
        plan.apply_with_subqueries(|node| {
            has_any = matches!(node, LogicalPlan::Window(_))
                && has_concern(node, |part| exclusion_of(part).is_some())?;
            Ok(if has_any { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        // Most plans have none, and need not be taken apart.
        if !has_any {
            return Ok(plan);
        }
        let put = |node: LogicalPlan| match node {
            node @ LogicalPlan::Window(_) => with_exclusions(node),
            node => Ok(Transformed::no(node)),
        };
        plan.transform_up_with_subqueries(put).data()
    }

    fn name(&self) -> &'static str {
        "coeval_frame_exclusions"
    }
}

fn with_exclusions(window: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let names = NamePreserver::new(&window);
    window.map_expressions(|expression| {
        let name = names.save(&expression);
        let done = expression.transform_up(|part| {
            let Expr::WindowFunction(call) = part else { return Ok(Transformed::no(part)) };
            match call.params.partition_by.iter().find_map(exclusion_of) {
                Some(_) => Ok(Transformed::yes(Expr::from(excluding(*call)?))),
                None => Ok(Transformed::no(Expr::WindowFunction(call))),
            }
        })?;
        Ok(if done.transformed { done.update_data(|expression| name.restore(expression)) } else { done })
    })
}

/// The call of the window function in the place of this one, whose frame leaves out rows.
///
/// # Errors
/// `0A000` for other window functions than those that look at their frame.
fn excluding(call: WindowFunction) -> Result<WindowFunction> {
    let Some(of) = Of::function(&call.fun) else {
        return Err(SqlError::unsupported(format!("EXCLUDE in the frame of {}()", call.fun.name())).into());
    };
    Ok(over_rows(call, of, None))
}

/// The call of the window function in the place of this one, whose frame has the rows whose numbers are in a range. Other window functions
/// than those that look at their frame stay as they are.
pub(super) fn ranging(call: WindowFunction, number: Expr, range: NumberRange) -> WindowFunction {
    let Some(of) = Of::function(&call.fun) else { return call };
    let mut call = over_rows(call, of, Some((number, range)));
    let unbounded = || ScalarValue::UInt64(None);
    call.params.window_frame = WindowFrame::new_bounds(
        WindowFrameUnits::Rows,
        WindowFrameBound::Preceding(unbounded()),
        WindowFrameBound::Following(unbounded()),
    );
    call
}

fn over_rows(mut call: WindowFunction, of: Of, range: Option<(Expr, NumberRange)>) -> WindowFunction {
    let exclusion = call.params.partition_by.iter().find_map(exclusion_of);
    call.params.partition_by.retain(|part| exclusion_of(part).is_none());
    let filter = call.params.filter.take();
    let has_filter = filter.is_some();
    call.params.args.extend(filter.map(|filter| *filter));
    let (number, range) = range.unzip();
    call.params.args.extend(number);
    let is_distinct = std::mem::take(&mut call.params.distinct);
    let signature = Signature::user_defined(Volatility::Immutable);
    let function = Excluding { of, exclusion, range, has_filter, is_distinct, signature };
    call.fun = WindowFunctionDefinition::WindowUDF(Arc::new(WindowUDF::new_from_impl(function)));
    call
}

/// What is made of the rows of a frame.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Of {
    Aggregate(Arc<AggregateUDF>),
    First,
    Last,
    Nth,
}

impl Of {
    /// What this function is made of; `None` if it does not look at its frame.
    fn function(function: &WindowFunctionDefinition) -> Option<Self> {
        match function {
            WindowFunctionDefinition::AggregateUDF(function) => Some(Self::Aggregate(Arc::clone(function))),
            WindowFunctionDefinition::WindowUDF(function) => match function.name() {
                "first_value" => Some(Self::First),
                "last_value" => Some(Self::Last),
                "nth_value" | "coeval_nth_value" => Some(Self::Nth),
                _ => None,
            },
        }
    }
}

/// A function of the rows of its frame but some. The condition of a FILTER and the numbers of a range are its last arguments.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Excluding {
    of: Of,
    exclusion: Option<Exclusion>,
    range: Option<NumberRange>,
    has_filter: bool,
    is_distinct: bool,
    signature: Signature,
}

impl Excluding {
    /// The arguments without the condition and the numbers.
    fn plain<'a, T>(&self, arguments: &'a [T]) -> &'a [T] {
        let others = usize::from(self.has_filter) + usize::from(self.range.is_some());
        &arguments[..arguments.len().saturating_sub(others)]
    }
}

impl WindowUDFImpl for Excluding {
    fn name(&self) -> &str {
        EXCLUDING
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// They have the types already that the function wants.
    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        Ok(types.to_vec())
    }

    fn partition_evaluator(
        &self,
        arguments: PartitionEvaluatorArgs<'_>,
    ) -> Result<Box<dyn PartitionEvaluator>> {
        let fields = self.plain(arguments.input_fields());
        let function = match &self.of {
            Of::Aggregate(function) => Function::Aggregate(Aggregate {
                is_distinct: self.is_distinct,
                ..Aggregate::new(Arc::clone(function), self.plain(arguments.input_exprs()), fields)?
            }),
            Of::First => Function::First,
            Of::Last => Function::Last,
            Of::Nth => Function::Nth,
        };
        Ok(Box::new(Rows {
            function,
            exclusion: self.exclusion,
            range: self.range.clone(),
            arguments: fields.len(),
            has_filter: self.has_filter,
            row: 0,
            groups: None,
            group: 0,
            unasked: 0,
        }))
    }

    fn field(&self, arguments: WindowUDFFieldArgs<'_>) -> Result<FieldRef> {
        let fields = self.plain(arguments.input_fields());
        let field = match (&self.of, fields.first()) {
            (Of::Aggregate(function), _) => function.return_field(fields)?.as_ref().clone(),
            (_, Some(value)) => value.as_ref().clone().with_nullable(true),
            (_, None) => return Err(SqlError::internal("a function of rows takes arguments").into()),
        };
        Ok(Arc::new(field.with_name(arguments.name())))
    }
}

/// An aggregate, with what its accumulators are made from.
#[derive(Debug)]
struct Aggregate {
    function: Arc<AggregateUDF>,
    arguments: Vec<Arc<dyn PhysicalExpr>>,
    fields: Vec<FieldRef>,
    returned: FieldRef,
    schema: Schema,
    is_distinct: bool,
}

impl Aggregate {
    /// Its arguments are computed before, and are columns; some aggregates look at their literals.
    fn new(
        function: Arc<AggregateUDF>,
        arguments: &[Arc<dyn PhysicalExpr>],
        fields: &[FieldRef],
    ) -> Result<Self> {
        let name = |place: usize| format!("{EXCLUDING} {place}");
        let argument = |(place, given): (usize, &Arc<dyn PhysicalExpr>)| -> Arc<dyn PhysicalExpr> {
            match given.downcast_ref::<Literal>() {
                Some(_) => Arc::clone(given),
                None => Arc::new(Column::new(&name(place), place)),
            }
        };
        let column = |(place, field): (usize, &FieldRef)| field.as_ref().clone().with_name(name(place));
        let schema = Schema::new(fields.iter().enumerate().map(column).collect::<Vec<Field>>());
        let returned = function.return_field(fields)?;
        let arguments = arguments.iter().enumerate().map(argument).collect();
        Ok(Self { function, arguments, fields: fields.to_vec(), returned, schema, is_distinct: false })
    }

    fn accumulator(&self) -> Result<Box<dyn Accumulator>> {
        self.function.accumulator(AccumulatorArgs {
            return_field: Arc::clone(&self.returned),
            schema: &self.schema,
            ignore_nulls: false,
            order_bys: &[],
            is_reversed: false,
            name: EXCLUDING,
            is_distinct: self.is_distinct,
            exprs: &self.arguments,
            expr_fields: &self.fields,
        })
    }
}

#[derive(Debug)]
enum Function {
    Aggregate(Aggregate),
    First,
    Last,
    Nth,
}

/// Goes over the rows of a partition, which are asked for in their order.
#[derive(Debug)]
struct Rows {
    function: Function,
    exclusion: Option<Exclusion>,
    range: Option<NumberRange>,
    /// How many there are. Behind them stand the condition, the numbers and what the window is ordered by.
    arguments: usize,
    has_filter: bool,
    /// The row that is asked for next.
    row: usize,
    /// The rows that are peers of each other, once they are known.
    groups: Option<Vec<Range<usize>>>,
    /// The place of those that the row at hand is one of.
    group: usize,
    /// Bytes of values that are not asked for yet.
    unasked: usize,
}

impl Rows {
    /// The place of the numbers, if there are any.
    fn numbers_at(&self) -> usize {
        self.arguments + usize::from(self.has_filter)
    }

    /// The frame of a row.
    fn frame(&self, values: &[ArrayRef], row: usize, given: &Range<usize>) -> Result<Range<usize>> {
        match &self.range {
            Some(range) => Ok(range.frame(values[self.numbers_at()].as_binary::<i64>(), row)?),
            None => Ok(given.clone()),
        }
    }

    /// The peers of a row, which is that of the call before or behind it.
    fn peers(&mut self, values: &[ArrayRef], row: usize) -> Result<Range<usize>> {
        let keys = values.get(self.numbers_at() + usize::from(self.range.is_some())..).unwrap_or_default();
        let groups = match &mut self.groups {
            Some(groups) => groups,
            none => none.insert(if keys.is_empty() { Vec::new() } else { partition(keys)?.ranges() }),
        };
        while groups.get(self.group).is_some_and(|group| group.end <= row) {
            self.group += 1;
        }
        // Without an order all rows are peers.
        Ok(groups.get(self.group).cloned().unwrap_or(0..usize::MAX))
    }

    /// The rows of the frame that are not left out, in their order.
    fn kept(&mut self, values: &[ArrayRef], row: usize, frame: &Range<usize>) -> Result<[Range<usize>; 3]> {
        let (left_out, within) = match self.exclusion {
            None => (usize::MAX..usize::MAX, row..row),
            Some(Exclusion::CurrentRow) => (row..row + 1, row..row),
            Some(Exclusion::Group) => (self.peers(values, row)?, row..row),
            Some(Exclusion::Ties) => (self.peers(values, row)?, row..row + 1),
        };
        let parts = [0..left_out.start, within, left_out.end..usize::MAX];
        Ok(parts.map(|part| {
            let start = part.start.max(frame.start);
            start..part.end.min(frame.end).max(start)
        }))
    }

    /// The value of the aggregate over these rows.
    fn aggregated(
        &self,
        aggregate: &Aggregate,
        values: &[ArrayRef],
        kept: &[Range<usize>; 3],
    ) -> Result<ScalarValue> {
        let mut accumulator = aggregate.accumulator()?;
        for part in kept.iter().filter(|part| !part.is_empty()) {
            let cut = |column: &ArrayRef| column.slice(part.start, part.len());
            let mut columns: Vec<ArrayRef> = values[..self.arguments].iter().map(cut).collect();
            if self.has_filter {
                let condition = cut(&values[self.arguments]);
                // A condition that is always NULL may have no type.
                let Some(condition) = condition.as_boolean_opt() else { continue };
                columns = columns
                    .iter()
                    .map(|column| filter(column.as_ref(), condition))
                    .collect::<Result<_, _>>()?;
            }
            accumulator.update_batch(&columns)?;
        }
        accumulator.evaluate()
    }
}

impl PartitionEvaluator for Rows {
    fn evaluate(&mut self, values: &[ArrayRef], frame: &Range<usize>) -> Result<ScalarValue> {
        cancel::check()?;
        let row = self.row;
        self.row += 1;
        let frame = self.frame(values, row, frame)?;
        let kept = self.kept(values, row, &frame)?;
        let rows = || kept.clone().into_iter().flatten();
        let found = match &self.function {
            Function::Aggregate(aggregate) => {
                let value = self.aggregated(aggregate, values, &kept)?;
                self.unasked += value.size() * COPIES;
                if self.unasked >= STEP_BYTES {
                    made(std::mem::take(&mut self.unasked))?;
                }
                return Ok(value);
            }
            Function::First => rows().next(),
            Function::Last => rows().next_back(),
            Function::Nth => place(&values[1], row)?.and_then(|before| rows().nth(before)),
        };
        match found {
            Some(found) => ScalarValue::try_from_array(&values[0], found),
            None => ScalarValue::try_from(values[0].data_type()),
        }
    }

    fn uses_window_frame(&self) -> bool {
        true
    }
}

/// How many rows come before the one that `nth_value` gives; `None` for one at no place.
///
/// # Errors
/// `22016` for a place before the first one.
fn place(places: &ArrayRef, row: usize) -> Result<Option<usize>> {
    let place = ScalarValue::try_from_array(places, row)?.cast_to(&DataType::Int64)?;
    let ScalarValue::Int64(Some(place)) = place else { return Ok(None) };
    if place < 1 {
        let message = "argument of nth_value must be greater than zero";
        return Err(SqlError::new(SqlState::InvalidArgumentForNthValue, message).into());
    }
    Ok(usize::try_from(place - 1).ok())
}
