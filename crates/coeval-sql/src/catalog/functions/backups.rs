// SPDX-License-Identifier: Apache-2.0
//! `coeval_backup()`: a backup of the database while it is used. The program that opened the database makes it
//! ([`Backups`](crate::archiving::Backups)).

use super::replication::check_superuser;
use super::{Call, Entry, Gives, strict};
use crate::allowance::Meter;
use crate::archiving::BackupExtent;
use crate::catalog::rows::Cell;
use crate::error::{SqlError, SqlState};
use crate::hand_over::aside;
use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

const NAME: &str = "coeval_backup";

pub(super) const ENTRIES: &[Entry] = &[strict(NAME, 1..=3, Gives::Text, back_up).acting()];

/// What the third argument says, if it says anything.
const ROW_TABLES: &str = "row tables";

/// How often it is looked whether the statement is to end.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// Makes a backup into the archive at the place; says what it was. The second argument, if there is one, is the directory that is
/// meant: who has found the server by chance, as by an address that another one has had, gets no backup of another database; an empty one
/// is any. With `'row tables'` as the third one, rows of tables that are spread over a cluster are left out.
fn back_up(call: &Call<'_>) -> Result<Cell, SqlError> {
    let access = call.access()?;
    check_superuser(access, NAME)?;
    let store = access.store();
    let refused = |message: String| SqlError::new(SqlState::ObjectNotInPrerequisiteState, message);
    let backups = access.backups().ok_or_else(|| {
        SqlError::new(SqlState::FeatureNotSupported, "this process makes no backups").with_hint(
            "coeval serve makes them of a database in a directory, and coeval backup of one that nobody has open.",
        )
    })?;
    if let Some(meant) = call.text(1).filter(|meant| !meant.is_empty())
        && Path::new(meant) != backups.directory()
    {
        let found = backups.directory().display();
        return Err(refused(format!("the database of this server is in {found}, not in {meant}")));
    }
    let place = call.text(0).unwrap_or_default();
    if !place.contains("://") && !Path::new(place).is_absolute() {
        let message = format!("\"{place}\" is no absolute path");
        return Err(SqlError::new(SqlState::InvalidParameterValue, message)
            .with_hint("The server's working directory is another one than yours."));
    }
    let extent = extent(call.text(2))?;
    aside(|| until_stopped(call.meter, |stop| backups.back_up(store, place, extent, stop))).map(Cell::from)
}

/// What the third argument asks for.
fn extent(word: Option<&str>) -> Result<BackupExtent, SqlError> {
    match word {
        None | Some("") => Ok(BackupExtent::Whole),
        Some(ROW_TABLES) => Ok(BackupExtent::RowTables),
        Some(other) => {
            let message = format!("\"{other}\" is not what a backup can be of");
            Err(SqlError::new(SqlState::InvalidParameterValue, message).with_hint(format!(
                "'{ROW_TABLES}' leaves out the rows of tables that are spread over a cluster."
            )))
        }
    }
}

/// What the work gives, which runs on a thread of its own, as it may not run on one of a runtime. It is told to stop as soon as the
/// statement is to end, and waited for until it has.
pub(super) fn until_stopped(
    meter: &Meter,
    work: impl FnOnce(&Arc<AtomicBool>) -> Result<String, SqlError> + Send,
) -> Result<String, SqlError> {
    let stop = Arc::new(AtomicBool::new(false));
    let (working, ended) = channel::<Infallible>();
    let mut asked = Ok(());
    let outcome = thread::scope(|scope| {
        let stop = &stop;
        let thread = thread::Builder::new().name("coeval-called".to_owned());
        let running = thread.spawn_scoped(scope, move || {
            // Goes with the thread, however that ends.
            let _working = working;
            work(stop)
        });
        let running =
            running.map_err(|error| SqlError::internal(format!("cannot start a thread: {error}")))?;
        while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(LOOK_INTERVAL) {
            if asked.is_ok() {
                asked = meter.look();
                stop.store(asked.is_err(), Ordering::Relaxed);
            }
        }
        running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    // What ends in spite of the request is there.
    outcome.map_err(|error| asked.err().unwrap_or(error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allowance::Allowance;
    use crate::cancel::CancelHandle;
    use crate::carried::Carry;
    use datafusion::common::config::ConfigOptions;
    use datafusion::execution::runtime_env::RuntimeEnv;

    /// Waits until it is to stop, as a storage does that does not answer.
    fn endless(stop: &Arc<AtomicBool>) -> Result<String, SqlError> {
        while !stop.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(1));
        }
        Err(SqlError::internal("it was stopped"))
    }

    #[test]
    fn only_what_is_known_is_left_out() {
        assert_eq!((extent(None), extent(Some(""))), (Ok(BackupExtent::Whole), Ok(BackupExtent::Whole)));
        assert_eq!(extent(Some("row tables")), Ok(BackupExtent::RowTables));
        assert_eq!(extent(Some("rows")).unwrap_err().state, SqlState::InvalidParameterValue);
    }

    #[test]
    fn work_is_stopped_when_its_statement_is_cancelled() {
        let handle = CancelHandle::new();
        let _running = handle.begin();
        let mut options = ConfigOptions::new();
        Allowance::of(&RuntimeEnv::default()).carry_in(&mut options);
        let meter = Meter::begin(&options, NAME);
        assert_eq!(until_stopped(&meter, |_| Ok("done".to_owned())), Ok("done".to_owned()));
        let failed = until_stopped(&meter, |_| Err(SqlError::internal("no room")));
        assert_eq!(failed.unwrap_err().message, "no room");
        let cancelling = handle.clone();
        let (begun, beginning) = channel();
        let asking = thread::spawn(move || {
            beginning.recv().unwrap();
            cancelling.cancel();
        });
        let stopped = until_stopped(&meter, |stop| {
            begun.send(()).unwrap();
            endless(stop)
        });
        assert_eq!(stopped.unwrap_err().state, SqlState::QueryCanceled);
        asking.join().unwrap();
    }
}
