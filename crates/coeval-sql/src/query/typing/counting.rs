// SPDX-License-Identifier: Apache-2.0
//! `generate_series` of constants that are whole numbers, in FROM: counted as it is read, in order. DataFusion's counts
//! in `bigint` only, and takes no casts.

use crate::error::{SqlError, SqlState};
use arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::memory::{LazyBatchGenerator, LazyMemoryExec};
use parking_lot::RwLock;
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// The name of the function that counts in `int`.
pub(crate) const INT_SERIES: &str = "coeval_int_series";

/// The name of the one that counts in `bigint`.
pub(crate) const BIGINT_SERIES: &str = "coeval_bigint_series";

/// The function in FROM: first and last member, and the step.
#[derive(Debug)]
pub(super) struct CountedSeries {
    /// What it counts in.
    pub(super) members: Members,
}

/// The type of the members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Members {
    Int,
    BigInt,
}

impl Members {
    fn arrow(self) -> DataType {
        match self {
            Self::Int => DataType::Int32,
            Self::BigInt => DataType::Int64,
        }
    }
}

impl TableFunctionImpl for CountedSeries {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let bounds = args.exprs().iter().map(whole_number).collect::<Option<Vec<_>>>();
        let (first, last, step) = match bounds.as_deref() {
            Some(&[first, last]) => (first, last, 1),
            Some(&[first, last, step]) => (first, last, step),
            _ => return Err(SqlError::internal("a series counts between constants").into()),
        };
        if step == 0 {
            return Err(SqlError::new(SqlState::InvalidParameterValue, "step size cannot equal zero").into());
        }
        let schema = Arc::new(Schema::new(vec![Field::new("value", self.members.arrow(), false)]));
        Ok(Arc::new(Series { schema, members: self.members, first, last, step }))
    }
}

/// The number that a constant is.
fn whole_number(expression: &Expr) -> Option<i64> {
    match expression {
        Expr::Literal(scalar, _) => match scalar.cast_to(&DataType::Int64) {
            Ok(ScalarValue::Int64(number)) => number,
            _ => None,
        },
        Expr::Negative(inner) => whole_number(inner).and_then(i64::checked_neg),
        Expr::Cast(cast) => whole_number(&cast.expr),
        Expr::Alias(alias) => whole_number(&alias.expr),
        _ => None,
    }
}

#[derive(Clone, Debug)]
struct Series {
    schema: SchemaRef,
    members: Members,
    first: i64,
    last: i64,
    step: i64,
}

#[async_trait]
impl TableProvider for Series {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let rows_max = state.config_options().execution.batch_size.get();
        let counter = Counter { series: self.clone(), next: Some(self.first), rows_max };
        let plan = LazyMemoryExec::try_new(self.schema(), vec![Arc::new(RwLock::new(counter))])?;
        Ok(Arc::new(plan.with_projection(projection.cloned())))
    }
}

/// Counts on.
#[derive(Debug)]
struct Counter {
    series: Series,
    /// None behind the last number that there is.
    next: Option<i64>,
    rows_max: usize,
}

impl fmt::Display for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Series { first, last, step, .. } = &self.series;
        write!(f, "generate_series: {first} to {last} by {step}")
    }
}

impl LazyBatchGenerator for Counter {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn generate_next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let Series { last, step, .. } = self.series;
        let mut members: Vec<i64> = Vec::with_capacity(self.rows_max);
        while members.len() < self.rows_max
            && let Some(next) = self.next.filter(|&next| if step > 0 { next <= last } else { next >= last })
        {
            members.push(next);
            self.next = next.checked_add(step);
        }
        if members.is_empty() {
            return Ok(None);
        }
        let column: ArrayRef = match self.series.members {
            // What lies between two of them is one, too.
            Members::Int => {
                Arc::new(Int32Array::from_iter_values(members.into_iter().map(|next| next as i32)))
            }
            Members::BigInt => Arc::new(Int64Array::from(members)),
        };
        Ok(Some(RecordBatch::try_new(Arc::clone(&self.series.schema), vec![column])?))
    }

    fn reset_state(&self) -> Arc<RwLock<dyn LazyBatchGenerator>> {
        let (series, rows_max) = (self.series.clone(), self.rows_max);
        Arc::new(RwLock::new(Self { next: Some(series.first), series, rows_max }))
    }
}
