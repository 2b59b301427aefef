// SPDX-License-Identifier: Apache-2.0
//! Loops over columns, compiled for the widest registers that the processor has.
//!
//! A release runs on every x86-64 processor, so its loops use registers of 16 bytes and lack comparisons of 64-bit numbers.
//! Those few that queries spend their time in are compiled three times, and the processor is asked which it can run.

use arrow::buffer::BooleanBuffer;

/// A loop over values. For the loop to use what the processor has, `run` and all that it calls must be `#[inline(always)]`: what is
/// compiled as a function of its own, as the compiler does with large closures, has the narrow registers again.
trait Loop {
    type Output;

    fn run(self) -> Self::Output;
}

/// What the loop answers.
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "calls of functions that not every processor can run")]
fn vectorized<L: Loop>(wanted: L) -> L::Output {
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn with_64_bytes<L: Loop>(wanted: L) -> L::Output {
        wanted.run()
    }
    #[target_feature(enable = "avx2")]
    fn with_32_bytes<L: Loop>(wanted: L) -> L::Output {
        wanted.run()
    }
    let has_64_bytes = is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl");
    if has_64_bytes {
        // SAFETY: the processor has just said that it has these instructions.
        unsafe { with_64_bytes(wanted) }
    } else if is_x86_feature_detected!("avx2") {
        // SAFETY: as above.
        unsafe { with_32_bytes(wanted) }
    } else {
        wanted.run()
    }
}

/// What the loop answers. Other processors have one width, which the release uses.
#[cfg(not(target_arch = "x86_64"))]
fn vectorized<L: Loop>(wanted: L) -> L::Output {
    wanted.run()
}

/// What a value is asked. `passes` must be `#[inline(always)]`, as in a `Loop`, and is best without a branch: `&` instead of `&&`.
pub trait Test<T> {
    /// Whether it passes.
    fn passes(&self, value: T) -> bool;
}

/// For each value whether it passes the test.
pub fn bits_where<T: Copy>(values: &[T], test: &impl Test<T>) -> BooleanBuffer {
    let mut words = vec![0_u64; values.len().div_ceil(u64::BITS as usize)];
    vectorized(BitsWhere { values, words: &mut words, test });
    BooleanBuffer::new(words.into(), 0, values.len())
}

struct BitsWhere<'a, T, F> {
    values: &'a [T],
    words: &'a mut [u64],
    test: &'a F,
}

impl<T: Copy, F: Test<T>> Loop for BitsWhere<'_, T, F> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let mut chunks = self.values.chunks_exact(u64::BITS as usize);
        let (full, rest) = self.words.split_at_mut(chunks.len());
        for (chunk, word) in chunks.by_ref().zip(full) {
            // That there are 64 of them is what lets the compiler compare many at once.
            let chunk: &[T; 64] = chunk.try_into().expect("a chunk has that length");
            let mut bits = 0;
            for (row, value) in chunk.iter().enumerate() {
                bits |= u64::from(self.test.passes(*value)) << row;
            }
            *word = bits;
        }
        for word in rest {
            for (row, value) in chunks.remainder().iter().enumerate() {
                *word |= u64::from(self.test.passes(*value)) << row;
            }
        }
    }
}

/// What two values are asked; the same goes for it as for a [`Test`].
pub trait PairTest<T> {
    /// Whether they pass.
    fn passes(&self, left: T, right: T) -> bool;
}

/// For each place of both, up to the end of the shorter one, whether the values there pass the test.
pub fn bits_where_both<T: Copy>(left: &[T], right: &[T], test: &impl PairTest<T>) -> BooleanBuffer {
    let count = left.len().min(right.len());
    let (left, right) = (&left[..count], &right[..count]);
    let mut words = vec![0_u64; count.div_ceil(u64::BITS as usize)];
    vectorized(BitsWhereBoth { left, right, words: &mut words, test });
    BooleanBuffer::new(words.into(), 0, count)
}

struct BitsWhereBoth<'a, T, F> {
    left: &'a [T],
    right: &'a [T],
    words: &'a mut [u64],
    test: &'a F,
}

