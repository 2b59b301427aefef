// SPDX-License-Identifier: Apache-2.0
//! Casts to types that only the catalog has: object ids by name, names, vectors, arrays.

use super::{call, text, unqualified};
use crate::names::fold;
pub(super) use crate::select::cast;
use crate::stack::with_room;
use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, DataType, DateTimeField, Expr, Ident, Interval, ObjectName, Query, SelectItem, SetExpr,
    TimezoneInfo, TypedString, Value,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;

/// The functions that stand for casts to object ids, with those that give the name instead.
const CASTS: [(&str, &str, &str); 4] = [
    ("regclass", "coeval_regclass", "coeval_regclass_name"),
    ("regtype", "coeval_regtype", "coeval_regtype_name"),
    ("regnamespace", "coeval_regnamespace", "coeval_regnamespace_name"),
    ("regrole", "coeval_regrole", "coeval_regrole_name"),
];

/// What a type is to a cast.
enum Target {
    /// An object id by name, with the function that finds it.
    Object(&'static str),
    /// A function by name: the catalog keeps those as text.
    FunctionName,
    /// A path of JSON, kept as the one text that it has.
    Path,
    /// Another type.
    Plain(DataType),
    /// An array, with the type of its elements.
    Array(DataType),
}

/// What stands in the place of the cast; `None` if it stays, its type rewritten.
pub(super) fn rewritten(expression: &Expr, data_type: &mut DataType) -> Option<Expr> {
    if is_object_id(data_type)
        && let Some(number) = function_number(expression)
    {
        return Some(number);
    }
    if is_double(data_type)
        && let Some(digits) = literal_digits(expression)
    {
        return Some(cast(text(digits), data_type.clone()));
    }
    match target(data_type)? {
        Target::Object(function) => Some(call(function, vec![expression.clone()])),
        Target::FunctionName => Some(call("coeval_regproc_name", vec![expression.clone()])),
        Target::Path => Some(call(crate::json::PATH, vec![cast(expression.clone(), DataType::Text)])),
        Target::Array(element) => {
            Some(call("coeval_array", vec![expression.clone(), text(&element.to_string())]))
        }
        Target::Plain(plain) => {
            if is_text(&plain)
                && let Some(name) = as_name(expression)
            {
                return Some(name);
            }
            *data_type = plain;
            None
        }
    }
}

fn is_double(ty: &DataType) -> bool {
    matches!(ty, DataType::DoublePrecision | DataType::Double(_) | DataType::Float8 | DataType::Float64)
}

/// The digits of a number that is written down. As a text they are read as the float that is nearest to them, where a decimal of more
/// than fifteen digits, divided by a power of ten, may be the next one.
fn literal_digits(expression: &Expr) -> Option<&str> {
    match expression {
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => Some(digits.as_str()),
            _ => None,
        },
        _ => None,
    }
}

/// The cast to a type with fewer digits of seconds, rounded to them; `None` for all other casts.
pub(super) fn rounded(cast: &mut Expr) -> Option<Expr> {
    let Expr::Cast { data_type, .. } = cast else { return None };
    let digits = match data_type {
        DataType::Timestamp(digits, _) | DataType::Time(digits, _) => digits.take()?,
        DataType::Interval { precision, .. } => precision.take()?,
        _ => return None,
    };
    let digits = super::number(&digits.min(6).to_string());
    Some(call(crate::query::ROUNDED_TIME, vec![cast.clone(), digits]))
}

/// The same of a literal that is written behind its type: `timestamp(0) '2026-01-01 10:00:00.6'`.
pub(super) fn rounded_literal(literal: &TypedString) -> Option<Expr> {
    rounded(&mut cast(Expr::Value(literal.value.clone()), literal.data_type.clone()))
}

/// A path that is written behind its type: `jsonpath '$.a'`.
pub(super) fn path_literal(literal: &TypedString) -> Option<Expr> {
    let is_path = matches!(target(&literal.data_type), Some(Target::Path));
    is_path.then(|| rewritten(&Expr::Value(literal.value.clone()), &mut literal.data_type.clone())).flatten()
}

/// The same of an interval that says so behind its last field: `interval '1.25' second(1)`.
pub(super) fn rounded_interval(literal: &mut Interval) -> Option<Expr> {
    let of_last = literal.fractional_seconds_precision.take();
    let of_only = literal.leading_precision.take_if(|_| literal.leading_field == Some(DateTimeField::Second));
    let digits = super::number(&of_last.or(of_only)?.min(6).to_string());
    Some(call(crate::query::ROUNDED_TIME, vec![Expr::Interval(literal.clone()), digits]))
}

