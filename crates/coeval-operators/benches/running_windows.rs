// SPDX-License-Identifier: Apache-2.0
//! Windows batch by batch and by DataFusion's operators, in turn: `cargo bench -p coeval-operators --bench running_windows -- [ROWS]`.
//!
//! Each line has the medians of five runs of both ways, in milliseconds, and their ratio. Rows are sorted for the window in both.

mod timed;

use arrow::array::{ArrayRef, Decimal128Array, Int32Array, RecordBatch};
use coeval_operators::running_windows::with_running_windows;
use datafusion::datasource::MemTable;
use datafusion::error::Result;
use datafusion::prelude::{SessionConfig, SessionContext};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::sync::Arc;
use timed::{median, milliseconds};

const BATCH_ROWS: usize = 8192;

const QUESTIONS: [&str; 6] = [
    "SELECT item, sum(price) OVER (PARTITION BY item ORDER BY day ROWS UNBOUNDED PRECEDING) FROM x",
    "SELECT item, sum(price) OVER (PARTITION BY shop ORDER BY day ROWS UNBOUNDED PRECEDING) FROM x",
    "SELECT item, max(price) OVER w, count(*) OVER w FROM x WINDOW w AS (PARTITION BY item ORDER BY day)",
    "SELECT item, max(price) OVER w, count(*) OVER w FROM x WINDOW w AS (PARTITION BY shop ORDER BY day)",
    "SELECT item, sum(price) OVER w, count(price) OVER w FROM x WINDOW w AS (PARTITION BY item, shop)",
    "SELECT item, sum(price) OVER () FROM x",
];

fn batch(random: &mut SmallRng) -> Result<RecordBatch> {
    let mut whole = |most: i32| {
        let values = (0..BATCH_ROWS).map(|_| random.random_range(0..most));
        Arc::new(Int32Array::from_iter_values(values))
    };
    let (item, shop, day) = (whole(18_000), whole(12), whole(1_800));
    let prices = (0..BATCH_ROWS).map(|_| random.random_range(0..100_000_i128));
    let price = Decimal128Array::from_iter_values(prices).with_precision_and_scale(7, 2)?;
    let columns: [ArrayRef; 4] = [item, shop, day, Arc::new(price)];
    Ok(RecordBatch::try_from_iter(["item", "shop", "day", "price"].into_iter().zip(columns))?)
}

#[tokio::main]
async fn main() -> Result<()> {
    let rows: usize = std::env::args().skip(1).find_map(|one| one.parse().ok()).unwrap_or(1_000_000);
    let mut random = SmallRng::seed_from_u64(1);
    let batches = (rows / BATCH_ROWS / 2).max(1);
    let mut partition = || (0..batches).map(|_| batch(&mut random)).collect::<Result<Vec<_>>>();
    let partitions = vec![partition()?, partition()?];
    let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(2));
    context.register_table("x", Arc::new(MemTable::try_new(partitions[0][0].schema(), partitions)?))?;
    for question in QUESTIONS {
        let plain = context.sql(question).await?.create_physical_plan().await?;
        let running = with_running_windows(Arc::clone(&plain), |_| true)?;
        let (mut with, mut without) = (Vec::new(), Vec::new());
        for _ in 0..5 {
            with.push(milliseconds(&running, &context).await?);
            without.push(milliseconds(&plain, &context).await?);
        }
        let (with, without) = (median(with), median(without));
        println!("{with:7.1} {without:7.1}  {:.2}  {question}", with / without);
    }
    Ok(())
}
