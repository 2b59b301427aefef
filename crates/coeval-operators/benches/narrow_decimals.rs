// SPDX-License-Identifier: Apache-2.0
//! Decimals by 64-bit integers and without, in turn: `cargo bench -p coeval-operators --bench narrow_decimals -- [ROWS]`.
//!
//! The columns are those of TPC-H's `lineitem` that its questions 1 and 6 compute with. Each line has the medians of five runs of both
//! ways, in milliseconds, and their ratio. Groups are found by codes in both.

mod timed;

use arrow::array::{ArrayRef, Decimal128Array, RecordBatch, StringViewArray};
use coeval_operators::coded_groups::with_coded_groups;
use coeval_operators::narrow_decimals::with_narrow_decimals;
use datafusion::datasource::MemTable;
use datafusion::error::Result;
use datafusion::prelude::{SessionConfig, SessionContext};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::sync::Arc;
use timed::{median, milliseconds};

const BATCH_ROWS: usize = 8192;

const QUESTIONS: [&str; 5] = [
    "SELECT flag, status, sum(quantity), sum(price), sum(price * (1 - discount)), \
     sum(price * (1 - discount) * (1 + tax)), sum(discount), count(*) FROM x GROUP BY flag, status",
    "SELECT flag, sum(price * (1 - discount) * (1 + tax)) FROM x GROUP BY flag",
    "SELECT flag, sum(price) FROM x GROUP BY flag",
    "SELECT sum(price * discount) FROM x",
    "SELECT count(*) FROM x WHERE price * (1 - discount) > 50000 * (1 + tax)",
];

fn batch(random: &mut SmallRng) -> Result<RecordBatch> {
    let mut decimals = |least: i128, most: i128| -> Result<ArrayRef> {
        let values = (0..BATCH_ROWS).map(|_| Some(random.random_range(least..=most)));
        Ok(Arc::new(values.collect::<Decimal128Array>().with_precision_and_scale(15, 2)?))
    };
    let quantity = decimals(100, 5_000)?;
    let price = decimals(90_000, 10_494_950)?;
    let (discount, tax) = (decimals(0, 10)?, decimals(0, 8)?);
    let mut texts = |of: &[&str]| -> ArrayRef {
        let texts = (0..BATCH_ROWS).map(|_| Some(of[random.random_range(0..of.len())]));
        Arc::new(texts.collect::<StringViewArray>())
    };
    let (flag, status) = (texts(&["A", "N", "R"]), texts(&["F", "O"]));
    let columns = [quantity, price, discount, tax, flag, status];
    let names = ["quantity", "price", "discount", "tax", "flag", "status"];
    Ok(RecordBatch::try_from_iter(names.into_iter().zip(columns))?)
}

#[tokio::main]
async fn main() -> Result<()> {
    let rows: usize = std::env::args().skip(1).find_map(|one| one.parse().ok()).unwrap_or(2_000_000);
    let mut random = SmallRng::seed_from_u64(1);
    let batches = (rows / BATCH_ROWS / 2).max(1);
    let mut partition = || (0..batches).map(|_| batch(&mut random)).collect::<Result<Vec<_>>>();
    let partitions = vec![partition()?, partition()?];
    let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(2));
    context.register_table("x", Arc::new(MemTable::try_new(partitions[0][0].schema(), partitions)?))?;
    for question in QUESTIONS {
        let planned = context.sql(question).await?.create_physical_plan().await?;
        let plain = with_coded_groups(Arc::clone(&planned))?;
        let narrow = with_coded_groups(with_narrow_decimals(planned)?)?;
        let (mut with, mut without) = (Vec::new(), Vec::new());
        for _ in 0..5 {
            with.push(milliseconds(&narrow, &context).await?);
            without.push(milliseconds(&plain, &context).await?);
        }
        let (with, without) = (median(with), median(without));
        println!("{with:7.1} {without:7.1}  {:.2}  {question}", with / without);
    }
    Ok(())
}
