// SPDX-License-Identifier: Apache-2.0
//! `min` and `max` of all texts of a column.
//!
//! Arrow compares each text with the best one so far. A view of a text has its first four bytes in it, which rule out nearly all texts by
//! one comparison of numbers. Extremes of groups and of windows are DataFusion's.

use super::float_extremes::Extreme;
use crate::wrapped::as_wrapped;
use arrow::array::{Array, ArrayRef, AsArray, StringViewArray};
use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, ReversedUDAF, Signature, Volatility,
};
use std::sync::{Arc, LazyLock};

/// The aggregate of texts as views.
pub(super) fn function(extreme: Extreme) -> Arc<AggregateUDF> {
    static FUNCTIONS: LazyLock<[Arc<AggregateUDF>; 2]> = LazyLock::new(|| {
        [(Extreme::Least, min_udaf()), (Extreme::Greatest, max_udaf())].map(|(extreme, plain)| {
            let signature = Signature::any(1, Volatility::Immutable);
            Arc::new(AggregateUDF::new_from_impl(ExtremeText { extreme, plain, signature }))
        })
    });
    let [least, greatest] = &*FUNCTIONS;
    Arc::clone(if extreme == Extreme::Least { least } else { greatest })
}

/// DataFusion's function, but for how the extreme of all rows is found.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ExtremeText {
    extreme: Extreme,
    plain: Arc<AggregateUDF>,
    signature: Signature,
}

impl AggregateUDFImpl for ExtremeText {
    as_wrapped!(plain: name, return_type, is_descending, order_sensitivity);
    as_wrapped!(plain: value_from_stats, set_monotonicity);
    as_wrapped!(plain: groups_accumulator_supported, create_groups_accumulator, create_sliding_accumulator);

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        match arguments.return_field.data_type() {
            DataType::Utf8View => Ok(Box::new(ExtremeOfAll { extreme: self.extreme, found: None })),
            _ => self.plain.accumulator(arguments),
        }
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }
}

/// The extreme of all texts so far.
#[derive(Debug)]
struct ExtremeOfAll {
    extreme: Extreme,
    found: Option<String>,
}

impl ExtremeOfAll {
    fn find_in(&mut self, texts: &StringViewArray) {
        let mut best = self.found.as_deref().map(|found| (first_bytes(found.as_bytes()), found));
        let mut is_new = false;
        let mut look = |row: usize| {
            let first = first_bytes_of_view(texts.views()[row]);
            let may_be_beyond = match (best, self.extreme) {
                (None, _) => true,
                (Some((so_far, _)), Extreme::Least) => first <= so_far,
                (Some((so_far, _)), Extreme::Greatest) => first >= so_far,
            };
            if !may_be_beyond {
                return;
            }
            let text = texts.value(row);
            let is_beyond = best.is_none_or(|(_, so_far)| match self.extreme {
                Extreme::Least => text < so_far,
                Extreme::Greatest => text > so_far,
            });
            if is_beyond {
                best = Some((first, text));
                is_new = true;
            }
        };
        match texts.nulls() {
            None => (0..texts.len()).for_each(&mut look),
            Some(nulls) => nulls.valid_indices().for_each(&mut look),
        }
        if is_new {
            self.found = best.map(|(_, text)| text.to_owned());
        }
    }
}

/// The first four bytes as a number that is in the order of texts, with zeros behind a shorter one.
fn first_bytes(text: &[u8]) -> u32 {
    let mut bytes = [0; 4];
    let count = text.len().min(bytes.len());
    bytes[..count].copy_from_slice(&text[..count]);
    u32::from_be_bytes(bytes)
}

/// The same of a text's view, where they stand behind its length.
fn first_bytes_of_view(view: u128) -> u32 {
    ((view >> 32) as u32).swap_bytes()
}

impl Accumulator for ExtremeOfAll {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.find_in(values[0].as_string_view());
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Utf8View(self.found.clone()))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.found.as_ref().map_or(0, String::capacity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::compute::{max_string_view, min_string_view};
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    #[test]
    fn extremes_are_those_that_arrow_finds_in_any_batches() {
        let mut random = StdRng::seed_from_u64(5);
        for _ in 0..500 {
            let count = random.random_range(0..40);
            let mut text = || {
                // Alike at their beginnings, shorter than these bytes, within views and beyond, with zeros and letters of several bytes.
                let stem = ["", "a", "ab\0", "abcd", "abcd\0", "zürich", "a text that no view has in itself"];
                let end = ["", "\0", "b", "z", "ß", "\u{10ffff}"];
                let text = format!("{}{}", stem[random.random_range(0..7)], end[random.random_range(0..6)]);
                (random.random_range(0..5) > 0).then_some(text)
            };
            let texts: StringViewArray = (0..count).map(|_| text()).collect();
            for (extreme, expected) in
                [(Extreme::Least, min_string_view(&texts)), (Extreme::Greatest, max_string_view(&texts))]
            {
                let mut found = ExtremeOfAll { extreme, found: None };
                let cut = count / 3;
                for part in [texts.slice(0, cut), texts.slice(cut, count - cut)] {
                    found.update_batch(&[Arc::new(part)]).unwrap();
                }
                assert_eq!(found.found.as_deref(), expected, "{extreme:?} of {texts:?}");
                let mut merged = ExtremeOfAll { extreme, found: None };
                let states = found.state().unwrap().pop().unwrap().to_array().unwrap();
                merged.merge_batch(&[states]).unwrap();
                assert_eq!(merged.found.as_deref(), expected);
            }
        }
    }
}
