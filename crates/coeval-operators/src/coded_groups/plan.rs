// SPDX-License-Identifier: Apache-2.0
//! What one partition does with its rows, found once for all partitions.

use super::folds::{Counting, Fold, Kind};
use super::keys::key_codes;
use super::pairs::{Pairs, SQUARES};
use super::values::Values;
use crate::narrow_decimals::wide_columns;
use crate::predicate::{Predicate, where_true};
use arrow::array::{BooleanArray, RecordBatch};
use arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::common::cast::as_boolean_array;
use datafusion::error::Result;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{CastExpr, Column, Literal};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::InputOrderMode;
use datafusion::physical_plan::PhysicalExpr;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use std::slice;
use std::sync::Arc;

/// See the module.
pub(super) struct Plan {
    pub(super) keys: Vec<Arc<dyn PhysicalExpr>>,
    pub(super) key_types: Vec<DataType>,
    /// What is folded, each value once, whatever number of calls asks for it.
    pub(super) inputs: Vec<Input>,
    pub(super) calls: Vec<Call>,
    /// Of each state that is folded.
    pub(super) kinds: Vec<Kind>,
}

/// A value of each row, and the states it goes into.
pub(super) struct Input {
    /// One, or a pair of them; none: the rows themselves are counted.
    arguments: Vec<Arc<dyn PhysicalExpr>>,
    pub(super) filter: Option<Filter>,
    pub(super) folds: Vec<Fold>,
}

/// How the state of one aggregate comes to be.
pub(super) enum Call {
    /// The number of values of an input; `None`: of rows.
    Count(Option<usize>),
    /// A fold of an input.
    Folded { input: usize, fold: Fold, ty: DataType },
    /// The number of values of an input of integers, their sum, and that of their squares.
    Spread { input: usize, sum: Fold, squares: Fold },
    /// The number of pairs of an input, and their sums.
    Pairs { input: usize, sums: Fold },
    /// The sum of an input of decimals of any length: a fold of the batches whose values have 64 bits, and by DataFusion's accumulator of
    /// the others, which knows what becomes of a sum that overflows.
    LongSum { input: usize, fold: Fold, function: Arc<AggregateFunctionExpr>, ty: DataType },
    /// By DataFusion's accumulators.
    General {
        function: Arc<AggregateFunctionExpr>,
        arguments: Vec<Arc<dyn PhysicalExpr>>,
        filter: Option<Filter>,
    },
}

/// Variances and deviations. Of integers they may be made of these parts, as the types of their states tell; other ones have other states.
const SPREADS: [&str; 4] = ["stddev", "stddev_pop", "var", "var_pop"];

/// What is made of pairs. Those of integers may be counts, sums, and sums of squares and products, as the types of their states tell.
const OF_PAIRS: [&str; 12] = [
    "corr",
    "covar_pop",
    "covar_samp",
    "regr_avgx",
    "regr_avgy",
    "regr_count",
    "regr_intercept",
    "regr_r2",
    "regr_slope",
    "regr_sxx",
    "regr_sxy",
    "regr_syy",
];

/// Whether an aggregate of this name keeps the number of values of this type, their sum, and that of their squares.
fn is_spread(function: &str, argument: &DataType, states: &[FieldRef]) -> bool {
    SPREADS.contains(&function)
        && matches!(argument, DataType::Int16 | DataType::Int32)
        && states.iter().map(|state| state.data_type()).eq([&DataType::Int64, &DataType::Int64, &SQUARES])
}

/// Whether an aggregate of this name keeps the number of pairs of these types, their sums, and those of their squares and products.
fn is_of_pairs(function: &str, y: &DataType, x: &DataType, states: &[FieldRef]) -> bool {
    let word = &DataType::Int64;
    OF_PAIRS.contains(&function)
        && [y, x].iter().all(|ty| matches!(ty, DataType::Int16 | DataType::Int32))
        && states.iter().map(|state| state.data_type()).eq([word, word, word, &SQUARES, &SQUARES, &SQUARES])
}

/// Which rows an aggregate takes.
pub(super) struct Filter {
    plain: Arc<dyn PhysicalExpr>,
    /// The same as loops compare it, if they can.
    compared: Option<Predicate>,
}

