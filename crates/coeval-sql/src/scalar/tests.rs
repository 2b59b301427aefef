// SPDX-License-Identifier: Apache-2.0

use super::checks::parse_stored;
use super::node::Node;
use super::{Compiler, Environment, Inputs, NoRows, Refusal, Scope};
use crate::error::SqlError;
use crate::parameters::ParameterTypes;
use crate::types::format_value;
use chrono_tz::Tz;
use coeval_store::{ColumnType, SequenceDef, Value, ValueRef};

struct Fixed;

impl Environment for Fixed {
    fn transaction_time(&self) -> i64 {
        1_700_000_000_000_000
    }

    fn zone(&self) -> Tz {
        Tz::UTC
    }

    fn next_value(&self, _sequence: &SequenceDef) -> Result<i64, SqlError> {
        Ok(42)
    }
}

/// Value and type of a constant expression, or its SQLSTATE, or `unsupported`.
fn evaluate(text: &str) -> String {
    let outcome = || -> Result<String, Refusal> {
        let expression = parse_stored(text)?;
        let mut parameters = ParameterTypes::default();
        let scalar = Compiler::new(&Scope::empty(), &mut parameters).scalar(&expression)?;
        let inputs = Inputs { rows: &NoRows, parameters: &[], environment: &Fixed };
        let value = scalar.eval(inputs)?.into_value();
        if value == Value::Null {
            return Ok("NULL".to_owned());
        }
        let mut shown = String::new();
        format_value(value.borrow(), scalar.ty(), Tz::UTC, &mut shown);
        Ok(format!("{shown} {}", scalar.ty()))
    };
    match outcome() {
        Ok(shown) => shown,
        Err(Refusal::Wrong(error)) => error.state.code().to_owned(),
        Err(Refusal::Unsupported(_)) => "unsupported".to_owned(),
    }
}

#[track_caller]
fn check(cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        assert_eq!(evaluate(text), *expected, "{text}");
    }
}

/// Arrow orders NaNs by their bits, and has the one without a sign above all numbers.
#[test]
fn nan_has_no_sign() {
    let double = super::arithmetic::negate(ValueRef::Float64(f64::NAN)).expect("a float");
    assert!(matches!(double, ValueRef::Float64(nan) if nan.to_bits() == f64::NAN.to_bits()));
    let real = super::arithmetic::negate(ValueRef::Float32(f32::NAN)).expect("a float");
    assert!(matches!(real, ValueRef::Float32(nan) if nan.to_bits() == f32::NAN.to_bits()));
}

#[test]
fn numbers_are_promoted_and_never_wrap() {
    check(&[
        ("1 + 2", "3 integer"),
        ("7 / 2", "3 integer"),
        ("-7 / 2", "-3 integer"),
        ("7 % -2", "1 integer"),
        ("2147483647 + 1", "22003"),
        ("2147483648 + 1", "2147483649 bigint"),
        ("9223372036854775807 + 1", "22003"),
        ("-9223372036854775808 - 1", "22003"),
        ("-2147483648 / -1", "22003"),
        ("1 / 0", "22012"),
        ("1.0 / 0", "22012"),
        ("1.5 + 1", "2.5 numeric(12,1)"),
        ("1.25 * 2.5", "3.125 numeric(6,3)"),
        ("CAST(1 AS double precision) / 0", "22012"),
        ("CAST(1e308 AS double precision) * 10", "22003"),
        ("CAST(1.5 AS double precision) + 1", "2.5 double precision"),
        ("CAST(2.5 AS int)", "3 integer"),
        ("CAST(-2.5 AS int)", "-3 integer"),
        ("CAST(40000 AS smallint)", "22003"),
        ("CAST(CAST(2.5 AS double precision) AS int)", "2 integer"),
        ("CAST(1234.567 AS numeric(5,1))", "1234.6 numeric(5,1)"),
        ("CAST(12345.67 AS numeric(5,1))", "22003"),
        ("CAST('x' AS int)", "22P02"),
        ("abs(-3)", "3 integer"),
        ("round(2.567, 2)", "2.57 numeric(4,2)"),
        ("round(-2.5)", "-3 numeric(2,0)"),
        ("1e3", "1000 numeric(4,0)"),
    ]);
}

#[test]
fn logic_has_three_values() {
    check(&[
        ("NULL AND false", "f boolean"),
        ("NULL AND true", "NULL"),
        ("NULL OR true", "t boolean"),
        ("NOT (1 = NULL)", "NULL"),
        ("1 IS DISTINCT FROM NULL", "t boolean"),
        ("NULL IS NOT DISTINCT FROM NULL", "t boolean"),
        ("1 IN (2, NULL)", "NULL"),
        ("1 IN (1, NULL)", "t boolean"),
        ("1 NOT IN (2, 3)", "t boolean"),
        ("2 BETWEEN 1 AND 3", "t boolean"),
        ("2 NOT BETWEEN 1 AND 3", "f boolean"),
        ("1 = 1.0", "t boolean"),
        ("1.10 = 1.1", "t boolean"),
        ("(1 = NULL) IS TRUE", "f boolean"),
        ("CASE WHEN 1 > 2 THEN 'a' WHEN NULL THEN 'b' ELSE 'c' END", "c text"),
        ("CASE 2 WHEN 1 THEN 10 WHEN 2 THEN 20.5 END", "20.5 numeric(11,1)"),
        ("COALESCE(NULL, NULL, 3)", "3 integer"),
        ("NULLIF(1, 1)", "NULL"),
        ("GREATEST(1, NULL, 3.5)", "3.5 numeric(11,1)"),
        ("COALESCE(CAST(1.5 AS real), 2)", "1.5 real"),
        ("CAST(0.1 AS real) IN (0.1, 0.2)", "t boolean"),
        ("LEAST('b', 'a')", "a text"),
        ("1 + 'x'", "22P02"),
        ("true + 1", "unsupported"),
    ]);
}

