// SPDX-License-Identifier: Apache-2.0
//! Tests of the maps from other errors to SQLSTATEs.

use super::parser::{character_position, syntax_error};
use super::{SqlError, SqlState};
use arrow::error::ArrowError;
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;

#[test]
fn a_syntax_error_points_at_the_word_it_is_about() {
    let sql = "SELECT a\nFROM t ORDER x";
    let error = syntax_error(Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap_err(), sql);
    assert_eq!(error.state, SqlState::SyntaxError);
    assert_eq!(error.state.code(), "42601");
}

#[test]
fn positions_count_characters_from_one() {
    assert_eq!(character_position("abc\näöü x", 2, 5), Some(9));
    assert_eq!(character_position("abc\n", 2, 1), Some(5));
    assert_eq!(character_position("abc", 0, 1), None);
    assert_eq!(character_position("abc", 3, 1), None);
}

#[test]
fn errors_with_a_type_of_their_own_need_no_text() {
    let state = |error: ArrowError| SqlError::from(error).state.code();
    assert_eq!(state(ArrowError::DivideByZero), "22012");
    assert_eq!(state(ArrowError::ArithmeticOverflow(String::new())), "22003");
    assert_eq!(
        state(ArrowError::CastError("Cannot cast string 'abc' to value of Int32 type".to_owned())),
        "22P02"
    );
    assert_eq!(state(ArrowError::CastError("Can't cast value 3000000000 to type Int32".to_owned())), "22003");
}
