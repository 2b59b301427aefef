// SPDX-License-Identifier: Apache-2.0
//! What a search has found.

use regex::Captures;
use std::ops::Range;

/// A match, with its groups.
#[derive(Debug)]
pub(super) struct Found<'t> {
    text: &'t str,
    whole: Range<usize>,
    /// Those behind the whole, the first being group 1.
    groups: Vec<Option<Range<usize>>>,
}

/// A part of a text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span<'t> {
    text: &'t str,
    pub(super) start: usize,
    pub(super) end: usize,
}

impl<'t> Found<'t> {
    pub(super) fn new(text: &'t str, whole: Range<usize>, groups: Vec<Option<Range<usize>>>) -> Self {
        Self { text, whole, groups }
    }

    /// What the `regex` crate has found in the text.
    pub(super) fn of_captures(text: &'t str, captures: &Captures<'t>) -> Self {
        let groups = captures.iter().skip(1).map(|group| Some(group?.range())).collect();
        Self::new(text, captures.get_match().range(), groups)
    }

    pub(super) fn whole(&self) -> Span<'t> {
        self.span(&self.whole)
    }

    /// Whether the pattern has groups, if only such as have nothing in this match.
    pub(super) fn has_groups(&self) -> bool {
        !self.groups.is_empty()
    }

    /// The group of this number; the whole match is number 0.
    pub(super) fn get(&self, number: usize) -> Option<Span<'t>> {
        match number.checked_sub(1) {
            Some(place) => self.groups.get(place)?.as_ref().map(|group| self.span(group)),
            None => Some(self.whole()),
        }
    }

    /// The texts of the groups; of a pattern without any the whole match.
    pub(super) fn texts(&self) -> Vec<Option<&'t str>> {
        if self.groups.is_empty() {
            return vec![Some(self.whole().as_str())];
        }
        self.groups.iter().map(|group| group.as_ref().map(|group| self.span(group).as_str())).collect()
    }

    fn span(&self, range: &Range<usize>) -> Span<'t> {
        Span { text: self.text, start: range.start, end: range.end }
    }
}

impl<'t> Span<'t> {
    pub(super) fn is_empty(self) -> bool {
        self.start == self.end
    }

    pub(super) fn as_str(self) -> &'t str {
        &self.text[self.start..self.end]
    }
}
