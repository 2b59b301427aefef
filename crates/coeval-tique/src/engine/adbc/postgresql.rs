// SPDX-License-Identifier: Apache-2.0
//! PostgreSQL, an engine in another process: what its dialect is, and who owns TiQuE's tables in a database.
//!
//! Two advisory locks of the database say who is there. The owner's own session holds `OWNER`. Each connection holds
//! `PRESENT`, shared, and asks behind that whether the owner's session is still there.
//!
//! **Only the owner writes.** A new owner, which has got `OWNER`, ends all sessions that hold `PRESENT` and waits until they are
//! gone. A connection that gets `PRESENT` later for the former owner finds that owner's session ended, and is closed before its
//! first statement.
//! **No connection outlives a crash of the server unnoticed.** A crash ends all sessions, so a connection whose owner is there
//! belongs to the same run of the server: what is in unlogged tables is there. **A statement that failed does nothing later.** A
//! session whose connection is lost may still be working in the server; the owner's session ends it and waits for that. If that
//! is not possible, the owner's own connection is lost too, and the engine gives no further connections.

use super::interface::{Failure, Link};
use super::{Manners, PLAIN, given};
use crate::engine::{Dialect, EngineError, Indexes, Text, digits};
use crate::interrupt::to_its_end;
use arrow::array::AsArray;
use arrow::datatypes::Int32Type;
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{DataType, Value};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub(super) fn dialect() -> Dialect {
    Dialect {
        name: "PostgreSQL",
        unlogged: "UNLOGGED",
        bytes: |bytes| Value::SingleQuotedString(format!("\\x{}", digits(bytes))),
        // They come in formats of Arrow's that nothing here reads.
        keeps: |kind| !matches!(kind, DataType::Uuid | DataType::Interval { .. }),
        // A third of a page, and some bytes of its own.
        indexes: Indexes::OnKeys { bytes_max: Some(2_600) },
        name_bytes: Some(63),
        ..Dialect::STANDARD
    }
}

/// A commit is on the server's disk when it returns, whatever the server's default is.
pub(super) const MANNERS: Manners = Manners {
    first: &[
        "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'",
        LIMITS_OF_SERVER,
    ],
    given: given_to_postgresql,
    // Queries are wrapped into a COPY, which takes nothing else.
    explain: Some((c"adbc.postgresql.use_copy", c"false")),
    ..PLAIN
};

/// The advisory lock of the owner's session: "tique" in ASCII.
const OWNER: i64 = 0x74_69_71_75_65;
/// The advisory lock that connections share.
const PRESENT: i64 = OWNER + 1;
/// How long a new owner waits for the session of the last one to end.
const HANDING_OVER: Duration = Duration::from_secs(2);
/// How long to wait until a session that was told to end is gone.
const LEAVING: Duration = Duration::from_secs(30);

/// Seconds, but for the last: milliseconds.
const LIMITS: [(&str, &str); 5] = [
    ("connect_timeout", "10"),
    ("keepalives_idle", "30"),
    ("keepalives_interval", "5"),
    ("keepalives_count", "3"),
    ("tcp_user_timeout", "45000"),
];
/// The same for the server: it gives up the sessions of a process whose network is gone, and what they own with them.
const LIMITS_OF_SERVER: &str = "SELECT set_config('tcp_keepalives_idle', '30', false), \
                                set_config('tcp_keepalives_interval', '5', false), \
                                set_config('tcp_keepalives_count', '3', false), \
                                set_config('tcp_user_timeout', '45000', false), \
                                set_config('idle_session_timeout', '0', false)";

/// The sessions of this database that hold an advisory lock in this mode, with their process's number.
fn holders(lock: i64, mode: &str) -> String {
    format!(
        "FROM pg_locks WHERE locktype = 'advisory' AND granted AND mode = '{mode}' AND objsubid = 1 \
         AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) \
         AND classid::bigint = {} AND objid::bigint = {}",
        lock >> 32,
        lock & 0xffff_ffff
    )
}

/// The ownership of TiQuE's tables in a database, until it is lost or given back.
///
/// # Locking
/// `session` is held during a question to the server, inside of nothing; who waits for it waits for the answer.
pub(super) struct Ownership {
    /// The owner's session; none once it is known to have ended.
    session: Mutex<Option<Link>>,
    /// Set when the owner's session has ended. Each transaction that begins looks here, so that it does not wait while somebody
    /// else asks the server.
    has_ended: AtomicBool,
}

impl Ownership {
    /// Makes this session the owner's.
    ///
    /// # Errors
    /// `Refused`: another session is. `Lost`: those of the last owner cannot be ended; the server is not there.
    pub(super) fn take(mut session: Link) -> Result<Self, EngineError> {
        session.run(LIMITS_OF_SERVER).map_err(lost)?;
        // The last owner's session may be about to end.
        if !is_locked_within(&mut session, OWNER, HANDING_OVER)? {
            let message = "another process owns the tables of TiQuE in this database (advisory lock)";
            return Err(EngineError::refused(message));
        }
        let end = format!("SELECT pg_terminate_backend(pid) {}", holders(PRESENT, "ShareLock"));
        session.run(&end).map_err(lost)?;
        if !is_locked_within(&mut session, PRESENT, LEAVING)? {
            return Err(EngineError::lost("connections of the last owner of TiQuE's tables do not end"));
        }
        session.run(&format!("SELECT pg_advisory_unlock({PRESENT})")).map_err(lost)?;
        Ok(Self { session: Mutex::new(Some(session)), has_ended: AtomicBool::new(false) })
    }