impl Filter {
    fn of(plain: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Self {
        Self { plain: Arc::clone(plain), compared: Predicate::of(plain, schema) }
    }

    /// Which of these rows pass: NULL is no.
    pub(super) fn passing(&self, batch: &RecordBatch) -> Result<BooleanArray> {
        let passing = match &self.compared {
            Some(predicate) => predicate.passing(batch, None),
            None => {
                let answers = self.plain.evaluate(batch)?.into_array(batch.num_rows())?;
                where_true(as_boolean_array(&answers)?)
            }
        };
        Ok(BooleanArray::new(passing, None))
    }
}

impl Input {
    /// Its values in these rows; `None` if the rows themselves are counted.
    pub(super) fn values(&self, batch: &RecordBatch) -> Result<Option<Values>> {
        let values = match self.arguments.as_slice() {
            [] => return Ok(None),
            [y, x] => Values::Pairs(Pairs::of(y, x, batch)?),
            [one, ..] => Values::of(one, batch)?,
        };
        Ok(Some(if self.is_of_long_sums() { values.narrowed() } else { values }))
    }

    /// Whether a [`Call::LongSum`] is made of it.
    pub(super) fn is_of_long_sums(&self) -> bool {
        self.folds.iter().any(|fold| fold.kind == Kind::NarrowSum)
    }
}

impl Plan {
    /// What is done in the place of this aggregate; `None` if it stays DataFusion's.
    pub(super) fn of(aggregate: &AggregateExec) -> Result<Option<Self>> {
        let group_by = aggregate.group_expr();
        let is_plain = *aggregate.mode() == AggregateMode::Partial
            && *aggregate.input_order_mode() == InputOrderMode::Linear
            && aggregate.limit_options().is_none()
            && group_by.is_single()
            && !group_by.is_empty();
        if !is_plain {
            return Ok(None);
        }
        let schema = aggregate.input_schema();
        let keys: Vec<_> = group_by.expr().iter().map(|(key, _)| Arc::clone(key)).collect();
        let key_types = keys.iter().map(|key| key.data_type(&schema)).collect::<Result<Vec<_>>>()?;
        if !key_types.iter().all(|ty| key_codes(ty).is_some()) {
            return Ok(None);
        }
        let mut plan = Self { keys, key_types, inputs: Vec::new(), calls: Vec::new(), kinds: Vec::new() };
        for (function, filter) in aggregate.aggr_expr().iter().zip(aggregate.filter_expr()) {
            let Some(call) = plan.call(function, filter.as_ref(), &schema)? else { return Ok(None) };
            plan.calls.push(call);
        }
        Ok(Some(plan))
    }

    /// From when on rows are counted: from the start if a number of them is asked for.
    pub(super) fn counting(&self) -> Counting {
        let asks = |call: &Call| match call {
            Call::Count(_) | Call::Spread { .. } | Call::Pairs { .. } => true,
            Call::Folded { .. } | Call::LongSum { .. } | Call::General { .. } => false,
        };
        if self.calls.iter().any(asks) { Counting::FromTheStart } else { Counting::OnceOneIsMissing }
    }

    /// The columns that it reads as they were planned, and maybe for more: what it groups by, what filters ask, and what goes to
    /// accumulators of DataFusion's. What is folded as it is, or computed by 64-bit integers, may come as such.
    pub(super) fn wide_columns(&self) -> Vec<usize> {
        let mut columns: Vec<usize> = self.keys.iter().flat_map(wide_columns).collect();
        let mut filters: Vec<&Filter> = Vec::new();
        for input in &self.inputs {
            let computed = input.arguments.iter().filter(|argument| !argument.is::<Column>());
            columns.extend(computed.flat_map(wide_columns));
            filters.extend(&input.filter);
        }
        for call in &self.calls {
            if let Call::General { arguments, filter, .. } = call {
                columns.extend(arguments.iter().flat_map(wide_columns));
                filters.extend(filter);
            }
        }
        for filter in filters {
            columns.extend(collect_columns(&filter.plain).iter().map(Column::index));
        }
        columns
    }

    fn call(
        &mut self,
        function: &Arc<AggregateFunctionExpr>,
        filter: Option<&Arc<dyn PhysicalExpr>>,
        schema: &Schema,
    ) -> Result<Option<Call>> {
        if let Some(call) = self.folded(function, filter, schema)? {
            return Ok(Some(call));
        }
        if !function.groups_accumulator_supported() {
            return Ok(None);
        }
        let mut arguments = function.expressions();
        arguments.extend(function.order_bys().iter().map(|by| Arc::clone(&by.expr)));
        let filter = filter.map(|filter| Filter::of(filter, schema));
        Ok(Some(Call::General { function: Arc::clone(function), arguments, filter }))
    }

