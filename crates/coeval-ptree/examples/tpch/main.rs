// SPDX-License-Identifier: Apache-2.0
//! The P-Trees paper's experiments on TPC-H and TPC-HC (sections 7 and 8), by hand on nested trees.
//!
//! ```text
//! cargo run --release -p coeval-ptree --example tpch -- queries [SCALE] [ROUNDS]
//! cargo run --release -p coeval-ptree --example tpch -- breakdown [SCALE] [ROUNDS]
//! cargo run --release -p coeval-ptree --example tpch -- hybrid [SCALE] [TRANSACTIONS] [DIRECTORY]
//! cargo run --release -p coeval-ptree --example tpch -- versions [SCALE] [TRANSACTIONS]
//! cargo run --release -p coeval-ptree --example tpch -- space [SCALE]
//! ```
//!
//! `queries` runs all 22 queries on one thread and on two, `ROUNDS` times after a warm-up, and prints the medians. At scale
//! 1 the answers are checked against the published ones. `breakdown` runs twelve of them on flat trees, too. `hybrid` runs TPC-HC: transactions alone, and with queries beside
//! them. `versions` keeps old versions: what collecting them costs, and what they take. `space` counts bytes per entry.
//! One JSON line per experiment.

mod answers;
mod apply;
mod breakdown;
mod check;
mod date;
mod flat;
mod hybrid;
mod load;
mod log;
mod olap;
mod pin;
mod queries;
mod rows;
mod space;
mod text;
mod transactions;
mod versions;
mod world;

use std::env::Args;
use std::iter::Skip;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Instant;

use crate::world::World;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The next argument, if there is one.
fn argument<T: FromStr>(arguments: &mut Skip<Args>, default: T) -> T {
    arguments.next().map_or(default, |text| text.parse().ok().expect("a number"))
}

/// The database at a scale, with the seconds that generating rows and building trees took.
fn load(scale: f64) -> (World, [f64; 2]) {
    let start = Instant::now();
    let tables = load::tables(scale);
    let generated = start.elapsed().as_secs_f64();
    let world = World::new(tables);
    (world, [generated, start.elapsed().as_secs_f64() - generated])
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let experiment = arguments.next().unwrap_or_else(|| "queries".to_owned());
    let scale: f64 = argument(&mut arguments, 1.0);
    match experiment.as_str() {
        "queries" => olap::run(scale, argument(&mut arguments, 5)),
        "breakdown" => breakdown::run(scale, argument(&mut arguments, 5)),
        "hybrid" => {
            let count = argument(&mut arguments, 100_000);
            let directory = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
            hybrid::run(scale, count, &directory);
        }
        "versions" => versions::run(scale, argument(&mut arguments, 100_000)),
        "space" => space::run(scale),
        other => panic!("{other} is no experiment of this program"),
    }
}
