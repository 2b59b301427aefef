// SPDX-License-Identifier: Apache-2.0
//! TPC-C's consistency conditions (clause 3.3.2) as queries that count the violations.
//!
//! Condition 11 holds only for the initial population and is not here. All others hold in every snapshot.

use crate::engine::query_number;
use crate::error::BenchError;
use crate::report::Report;
use crate::system::Console;
use coeval::Session;

/// A condition: its number and a query that answers with how many warehouses, districts, orders or customers
/// violate it.
#[derive(Clone, Copy, Debug)]
pub struct Condition {
    /// The number in the specification.
    pub number: usize,
    /// The query.
    pub violations: &'static str,
}

/// Every condition that holds at all times, in order. The first four are those that the specification asks to be
/// shown; they are also the cheapest.
pub const CONDITIONS: [Condition; 11] = [
    Condition {
        number: 1,
        violations: "SELECT count(*) FROM warehouse JOIN \
             (SELECT d_w_id, sum(d_ytd) AS ytd FROM district GROUP BY d_w_id) AS d ON d_w_id = w_id \
             WHERE w_ytd <> ytd",
    },
    Condition {
        number: 2,
        violations: "SELECT count(*) FROM district \
             LEFT JOIN (SELECT o_w_id, o_d_id, max(o_id) AS newest FROM orders GROUP BY o_w_id, o_d_id) AS o \
               ON o_w_id = d_w_id AND o_d_id = d_id \
             LEFT JOIN (SELECT no_w_id, no_d_id, max(no_o_id) AS newest_undelivered FROM new_order \
                        GROUP BY no_w_id, no_d_id) AS n ON no_w_id = d_w_id AND no_d_id = d_id \
             WHERE newest IS NULL OR d_next_o_id - 1 <> newest \
                OR coalesce(newest_undelivered, newest) <> newest",
    },
    Condition {
        number: 3,
        violations: "SELECT count(*) FROM \
             (SELECT max(no_o_id) - min(no_o_id) + 1 AS span, count(*) AS orders FROM new_order \
              GROUP BY no_w_id, no_d_id) AS n WHERE span <> orders",
    },
    Condition {
        number: 4,
        violations: "SELECT count(*) FROM \
             (SELECT o_w_id, o_d_id, sum(o_ol_cnt) AS promised FROM orders GROUP BY o_w_id, o_d_id) AS o \
             FULL JOIN (SELECT ol_w_id, ol_d_id, count(*) AS found FROM order_line GROUP BY ol_w_id, ol_d_id) AS l \
               ON ol_w_id = o_w_id AND ol_d_id = o_d_id \
             WHERE coalesce(promised, 0) <> coalesce(found, 0)",
    },
    Condition {
        number: 5,
        violations: "SELECT count(*) FROM orders FULL JOIN new_order \
               ON no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id \
             WHERE o_id IS NULL OR (o_carrier_id IS NULL) <> (no_o_id IS NOT NULL)",
    },
    Condition {
        number: 6,
        violations: "SELECT count(*) FROM orders FULL JOIN \
             (SELECT ol_w_id, ol_d_id, ol_o_id, count(*) AS found FROM order_line \
              GROUP BY ol_w_id, ol_d_id, ol_o_id) AS l \
               ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id \
             WHERE coalesce(o_ol_cnt, 0) <> coalesce(found, 0)",
    },
    Condition {
        number: 7,
        violations: "SELECT count(*) FROM order_line JOIN orders \
               ON o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id \
             WHERE (ol_delivery_d IS NULL) <> (o_carrier_id IS NULL)",
    },
    Condition {
        number: 8,
        violations: "SELECT count(*) FROM warehouse LEFT JOIN \
             (SELECT h_w_id, sum(h_amount) AS paid FROM history GROUP BY h_w_id) AS h ON h_w_id = w_id \
             WHERE w_ytd <> coalesce(paid, 0)",
    },
    Condition {
        number: 9,
        violations: "SELECT count(*) FROM district LEFT JOIN \
             (SELECT h_w_id, h_d_id, sum(h_amount) AS paid FROM history GROUP BY h_w_id, h_d_id) AS h \
               ON h_w_id = d_w_id AND h_d_id = d_id \
             WHERE d_ytd <> coalesce(paid, 0)",
    },
    Condition {
        number: 10,
        violations: "SELECT count(*) FROM customer \
             LEFT JOIN (SELECT o_w_id, o_d_id, o_c_id, sum(ol_amount) AS billed \
                        FROM orders JOIN order_line \
                          ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id \
                        WHERE ol_delivery_d IS NOT NULL GROUP BY o_w_id, o_d_id, o_c_id) AS b \
               ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id \
             LEFT JOIN (SELECT h_c_w_id, h_c_d_id, h_c_id, sum(h_amount) AS paid FROM history \
                        GROUP BY h_c_w_id, h_c_d_id, h_c_id) AS h \
               ON h_c_w_id = c_w_id AND h_c_d_id = c_d_id AND h_c_id = c_id \
             WHERE c_balance <> coalesce(billed, 0) - coalesce(paid, 0)",
    },
    Condition {
        number: 12,
        violations: "SELECT count(*) FROM customer \
             LEFT JOIN (SELECT o_w_id, o_d_id, o_c_id, sum(ol_amount) AS billed \
                        FROM orders JOIN order_line \
                          ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id \
                        WHERE ol_delivery_d IS NOT NULL GROUP BY o_w_id, o_d_id, o_c_id) AS b \
               ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id \
             WHERE c_balance + c_ytd_payment <> coalesce(billed, 0)",
    },
];

/// The conditions that are checked inside every analytical snapshot.
pub const SNAPSHOT_CONDITIONS: &[Condition] = CONDITIONS.split_at(4).0;

/// Counts the violations of these conditions in the session's present snapshot.
///
/// # Errors
/// If a query fails.
pub fn violations(session: &mut Session, conditions: &[Condition]) -> Result<u64, BenchError> {
    let mut found = 0;
    for condition in conditions {
        found += query_number(session, condition.violations)?.unsigned_abs();
    }
    Ok(found)
}

/// Checks every condition in one read-only snapshot and notes what it found in the report.
pub(crate) fn check_all(console: &mut dyn Console, report: &mut Report) -> Result<(), BenchError> {
    console.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")?;
    for condition in CONDITIONS {
        let violations = console.query_number(condition.violations)?;
        report.check(format!("tpcc_condition_{}", condition.number), violations.unsigned_abs());
    }
    console.execute("COMMIT")
}

/// Counts the violations of all conditions in one snapshot of a transaction that begins so.
///
/// # Errors
/// If a query fails.
pub(crate) fn violations_at(console: &mut dyn Console, begin: &str) -> Result<u64, BenchError> {
    console.execute(begin)?;
    let mut found = 0;
    for condition in CONDITIONS {
        found += console.query_number(condition.violations)?.unsigned_abs();
    }
    console.execute("COMMIT")?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_in_order_and_all_count() {
        let numbers: Vec<usize> = CONDITIONS.iter().map(|condition| condition.number).collect();
        assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12]);
        assert!(CONDITIONS.iter().all(|condition| condition.violations.starts_with("SELECT count(*)")));
        assert_eq!(SNAPSHOT_CONDITIONS.len(), 4);
    }
}