    /// Makes a session one of the owner's; the number of its process in the server.
    ///
    /// # Errors
    /// The ownership has ended.
    pub(super) fn admit(&self, link: &mut Link) -> Result<i32, EngineError> {
        let sql = format!("SELECT pg_backend_pid(), pg_advisory_lock_shared({PRESENT})::text");
        let rows = link.run(&sql).map_err(lost)?;
        let number = rows.batches.iter().find_map(|batch| batch.column(0).as_primitive_opt::<Int32Type>());
        let number = number.filter(|numbers| !numbers.is_empty()).map(|numbers| numbers.value(0));
        let number = number.ok_or_else(|| EngineError::refused("the server did not say who serves us"))?;
        // It sees the connection if both are on the same server: an address may name several.
        let is_owner = format!(
            "SELECT EXISTS (SELECT 1 {} AND pid = pg_backend_pid()) AND EXISTS (SELECT 1 {} AND pid = {number})",
            holders(OWNER, "ExclusiveLock"),
            holders(PRESENT, "ShareLock")
        );
        match self.ask(&is_owner) {
            true => Ok(number),
            false => Err(EngineError::lost(
                "the session that owned the tables of TiQuE has ended: the server went away, or somebody ended it",
            )),
        }
    }

    /// Ends a session that may still be working in the server. When this returns it works no more, or the engine gives no further
    /// connections.
    pub(super) fn end(&self, number: i32) {
        let holders = format!("{} AND pid = {number}", holders(PRESENT, "ShareLock"));
        // Should it have ended by itself meanwhile, this says false and the next question yes.
        self.ask(&format!("SELECT count(pg_terminate_backend(pid, {})) >= 0 {holders}", LEAVING.as_millis()));
        self.ask(&format!("SELECT count(*) = 0 {holders}"));
    }

    /// Looks whether it has ended, when a connection could not be made.
    pub(super) fn look(&self) {
        self.ask("SELECT true");
    }

    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }

    /// Gives it back: others may own the tables.
    pub(super) fn give_back(&self) {
        self.has_ended.store(true, Ordering::Relaxed);
        drop(self.session.lock().take());
    }

    /// Asks the owner's session a question; any answer but yes is the end of the ownership. So the question is not cancelled with the
    /// statement that it is asked for.
    fn ask(&self, question: &str) -> bool {
        let mut session = self.session.lock();
        let is_yes = |session: &mut Link| to_its_end(|| is_true(session, question)).unwrap_or(false);
        let answer = session.as_mut().is_some_and(is_yes);
        if !answer {
            *session = None;
            self.has_ended.store(true, Ordering::Relaxed);
        }
        answer
    }
}

/// Whether a session gets an advisory lock within this time.
fn is_locked_within(session: &mut Link, lock: i64, time: Duration) -> Result<bool, EngineError> {
    session.run(&format!("SET lock_timeout = {}", time.as_millis())).map_err(lost)?;
    let outcome = session.run(&format!("SELECT pg_advisory_lock({lock})::text"));
    match outcome {
        // The driver does not say which error it was. Who is there and has no lock has waited for it.
        Err(failure) if is_broken(session, &failure) => return Err(lost(failure)),
        _ => session.run("RESET lock_timeout").map_err(lost)?,
    };
    Ok(outcome.is_ok())
}

fn is_true(session: &mut Link, question: &str) -> Result<bool, EngineError> {
    let rows = session.run(question).map_err(lost)?;
    Ok(rows.batches.iter().any(|batch| {
        batch.num_rows() == 1 && batch.column(0).as_boolean_opt().is_some_and(|answer| answer.value(0))
    }))
}

/// An address with limits to how long a network that does not answer is waited for, where it has none of its own.
pub(super) fn with_limits(address: &str) -> String {
    let mut address = address.to_owned();
    let is_uri = address.contains("://");
    for (name, value) in LIMITS {
        if address.contains(&format!("{name}=")) {
            continue;
        }
        match (is_uri, address.contains('?')) {
            (true, true) => address.push('&'),
            (true, false) => address.push('?'),
            (false, _) => address.push(' '),
        }
        address.push_str(name);
        address.push('=');
        address.push_str(value);
    }
    address
}

/// The server did not let us in, or did not answer.
pub(super) fn lost(failure: Failure) -> EngineError {
    EngineError::lost(failure.message)
}

/// Whether a connection is lost with this failure, or was before. The server is asked, but where a SQLSTATE leaves no doubt.
pub(super) fn is_broken(link: &mut Link, failure: &Failure) -> bool {
    /// Connection exceptions, and ends that the server's operator or a crash brings about.
    fn ends(failure: &Failure) -> bool {
        failure.sqlstate.as_deref().is_some_and(|state| state.starts_with("08") || state.starts_with("57P"))
    }
    // Inside of a transaction that has failed it says so, with a SQLSTATE.
    let is_gone = |again: &Failure| again.sqlstate.is_none() || ends(again);
    ends(failure) || link.run("SELECT 1").is_err_and(|again| is_gone(&again))
}

fn given_to_postgresql(value: &ScalarValue) -> String {
    match value {
        ScalarValue::Binary(Some(bytes)) => Text::Plain.literal(&format!("\\x{}", digits(bytes))),
        other => given(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_gets_the_limits_that_it_does_not_have() {
        let rest = "&keepalives_idle=30&keepalives_interval=5&keepalives_count=3&tcp_user_timeout=45000";
        assert_eq!(with_limits("postgresql://"), format!("postgresql://?connect_timeout=10{rest}"));
        let own = "postgresql://me@h/d?connect_timeout=3";
        assert_eq!(with_limits(own), format!("{own}{rest}"));
        assert!(
            with_limits("host=h dbname=d")
                .starts_with("host=h dbname=d connect_timeout=10 keepalives_idle=30")
        );
    }
}