impl<T: Copy, F: PairTest<T>> Loop for BitsWhereBoth<'_, T, F> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let mut lefts = self.left.chunks_exact(u64::BITS as usize);
        let mut rights = self.right.chunks_exact(u64::BITS as usize);
        let (full, rest) = self.words.split_at_mut(lefts.len());
        for ((left, right), word) in lefts.by_ref().zip(rights.by_ref()).zip(full) {
            let left: &[T; 64] = left.try_into().expect("a chunk has that length");
            let right: &[T; 64] = right.try_into().expect("a chunk has that length");
            let mut bits = 0;
            for (row, (left, right)) in left.iter().zip(right).enumerate() {
                bits |= u64::from(self.test.passes(*left, *right)) << row;
            }
            *word = bits;
        }
        for word in rest {
            for (row, (left, right)) in lefts.remainder().iter().zip(rights.remainder()).enumerate() {
                *word |= u64::from(self.test.passes(*left, *right)) << row;
            }
        }
    }
}

/// What a block of 64 rows is asked. `passing` must be `#[inline(always)]`, as in a `Loop`.
pub trait BlockTest {
    /// Of the rows whose bits are set, those that pass; `first` is the block's first row.
    fn passing(&self, first: usize, among: u64) -> u64;
}

/// Takes away the bits of the rows that do not pass. Blocks of which no row is left are passed over.
pub fn narrow(words: &mut [u64], test: &impl BlockTest) {
    vectorized(Narrow { words, test });
}

struct Narrow<'a, F> {
    words: &'a mut [u64],
    test: &'a F,
}

impl<F: BlockTest> Loop for Narrow<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (block, word) in self.words.iter_mut().enumerate() {
            if *word != 0 {
                *word = self.test.passing(block * u64::BITS as usize, *word);
            }
        }
    }
}

/// The least and the greatest of the values; of none, the greatest and the least that there could be.
pub fn extremes(values: &[i64]) -> (i64, i64) {
    vectorized(Extremes { values })
}

struct Extremes<'a> {
    values: &'a [i64],
}

impl Loop for Extremes<'_> {
    type Output = (i64, i64);

    #[inline(always)]
    fn run(self) -> (i64, i64) {
        let (mut least, mut greatest) = (i64::MAX, i64::MIN);
        for value in self.values {
            least = least.min(*value);
            greatest = greatest.max(*value);
        }
        (least, greatest)
    }
}

/// The sum of all values.
pub fn sum(values: &[i64]) -> i128 {
    vectorized(Sum { values })
}

struct Sum<'a> {
    values: &'a [i64],
}

impl Loop for Sum<'_> {
    type Output = i128;

    #[inline(always)]
    fn run(self) -> i128 {
        let mut sum = Halves::default();
        for value in self.values {
            sum.add(value.cast_unsigned());
        }
        sum.total(self.values.len())
    }
}

/// The sum of the values whose bits are set. The others count as zero instead of being passed over, which would be a branch
/// for each value.
pub fn sum_where(values: &[i64], bits: &BooleanBuffer) -> i128 {
    let words: Vec<u64> = bits.bit_chunks().iter_padded().collect();
    vectorized(SumWhere { values, words: &words })
}

struct SumWhere<'a> {
    values: &'a [i64],
    words: &'a [u64],
}

impl Loop for SumWhere<'_> {
    type Output = i128;

    #[inline(always)]
    fn run(self) -> i128 {
        let mut sum = Halves::default();
        for (values, word) in self.values.chunks(u64::BITS as usize).zip(self.words) {
            for (row, value) in values.iter().enumerate() {
                let kept = (word >> row & 1).wrapping_neg();
                sum.add(value.cast_unsigned() & kept);
            }
        }
        sum.total(self.values.len())
    }
}

/// A sum of the upper 32 bits of values and one of the lower ones, which no number of values that an array has can overflow.
/// The values count from the least one, so that there are no signs, and a processor without wide shifts of signed numbers
/// adds several at once.
#[derive(Default)]
struct Halves {
    high: u64,
    low: u64,
}

impl Halves {
    const LEAST: u64 = i64::MIN.cast_unsigned();

    #[inline(always)]
    fn add(&mut self, value: u64) {
        let above_least = value ^ Self::LEAST;
        self.high += above_least >> 32;
        self.low += above_least & u64::from(u32::MAX);
    }

