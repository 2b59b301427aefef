// SPDX-License-Identifier: Apache-2.0
//! The age of safe snapshots over time, drawn with letters.
//!
//! Each column is an equal part of the time, with the greatest age that any replica had in it. The scale is one of orders of
//! magnitude: what matters is whether a reader is milliseconds behind, or a second.

use std::fmt::Write;
use std::time::Duration;

/// The ages of one replica: when, and how old; none while it did not answer.
pub(super) type Ages = [(Duration, Option<Duration>)];

/// Fits a terminal of eighty columns with the labels beside it.
const COLUMNS: usize = 64;

/// A row is drawn where the age is at least this, in milliseconds.
const ROWS_MS: [u64; 7] = [1_000, 300, 100, 30, 10, 3, 1];

/// Letters for an age, one for each row that it reaches, for a line of them.
const LEVELS: &[u8; ROWS_MS.len() + 1] = b"_.:-=+*#";

/// The greatest age of each column; none where no replica answered.
fn columns(replicas: &[impl AsRef<Ages>], lasted: Duration) -> Vec<Option<Duration>> {
    let mut columns = vec![None; COLUMNS];
    for (at, age) in replicas.iter().flat_map(|ages| ages.as_ref()) {
        let column = &mut columns[column_of(*at, lasted)];
        *column = (*column).max(*age);
    }
    columns
}

fn column_of(at: Duration, lasted: Duration) -> usize {
    let share = at.as_secs_f64() / lasted.as_secs_f64().max(1e-9);
    ((share * COLUMNS as f64) as usize).min(COLUMNS - 1)
}

/// How many rows an age reaches.
fn reached(age: Duration) -> usize {
    ROWS_MS.iter().filter(|row| age >= Duration::from_millis(**row)).count()
}

/// One letter for an age.
pub(super) fn letter(age: Option<Duration>) -> char {
    age.map_or(' ', |age| char::from(LEVELS[reached(age)]))
}

/// The drawing, line by line. `mark` is a moment with a word about it, which stands below.
pub(super) fn draw(
    replicas: &[impl AsRef<Ages>],
    lasted: Duration,
    mark: Option<(Duration, &str)>,
) -> Vec<String> {
    let columns = columns(replicas, lasted);
    let mut lines = vec!["Age of the replicas' safe snapshots, the greatest in each column:".to_owned()];
    for row in ROWS_MS {
        let bound = Duration::from_millis(row);
        let mut line = format!("{row:>6} ms |");
        line.extend(columns.iter().map(|age| if age.is_some_and(|age| age >= bound) { '#' } else { ' ' }));
        lines.push(line.trim_end().to_owned());
    }
    let mut axis = " ".repeat(9) + " +";
    // A gap: nobody answered.
    axis.extend(columns.iter().map(|age| if age.is_some() { '-' } else { ' ' }));
    let _ = write!(axis, " {:.0} s", lasted.as_secs_f64());
    lines.push(axis);
    if let Some((at, word)) = mark {
        lines.push(format!("{}^ {word}", " ".repeat(11 + column_of(at, lasted))));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64, age_ms: Option<u64>) -> (Duration, Option<Duration>) {
        (Duration::from_secs(seconds), age_ms.map(Duration::from_millis))
    }

    #[test]
    fn the_greatest_age_of_all_replicas_is_drawn_and_gaps_are_left() {
        let (one, other) = (vec![at(0, Some(2)), at(32, None)], vec![at(0, Some(40)), at(63, Some(0))]);
        let lines = draw(&[one, other], Duration::from_secs(64), Some((Duration::from_secs(32), "kill")));
        assert_eq!(lines.len(), ROWS_MS.len() + 3);
        assert_eq!(lines[3], "   100 ms |");
        assert_eq!(lines[4], "    30 ms |#");
        assert_eq!(lines[7], "     1 ms |#");
        assert_eq!(lines[8], format!("          +-{}- 64 s", " ".repeat(62)));
        assert_eq!(lines[9], format!("{}^ kill", " ".repeat(43)));
    }

    #[test]
    fn a_letter_says_how_many_rows_an_age_reaches() {
        let letters =
            [None, Some(0), Some(1), Some(9), Some(5_000)].map(|age| letter(age.map(Duration::from_millis)));
        assert_eq!(letters, [' ', '_', '.', ':', '#']);
    }
}
