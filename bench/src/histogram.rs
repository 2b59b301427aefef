// SPDX-License-Identifier: Apache-2.0
//! A histogram of latencies with constant memory and a relative error below one percent.
//!
//! Values up to [`EXACT`] have a bucket each; above, each power of two is cut into [`EXACT`] / 2 equal buckets,
//! so a bucket is never wider than 1/64 of its lower bound. A percentile answers with the middle of its bucket.

use std::time::Duration;

/// Values below this are kept exactly. A power of two.
const EXACT: u64 = 128;
const EXACT_BITS: u32 = EXACT.trailing_zeros();
const HALF: usize = (EXACT / 2) as usize;
/// Buckets for all of `u64`: the exact ones and half as many for each further bit.
const BUCKETS: usize = EXACT as usize + (64 - EXACT_BITS as usize) * HALF;
const _: () = assert!(EXACT.is_power_of_two() && HALF >= 64, "a bucket's middle is within 1 % of its values");

/// Counts of values by bucket. Latencies are recorded in nanoseconds.
#[derive(Clone)]
pub struct Histogram {
    counts: Vec<u64>,
    count: u64,
    sum: u128,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS], count: 0, sum: 0, max: 0 }
    }
}

impl Histogram {
    /// Takes in one value.
    #[inline]
    pub fn record(&mut self, value: u64) {
        self.counts[bucket_of(value)] += 1;
        self.count += 1;
        self.sum += u128::from(value);
        self.max = self.max.max(value);
    }

    /// Takes in one latency.
    #[inline]
    pub fn record_duration(&mut self, latency: Duration) {
        self.record(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Takes in all values of another histogram.
    pub fn merge(&mut self, other: &Self) {
        for (count, other) in self.counts.iter_mut().zip(&other.counts) {
            *count += other;
        }
        self.count += other.count;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.counts.fill(0);
        self.count = 0;
        self.sum = 0;
        self.max = 0;
    }

    /// How many values there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The largest value, exactly.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The mean, exactly; 0 of nothing.
    #[must_use]
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 }
    }

    /// The smallest recorded value that at least `percent` percent of all values do not exceed, within 1 %;
    /// 0 of nothing.
    ///
    /// # Panics
    /// If `percent` is not between 0 and 100.
    #[must_use]
    pub fn percentile(&self, percent: f64) -> u64 {
        assert!((0.0..=100.0).contains(&percent), "a percentile lies between 0 and 100");
        let rank = ((percent / 100.0 * self.count as f64).ceil() as u64).max(1);
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return middle_of(bucket).min(self.max);
            }
        }
        self.max
    }

    /// [`Histogram::percentile`] of nanoseconds, in milliseconds.
    #[must_use]
    pub fn percentile_ms(&self, percent: f64) -> f64 {
        self.percentile(percent) as f64 / 1e6
    }
}

#[inline]
fn bucket_of(value: u64) -> usize {
    if value < EXACT {
        return value as usize;
    }
    // The value has at least EXACT_BITS + 1 bits; its leading EXACT_BITS bits choose the bucket.
    let shift = 64 - value.leading_zeros() - EXACT_BITS;
    let leading = (value >> shift) as usize;
    EXACT as usize + (shift as usize - 1) * HALF + (leading - HALF)
}

fn middle_of(bucket: usize) -> u64 {
    if bucket < EXACT as usize {
        return bucket as u64;
    }
    let above = bucket - EXACT as usize;
    let shift = above / HALF + 1;
    let lower = ((above % HALF + HALF) as u64) << shift;
    lower + ((1u64 << shift) >> 1)
}

#[cfg(test)]
mod tests;
