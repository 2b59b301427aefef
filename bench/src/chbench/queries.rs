// SPDX-License-Identifier: Apache-2.0
//! The 22 queries of CH-benCHmark (Cole et al., DBTest 2011): TPC-H's questions asked of TPC-C's tables.
//!
//! Where they differ from the paper:
//! - `mod(a, b)` is written `a % b`;
//! - upper bounds of dates are a hundred years later, because orders are entered today and the paper's bounds
//!   (2012, 2020) would leave nothing to read;
//! - query 8 leaves out years without revenue, for which a share is not defined;
//! - sums that are ordered by have a name.

/// The texts; query `n` of the paper is at `n - 1`.
pub const QUERIES: [&str; 22] = [
    include_str!("queries/q01.sql"),
    include_str!("queries/q02.sql"),
    include_str!("queries/q03.sql"),
    include_str!("queries/q04.sql"),
    include_str!("queries/q05.sql"),
    include_str!("queries/q06.sql"),
    include_str!("queries/q07.sql"),
    include_str!("queries/q08.sql"),
    include_str!("queries/q09.sql"),
    include_str!("queries/q10.sql"),
    include_str!("queries/q11.sql"),
    include_str!("queries/q12.sql"),
    include_str!("queries/q13.sql"),
    include_str!("queries/q14.sql"),
    include_str!("queries/q15.sql"),
    include_str!("queries/q16.sql"),
    include_str!("queries/q17.sql"),
    include_str!("queries/q18.sql"),
    include_str!("queries/q19.sql"),
    include_str!("queries/q20.sql"),
    include_str!("queries/q21.sql"),
    include_str!("queries/q22.sql"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn there_are_22_different_queries_of_one_statement_each() {
        assert_eq!(QUERIES.iter().collect::<BTreeSet<_>>().len(), 22);
        assert!(QUERIES.iter().all(|query| !query.contains(';') && query.contains("SELECT")));
    }
}
