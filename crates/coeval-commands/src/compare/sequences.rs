// SPDX-License-Identifier: Apache-2.0
//! Where sequences stand on a replica.
//!
//! A sequence is of no version: a number that was given stays so, whatever becomes of its transaction. The log says where it goes on
//! behind a crash, which lies ahead of what was given, and a replica stands there. So what has to hold is that no number that the
//! primary has given comes again on the replica. As the primary goes on meanwhile, both are looked at until that holds of one look, or
//! for some seconds.

use super::{Found, Server};
use crate::failure::Failure;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long a replica may take for the record behind which the primary has given numbers.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often both are looked at.
const LOOK: Duration = Duration::from_millis(50);

/// Each sequence, its step, and the number that was given last, if there was one.
const PLACES: &str = "SELECT quote_ident(schemaname) || '.' || quote_ident(sequencename), increment_by, last_value \
    FROM pg_sequences ORDER BY 1";

type Row = Vec<Option<String>>;

impl Found {
    /// Compares where sequences stand. Those that one side alone has are told by their definitions.
    pub(super) async fn compare_sequences(
        &mut self,
        primary: &Server,
        replica: &Server,
    ) -> Result<(), Failure> {
        let begun = Instant::now();
        loop {
            // The primary first: what it has given then is what the replica has to be behind.
            let given = primary.rows(PLACES).await?;
            let behind = behind(&given, &replica.rows(PLACES).await?);
            if behind.is_empty() || begun.elapsed() >= PATIENCE {
                behind.iter().for_each(|line| self.differs(line));
                return Ok(());
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// What is said of sequences that would give numbers again.
fn behind(given: &[Row], kept: &[Row]) -> Vec<String> {
    let name = |row: &Row| row.first().cloned().flatten();
    let number = |row: &Row, column: usize| row.get(column)?.as_ref()?.parse::<i64>().ok();
    let kept: BTreeMap<_, _> = kept.iter().map(|row| (name(row), number(row, 2))).collect();
    let lines = given.iter().filter_map(|row| {
        let (sequence, last) = (name(row)?, number(row, 2)?);
        let stands = *kept.get(&Some(sequence.clone()))?;
        let goes_up = number(row, 1).is_none_or(|step| step > 0);
        let is_behind = stands.is_none_or(|stands| if goes_up { stands < last } else { stands > last });
        let shown = stands.map_or_else(|| "its beginning".to_owned(), |stands| stands.to_string());
        is_behind.then(|| {
            format!("sequences: {sequence}: the primary has given {last}, and the replica stands at {shown}")
        })
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, step: &str, last: Option<&str>) -> Row {
        vec![Some(name.to_owned()), Some(step.to_owned()), last.map(str::to_owned)]
    }

    #[test]
    fn a_sequence_is_right_where_no_number_comes_again() {
        let given = [
            row("public.up", "1", Some("7")),
            row("public.down", "-1", Some("-7")),
            row("public.unused", "1", None),
            row("public.alone", "1", Some("7")),
        ];
        let kept = |up: Option<&str>, down: Option<&str>| {
            [row("public.up", "1", up), row("public.down", "-1", down), row("public.unused", "1", None)]
        };
        for (up, down) in [("7", "-7"), ("1024", "-1024")] {
            assert_eq!(behind(&given, &kept(Some(up), Some(down))), Vec::<String>::new());
        }
        let found = behind(&given, &kept(Some("6"), None));
        assert_eq!(
            found,
            [
                "sequences: public.up: the primary has given 7, and the replica stands at 6",
                "sequences: public.down: the primary has given -7, and the replica stands at its beginning",
            ]
        );
        assert_eq!(behind(&given, &kept(None, Some("-6"))).len(), 2);
    }
}