/// The type of the column that a cast to this type is one to; `None` if it is to what only the catalog has.
pub(super) fn plain_type(ty: &DataType) -> Option<DataType> {
    match target(ty) {
        Some(Target::Plain(plain)) => Some(plain),
        Some(Target::Path) => Some(DataType::Text),
        Some(Target::Object(_) | Target::FunctionName | Target::Array(_)) => None,
        None => Some(ty.clone()),
    }
}

/// The type of the elements of an array type; `None` for all others.
pub(super) fn element_of(ty: &DataType) -> Option<DataType> {
    match target(ty) {
        Some(Target::Array(element)) => Some(element),
        _ => None,
    }
}

fn is_text(ty: &DataType) -> bool {
    matches!(ty, DataType::Text | DataType::Varchar(None) | DataType::CharacterVarying(None))
}

fn target(ty: &DataType) -> Option<Target> {
    match ty {
        DataType::Regclass => Some(Target::Object("coeval_regclass")),
        DataType::Array(
            ArrayElemTypeDef::SquareBracket(element, _) | ArrayElemTypeDef::AngleBracket(element),
        ) => Some(Target::Array(element_type(element))),
        DataType::Custom(name, modifiers) => named(name, modifiers),
        text if is_text(text) => Some(Target::Plain(text.clone())),
        _ => None,
    }
}

fn named(full: &ObjectName, modifiers: &[String]) -> Option<Target> {
    let is_quoted = full.0.last()?.as_ident()?.quote_style.is_some();
    let is_qualified = full.0.len() > 1;
    let name = unqualified(full)?;
    let name = name.as_str();
    if let Some((_, function, _)) = CASTS.iter().find(|(ty, ..)| *ty == name) {
        return Some(Target::Object(function));
    }
    // Types of arrays are called so in `pg_type`: `_int4`.
    if let Some(element) = name.strip_prefix('_').and_then(element_named) {
        return Some(Target::Array(element));
    }
    Some(match name {
        "regproc" | "regprocedure" | "regoper" | "regoperator" => Target::FunctionName,
        "oid" | "xid" | "cid" | "xid8" => Target::Plain(DataType::Int(None)),
        "name" | "cstring" | "pg_node_tree" | "aclitem" => Target::Plain(DataType::Text),
        "jsonpath" => Target::Path,
        "char" if is_quoted => Target::Plain(DataType::Text),
        "int2vector" => Target::Array(DataType::SmallInt(None)),
        "oidvector" => Target::Array(object_ids()),
        _ if is_qualified => {
            let spelled = if modifiers.is_empty() {
                name.to_owned()
            } else {
                format!("{name}({})", modifiers.join(","))
            };
            let mut parser = Parser::new(&PostgreSqlDialect {}).try_with_sql(&spelled).ok()?;
            let plain = parser.parse_data_type().ok()?;
            match plain {
                DataType::Custom(..) => Target::Plain(plain),
                plain => target(&plain).unwrap_or(Target::Plain(plain)),
            }
        }
        _ => return None,
    })
}

/// The element type that has this name; `None` if it is none that PostgreSQL brings with it.
fn element_named(name: &str) -> Option<DataType> {
    let mut parser = Parser::new(&PostgreSqlDialect {}).try_with_sql(name).ok()?;
    let ty = parser.parse_data_type().ok()?;
    match target(&ty) {
        Some(Target::Array(_)) => None,
        None if matches!(ty, DataType::Custom(..)) => None,
        _ => Some(element_type(&ty)),
    }
}

/// The element type of an array in words that `column_type` knows.
fn element_type(ty: &DataType) -> DataType {
    match target(ty) {
        Some(Target::Object(_)) => DataType::Int(None),
        Some(Target::Plain(DataType::Int(None))) if is_object_id(ty) => object_ids(),
        Some(Target::FunctionName | Target::Path) => DataType::Text,
        Some(Target::Plain(plain)) => plain,
        Some(Target::Array(element)) => element,
        None => ty.clone(),
    }
}

/// The element type of arrays of object ids, by which clients are told of them.
fn object_ids() -> DataType {
    DataType::Custom(ObjectName::from(vec![Ident::new("oid")]), Vec::new())
}

