// SPDX-License-Identifier: Apache-2.0
//! What old versions cost: collecting them in batches (P-Trees paper, Table 5), and keeping them (Figure 10).

use std::time::Instant;

use coeval_ptree::Memory;
use rayon::iter::{IntoParallelIterator, ParallelIterator};

use crate::olap::pool;
use crate::transactions::{Source, Transaction};
use crate::world::World;

/// Loads the database, runs both experiments, and prints one JSON line.
pub(crate) fn run(scale: f64, count: usize) {
    let (start, _) = crate::load(scale);
    let mut source = Source::new(&start, 7);
    let transactions: Vec<Transaction> = (0..count).map(|_| source.draw()).collect();
    let pool = pool(2);
    let collected: Vec<String> = [10, 50, 100, usize::MAX]
        .map(|batch| {
            let seconds = pool.install(|| collecting(&start, &transactions, batch));
            let batch = if batch == usize::MAX { "never".to_owned() } else { batch.to_string() };
            format!("\"{batch}\":{seconds:.3}")
        })
        .to_vec();
    let orders: Vec<Transaction> = (0..start.orders.len() / 100).map(|_| source.new_order()).collect();
    let kept: Vec<String> = [1, 10, 100, 1_000, orders.len()]
        .map(|kept| {
            let [customers, parts] = keeping(&start, &orders, kept);
            format!("{{\"versions\":{kept},\"customers_bytes\":{customers},\"parts_bytes\":{parts}}}")
        })
        .to_vec();
    println!(
        "{{\"experiment\":\"versions\",\"scale\":{scale},\"transactions\":{count},\"collecting_s\":{{{}}},\
         \"new_orders\":{},\"kept\":[{}]}}",
        collected.join(","),
        orders.len(),
        kept.join(","),
    );
}

/// The seconds that transactions take if so many versions are collected at once, on all threads.
fn collecting(start: &World, transactions: &[Transaction], batch: usize) -> f64 {
    let mut world = start.clone();
    let mut old = Vec::new();
    let begin = Instant::now();
    for transaction in transactions {
        old.push(world.clone());
        world.apply(transaction);
        if old.len() == batch {
            std::mem::take(&mut old).into_par_iter().for_each(drop);
        }
    }
    begin.elapsed().as_secs_f64()
}

/// The bytes that the last versions of the customers and of the parts take more than the first one does.
fn keeping(start: &World, orders: &[Transaction], kept: usize) -> [usize; 2] {
    let mut world = start.clone();
    let mut versions = std::collections::VecDeque::with_capacity(kept);
    for order in orders {
        world.apply(order);
        if versions.len() == kept {
            versions.pop_front();
        }
        versions.push_back(world.clone());
    }
    let all = || std::iter::once(start).chain(&versions);
    let customers = grown(all(), |memory, world| {
        memory.add_with(&world.customers, |memory, _, (_, orders)| {
            memory.add_with(orders, |memory, _, (_, lines)| memory.add(lines));
        });
    });
    let parts = grown(all(), |memory, world| {
        memory.add_with(&world.parts, |memory, _, (_, offers)| {
            memory.add_with(offers, |memory, _, (_, lines)| memory.add(lines));
        });
    });
    [customers, parts]
}

/// The bytes of all worlds less those of the first one, shared nodes counted once.
fn grown<'w>(worlds: impl Iterator<Item = &'w World>, add: impl Fn(&mut Memory<'w>, &'w World)) -> usize {
    let mut memory = Memory::default();
    let mut first = None;
    for world in worlds {
        add(&mut memory, world);
        first.get_or_insert(memory.bytes);
    }
    memory.bytes - first.unwrap_or(0)
}
