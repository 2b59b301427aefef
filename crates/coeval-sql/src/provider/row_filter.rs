// SPDX-License-Identifier: Apache-2.0
//! One filter of a scan, in the form in which it is evaluated.

use super::membership::{Candidate, Membership};
use super::scan_keys::{KeyPart, ScanKeys};
use super::text_filter::TextFilter;
use crate::guarded::guarded;
use arrow::array::RecordBatch;
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{Schema, SchemaRef};
use coeval_operators::join_keys::KeySet;
use coeval_operators::predicate::{Conjunction, Predicate, cheapest_first};
use datafusion::error::Result;
use datafusion::physical_expr::{conjunction, split_conjunction};
use datafusion::physical_expr_common::physical_expr::{snapshot_generation, snapshot_physical_expr};
use datafusion::physical_plan::PhysicalExpr;
use std::sync::Arc;

/// After this many rows a filter that only saves work, and saves little, is dropped.
const TRIAL_ROWS: usize = 65_536;

/// Of 100 rows a filter that only saves work must take this many away.
const SAVING_PERCENT_MIN: usize = 20;

/// The same for one that looks a row up in a Bloom filter, which costs more than a bit.
const LOOK_UP_SAVING_PERCENT_MIN: usize = 25;

/// Bits of so many values are made before the first row is looked at.
const FEW_VALUES: u64 = 8_192;

/// What rows have to pass.
pub(super) struct Filter {
    form: Form,
    /// Rows that it came by, whether they were left or not.
    rows_seen: usize,
    rows_in: usize,
    rows_out: usize,
}

enum Form {
    /// Comparisons of columns with constants or with each other.
    Compared(Conjunction),
    /// What is asked of texts that come as codes.
    OfTexts(TextFilter),
    /// What DataFusion evaluates.
    Plain(Arc<dyn PhysicalExpr>),
    /// What a join or a limit makes for itself while the query runs, which only saves work: the answer is right without it.
    /// With the keys that are asked instead, once they are known, if it is of a join on one column.
    Moving { filter: Arc<dyn PhysicalExpr>, generation: Option<u64>, now: Now, keys: Option<ScanKeys> },
    /// What a join on several columns looks for, which only saves work, too; the keys, once they are known.
    JoinKeys { part: KeyPart, set: Option<Arc<KeySet>> },
}

/// A filter that moves, as it is in this generation.
enum Now {
    /// One of values between bounds: once it was asked for many rows, it will be asked for the values.
    Possible(Candidate),
    /// A bit for each value.
    There(Membership),
    /// The keys of the join whose filter it is.
    Noted(KeyPart, Arc<KeySet>),
    /// Comparisons, and what DataFusion evaluates.
    Parts { compared: Option<Predicate>, rest: Option<Arc<dyn PhysicalExpr>> },
}

impl Filter {
    /// Those that all rows have to pass: first all comparisons, which are cheap and never fail.
    pub(super) fn required(predicates: Vec<Arc<dyn PhysicalExpr>>, source: &Schema) -> Vec<Self> {
        let (compared, rest) = parted(predicates, source);
        let compared =
            (!compared.is_empty()).then(|| Form::Compared(Conjunction::new(cheapest_first(compared))));
        let rest = rest.into_iter().map(|predicate| Form::Plain(guarded(predicate)));
        compared.into_iter().chain(rest).map(Self::new).collect()
    }

    /// One that all rows have to pass, and that is asked of texts; it never fails either.
    pub(super) fn of_texts(filter: TextFilter) -> Self {
        Self::new(Form::OfTexts(filter))
    }

    /// Those that save work: first by what joins on several columns look for, and then by what moves.
    pub(super) fn that_save_work(moving: Vec<Arc<dyn PhysicalExpr>>, join_keys: &[ScanKeys]) -> Vec<Self> {
        let several = join_keys.iter().filter(|keys| !keys.are_instead_of_any(&moving));
        let mut filters: Vec<Self> = several.flat_map(Self::of_join_keys).collect();
        filters.extend(moving.into_iter().map(|filter| {
            let keys = join_keys.iter().find(|keys| keys.are_instead_of(&filter)).cloned();
            Self::optional(filter, keys)
        }));
        filters
    }

    /// One that saves work. The keys are those that are asked instead of it, once they are known.
    fn optional(filter: Arc<dyn PhysicalExpr>, keys: Option<ScanKeys>) -> Self {
        let now = Now::Parts { compared: None, rest: None };
        Self::new(Form::Moving { filter, generation: None, now, keys })
    }

    /// Those that save work by what a join on several columns looks for: the cheap ones first.
    fn of_join_keys(keys: &ScanKeys) -> impl Iterator<Item = Self> {
        keys.parts().map(|part| Self::new(Form::JoinKeys { part, set: None }))
    }

    fn new(form: Form) -> Self {
        Self { form, rows_seen: 0, rows_in: 0, rows_out: 0 }
    }

