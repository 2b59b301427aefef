// SPDX-License-Identifier: Apache-2.0
//! What the demo ends with: what was done, how the loss of the primary went, how old what readers saw was, and what the checks
//! found.

use super::chart::draw;
use crate::cells::{Alignment, Listing};
use crate::grid::{Colours, print_aligned};
use crate::readable::{grouped, milliseconds};
use coeval_bench::failover::Outcome;
use std::io::{self, Write};

/// Prints everything.
///
/// # Errors
/// If the output cannot be written.
pub(super) fn print(outcome: &Outcome, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out)?;
    print_aligned(out, &transactions(outcome), Colours::Off)?;
    let committed: u64 = outcome.done.iter().map(|done| done.committed).sum();
    let per_s = committed as f64 / outcome.lasted.as_secs_f64().max(1e-9);
    writeln!(out, "{} transactions/s, the failover included", grouped(per_s.round() as u64))?;
    writeln!(out, "{} queries answered by replicas, SERIALIZABLE READ ONLY\n", grouped(outcome.queries))?;
    if let Some(loss) = &outcome.loss {
        writeln!(
            out,
            "{} was killed behind {} acknowledged transactions, and {} promoted: no commits for {} ms.\n",
            loss.lost,
            grouped(loss.acknowledged),
            loss.promoted,
            grouped(loss.outage.as_millis() as u64),
        )?;
    }
    let word = outcome.loss.as_ref().map(|loss| (loss.at, format!("kill -9 of {}", loss.lost)));
    let mark = word.as_ref().map(|(at, word)| (*at, word.as_str()));
    for line in draw(&outcome.ages, outcome.lasted, mark) {
        writeln!(out, "{line}")?;
    }
    writeln!(out, "\nChecks: {}.", verdict(outcome))
}

/// What the checks found, in one line.
pub(super) fn verdict(outcome: &Outcome) -> String {
    let wrong: Vec<String> = outcome
        .checks
        .iter()
        .filter(|(_, violations)| *violations > 0)
        .map(|(name, violations)| format!("{} by {}", name.replace('_', " "), grouped(*violations)))
        .collect();
    if wrong.is_empty() {
        let (inside, others) = (grouped(outcome.snapshot_checks), outcome.checks.len());
        format!(
            "{inside} conditions inside snapshots, and {others} checks of all nodes and of what was acknowledged: all passed"
        )
    } else {
        format!("CHECKS FAILED: {}", wrong.join(", "))
    }
}

fn transactions(outcome: &Outcome) -> Listing {
    let right = Alignment::Right;
    let mut listing = Listing::new(&[
        ("Transaction", Alignment::Left),
        ("Committed", right),
        ("p50 ms", right),
        ("p99 ms", right),
        ("Conflicts", right),
    ]);
    for done in &outcome.done {
        listing.push([
            shown(done.name),
            grouped(done.committed),
            milliseconds(done.latency_p50_ms),
            milliseconds(done.latency_p99_ms),
            grouped(done.conflicts),
        ]);
    }
    listing
}

/// `new_order` as `New-Order`.
fn shown(name: &str) -> String {
    let capital = |word: &str| {
        let mut letters = word.chars();
        letters
            .next()
            .map_or_else(String::new, |first| first.to_uppercase().collect::<String>() + letters.as_str())
    };
    name.split('_').map(capital).collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use coeval_bench::failover::{Done, Loss};
    use std::time::Duration;

    fn outcome() -> Outcome {
        let done =
            |name| Done { name, committed: 52_341, conflicts: 7, latency_p50_ms: 0.4, latency_p99_ms: 3.0 };
        Outcome {
            done: vec![done("new_order"), done("stock_level")],
            lasted: Duration::from_secs(10),
            queries: 61,
            snapshot_checks: 244,
            loss: Some(Loss {
                at: Duration::from_secs(5),
                outage: Duration::from_millis(1_234),
                lost: "node-1".to_owned(),
                promoted: "node-2".to_owned(),
                acknowledged: 26_000,
            }),
            ages: vec![vec![(Duration::from_secs(1), Some(Duration::from_millis(4)))]],
            checks: vec![("orders_at_the_end".to_owned(), 0)],
        }
    }

    fn printed(outcome: &Outcome) -> String {
        let mut out = Vec::new();
        print(outcome, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn all_is_said_of_a_run_that_went_well() {
        let text = printed(&outcome());
        for part in [
            "New-Order",
            "Stock-Level",
            "10,468 transactions/s",
            "node-1 was killed behind 26,000",
            "no commits for 1,234 ms",
            "^ kill -9 of node-1",
            "244 conditions inside snapshots, and 1 checks",
        ] {
            assert!(text.contains(part), "{part:?} is missing in\n{text}");
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        let mut outcome = outcome();
        outcome.checks.push(("history_behind_the_loss".to_owned(), 3));
        assert!(
            printed(&outcome).contains("CHECKS FAILED: history behind the loss by 3"),
            "{}",
            printed(&outcome)
        );
    }
}
