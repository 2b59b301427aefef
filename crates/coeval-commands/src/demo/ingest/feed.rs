// SPDX-License-Identifier: Apache-2.0
//! A source: loads of events at an even rate, each with the offset that it ends at.

use super::figures::Figures;
use super::{TABLE, until};
use crate::failure::Failure;
use arrow::array::{
    ArrayRef, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray,
};
use coeval::{AppendOptions, Database, Ingested};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Rows of a load: an even number for each of the eight regions.
pub(super) const LOAD_ROWS: usize = 4_800;

const REGIONS: [&str; 8] = ["north", "east", "south", "west", "centre", "islands", "hills", "coast"];
const DEVICES: usize = 1_000;

/// How many sleeps a second there are at most: a source does not sleep longer than this at once, so that it stops soon.
const SLEEP_MAX: Duration = Duration::from_millis(100);

/// Feeds until the figures say that the time is over.
///
/// # Errors
/// If the database refuses a load.
pub(super) fn run(db: &Database, number: usize, rows_per_s: f64, figures: &Figures) -> Result<(), Failure> {
    let failed = |error: coeval::Error| Failure::work("a load was refused", error);
    let source = format!("source {number}");
    let mut offset = db.source_offset(TABLE, &source).map_err(failed)?.map_or(0, |last| last + 1);
    let mut seed = 0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(number as u64 + 1);
    let interval = Duration::from_secs_f64(LOAD_ROWS as f64 / rows_per_s);
    let mut due = Instant::now();
    while figures.is_running() {
        let wait = until(due);
        if !wait.is_zero() {
            std::thread::sleep(wait.min(SLEEP_MAX));
            continue;
        }
        let batch = load(&mut seed);
        let begun = Instant::now();
        let options = AppendOptions::default().source(&source, offset);
        match db.append_with(TABLE, std::slice::from_ref(&batch), &options).map_err(failed)? {
            Ingested::Appended(appended) => figures.note_load(appended.rows, begun.elapsed()),
            Ingested::Repeated => figures.note_violation("an offset was there before its load"),
        }
        offset += 1;
        // Who cannot keep up does not try to catch up later.
        due = (due + interval).max(Instant::now().checked_sub(interval).unwrap_or(due));
    }
    Ok(())
}

/// Events of this moment. Each pair of rows adds up to nothing and goes to two regions.
fn load(seed: &mut u64) -> RecordBatch {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = i64::try_from(since.as_micros()).unwrap_or(i64::MAX);
    let mut random = || {
        // Xorshift: any spread will do.
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        *seed ^= *seed << 17;
        *seed
    };
    let rows = 0..LOAD_ROWS;
    let regions: StringArray = rows.clone().map(|row| Some(REGIONS[row % REGIONS.len()])).collect();
    let devices: Int32Array = rows.clone().map(|_| Some((random() % DEVICES as u64) as i32)).collect();
    let values: Float64Array = rows.clone().map(|_| Some((random() % 10_000) as f64 / 100.0)).collect();
    let balances: Int64Array = rows.map(|row| Some(if row % 2 == 0 { 1 } else { -1 })).collect();
    let columns: [(&str, ArrayRef); 5] = [
        ("at", Arc::new(TimestampMicrosecondArray::from(vec![now; LOAD_ROWS]))),
        ("region", Arc::new(regions)),
        ("device", Arc::new(devices)),
        ("value", Arc::new(values)),
        ("balance", Arc::new(balances)),
    ];
    RecordBatch::try_from_iter(columns).expect("the columns are of one length")
}
