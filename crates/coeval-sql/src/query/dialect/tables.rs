// SPDX-License-Identifier: Apache-2.0
//! Functions in FROM.

use super::{
    BIGINT_SERIES, INT_SERIES, SERIES, arguments_of, call, casts, plain_arguments, text, unqualified,
};
use crate::json::{Document, SetColumn};
use crate::names::fold;
use crate::parse::ROWS_FROM;
use crate::query::scopes::names_of_sets;
use datafusion::sql::sqlparser::ast::{
    DataType, Expr, Ident, JoinConstraint, JoinOperator, ObjectName, Query, Select, SelectItem, SetExpr,
    Statement, TableAlias, TableAliasColumnDef, TableFactor, TableWithJoins, UnaryOperator, Value, Visit,
    WildcardAdditionalOptions,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;

/// Whether rows are numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Numbering {
    None,
    /// WITH ORDINALITY.
    Ordinality,
}

impl From<bool> for Numbering {
    fn from(with_ordinality: bool) -> Self {
        if with_ordinality { Self::Ordinality } else { Self::None }
    }
}

/// A function in FROM that DataFusion has not becomes a subquery: of `unnest` if it returns a set, of its value
/// if it does not.
pub(super) fn rewrite(factor: &mut TableFactor) {
    let replaced = match factor {
        TableFactor::Function { name, args, alias, with_ordinality, .. } => {
            let Some(function) = unqualified(name) else { return };
            of_function(&function, plain_arguments(args), alias.as_ref(), (*with_ordinality).into())
        }
        TableFactor::Table { name, alias, args: Some(arguments), with_ordinality, .. } => {
            let Some(function) = unqualified(name) else { return };
            *name = ObjectName::from(vec![Ident::new(function.clone())]);
            let arguments = plain_arguments(&arguments.args);
            if function == "generate_series" {
                name_column(alias, &function);
                if !*with_ordinality && is_counted(&arguments) {
                    let counting = if arguments.iter().all(is_int) { INT_SERIES } else { BIGINT_SERIES };
                    *name = ObjectName::from(vec![Ident::new(counting)]);
                    return;
                }
            }
            of_function(&function, arguments, alias.as_ref(), (*with_ordinality).into())
        }
        TableFactor::UNNEST { alias, array_exprs, with_offset: false, with_ordinality, .. } => {
            Some(unnested(array_exprs.clone(), "unnest", alias.as_ref(), (*with_ordinality).into()))
        }
        _ => None,
    };
    if let Some(replaced) = replaced {
        *factor = replaced;
    }
}

/// The alias of sets beside each other names all of their columns, before what gives the names is written otherwise.
pub(super) fn name_sets(factor: &mut TableFactor) {
    let Some(names) = names_of_sets(factor) else { return };
    let (TableFactor::Table { alias, .. }
    | TableFactor::Function { alias, .. }
    | TableFactor::UNNEST { alias, .. }) = factor
    else {
        return;
    };
    let alias = alias.get_or_insert_with(|| plain_alias(&names.table));
    alias.columns.extend(names.columns.into_iter().skip(alias.columns.len()).map(quoted_column));
}

fn quoted_column(name: String) -> TableAliasColumnDef {
    TableAliasColumnDef { name: Ident::with_quote('"', name), data_type: None }
}

/// A function that returns one column gives it the alias's name, or its own.
fn name_column(alias: &mut Option<TableAlias>, function: &str) {
    let alias = alias.get_or_insert_with(|| plain_alias(function));
    if alias.columns.is_empty() {
        alias.columns.push(TableAliasColumnDef { name: alias.name.clone(), data_type: None });
    }
}

fn plain_alias(name: &str) -> TableAlias {
    TableAlias { explicit: true, name: Ident::new(name), columns: Vec::new(), at: None }
}

