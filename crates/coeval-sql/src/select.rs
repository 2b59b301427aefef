// SPDX-License-Identifier: Apache-2.0
//! Queries, calls and casts put together from parts of others.

use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList,
    FunctionArguments, GroupByExpr, Ident, ObjectName, Query, Select, SelectFlavor, SelectItem, SetExpr,
    TableAlias, TableFactor, TableWithJoins, With,
};

/// `WITH with SELECT projection FROM from WHERE selection`.
pub(crate) fn query(
    with: Option<With>,
    projection: Vec<SelectItem>,
    from: Vec<TableWithJoins>,
    selection: Option<Expr>,
) -> Query {
    of_body(with, SetExpr::Select(Box::new(body(projection, from, selection))))
}

/// `SELECT projection FROM from WHERE selection`.
pub(crate) fn body(
    projection: Vec<SelectItem>,
    from: Vec<TableWithJoins>,
    selection: Option<Expr>,
) -> Select {
    Select {
        select_token: AttachedToken::empty(),
        optimizer_hints: Vec::new(),
        distinct: None,
        select_modifiers: None,
        top: None,
        top_before_distinct: false,
        projection,
        exclude: None,
        into: None,
        from,
        lateral_views: Vec::new(),
        prewhere: None,
        selection,
        connect_by: Vec::new(),
        group_by: GroupByExpr::Expressions(Vec::new(), Vec::new()),
        cluster_by: Vec::new(),
        distribute_by: Vec::new(),
        sort_by: Vec::new(),
        having: None,
        named_window: Vec::new(),
        qualify: None,
        window_before_qualify: false,
        value_table_mode: None,
        flavor: SelectFlavor::Standard,
    }
}

/// A table, or whatever goes by this name, in FROM.
pub(crate) fn table(name: ObjectName, alias: Option<TableAlias>) -> TableWithJoins {
    let relation = TableFactor::Table {
        name,
        alias,
        args: None,
        with_hints: Vec::new(),
        version: None,
        with_ordinality: false,
        partitions: Vec::new(),
        json_path: None,
        sample: None,
        index_hints: Vec::new(),
    };
    TableWithJoins { relation, joins: Vec::new() }
}

/// `SELECT projection FROM (query)`.
pub(crate) fn around(query: Query, projection: Vec<SelectItem>) -> Query {
    let alias = TableAlias { explicit: true, name: quoted("coeval inner"), columns: Vec::new(), at: None };
    let relation =
        TableFactor::Derived { lateral: false, subquery: Box::new(query), alias: Some(alias), sample: None };
    let from = vec![TableWithJoins { relation, joins: Vec::new() }];
    self::query(None, projection, from, None)
}

/// A query that is this body and nothing more.
pub(crate) fn of_body(with: Option<With>, body: SetExpr) -> Query {
    Query {
        with,
        body: Box::new(body),
        order_by: None,
        limit_clause: None,
        fetch: None,
        locks: Vec::new(),
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators: Vec::new(),
    }
}

/// `expression AS name`; the names are ours, so that no two are the same.
pub(crate) fn item(expression: Expr, name: String) -> SelectItem {
    SelectItem::ExprWithAlias { expr: expression, alias: quoted(name) }
}

/// An identifier that means exactly this name.
pub(crate) fn quoted(name: impl Into<String>) -> Ident {
    Ident::with_quote('"', name)
}

/// `table.column`.
pub(crate) fn column(table: &Ident, name: &str) -> Expr {
    Expr::CompoundIdentifier(vec![table.clone(), quoted(name)])
}

/// `name(arguments)`.
pub(crate) fn call(name: &str, arguments: Vec<Expr>) -> Expr {
    let plain = |argument| FunctionArg::Unnamed(FunctionArgExpr::Expr(argument));
    let list = FunctionArgumentList {
        duplicate_treatment: None,
        args: arguments.into_iter().map(plain).collect(),
        clauses: Vec::new(),
    };
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(list),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// `expression::data_type`.
pub(crate) fn cast(expression: Expr, data_type: DataType) -> Expr {
    let expr = Box::new(expression);
    Expr::Cast { kind: CastKind::DoubleColon, expr, data_type, array: false, format: None }
}
