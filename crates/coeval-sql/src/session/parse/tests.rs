// SPDX-License-Identifier: Apache-2.0
//! Tests of the parser's additions.

use super::{Parsed, parse};

#[test]
fn deferrable_is_read_and_passed_over() {
    for sql in [
        "BEGIN DEFERRABLE",
        "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY, DEFERRABLE",
        "BEGIN TRANSACTION NOT DEFERRABLE, READ ONLY",
        "START TRANSACTION READ ONLY NOT DEFERRABLE",
        "SET TRANSACTION READ WRITE, NOT DEFERRABLE",
    ] {
        assert!(parse(sql).is_ok(), "{sql}");
    }
}

#[test]
fn overriding_goes_with_its_insert() {
    for sql in [
        "INSERT INTO t (a) OVERRIDING SYSTEM VALUE VALUES (1)",
        "INSERT INTO t overriding user value SELECT 1",
        "WITH c AS (SELECT 1) INSERT INTO t OVERRIDING SYSTEM VALUE SELECT * FROM c",
    ] {
        let parsed = parse(sql).unwrap();
        let [Parsed::Statement(statement)] = &parsed[..] else { panic!("one statement") };
        assert!(statement.to_string().contains("overriding = "), "{statement}");
    }
    assert!(parse("SELECT overriding FROM t").is_ok());
}

#[test]
fn statements_are_divided_and_empty_ones_dropped() {
    assert_eq!(parse("SELECT 1;; SELECT ';' ;").unwrap().len(), 2);
    assert_eq!(parse(" -- nothing\n").unwrap().len(), 0);
    assert!(matches!(parse("checkpoint;").unwrap()[..], [Parsed::Checkpoint]));
}

#[test]
fn what_follows_a_statement_is_an_error_with_its_position() {
    let error = parse("SELECT 1 FROM t t2 t3").unwrap_err();
    assert_eq!((error.state.code(), error.position), ("42601", Some(20)));
    assert_eq!(parse("SELEC 1").unwrap_err().position, Some(1));
    assert_eq!(parse("SELECT 'abc").unwrap_err().state.code(), "42601");
}
