// SPDX-License-Identifier: Apache-2.0
//! The process that the kill tests kill: writes through SQL and through keys, loads in bulk, fills bricks, takes
//! numbers of sequences, changes definitions and runs checkpoints, all at once, until it is killed.
//!
//! `crash_child DIRECTORY SEED FAULT`. It says on its output, one line each:
//!
//! | line | meaning |
//! |---|---|
//! | `open` | the directory is open, the load begins |
//! | `begin W +KEY=VALUE -KEY ...` | worker W begins a transaction with this effect |
//! | `done W` | its commit was acknowledged |
//! | `given S N` | sequence S has given number N |
//! | `error TEXT` | something failed that must not |
//!
//! Each worker owns its keys, so a reader of these lines knows what must be there and what may be.

mod bricks;
mod definitions;
mod faults;
mod loads;
mod rows;
mod sequences;

use coeval::{CheckpointPolicy, Database, Durability, Error, Session};
use coeval_store::{Store, StoreOptions};
use faults::Fault;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

/// What a transaction does to the keys of its worker.
#[derive(Default)]
struct Effect {
    text: String,
}

impl Effect {
    fn put(&mut self, key: impl std::fmt::Display, value: impl std::fmt::Display) {
        write!(self.text, " +{key}={value}").expect("a string takes everything");
    }

    fn remove(&mut self, key: impl std::fmt::Display) {
        write!(self.text, " -{key}").expect("a string takes everything");
    }
}

/// One line, in one write: the reader gets it whole or not at all.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // Nobody listens any more: the parent will end this process.
    let _ = out.write_all(format!("{line}\n").as_bytes()).and_then(|()| out.flush());
}

/// A worker: where its transactions are announced and acknowledged.
struct Worker {
    number: u32,
    fault: Fault,
    dice: SmallRng,
}

impl Worker {
    fn new(number: u32, seed: u64, fault: Fault) -> Self {
        let dice = SmallRng::seed_from_u64(seed.wrapping_mul(31).wrapping_add(u64::from(number)));
        Self { number, fault, dice }
    }

    /// Announces `effect`, runs the transaction until it commits, acknowledges it.
    fn run(
        &mut self,
        effect: &Effect,
        mut transaction: impl FnMut() -> Result<(), Error>,
    ) -> Result<(), Error> {
        say(&format!("begin {}{}", self.number, effect.text));
        if self.fault == Fault::AcknowledgesEarly {
            say(&format!("done {}", self.number));
        }
        loop {
            match transaction() {
                Ok(()) => break,
                Err(error) if error.is_conflict() => {}
                Err(error) => return Err(error),
            }
        }
        if self.fault != Fault::AcknowledgesEarly {
            say(&format!("done {}", self.number));
        }
        Ok(())
    }

    /// The same for a block of SQL statements.
    fn run_sql(&mut self, session: &mut Session, effect: &Effect, block: &[String]) -> Result<(), Error> {
        self.run(effect, || {
            let outcome = session
                .execute("BEGIN")
                .and_then(|_| block.iter().try_for_each(|sql| session.execute(sql).map(drop)))
                .and_then(|()| session.execute("COMMIT"));
            if outcome.is_err() {
                session.execute("ROLLBACK")?;
            }
            outcome.map(drop)
        })
    }
}

fn open(dir: &Path, fault: Fault) -> Result<Database, Error> {
    let checkpoint =
        CheckpointPolicy::Automatic { delta_entries: 1_000, delta_percent: 10, log_bytes: 1 << 18 };
    let options = StoreOptions { durability: Durability::Fsync, checkpoint, ..StoreOptions::default() };
    Database::with_store(Store::open_with(fault.files(), dir, options)?)
}

fn checkpoints(db: &Database, mut dice: SmallRng) -> Result<(), Error> {
    loop {
        std::thread::sleep(Duration::from_millis(dice.random_range(0..40)));
        db.checkpoint()?;
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, dir, seed, fault] = &arguments[..] else { panic!("crash_child DIRECTORY SEED FAULT") };
    let seed: u64 = seed.parse().expect("the seed is a number");
    let fault = Fault::named(fault).expect("the fault has a name that is known");
    let db = match open(Path::new(dir), fault) {
        Ok(db) => db,
        Err(error) => return say(&format!("error open: {error}")),
    };
    say("open");
    type Job = fn(Worker, &Database) -> Result<(), Error>;
    let jobs: [Job; 8] = [
        definitions::work,
        loads::work,
        rows::work_in_sql,
        rows::work_in_sql,
        rows::work_by_key,
        bricks::work_with_offsets,
        bricks::work_in_sql,
        sequences::work,
    ];
    std::thread::scope(|scope| {
        for (number, job) in jobs.into_iter().enumerate() {
            let worker = Worker::new(number as u32, seed, fault);
            let db = &db;
            scope.spawn(move || {
                let outcome = job(worker, db);
                say(&format!("error worker {number}: {:?}", outcome.err()));
            });
        }
        let outcome = checkpoints(&db, SmallRng::seed_from_u64(seed));
        say(&format!("error checkpoint: {:?}", outcome.err()));
    });
}