/// Whether syntax may name a column of a table beside it, which only a LATERAL subquery in FROM can see.
pub(super) fn names_columns<V: Visit>(syntax: &V) -> bool {
    let is_column = |part: &Expr| matches!(part, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
    crate::walk::any_expression(syntax, is_column)
}

/// Behind the first table of FROM, functions see the columns of those before them; the first one sees none, whatever it
/// says.
pub(super) fn make_lateral(select: &mut Select) {
    let mut factors = select.from.iter_mut().flat_map(|table| {
        std::iter::once(&mut table.relation).chain(table.joins.iter_mut().map(|join| &mut join.relation))
    });
    if let Some(TableFactor::Derived { lateral, .. }) = factors.next() {
        *lateral = false;
    }
    for factor in factors {
        if let TableFactor::Derived { lateral, subquery, .. } = factor {
            *lateral |= is_function(subquery) && names_columns(subquery.as_ref());
        }
    }
}

/// The condition of a LEFT JOIN LATERAL becomes one of the subquery, which sees the same columns.
pub(super) fn keep_conditions(select: &mut Select) {
    for join in select.from.iter_mut().flat_map(|table| &mut table.joins) {
        if let JoinOperator::Left(JoinConstraint::On(condition))
        | JoinOperator::LeftOuter(JoinConstraint::On(condition)) = &mut join.join_operator
            && let TableFactor::Derived { lateral: true, subquery, alias: Some(alias), .. } =
                &mut join.relation
            && !is_true(condition)
        {
            let condition = std::mem::replace(condition, Expr::Value(Value::Boolean(true).into()));
            **subquery = restricted(subquery, alias.clone(), condition);
            alias.columns.clear();
        }
    }
}

fn is_true(condition: &Expr) -> bool {
    matches!(condition, Expr::Value(value) if value.value == Value::Boolean(true))
}

/// `SELECT * FROM (query) AS alias WHERE condition`.
pub(super) fn restricted(query: &Query, alias: TableAlias, condition: Expr) -> Query {
    let relation = TableFactor::Derived {
        lateral: false,
        subquery: Box::new(query.clone()),
        alias: Some(alias),
        sample: None,
    };
    let all = SelectItem::Wildcard(WildcardAdditionalOptions::default());
    let mut restricted = select_from(vec![all], vec![TableWithJoins { relation, joins: Vec::new() }]);
    if let SetExpr::Select(select) = restricted.body.as_mut() {
        select.selection = Some(condition);
    }
    restricted
}

/// Whether a subquery reads no table: it is what became of a function.
fn is_function(query: &Query) -> bool {
    matches!(query.body.as_ref(), SetExpr::Select(select) if select.from.is_empty())
}

fn of_function(
    function: &str,
    arguments: Vec<Expr>,
    alias: Option<&TableAlias>,
    numbering: Numbering,
) -> Option<TableFactor> {
    if function == "pg_get_keywords" {
        let query = "SELECT * FROM pg_catalog.pg_get_keywords";
        return Some(derived(query_of(query)?, "pg_get_keywords", alias, &[]));
    }
    if function == "pg_options_to_table" {
        // Nothing of the catalog has options.
        let query = "SELECT NULL::text AS option_name, NULL::text AS option_value WHERE false";
        return Some(derived(query_of(query)?, function, alias, &[]));
    }
    if let Some(array) = crate::catalog::set_returning(function) {
        return Some(unnested(vec![call(array, arguments)], function, alias, numbering));
    }
    let columns = crate::json::set_columns(function);
    if !columns.is_empty() {
        let arguments = with_document(function, arguments);
        return Some(of_documents(columns, &arguments, function, alias, numbering));
    }
    match function {
        "regexp_matches" => {
            let item = SelectItem::UnnamedExpr(matches_of(arguments));
            let name = name_of_value(function, alias);
            Some(derived(select_from(vec![item], Vec::new()), function, alias, &[name.as_str()]))
        }
        "unnest" => Some(unnested(arguments, function, alias, numbering)),
        ROWS_FROM => {
            let arrays = arguments.into_iter().map(array_of_set).collect();
            Some(unnested(arrays, function, alias, numbering))
        }
        "generate_series" => Some(unnested(vec![call(SERIES, arguments)], function, alias, numbering)),
        INT_SERIES | BIGINT_SERIES => None,
        // Any other gives one row of its value.
        _ => {
            let name = name_of_value(function, alias);
            let value = SelectItem::UnnamedExpr(call(function, arguments));
            let number = || SelectItem::UnnamedExpr(super::number("1"));
            let (items, names) = match numbering {
                Numbering::None => (vec![value], vec![name.as_str()]),
                Numbering::Ordinality => (vec![value, number()], vec![name.as_str(), ORDINALITY]),
            };
            Some(derived(select_from(items, Vec::new()), function, alias, &names))
        }
    }
}

/// `coeval_changes(...)` becomes a subquery in PostgreSQL's words, which are to be visited yet.
pub(super) fn expand_changes(factor: &mut TableFactor) {
    const NAME: &str = "coeval_changes";
    let is_named = |name: &ObjectName| unqualified(name).is_some_and(|name| name == NAME);
    let expanded = match factor {
        TableFactor::Function { name, args, alias, .. } if is_named(name) => {
            changes(&plain_arguments(args)).map(|query| derived(query, NAME, alias.as_ref(), &[]))
        }
        TableFactor::Table { name, alias, args: Some(arguments), .. } if is_named(name) => {
            let arguments = plain_arguments(&arguments.args);
            changes(&arguments).map(|query| derived(query, NAME, alias.as_ref(), &[]))
        }
        _ => None,
    };
    if let Some(expanded) = expanded {
        *factor = expanded;
    }
}

/// The columns of a change that say which one it is, of an object `c`.
pub(in crate::query) const CHANGE_HEAD: &str = "c ->> 'token' AS token, (c ->> 'version')::bigint AS version, \
     (c ->> 'position')::int AS position, (c ->> 'committed_at')::timestamptz AS committed_at";

/// What transactions have changed, of an array with an object for each change.
fn changes(arguments: &[Expr]) -> Option<Query> {
    let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
    query_of(&format!(
        "SELECT {CHANGE_HEAD}, c ->> 'table_schema' AS table_schema, c ->> 'table_name' AS table_name, \
         c ->> 'operation' AS operation, c -> 'key' AS key, c -> 'before' AS before, c -> 'after' AS after \
         FROM (SELECT unnest(coeval_changes_as_json({}))::json AS c) AS changes",
        arguments.join(", ")
    ))
}

/// `SELECT generate_series(1, 1000000)` becomes `SELECT generate_series FROM generate_series(1, 1000000)`, which is counted
/// as it is read.
pub(super) fn count_in_from(select: &mut Select) {
    let [item] = select.projection.as_mut_slice() else { return };
    let (SelectItem::UnnamedExpr(expression) | SelectItem::ExprWithAlias { expr: expression, .. }) = item
    else {
        return;
    };
    let Expr::Function(function) = &*expression else { return };
    let is_series = unqualified(&function.name).is_some_and(|name| name == "generate_series");
    if !select.from.is_empty()
        || select.selection.is_some()
        || !is_series
        || !is_counted(&arguments_of(function))
    {
        return;
    }
    let counted = query_of(&format!("SELECT generate_series FROM {function} AS generate_series"));
    if let Some(SetExpr::Select(counted)) = counted.map(|query| *query.body) {
        *expression = Expr::Identifier(Ident::new("generate_series"));
        select.from = counted.from;
    }
}

/// Whether a series of these arguments is counted as it is read: they are constants that are whole numbers.
fn is_counted(arguments: &[Expr]) -> bool {
    matches!(arguments.len(), 2 | 3) && arguments.iter().all(is_constant)
}

/// Whether an expression is a constant that is a whole number.
fn is_constant(expression: &Expr) -> bool {
    match expression {
        Expr::Value(value) => {
            matches!(&value.value, Value::Number(digits, _) if digits.parse::<i64>().is_ok())
        }
        Expr::Nested(expr) => is_constant(expr),
        Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr } => is_constant(expr),
        Expr::Cast { expr, data_type: DataType::BigInt(None) | DataType::Int8(None), .. } => {
            is_constant(expr)
        }
        _ => false,
    }
}

