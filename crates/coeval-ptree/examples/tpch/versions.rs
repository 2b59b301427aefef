// SPDX-License-Identifier: Apache-2.0
//! What old versions cost: collecting them in batches (P-Trees paper, Table 5), and keeping them (Figure 10).

use std::sync::mpsc::channel;
use std::thread;
use std::time::Instant;

use coeval_ptree::Memory;
use rayon::iter::{IntoParallelIterator, ParallelIterator};

use crate::olap::{median, pool};
use crate::transactions::{Source, Transaction};
use crate::world::World;

/// Loads the database, runs both experiments, and prints one JSON line.
pub(crate) fn run(scale: f64, count: usize) {
    let (start, _) = crate::load(scale);
    let mut source = Source::new(&start, 7);
    let transactions: Vec<Transaction> = (0..count).map(|_| source.draw()).collect();
    let collected: Vec<String> = [Collector::Both, Collector::Updater, Collector::Other]
        .iter()
        .map(|collector| {
            format!("\"{collector:?}\":{{{}}}", collecting_all(&start, &transactions, *collector))
        })
        .collect();
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

/// Who drops old versions.
#[derive(Clone, Copy, Debug)]
enum Collector {
    /// The updating thread and another one, while the updates wait (as in the paper).
    Both,
    /// The updating thread alone, so that all memory returns to the thread that took it.
    Updater,
    /// Another thread, beside the updates.
    Other,
}

/// The seconds that transactions take by the number of versions that are collected at once, each the median of three
/// rounds in turn; the fields of a JSON object.
fn collecting_all(start: &World, transactions: &[Transaction], collector: Collector) -> String {
    let batches = [10, 50, 100, usize::MAX];
    let mut seconds = [(); 4].map(|()| Vec::new());
    for _ in 0..3 {
        for (batch, seconds) in batches.iter().zip(&mut seconds) {
            seconds.push(collecting(start, transactions, *batch, collector));
        }
    }
    let fields = batches.iter().zip(seconds).map(|(batch, seconds)| {
        let batch = if *batch == usize::MAX { "never".to_owned() } else { batch.to_string() };
        format!("\"{batch}\":{:.3}", median(seconds))
    });
    fields.collect::<Vec<String>>().join(",")
}

/// The seconds until the transactions have run and the last full batch of their old versions is collected, if so many
/// are collected at once.
fn collecting(start: &World, transactions: &[Transaction], batch: usize, collector: Collector) -> f64 {
    let pool = pool(2);
    let (sender, receiver) = channel::<Vec<World>>();
    let mut world = start.clone();
    let mut old = Vec::new();
    let begin = Instant::now();
    thread::scope(|scope| {
        // The scope ends when this thread has, which goes on until the sender is gone and nothing is left.
        scope.spawn(move || receiver.into_iter().for_each(drop));
        pool.install(|| {
            for transaction in transactions {
                old.push(world.clone());
                world.apply(transaction);
                if old.len() == batch {
                    let old = std::mem::take(&mut old);
                    match collector {
                        Collector::Both => old.into_par_iter().for_each(drop),
                        Collector::Updater => old.into_iter().for_each(drop),
                        Collector::Other => sender.send(old).expect("the other thread collects"),
                    }
                }
            }
            drop(sender);
        });
    });
    // What is not collected, all of it if the batch is never full, is dropped behind the clock.
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
