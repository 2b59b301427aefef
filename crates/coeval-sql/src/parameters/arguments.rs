// SPDX-License-Identifier: Apache-2.0
//! The types of parameters, and of literals without a type, that are arguments of functions, where the name of a function and the
//! number of its arguments say them.
//!
//! So it is where PostgreSQL has one function of this name with so many arguments, and where it prefers one of several to all others
//! whatever the other arguments are, as `abs(double precision)`. Arguments that are texts are not listed: that is what a parameter is
//! of which nothing says its type.

use coeval_store::ColumnType;

const INT: Option<ColumnType> = Some(ColumnType::Int);
const BIGINT: Option<ColumnType> = Some(ColumnType::BigInt);
const FLOAT: Option<ColumnType> = Some(ColumnType::Double);
const TEXT: Option<ColumnType> = Some(ColumnType::Text);
const TRUTH: Option<ColumnType> = Some(ColumnType::Boolean);
const BYTES: Option<ColumnType> = Some(ColumnType::Bytea);
const INTERVAL: Option<ColumnType> = Some(ColumnType::Interval);
const INSTANT: Option<ColumnType> = Some(ColumnType::TimestampTz);
const JSON: Option<ColumnType> = Some(ColumnType::Json);
const JSONB: Option<ColumnType> = Some(ColumnType::Jsonb);
const NUMERIC: Option<ColumnType> = Some(ColumnType::AnyNumeric);

/// The types of the arguments of a function, from the first one on; `None`: something else says it, or it is a text.
pub(crate) fn arguments_of(function: &str, count: usize) -> &'static [Option<ColumnType>] {
    of_numbers(function, count)
        .or_else(|| of_texts(function, count))
        .or_else(|| of_times(function, count))
        .or_else(|| of_documents_and_arrays(function, count))
        .or_else(|| of_the_system(function, count))
        .unwrap_or_default()
}

/// Of mathematics, and aggregates and windows.
fn of_numbers(function: &str, count: usize) -> Option<&'static [Option<ColumnType>]> {
    Some(match (function, count) {
        ("round" | "trunc", 2) => &[NUMERIC, INT],
        ("div", 2) => &[NUMERIC, NUMERIC],
        ("factorial", 1) => &[BIGINT],
        ("power" | "pow" | "atan2", 2) => &[FLOAT, FLOAT],
        (
            "abs" | "sign" | "sqrt" | "cbrt" | "exp" | "ln" | "log" | "log10" | "ceil" | "ceiling" | "floor"
            | "round" | "trunc" | "degrees" | "radians",
            1,
        ) => &[FLOAT],
        (
            "sin" | "cos" | "tan" | "cot" | "asin" | "acos" | "atan" | "sinh" | "cosh" | "tanh" | "asinh"
            | "acosh" | "atanh",
            1,
        ) => &[FLOAT],
        ("stddev" | "stddev_pop" | "stddev_samp" | "variance" | "var_pop" | "var_samp", 1) => &[FLOAT],
        ("bool_and" | "bool_or" | "every", 1) => &[TRUTH],
        ("ntile", 1) => &[INT],
        ("lag" | "lead", 2 | 3) | ("nth_value", 2) => &[None, INT],
        _ => return None,
    })
}

/// Of texts, patterns and bytes.
fn of_texts(function: &str, count: usize) -> Option<&'static [Option<ColumnType>]> {
    Some(match (function, count) {
        ("substr" | "substring", 2 | 3) => &[None, INT, INT],
        ("left" | "right" | "repeat", 2) => &[None, INT],
        ("lpad" | "rpad", 2 | 3) => &[TEXT, INT, TEXT],
        ("split_part", 3) => &[TEXT, TEXT, INT],
        ("chr", 1) => &[INT],
        ("regexp_count", 3 | 4) => &[TEXT, TEXT, INT, TEXT],
        ("regexp_instr", 3..=7) => &[TEXT, TEXT, INT, INT, INT, TEXT, INT],
        ("regexp_substr", 3..=6) => &[TEXT, TEXT, INT, INT, TEXT, INT],
        ("regexp_replace", 5 | 6) => &[TEXT, TEXT, TEXT, INT, INT, TEXT],
        ("encode" | "convert_from", 2) => &[BYTES, TEXT],
        ("sha224" | "sha256" | "sha384" | "sha512", 1) => &[BYTES],
        ("get_byte", 2) => &[BYTES, INT],
        ("set_byte", 3) => &[BYTES, INT, INT],
        _ => return None,
    })
}

