// SPDX-License-Identifier: Apache-2.0
//! The query on the suppliers of a nation (11).

use std::cmp::Reverse;

use coeval_ptree::Grain;

use crate::answers::{Answer, Value};
use crate::queries::tables::append;
use crate::world::{Fixed, World};

/// Query 11, with the fraction that the specification asks for at this scale.
pub(super) fn important_stock(world: &World) -> Answer<'_> {
    let nation = world.fixed.nation("GERMANY");
    let stock: Vec<(u32, i64)> = world.suppliers.scan(Grain::for_work(100)).semi_map_reduce(
        Vec::new(),
        |mut stock, _, (supplier, part_supps)| {
            if supplier.nation == nation {
                part_supps.iter().for_each(|((part, _), (part_supp, _))| {
                    stock.push((*part, i64::from(part_supp.cost) * i64::from(part_supp.available)));
                });
            }
            stock
        },
        append,
    );
    stock_rows(&world.fixed, stock)
}

/// The answer of query 11, of parts and what they are worth.
pub(crate) fn stock_rows(fixed: &Fixed, mut stock: Vec<(u32, i64)>) -> Answer<'static> {
    stock.sort_unstable_by_key(|(part, _)| *part);
    stock.dedup_by(|again, first| {
        let same = again.0 == first.0;
        first.1 += again.1 * i64::from(same);
        same
    });
    let all: i64 = stock.iter().map(|(_, value)| value).sum();
    // 0.0001 / scale: there are ten thousand suppliers at scale 1.
    let least = all as f64 / fixed.suppliers.len() as f64;
    stock.retain(|(_, value)| *value as f64 > least);
    stock.sort_unstable_by_key(|(_, value)| Reverse(*value));
    stock.into_iter().map(|(part, value)| vec![Value::Count(i64::from(part)), Value::Cents(value)]).collect()
}
