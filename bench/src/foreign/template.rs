// SPDX-License-Identifier: Apache-2.0
//! Prepared statements for engines that are given texts: parameters are put where `$1` and so on stand.

use super::population::{Keys, WHOLE_KEY, bits};
use super::{Foreign, Way};
use crate::table::TableSpec;
use coeval::{ColumnType, Value};
use std::fmt::Write;

/// A piece of a statement's text.
enum Piece {
    Text(String),
    /// The parameter of this number, from 0, for a column of this type.
    Parameter(usize, ColumnType),
    /// These parameters, with the bits of their columns, as the one value of a key.
    Key(Vec<(usize, u32)>),
}

/// A statement, with places for its parameters.
pub(crate) struct Template {
    pieces: Vec<Piece>,
}

impl Template {
    /// From a text of one statement on these tables, whose columns all have different names. Natively, where the whole key of
    /// a table with several key columns is given, the whole key stands in its place.
    pub(crate) fn new(text: &str, tables: &[&TableSpec], way: Way) -> Self {
        let columns = parameter_columns(text);
        let kind = |name: &str| {
            let mut all = tables.iter().flat_map(|table| table.columns);
            all.find(|column| column.name == name).map_or(ColumnType::Int, |column| column.ty)
        };
        let key =
            tables.iter().filter(|_| way == Way::Native).find_map(|table| key_of(text, table, &columns));
        let mut pieces = Vec::new();
        let (mut rest, is_insert) = (text, text.starts_with("INSERT"));
        if is_insert && key.is_some() {
            let (head, tail) = rest.split_once(") VALUES").expect("an INSERT lists its columns");
            pieces.push(Piece::Text(format!("{head}, {WHOLE_KEY}) VALUES")));
            rest = tail;
        }
        while let Some(at) = rest.find('$') {
            let digits = rest[at + 1..].bytes().take_while(u8::is_ascii_digit).count();
            let number: usize = rest[at + 1..=at + digits].parse().expect("a parameter has a number");
            pieces.push(Piece::Text(rest[..at].to_owned()));
            let name = columns.iter().find(|(place, _)| *place == number - 1).map(|(_, name)| *name);
            pieces.push(Piece::Parameter(number - 1, kind(name.unwrap_or_default())));
            rest = &rest[at + 1 + digits..];
        }
        match key {
            Some(key) if is_insert => {
                let (inside, behind) = rest.rsplit_once(')').expect("VALUES ends with a bracket");
                pieces.push(Piece::Text(format!("{inside}, ")));
                pieces.push(Piece::Key(key));
                pieces.push(Piece::Text(format!("){behind}")));
            }
            Some(key) => {
                // The whole key says all that the key's columns say.
                let end = pieces
                    .iter()
                    .position(|piece| matches!(piece, Piece::Text(text) if text.contains(" WHERE ")));
                pieces.truncate(end.expect("a statement with a key has a WHERE") + 1);
                if let Some(Piece::Text(text)) = pieces.last_mut() {
                    let (head, _) = text.split_once(" WHERE ").expect("it is this piece");
                    *text = format!("{head} WHERE {WHOLE_KEY} = ");
                }
                pieces.push(Piece::Key(key));
            }
            None => pieces.push(Piece::Text(rest.to_owned())),
        }
        Self { pieces }
    }

    /// The statement with these parameters.
    pub(crate) fn with(&self, parameters: &[Value], foreign: &Foreign) -> String {
        let mut sql = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => sql.push_str(text),
                Piece::Parameter(place, kind) => sql.push_str(&literal(&parameters[*place], *kind, foreign)),
                Piece::Key(places) => {
                    let parts = places.iter().map(|&(place, bits)| (whole(&parameters[place]), bits));
                    sql.push_str(&key_literal(parts, foreign.keys()));
                }
            }
        }
        sql
    }
}

