// SPDX-License-Identifier: Apache-2.0
//! Clients that append to lists on the primary and read them on the replica: is there a serial order of what they were told?
//!
//! All writers are SERIALIZABLE. So whatever cycle there is goes through a reader on the replica, and is the read-only anomaly
//! of Fekete, O'Neil and O'Neil (2004): readers of the newest state meet it now and then, those of safe snapshots never.

use super::pair::{Kind, Pair};
use crate::error::BenchError;
use crate::histories::{Anomaly, Lists, Notes, Steps, TABLE, anomalies, numbers, record};
use crate::options::{Options, Population};
use crate::progress::Progress;
use crate::report::Report;
use crate::system::Console;
use crate::wire::Connection;
use coeval::Value;
use rand::Rng;
use std::time::Duration;
use tokio_postgres::Statement;

/// Half of them read, on the replica.
const CLIENTS: usize = 8;

/// Enough for some hundred cycles where they are not prevented.
const TRANSACTIONS: usize = 4_000;

/// Transactions where nobody looks at figures.
const TRANSACTIONS_TINY: usize = 400;

/// Records a history of such clients, and looks what is wrong with it.
///
/// # Errors
/// If a server refuses what it must not.
pub(super) fn look(
    pair: &Pair,
    options: &Options,
    progress: &dyn Progress,
    report: &mut Report,
) -> Result<(), BenchError> {
    progress.begin("histories of clients on the primary and on the replica", None);
    let mut console = pair.primary().connect()?;
    console.execute(TABLE)?;
    pair.wait_until_caught_up()?;
    let clients = (0..CLIENTS).map(|number| match number % 2 {
        0 => Client::new(pair.primary().connect()?, "BEGIN ISOLATION LEVEL SERIALIZABLE", Doing::Writing),
        _ => Client::new(pair.replica().connect()?, pair.kind().readers().begin(), Doing::Reading),
    });
    let clients = clients.collect::<Result<Vec<_>, BenchError>>()?;
    let transactions = match options.population {
        Population::Full => TRANSACTIONS,
        Population::Tiny => TRANSACTIONS_TINY,
    };
    let history = record(clients, transactions, options.seed, &|| progress.is_cancelled())?;
    progress.end();
    let found = anomalies(&history);
    let name = pair.kind().name();
    report.count(format!("{name}_history_committed"), history.committed() as u64);
    let is_seen = u64::from(found.contains_key(&Anomaly::WriteSkew));
    match pair.kind() {
        Kind::Rss => report.check("rss_read_only_anomaly", is_seen),
        Kind::Si => report.count("si_read_only_anomaly_is_seen", is_seen),
    }
    let others = found.keys().filter(|anomaly| **anomaly != Anomaly::WriteSkew).count();
    report.check(format!("{name}_other_anomalies"), others as u64);
    console.execute("DROP TABLE lists")
}

/// What a client does all the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    Writing,
    Reading,
}

/// A client, always at the same server.
struct Client {
    connection: Connection,
    begin: &'static str,
    doing: Doing,
    read: Statement,
}

impl Client {
    fn new(connection: Connection, begin: &'static str, doing: Doing) -> Result<Self, BenchError> {
        let read = connection.prepare("SELECT key, list FROM lists WHERE key BETWEEN $1 AND $2")?;
        Ok(Self { connection, begin, doing, read })
    }
}

impl Lists for Client {
    type Error = BenchError;

    fn execute(&mut self, sql: &str) -> Result<(), BenchError> {
        self.connection.execute(sql)
    }

    fn read(&mut self, first: u64, last: u64, _: &mut Steps) -> Result<Vec<(u64, Vec<u64>)>, BenchError> {
        let bounds = [first, last].map(|key| Value::Int64(key as i64));
        let found = self.connection.query(&self.read, &bounds)?;
        let row = |row| (found.number(row, 0) as u64, numbers(found.text(row, 1)));
        Ok((0..found.len()).map(row).collect())
    }

    fn transact(&mut self, notes: &mut Notes<'_>) -> Result<(), BenchError> {
        self.connection.execute(self.begin)?;
        // Writers wait for the disk; readers that did not wait would be through with all their transactions long before.
        match self.doing {
            Doing::Writing => notes.read_and_append(self),
            Doing::Reading => {
                let pause = Duration::from_millis(notes.steps.random.random_range(0..20));
                std::thread::sleep(pause);
                notes.read_many(self)
            }
        }
    }

    fn is_refusal(error: &BenchError) -> bool {
        error.is_conflict()
    }
}
