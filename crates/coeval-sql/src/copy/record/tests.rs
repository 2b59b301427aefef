// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::copy::options::{CopyDirection, CopyOptions};
use datafusion::sql::sqlparser::ast::{CopyOption, Ident};

fn options(format: &str) -> CopyOptions {
    CopyOptions::new(CopyDirection::From, &[CopyOption::Format(Ident::new(format))], &[]).unwrap()
}

/// All records, NULL as `None`.
fn records(format: &str, input: &str) -> Result<Vec<Vec<Option<String>>>, RecordFault> {
    let reader = RecordReader::new(&options(format));
    let mut fields = Fields::default();
    let mut at = 0;
    let mut all = Vec::new();
    while at < input.len() {
        match reader.read(input.as_bytes(), at, Input::Complete, &mut fields)? {
            Step::Record(next) => {
                let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                all.push((0..fields.len()).map(|i| fields.get(input.as_bytes(), i).map(text)).collect());
                at = next;
            }
            Step::Incomplete => panic!("complete input has no incomplete record"),
            Step::EndOfData => break,
        }
    }
    Ok(all)
}

fn some(fields: &[&str]) -> Vec<Option<String>> {
    fields.iter().map(|field| Some((*field).to_owned())).collect()
}

#[test]
fn text_fields_end_at_tabs_and_lines_at_newlines() {
    assert_eq!(records("text", "a\tb\nc\t\n").unwrap(), vec![some(&["a", "b"]), some(&["c", ""])]);
    assert_eq!(records("text", "a\tb\r\nc\td").unwrap(), vec![some(&["a", "b"]), some(&["c", "d"])]);
    assert_eq!(records("text", "a\n\\.\nb\n").unwrap(), vec![some(&["a"])]);
}

#[test]
fn text_escapes_are_undone_and_an_escaped_null_mark_is_text() {
    let input = "a\\tb\\\\c\\n\t\\N\t\\\\N\t\\x41\\101\\\t.\n";
    let expected =
        vec![vec![Some("a\tb\\c\n".to_owned()), None, Some("\\N".to_owned()), Some("AA\t.".to_owned())]];
    assert_eq!(records("text", input).unwrap(), expected);
    assert_eq!(records("text", "a\rb\n"), Err(RecordFault::BareCarriageReturn));
}

#[test]
fn csv_quotes_hold_delimiters_newlines_and_doubled_quotes() {
    let input = "1,\"a,b\",\"c\"\"d\"\n2,\"x\ny\",\n3,\"\",z\"q\"w\r\n";
    let expected = vec![
        some(&["1", "a,b", "c\"d"]),
        vec![Some("2".to_owned()), Some("x\ny".to_owned()), None],
        some(&["3", "", "zqw"]),
    ];
    assert_eq!(records("csv", input).unwrap(), expected);
    assert_eq!(records("csv", "1,\"a"), Err(RecordFault::UnterminatedQuote));
}

#[test]
fn a_record_cut_anywhere_is_incomplete_until_its_line_ends() {
    for (format, record) in [("text", "a\\\tb\tc\\n\n"), ("csv", "1,\"a\"\"\n,b\",c\n")] {
        let reader = RecordReader::new(&options(format));
        let mut fields = Fields::default();
        for cut in 1..record.len() {
            let step = reader.read(&record.as_bytes()[..cut], 0, Input::Partial, &mut fields).unwrap();
            assert_eq!(step, Step::Incomplete, "{format} cut at {cut}");
        }
        let step = reader.read(record.as_bytes(), 0, Input::Partial, &mut fields).unwrap();
        assert_eq!(step, Step::Record(record.len()));
    }
}

#[test]
fn a_line_of_its_own_ends_csv_too_and_the_same_text_in_quotes_does_not() {
    assert_eq!(records("csv", "a,b\n\\.\nc,d\n").unwrap(), vec![some(&["a", "b"])]);
    assert_eq!(records("csv", "a\n\\.").unwrap(), vec![some(&["a"])]);
    let kept = vec![some(&["\\.", "b"]), some(&["\\."]), some(&["\\.x"])];
    assert_eq!(records("csv", "\\.,b\n\"\\.\"\n\\.x\n").unwrap(), kept);
}
