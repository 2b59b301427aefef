// SPDX-License-Identifier: Apache-2.0
//! `min` and `max` of intervals, by their length: a month is 30 days, a day 24 hours.
//!
//! Of two that are equally long the first one stays. Over a window whose first rows leave it again all rows of the
//! frame are looked at once more, as PostgreSQL does.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit};
use coeval_store::IntervalValue;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};
use std::collections::VecDeque;
use std::sync::{Arc, LazyLock};

/// Which interval is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Best {
    Longest,
    Shortest,
}

impl Best {
    /// What an aggregate finds; `None` if it is another one.
    pub(super) fn of(function: &str) -> Option<Self> {
        match function {
            "max" => Some(Self::Longest),
            "min" => Some(Self::Shortest),
            _ => None,
        }
    }

    /// The aggregate of intervals.
    pub(super) fn function(self) -> Arc<AggregateUDF> {
        static FUNCTIONS: LazyLock<[Arc<AggregateUDF>; 2]> = LazyLock::new(|| {
            [Best::Longest, Best::Shortest].map(|best| {
                let signature = Signature::any(1, Volatility::Immutable);
                Arc::new(AggregateUDF::new_from_impl(BestInterval { best, signature }))
            })
        });
        let [longest, shortest] = &*FUNCTIONS;
        Arc::clone(if self == Self::Longest { longest } else { shortest })
    }

    fn is_better(self, one: IntervalMonthDayNano, than: IntervalMonthDayNano) -> bool {
        let length = |value: IntervalMonthDayNano| {
            IntervalValue { months: value.months, days: value.days, nanoseconds: value.nanoseconds }
                .ordering()
        };
        match self {
            Self::Longest => length(one) > length(than),
            Self::Shortest => length(one) < length(than),
        }
    }

    /// The best of these, the first of several.
    fn among(self, values: impl IntoIterator<Item = IntervalMonthDayNano>) -> Option<IntervalMonthDayNano> {
        values.into_iter().reduce(|best, value| if self.is_better(value, best) { value } else { best })
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct BestInterval {
    best: Best,
    signature: Signature,
}

impl AggregateUDFImpl for BestInterval {
    fn name(&self) -> &str {
        match self.best {
            Best::Longest => "max",
            Best::Shortest => "min",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Interval(IntervalUnit::MonthDayNano))
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(BestSoFar { kind: self.best, best: None }))
    }

    fn create_sliding_accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(BestOfFrame { kind: self.best, frame: VecDeque::new() }))
    }
}

fn known(values: &ArrayRef) -> impl Iterator<Item = IntervalMonthDayNano> + '_ {
    values.as_primitive::<IntervalMonthDayNanoType>().iter().flatten()
}

#[derive(Debug)]
struct BestSoFar {
    kind: Best,
    best: Option<IntervalMonthDayNano>,
}

impl Accumulator for BestSoFar {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.best = self.kind.among(self.best.into_iter().chain(known(&values[0])));
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::IntervalMonthDayNano(self.best))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// The rows of a frame that moves.
#[derive(Debug)]
struct BestOfFrame {
    kind: Best,
    frame: VecDeque<IntervalMonthDayNano>,
}

impl Accumulator for BestOfFrame {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.frame.extend(known(&values[0]));
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.frame.drain(..(values[0].len() - values[0].null_count()).min(self.frame.len()));
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::IntervalMonthDayNano(self.kind.among(self.frame.iter().copied())))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.frame.capacity() * size_of::<IntervalMonthDayNano>()
    }
}
