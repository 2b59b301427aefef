// SPDX-License-Identifier: Apache-2.0
//! What is folded: a value of each row of a batch, or a pair.

use super::pairs::Pairs;
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
    Pairs(Pairs),
}

impl Values {
    /// Those of this expression. Decimals that are computed by 64-bit integers, or come so, stay what they are.
    pub(super) fn of(expression: &Arc<dyn PhysicalExpr>, batch: &RecordBatch) -> Result<Self> {
        let values = match expression.downcast_ref::<NarrowDecimals>() {
            Some(decimals) => match decimals.narrow(batch) {
                Some(narrow) => return Ok(Self::Narrow(narrow)),
                None => decimals.evaluate_plain(batch)?,
            },
            None => expression.evaluate(batch)?,
        };
        let array = values.into_array(batch.num_rows())?;
        Ok(match NarrowValues::as_they_are(&array) {
            Some(narrow) => Self::Narrow(narrow),
            None => Self::Array(array),
        })
    }

    /// Decimals as 64-bit integers, if all of them fit.
    pub(super) fn narrowed(self) -> Self {
        match self {
            Self::Array(array) => match NarrowValues::of(&array) {
                Some(narrow) => Self::Narrow(narrow),
                None => Self::Array(array),
            },
            others @ (Self::Narrow(_) | Self::Pairs(_)) => others,
        }
    }

    pub(super) fn nulls(&self) -> Option<&NullBuffer> {
        match self {
            Self::Array(array) => array.nulls(),
            Self::Narrow(narrow) => narrow.nulls.as_ref(),
            Self::Pairs(pairs) => pairs.nulls.as_ref(),
        }
    }
}