/// Which column each parameter is given to or compared with.
fn parameter_columns(text: &str) -> Vec<(usize, &str)> {
    let number = |word: &str| {
        let digits = word.trim_matches(|letter: char| !letter.is_ascii_digit() && letter != '$');
        digits.strip_prefix('$').and_then(|digits| digits.parse::<usize>().ok())
    };
    if let Some((head, values)) = text.split_once(") VALUES") {
        let (_, columns) = head.split_once('(').expect("an INSERT lists its columns");
        let columns = columns.split(',').map(str::trim);
        let values = values.split(',').filter_map(number);
        return values.zip(columns).map(|(number, column)| (number - 1, column)).collect();
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut columns = Vec::new();
    for three in words.windows(3) {
        if let Some(number) = number(three[2])
            && matches!(three[1], "=" | "<" | ">" | "<=" | ">=")
        {
            columns.push((number - 1, three[0]));
        }
    }
    columns
}

/// The parameters that are the whole key of a table, if it has several key columns.
fn key_of(text: &str, table: &TableSpec, columns: &[(usize, &str)]) -> Option<Vec<(usize, u32)>> {
    if table.primary_key.len() < 2 {
        return None;
    }
    let is_given = |name: &str, place: usize| {
        text.starts_with("INSERT") || text.contains(&format!(" {name} = ${}", place + 1))
    };
    let place = |name: &&str| {
        let found = columns.iter().find(|(_, column)| column == name);
        let place = found.map(|(place, _)| *place).filter(|&place| is_given(name, place));
        place.map(|place| (place, bits(table.columns[table.column_index(name)].ty)))
    };
    table.primary_key.iter().map(place).collect()
}

fn whole(value: &Value) -> i64 {
    match value {
        Value::Int16(number) => i64::from(*number),
        Value::Int32(number) => i64::from(*number),
        Value::Int64(number) => *number,
        other => panic!("no key of the workloads has the value {other:?}"),
    }
}

/// A whole key as a literal.
fn key_literal(parts: impl Iterator<Item = (i64, u32)>, keys: Keys) -> String {
    match keys {
        Keys::Texts => {
            let parts: Vec<_> = parts.map(|(value, _)| value.to_string()).collect();
            format!("'{}'", parts.join("."))
        }
        Keys::Numbers(_) => coeval_tique::pack(parts).expect("parameters fit their columns").to_string(),
    }
}

/// A value as the engines read it. Whole numbers for a timestamp are microseconds since 1970; money has two decimals.
fn literal(value: &Value, kind: ColumnType, foreign: &Foreign) -> String {
    match (value, kind) {
        (Value::Null, _) => "NULL".to_owned(),
        (Value::Int64(micros), ColumnType::Timestamp) => timestamp(*micros),
        (Value::Int16(number), _) => number.to_string(),
        (Value::Int32(number), _) => number.to_string(),
        (Value::Int64(number), _) => number.to_string(),
        (Value::Decimal(cents), _) => {
            let mut text = if *cents < 0 { "-".to_owned() } else { String::new() };
            let cents = cents.unsigned_abs();
            write!(text, "{}.{:02}", cents / 100, cents % 100).expect("a string takes what is written");
            text
        }
        (Value::Text(text), _) => foreign.literal(text),
        (other, _) => panic!("no statement of the workloads has the parameter {other:?}"),
    }
}

fn timestamp(micros: i64) -> String {
    use arrow::array::TimestampMicrosecondArray;
    let array = TimestampMicrosecondArray::from(vec![micros]);
    let text = arrow::util::display::array_value_to_string(&array, 0).unwrap_or_default();
    // Milliseconds, which all engines keep.
    let text = text.replacen('T', " ", 1);
    let end = text.find('.').map_or(text.len(), |point| (point + 4).min(text.len()));
    format!("TIMESTAMP '{}'", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tpcc::schema::{DISTRICT, NEW_ORDER, TABLES, WAREHOUSE};

    fn shape(template: &Template) -> String {
        let piece = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Parameter(place, kind) => format!("<{place} {kind}>"),
            Piece::Key(places) => format!("<key {places:?}>"),
        };
        template.pieces.iter().map(piece).collect()
    }

    #[test]
    fn a_whole_key_is_given_once_more_natively() {
        let text = "UPDATE district SET d_ytd = $1 WHERE d_w_id = $2 AND d_id = $3";
        let native = Template::new(text, &[&WAREHOUSE, &DISTRICT], Way::Native);
        let update = "UPDATE district SET d_ytd = <0 numeric(12,2)> WHERE";
        assert_eq!(shape(&native), format!("{update} {WHOLE_KEY} = <key [(1, 32), (2, 32)]>"));
        let expected = format!("{update} d_w_id = <1 int> AND d_id = <2 int>");
        let tique = Template::new(text, &[&WAREHOUSE, &DISTRICT], Way::Tique);
        assert_eq!(shape(&tique).replace("integer", "int"), expected);
        let text = "INSERT INTO new_order (no_o_id, no_d_id, no_w_id) VALUES ($1, $2, $3)";
        let native = Template::new(text, &[&NEW_ORDER], Way::Native);
        assert_eq!(
            shape(&native).replace("integer", "int"),
            format!(
                "INSERT INTO new_order (no_o_id, no_d_id, no_w_id, {WHOLE_KEY}) VALUES \
                 (<0 int>, <1 int>, <2 int>, <key [(2, 32), (1, 32), (0, 32)]>)"
            )
        );
    }

    #[test]
    fn whole_keys_are_texts_or_numbers() {
        let key = || [(1, 32), (-2, 32)].into_iter();
        assert_eq!(key_literal(key(), Keys::Texts), "'1.-2'");
        assert_eq!(key_literal(key(), Keys::Numbers("HUGEINT")), "4294967294");
    }

    #[test]
    fn a_part_of_a_key_is_not_the_key() {
        let text = "SELECT ol_amount FROM order_line WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3";
        let tables: Vec<_> = TABLES.iter().collect();
        assert!(!shape(&Template::new(text, &tables, Way::Native)).contains(WHOLE_KEY));
        let text = "SELECT w_tax FROM warehouse WHERE w_id = $1";
        assert!(!shape(&Template::new(text, &tables, Way::Native)).contains(WHOLE_KEY));
    }

    #[test]
    fn timestamps_have_milliseconds() {
        assert_eq!(timestamp(1_500_000), "TIMESTAMP '1970-01-01 00:00:01.500'");
        assert_eq!(timestamp(1_123_456), "TIMESTAMP '1970-01-01 00:00:01.123'");
    }
}
