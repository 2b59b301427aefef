// SPDX-License-Identifier: Apache-2.0
//! Columns that are not there, and those whose names are near.

use crate::error::{SqlError, SqlState};
use datafusion::common::utils::datafusion_strsim::levenshtein;

/// The columns of every table of PostgreSQL that say where and when a version of a row was written. There is no such place here.
const OF_VERSIONS: [&str; 5] = ["ctid", "xmin", "xmax", "cmin", "cmax"];

/// How many letters of a name may be wrong at most, as in PostgreSQL.
const DISTANCE_MAX: usize = 3;

/// The longest name that is compared, in bytes: longer ones are not typed by hand, and comparing takes the product of both lengths.
const COMPARED_BYTES_MAX: usize = 255;

/// How columns of the system's own begin, which nobody can name.
const OWN_BEGIN: &str = "coeval ";

/// The error for a column that a table, if one is named, has not: `42703`, and `0A000` for one that every table has in PostgreSQL.
///
/// `known` are the columns that could have been named, each behind its table; one or two that are near are its hint.
pub(crate) fn unknown_column<'k>(
    table: Option<&str>,
    column: &str,
    known: impl IntoIterator<Item = (&'k str, &'k str)>,
) -> SqlError {
    if OF_VERSIONS.contains(&column) {
        return SqlError::unsupported(format!("the system column {column}")).with_hint(
            "Tell rows by a primary key: GENERATED ALWAYS AS IDENTITY makes one. Whether INSERT ... ON CONFLICT has inserted a row is \
             what xmax says in its RETURNING.",
        );
    }
    let message = match table {
        Some(table) => format!("column {table}.{column} does not exist"),
        None => format!("column \"{column}\" does not exist"),
    };
    let error = SqlError::new(SqlState::UndefinedColumn, message);
    match nearest(table, column, known).as_slice() {
        [(table, column)] => {
            error.with_hint(format!("Perhaps you meant to reference the column \"{table}.{column}\"."))
        }
        [(table, column), (other_table, other_column)] => error.with_hint(format!(
            "Perhaps you meant to reference the column \"{table}.{column}\" or the column \
             \"{other_table}.{other_column}\"."
        )),
        _ => error,
    }
}

/// The columns whose names are nearest, as PostgreSQL counts: at most three letters are wrong, those of the table's name among them,
/// and at most half of the column's. None if more than two are equally near.
fn nearest<'k>(
    table: Option<&str>,
    column: &str,
    known: impl IntoIterator<Item = (&'k str, &'k str)>,
) -> Vec<(&'k str, &'k str)> {
    let mut least = DISTANCE_MAX + 1;
    let mut found: Vec<(&str, &str)> = Vec::with_capacity(2);
    for candidate in known {
        if candidate.1.starts_with(OWN_BEGIN) || found.contains(&candidate) {
            continue;
        }
        let of_table = table.map_or(Some(0), |table| distance(table, candidate.0));
        let of_column = distance(column, candidate.1).filter(|letters| *letters <= column.len() / 2);
        let (Some(of_table), Some(of_column)) = (of_table, of_column) else { continue };
        let letters = of_table + of_column;
        // One that is named rightly cannot be named here for another reason, which no other spelling mends.
        if letters == 0 || letters > least {
            continue;
        }
        if letters < least {
            least = letters;
            found.clear();
        }
        match found.len() {
            2 => {
                // Of several that are equally near none is meant more than another: only a nearer one counts.
                found.clear();
                least = letters - 1;
            }
            _ if letters <= DISTANCE_MAX => found.push(candidate),
            _ => {}
        }
    }
    found
}

/// How many letters differ, if they are few.
fn distance(left: &str, right: &str) -> Option<usize> {
    let is_compared = left.len().max(right.len()) <= COMPARED_BYTES_MAX
        && left.chars().count().abs_diff(right.chars().count()) <= DISTANCE_MAX;
    is_compared.then(|| levenshtein(left, right)).filter(|letters| *letters <= DISTANCE_MAX)
}

#[cfg(test)]
mod tests {
    use super::unknown_column;

    fn hint(table: Option<&str>, column: &str, known: &[(&str, &str)]) -> Option<String> {
        unknown_column(table, column, known.iter().copied()).hint.map(String::from)
    }

    #[test]
    fn one_or_two_near_names_are_the_hint() {
        let one = Some("Perhaps you meant to reference the column \"t.name\".".to_owned());
        let known = [("t", "id"), ("t", "name"), ("t", "coeval name")];
        assert_eq!(hint(None, "nmae", &known), one);
        assert_eq!(hint(Some("t"), "nam", &known), one);
        assert_eq!(hint(None, "names", &[("t", "name"), ("t", "name")]), one, "the same twice is one");
        let two = "Perhaps you meant to reference the column \"t.name\" or the column \"u.name\".".to_owned();
        assert_eq!(hint(None, "nam", &[("t", "name"), ("u", "name")]), Some(two));
        assert_eq!(hint(Some("t"), "nam", &[("t", "name"), ("u", "name")]), one, "the table counts");
    }

    #[test]
    fn names_that_are_far_or_many_are_no_hint() {
        assert_eq!(hint(None, "colour", &[("t", "id"), ("t", "name")]), None);
        assert_eq!(hint(None, "quantities", &[("t", "quantxxxxs")]), None, "more letters than three");
        assert_eq!(hint(None, "c", &[("t", "a")]), None, "more than half of the letters");
        assert_eq!(hint(None, "colum", &[("t", "columa"), ("t", "columb"), ("t", "columc")]), None);
        let nearer = [("t", "columaa"), ("t", "columbb"), ("t", "columcc"), ("t", "column")];
        let one = "Perhaps you meant to reference the column \"t.column\".".to_owned();
        assert_eq!(hint(None, "colum", &nearer), Some(one), "a nearer one counts behind many");
        let (long, longer) = ("n".repeat(1 << 20), "n".repeat((1 << 20) + 1));
        assert_eq!(hint(None, &long, &[("t", longer.as_str())]), None, "what nobody types");
    }
}
