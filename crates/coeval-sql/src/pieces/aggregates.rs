// SPDX-License-Identifier: Apache-2.0
//! The first step of aggregates, written down and read; and of those behind an exchange among nodes the only one.

use super::codec::{Decoder, Encoder};
use arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use datafusion::logical_expr::AggregateUDF;
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, LimitOptions, PhysicalGroupBy};
use std::sync::Arc;

/// Whether an aggregate is a step that can be done in pieces: by whatever comes, in whatever order.
pub(super) fn is_plain(aggregate: &AggregateExec) -> bool {
    aggregate.group_expr().is_single()
        && aggregate.aggr_expr().iter().all(|function| function.order_bys().is_empty())
}

/// How many groups are enough, if it does not matter which. Those that are the first by an aggregate may be others on other nodes, so
/// all of them are given then.
fn groups_wanted(aggregate: &AggregateExec) -> Option<usize> {
    let limit = aggregate.limit_options().filter(|limit| limit.descending().is_none())?;
    aggregate.aggr_expr().is_empty().then_some(limit.limit())
}

impl Encoder<'_> {
    /// Writes a first step, or the only one of groups of which all rows are in one share.
    pub(super) fn aggregate(&mut self, aggregate: &AggregateExec) -> Option<()> {
        let is_whole = match aggregate.mode() {
            AggregateMode::Partial => false,
            AggregateMode::SinglePartitioned if self.is_of_share => true,
            _ => return None,
        };
        if !is_plain(aggregate) {
            return None;
        }
        self.out.byte(u8::from(is_whole));
        let groups = aggregate.group_expr().expr();
        self.out.number(groups.len());
        for (group, name) in groups {
            self.out.text(name);
            self.expression(group)?;
        }
        let wanted = groups_wanted(aggregate);
        self.out.byte(u8::from(wanted.is_some()));
        if let Some(wanted) = wanted {
            self.out.number(wanted);
        }
        let functions = aggregate.aggr_expr();
        self.out.number(functions.len());
        for (function, filter) in functions.iter().zip(aggregate.filter_expr()) {
            self.function(function)?;
            self.perhaps(filter.as_ref())?;
        }
        Some(())
    }

    fn function(&mut self, function: &AggregateFunctionExpr) -> Option<()> {
        self.known.put_aggregate(&mut self.out, function.fun())?;
        self.call(function)
    }

    /// Writes how a function of many rows is called.
    pub(super) fn call(&mut self, function: &AggregateFunctionExpr) -> Option<()> {
        self.out.text(function.name());
        for flag in [function.is_distinct(), function.ignore_nulls(), function.is_reversed()] {
            self.out.byte(u8::from(flag));
        }
        self.expressions(function.expressions().iter())
    }
}

impl Decoder<'_> {
    /// Reads a step over these rows.
    pub(super) fn aggregate(&mut self, input: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = input.schema();
        let mode = if self.flag()? { AggregateMode::SinglePartitioned } else { AggregateMode::Partial };
        let count = self.from.count()?;
        let groups = (0..count).map(|_| {
            let name = self.from.text()?.to_owned();
            Ok((self.expression(&schema)?, name))
        });
        let groups = PhysicalGroupBy::new_single(groups.collect::<Result<Vec<_>>>()?);
        let wanted = if self.flag()? { Some(self.from.number()?) } else { None };
        let count = self.from.count()?;
        let (mut functions, mut filters) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let function = self.known.take_aggregate(&mut self.from)?;
            functions.push(Arc::new(self.call(function, &schema)?));
            filters.push(self.perhaps(&schema)?);
        }
        let aggregate = AggregateExec::try_new(mode, groups, functions, filters, input, schema)?;
        Ok(Arc::new(aggregate.with_limit_options(wanted.map(LimitOptions::new))))
    }

    /// Reads how a function of many such rows is called.
    pub(super) fn call(
        &mut self,
        function: Arc<AggregateUDF>,
        schema: &SchemaRef,
    ) -> Result<AggregateFunctionExpr> {
        let name = self.from.text()?;
        let (is_distinct, ignores_nulls, is_reversed) = (self.flag()?, self.flag()?, self.flag()?);
        AggregateExprBuilder::new(function, self.expressions(schema)?)
            .schema(Arc::clone(schema))
            .alias(name)
            .with_distinct(is_distinct)
            .with_ignore_nulls(ignores_nulls)
            .with_reversed(is_reversed)
            .build()
    }
}