#[test]
fn long_lists_are_searched() {
    let numbers = (0..100).map(|n| (n * 2).to_string()).collect::<Vec<_>>().join(", ");
    let texts = (0..100).map(|n| format!("'{}'", n * 2)).collect::<Vec<_>>().join(", ");
    for (expression, wanted) in [
        (format!("198 IN ({numbers})"), "t boolean"),
        (format!("197 IN ({numbers})"), "f boolean"),
        (format!("197 NOT IN ({numbers})"), "t boolean"),
        (format!("197 IN ({numbers}, NULL)"), "NULL"),
        (format!("198 IN ({numbers}, NULL)"), "t boolean"),
        (format!("198 NOT IN ({numbers}, NULL)"), "f boolean"),
        (format!("NULL IN ({numbers})"), "NULL"),
        (format!("2.50 IN ({numbers}, 2.5)"), "t boolean"),
        (format!("'198' IN ({texts})"), "t boolean"),
        (format!("'98 ' IN ({texts})"), "f boolean"),
        (format!("'NaN'::float8 IN ({numbers}, 'NaN'::float8)"), "t boolean"),
    ] {
        check(&[(&expression, wanted)]);
    }
}

#[test]
fn text_is_matched_and_cut() {
    check(&[
        ("'abc' LIKE 'a%'", "t boolean"),
        ("'abc' LIKE 'a_'", "f boolean"),
        ("'a%c' LIKE 'a\\%c'", "t boolean"),
        ("'aXbXc' LIKE '%X%c'", "t boolean"),
        ("'abc' NOT LIKE '%d%'", "t boolean"),
        ("'ABC' ILIKE 'a%'", "t boolean"),
        ("'ab' LIKE 'ab#' ESCAPE '#'", "f boolean"),
        ("'abc' LIKE 'ab#' ESCAPE '#'", "22025"),
        ("'a' || 'b' || 1", "ab1 text"),
        ("'a' || NULL", "NULL"),
        ("upper('ä') || lower('B')", "Äb text"),
        ("length('äö')", "2 integer"),
        ("substring('hello' FROM 2 FOR 3)", "ell text"),
        ("substr('hello', -1, 3)", "h text"),
        ("substring('hello', 2, -1)", "22011"),
        ("trim('  x ')", "x text"),
        ("trim(LEADING 'x' FROM 'xxyx')", "yx text"),
        ("CAST('abcdef' AS varchar(3))", "abc character varying(3)"),
        ("CAST('ab' AS char(2)) = 'ab   '", "t boolean"),
        ("now()", "2023-11-14 22:13:20+00 timestamp with time zone"),
        ("current_date", "2023-11-14 date"),
        ("DATE '2024-02-30'", "22008"),
        ("sqrt(2)", "unsupported"),
    ]);
}

#[test]
fn parameters_take_the_type_of_what_stands_beside_them() {
    let mut parameters = ParameterTypes::default();
    let expression = parse_stored("$1 + 1 > 2 AND $2 = 'x' AND $3 BETWEEN 1.5 AND 2 AND $4 IS NULL").unwrap();
    Compiler::new(&Scope::empty(), &mut parameters).condition(&expression).unwrap();
    // One with digits of its own.
    let numeric = ColumnType::Numeric { precision: 38, scale: 10 };
    assert_eq!(parameters.resolved(), [ColumnType::Int, ColumnType::Text, numeric, ColumnType::Text]);
}

fn on_a_stack_of<T: Send>(bytes: usize, work: impl FnOnce() -> T + Send) -> T {
    let builder = std::thread::Builder::new().stack_size(bytes);
    std::thread::scope(|scope| builder.spawn_scoped(scope, work).unwrap().join().unwrap())
}

/// Half a megabyte has room for some tens of levels as they are compiled for tests, and for some hundreds at best.
#[test]
fn an_expression_is_compiled_and_evaluated_however_deep_it_is() {
    let cases = [("1", " + 1", Value::Int32(2_001)), ("true", " = true", Value::Boolean(true))];
    for (first, next, expected) in cases {
        // It is read, and dropped, where there is room for that.
        on_a_stack_of(64 << 20, || {
            let expression = parse_stored(&format!("{first}{}", next.repeat(2_000))).unwrap();
            let (scalar, value) = on_a_stack_of(512 << 10, || {
                let (scope, mut parameters) = (Scope::empty(), ParameterTypes::default());
                let scalar = Compiler::new(&scope, &mut parameters).scalar(&expression).unwrap();
                let inputs = Inputs { rows: &NoRows, parameters: &[], environment: &Fixed };
                let value = scalar.eval(inputs).unwrap().into_value();
                (scalar, value)
            });
            assert_eq!(value, expected, "{next}");
            drop(scalar);
        });
    }
}

/// Texts of a long chain are put together in one go: pieces of it are not copied at every few levels.
#[test]
fn a_long_chain_of_texts_is_one_operation() {
    let expression = parse_stored(&format!("'a'{}", " || 'b'".repeat(40))).unwrap();
    let mut parameters = ParameterTypes::default();
    let scalar = Compiler::new(&Scope::empty(), &mut parameters).scalar(&expression).unwrap();
    assert!(matches!(&scalar.node, Node::Concat(parts) if parts.len() == 41), "{:?}", scalar.node);
}