/// Of times and spans of time.
fn of_times(function: &str, count: usize) -> Option<&'static [Option<ColumnType>]> {
    Some(match (function, count) {
        ("make_date", 3) => &[INT, INT, INT],
        ("make_time", 3) => &[INT, INT, FLOAT],
        ("make_timestamp", 6) | ("make_timestamptz", 6 | 7) => &[INT, INT, INT, INT, INT, FLOAT, TEXT],
        ("make_interval", 1..=7) => &[INT, INT, INT, INT, INT, INT, FLOAT],
        ("justify_days" | "justify_hours" | "justify_interval", 1) => &[INTERVAL],
        ("date_bin", 3) => &[INTERVAL, None, None],
        ("date_trunc", 3) => &[TEXT, INSTANT, TEXT],
        ("to_timestamp" | "pg_sleep", 1) => &[FLOAT],
        _ => return None,
    })
}

/// Of documents and arrays.
fn of_documents_and_arrays(function: &str, count: usize) -> Option<&'static [Option<ColumnType>]> {
    Some(match (function, count) {
        ("jsonb_set" | "jsonb_insert", 3 | 4) => &[JSONB, None, JSONB, TRUTH],
        ("jsonb_set_lax", 3..=5) => &[JSONB, None, JSONB, TRUTH, TEXT],
        ("jsonb_concat", 2) => &[JSONB, JSONB],
        ("jsonb_array_length" | "jsonb_typeof" | "jsonb_pretty" | "jsonb_strip_nulls", 1) => &[JSONB],
        ("json_array_length" | "json_typeof" | "json_strip_nulls", 1) => &[JSON],
        ("array_length" | "array_lower" | "array_upper" | "generate_subscripts" | "trim_array", 2) => {
            &[None, INT]
        }
        ("array_position", 3) => &[None, None, INT],
        _ => return None,
    })
}

/// Of sessions, settings, sequences and locks.
fn of_the_system(function: &str, count: usize) -> Option<&'static [Option<ColumnType>]> {
    Some(match (function, count) {
        ("set_config", 3) => &[TEXT, TEXT, TRUTH],
        ("current_setting", 2) => &[TEXT, TRUTH],
        ("setval", 2 | 3) => &[None, BIGINT, TRUTH],
        ("pg_cancel_backend" | "pg_blocking_pids", 1) => &[INT],
        (name, 1) if is_advisory(name) => &[BIGINT],
        (name, 2) if is_advisory(name) => &[INT, INT],
        _ => return None,
    })
}

/// Whether a function takes or leaves an advisory lock that is named by a number, or by two.
fn is_advisory(function: &str) -> bool {
    matches!(
        function,
        "pg_advisory_lock"
            | "pg_advisory_lock_shared"
            | "pg_advisory_unlock"
            | "pg_advisory_unlock_shared"
            | "pg_advisory_xact_lock"
            | "pg_advisory_xact_lock_shared"
            | "pg_try_advisory_lock"
            | "pg_try_advisory_lock_shared"
            | "pg_try_advisory_xact_lock"
            | "pg_try_advisory_xact_lock_shared"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_arguments_says_which_function_is_called() {
        assert_eq!(arguments_of("round", 1), [FLOAT]);
        assert_eq!(arguments_of("round", 2), [NUMERIC, INT]);
        assert_eq!(arguments_of("pg_advisory_lock", 1), [BIGINT]);
        assert_eq!(arguments_of("pg_advisory_lock", 2), [INT, INT]);
        assert!(arguments_of("regexp_replace", 4).is_empty());
        assert!(arguments_of("upper", 1).is_empty());
    }
}
