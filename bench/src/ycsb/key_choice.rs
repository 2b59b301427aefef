// SPDX-License-Identifier: Apache-2.0
//! Which record the next operation takes: uniformly, or by Zipf's law.
//!
//! Ranks follow Zipf's law with exponent 0.99 by the method of Gray et al. ("Quickly generating billion-record
//! synthetic databases", SIGMOD 1994), as YCSB does; a hash then scatters the ranks over the records, so that hot
//! records are not neighbours.

use crate::options::KeyChoice;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// YCSB's exponent.
const THETA: f64 = 0.99;

/// Chooses records among `0..records`.
pub(crate) struct Records {
    random: SmallRng,
    records: u64,
    zipf: Option<Zipf>,
}

/// What the method of Gray et al. computes once.
#[derive(Clone, Copy)]
struct Zipf {
    zeta: f64,
    alpha: f64,
    eta: f64,
    second: f64,
}

impl Zipf {
    /// Costs one power for each record.
    fn new(records: u64) -> Self {
        let zeta: f64 = (1..=records).map(|rank| (rank as f64).powf(-THETA)).sum();
        let second = 1.0 + 0.5f64.powf(THETA);
        let eta = (1.0 - (2.0 / records as f64).powf(1.0 - THETA)) / (1.0 - second / zeta);
        Self { zeta, alpha: 1.0 / (1.0 - THETA), eta, second }
    }

    /// The rank, from 0, that a uniform number in `0.0..1.0` stands for.
    fn rank(self, uniform: f64, records: u64) -> u64 {
        let scaled = uniform * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < self.second {
            return 1;
        }
        let rank = records as f64 * (self.eta * uniform - self.eta + 1.0).powf(self.alpha);
        (rank as u64).min(records - 1)
    }
}

impl Records {
    /// # Panics
    /// If there are no records.
    pub(crate) fn new(choice: KeyChoice, records: u64, seed: u64) -> Self {
        assert!(records > 0, "there is a record to choose");
        let zipf = match choice {
            KeyChoice::Uniform => None,
            KeyChoice::Zipfian => Some(Zipf::new(records)),
        };
        Self { random: SmallRng::seed_from_u64(seed), records, zipf }
    }

    /// The same choice with another seed, without computing Zipf's constants again.
    pub(crate) fn with_seed(&self, seed: u64) -> Self {
        Self { random: SmallRng::seed_from_u64(seed), records: self.records, zipf: self.zipf }
    }

    /// The next record.
    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
        match self.zipf {
            None => self.random.random_range(0..self.records),
            Some(zipf) => scatter(zipf.rank(self.random.random(), self.records)) % self.records,
        }
    }

    /// Whether something happens that does in `percent` percent of all cases.
    pub(crate) fn happens(&mut self, percent: u32) -> bool {
        self.random.random_range(0..100) < percent
    }

    /// A random field of `fields`.
    pub(crate) fn field(&mut self, fields: usize) -> usize {
        self.random.random_range(0..fields)
    }

    /// Fills `text` with so many random letters.
    pub(crate) fn letters<'t>(&mut self, text: &'t mut String, length: usize) -> &'t str {
        text.clear();
        while text.len() < length {
            let mut bits: u64 = self.random.random();
            for _ in 0..12.min(length - text.len()) {
                // 26 letters and 6 digits: five bits each.
                text.push(b"abcdefghijklmnopqrstuvwxyz234567"[(bits & 31) as usize] as char);
                bits >>= 5;
            }
        }
        text
    }
}

/// A fixed shuffle of all numbers (the finalizer of SplitMix64).
fn scatter(rank: u64) -> u64 {
    let mut mixed = rank.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    const RECORDS: u64 = 10_000;
    const DRAWS: usize = 200_000;

    fn frequencies(choice: KeyChoice) -> Vec<usize> {
        let mut records = Records::new(choice, RECORDS, 3);
        let mut seen: BTreeMap<u64, usize> = BTreeMap::new();
        for _ in 0..DRAWS {
            let record = records.next();
            assert!(record < RECORDS);
            *seen.entry(record).or_default() += 1;
        }
        let mut counts: Vec<usize> = seen.into_values().collect();
        counts.sort_unstable_by(|left, right| right.cmp(left));
        counts
    }

    #[test]
    fn zipf_gives_the_most_frequent_record_its_share() {
        let counts = frequencies(KeyChoice::Zipfian);
        let zeta = Zipf::new(RECORDS).zeta;
        let expected = DRAWS as f64 / zeta;
        assert!((counts[0] as f64 / expected - 1.0).abs() < 0.1, "{} for {expected}", counts[0]);
        assert!(counts[..100].iter().sum::<usize>() > DRAWS / 3, "a hundredth of the records is hot");
    }

    #[test]
    fn uniform_choice_has_no_favourites() {
        let counts = frequencies(KeyChoice::Uniform);
        assert!(counts[0] < 3 * DRAWS / RECORDS as usize);
        assert!(counts.len() > RECORDS as usize * 99 / 100);
    }

    #[test]
    fn letters_have_the_asked_length() {
        let mut records = Records::new(KeyChoice::Uniform, 1, 1);
        let mut text = String::new();
        assert!((0..40).all(|length| records.letters(&mut text, length).len() == length));
    }
}
