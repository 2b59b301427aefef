// SPDX-License-Identifier: Apache-2.0
//! Calls of functions that DataFusion has not, or has under another name, and words that stand for a call.

use super::{
    SERIES, arguments_of, call, casts, number, plain_arguments, row_documents, sets, tables, text,
    unqualified,
};
use crate::functions::{DELIMITED, JOINED};
use crate::names::fold;
use datafusion::sql::sqlparser::ast::{
    DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, Spanned,
    TimezoneInfo,
};

/// What stands in the place of a function that PostgreSQL has and DataFusion has not, or has under another name; `None` if the call stays.
pub(super) fn rewritten(function: &mut Function) -> Option<Expr> {
    let name = unqualified(&function.name)?;
    if name == "array" {
        return match &function.args {
            FunctionArguments::Subquery(query) => Some(sets::array_of(query)),
            FunctionArguments::None | FunctionArguments::List(_) => None,
        };
    }
    if let Some(array) = crate::catalog::set_returning(&name) {
        let mut arguments = arguments_of(function);
        if array == "coeval_subscripts" {
            let first = if arguments.first().is_some_and(casts::is_vector) { "0" } else { "1" };
            arguments.truncate(1);
            arguments.push(number(first));
        }
        return Some(call("unnest", vec![call(array, arguments)]));
    }
    if let [column] = crate::json::set_columns(&name) {
        return Some(tables::set_of_documents(column, tables::with_document(&name, arguments_of(function))));
    }
    if name == "generate_series" {
        return Some(call("unnest", vec![call(SERIES, arguments_of(function))]));
    }
    if matches!(function.args, FunctionArguments::None) && register(&name).is_some() {
        return register(&name);
    }
    if matches!(name.as_str(), "nextval" | "currval" | "setval")
        && let FunctionArguments::List(list) = &mut function.args
        && let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(sequence))) = list.args.first_mut()
    {
        casts::by_name(sequence);
    }
    if name == "regexp_matches" {
        return Some(tables::matches_of(arguments_of(function)));
    }
    if let Some(made) = made_of_many(&name, function) {
        return Some(made);
    }
    if let Some(cast) = casts::called_by_type(&name, &arguments_of(function)) {
        return Some(cast);
    }
    let filled = match name.as_str() {
        "age" => age_of_today(arguments_of(function)),
        "normalize" => normal_form(arguments_of(function)),
        _ => None,
    };
    if filled.is_some() {
        return filled;
    }
    let name = match name.as_str() {
        "every" => "bool_and".to_owned(),
        "ceiling" => "ceil".to_owned(),
        "variance" => "var_samp".to_owned(),
        // DataFusion's functions of these names stop at the first element.
        "array_remove" | "array_replace" => format!("{name}_all"),
        "gen_random_uuid" | "uuid_generate_v4" => {
            return Some(casts::cast(call("uuid", Vec::new()), DataType::Uuid));
        }
        _ => name,
    };
    // Errors tell the place of the name.
    let span = function.name.span();
    function.name = ObjectName::from(vec![Ident::with_span(span, name)]);
    None
}

/// An aggregate of documents, or of texts that have delimiters of their own; and rows that are written out, as documents.
fn made_of_many(name: &str, function: &mut Function) -> Option<Expr> {
    let has_rows = row_documents::write_out(name, function);
    if has_rows && name == "row_to_json" {
        let mut arguments = arguments_of(function);
        return match arguments.len() {
            2 => Some(call(crate::json::LINES, arguments)),
            _ => (!arguments.is_empty()).then(|| arguments.swap_remove(0)),
        };
    }
    let aggregate = if has_rows && name == "json_agg" { crate::json::ROWS } else { name };
    if let Some((value, document)) = crate::json::aggregated(aggregate) {
        return Some(collected(function, value, document));
    }
    let arguments = arguments_of(function);
    let has_own = matches!(arguments.as_slice(), [_, delimiter] if tables::names_columns(delimiter));
    (name == "string_agg" && has_own).then(|| collected(function, DELIMITED, JOINED))
}

/// `age(time)`: how long it is until today.
fn age_of_today(arguments: Vec<Expr>) -> Option<Expr> {
    let [time] = <[Expr; 1]>::try_from(arguments).ok()?;
    Some(call("age", vec![call("current_date", Vec::new()), time]))
}

/// `normalize(x, NFC)`, whose second argument is a word.
fn normal_form(arguments: Vec<Expr>) -> Option<Expr> {
    let [given, Expr::Identifier(form)] = <[Expr; 2]>::try_from(arguments).ok()? else { return None };
    let is_form = matches!(fold(&form).as_str(), "nfc" | "nfd" | "nfkc" | "nfkd");
    is_form.then(|| call("normalize", vec![given, text(&form.value)]))
}

/// An aggregate of documents: the array of its values, each as JSON, made one document. Or of texts with delimiters of their own.
fn collected(function: &Function, value: &str, document: &str) -> Expr {
    let mut array = function.clone();
    array.name = ObjectName::from(vec![Ident::new("array_agg")]);
    if let FunctionArguments::List(list) = &mut array.args
        && [crate::json::MEMBER, DELIMITED].contains(&value)
    {
        let member = call(value, plain_arguments(&list.args));
        list.args = vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(member))];
    } else if let FunctionArguments::List(list) = &mut array.args {
        for argument in &mut list.args {
            if let FunctionArg::Unnamed(FunctionArgExpr::Expr(expression)) = argument {
                *expression = call(value, vec![expression.clone()]);
            }
        }
    }
    call(document, vec![Expr::Function(array)])
}

/// Whether an expression is a word that stands for a call, which is what its output is called.
pub(in crate::query) fn is_register(expression: &Expr) -> bool {
    matches!(expression, Expr::Identifier(ident) if ident.quote_style.is_none() && register(&fold(ident)).is_some())
}

/// Words that stand for a call without parentheses.
pub(super) fn register(name: &str) -> Option<Expr> {
    let function = match name {
        "localtimestamp" => {
            return Some(casts::cast(call("now", Vec::new()), DataType::Timestamp(None, TimezoneInfo::None)));
        }
        "localtime" => {
            return Some(casts::cast(register("localtimestamp")?, DataType::Time(None, TimezoneInfo::None)));
        }
        "current_time" => {
            let ty = DataType::Time(None, TimezoneInfo::WithTimeZone);
            return Some(casts::cast(call("now", Vec::new()), ty));
        }
        "current_schema" | "current_user" | "session_user" | "current_role" | "user" | "current_catalog" => {
            name
        }
        _ => return None,
    };
    Some(call(function, Vec::new()))
}
