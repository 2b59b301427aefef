// SPDX-License-Identifier: Apache-2.0
//! The best rows of each group, written down and read.
//!
//! Which rows are dropped depends on those that were seen before, and a node that sees its own bricks alone sees fewer: so it keeps all that
//! whoever sees all of them would keep (`query/group_top.rs`).

use super::codec::{Decoder, Encoder};
use super::wire::malformed;
use crate::query::{GroupTopExec, Ranking, Top};
use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;
use std::sync::Arc;

/// In the order of their numbers.
const RANKINGS: [Ranking; 3] = [Ranking::Rows, Ranking::Ranks, Ranking::Values];

impl Encoder<'_> {
    /// Writes what is left of each group.
    pub(super) fn group_top(&mut self, top: &Top) -> Option<()> {
        let ranking = RANKINGS.iter().position(|ranking| *ranking == top.ranking())?;
        self.out.byte(u8::try_from(ranking).ok()?);
        self.out.number(top.keep());
        self.expressions(top.group().iter())?;
        let first = top.first();
        self.out.byte(u8::from(first.is_some()));
        first.map_or(Some(()), |first| self.sort_key(&first))
    }
}

impl Decoder<'_> {
    /// Reads what is left of each group of these rows.
    pub(super) fn group_top(&mut self, input: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = input.schema();
        let ranking = RANKINGS.get(usize::from(self.from.byte()?)).copied();
        let ranking = ranking.ok_or_else(|| malformed("there is no such ranking"))?;
        let keep = self.from.number()?;
        let group = self.expressions(&schema)?;
        let first = if self.flag()? { Some(self.sort_key(&schema)?) } else { None };
        let top = Top::new((ranking, keep), group, first.as_ref(), &schema);
        let top = top.ok_or_else(|| malformed("groups, or their order, have no keys"))?;
        Ok(Arc::new(GroupTopExec::new(input, top)))
    }
}