/// Whether a whole number is an `int`.
fn is_int(expression: &Expr) -> bool {
    match expression {
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => digits.parse::<i32>().is_ok(),
            _ => false,
        },
        Expr::Nested(expr) | Expr::UnaryOp { expr, .. } => is_int(expr),
        _ => false,
    }
}

/// The rows of `regexp_matches`, each an array.
pub(super) fn matches_of(arguments: Vec<Expr>) -> Expr {
    let rows = call("unnest", vec![call(crate::functions::ROWS_OF_MATCHES, arguments)]);
    call("coeval_array", vec![rows, text("text")])
}

/// One column of a set that a function of documents returns.
pub(super) fn set_of_documents(column: &SetColumn, arguments: Vec<Expr>) -> Expr {
    let set = call("unnest", vec![call(column.function, arguments)]);
    match column.document {
        None => set,
        Some(Document::Json) => casts::cast(set, DataType::JSON),
        Some(Document::Jsonb) => casts::cast(set, DataType::JSONB),
    }
}

/// The arguments of a function of documents, the first one with its type: a `jsonb` is in another order than the text that it is
/// written as.
pub(super) fn with_document(function: &str, mut arguments: Vec<Expr>) -> Vec<Expr> {
    let ty = if function.starts_with("jsonb") { DataType::JSONB } else { DataType::JSON };
    if let Some(document) = arguments.first_mut()
        && matches!(&*document, Expr::Value(value)
            if matches!(value.value, Value::SingleQuotedString(_) | Value::Placeholder(_)))
    {
        *document = casts::cast(document.clone(), ty);
    }
    arguments
}

