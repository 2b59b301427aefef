// SPDX-License-Identifier: Apache-2.0
//! TPC-H: the times of all queries, on one thread and on two (P-Trees paper, section 8.3 and Table 2).

use std::time::Instant;

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::answers::{Answer, difference};
use crate::queries::QUERIES;
use crate::world::World;

/// Loads the database, checks the answers, measures, and prints one JSON line.
///
/// # Panics
/// If an answer at scale 1 is not the published one, or the answers differ between threads.
pub(crate) fn run(scale: f64, rounds: usize) {
    let (world, [generated, built]) = crate::load(scale);
    let pools = [1, 2].map(pool);
    let [one, two] = pools.each_ref().map(|pool| pool.install(|| answers(&world)));
    assert!(one == two, "the answers do not depend on the number of threads");
    if scale == 1.0 {
        let wrong: Vec<String> =
            (1..).zip(&one).filter_map(|(number, answer)| difference(number, answer)).collect();
        assert!(wrong.is_empty(), "wrong answers: {wrong:#?}");
    }
    let [one, two] = pools.each_ref().map(|pool| pool.install(|| times(&world, rounds)));
    println!(
        "{{\"experiment\":\"tpch\",\"scale\":{scale},\"rounds\":{rounds},\"checked\":{},\"generate_s\":{generated:.2},\
         \"build_s\":{built:.2},\"resident_mb\":{:.0},\"one_thread_ms\":{},\"two_threads_ms\":{},\
         \"one_thread_mean_ms\":{:.2},\"two_threads_mean_ms\":{:.2}}}",
        scale == 1.0,
        resident_mb(),
        json(&one),
        json(&two),
        mean(&one),
        mean(&two),
    );
}

/// A pool of so many threads.
pub(crate) fn pool(threads: usize) -> ThreadPool {
    ThreadPoolBuilder::new().num_threads(threads).build().expect("threads can be started")
}

/// The answers of all queries.
pub(crate) fn answers(world: &World) -> Vec<Answer<'_>> {
    QUERIES.iter().map(|query| query(world)).collect()
}

/// The median time of each query, in milliseconds, all queries once in each round.
pub(crate) fn times(world: &World, rounds: usize) -> Vec<f64> {
    let mut times = vec![Vec::new(); QUERIES.len()];
    for _ in 0..rounds {
        for (times, query) in times.iter_mut().zip(QUERIES) {
            let start = Instant::now();
            let answer = query(world);
            times.push(start.elapsed().as_secs_f64() * 1e3);
            drop(answer);
        }
    }
    times.into_iter().map(median).collect()
}

/// The middle one of some times.
pub(crate) fn median(mut times: Vec<f64>) -> f64 {
    times.sort_unstable_by(f64::total_cmp);
    times[times.len() / 2]
}

/// The geometric mean.
pub(crate) fn mean(times: &[f64]) -> f64 {
    (times.iter().map(|time| time.ln()).sum::<f64>() / times.len() as f64).exp()
}

/// A JSON array with two digits behind the point.
pub(crate) fn json(numbers: &[f64]) -> String {
    let numbers: Vec<String> = numbers.iter().map(|number| format!("{number:.2}")).collect();
    format!("[{}]", numbers.join(","))
}

/// Memory of this process, as the system counts it.
pub(crate) fn resident_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kilobytes.unwrap_or(f64::NAN) / 1024.0
}
