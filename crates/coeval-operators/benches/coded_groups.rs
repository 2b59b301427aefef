// SPDX-License-Identifier: Apache-2.0
//! GROUP BY with and without the operator, in turn: `cargo bench -p coeval-operators --bench coded_groups -- [ROWS]`.
//!
//! The columns are those of db-benchmark's groupby questions. Each line has the medians of five runs of both ways, in milliseconds, and
//! their ratio.

mod timed;

use arrow::array::{ArrayRef, Float64Array, Int32Array, RecordBatch, StringViewArray};
use coeval_operators::coded_groups::with_coded_groups;
use datafusion::datasource::MemTable;
use datafusion::error::Result;
use datafusion::prelude::{SessionConfig, SessionContext};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::sync::Arc;
use timed::{median, milliseconds};

const BATCH_ROWS: usize = 8192;

const QUESTIONS: [&str; 10] = [
    "SELECT id1, sum(v1) FROM x GROUP BY id1",
    "SELECT id1, id2, sum(v1) FROM x GROUP BY id1, id2",
    "SELECT id3, sum(v1), avg(v3) FROM x GROUP BY id3",
    "SELECT id4, avg(v1), avg(v2), avg(v3) FROM x GROUP BY id4",
    "SELECT id6, sum(v1), sum(v2), sum(v3) FROM x GROUP BY id6",
    "SELECT id4, id5, stddev(v3) FROM x GROUP BY id4, id5",
    "SELECT id3, max(v1) - min(v2) FROM x GROUP BY id3",
    "SELECT id4, count(*) FROM x GROUP BY id4",
    "SELECT id2, id4, corr(v1, v2) FROM x GROUP BY id2, id4",
    "SELECT id1, id2, id3, id4, id5, id6, sum(v3), count(*) FROM x GROUP BY id1, id2, id3, id4, id5, id6",
];

fn batch(random: &mut SmallRng, groups: i32) -> Result<RecordBatch> {
    let mut integers = |most: i32| -> ArrayRef {
        Arc::new((0..BATCH_ROWS).map(|_| random.random_range(1..=most)).collect::<Int32Array>())
    };
    let (id4, id5, id6) = (integers(100), integers(100), integers(groups));
    let (v1, v2) = (integers(5), integers(15));
    let mut texts = |most: i32, digits: usize| -> ArrayRef {
        let texts = (0..BATCH_ROWS).map(|_| Some(format!("id{:0digits$}", random.random_range(1..=most))));
        Arc::new(texts.collect::<StringViewArray>())
    };
    let (id1, id2, id3) = (texts(100, 3), texts(100, 3), texts(groups, 10));
    let v3: ArrayRef =
        Arc::new((0..BATCH_ROWS).map(|_| random.random_range(0.0..100.0)).collect::<Float64Array>());
    let columns = [id1, id2, id3, id4, id5, id6, v1, v2, v3];
    let names = ["id1", "id2", "id3", "id4", "id5", "id6", "v1", "v2", "v3"];
    Ok(RecordBatch::try_from_iter(names.into_iter().zip(columns))?)
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<usize> = std::env::args().skip(1).filter_map(|one| one.parse().ok()).collect();
    let rows = arguments.first().copied().unwrap_or(2_000_000);
    let mut random = SmallRng::seed_from_u64(1);
    let groups = i32::try_from(rows / 100).unwrap_or(i32::MAX);
    let mut partition =
        || (0..rows / BATCH_ROWS / 2).map(|_| batch(&mut random, groups)).collect::<Result<Vec<_>>>();
    let partitions = vec![partition()?, partition()?];
    let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(2));
    context.register_table("x", Arc::new(MemTable::try_new(partitions[0][0].schema(), partitions)?))?;
    for (number, question) in (1..).zip(QUESTIONS) {
        if arguments.len() > 1 && !arguments[1..].contains(&number) {
            continue;
        }
        let plain = context.sql(question).await?.create_physical_plan().await?;
        let coded = with_coded_groups(Arc::clone(&plain))?;
        let (mut with, mut without) = (Vec::new(), Vec::new());
        for _ in 0..5 {
            with.push(milliseconds(&coded, &context).await?);
            without.push(milliseconds(&plain, &context).await?);
        }
        let (with, without) = (median(with), median(without));
        println!("{:7.1} {:7.1}  {:.2}  {question}", with, without, with / without);
    }
    Ok(())
}