/// One column of a set of documents that has several: `(jsonb_each(document)).key`. `None` for anything else.
pub(super) fn column_of_set(set: &Expr, name: &str) -> Option<Expr> {
    let function = match set {
        Expr::Nested(inner) => return column_of_set(inner, name),
        Expr::Function(function) => function,
        _ => return None,
    };
    let called = unqualified(&function.name)?;
    let columns = crate::json::set_columns(&called);
    let column = columns.iter().find(|column| columns.len() > 1 && column.name == name)?;
    Some(set_of_documents(column, with_document(&called, arguments_of(function))))
}

/// `(SELECT unnest(array) AS key, ... [, its place]) AS alias(column, ...)`.
fn of_documents(
    columns: &[SetColumn],
    arguments: &[Expr],
    function: &str,
    alias: Option<&TableAlias>,
    numbering: Numbering,
) -> TableFactor {
    let named = |(expression, name): (Expr, &str)| SelectItem::ExprWithAlias {
        expr: expression,
        alias: Ident::with_quote('"', name),
    };
    let mut items: Vec<_> =
        columns.iter().map(|column| (set_of_documents(column, arguments.to_vec()), column.name)).collect();
    if numbering == Numbering::Ordinality {
        items.push((places_of(call(columns[0].function, arguments.to_vec())), ORDINALITY));
    }
    let mut names: Vec<_> = items.iter().map(|(_, name)| *name).collect();
    let value = name_of_value(function, alias);
    // What has no name of its own has that of the alias.
    if names[0] == function {
        names[0] = &value;
    }
    derived(select_from(items.into_iter().map(named).collect(), Vec::new()), function, alias, &names)
}

/// The places of an array's elements, as the column of WITH ORDINALITY.
fn places_of(array: Expr) -> Expr {
    let places = call("coeval_subscripts", vec![array]);
    casts::cast(call("unnest", vec![places]), DataType::BigInt(None))
}

/// The name of the column of WITH ORDINALITY.
const ORDINALITY: &str = "ordinality";

/// `(SELECT unnest(array), ... [, the place]) AS alias(column, ...)`. Shorter arrays go on with NULL.
fn unnested(
    arrays: Vec<Expr>,
    function: &str,
    alias: Option<&TableAlias>,
    numbering: Numbering,
) -> TableFactor {
    let named = |expression: Expr, name: String| SelectItem::ExprWithAlias {
        expr: expression,
        alias: Ident::with_quote('"', name),
    };
    let places = (numbering == Numbering::Ordinality).then(|| match arrays.as_slice() {
        [array] => places_of(array.clone()),
        arrays => places_up_to(arrays),
    });
    // The columns of several have been named.
    let value = name_of_value(function, alias);
    let mut names = vec![value.as_str(); arrays.len()];
    let elements = arrays.into_iter().enumerate();
    let mut items: Vec<_> =
        elements.map(|(place, array)| named(call("unnest", vec![array]), format!("value{place}"))).collect();
    if let Some(places) = places {
        items.push(named(places, ORDINALITY.to_owned()));
        names.push(ORDINALITY);
    }
    derived(select_from(items, Vec::new()), function, alias, &names)
}

/// The members of a set, or a value alone, as an array.
fn array_of_set(set: Expr) -> Expr {
    match &set {
        Expr::Function(function) if unqualified(&function.name).is_some_and(|name| name == "unnest") => {
            match arguments_of(function).as_slice() {
                [array] => array.clone(),
                _ => call("make_array", vec![set]),
            }
        }
        _ => call("make_array", vec![set]),
    }
}