    /// Readies it for so many rows: looks whether a join has changed the filter since. If it is one of few values, their bits are made when it
    /// has come by as many rows: rows may end at any time.
    pub(super) fn prepare(&mut self, source: &SchemaRef, rows: usize) {
        self.rows_seen += rows;
        if let Form::JoinKeys { part, set } = &mut self.form {
            if set.is_none() {
                *set = part.set();
            }
            return;
        }
        let Form::Moving { filter, generation, now, keys } = &mut self.form else { return };
        if let Some((part, set)) = keys.as_ref().and_then(ScanKeys::only_part) {
            *now = Now::Noted(part, set);
            *keys = None;
        }
        if matches!(now, Now::Noted(..)) {
            return;
        }
        let newest = snapshot_generation(filter);
        if *generation != Some(newest) {
            *generation = Some(newest);
            *now = match Candidate::of(filter, source) {
                Some(candidate) => Now::Possible(candidate),
                None => Now::parts_of(filter, source),
            };
        }
        if let Now::Possible(candidate) = now {
            let values = candidate.values();
            if values <= FEW_VALUES || self.rows_seen as u64 >= values {
                *now = match candidate.membership() {
                    Ok(membership) => Now::There(membership),
                    Err(_) => Now::parts_of(filter, source),
                };
            }
        }
    }

    /// Which of the rows that are left, or of all, pass what of it can be looked up or compared; `None` if there is nothing of that kind.
    ///
    /// # Errors
    /// If texts cannot be asked: a bug.
    pub(super) fn passing(
        &mut self,
        batch: &RecordBatch,
        left: Option<&BooleanBuffer>,
    ) -> Result<Option<BooleanBuffer>> {
        Ok(match &mut self.form {
            Form::OfTexts(filter) => Some(filter.passing(batch, left)?),
            Form::Compared(comparisons) => Some(comparisons.passing(batch, left)),
            Form::Moving { now: Now::Parts { compared, .. }, .. } => {
                compared.as_ref().map(|predicate| predicate.passing(batch, left))
            }
            Form::Moving { now: Now::There(membership), .. } => Some(membership.passing(batch, left)),
            Form::Moving { now: Now::Noted(part, set), .. } => part.passing(set, batch, left),
            Form::JoinKeys { part, set } => set.as_deref().and_then(|set| part.passing(set, batch, left)),
            Form::Plain(_) | Form::Moving { .. } => None,
        })
    }

    /// What DataFusion is to evaluate behind that.
    pub(super) fn rest(&self) -> Option<&Arc<dyn PhysicalExpr>> {
        match &self.form {
            Form::Plain(predicate) => Some(predicate),
            Form::Moving { now: Now::Possible(_), filter, .. } => Some(filter),
            Form::Moving { now: Now::Parts { rest, .. }, .. } => rest.as_ref(),
            Form::Compared(_) | Form::OfTexts(_) | Form::JoinKeys { .. } | Form::Moving { .. } => None,
        }
    }

    /// Its place among others: those that rows have to pass first, as they are, and then those that leave the fewest of them.
    pub(super) fn rank(&self) -> (bool, usize) {
        if self.is_optional() { (true, self.rows_out * 100 / self.rows_in.max(1)) } else { (false, 0) }
    }

    /// Takes note that of so many rows so many have passed. As long as keys are not known, nothing was asked.
    pub(super) fn note(&mut self, asked: usize, passed: usize) {
        if matches!(self.form, Form::JoinKeys { set: None, .. }) {
            return;
        }
        self.rows_in += asked;
        self.rows_out += passed;
    }

    /// Whether it only saves work.
    pub(super) fn is_optional(&self) -> bool {
        matches!(self.form, Form::Moving { .. } | Form::JoinKeys { .. })
    }

    /// Whether it is of the keys of a join.
    pub(super) fn is_of_join_keys(&self) -> bool {
        matches!(self.form, Form::JoinKeys { .. } | Form::Moving { now: Now::Noted(..), .. })
    }

    /// Of 100 rows it must take so many away.
    fn saving_percent_min(&self) -> usize {
        match &self.form {
            Form::JoinKeys { part, .. } | Form::Moving { now: Now::Noted(part, _), .. }
                if part.is_of_all() =>
            {
                LOOK_UP_SAVING_PERCENT_MIN
            }
            _ => SAVING_PERCENT_MIN,
        }
    }

    /// Whether it takes away what it has to, or enough.
    pub(super) fn is_worth_it(&self) -> bool {
        !self.is_optional()
            || self.rows_in < TRIAL_ROWS
            || (self.rows_in - self.rows_out) * 100 >= self.rows_in * self.saving_percent_min()
    }
}

impl Now {
    fn parts_of(filter: &Arc<dyn PhysicalExpr>, source: &Schema) -> Self {
        match snapshot_physical_expr(Arc::clone(filter)) {
            Ok(now) => {
                let parts = split_conjunction(&now).into_iter().map(Arc::clone).collect();
                let (compared, rest) = parted(parts, source);
                let compared = (!compared.is_empty()).then(|| Predicate::all(compared));
                Self::Parts { compared, rest: (!rest.is_empty()).then(|| conjunction(rest)) }
            }
            Err(_) => Self::Parts { compared: None, rest: Some(Arc::clone(filter)) },
        }
    }
}

/// The comparisons among these, and the others.
fn parted(
    predicates: Vec<Arc<dyn PhysicalExpr>>,
    source: &Schema,
) -> (Vec<Predicate>, Vec<Arc<dyn PhysicalExpr>>) {
    let (mut compared, mut rest) = (Vec::new(), Vec::new());
    for predicate in predicates {
        match Predicate::of(&predicate, source) {
            Some(predicate) => compared.push(predicate),
            None => rest.push(predicate),
        }
    }
    (compared, rest)
}
