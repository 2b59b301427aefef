// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::copy::options::CopyDirection;
use datafusion::sql::sqlparser::ast::{CopyOption, Ident};

fn splitter(format: &str, columns: usize) -> Splitter {
    let format = CopyOption::Format(Ident::new(format));
    Splitter::new(&CopyOptions::new(CopyDirection::From, &[format], &[]).unwrap(), columns)
}

/// The plain records at the start, and what is behind them.
fn split<'a>(splitter: &Splitter, input: &'a str, rows_max: usize) -> (Vec<Vec<&'a str>>, &'a str) {
    let mut block = Block::default();
    let end = splitter.split(input.as_bytes(), 0, rows_max, &mut block);
    let mut records = vec![Vec::new(); block.rows()];
    for column in 0..splitter.columns {
        for (record, place) in records.iter_mut().zip(block.column(column)) {
            record.push(&input[place]);
        }
    }
    (records, &input[end..])
}

#[test]
fn plain_records_are_cut_up_to_the_first_that_is_not() {
    let csv = splitter("csv", 2);
    let two = vec![vec!["1", "abcdefghijklmnop"], vec!["", "x\\y"]];
    let plain = "1,abcdefghijklmnop\n,x\\y\r\n";
    assert_eq!(split(&csv, plain, 9), (two.clone(), ""));
    assert_eq!(split(&csv, plain, 1).0.len(), 1);
    for odd in [
        "3,\"a\"\n",
        "3\n",
        "3,4,5\n",
        "3,4\r5\n",
        "3,4",
        "3,4\r",
        "3,\"",
        "\\.\n",
        "\n",
        "3,",
        "3,45678901234",
    ] {
        assert_eq!(split(&csv, &format!("{plain}{odd}"), 9), (two.clone(), odd), "{odd:?}");
    }
    let text = splitter("text", 2);
    assert_eq!(split(&text, "1\t\"a,\"\n2\t\\N\n", 9), (vec![vec!["1", "\"a,\""]], "2\t\\N\n"));
    assert_eq!(split(&splitter("csv", 0), "\n\n", 9).1, "\n\n");
}

/// Wherever it lies in the words that are looked at.
#[test]
fn a_byte_that_ends_a_field_is_found_at_any_distance() {
    let csv = splitter("csv", 2);
    for first in 0..20 {
        for second in 0..20 {
            // Bytes next to those that count, and with the high bit.
            let (a, b) = ("+-\u{8a}!#".repeat(first), "\u{ac}\u{7f}\t\u{b}\u{c}".repeat(second));
            let input = format!("{a},{b}\n{b},{a}\n");
            let (records, rest) = split(&csv, &input, 9);
            assert_eq!((records, rest), (vec![vec![&*a, &*b], vec![&*b, &*a]], ""));
        }
    }
}
