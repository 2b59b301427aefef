// SPDX-License-Identifier: Apache-2.0
//! Filters step by step and by DataFusion's operator, in turn: `cargo bench -p coeval-operators --bench stepwise_filter -- [ROWS]`.
//!
//! Each line has the medians of five runs of both ways, in milliseconds, and their ratio. The table takes no filters, so that they stand
//! above its scan; of the joins it is the conditions beside the keys that are compared.

mod timed;

use arrow::array::{
    ArrayRef, Date32Array, Decimal128Array, Float64Array, Int32Array, RecordBatch, StringViewArray,
};
use coeval_operators::compared_pairs::with_compared_pairs;
use coeval_operators::stepwise_filter::with_stepwise_filters;
use datafusion::datasource::MemTable;
use datafusion::error::Result;
use datafusion::prelude::{SessionConfig, SessionContext};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::sync::Arc;
use timed::{median, milliseconds};

const BATCH_ROWS: usize = 8192;

const MODES: [&str; 7] = ["AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK"];

const QUESTIONS: [&str; 9] = [
    "SELECT sum(price) FROM x WHERE ordered < shipped",
    "SELECT sum(price) FROM x WHERE price BETWEEN CAST(100 AS DECIMAL(9, 2)) AND CAST(200 AS DECIMAL(9, 2)) AND item < 9000",
    "SELECT sum(price) FROM x WHERE mode IN ('MAIL', 'SHIP') AND ordered < shipped AND shipped >= DATE '1994-01-01'",
    "SELECT sum(price) FROM x WHERE weight > 0.5 AND weight < 0.6",
    "SELECT item, ordered, shipped, mode, note FROM x WHERE item < 9000 AND ordered < shipped",
    "SELECT item, ordered, shipped, mode, note FROM x WHERE item < 180 AND note LIKE '%7%'",
    "SELECT count(*) FROM x WHERE item % 2 = 0 AND note LIKE '%7%'",
    "SELECT count(*) FROM x a JOIN x b ON a.item = b.item AND a.ordered < b.ordered AND a.mode <> b.mode WHERE a.item < 900",
    "SELECT count(*) FROM x a JOIN x b ON a.item = b.item AND ((a.mode = 'MAIL' AND b.weight < 0.1) OR (a.mode = 'SHIP' AND b.price < CAST(50 AS DECIMAL(9, 2))) OR (b.mode = 'AIR' AND a.weight > 0.9)) WHERE a.item < 900",
];

fn batch(random: &mut SmallRng) -> Result<RecordBatch> {
    let mut whole = |most: i32| (0..BATCH_ROWS).map(|_| random.random_range(0..most)).collect::<Vec<_>>();
    let (items, ordered, delays) = (whole(18_000), whole(9_000), whole(60));
    let modes = whole(MODES.len() as i32).into_iter().map(|mode| MODES[mode as usize]);
    let shipped = ordered.iter().zip(&delays).map(|(ordered, delay)| ordered + delay - 30);
    let prices = whole(100_000).into_iter().map(i128::from);
    let price = Decimal128Array::from_iter_values(prices).with_precision_and_scale(9, 2)?;
    let weights = whole(1_000).into_iter().map(|weight| f64::from(weight) / 1e3);
    let notes = items.iter().map(|item| format!("a note about the item {item}"));
    let columns: [(&str, ArrayRef); 7] = [
        ("shipped", Arc::new(Date32Array::from_iter_values(shipped))),
        ("ordered", Arc::new(Date32Array::from(ordered))),
        ("price", Arc::new(price)),
        ("weight", Arc::new(Float64Array::from_iter_values(weights))),
        ("mode", Arc::new(StringViewArray::from_iter_values(modes))),
        ("note", Arc::new(StringViewArray::from_iter_values(notes))),
        ("item", Arc::new(Int32Array::from(items))),
    ];
    Ok(RecordBatch::try_from_iter(columns)?)
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
        let compared = with_compared_pairs(Arc::clone(&plain))?;
        let stepwise = with_stepwise_filters(compared, |condition| condition)?;
        let (mut with, mut without) = (Vec::new(), Vec::new());
        for _ in 0..5 {
            with.push(milliseconds(&stepwise, &context).await?);
            without.push(milliseconds(&plain, &context).await?);
        }
        let (with, without) = (median(with), median(without));
        println!("{with:7.1} {without:7.1}  {:.2}  {question}", with / without);
    }
    Ok(())
}