    /// The sum, of so many values.
    fn total(&self, values: usize) -> i128 {
        (i128::from(self.high) << 32) + i128::from(self.low) + i128::from(i64::MIN) * values as i128
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EDGES: [i64; 9] =
        [0, 1, -1, i64::MIN, i64::MAX, 1 << 32, -(1 << 32), 0xFFFF_FFFF, 4_611_686_018_427_387_904];
    const LENGTHS: [usize; 11] = [0, 1, 7, 8, 9, 63, 64, 65, 128, 200, 1_000];

    fn values(length: usize, step: usize) -> Vec<i64> {
        (0..length).map(|row| EDGES[row * step % EDGES.len()].wrapping_add(row as i64)).collect()
    }

    #[test]
    fn sums_of_any_values_and_bits_are_those_of_wide_numbers() {
        for length in LENGTHS {
            for step in 1..5 {
                let values = values(length, step);
                assert_eq!(sum(&values), values.iter().copied().map(i128::from).sum::<i128>());
                let kept: Vec<bool> = (0..length).map(|row| row * 7 % (step + 1) != 1).collect();
                for from in [0, length.min(5)] {
                    let rows = values.iter().zip(&kept).skip(from);
                    let expected =
                        rows.filter(|(_, kept)| **kept).map(|(value, _)| i128::from(*value)).sum::<i128>();
                    let bits = BooleanBuffer::from(kept.clone()).slice(from, length - from);
                    assert_eq!(sum_where(&values[from..], &bits), expected, "{length} {step} {from}");
                }
            }
        }
    }

    #[test]
    fn extremes_are_those_one_by_one() {
        for length in LENGTHS {
            for step in 1..5 {
                let values = values(length, step);
                let least = values.iter().copied().min().unwrap_or(i64::MAX);
                let greatest = values.iter().copied().max().unwrap_or(i64::MIN);
                assert_eq!(extremes(&values), (least, greatest), "{length} {step}");
            }
        }
    }

    struct Below(i64);

    impl Test<i64> for Below {
        #[inline(always)]
        fn passes(&self, value: i64) -> bool {
            value < self.0
        }
    }

    struct OtherThan(i16);

    impl Test<i16> for OtherThan {
        #[inline(always)]
        fn passes(&self, value: i16) -> bool {
            value != self.0
        }
    }

    #[test]
    fn bits_are_those_of_the_test_one_by_one() {
        for length in LENGTHS {
            let values = values(length, 2);
            for bound in EDGES {
                let expected: Vec<bool> = values.iter().map(|value| *value < bound).collect();
                assert_eq!(bits_where(&values, &Below(bound)), BooleanBuffer::from(expected));
            }
            let short: Vec<i16> = values.iter().map(|value| *value as i16).collect();
            let expected: Vec<bool> = short.iter().map(|value| *value != 3).collect();
            assert_eq!(bits_where(&short, &OtherThan(3)), BooleanBuffer::from(expected));
        }
    }

    struct Less;

    impl PairTest<i64> for Less {
        #[inline(always)]
        fn passes(&self, left: i64, right: i64) -> bool {
            left < right
        }
    }

    #[test]
    fn bits_of_pairs_are_those_of_the_test_one_by_one() {
        for length in LENGTHS {
            let (left, right) = (values(length, 2), values(length + 3, 5));
            let expected: Vec<bool> = left.iter().zip(&right).map(|(left, right)| left < right).collect();
            assert_eq!(bits_where_both(&left, &right, &Less), BooleanBuffer::from(expected));
        }
    }

    /// Every other row, from the first one of each block on.
    struct EveryOther;

    impl BlockTest for EveryOther {
        #[inline(always)]
        fn passing(&self, first: usize, among: u64) -> u64 {
            assert!(among != 0, "nobody asks for the block of row {first}");
            among & 0x5555_5555_5555_5555
        }
    }

    #[test]
    fn blocks_keep_the_rows_that_pass_and_are_asked_if_there_are_some() {
        let mut words = [u64::MAX, 0, 0b111, 1 << 63];
        narrow(&mut words, &EveryOther);
        assert_eq!(words, [0x5555_5555_5555_5555, 0, 0b101, 0]);
    }
}
