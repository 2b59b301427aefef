// SPDX-License-Identifier: Apache-2.0
//! Windows over the rows of a share, written down and read. Each partition has all its rows in one share.
//!
//! Not written are functions with a FILTER, since DataFusion's expression does not tell it, and those that a plan has turned round to go along
//! with another order.

use super::codec::{Decoder, Encoder};
use super::wire::malformed;
use crate::query::{plain_of_unfiltered, unfiltered_of_plain};
use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::{WindowFrame, WindowFrameBound, WindowFrameUnits};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::window::{
    PlainAggregateWindowExpr, SlidingAggregateWindowExpr, StandardWindowExpr, StandardWindowFunctionExpr,
    WindowExpr,
};
use datafusion::physical_plan::windows::{
    BoundedWindowAggExec, WindowAggExec, WindowUDFExpr, create_udwf_window_expr,
};
use datafusion::physical_plan::{ExecutionPlan, InputOrderMode};
use std::sync::Arc;

const AGGREGATE: u8 = 0;
const WINDOW_ONLY: u8 = 1;

const PRECEDING: u8 = 0;
const CURRENT_ROW: u8 = 1;
const FOLLOWING: u8 = 2;

/// In the order of their numbers.
const UNITS: [WindowFrameUnits; 3] =
    [WindowFrameUnits::Rows, WindowFrameUnits::Range, WindowFrameUnits::Groups];

impl Encoder<'_> {
    /// Writes a window whose rows come partition by partition.
    pub(super) fn window(&mut self, node: &dyn ExecutionPlan) -> Option<()> {
        let bounded = node.downcast_ref::<BoundedWindowAggExec>();
        self.out.byte(u8::from(bounded.is_some()));
        let functions = match bounded {
            Some(window) => {
                if window.input_order_mode != InputOrderMode::Sorted || window.state_observer().is_some() {
                    return None;
                }
                window.window_expr()
            }
            None => node.downcast_ref::<WindowAggExec>()?.window_expr(),
        };
        self.out.number(functions.len());
        functions.iter().try_for_each(|function| self.window_function(function.as_ref()))
    }

    fn window_function(&mut self, function: &dyn WindowExpr) -> Option<()> {
        self.expressions(function.partition_by().iter())?;
        self.order(function.order_by())?;
        self.frame(function.get_window_frame())?;
        let function = function.as_any();
        if let Some(aggregate) = function.downcast_ref::<PlainAggregateWindowExpr>() {
            return self.window_aggregate(aggregate.get_aggregate_expr());
        }
        if let Some(aggregate) = function.downcast_ref::<SlidingAggregateWindowExpr>() {
            return self.window_aggregate(aggregate.get_aggregate_expr());
        }
        let function = function.downcast_ref::<StandardWindowExpr>()?.get_standard_func_expr();
        self.window_only(function.as_any().downcast_ref::<WindowUDFExpr>()?)
    }

    fn window_aggregate(&mut self, aggregate: &AggregateFunctionExpr) -> Option<()> {
        if !aggregate.order_bys().is_empty() {
            return None;
        }
        self.out.byte(AGGREGATE);
        self.known.put_aggregate(&mut self.out, plain_of_unfiltered(aggregate.fun())?)?;
        self.call(aggregate)
    }

    fn window_only(&mut self, function: &WindowUDFExpr) -> Option<()> {
        // No method tells how it treats NULLs, and whether it is turned round.
        let all = format!("{function:?}");
        let ends = ["is_reversed: false, ignore_nulls: false }", "is_reversed: false, ignore_nulls: true }"];
        let ignores_nulls = ends.iter().position(|end| all.ends_with(end))?;
        self.out.byte(WINDOW_ONLY);
        self.known.put_window(&mut self.out, function.fun())?;
        self.out.text(function.name());
        self.out.byte(u8::try_from(ignores_nulls).ok()?);
        self.expressions(function.args().iter())
    }

    fn frame(&mut self, frame: &WindowFrame) -> Option<()> {
        let (start, end) = (&frame.start_bound, &frame.end_bound);
        // What else a frame says follows from these.
        if WindowFrame::new_bounds(frame.units, start.clone(), end.clone()) != *frame {
            return None;
        }
        let units = UNITS.iter().position(|units| *units == frame.units)?;
        self.out.byte(u8::try_from(units).ok()?);
        self.bound(start)?;
        self.bound(end)
    }

    fn bound(&mut self, bound: &WindowFrameBound) -> Option<()> {
        let (kind, distance) = match bound {
            WindowFrameBound::Preceding(distance) => (PRECEDING, distance),
            WindowFrameBound::CurrentRow => {
                self.out.byte(CURRENT_ROW);
                return Some(());
            }
            WindowFrameBound::Following(distance) => (FOLLOWING, distance),
        };
        self.out.byte(kind);
        let field = Field::new("distance", distance.data_type(), true);
        self.value(Arc::new(field), distance.to_array().ok()?);
        Some(())
    }
}