/// The places of the elements of the longest of several arrays, as the column of WITH ORDINALITY.
fn places_up_to(arrays: &[Expr]) -> Expr {
    let length = |array: &Expr| {
        let length = call("cardinality", vec![array.clone()]);
        call("coalesce", vec![casts::cast(length, DataType::BigInt(None)), super::number("0")])
    };
    let longest = call("greatest", arrays.iter().map(length).collect());
    call("unnest", vec![call(SERIES, vec![casts::cast(super::number("1"), DataType::BigInt(None)), longest])])
}

/// The name of the only column of a function that gives it none: the alias's, or the function's.
fn name_of_value(function: &str, alias: Option<&TableAlias>) -> String {
    alias.map_or_else(|| function.to_owned(), |alias| fold(&alias.name))
}

/// A subquery under the function's alias; columns that the alias does not name have these names.
fn derived(query: Query, function: &str, alias: Option<&TableAlias>, names: &[&str]) -> TableFactor {
    let mut alias = alias.cloned().unwrap_or_else(|| plain_alias(function));
    let unnamed = names.iter().skip(alias.columns.len());
    alias.columns.extend(unnamed.map(|name| quoted_column((*name).to_owned())));
    TableFactor::Derived { lateral: false, subquery: Box::new(query), alias: Some(alias), sample: None }
}

/// `jsonb_to_recordset(documents) AS r(a int, b text)` and its like become a subquery of the members with these names, in
/// PostgreSQL's words, which are to be visited yet.
pub(super) fn expand_records(factor: &mut TableFactor) {
    let (name, arguments, alias) = match &*factor {
        TableFactor::Function { name, args, alias: Some(alias), with_ordinality: false, .. } => {
            (name, plain_arguments(args), alias)
        }
        TableFactor::Table {
            name,
            args: Some(arguments),
            alias: Some(alias),
            with_ordinality: false,
            ..
        } => (name, plain_arguments(&arguments.args), alias),
        _ => return,
    };
    let ty = match unqualified(name).as_deref() {
        Some("json_to_record" | "json_to_recordset") => "json",
        Some("jsonb_to_record" | "jsonb_to_recordset") => "jsonb",
        _ => return,
    };
    let is_set = unqualified(name).is_some_and(|name| name.ends_with("set"));
    let ([document], Some(members)) = (arguments.as_slice(), members_of(alias)) else { return };
    let documents = if is_set {
        format!("SELECT {ty}_array_elements(({document})::{ty}) AS document")
    } else {
        format!("SELECT ({document})::{ty} AS document")
    };
    let Some(query) = query_of(&format!("SELECT {members} FROM ({documents}) AS documents")) else { return };
    let lateral = names_columns(document);
    let alias = TableAlias { columns: Vec::new(), ..alias.clone() };
    *factor = TableFactor::Derived { lateral, subquery: Box::new(query), alias: Some(alias), sample: None };
}

/// The columns that an alias declares as members of a document; `None` if one has no type.
fn members_of(alias: &TableAlias) -> Option<String> {
    let member = |column: &TableAliasColumnDef| {
        let ty = column.data_type.as_ref()?;
        let name = fold(&column.name);
        let (key, shown) = (name.replace('\'', "''"), name.replace('"', "\"\""));
        let is_document = |ty: &DataType| matches!(ty, DataType::JSON | DataType::JSONB);
        let value = match super::casts::element_of(ty) {
            Some(element) if is_document(&element) => {
                format!("{}(document, '{key}')", crate::json::ARRAY_MEMBER_OF_DOCUMENTS)
            }
            Some(_) => format!("{}(document, '{key}')", crate::json::ARRAY_MEMBER),
            None if is_document(ty) => format!("(document -> '{key}')"),
            None => format!("(document ->> '{key}')"),
        };
        Some(format!("{value}::{ty} AS \"{shown}\""))
    };
    let members: Option<Vec<String>> = alias.columns.iter().map(member).collect();
    members.filter(|members| !members.is_empty()).map(|members| members.join(", "))
}

/// `SELECT items FROM tables`.
pub(super) fn select_from(items: Vec<SelectItem>, from: Vec<TableWithJoins>) -> Query {
    let mut query = query_of("SELECT 1").expect("a query of one constant parses");
    if let SetExpr::Select(select) = query.body.as_mut() {
        select.projection = items;
        select.from = from;
    }
    query
}

fn query_of(sql: &str) -> Option<Query> {
    let statements = Parser::parse_sql(&PostgreSqlDialect {}, sql).ok()?;
    match statements.into_iter().next()? {
        Statement::Query(query) => Some(*query),
        _ => None,
    }
}
