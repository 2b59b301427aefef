// SPDX-License-Identifier: Apache-2.0
//! The name that PostgreSQL gives a column of a result that has no alias.

use crate::names::fold;
use crate::types::column_type;
use coeval_store::ColumnType;
use datafusion::sql::sqlparser::ast::{
    AccessExpr, ArrayElemTypeDef, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
    ObjectNamePart, SelectItem, SetExpr, TrimWhereField,
};

/// Divides a name from the number that makes it unique. No identifier holds it.
pub(crate) const MARK: char = '\u{1}';

/// The function that casts to domains are made of. Its first argument is the cast to the type below, whose name a result has.
pub(crate) const IN_DOMAIN: &str = "coeval_in_domain";

/// The name that is shown of one that may have a mark.
pub(crate) fn unmarked(name: &str) -> &str {
    name.split(MARK).next().unwrap_or_default()
}

/// The name of a result column that has no alias: PostgreSQL's `FigureColname`.
pub(crate) fn column_name(expression: &Expr) -> String {
    figure(expression).map_or_else(|| "?column?".to_owned(), |figured| figured.name)
}

/// A name, and whether a cast or CASE around the expression leaves it.
struct Figured {
    name: String,
    is_kept: bool,
}

fn kept(name: impl Into<String>) -> Option<Figured> {
    Some(Figured { name: name.into(), is_kept: true })
}

fn given_up(name: impl Into<String>) -> Option<Figured> {
    Some(Figured { name: name.into(), is_kept: false })
}

fn figure(expression: &Expr) -> Option<Figured> {
    match expression {
        Expr::Identifier(ident) => kept(fold(ident)),
        Expr::CompoundIdentifier(parts) => parts.last().and_then(|part| kept(fold(part))),
        Expr::Function(function) => {
            debug_assert!(!matches!(function.parameters, FunctionArguments::Subquery(_)));
            match function.name.0.last()? {
                ObjectNamePart::Identifier(ident) if ident.value == IN_DOMAIN => {
                    first_argument(function).and_then(figure)
                }
                ObjectNamePart::Identifier(ident) => kept(fold(ident)),
                ObjectNamePart::Function(_) => None,
            }
        }
        Expr::Cast { expr, data_type, .. } => kept_of(expr).or_else(|| given_up(type_name(data_type))),
        Expr::TypedString(typed) => given_up(type_name(&typed.data_type)),
        Expr::Interval(_) => given_up("interval"),
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => figure(inner),
        Expr::Case { else_result, .. } => {
            else_result.as_deref().and_then(kept_of).or_else(|| given_up("case"))
        }
        Expr::Exists { negated: false, .. } => kept("exists"),
        Expr::Subquery(query) => first_name(&query.body).and_then(kept),
        Expr::Extract { .. } => kept("extract"),
        Expr::Substring { shorthand: true, .. } => kept("substr"),
        Expr::Substring { .. } => kept("substring"),
        Expr::Trim { trim_where, .. } => kept(match trim_where {
            Some(TrimWhereField::Leading) => "ltrim",
            Some(TrimWhereField::Trailing) => "rtrim",
            Some(TrimWhereField::Both) | None => "btrim",
        }),
        Expr::Position { .. } => kept("position"),
        Expr::Overlay { .. } => kept("overlay"),
        Expr::Ceil { .. } => kept("ceil"),
        Expr::Floor { .. } => kept("floor"),
        Expr::AtTimeZone { .. } => kept("timezone"),
        Expr::Array(_) => kept("array"),
        Expr::CompoundFieldAccess { root, access_chain } => {
            // The last field gives the name, whatever subscripts are behind it.
            let field = access_chain.iter().rev().find_map(|access| match access {
                AccessExpr::Dot(field) => Some(field),
                AccessExpr::Subscript(_) => None,
            });
            figure(field.unwrap_or(root))
        }
        Expr::Tuple(_) => kept("row"),
        _ => None,
    }
}

fn first_argument(function: &Function) -> Option<&Expr> {
    let FunctionArguments::List(list) = &function.args else { return None };
    match list.args.first()? {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)) => Some(argument),
        _ => None,
    }
}

fn kept_of(expression: &Expr) -> Option<Figured> {
    figure(expression).filter(|figured| figured.is_kept)
}

fn first_name(body: &SetExpr) -> Option<String> {
    match body {
        SetExpr::Select(select) => match select.projection.first()? {
            SelectItem::ExprWithAlias { alias, .. } => fold(alias).split(MARK).next().map(str::to_owned),
            SelectItem::UnnamedExpr(expression) => figure(expression).map(|figured| figured.name),
            _ => None,
        },
        SetExpr::Query(query) => first_name(&query.body),
        SetExpr::Values(_) => Some("column1".to_owned()),
        SetExpr::SetOperation { left, .. } => first_name(left),
        _ => None,
    }
}

/// The name that a cast to this type gives.
fn type_name(ty: &DataType) -> String {
    if let Ok(ColumnType::Enum(ty)) = column_type(ty) {
        return ty.def().name.name.clone();
    }
    match ty {
        DataType::Array(ArrayElemTypeDef::SquareBracket(element, _)) => type_name(element),
        DataType::Custom(name, _) => match name.0.last().and_then(ObjectNamePart::as_ident) {
            // Another type than the word without quotes: `"char"`.
            Some(ident) if ident.quote_style.is_some() => ident.value.clone(),
            last => internal_name(last.map_or("", |ident| ident.value.as_str())),
        },
        ty => internal_name(&ty.to_string()),
    }
}

/// PostgreSQL's internal name of a type, which names a cast.
pub(crate) fn internal_name(declared: &str) -> String {
    let lower = declared.to_lowercase();
    let base = lower.split('(').next().unwrap_or_default().trim();
    match base {
        "int" | "integer" => "int4",
        "bigint" => "int8",
        "smallint" => "int2",
        "real" => "float4",
        "double precision" | "double" | "float" => "float8",
        "decimal" | "dec" => "numeric",
        "boolean" => "bool",
        "character varying" | "char varying" => "varchar",
        "bit varying" => "varbit",
        "char" | "character" => "bpchar",
        "timestamp with time zone" => "timestamptz",
        "timestamp without time zone" => "timestamp",
        "time with time zone" => "timetz",
        "time without time zone" => "time",
        other => other,
    }
    .to_owned()
}