impl Decoder<'_> {
    /// Reads a window over these rows.
    pub(super) fn window(&mut self, input: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let is_bounded = self.flag()?;
        let schema = input.schema();
        let count = self.from.count()?;
        if count == 0 {
            return Err(malformed("a window has no functions").into());
        }
        let functions = (0..count).map(|_| self.window_function(&schema)).collect::<Result<Vec<_>>>()?;
        if is_bounded {
            let mode = InputOrderMode::Sorted;
            Ok(Arc::new(BoundedWindowAggExec::try_new(functions, input, mode, true)?))
        } else {
            Ok(Arc::new(WindowAggExec::try_new(functions, input, true)?))
        }
    }

    fn window_function(&mut self, schema: &SchemaRef) -> Result<Arc<dyn WindowExpr>> {
        let partition = self.expressions(schema)?;
        let order = self.order(schema)?;
        let order = order.as_deref().unwrap_or_default();
        let frame = Arc::new(self.frame()?);
        match self.from.byte()? {
            AGGREGATE => {
                let function = unfiltered_of_plain(self.known.take_aggregate(&mut self.from)?);
                let aggregate = Arc::new(self.call(function, schema)?);
                if frame.is_ever_expanding() {
                    Ok(Arc::new(PlainAggregateWindowExpr::new(aggregate, &partition, order, frame, None)))
                } else {
                    Ok(Arc::new(SlidingAggregateWindowExpr::new(aggregate, &partition, order, frame, None)))
                }
            }
            WINDOW_ONLY => {
                let function = self.window_only(schema)?;
                Ok(Arc::new(StandardWindowExpr::new(function, &partition, order, frame)))
            }
            _ => Err(malformed("there is no such function of windows").into()),
        }
    }

    fn window_only(&mut self, schema: &Schema) -> Result<Arc<dyn StandardWindowFunctionExpr>> {
        let function = self.known.take_window(&mut self.from)?;
        let (name, ignores_nulls) = (self.from.text()?.to_owned(), self.flag()?);
        let arguments = self.expressions(schema)?;
        create_udwf_window_expr(&function, &arguments, schema, name, ignores_nulls)
    }

    fn frame(&mut self) -> Result<WindowFrame> {
        let units = UNITS.get(usize::from(self.from.byte()?)).copied();
        let units = units.ok_or_else(|| malformed("there are no such frames"))?;
        let (start, end) = (self.bound()?, self.bound()?);
        Ok(WindowFrame::new_bounds(units, start, end))
    }

    fn bound(&mut self) -> Result<WindowFrameBound> {
        let kind = self.from.byte()?;
        if kind == CURRENT_ROW {
            return Ok(WindowFrameBound::CurrentRow);
        }
        let distance = ScalarValue::try_from_array(&self.value()?.1, 0)?;
        match kind {
            PRECEDING => Ok(WindowFrameBound::Preceding(distance)),
            FOLLOWING => Ok(WindowFrameBound::Following(distance)),
            _ => Err(malformed("a frame has no such bound").into()),
        }
    }
}
