// SPDX-License-Identifier: Apache-2.0
//! How much of a processor the threads for queries get beside those with transactions.
//!
//! The system gives threads of one process equal parts of a processor that all of them want, and it takes the processor away from one
//! in the middle of its work for another, which the program itself cannot do. So a share other than a half is a nice value of the
//! threads for queries. It holds nobody back while the other side has nothing to do. Threads with transactions keep their nice value,
//! since in a program that embeds the library they are the program's own. Only Linux has nice values of threads; elsewhere a whole process
//! has one.

use crate::error::{SqlError, SqlState};
use std::io;

/// By what factor a thread's part of a processor falls with each step of its nice value.
const STEP: f64 = 1.25;

/// The share of a processor that goes to a thread with transactions beside one that works for queries, where both want it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionsShare(u8);

impl Default for TransactionsShare {
    /// A half.
    fn default() -> Self {
        Self(50)
    }
}

impl TransactionsShare {
    /// The least and the largest share, in percent.
    pub const PERCENTS: (u8, u8) = (5, 95);

    /// So many percent, or the nearest share that there is.
    #[must_use]
    pub fn of_percent(percent: u8) -> Self {
        let (least, most) = Self::PERCENTS;
        Self(percent.clamp(least, most))
    }

    /// By how much the nice value of threads for queries is above that of others. Rounded so that the side with more than a half gets
    /// at least the share that was asked for.
    fn nicer_by(self) -> i32 {
        let transactions = f64::from(self.0);
        let steps = (transactions / (100.0 - transactions)).ln() / STEP.ln();
        let away_from_equal = if steps > 0.0 { steps.ceil() } else { steps.floor() };
        away_from_equal as i32
    }
}

/// The priority of an engine's threads for queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueryPriority {
    /// Their nice value; `None`: what they inherit.
    nice: Option<i32>,
}

impl QueryPriority {
    /// That beside transactions with this share, which this thread is one of.
    ///
    /// # Errors
    /// If the system does not give it.
    pub(crate) fn beside(share: TransactionsShare) -> Result<Self, SqlError> {
        match share.nicer_by() {
            0 => Ok(Self { nice: None }),
            by => tried(by).map(|nice| Self { nice: Some(nice) }).map_err(|error| refused(&error)),
        }
    }

    /// Gives it to this thread, as the first thing that it does.
    pub(crate) fn take(self) {
        if let Some(nice) = self.nice {
            // It was tried before. A thread that does not get it all the same works as well as it can.
            let _ = set_nice(nice);
        }
    }
}

/// The nice value that is so much above this thread's, after a thread has got it.
fn tried(by: i32) -> io::Result<i32> {
    let nice = (nice_of_this_thread()? + by).clamp(-20, 19);
    let trial = std::thread::Builder::new().spawn(move || set_nice(nice))?;
    trial.join().unwrap_or_else(|_| Err(io::Error::other("the trial has panicked")))?;
    Ok(nice)
}

fn refused(error: &io::Error) -> SqlError {
    const HINT: &str = "A share of less than 50 percent for transactions is a higher priority of queries: that takes \
                        CAP_SYS_NICE, or a limit such as LimitNICE=-15 in a unit of systemd.";
    let told = |state, why: &str| {
        SqlError::new(state, format!("threads for queries cannot have another priority: {why}"))
    };
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            told(SqlState::InsufficientPrivilege, &error.to_string()).with_hint(HINT)
        }
        io::ErrorKind::Unsupported => {
            told(SqlState::FeatureNotSupported, "threads have one of their own on Linux alone")
        }
        _ => told(SqlState::InternalError, &error.to_string()),
    }
}

/// The nice value of this thread.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "no crate here asks for it")]
pub(crate) fn nice_of_this_thread() -> io::Result<i32> {
    use nix::errno::Errno;
    use nix::libc::{PRIO_PROCESS, getpriority};
    // -1 is a value, too.
    Errno::clear();
    // SAFETY: it takes numbers, and gives one. A process of the number 0 is the calling thread.
    let nice = unsafe { getpriority(PRIO_PROCESS, 0) };
    match Errno::last_raw() {
        0 => Ok(nice),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Gives this thread a nice value.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "no crate here asks for it")]
fn set_nice(nice: i32) -> io::Result<()> {
    use nix::libc::{PRIO_PROCESS, setpriority};
    // SAFETY: it takes numbers. A process of the number 0 is the calling thread.
    match unsafe { setpriority(PRIO_PROCESS, 0, nice) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(not(target_os = "linux"))]
fn nice_of_this_thread() -> io::Result<i32> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(not(target_os = "linux"))]
fn set_nice(_: i32) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_a_nice_value_and_half_of_it_is_none() {
        let nicer_by = |percent| TransactionsShare::of_percent(percent).nicer_by();
        assert_eq!([50, 60, 75, 90, 95].map(nicer_by), [0, 2, 5, 10, 14]);
        assert_eq!([40, 25, 10, 5].map(nicer_by), [-2, -5, -10, -14]);
        assert_eq!((nicer_by(0), nicer_by(100)), (-14, 14));
        let equal = QueryPriority::beside(TransactionsShare::default()).unwrap();
        assert_eq!(equal, QueryPriority { nice: None });
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_thread_that_takes_a_priority_has_it_alone() {
        let before = nice_of_this_thread().unwrap();
        let priority = QueryPriority::beside(TransactionsShare::of_percent(75)).unwrap();
        let taking = std::thread::spawn(move || {
            priority.take();
            nice_of_this_thread().unwrap()
        });
        assert_eq!(taking.join().unwrap(), (before + 5).min(19));
        assert_eq!(nice_of_this_thread().unwrap(), before);
    }

    #[test]
    fn what_the_system_does_not_give_is_refused_with_a_reason() {
        let of = |kind: io::ErrorKind| refused(&kind.into()).state;
        assert_eq!(of(io::ErrorKind::PermissionDenied), SqlState::InsufficientPrivilege);
        assert_eq!(of(io::ErrorKind::Unsupported), SqlState::FeatureNotSupported);
    }
}
