// SPDX-License-Identifier: Apache-2.0
//! What each part of the layout is worth: plain trees, rows inline, secondary indexes, nesting (P-Trees paper, Table 3), and
//! what query 12 loses without the tree by receipt date (section 8.5).

use std::sync::Arc;
use std::time::Instant;

use rayon::ThreadPool;

use crate::answers::Answer;
use crate::flat::queries::NUMBERS;
use crate::flat::{Flat, Indirect, Inline};
use crate::load;
use crate::olap::{json, mean, median, pool};
use crate::queries::{QUERIES, by_day};
use crate::world::World;

/// The layouts in the order of the table.
const LAYOUTS: [&str; 4] = ["plain", "inline", "secondary", "nested"];

/// Loads the database in all layouts, checks that they answer alike, measures, and prints one JSON line.
///
/// # Panics
/// If an answer of one layout differs from that of another.
pub(crate) fn run(scale: f64, rounds: usize) {
    let tables = load::tables(scale);
    let rows = tables.rows();
    let world = World::new(tables);
    let pools = [1, 2].map(pool);
    let nested = |number: usize| QUERIES[number - 1](&world);
    let expected: Vec<Answer<'_>> = NUMBERS.iter().map(|number| nested(*number)).collect();

    let plain: Flat<Indirect> = Flat::new(&rows, Arc::clone(&world.fixed));
    let mut times = vec![measure(&pools, rounds, &expected, |number| plain.answer(number))];
    drop(plain);
    let inline: Flat<Inline> = Flat::new(&rows, Arc::clone(&world.fixed));
    drop(rows);
    times.push(measure(&pools, rounds, &expected, |number| inline.answer(number)));
    let secondary = inline.with_days();
    times.push(measure(&pools, rounds, &expected, |number| secondary.answer(number)));
    drop(secondary);
    times.push(measure(&pools, rounds, &expected, nested));

    let without = by_day::shipping_modes_by_order;
    assert!(without(&world) == nested(12), "query 12 needs no tree by receipt date for its answer");
    let without = pools.each_ref().map(|pool| pool.install(|| time(rounds, || drop(without(&world)))));
    let columns = LAYOUTS.iter().zip(&times).map(|(layout, [one, two])| {
        format!(
            "{{\"layout\":\"{layout}\",\"one_thread_ms\":{},\"one_thread_mean_ms\":{:.2},\"two_threads_ms\":{},\
             \"two_threads_mean_ms\":{:.2}}}",
            json(one),
            mean(one),
            json(two),
            mean(two),
        )
    });
    println!(
        "{{\"experiment\":\"breakdown\",\"scale\":{scale},\"rounds\":{rounds},\"queries\":{NUMBERS:?},\"layouts\":[{}],\
         \"q12_without_receipt_dates_ms\":{}}}",
        columns.collect::<Vec<String>>().join(","),
        json(&without),
    );
}

/// The median times of the twelve queries in milliseconds, on one thread and on two.
fn measure<'w>(
    pools: &[ThreadPool; 2],
    rounds: usize,
    expected: &[Answer<'_>],
    answer: impl Fn(usize) -> Answer<'w> + Sync,
) -> [Vec<f64>; 2] {
    pools.each_ref().map(|pool| {
        let times = NUMBERS.iter().zip(expected).map(|(number, expected)| {
            assert!(
                pool.install(|| answer(*number)) == *expected,
                "query {number}: the layouts answer alike"
            );
            pool.install(|| time(rounds, || drop(answer(*number))))
        });
        times.collect()
    })
}

/// The median time of some rounds, in milliseconds.
fn time(rounds: usize, work: impl Fn()) -> f64 {
    let round = |_| {
        let start = Instant::now();
        work();
        start.elapsed().as_secs_f64() * 1e3
    };
    median((0..rounds).map(round).collect())
}
