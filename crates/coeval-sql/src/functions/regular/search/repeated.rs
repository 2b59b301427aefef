// SPDX-License-Identifier: Apache-2.0
//! Divides bytes among the turns of what is repeated.
//!
//! Each turn takes the longest text with which the turns behind it can reach the end, or the shortest, as it prefers. A turn is empty
//! only where there are too few letters for the turns that there have to be.

use super::super::machine::Part;
use super::super::syntax::{Prefers, Way};
use super::Search;
use super::places::Places;
use crate::error::SqlError;
use std::ops::{ControlFlow, Range};

/// So many turns at a time are accounted for.
const TURNS_HELD: usize = 1 << 10;

/// How many turns there may be.
struct Turns {
    least: usize,
    most: Option<usize>,
}

impl Search<'_> {
    /// Whether the bytes are so many turns, which they may be by all but their back references; `whole` is what is repeated with
    /// its quantifier.
    pub(super) fn divide_turns(
        &mut self,
        (whole, turn): (&Part, &Part),
        (least, most): (usize, Option<usize>),
        bytes: Range<usize>,
    ) -> Result<bool, SqlError> {
        let needs_none = least == 0 && bytes.is_empty();
        if needs_none && turn.prefers() == Prefers::Shortest {
            return Ok(true);
        }
        let turns = Turns { least: least.max(1), most };
        let reaching = if least == 0 && most.is_none() { Some(self.reaching(whole, &bytes)?) } else { None };
        let before = self.held;
        let is_so = self.take_turns(turn, &turns, &bytes, reaching.as_ref())?;
        self.held = before;
        if let Some(reaching) = reaching {
            self.give_back(reaching);
        }
        if is_so {
            return Ok(true);
        }
        self.forget(turn);
        Ok(needs_none)
    }

    /// The places from which any number of turns reaches the end.
    fn reaching(&mut self, whole: &Part, bytes: &Range<usize>) -> Result<Places, SqlError> {
        let mut places = self.places(bytes.clone())?;
        self.walk(Way::Behind, whole.ends, bytes.clone(), &mut |place| {
            places.add(place);
            ControlFlow::Continue(())
        })?;
        Ok(places)
    }

    fn take_turns(
        &mut self,
        turn: &Part,
        turns: &Turns,
        bytes: &Range<usize>,
        reaching: Option<&Places>,
    ) -> Result<bool, SqlError> {
        // Where each turn ends, and the first one begins.
        let mut ends = vec![bytes.start];
        // Where the turn behind them ended when it was tried last.
        let mut tried = None;
        // By the number of turns before them, the places from which the turns behind them do not reach the end. What the turns before
        // have is no matter for that, but for back references.
        let mut hopeless: Vec<Places> = Vec::new();
        while let Some(&begin) = ends.last() {
            let Some(end) = self.next_end(turn, begin..bytes.end, tried, reaching)? else {
                if reaching.is_none() && !turn.traits.refers_back {
                    while hopeless.len() < ends.len() {
                        hopeless.push(self.places(bytes.clone())?);
                    }
                    hopeless[ends.len() - 1].add(begin);
                }
                tried = ends.pop();
                continue;
            };
            tried = Some(end);
            let is_hopeless = hopeless.get(ends.len()).is_some_and(|places| places.has(end));
            if is_hopeless || !self.is_allowed(turns, ends.len(), begin..end, bytes.end) {
                continue;
            }
            self.forget(turn);
            if !self.divide(turn, begin, end)? {
                continue;
            }
            if end == bytes.end {
                return Ok(true);
            }
            if ends.len().is_multiple_of(TURNS_HELD) {
                self.hold(TURNS_HELD * size_of::<usize>())?;
            }
            ends.push(end);
            tried = None;
        }
        Ok(false)
    }

    /// Whether the turn of this number, from one on, may have these bytes.
    fn is_allowed(&self, turns: &Turns, number: usize, bytes: Range<usize>, end: usize) -> bool {
        if bytes.end == end {
            return number >= turns.least;
        }
        if turns.most.is_some_and(|most| number >= most) {
            return false;
        }
        !bytes.is_empty() || {
            let more = turns.least.saturating_sub(number);
            more > 0 && self.text[bytes.end..end].chars().take(more + 1).count() <= more
        }
    }

    /// The next end of a turn that begins at the first of these bytes, behind the one that was tried in the order that it prefers.
    fn next_end(
        &mut self,
        turn: &Part,
        bytes: Range<usize>,
        tried: Option<usize>,
        reaching: Option<&Places>,
    ) -> Result<Option<usize>, SqlError> {
        let prefers = turn.prefers();
        let bound = match tried {
            Some(tried) if prefers == Prefers::Longest => {
                let Some(letter) = self.text[bytes.start..tried].chars().next_back() else { return Ok(None) };
                tried - letter.len_utf8()
            }
            _ => bytes.end,
        };
        let mut found = None;
        self.walk(Way::Ahead, turn.ends, bytes.start..bound, &mut |end| {
            let is_new = prefers == Prefers::Longest || tried.is_none_or(|tried| end > tried);
            if is_new && reaching.is_none_or(|reaching| reaching.has(end)) {
                found = Some(end);
                if prefers == Prefers::Shortest {
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        })?;
        Ok(found)
    }
}
