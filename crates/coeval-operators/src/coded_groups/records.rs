// SPDX-License-Identifier: Apache-2.0
//! What is known of each group, side by side: a record of words of 64 bits.
//!
//! Values are added column by column. With an array for each state, every column has rows of all groups touch another array, and
//! once groups are many the arrays drive each other out of a core's cache. In records the first column brings what all others ask for.
//!
//! ```text
//! record of group 0          record of group 1
//! rows | sum(a) | sum(b)     rows | sum(a) | sum(b)     ...
//! ```

/// A state, as it stands in a record.
pub(super) trait State: Copy {
    /// How many words it takes.
    const WORDS: usize;

    /// The state in the first of these words.
    fn read(words: &[u64]) -> Self;

    /// Puts it there.
    fn write(self, words: &mut [u64]);
}

impl State for u64 {
    const WORDS: usize = 1;

    #[inline]
    fn read(words: &[u64]) -> Self {
        words[0]
    }

    #[inline]
    fn write(self, words: &mut [u64]) {
        words[0] = self;
    }
}

impl State for i64 {
    const WORDS: usize = 1;

    #[inline]
    fn read(words: &[u64]) -> Self {
        words[0].cast_signed()
    }

    #[inline]
    fn write(self, words: &mut [u64]) {
        words[0] = self.cast_unsigned();
    }
}

impl State for f64 {
    const WORDS: usize = 1;

    #[inline]
    fn read(words: &[u64]) -> Self {
        Self::from_bits(words[0])
    }

    #[inline]
    fn write(self, words: &mut [u64]) {
        words[0] = self.to_bits();
    }
}

impl State for i128 {
    const WORDS: usize = 2;

    #[inline]
    fn read(words: &[u64]) -> Self {
        (u128::from(words[0]) | u128::from(words[1]) << u64::BITS).cast_signed()
    }

    #[inline]
    fn write(self, words: &mut [u64]) {
        let bits = self.cast_unsigned();
        #[expect(clippy::cast_possible_truncation, reason = "one half, and then the other")]
        {
            (words[0], words[1]) = (bits as u64, (bits >> u64::BITS) as u64);
        }
    }
}

/// See the module. All states are known before the first group.
pub(super) struct Records {
    /// The record of a group of which nothing is known.
    blank: Vec<u64>,
    words: Vec<u64>,
}

impl Records {
    /// With one state, which is this of groups of which nothing is known.
    pub(super) fn of(blank: impl State) -> Self {
        let mut records = Self { blank: Vec::new(), words: Vec::new() };
        records.place(blank);
        records
    }

    /// Makes room for one more state. The result is its place in each record; that of the first one is 0.
    pub(super) fn place<S: State>(&mut self, blank: S) -> usize {
        let place = self.blank.len();
        self.blank.resize(place + S::WORDS, 0);
        blank.write(&mut self.blank[place..]);
        place
    }

    /// How many groups there are.
    pub(super) fn len(&self) -> usize {
        self.words.len() / self.blank.len()
    }

    /// Makes records for so many groups.
    pub(super) fn grow(&mut self, groups: usize) {
        for _ in self.len()..groups {
            self.words.extend_from_slice(&self.blank);
        }
    }

    /// Does `change` to the state at a place of each of these groups, with what comes with it.
    #[inline]
    pub(super) fn change<S: State, T>(
        &mut self,
        place: usize,
        rows: impl Iterator<Item = (u32, T)>,
        mut change: impl FnMut(&mut S, T),
    ) {
        let (width, words) = (self.blank.len(), self.words.as_mut_slice());
        rows.for_each(|(group, value)| {
            let start = group as usize * width + place;
            let words = &mut words[start..start + S::WORDS];
            let mut state = S::read(words);
            change(&mut state, value);
            state.write(words);
        });
    }

    /// The states at a place, group by group.
    pub(super) fn states<S: State>(&self, place: usize) -> impl Iterator<Item = S> {
        self.words.chunks_exact(self.blank.len()).map(move |record| S::read(&record[place..]))
    }

    pub(super) fn bytes(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// To break it: change the state at another place, or begin groups with something else.
    #[test]
    fn states_side_by_side_do_not_touch_each_other() {
        let mut records = Records::of(0_u64);
        let (wide, real, word) = (records.place(i128::MIN), records.place(0.5), records.place(i64::MAX));
        records.grow(2);
        records.change(wide, [(1, -1)].into_iter(), |state: &mut i128, value| *state = i128::MAX + value);
        records.change(0, [(0, ()), (0, ())].into_iter(), |state: &mut u64, ()| *state += 1);
        records.change(real, [(1, 2.0)].into_iter(), |state: &mut f64, value| *state += value);
        records.grow(3);
        records.change(word, [(2, -7), (0, 3)].into_iter(), |state: &mut i64, value| {
            *state = (*state).min(value)
        });
        assert_eq!(records.len(), 3);
        assert_eq!(records.states::<u64>(0).collect::<Vec<_>>(), [2, 0, 0]);
        assert_eq!(records.states::<i128>(wide).collect::<Vec<_>>(), [i128::MIN, i128::MAX - 1, i128::MIN]);
        assert_eq!(records.states::<f64>(real).collect::<Vec<_>>(), [0.5, 2.5, 0.5]);
        assert_eq!(records.states::<i64>(word).collect::<Vec<_>>(), [3, i64::MAX, -7]);
    }
}
