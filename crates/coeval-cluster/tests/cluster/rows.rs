// SPDX-License-Identifier: Apache-2.0
//! Rows of loads of known sum.

use bytes::Bytes;
use coeval_cluster::{BrickAddress, Load, LoadError, ReadError, Snapshot};
use std::collections::BTreeMap;

/// The bricks that there are.
pub(crate) const BRICKS: u64 = 8;
/// The rows of a load, each in a brick of its own.
pub(crate) const ROWS: u64 = 4;
/// What the rows of a load add up to.
const SUM: i64 = 1_000;

pub(crate) fn brick(number: u64) -> BrickAddress {
    BrickAddress { table: 1, brick: number % BRICKS }
}

/// A row: the load that it is of, and its value.
fn row(load: u64, value: i64) -> Bytes {
    [load.to_le_bytes(), value.to_le_bytes()].concat().into()
}

/// Appends the rows of the load of this number.
pub(crate) async fn fill(load: &mut Load, number: u64) -> Result<(), LoadError> {
    let mut left = SUM;
    for place in 0..ROWS {
        let value = if place + 1 == ROWS { left } else { (number % 97) as i64 - 40 * place as i64 };
        left -= value;
        load.append(brick(number.wrapping_add(place)), row(number, value)).await?;
    }
    Ok(())
}

/// Which loads a snapshot sees, ascending; or what is wrong with one of them.
pub(crate) async fn seen_at(snapshot: &Snapshot) -> Result<Result<Vec<u64>, String>, ReadError> {
    let mut loads: BTreeMap<u64, (u64, i64)> = BTreeMap::new();
    for number in 0..BRICKS {
        for (_, rows) in snapshot.read(brick(number)).await? {
            for row in rows.chunks_exact(16) {
                let (load, value) = row.split_at(8);
                let seen = loads.entry(u64::from_le_bytes(load.try_into().unwrap())).or_default();
                seen.0 += 1;
                seen.1 += i64::from_le_bytes(value.try_into().unwrap());
            }
        }
    }
    let broken = loads.iter().find(|(_, seen)| **seen != (ROWS, SUM));
    Ok(match broken {
        Some((load, (rows, sum))) => {
            Err(format!("{rows} rows of {ROWS} of load {load} are seen at {snapshot:?}; their sum is {sum}"))
        }
        None => Ok(loads.into_keys().collect()),
    })
}
