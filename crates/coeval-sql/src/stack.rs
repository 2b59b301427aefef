// SPDX-License-Identifier: Apache-2.0
//! Room on the stack for what calls itself at each level of a statement.
//!
//! How much stack a level takes depends on how this crate was compiled: without optimization, a function that matches some forty
//! cases has a place on the stack for each value of each case, and takes ten times as much. So nothing here relies on the size of a
//! level. Whatever calls itself at each level of an expression or of a plan, and has more than a few values at each, asks for
//! room before it does, as the parser and DataFusion do; where that is scarce, it goes on on a stack that is made for it. How
//! deep a statement may be is counted before (`session/parse/depth.rs`).

/// A level takes less, whatever the compiler makes of it, with all that is called on the way to the next one that asks.
const ROOM_BYTES: usize = 256 << 10;

/// A stack that is made has room for some levels at least. Only what is used is taken from the system.
const MADE_BYTES: usize = 4 << 20;

/// Does something where there is room for it: here, or on a new stack of this thread.
///
/// Cost: some nanoseconds where there is room; else a piece of memory is mapped, and unmapped behind it.
#[inline]
pub(crate) fn with_room<T>(level: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(ROOM_BYTES, MADE_BYTES, level)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes half a kilobyte and more at each level.
    fn sum_to(level: u64) -> u64 {
        let values = std::hint::black_box([level; 64]);
        if level == 0 { 0 } else { values[63] + with_room(|| sum_to(level - 1)) }
    }

    #[test]
    fn what_asks_for_room_goes_as_deep_as_it_likes() {
        let thread = std::thread::Builder::new().stack_size(512 << 10);
        let sum = thread.spawn(|| sum_to(20_000)).unwrap().join().unwrap();
        assert_eq!(sum, 20_000 * 20_001 / 2);
    }
}
