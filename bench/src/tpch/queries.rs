// SPDX-License-Identifier: Apache-2.0
//! TPC-H's 22 queries with the specification's validation parameters.
//!
//! Query 15 is written with a common table expression instead of a view (the specification's variant A).

/// The texts; query `n` of the specification is at `n - 1`. Query 11's fraction depends on the scale and is
/// filled in by [`query`].
const TEMPLATES: [&str; 22] = [
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

/// How many queries there are.
pub const QUERY_COUNT: usize = TEMPLATES.len();

/// The text of query `number`, counted from 1, for tables of this scale.
///
/// # Panics
/// If there is no query of this number.
#[must_use]
pub fn query(number: usize, scale: f64) -> String {
    assert!((1..=QUERY_COUNT).contains(&number), "TPC-H has queries 1 to 22");
    let fraction = format!("{:.10}", 0.0001 / scale);
    TEMPLATES[number - 1].replace("FRACTION", &fraction)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn there_are_22_different_queries_of_one_statement_each() {
        let texts: BTreeSet<String> = (1..=QUERY_COUNT).map(|number| query(number, 1.0)).collect();
        assert_eq!(texts.len(), 22);
        assert!(texts.iter().all(|text| !text.contains(';') && text.contains("SELECT")));
    }

    #[test]
    fn the_fraction_of_query_11_shrinks_with_the_scale() {
        assert!(query(11, 1.0).contains("* 0.0001000000"));
        assert!(query(11, 10.0).contains("* 0.0000100000"));
        assert!((1..=QUERY_COUNT).all(|number| !query(number, 1.0).contains("FRACTION")));
    }
}
