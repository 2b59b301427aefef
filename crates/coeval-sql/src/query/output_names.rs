// SPDX-License-Identifier: Apache-2.0
//! The names of output columns, as PostgreSQL gives them to expressions without an alias.
//!
//! DataFusion names an expression by its text and refuses two of one name. So every unnamed expression gets
//! PostgreSQL's name as its alias before planning, and a name that is taken gets a mark and a number behind
//! it, which are cut off again from the result.

use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::sql::sqlparser::ast::{
    AccessExpr, Expr, FunctionArguments, Ident, ObjectNamePart, Query, Select, SelectItem, SetExpr, VisitMut,
    VisitorMut,
};
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Divides a name from the number that makes it unique. No identifier holds it.
const MARK: char = '\u{1}';

/// The query with all outputs of all its parts named.
pub(crate) fn named(query: &Query) -> Query {
    let mut query = query.clone();
    // Nothing breaks off the visit.
    let _ = query.visit(&mut Namer);
    query
}

/// The schema with the names as users see them.
pub(crate) fn shown(schema: &Schema) -> SchemaRef {
    let fields: Vec<Field> = schema
        .fields()
        .iter()
        .map(|field| {
            let name = field.name().split(MARK).next().unwrap_or_default();
            Field::new(name, field.data_type().clone(), field.is_nullable())
                .with_metadata(field.metadata().clone())
        })
        .collect();
    Arc::new(Schema::new(fields))
}

struct Namer;

impl VisitorMut for Namer {
    type Break = ();

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        name_body(&mut query.body);
        ControlFlow::Continue(())
    }
}

fn name_body(body: &mut SetExpr) {
    match body {
        SetExpr::Select(select) => name_select(select),
        SetExpr::SetOperation { left, right, .. } => {
            name_body(left);
            name_body(right);
        }
        _ => {}
    }
}

fn name_select(select: &mut Select) {
    let has_wildcard = select
        .projection
        .iter()
        .any(|item| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..)));
    let mut taken = HashSet::new();
    for item in &mut select.projection {
        let (name, expression) = match item {
            SelectItem::ExprWithAlias { alias, .. } => {
                let name = crate::names::fold(alias);
                if !taken.insert(name.clone()) {
                    *alias = unique(&name, &mut taken);
                }
                continue;
            }
            SelectItem::UnnamedExpr(expression) => (name_of(expression), expression),
            _ => continue,
        };
        let is_column = matches!(expression, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
        let is_new = taken.insert(name.clone());
        if is_column && is_new && !has_wildcard {
            continue;
        }
        let alias =
            if is_new && !has_wildcard { Ident::with_quote('"', name) } else { unique(&name, &mut taken) };
        let expression = expression.clone();
        *item = SelectItem::ExprWithAlias { expr: expression, alias };
    }
}

fn unique(name: &str, taken: &mut HashSet<String>) -> Ident {
    let mut number = taken.len();
    loop {
        let candidate = format!("{name}{MARK}{number}");
        if taken.insert(candidate.clone()) {
            return Ident::with_quote('"', candidate);
        }
        number += 1;
    }
}

/// The name of a result column that has no alias: PostgreSQL's `FigureColname`.
pub(crate) fn name_of(expression: &Expr) -> String {
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
        Expr::Identifier(ident) => kept(crate::names::fold(ident)),
        Expr::CompoundIdentifier(parts) => parts.last().and_then(|part| kept(crate::names::fold(part))),
        Expr::Function(function) => {
            debug_assert!(!matches!(function.parameters, FunctionArguments::Subquery(_)));
            function.name.0.last().and_then(|part| match part {
                ObjectNamePart::Identifier(ident) => kept(crate::names::fold(ident)),
                ObjectNamePart::Function(_) => None,
            })
        }
        Expr::Cast { expr, data_type, .. } => {
            kept_of(expr).or_else(|| given_up(type_word(&data_type.to_string())))
        }
        Expr::TypedString(typed) => given_up(type_word(&typed.data_type.to_string())),
        Expr::Interval(_) => given_up("interval"),
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => figure(inner),
        Expr::Case { else_result, .. } => {
            else_result.as_deref().and_then(kept_of).or_else(|| given_up("case"))
        }
        Expr::Exists { .. } => kept("exists"),
        Expr::Subquery(query) => first_name(&query.body).and_then(kept),
        Expr::Extract { .. } => kept("extract"),
        Expr::Substring { shorthand: true, .. } => kept("substr"),
        Expr::Substring { .. } => kept("substring"),
        Expr::Trim { .. } => kept("btrim"),
        Expr::Position { .. } => kept("position"),
        Expr::Overlay { .. } => kept("overlay"),
        Expr::Ceil { .. } => kept("ceil"),
        Expr::Floor { .. } => kept("floor"),
        Expr::AtTimeZone { .. } => kept("timezone"),
        Expr::Array(_) => kept("array"),
        Expr::CompoundFieldAccess { root, access_chain } => {
            let is_subscript = |access: &AccessExpr| matches!(access, AccessExpr::Subscript(_));
            if access_chain.iter().all(is_subscript) { figure(root) } else { None }
        }
        Expr::Tuple(_) => kept("row"),
        _ => None,
    }
}

fn kept_of(expression: &Expr) -> Option<Figured> {
    figure(expression).filter(|figured| figured.is_kept)
}

fn first_name(body: &SetExpr) -> Option<String> {
    match body {
        SetExpr::Select(select) => match select.projection.first()? {
            SelectItem::ExprWithAlias { alias, .. } => {
                crate::names::fold(alias).split(MARK).next().map(str::to_owned)
            }
            SelectItem::UnnamedExpr(expression) => figure(expression).map(|figured| figured.name),
            _ => None,
        },
        SetExpr::Query(query) => first_name(&query.body),
        SetExpr::SetOperation { left, .. } => first_name(left),
        _ => None,
    }
}

/// PostgreSQL's internal name of a type, which names a cast.
fn type_word(declared: &str) -> String {
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
        "char" | "character" => "bpchar",
        "timestamp with time zone" => "timestamptz",
        "timestamp without time zone" => "timestamp",
        "time without time zone" => "time",
        other => other,
    }
    .to_owned()
}
