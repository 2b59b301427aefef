// SPDX-License-Identifier: Apache-2.0
//! What bricks cost: one JSON line for each workload. `cargo run --release -p coeval-brick --example bricks -- memory`
//!
//! - `memory`: rows of one column in transactions of 5,000 rows over 100 bricks, by 4 clients; then purge;
//! - `wide`: the same with 20 columns;
//! - `scan`: sums by group, and filtered, over bricks with and without a purge before.
//!
//! The second argument is the number of rows in millions.

use std::sync::Arc;
use std::time::Instant;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Int64Type};
use coeval_brick::{
    BrickSchema, BrickTable, Column, Dimension, DimensionValues, Metric, Nulls, Reader, Shards,
};
use coeval_txn::{Epoch, EpochClock, Stride};

const CLIENTS: usize = 4;
const SHARDS: usize = 2;
const TRANSACTION_ROWS: usize = 5_000;
const BRICKS: i64 = 100;

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let workload = arguments.next().unwrap_or_else(|| "memory".into());
    let millions: usize = arguments.next().map_or(Ok(10), |text| text.parse())?;
    let rows = millions * 1_000_000;
    match workload.as_str() {
        "memory" => load("aosi-memory", 0, rows),
        "wide" => load("aosi-wide", 19, rows),
        "scan" => scan(rows),
        other => Err(format!("{other}: memory, wide or scan").into()),
    }
}

/// One dimension, whose offsets take `range_bits` bits, and some metrics of eight bytes.
fn table(metrics: usize, range_bits: u32) -> Result<BrickTable, Failure> {
    let range_size = 1 << range_bits;
    let mut columns = vec![Column::Dimension(Dimension {
        name: "key".into(),
        values: DimensionValues::Ordered { data_type: DataType::Int64, origin: 0 },
        cardinality: BRICKS as u64 * range_size,
        range_size,
    })];
    columns.extend((0..metrics).map(|index| {
        Column::Metric(Metric {
            name: format!("m{index}"),
            data_type: DataType::Int64,
            nulls: Nulls::Refused,
        })
    }));
    Ok(BrickTable::new(BrickSchema::new(columns)?, Arc::new(Shards::start(SHARDS, 16)?)))
}

/// A transaction's rows: they touch all bricks, in no order.
fn batch(client: usize, metrics: usize, range_bits: u32) -> Result<RecordBatch, Failure> {
    let value = |row: usize| (row as i64 * 7_919 + client as i64 * 104_729) & i64::from(u32::MAX);
    let key = |row: usize| ((value(row) % BRICKS) << range_bits) + (value(row) & ((1 << range_bits) - 1));
    let keys: Int64Array = (0..TRANSACTION_ROWS).map(key).collect();
    let values: ArrayRef = Arc::new((0..TRANSACTION_ROWS).map(value).collect::<Int64Array>());
    let metrics = (0..metrics).map(|index| (format!("m{index}"), Arc::clone(&values)));
    Ok(RecordBatch::try_from_iter(
        std::iter::once(("key".to_owned(), Arc::new(keys) as ArrayRef)).chain(metrics),
    )?)
}

/// Loads `rows` rows; how long that took.
fn fill(
    table: &BrickTable,
    clock: &EpochClock,
    metrics: usize,
    range_bits: u32,
    rows: usize,
) -> Result<f64, Failure> {
    let batches =
        (0..CLIENTS).map(|client| batch(client, metrics, range_bits)).collect::<Result<Vec<_>, _>>()?;
    let transactions = rows / TRANSACTION_ROWS / CLIENTS;
    let start = Instant::now();
    std::thread::scope(|scope| {
        let client = |batch: RecordBatch| {
            scope.spawn(move || {
                for _ in 0..transactions {
                    let load = table.route(&batch, 0)?.load;
                    let epoch = clock.begin().epoch;
                    table.append(epoch, load)?.wait()?;
                    clock.commit(&[epoch]);
                }
                Ok::<(), Failure>(())
            })
        };
        let clients: Vec<_> = batches.into_iter().map(client).collect();
        clients.into_iter().try_for_each(|client| client.join().expect("a client does not panic"))
    })?;
    Ok(start.elapsed().as_secs_f64())
}

