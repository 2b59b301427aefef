// SPDX-License-Identifier: Apache-2.0
//! Calls with arguments by their names: `make_interval(days => 1)` is `make_interval(0, 0, 0, 1)`.

use super::{number, text, unqualified};
use crate::names::fold;
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Value,
};

/// Functions whose arguments have these names.
struct Known {
    functions: &'static [&'static str],
    names: &'static [&'static str],
    /// What stands for an argument that is left out in front of others; `None` if it may not be.
    left_out: fn(&str) -> Option<Expr>,
}

const KNOWN: &[Known] = &[
    Known {
        functions: &["make_interval"],
        names: &["years", "months", "weeks", "days", "hours", "mins", "secs"],
        left_out: |_| Some(number("0")),
    },
    Known { functions: &["make_date"], names: &["year", "month", "day"], left_out: |_| None },
    Known { functions: &["make_time"], names: &["hour", "min", "sec"], left_out: |_| None },
    Known {
        functions: &["make_timestamp", "make_timestamptz"],
        names: &["year", "month", "mday", "hour", "min", "sec", "timezone"],
        left_out: |_| None,
    },
    Known {
        functions: &["jsonb_set"],
        names: &["jsonb_in", "path", "replacement", "create_if_missing"],
        left_out: |_| None,
    },
    Known {
        functions: &["jsonb_set_lax"],
        names: &["jsonb_in", "path", "replacement", "create_if_missing", "null_value_treatment"],
        left_out: |name| (name == "create_if_missing").then(|| Expr::Value(Value::Boolean(true).into())),
    },
    Known {
        functions: &["jsonb_insert"],
        names: &["jsonb_in", "path", "replacement", "insert_after"],
        left_out: |_| None,
    },
    Known {
        functions: &[
            "jsonb_path_exists",
            "jsonb_path_exists_tz",
            "jsonb_path_match",
            "jsonb_path_match_tz",
            "jsonb_path_query",
            "jsonb_path_query_tz",
            "jsonb_path_query_array",
            "jsonb_path_query_array_tz",
            "jsonb_path_query_first",
            "jsonb_path_query_first_tz",
        ],
        names: &["target", "path", "vars", "silent"],
        left_out: |name| (name == "vars").then(|| text("{}")),
    },
];

/// Puts the arguments of a call in their places. It stays as it is if all of them are there, or if a name is none of the function's.
pub(super) fn put_in_places(function: &mut Function) {
    let Some(called) = unqualified(&function.name) else { return };
    let FunctionArguments::List(list) = &mut function.args else { return };
    if list.args.iter().all(|argument| matches!(argument, FunctionArg::Unnamed(_))) {
        return;
    }
    let known = KNOWN.iter().find(|known| known.functions.contains(&called.as_str()));
    if let Some(values) = known.and_then(|known| in_places(&list.args, known)) {
        let unnamed = |value| FunctionArg::Unnamed(FunctionArgExpr::Expr(value));
        list.args = values.into_iter().map(unnamed).collect();
    }
}

/// The values up to the last one that is given; `None` if one is given twice, or is missing.
fn in_places(arguments: &[FunctionArg], known: &Known) -> Option<Vec<Expr>> {
    let mut places: Vec<Option<Expr>> = vec![None; known.names.len()];
    for (place, argument) in arguments.iter().enumerate() {
        let (place, value) = match argument {
            FunctionArg::Named { name, arg: FunctionArgExpr::Expr(value), .. }
            | FunctionArg::ExprNamed {
                name: Expr::Identifier(name),
                arg: FunctionArgExpr::Expr(value),
                ..
            } => (known.names.iter().position(|known| *known == fold(name))?, value),
            FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => (place, value),
            _ => return None,
        };
        if places.get_mut(place)?.replace(value.clone()).is_some() {
            return None;
        }
    }
    let count = places.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
    let places = places.into_iter().take(count).zip(known.names);
    places.map(|(value, name)| value.or_else(|| (known.left_out)(name))).collect()
}
