// SPDX-License-Identifier: Apache-2.0
//! GROUP BY of several integers and dates by packed keys and without, in turn:
//! `cargo bench -p coeval-operators --bench packed_groups -- [ROWS]`.
//!
//! Groups are about half as many as rows, as sales by item and customer are. Both ways begin by codes, which give up. Each line has the
//! medians of five runs of both ways, in milliseconds, and their ratio.

mod timed;

use arrow::array::{Array, ArrayRef, Date32Array, Int32Array, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use coeval_operators::coded_groups::{with_coded_groups, with_packed_remainders};
use coeval_operators::packed_groups::with_packed_groups;
use datafusion::datasource::MemTable;
use datafusion::error::Result;
use datafusion::prelude::{SessionConfig, SessionContext};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::sync::Arc;
use timed::{median, milliseconds};

const BATCH_ROWS: usize = 8192;

/// The columns `a` and `b` are never NULL, the others may be.
const QUESTIONS: [&str; 6] = [
    "SELECT a, b, count(*) FROM x GROUP BY a, b",
    "SELECT a, c, sum(v) FROM x GROUP BY a, c",
    "SELECT a, c, d, sum(v), max(v) FROM x GROUP BY a, c, d",
    "SELECT e, c, sum(v) FROM x GROUP BY e, c",
    "SELECT DISTINCT a, c FROM x",
    "SELECT d, a, sum(v) FROM x WHERE a < 10 GROUP BY d, a",
];

fn batch(random: &mut SmallRng, groups: i32) -> Result<RecordBatch> {
    let side = f64::from(groups).sqrt() as i32 + 1;
    let mut integers =
        |most: i32| -> Vec<i32> { (0..BATCH_ROWS).map(|_| random.random_range(0..most)).collect() };
    let (a, b, c, d, v) = (integers(side), integers(side), integers(side), integers(30), integers(1000));
    let e: Vec<i64> = integers(side).into_iter().map(|value| i64::from(value) << 30).collect();
    let columns: [(&str, ArrayRef, bool); 6] = [
        ("a", Arc::new(Int32Array::from(a)), false),
        ("b", Arc::new(Int32Array::from(b)), false),
        ("c", Arc::new(Int32Array::from(c)), true),
        ("d", Arc::new(Date32Array::from(d)), true),
        ("e", Arc::new(Int64Array::from(e)), true),
        ("v", Arc::new(Int32Array::from(v)), true),
    ];
    let field = |(name, column, is_nullable): &(&str, ArrayRef, bool)| -> Field {
        let ty: &DataType = column.data_type();
        Field::new(*name, ty.clone(), *is_nullable)
    };
    let schema = Schema::new(columns.iter().map(field).collect::<Vec<_>>());
    let columns = columns.into_iter().map(|(_, column, _)| column).collect();
    Ok(RecordBatch::try_new(Arc::new(schema), columns)?)
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<usize> = std::env::args().skip(1).filter_map(|one| one.parse().ok()).collect();
    let rows = arguments.first().copied().unwrap_or(2_000_000);
    let mut random = SmallRng::seed_from_u64(1);
    let groups = i32::try_from(rows).unwrap_or(i32::MAX);
    let mut partition =
        || (0..rows / BATCH_ROWS / 2).map(|_| batch(&mut random, groups)).collect::<Result<Vec<_>>>();
    let partitions = vec![partition()?, partition()?];
    let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(2));
    context.register_table("x", Arc::new(MemTable::try_new(partitions[0][0].schema(), partitions)?))?;
    for (number, question) in (1..).zip(QUESTIONS) {
        if arguments.len() > 1 && !arguments[1..].contains(&number) {
            continue;
        }
        let plain = with_coded_groups(context.sql(question).await?.create_physical_plan().await?)?;
        let packed = with_packed_remainders(with_packed_groups(Arc::clone(&plain))?)?;
        let (mut with, mut without) = (Vec::new(), Vec::new());
        for _ in 0..5 {
            with.push(milliseconds(&packed, &context).await?);
            without.push(milliseconds(&plain, &context).await?);
        }
        let (with, without) = (median(with), median(without));
        println!("{:7.1} {:7.1}  {:.2}  {question}", with, without, with / without);
    }
    Ok(())
}