fn is_object_id(ty: &DataType) -> bool {
    matches!(ty, DataType::Custom(name, _) if unqualified(name).as_deref() == Some("oid"))
}

/// The id of a function that the catalog keeps by name; `None` if the expression is none.
pub(super) fn function_number(expression: &Expr) -> Option<Expr> {
    match expression {
        Expr::Nested(inner) => function_number(inner),
        Expr::Function(function) if unqualified(&function.name)? == "coeval_regproc_name" => {
            Some(call("coeval_regproc_oid", super::arguments_of(function)))
        }
        Expr::Identifier(ident) if crate::relations::holds_functions(&fold(ident)) => {
            Some(call("coeval_regproc_oid", vec![expression.clone()]))
        }
        Expr::CompoundIdentifier(idents) if crate::relations::holds_functions(&fold(idents.last()?)) => {
            Some(call("coeval_regproc_oid", vec![expression.clone()]))
        }
        _ => None,
    }
}

/// The object's name instead of its id; `None` if the expression is no such cast.
fn as_name(expression: &Expr) -> Option<Expr> {
    let Expr::Function(function) = expression else { return None };
    let name = unqualified(&function.name)?;
    if let Some(kind) = name.strip_prefix("to_").filter(|kind| CASTS.iter().any(|(ty, ..)| ty == kind)) {
        return Some(call(&format!("coeval_{kind}_name"), vec![expression.clone()]));
    }
    let (_, _, shown) = CASTS.iter().find(|(_, id, _)| *id == name)?;
    Some(call(shown, super::arguments_of(function)))
}

/// The argument of a sequence function without a cast to `regclass`: sequences go by name.
pub(super) fn by_name(argument: &mut Expr) {
    if let Expr::Function(function) = argument
        && let [literal @ Expr::Value(_)] = super::arguments_of(function).as_slice()
        && unqualified(&function.name).as_deref() == Some("coeval_regclass")
    {
        *argument = literal.clone();
    } else if let Some(name) = as_name(argument) {
        *argument = name;
    }
}

/// Object ids that the query itself gives out by a cast are shown by name, as the type's output function does.
pub(super) fn show_names(query: &mut Query) {
    if matches!(query.body.as_ref(), SetExpr::SetOperation { .. }) {
        // A column that one side has plain ids in is of ids.
        let places = id_places(&query.body);
        show_at(&mut query.body, &places);
        return;
    }
    match query.body.as_mut() {
        SetExpr::Select(select) => select.projection.iter_mut().filter_map(output).for_each(show),
        SetExpr::Query(query) => show_names(query),
        _ => {}
    }
}

fn output(item: &mut SelectItem) -> Option<&mut Expr> {
    match item {
        SelectItem::UnnamedExpr(expression) | SelectItem::ExprWithAlias { expr: expression, .. } => {
            Some(expression)
        }
        _ => None,
    }
}

/// Which columns of a set of rows are object ids by a cast, on all its sides.
fn id_places(body: &SetExpr) -> Vec<bool> {
    match body {
        SetExpr::Select(select) => select
            .projection
            .iter()
            .map(|item| match item {
                SelectItem::UnnamedExpr(expression) | SelectItem::ExprWithAlias { expr: expression, .. } => {
                    is_id(expression)
                }
                _ => false,
            })
            .collect(),
        SetExpr::Query(query) => id_places(&query.body),
        SetExpr::SetOperation { left, right, .. } => {
            let sides = with_room(|| id_places(left)).into_iter().zip(id_places(right));
            sides.map(|(left, right)| left && right).collect()
        }
        _ => Vec::new(),
    }
}

/// Whether an output is an object id by a cast, or NULL.
fn is_id(expression: &Expr) -> bool {
    match expression {
        Expr::Nested(inner) => is_id(inner),
        Expr::Value(value) => value.value == Value::Null,
        Expr::Subquery(query) => id_places(&query.body).first() == Some(&true),
        Expr::Case { conditions, else_result, .. } => {
            let results = conditions.iter().map(|when| &when.result);
            results.chain(else_result.as_deref()).all(is_id)
        }
        other => as_name(other).is_some(),
    }
}

/// Shows the ids in these columns.
fn show_at(body: &mut SetExpr, places: &[bool]) {
    match body {
        SetExpr::Select(select) => {
            for (item, is_id) in select.projection.iter_mut().zip(places) {
                if let (true, Some(expression)) = (*is_id, output(item)) {
                    show(expression);
                }
            }
        }
        SetExpr::Query(query) => show_at(&mut query.body, places),
        SetExpr::SetOperation { left, right, .. } => {
            with_room(|| show_at(left, places));
            show_at(right, places);
        }
        _ => {}
    }
}

