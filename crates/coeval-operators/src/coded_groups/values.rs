// SPDX-License-Identifier: Apache-2.0
//! What is folded: a value of each row of a batch.

use crate::narrow_decimals::{NarrowDecimals, NarrowValues};
use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::buffer::NullBuffer;
use datafusion::error::Result;
use datafusion::physical_plan::PhysicalExpr;
use std::sync::Arc;

/// See the module.
pub(super) enum Values {
    Array(ArrayRef),
    /// Decimals of 64 bits, without their scale.
    Narrow(NarrowValues),
}

impl Values {
    /// Those of this expression. Decimals that are computed by 64-bit integers stay what they are.
    pub(super) fn of(expression: &Arc<dyn PhysicalExpr>, batch: &RecordBatch) -> Result<Self> {
        let plain = match expression.downcast_ref::<NarrowDecimals>() {
            Some(decimals) => match decimals.narrow(batch) {
                Some(narrow) => return Ok(Self::Narrow(narrow)),
                None => decimals.plain(),
            },
            None => expression,
        };
        Ok(Self::Array(plain.evaluate(batch)?.into_array(batch.num_rows())?))
    }

    /// Decimals as 64-bit integers, if all of them fit.
    pub(super) fn narrowed(self) -> Self {
        match self {
            Self::Array(array) => match NarrowValues::of(&array) {
                Some(narrow) => Self::Narrow(narrow),
                None => Self::Array(array),
            },
            narrow @ Self::Narrow(_) => narrow,
        }
    }

    pub(super) fn nulls(&self) -> Option<&NullBuffer> {
        match self {
            Self::Array(array) => array.nulls(),
            Self::Narrow(narrow) => narrow.nulls.as_ref(),
        }
    }
}
