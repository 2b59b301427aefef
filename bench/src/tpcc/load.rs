// SPDX-License-Identifier: Apache-2.0
//! Brings the population into a database: one thread makes batches while another loads them.

use super::population::{Generator, Sizes, TableBatch};
use super::schema::{DISTRICT, ITEM, TABLES, WAREHOUSE};
use crate::error::BenchError;
use crate::options::Options;
use crate::progress::Progress;
use crate::system::{Console, EmbeddedConsole};
use coeval::Database;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Whether the population is new or was there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Populated {
    /// Loaded just now: nothing has run on it yet.
    New,
    /// Found in the directory, as earlier runs left it.
    Found,
}

/// Makes sure that the database holds a population of the options' size, made with their seed if it is not there.
///
/// # Errors
/// If the database holds another number of warehouses or another population, or refuses the rows.
pub fn populate(db: &Database, options: &Options, progress: &dyn Progress) -> Result<Populated, BenchError> {
    populate_system(&mut EmbeddedConsole::new(db), options, progress)
}

/// The same for any system.
pub(crate) fn populate_system(
    console: &mut dyn Console,
    options: &Options,
    progress: &dyn Progress,
) -> Result<Populated, BenchError> {
    if options.warehouses == 0 {
        return Err(BenchError::Options("TPC-C needs at least one warehouse".to_owned()));
    }
    if console.has_table(&WAREHOUSE)? {
        verify(console, options)?;
        return Ok(Populated::Found);
    }
    TABLES.iter().try_for_each(|table| console.create(table))?;
    let generator = Generator::new(Sizes::new(options.population), options.seed);
    progress.begin("load TPC-C", Some(generator.row_count(options.warehouses)));
    load(console, progress, |batches| {
        send(batches, generator.items()?);
        for warehouse in 1..=options.warehouses as i32 {
            generator.warehouse::<BenchError>(warehouse, |batch| {
                send(batches, batch);
                Ok(())
            })?;
        }
        Ok(())
    })?;
    console.settle()?;
    progress.end();
    Ok(Populated::New)
}

/// A batch, on its way to be loaded.
pub(crate) type BatchSender = SyncSender<TableBatch>;

/// Hands over a batch. If loading has failed nobody takes it, and the loader's error is the one to report.
pub(crate) fn send(batches: &BatchSender, batch: TableBatch) {
    let _ = batches.send(batch);
}

/// Batches that may wait to be loaded: enough that neither side waits for long.
const WAITING_BATCHES_MAX: usize = 4;

/// Loads what `make` sends, each batch in a transaction of its own.
pub(crate) fn load(
    console: &mut dyn Console,
    progress: &dyn Progress,
    make: impl FnOnce(&BatchSender) -> Result<(), BenchError> + Send,
) -> Result<u64, BenchError> {
    let (sender, receiver) = sync_channel(WAITING_BATCHES_MAX);
    std::thread::scope(|scope| {
        let maker = scope.spawn(move || make(&sender));
        let loaded = take(console, progress, receiver);
        let made = maker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let loaded = loaded?;
        made.map(|()| loaded)
    })
}

fn take(
    console: &mut dyn Console,
    progress: &dyn Progress,
    receiver: Receiver<TableBatch>,
) -> Result<u64, BenchError> {
    let mut rows = 0;
    for (table, batch) in receiver {
        let count = batch.num_rows() as u64;
        console.load(table, batch)?;
        progress.advance(count);
        rows += count;
    }
    Ok(rows)
}

/// Whether what the directory holds is what the options ask for.
fn verify(console: &mut dyn Console, options: &Options) -> Result<(), BenchError> {
    let mut count = |table: &str| console.query_number(&format!("SELECT count(*) FROM {table}"));
    let (warehouses, items) = (count(WAREHOUSE.name)?, count(ITEM.name)?);
    let districts = count(DISTRICT.name)?;
    let wanted = i64::from(options.warehouses);
    let sizes = Sizes::new(options.population);
    if warehouses != wanted || districts != wanted * 10 || items != i64::from(sizes.items) {
        return Err(BenchError::Population(format!(
            "the database holds {warehouses} warehouses and {items} items, the options ask for {wanted} and {}; \
             choose another one",
            sizes.items
        )));
    }
    Ok(())
}
