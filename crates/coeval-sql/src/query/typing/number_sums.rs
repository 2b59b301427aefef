// SPDX-License-Identifier: Apache-2.0
//! Sums of `numeric` without digits, also over frames whose first values leave them again. A sum is shown with the digits of the value
//! that has most of them; it is NaN if a value is, or if there are infinities of both signs.

use crate::cancel;
use crate::types::any_numeric::{AnyNumeric, Finite};
use arrow::array::{ArrayRef, AsArray};
use coeval_store::AnyNumberRef;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::Accumulator;
use num_bigint::BigInt;
use std::collections::BTreeMap;

/// The sum so far.
#[derive(Debug, Default)]
pub(super) struct NumberSum {
    /// The sum of all finite values, with the digits behind the point that any of them has had.
    sum: BigInt,
    scale: u32,
    /// How many values there are of each number of digits behind the point.
    scales: BTreeMap<u32, u64>,
    nans: u64,
    infinities: u64,
    negative_infinities: u64,
}

/// Whether values come or go.
#[derive(Clone, Copy)]
enum Step {
    In,
    Out,
}

impl Step {
    fn count(self, count: &mut u64) {
        match self {
            Self::In => *count += 1,
            Self::Out => *count = count.saturating_sub(1),
        }
    }
}

impl NumberSum {
    /// Lets values come or go.
    ///
    /// # Errors
    /// That of a cancelled statement: a few bytes may be a number of very many digits.
    fn step(&mut self, values: &ArrayRef, step: Step) -> Result<()> {
        for bytes in values.as_binary::<i64>().iter().flatten() {
            cancel::check()?;
            match AnyNumeric::of(AnyNumberRef::new(bytes)) {
                AnyNumeric::NaN => step.count(&mut self.nans),
                AnyNumeric::Infinity => step.count(&mut self.infinities),
                AnyNumeric::NegativeInfinity => step.count(&mut self.negative_infinities),
                AnyNumeric::Finite(value) => self.add(&value, step),
            }
        }
        Ok(())
    }

    fn add(&mut self, value: &Finite, step: Step) {
        if value.scale > self.scale {
            let so_far = Finite { units: std::mem::take(&mut self.sum), scale: self.scale };
            self.sum = so_far.rounded(i64::from(value.scale)).units;
            self.scale = value.scale;
        }
        let units = value.rounded(i64::from(self.scale)).units;
        match step {
            Step::In => self.sum += units,
            Step::Out => self.sum -= units,
        }
        let count = self.scales.entry(value.scale).or_default();
        step.count(count);
        if *count == 0 {
            self.scales.remove(&value.scale);
        }
    }

    /// The sum; `None` of no values.
    fn total(&self) -> Option<AnyNumeric> {
        let total = match (self.nans, self.infinities, self.negative_infinities) {
            (0, 0, 0) => {
                let (scale, _) = self.scales.last_key_value()?;
                let exact = Finite { units: self.sum.clone(), scale: self.scale };
                AnyNumeric::Finite(exact.rounded(i64::from(*scale)))
            }
            (0, _, 0) => AnyNumeric::Infinity,
            (0, 0, _) => AnyNumeric::NegativeInfinity,
            _ => AnyNumeric::NaN,
        };
        Some(total)
    }
}

impl Accumulator for NumberSum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.step(&values[0], Step::In)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.step(&values[0], Step::Out)
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(&states[..1])
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        cancel::check()?;
        let total = self.total().map(|total| total.number()).transpose()?;
        Ok(ScalarValue::LargeBinary(total.map(|number| number.borrow().as_bytes().to_vec())))
    }

    fn size(&self) -> usize {
        // Three words and a half for each number of digits, roughly.
        size_of_val(self) + usize::try_from(self.sum.bits() / 8).unwrap_or(0) + self.scales.len() * 32
    }
}
