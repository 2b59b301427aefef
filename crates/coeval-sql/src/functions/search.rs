// SPDX-License-Identifier: Apache-2.0
//! Where a text, or a string of bits, has another one in it: in time that grows with the sum of both, and with looks whether the statement is to end.

use crate::allowance::Meter;
use crate::error::SqlError;
use memchr::memmem::Finder;

/// What is read between two looks.
const PIECE_BYTES: usize = 1 << 20;

/// What it takes to look for a byte of a long text.
pub(super) const BORDER_BYTES: usize = size_of::<u32>();

/// The places of a text in another one, from the first to the last, each behind the end of the one before.
///
/// Short ones are looked for by `memchr`. That looks at a window at a time, and windows overlap by the text that is looked for; so one
/// that is long against a window is looked for as Knuth, Morris and Pratt do, who read each byte once.
pub(super) struct Places<'a> {
    meter: &'a Meter,
    all: &'a [u8],
    /// Where the next one may begin.
    next: usize,
    way: Way<'a>,
}

enum Way<'a> {
    Windows(Box<Finder<'a>>),
    Borders { wanted: &'a [u8], borders: Vec<u32> },
}

impl<'a> Places<'a> {
    /// Of `wanted` in `all`. An empty text is nowhere.
    ///
    /// # Errors
    /// The error of a statement that was told to end, or that may not have the memory: four bytes for each byte of a long text that is
    /// looked for.
    pub(super) fn of(wanted: &'a str, all: &'a str, meter: &'a Meter) -> Result<Self, SqlError> {
        let (wanted, all) = (wanted.as_bytes(), all.as_bytes());
        let way = if wanted.len() <= PIECE_BYTES || wanted.len() > all.len() {
            Way::Windows(Box::new(Finder::new(&wanted[..wanted.len().min(PIECE_BYTES)])))
        } else {
            meter.take(wanted.len() * BORDER_BYTES)?;
            Way::Borders { wanted, borders: borders(wanted, meter)? }
        };
        // What is longer than the text is not in it, and neither is nothing.
        let next = if wanted.is_empty() || wanted.len() > all.len() { all.len() } else { 0 };
        Ok(Self { meter, all, next, way })
    }

    /// The next place, as its first byte.
    ///
    /// # Errors
    /// The error of a statement that was told to end.
    pub(super) fn next(&mut self) -> Result<Option<usize>, SqlError> {
        match &self.way {
            Way::Windows(finder) => {
                let length = finder.needle().len();
                while self.next < self.all.len() {
                    let window_end = self.all.len().min(self.next + PIECE_BYTES + length);
                    if let Some(place) = finder.find(&self.all[self.next..window_end]) {
                        let place = self.next + place;
                        self.next = place + length;
                        self.meter.step()?;
                        return Ok(Some(place));
                    }
                    self.meter.look()?;
                    self.next =
                        if window_end == self.all.len() { window_end } else { window_end - length + 1 };
                }
                Ok(None)
            }
            Way::Borders { wanted, borders } => {
                let mut matched = 0;
                for place in self.next..self.all.len() {
                    if place % PIECE_BYTES == 0 {
                        self.meter.look()?;
                    }
                    matched = extended(wanted, borders, matched, self.all[place]);
                    if matched == wanted.len() {
                        self.next = place + 1;
                        return Ok(Some(self.next - matched));
                    }
                }
                self.next = self.all.len();
                Ok(None)
            }
        }
    }
}

/// Where bytes that come one after the other have those in them that are looked for, which are not none, for the first time. The caller
/// counts the [memory](BORDER_BYTES).
///
/// # Errors
/// The error of a statement that was told to end.
pub(super) fn first_place(
    wanted: &[u8],
    all: impl Iterator<Item = u8>,
    meter: &Meter,
) -> Result<Option<usize>, SqlError> {
    let (borders, mut matched) = (borders(wanted, meter)?, 0);
    for (place, byte) in all.enumerate() {
        if place.is_multiple_of(PIECE_BYTES) {
            meter.look()?;
        }
        matched = extended(wanted, &borders, matched, byte);
        if matched == wanted.len() {
            return Ok(Some(place + 1 - matched));
        }
    }
    Ok(None)
}

/// How much of the text has matched when one more byte comes.
fn extended(wanted: &[u8], borders: &[u32], mut matched: usize, byte: u8) -> usize {
    while matched > 0 && wanted[matched] != byte {
        matched = borders[matched - 1] as usize;
    }
    if wanted[matched] == byte { matched + 1 } else { matched }
}

/// Of each beginning of the text how long its longest proper end is that is a beginning, too.
fn borders(wanted: &[u8], meter: &Meter) -> Result<Vec<u32>, SqlError> {
    let mut borders = Vec::with_capacity(wanted.len());
    let mut matched = 0;
    borders.push(0);
    for (place, &byte) in wanted.iter().enumerate().skip(1) {
        if place % PIECE_BYTES == 0 {
            meter.look()?;
        }
        matched = extended(wanted, &borders, matched, byte);
        // No text has 4 GiB.
        borders.push(matched as u32);
    }
    Ok(borders)
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::common::config::ConfigOptions;

    fn places(wanted: &str, all: &str) -> Vec<usize> {
        let meter = Meter::begin(&ConfigOptions::new(), "test");
        let mut places = Places::of(wanted, all, &meter).unwrap();
        std::iter::from_fn(|| places.next().unwrap()).collect()
    }

    fn expected(wanted: &str, all: &str) -> Vec<usize> {
        all.match_indices(wanted).map(|(place, _)| place).collect()
    }

    #[test]
    fn places_are_those_of_the_standard_library() {
        assert_eq!(places("", "abc"), Vec::<usize>::new());
        assert_eq!(places("abcd", "abc"), Vec::<usize>::new());
        assert_eq!(places("aa", "aaaaa"), [0, 2]);
        // Across the ends of windows, and at the end.
        for shift in 0..4 {
            let all = format!("{}needle{}needle", "x".repeat(PIECE_BYTES - shift), "n".repeat(PIECE_BYTES));
            assert_eq!(places("needle", &all), expected("needle", &all));
        }
    }

    #[test]
    fn the_first_place_among_bytes_that_come_one_by_one_is_that_of_the_standard_library() {
        let meter = Meter::begin(&ConfigOptions::new(), "test");
        let first = |wanted: &str, all: &str| first_place(wanted.as_bytes(), all.bytes(), &meter).unwrap();
        for wanted in ["0", "1", "01", "0010", "00100010", "000", "11"] {
            for all in ["", "0", "0001", "001000100010", "0010001000010", "1110110"] {
                assert_eq!(first(wanted, all), all.find(wanted), "{wanted} in {all}");
            }
        }
    }

    #[test]
    fn long_texts_are_found_as_short_ones_are() {
        let half = "ab".repeat(PIECE_BYTES / 2 + 7);
        let wanted = format!("{half}a{half}");
        let all = format!("{half}{wanted}{half}{half}{wanted}b{wanted}{half}");
        assert_eq!(places(&wanted, &all), expected(&wanted, &all));
        assert_eq!(places(&all, &all), [0]);
        assert_eq!(places(&format!("{half}c"), &all), Vec::<usize>::new());
    }
}
