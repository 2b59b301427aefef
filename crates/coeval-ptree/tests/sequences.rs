// SPDX-License-Identifier: Apache-2.0
//! Long random sequences of operations on several versions at once, driven by a stream of bytes as a fuzzer would.
//!
//! Here the real grains apply (unit tests compile with tiny ones), so that the sequential paths of large batches are
//! taken, too. `COEVAL_SEED` replays a sequence, `COEVAL_SEQUENCES` asks for more of them. `examples/fuzz_sequences.rs` is
//! the same for a fuzzer.

#[path = "sequences/steps.rs"]
mod steps;

use rand::rngs::StdRng;
use rand::{Rng, RngCore, SeedableRng};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn random_sequences_on_four_versions_equal_their_models() {
    let (first, count) = match number("COEVAL_SEED") {
        Some(seed) => (seed, 1),
        None => (0, number("COEVAL_SEQUENCES").unwrap_or(60)),
    };
    for seed in first..first + count {
        println!("COEVAL_SEED={seed}");
        let mut random = StdRng::seed_from_u64(seed);
        let mut data = vec![0; random.random_range(100..1_500)];
        random.fill_bytes(&mut data);
        data[0] = (seed % 3) as u8;
        steps::run(&data);
    }
}