    fn folded(
        &mut self,
        function: &Arc<AggregateFunctionExpr>,
        filter: Option<&Arc<dyn PhysicalExpr>>,
        schema: &Schema,
    ) -> Result<Option<Call>> {
        let is_plain = !function.is_distinct() && !function.ignore_nulls() && function.order_bys().is_empty();
        let (arguments, states) = (function.expressions(), function.state_fields()?);
        let name = function.fun().name();
        if let ([y, x], true) = (arguments.as_slice(), is_plain) {
            if !is_of_pairs(name, &y.data_type(schema)?, &x.data_type(schema)?, &states) {
                return Ok(None);
            }
            let input = self.input(&arguments, filter, schema);
            return Ok(Some(Call::Pairs { input, sums: self.fold(input, Kind::PairSums) }));
        }
        let ([argument], true) = (arguments.as_slice(), is_plain) else { return Ok(None) };
        if is_spread(name, &argument.data_type(schema)?, &states) {
            let input = self.input(&arguments, filter, schema);
            let (sum, squares) = (self.fold(input, Kind::Sum), self.fold(input, Kind::SquareSum));
            return Ok(Some(Call::Spread { input, sum, squares }));
        }
        let [state] = states.as_slice() else { return Ok(None) };
        if name == "count" && state.data_type() == &DataType::Int64 {
            let is_row = argument.downcast_ref::<Literal>().is_some_and(|literal| !literal.value().is_null());
            let counted: &[Arc<dyn PhysicalExpr>] = if is_row { &[] } else { &arguments };
            let counts_all = filter.is_none() && counted.is_empty();
            let input = if counts_all { None } else { Some(self.input(counted, filter, schema)) };
            return Ok(Some(Call::Count(input)));
        }
        let ty = argument.data_type(schema)?;
        let Some(kind) = Kind::of(name, &ty, state.data_type()) else {
            return Ok(None);
        };
        if kind == Kind::NarrowSum {
            if !function.groups_accumulator_supported() {
                return Ok(None);
            }
            let input = self.input(&arguments, filter, schema);
            let fold = self.fold(input, kind);
            return Ok(Some(Call::LongSum { input, fold, function: Arc::clone(function), ty }));
        }
        let argument = match kind {
            Kind::Sum | Kind::WideSum => before_widening(argument, schema)?,
            _ => argument,
        };
        let input = self.input(slice::from_ref(argument), filter, schema);
        let fold = self.fold(input, kind);
        Ok(Some(Call::Folded { input, fold, ty: state.data_type().clone() }))
    }

    /// The input of this value or pair, a new one if there is none.
    fn input(
        &mut self,
        arguments: &[Arc<dyn PhysicalExpr>],
        filter: Option<&Arc<dyn PhysicalExpr>>,
        schema: &Schema,
    ) -> usize {
        let is_known = |input: &Input| {
            input.arguments.as_slice() == arguments
                && input.filter.as_ref().map(|known| &known.plain) == filter
                && !arguments.iter().chain(filter).any(is_volatile)
        };
        if let Some(known) = self.inputs.iter().position(is_known) {
            return known;
        }
        let filter = filter.map(|filter| Filter::of(filter, schema));
        self.inputs.push(Input { arguments: arguments.to_vec(), filter, folds: Vec::new() });
        self.inputs.len() - 1
    }

    fn fold(&mut self, input: usize, kind: Kind) -> Fold {
        if let Some(known) = self.inputs[input].folds.iter().find(|fold| fold.kind == kind) {
            return known.clone();
        }
        let fold = Fold { kind, state: self.kinds.len() };
        self.kinds.push(kind);
        self.inputs[input].folds.push(fold.clone());
        fold
    }
}

/// Integers that are summed up need not be made wider first.
fn before_widening<'a>(
    argument: &'a Arc<dyn PhysicalExpr>,
    schema: &Schema,
) -> Result<&'a Arc<dyn PhysicalExpr>> {
    let Some(cast) = argument.downcast_ref::<CastExpr>() else { return Ok(argument) };
    let is_narrow = matches!(cast.expr().data_type(schema)?, DataType::Int16 | DataType::Int32);
    Ok(if is_narrow && cast.cast_type() == &DataType::Int64 { cast.expr() } else { argument })
}