fn load(name: &str, metrics: usize, rows: usize) -> Result<(), Failure> {
    const RANGE_BITS: u32 = 33;
    let (table, clock) = (table(metrics, RANGE_BITS)?, EpochClock::new(Stride::ALONE));
    let seconds = fill(&table, &clock, metrics, RANGE_BITS, rows)?;
    let peak = table.memory();
    let start = Instant::now();
    table.purge(clock.advance_safe(Epoch::MAX))?.wait()?;
    let purge_ms = start.elapsed().as_secs_f64() * 1e3;
    let purged = table.memory();
    let data_bytes = peak.rows * (1 + metrics) * 8;
    let ratio = |bytes: usize| bytes as f64 / data_bytes as f64;
    println!(
        "{{\"workload\": \"{name}\", \"rows\": {}, \"columns\": {}, \"bricks\": {BRICKS}, \"clients\": {CLIENTS}, \
         \"transaction_rows\": {TRANSACTION_ROWS}, \"seconds\": {seconds:.3}, \"rows_per_second\": {:.0}, \
         \"bytes_per_second\": {:.0}, \"data_bytes\": {data_bytes}, \"block_bytes\": {}, \"epochs_entries\": {}, \
         \"epochs_bytes_peak\": {}, \"epochs_overhead_peak_ratio\": {:.5}, \"purge_ms\": {purge_ms:.1}, \
         \"epochs_bytes_after_purge\": {}, \"epochs_overhead_after_purge_ratio\": {:.6}}}",
        peak.rows,
        1 + metrics,
        peak.rows as f64 / seconds,
        data_bytes as f64 / seconds,
        peak.block_bytes,
        peak.epochs_entries,
        peak.epochs_bytes,
        ratio(peak.epochs_bytes),
        purged.epochs_bytes,
        ratio(purged.epochs_bytes),
    );
    Ok(())
}

/// The sum of the first metric by the low bits of the key, of rows whose metric is at least `low`.
fn sums(table: &BrickTable, reader: &Reader, low: i64) -> [i64; 64] {
    let mut sums = [0_i64; 64];
    let view = table.view(&table.selection());
    for brick in view.bricks() {
        for batch in view.batches(brick, reader, &[0, 1]) {
            let keys = batch.column(0).as_primitive::<Int64Type>().values();
            let values = batch.column(1).as_primitive::<Int64Type>().values();
            for (key, value) in keys.iter().zip(values) {
                let sum = &mut sums[(key & 63) as usize];
                *sum += if *value >= low { *value } else { 0 };
            }
        }
    }
    sums
}

fn scan(rows: usize) -> Result<(), Failure> {
    const RANGE_BITS: u32 = 6;
    const REPEATS: usize = 7;
    let (table, clock) = (table(2, RANGE_BITS)?, EpochClock::new(Stride::ALONE));
    fill(&table, &clock, 2, RANGE_BITS, rows)?;
    let rows = table.memory().rows;
    let pending = clock.begin().epoch;
    table.append(pending, table.route(&batch(0, 2, RANGE_BITS)?, 0)?.load)?.wait()?;
    let measure = |what: &mut dyn FnMut()| {
        let mut times: Vec<f64> = (0..REPEATS)
            .map(|_| {
                let start = Instant::now();
                what();
                start.elapsed().as_secs_f64()
            })
            .collect();
        times.sort_by(f64::total_cmp);
        times[REPEATS / 2]
    };
    for purged in ["no", "yes"] {
        if purged == "yes" {
            table.roll_back(&[pending], &table.whole_bricks(&table.selection())?)?.wait()?;
            clock.roll_back(&[pending]);
            table.purge(clock.advance_safe(Epoch::MAX))?.wait()?;
        }
        let reader = Reader::of(clock.committed());
        let view = table.view(&table.selection());
        let bitmaps = measure(&mut || assert_eq!(view.count(&reader), rows));
        let grouped = measure(&mut || assert!(sums(&table, &reader, 0).iter().sum::<i64>() > 0));
        let filtered = measure(&mut || assert!(sums(&table, &reader, 20_000_000).iter().sum::<i64>() > 0));
        println!(
            "{{\"workload\": \"brick-scan\", \"rows\": {rows}, \"purged\": \"{purged}\", \"threads\": 1, \
             \"visibility_ms\": {:.2}, \"group_by_rows_per_second\": {:.0}, \"filtered_rows_per_second\": {:.0}}}",
            bitmaps * 1e3,
            rows as f64 / grouped,
            rows as f64 / filtered,
        );
    }
    Ok(())
}