fn show(expression: &mut Expr) {
    if let Some(name) = as_name(expression) {
        *expression = name;
        return;
    }
    match expression {
        Expr::Nested(inner) => show(inner),
        Expr::Subquery(query) => show_names(query),
        Expr::Case { conditions, else_result, .. } => {
            conditions.iter_mut().for_each(|when| show(&mut when.result));
            else_result.iter_mut().for_each(|result| show(result));
        }
        _ => {}
    }
}

/// The column that an expression names, and nothing else.
fn column_name(expression: &Expr) -> Option<String> {
    match expression {
        Expr::Identifier(ident) => Some(fold(ident)),
        Expr::CompoundIdentifier(idents) => idents.last().map(fold),
        Expr::Nested(inner) => column_name(inner),
        _ => None,
    }
}

/// Whether an expression names a column that is a `regtype` in PostgreSQL, as in `pg_sequences`, and has the type's name here.
pub(super) fn names_a_type(expression: &Expr) -> bool {
    column_name(expression).is_some_and(|name| name == "data_type")
}

/// The name of a type instead of its id, if it is one by a cast.
pub(super) fn by_type_name(expression: &mut Expr) {
    if let Expr::Nested(inner) = expression {
        by_type_name(inner);
    } else if matches!(&*expression, Expr::Function(function)
        if unqualified(&function.name).as_deref() == Some("coeval_regtype"))
        && let Some(name) = as_name(expression)
    {
        *expression = name;
    }
}

/// Whether an expression names a column of the catalog that holds names, whose subscripts give letters.
pub(super) fn is_name(expression: &Expr) -> bool {
    column_name(expression).is_some_and(|name| crate::relations::holds_names(&name))
}

/// Whether an expression names a column of the catalog that is a vector, whose subscripts begin at zero.
pub(super) fn is_vector(expression: &Expr) -> bool {
    let Some(name) = column_name(expression) else { return false };
    ["indkey", "indclass", "indoption", "indcollation", "proargtypes", "partattrs", "tgattr", "stxkeys"]
        .iter()
        .any(|vector| name.ends_with(vector))
}

/// `int4(x)`, `date(x)`: the cast to the type that is called; `localtimestamp(0)`: with so many digits of seconds. `None` for
/// other calls.
pub(super) fn called_by_type(name: &str, arguments: &[Expr]) -> Option<Expr> {
    let [argument] = arguments else { return None };
    let ty = match name {
        "bool" => DataType::Boolean,
        "int2" => DataType::SmallInt(None),
        "int4" => DataType::Int(None),
        "int8" => DataType::BigInt(None),
        "float4" => DataType::Real,
        "float8" => DataType::DoublePrecision,
        "text" => DataType::Text,
        "date" => DataType::Date,
        "timestamptz" => DataType::Timestamp(None, TimezoneInfo::WithTimeZone),
        "timetz" => DataType::Time(None, TimezoneInfo::WithTimeZone),
        "localtimestamp" | "current_timestamp" | "localtime" | "current_time" => {
            return now_rounded(name, argument);
        }
        _ => return None,
    };
    let mut ty = ty;
    rewritten(argument, &mut ty).or_else(|| Some(cast(argument.clone(), ty)))
}

fn now_rounded(name: &str, digits: &Expr) -> Option<Expr> {
    let Expr::Value(value) = digits else { return None };
    let Value::Number(digits, _) = &value.value else { return None };
    if name == "localtime" {
        let now = cast(call("now", Vec::new()), DataType::Timestamp(None, TimezoneInfo::None));
        return rounded(&mut cast(now, DataType::Time(digits.parse().ok(), TimezoneInfo::None)));
    }
    if name == "current_time" {
        let digits = digits.parse().ok();
        return rounded(&mut cast(
            call("now", Vec::new()),
            DataType::Time(digits, TimezoneInfo::WithTimeZone),
        ));
    }
    let zone = if name == "localtimestamp" { TimezoneInfo::None } else { TimezoneInfo::WithTimeZone };
    let digits = digits.parse().ok();
    let mut now = cast(call("now", Vec::new()), DataType::Timestamp(digits, zone));
    rounded(&mut now).or(Some(now))
}
