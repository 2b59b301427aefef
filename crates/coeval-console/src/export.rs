// SPDX-License-Identifier: Apache-2.0
//! A result as a file: CSV, or JSON lines.

use crate::results::{ResultSet, Row, ShownColumn};
use bytes::Bytes;
use futures::Stream;
use std::collections::HashSet;
use std::io;
use std::sync::Arc;

/// Rows that are made into text at a time.
const ROWS_AT_A_TIME: usize = 1_000;

/// What a result is made into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// With the names of the columns in its first line. NULL is nothing between two commas, an empty text is `""`.
    Csv,
    /// An object a line.
    JsonLines,
}

impl Format {
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Csv => "text/csv; charset=utf-8",
            Self::JsonLines => "application/x-ndjson; charset=utf-8",
        }
    }

    pub(crate) fn file_name(self) -> &'static str {
        match self {
            Self::Csv => "result.csv",
            Self::JsonLines => "result.jsonl",
        }
    }
}

/// The result as a file, piece by piece, as they are asked for: who does not read has nothing done for it.
pub(crate) fn exported(
    result: Arc<ResultSet>,
    format: Format,
) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
    futures::stream::try_unfold(Some(0), move |from: Option<u64>| {
        let result = Arc::clone(&result);
        async move {
            let Some(from) = from else { return Ok(None) };
            // It reads from the disk.
            let made = tokio::task::spawn_blocking(move || piece(&result, format, from));
            made.await.map_err(io::Error::other)?.map(Some)
        }
    })
}

/// The rows from number `from` on as text, and where the next piece begins, if there is one.
fn piece(result: &ResultSet, format: Format, from: u64) -> io::Result<(Bytes, Option<u64>)> {
    let mut text = Vec::new();
    if from == 0 && format == Format::Csv {
        push_csv(&mut text, result.columns.iter().map(|column| Some(column.name.as_str())));
    }
    let rows = result.window(from, ROWS_AT_A_TIME)?;
    match format {
        Format::Csv => rows.iter().for_each(|row| push_csv(&mut text, row.iter().map(Option::as_deref))),
        Format::JsonLines => {
            let names = distinct(&result.columns);
            rows.iter().for_each(|row| push_json(&mut text, &result.columns, &names, row));
        }
    }
    let next = (!rows.is_empty()).then_some(from + rows.len() as u64);
    Ok((text.into(), next))
}

fn push_csv<'a>(text: &mut Vec<u8>, values: impl Iterator<Item = Option<&'a str>>) {
    for (index, value) in values.enumerate() {
        if index > 0 {
            text.push(b',');
        }
        let Some(value) = value else { continue };
        // A lone dot and a backslash end the rows for some who read CSV, as for COPY.
        if value.is_empty() || value == "\\." || value.contains([',', '"', '\n', '\r']) {
            text.push(b'"');
            text.extend_from_slice(value.replace('"', "\"\"").as_bytes());
            text.push(b'"');
        } else {
            text.extend_from_slice(value.as_bytes());
        }
    }
    text.push(b'\n');
}

/// Names of the columns, as keys of one object: a name that was there before gets a number.
fn distinct(columns: &[ShownColumn]) -> Vec<String> {
    let mut used = HashSet::new();
    let mut names = Vec::new();
    for column in columns {
        let mut name = column.name.clone();
        let mut number = 1;
        while !used.insert(name.clone()) {
            number += 1;
            name = format!("{}_{number}", column.name);
        }
        names.push(name);
    }
    names
}

fn push_json(text: &mut Vec<u8>, columns: &[ShownColumn], names: &[String], row: &Row) {
    let quoted = |value: &str| serde_json::to_string(value).expect("a text is JSON");
    text.push(b'{');
    for (index, ((column, name), value)) in columns.iter().zip(names).zip(row).enumerate() {
        if index > 0 {
            text.push(b',');
        }
        text.extend_from_slice(quoted(name).as_bytes());
        text.push(b':');
        let shown = match (value, column.type_name.as_str()) {
            (None, _) => "null".to_owned(),
            (Some(value), "bool") => (value == "t").to_string(),
            // As it is, with all its digits; a NaN or an infinity is no number of JSON.
            (Some(value), "int2" | "int4" | "int8" | "float4" | "float8" | "numeric" | "oid")
                if value.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte)) =>
            {
                value.clone()
            }
            // A line break in JSON is between its parts, never in a text.
            (Some(value), "json" | "jsonb") => value.replace(['\n', '\r'], " "),
            (Some(value), _) => quoted(value),
        };
        text.extend_from_slice(shown.as_bytes());
    }
    text.extend_from_slice(b"}\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(push: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut text = Vec::new();
        push(&mut text);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn csv_tells_null_from_an_empty_text() {
        let values = [Some("a"), None, Some(""), Some("x,y"), Some("say \"hi\""), Some("two\nlines")];
        assert_eq!(
            text(|text| push_csv(text, values.into_iter())),
            "a,,\"\",\"x,y\",\"say \"\"hi\"\"\",\"two\nlines\"\n"
        );
    }

    #[test]
    fn json_has_values_of_their_types() {
        let column = |name: &str, of: &str| ShownColumn { name: name.to_owned(), type_name: of.to_owned() };
        let columns = [
            column("a", "int8"),
            column("a", "numeric"),
            column("a_2", "float8"),
            column("b", "bool"),
            column("j", "json"),
            column("t", "text"),
            column("n", "text"),
        ];
        let row: Row = ["1", "123456789012345678901234567890.10", "NaN", "t", "{\"x\":\n1}", "é\n"]
            .map(|value| Some(value.to_owned()))
            .into_iter()
            .chain([None])
            .collect();
        let line = text(|text| push_json(text, &columns, &distinct(&columns), &row));
        assert_eq!(
            line,
            "{\"a\":1,\"a_2\":123456789012345678901234567890.10,\"a_2_2\":\"NaN\",\"b\":true,\
             \"j\":{\"x\": 1},\"t\":\"é\\n\",\"n\":null}\n"
        );
        assert!(serde_json::from_str::<serde_json::Value>(&line).is_ok());
    }
}
