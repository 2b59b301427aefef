// SPDX-License-Identifier: Apache-2.0
//! What the demo ends with: tables of what was done, and what the checks found.

use super::live::Live;
use crate::cells::{Alignment, Listing};
use crate::grid::{Colours, print_aligned};
use crate::readable::{grouped, milliseconds};
use coeval_bench::Report;
use coeval_bench::chbench::QUERIES;
use std::io::{self, Write};

/// TPC-C's transactions: their names in reports, and for people.
const TRANSACTIONS: [(&str, &str); 5] = [
    ("new_order", "New-Order"),
    ("payment", "Payment"),
    ("order_status", "Order-Status"),
    ("delivery", "Delivery"),
    ("stock_level", "Stock-Level"),
];

/// What the conditions found in one snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Conditions {
    /// Number of the condition, rows that violate it.
    found: Vec<(usize, u64)>,
}

impl Conditions {
    /// Adds what one condition found.
    pub(crate) fn add(&mut self, number: usize, violations: u64) {
        self.found.push((number, violations));
    }

    fn violations(&self) -> u64 {
        self.found.iter().map(|(_, violations)| violations).sum()
    }

    /// `condition 3 by 2 rows`.
    fn describe(&self) -> String {
        let violated = self.found.iter().filter(|(_, violations)| *violations > 0);
        let texts: Vec<String> =
            violated.map(|(number, rows)| format!("condition {number} by {}", grouped(*rows))).collect();
        texts.join(", ")
    }
}

/// All that was done and found.
pub(crate) struct Summary<'a> {
    report: &'a Report,
    versions_behind_max: u64,
    at_the_end: Conditions,
}

impl<'a> Summary<'a> {
    /// Of a run's report and what was seen meanwhile; the conditions are those checked at the end.
    pub(crate) fn new(report: &'a Report, live: &Live<'_>, at_the_end: Conditions) -> Self {
        Self { report, versions_behind_max: live.versions_behind_max(), at_the_end }
    }

    /// Whether no check found a violation.
    pub(crate) fn is_clean(&self) -> bool {
        self.report.violations() == 0 && self.at_the_end.violations() == 0
    }

    /// What the checks found, in one line.
    pub(crate) fn verdict(&self) -> String {
        let inside = grouped(self.count("snapshot_checks"));
        let end = self.at_the_end.found.len();
        match (self.report.violations(), self.at_the_end.violations()) {
            (0, 0) => format!("{inside} checks inside snapshots and {end} at the end: all passed"),
            (inside_violations, 0) => {
                format!("CHECKS FAILED: {} violations inside snapshots", grouped(inside_violations))
            }
            (inside_violations, _) => format!(
                "CHECKS FAILED: {} violations inside snapshots; at the end {}",
                grouped(inside_violations),
                self.at_the_end.describe()
            ),
        }
    }

    /// Prints everything.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub(crate) fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out)?;
        print_aligned(out, &self.transactions(), Colours::Off)?;
        writeln!(
            out,
            "{} transactions/s; latency p50 {} ms, p99 {} ms; {:.1} % of all attempts met a conflict and ran again\n",
            grouped(self.figure("transactions_per_s").round() as u64),
            milliseconds(self.figure("latency_p50_ms")),
            milliseconds(self.figure("latency_p99_ms")),
            self.figure("abort_rate") * 100.0,
        )?;
        print_aligned(out, &self.queries(), Colours::Off)?;
        writeln!(
            out,
            "{} queries; snapshots were up to {} ms old and {} versions behind when their query ended\n",
            grouped(self.count("queries")),
            milliseconds(self.figure("snapshot_age_max_ms")),
            grouped(self.versions_behind_max),
        )?;
        writeln!(out, "Checks: {}.", self.verdict())
    }

    fn figure(&self, name: &str) -> f64 {
        self.report.value(name).unwrap_or(0.0)
    }

    fn count(&self, name: &str) -> u64 {
        self.figure(name) as u64
    }

    fn transactions(&self) -> Listing {
        let right = Alignment::Right;
        let mut listing = Listing::new(&[
            ("Transaction", Alignment::Left),
            ("Committed", right),
            ("p50 ms", right),
            ("p99 ms", right),
            ("Conflicts", right),
        ]);
        for (name, shown) in TRANSACTIONS {
            let of = |what: &str| format!("{name}_{what}");
            listing.push([
                shown.to_owned(),
                grouped(self.count(&of("committed"))),
                milliseconds(self.figure(&of("p50_ms"))),
                milliseconds(self.figure(&of("p99_ms"))),
                grouped(self.count(&of("conflicts"))),
            ]);
        }
        listing
    }

    /// In two halves beside each other, so that all fit on a screen.
    fn queries(&self) -> Listing {
        let (left, right) = (Alignment::Left, Alignment::Right);
        let half = [("Query", left), ("Runs", right), ("Median ms", right)];
        let mut listing = Listing::new(&[half[0], half[1], half[2], half[0], half[1], half[2]]);
        let rows = QUERIES.len().div_ceil(2);
        for row in 1..=rows {
            let [first, second] = [row, row + rows].map(|number| self.query(number));
            let ([a, b, c], [d, e, f]) = (first, second);
            listing.push([a, b, c, d, e, f]);
        }
        listing
    }

    fn query(&self, number: usize) -> [String; 3] {
        let runs = self.count(&format!("q{number:02}_runs"));
        let median = self.report.value(&format!("q{number:02}_ms"));
        let median = median.map_or_else(|| "-".to_owned(), milliseconds);
        [format!("Q{number}"), grouped(runs), median]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coeval::Database;
    use coeval_bench::{Options, Workload};

    fn summary_of(report: &Report, conditions: Conditions) -> String {
        let db = Database::in_memory().unwrap();
        let live = Live::new(&db, None, None);
        let mut out = Vec::new();
        Summary::new(report, &live, conditions).print(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn report() -> Report {
        let mut report = Report::new(Workload::Chbench, &Options::default(), 1);
        report.figure("transactions_per_s", 4_812.0);
        report.count("new_order_committed", 52_341);
        report.figure("new_order_p50_ms", 0.41);
        report.count("q01_runs", 3);
        report.figure("q01_ms", 85.2);
        report.count("snapshot_checks", 244);
        report
    }

    #[test]
    fn the_tables_have_every_transaction_and_query() {
        let text = summary_of(&report(), Conditions::default());
        for (_, name) in TRANSACTIONS {
            assert!(text.contains(name), "{text}");
        }
        assert!(text.contains("52,341") && text.contains("Q22") && text.contains("85.2"), "{text}");
        assert!(text.contains("244 checks inside snapshots and 0 at the end: all passed"), "{text}");
    }

    #[test]
    fn a_violation_is_named() {
        let mut conditions = Conditions::default();
        conditions.add(1, 0);
        conditions.add(3, 2);
        let mut report = report();
        report.check("tpcc_conditions_in_snapshots", 5);
        let text = summary_of(&report, conditions);
        assert!(
            text.contains("CHECKS FAILED: 5 violations inside snapshots; at the end condition 3 by 2."),
            "{text}"
        );
    }
}
