// SPDX-License-Identifier: Apache-2.0
//! How old the safe snapshot of a server is, asked over the wire again and again.
//!
//! The age is the time for which there has been something that the safe snapshot lacks, in whole milliseconds, rounded down.

use crate::error::BenchError;
use crate::wire::Connection;
use std::time::Duration;

/// Asks once.
///
/// # Errors
/// If the server does not answer, or with something else.
pub(crate) fn safe_age(connection: &Connection) -> Result<Duration, BenchError> {
    let said = connection.query_text("SHOW coeval.snapshot_lag")?;
    let age = age_in(&said);
    age.ok_or_else(|| BenchError::Answer(format!("{said} is no age of a safe snapshot")))
}

/// `12 commits, 34 ms, held by ...`
fn age_in(said: &str) -> Option<Duration> {
    let (_, behind) = said.split_once(" commits, ")?;
    let (number, _) = behind.split_once(" ms")?;
    number.parse().ok().map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_read_whoever_holds_it() {
        assert_eq!(age_in("12 commits, 34 ms"), Some(Duration::from_millis(34)));
        let held = "1 commits, 7 ms, held by transaction 5 of process 9";
        assert_eq!(age_in(held), Some(Duration::from_millis(7)));
        assert_eq!(age_in("none"), None);
    }
}
