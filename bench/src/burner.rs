// SPDX-License-Identifier: Apache-2.0
//! Threads that use the processors and nothing else, as much as they are told.

use crate::board::Board;
use crate::machine::thread_cpu;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// How long one burns before it looks whether it has had its share.
const SLICE: Duration = Duration::from_millis(1);

/// Burns `cores` of a processor on this thread, on average, until the board says stop.
pub(crate) fn burn(cores: f64, board: &Board) {
    let (started, before) = (Instant::now(), thread_cpu());
    while !board.is_stopped() {
        let had = thread_cpu().saturating_sub(before);
        if had < started.elapsed().mul_f64(cores) {
            let slice = Instant::now();
            let mut number = 1_u64;
            while slice.elapsed() < SLICE {
                for _ in 0..1_000 {
                    number = black_box(number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
                }
            }
        } else {
            std::thread::sleep(SLICE);
        }
    }
}
