// SPDX-License-Identifier: Apache-2.0
//! Clients that load through one node each. Every load is a batch of known count and sum, with texts that its number tells.
//!
//! Every second client first commits a row that has the number of its load, wherever the primary is: whoever sees such a load beside
//! rows has to see that row. One more client writes such rows and loads in one transaction of the primary: whoever sees the one has to see
//! the other.

use crate::ledger::Ledger;
use crate::nodes::ANSWER;
use crate::session::{At, Refused, Session};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// The rows of a load: one of each month, so that many bricks have some.
pub(crate) const ROWS: u64 = 12;
/// What their numbers add up to.
pub(crate) const SUM: u64 = ROWS * (ROWS + 1) / 2;
/// Loads of one client have numbers from a multiple of this on. Those of clients with odd numbers have rows.
pub(crate) const CLIENT: u64 = 1_000_000_000;
/// The client whose loads are one transaction with their rows. Its number is odd.
pub(crate) const TOGETHER: u64 = 101;
/// Between two loads of a client.
const PAUSE: Duration = Duration::from_millis(60);
/// Between two attempts to reach somebody.
const AGAIN: Duration = Duration::from_millis(100);
/// For so long a client waits for what becomes of its load. A node that is gone holds it up for some seconds.
const PATIENCE: Duration = Duration::from_secs(20);
/// Texts that there are in all.
const NOTES: u64 = 40;

/// The tables that clients use.
pub(crate) const TABLES: [&str; 2] = [
    "CREATE TABLE hits (day date, batch bigint, n bigint, note text) USING brick \
     PARTITION BY (day RANGE SIZE '10 days' FROM '2026-01-01')",
    "CREATE TABLE announced (batch bigint PRIMARY KEY)",
];

/// The statement that loads a batch.
fn statement(load: u64) -> String {
    let rows: Vec<String> = (1..=ROWS)
        .map(|n| format!("('2026-{n:02}-{:02}', {load}, {n}, 'note {}')", load % 28 + 1, load % NOTES))
        .collect();
    format!("INSERT INTO hits (day, batch, n, note) VALUES {}", rows.join(", "))
}

/// A client that loads, one batch after the other.
struct Loader {
    number: u64,
    at: At,
    all: Vec<At>,
    stop: Arc<AtomicBool>,
    ledger: Ledger,
    /// With the primary, once it was found.
    primary: Option<Session>,
}

/// Two clients of each node, and one of the primary, until they are told to stop.
pub(crate) fn begin(nodes: &[At], stop: &Arc<AtomicBool>, ledger: &Ledger) -> Vec<JoinHandle<()>> {
    let clients = nodes.iter().flat_map(|at| [*at; 2]).zip(0..).chain([(nodes[0], TOGETHER)]);
    clients
        .map(|(at, number)| {
            let (all, stop, ledger) = (nodes.to_vec(), Arc::clone(stop), ledger.clone());
            let loader = Loader { number, at, all, stop, ledger, primary: None };
            std::thread::spawn(move || if number == TOGETHER { loader.run_together() } else { loader.run() })
        })
        .collect()
}

/// How it goes on behind a load.
enum Next {
    /// Over the same connection.
    Load,
    /// Over another one.
    Connect,
}

impl Loader {
    fn run(mut self) {
        let mut loads = self.number * CLIENT..;
        while self.goes_on() {
            let Ok(session) = Session::open(self.at, ANSWER) else {
                std::thread::sleep(AGAIN);
                continue;
            };
            while self.goes_on() {
                let load = loads.next().unwrap();
                if self.number % 2 == 1 && !self.announce(load) {
                    std::thread::sleep(AGAIN);
                    continue;
                }
                if let Next::Connect = self.load(&session, load) {
                    break;
                }
                std::thread::sleep(PAUSE);
            }
        }
    }

    /// Rows and loads in one transaction, wherever the primary is.
    fn run_together(mut self) {
        for load in self.number * CLIENT.. {
            while self.goes_on() && self.primary.is_none() {
                self.find_primary();
                std::thread::sleep(PAUSE);
            }
            let Some(primary) = self.primary.take().filter(|_| self.goes_on()) else { return };
            let row = format!("INSERT INTO announced VALUES ({load})");
            self.ledger.told().asked.insert(load);
            match primary.rows(&format!("BEGIN; {row}; {}; COMMIT", statement(load)), PATIENCE) {
                Ok(_) => {
                    let mut told = self.ledger.told();
                    told.acknowledged.insert(load);
                    told.rows.insert(load);
                    drop(told);
                    self.primary = Some(primary);
                }
                // Another session begins another block.
                Err(refused) => {
                    let _ = self.note_refused(load, &refused);
                }
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    /// Loads a batch, and notes what is said of it.
    fn load(&self, session: &Session, load: u64) -> Next {
        self.ledger.told().asked.insert(load);
        let Err(refused) = session.rows(&statement(load), PATIENCE) else {
            self.ledger.told().acknowledged.insert(load);
            return Next::Load;
        };
        self.note_refused(load, &refused)
    }

    /// Notes what is said of a load that is not acknowledged.
    fn note_refused(&self, load: u64, refused: &Refused) -> Next {
        match refused.state() {
            // Nothing of it is left, and it may be run again: or this server takes nothing any more.
            "40001" | "55P03" | "57P03" | "25006" => {
                self.ledger.told().refused.insert(load);
                std::thread::sleep(AGAIN);
                Next::Load
            }
            // All of it is there, or nothing.
            state if state.is_empty() || state.starts_with("08") || state.starts_with("57") => Next::Connect,
            _ => {
                self.ledger.note_broken(format!("load {load} through {:?}: {refused:?}", self.at));
                Next::Connect
            }
        }
    }

    /// Looks for the primary, unless it is known.
    fn find_primary(&mut self) {
        if self.primary.is_none() {
            self.primary = self.all.iter().find_map(|at| writable(*at));
        }
    }

    /// Commits the row of a load, if there is a primary. Whether it is acknowledged.
    fn announce(&mut self, load: u64) -> bool {
        self.find_primary();
        let Some(primary) = &self.primary else { return false };
        if let Err(refused) = primary.rows(&format!("INSERT INTO announced VALUES ({load})"), ANSWER) {
            let state = refused.state();
            let is_expected = ["25006", "40001"].contains(&state)
                || ["08", "57"].iter().any(|class| state.starts_with(class));
            if !state.is_empty() && !is_expected {
                self.ledger.note_broken(format!("row {load}: {refused:?}"));
            }
            self.primary = None;
            return false;
        }
        self.ledger.told().rows.insert(load);
        true
    }
}

/// A session with a server that takes writes.
fn writable(at: At) -> Option<Session> {
    let session = Session::open(at, Duration::from_secs(1)).ok()?;
    let said = session.value("SHOW in_hot_standby", Duration::from_secs(1)).ok()?;
    (said == "off").then_some(session)
}
