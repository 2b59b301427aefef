// SPDX-License-Identifier: Apache-2.0
//! `WITH RECURSIVE t (a, b) AS (... UNION ALL ...) CYCLE a SET is_cycle USING path`, which the parser does not know, written out as the
//! SQL standard explains it: a row is a cycle if one like it is on the path that led to it, and nothing follows from such a row.
//!
//! ```text
//! WITH RECURSIVE t (a, b, is_cycle, path) AS (
//!     SELECT l.a, l.b, false, ARRAY[row(l.a)] FROM (left) AS l (a, b)
//!     UNION ALL
//!     SELECT r.a, r.b, row(r.a) = ANY (r.path), array_append(r.path, row(r.a))
//!     FROM (SELECT ..., t.path FROM t ... WHERE (...) AND t.is_cycle <> true) AS r (a, b, path))
//! ```
//!
//! Rows on the path are texts as PostgreSQL writes rows, `(1,"a b")`. The clause comes through the parser as an ORDER BY of a function that
//! nobody has: a recursion has no order of its own.

use super::{is_space, is_word};
use crate::column_name::column_name;
use crate::error::{SqlError, SqlState};
use crate::names::fold;
use crate::select::{body as select_body, call, column, item, of_body, quoted};
use crate::walk::{WalkMut, step};
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    Array, BinaryOperator, CaseWhen, Cte, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
    GroupByExpr, Ident, ObjectNamePart, OrderByKind, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, SetOperator, Statement, TableAlias, TableAliasColumnDef,
    TableFactor, TableWithJoins, VisitorMut,
};
use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan};
use std::ops::ControlFlow;

/// The function that writes a row as a text.
pub(crate) const ROW_TEXT: &str = "coeval_row_text";

/// The function that stands for the clause: of the two new columns, their two values, and the columns that are compared.
const CYCLE: &str = "coeval_cycle";

/// The path of the row that a row follows from.
const PATH_BEFORE: &str = "coeval path";

/// A constant of a clause has at most so many tokens, blanks aside: a text may have a word for a clause at every place.
const CONSTANT_MAX: usize = 20;

/// A clause among the tokens of a statement.
struct Found {
    /// Where the parenthesis is in front of it.
    close: usize,
    /// Where it ends.
    end: usize,
    /// What stands in the place of both.
    tokens: Vec<Token>,
    span: Span,
}

/// Puts each clause into the query in front of it; whether there are any.
///
/// # Errors
/// `0A000` for SEARCH, whose columns are of a type that is not there.
pub(super) fn spell_cycles(tokens: &mut Vec<TokenWithSpan>) -> Result<bool, SqlError> {
    let (mut clauses, mut at) = (Vec::new(), 0);
    while let Some(found) =
        tokens[at..].iter().position(|token| is_word(token, "cycle") || is_word(token, "search"))
    {
        let place = at + found;
        at = place + 1;
        let Some(close) = tokens[..place].iter().rposition(|token| !is_space(token)) else { continue };
        if tokens[close].token != Token::RParen {
            continue;
        }
        if is_search(tokens, place) {
            let hint = "Collect the columns in an array by the query itself, and order by that.";
            return Err(SqlError::unsupported("SEARCH in WITH RECURSIVE").with_hint(hint));
        }
        if let Some((words, end)) = clause(tokens, place) {
            clauses.push(Found { close, end, tokens: words, span: tokens[place].span });
            at = end;
        }
    }
    if clauses.is_empty() {
        return Ok(false);
    }
    let mut spelled = Vec::with_capacity(2 * tokens.len());
    let (mut rest, mut passed) = (std::mem::take(tokens).into_iter(), 0);
    for Found { close, end, tokens: words, span } in clauses {
        spelled.extend(rest.by_ref().take(close - passed));
        rest.by_ref().take(end - close).for_each(drop);
        spelled.extend(words.into_iter().map(|token| TokenWithSpan { token, span }));
        passed = end;
    }
    spelled.extend(rest);
    *tokens = spelled;
    Ok(true)
}

/// Whether `SEARCH DEPTH FIRST BY` or its like begins here.
fn is_search(tokens: &[TokenWithSpan], place: usize) -> bool {
    let mut words = tokens[place..].iter().filter(|token| !is_space(token));
    let mut next =
        |wanted: &[&str]| words.next().is_some_and(|token| wanted.iter().any(|word| is_word(token, word)));
    next(&["search"]) && next(&["depth", "breadth"]) && next(&["first"]) && next(&["by"])
}

/// What stands in the place of the clause that begins here and of the parenthesis in front of it, and where the clause ends; `None` if
/// it is something else.
fn clause(tokens: &[TokenWithSpan], place: usize) -> Option<(Vec<Token>, usize)> {
    let mut places = (place + 1..tokens.len()).filter(|&place| !is_space(&tokens[place]));
    let word_at = |place: usize| {
        let token = &tokens[place].token;
        matches!(token, Token::Word(_)).then(|| token.clone())
    };
    let mut columns = Vec::new();
    loop {
        columns.push(word_at(places.next()?)?);
        let behind = &tokens[places.next()?];
        if is_word(behind, "set") {
            break;
        }
        if behind.token != Token::Comma {
            return None;
        }
    }
    let mark = word_at(places.next()?)?;
    let (mut value, mut default) = (vec![Token::make_keyword("TRUE")], vec![Token::make_keyword("FALSE")]);
    let mut using = places.next()?;
    if is_word(&tokens[using], "to") {
        let mut up_to = |word: &str| {
            let mut constant = Vec::new();
            loop {
                let place = places.next()?;
                if is_word(&tokens[place], word) {
                    return Some((constant, place));
                }
                if constant.len() == CONSTANT_MAX {
                    return None;
                }
                constant.push(tokens[place].token.clone());
            }
        };
        (value, _) = up_to("default")?;
        (default, using) = up_to("using")?;
    }
    if !is_word(&tokens[using], "using") {
        return None;
    }
    let last = places.next()?;
    let path = word_at(last)?;
    let mut clause = vec![Token::make_keyword("ORDER"), Token::make_keyword("BY")];
    clause.extend([Token::make_word(CYCLE, None), Token::LParen, mark, Token::Comma, path, Token::Comma]);
    clause.append(&mut value);
    clause.push(Token::Comma);
    clause.append(&mut default);
    clause.extend(columns.into_iter().flat_map(|column| [Token::Comma, column]));
    clause.extend([Token::RParen, Token::RParen]);
    Some((clause, last + 1))
}

/// Writes the clauses of a statement out.
///
/// # Errors
/// `42601` for a query that is no recursion, `42703` and `42701` for columns that are not there, or are there already, `0A000` where
/// the recursive side is more than a plain SELECT.
pub(super) fn write_cycles(statement: &mut Statement) -> Result<(), SqlError> {
    statement.try_walk_mut(&mut Cycles)
}

struct Cycles;

impl VisitorMut for Cycles {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        let Some(with) = &mut query.with else { return ControlFlow::Continue(()) };
        let is_recursive = with.recursive;
        step(with.cte_tables.iter_mut().try_for_each(|part| match Cycle::taken(&mut part.query) {
            Some(_) if !is_recursive => Err(SqlError::syntax("WITH query is not recursive")),
            Some(cycle) => cycle.write_into(part),
            None => Ok(()),
        }))
    }
}

/// A clause.
struct Cycle {
    mark: Ident,
    path: Ident,
    /// What the mark is of a cycle, and of all other rows.
    value: Expr,
    default: Expr,
    /// What is compared.
    columns: Vec<Ident>,
}

impl Cycle {
    /// Takes it off a query.
    fn taken(query: &mut Query) -> Option<Self> {
        let OrderByKind::Expressions(keys) = &query.order_by.as_ref()?.kind else { return None };
        let [key] = keys.as_slice() else { return None };
        let Expr::Function(function) = &key.expr else { return None };
        let cycle = Self::of_call(function)?;
        query.order_by = None;
        Some(cycle)
    }

    fn of_call(function: &Function) -> Option<Self> {
        let [ObjectNamePart::Identifier(name)] = function.name.0.as_slice() else { return None };
        let (FunctionArguments::List(list), true) = (&function.args, name.value == CYCLE) else {
            return None;
        };
        let mut arguments = list.args.iter().map(|argument| match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)) => Some(argument.clone()),
            _ => None,
        });
        let ident = |argument: Option<Expr>| match argument {
            Some(Expr::Identifier(ident)) => Some(ident),
            _ => None,
        };
        let mark = ident(arguments.next()?)?;
        let path = ident(arguments.next()?)?;
        let (value, default) = (arguments.next()??, arguments.next()??);
        Some(Self { mark, path, value, default, columns: arguments.map(ident).collect::<Option<_>>()? })
    }

    fn write_into(self, part: &mut Cte) -> Result<(), SqlError> {
        let SetExpr::SetOperation { op: SetOperator::Union, left, right, .. } = part.query.body.as_mut()
        else {
            return Err(SqlError::syntax("with a CYCLE clause, the query must be a UNION"));
        };
        let names = names_of(&part.alias, left)?;
        self.check(&names)?;
        let SetExpr::Select(select) = right.as_mut() else { return Err(not_plain()) };
        let recursion = recursion(select, &fold(&part.alias.name)).ok_or_else(not_plain)?;
        **left = self.first(left, &names);
        self.follow(select, &recursion, &names)?;
        **right = self.next(right, &names);
        if !part.alias.columns.is_empty() {
            part.alias.columns = named(names.iter().cloned().chain([fold(&self.mark), fold(&self.path)]));
        }
        Ok(())
    }

    fn check(&self, names: &[String]) -> Result<(), SqlError> {
        let mut known: Vec<String> = Vec::new();
        for one in self.columns.iter().map(fold) {
            if !names.contains(&one) {
                let message = format!("cycle column \"{one}\" not in WITH query column list");
                return Err(SqlError::new(SqlState::UndefinedColumn, message));
            }
            if known.contains(&one) {
                let message = format!("cycle column \"{one}\" specified more than once");
                return Err(SqlError::new(SqlState::DuplicateColumn, message));
            }
            known.push(one);
        }
        let (mark, path) = (fold(&self.mark), fold(&self.path));
        for (what, name) in [("mark", &mark), ("path", &path)] {
            if names.contains(name) {
                let message =
                    format!("cycle {what} column name \"{name}\" already used in WITH query column list");
                return Err(SqlError::syntax(message));
            }
        }
        if mark == path {
            return Err(SqlError::syntax("cycle mark column name and cycle path column name are the same"));
        }
        Ok(())
    }

    /// What is compared of a table's rows.
    fn row(&self, table: &Ident) -> Expr {
        call(ROW_TEXT, self.columns.iter().map(|name| column(table, &fold(name))).collect())
    }

    /// The rows that nothing leads to.
    fn first(&self, left: &SetExpr, names: &[String]) -> SetExpr {
        let table = quoted("coeval first");
        let path = Expr::Array(Array { elem: vec![self.row(&table)], named: true });
        self.around(left.clone(), &table, names.to_vec(), names, [self.default.clone(), path])
    }

    /// Has the recursive side give the paths of the rows that it goes on from, which are no cycles.
    fn follow(&self, select: &mut Select, recursion: &Ident, names: &[String]) -> Result<(), SqlError> {
        let groups = match &select.group_by {
            GroupByExpr::All(_) => true,
            GroupByExpr::Expressions(keys, modifiers) => !keys.is_empty() || !modifiers.is_empty(),
        };
        if groups || select.distinct.is_some() || select.having.is_some() {
            return Err(not_plain());
        }
        let is_alone = matches!(select.from.as_slice(), [only] if only.joins.is_empty());
        let mut projection = Vec::with_capacity(select.projection.len() + 1);
        for output in std::mem::take(&mut select.projection) {
            let is_recursion = match &output {
                SelectItem::Wildcard(_) if is_alone => true,
                SelectItem::Wildcard(_) => return Err(not_plain()),
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                    let name = name.0.last().and_then(ObjectNamePart::as_ident).map(fold);
                    name == Some(fold(recursion))
                }
                _ => false,
            };
            // Without the two new columns.
            if is_recursion {
                let outputs = names.iter().map(|name| item(column(recursion, name), name.clone()));
                projection.extend(outputs);
            } else {
                projection.push(output);
            }
        }
        projection.push(item(column(recursion, &fold(&self.path)), PATH_BEFORE.to_owned()));
        select.projection = projection;
        let mark = column(recursion, &fold(&self.mark));
        let goes_on = operation(mark, BinaryOperator::NotEq, self.value.clone());
        select.selection = Some(match select.selection.take() {
            Some(condition) => operation(Expr::Nested(Box::new(condition)), BinaryOperator::And, goes_on),
            None => goes_on,
        });
        Ok(())
    }

    /// The rows that follow from others.
    fn next(&self, right: &SetExpr, names: &[String]) -> SetExpr {
        let table = quoted("coeval next");
        let before = || column(&table, PATH_BEFORE);
        let condition = Expr::AnyOp {
            left: Box::new(self.row(&table)),
            compare_op: BinaryOperator::Eq,
            right: Box::new(before()),
            is_some: false,
        };
        let mark = Expr::Case {
            case_token: AttachedToken::empty(),
            end_token: AttachedToken::empty(),
            operand: None,
            conditions: vec![CaseWhen { condition, result: self.value.clone() }],
            else_result: Some(Box::new(self.default.clone())),
        };
        let path = call("array_append", vec![before(), self.row(&table)]);
        let inner = names.iter().cloned().chain([PATH_BEFORE.to_owned()]).collect();
        self.around(right.clone(), &table, inner, names, [mark, path])
    }

    /// `SELECT table.names, mark, path FROM (body) AS table (inner)`.
    fn around(
        &self,
        body: SetExpr,
        table: &Ident,
        inner: Vec<String>,
        names: &[String],
        [mark, path]: [Expr; 2],
    ) -> SetExpr {
        let mut items: Vec<SelectItem> =
            names.iter().map(|name| item(column(table, name), name.clone())).collect();
        items.extend([item(mark, fold(&self.mark)), item(path, fold(&self.path))]);
        let relation = TableFactor::Derived {
            lateral: false,
            subquery: Box::new(of_body(None, body)),
            alias: Some(TableAlias {
                explicit: true,
                name: table.clone(),
                columns: named(inner.into_iter()),
                at: None,
            }),
            sample: None,
        };
        let from = vec![TableWithJoins { relation, joins: Vec::new() }];
        SetExpr::Select(Box::new(select_body(items, from, None)))
    }
}

fn not_plain() -> SqlError {
    SqlError::unsupported("CYCLE of a recursion that is more than a SELECT from the WITH query and others")
        .with_hint("Name the columns that are selected, and group their rows in the query that reads them.")
}

fn operation(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

fn named(names: impl Iterator<Item = String>) -> Vec<TableAliasColumnDef> {
    names.map(|name| TableAliasColumnDef { name: quoted(name), data_type: None }).collect()
}

/// The columns of a part: those that it names first, and those behind them as far as its first side names them.
///
/// # Errors
/// `0A000` for a part that names none, of all columns of a table.
fn names_of(alias: &TableAlias, left: &SetExpr) -> Result<Vec<String>, SqlError> {
    let mut names: Vec<String> = alias.columns.iter().map(|column| fold(&column.name)).collect();
    match outputs_of(left) {
        Some(outputs) => names.extend(outputs.into_iter().skip(alias.columns.len())),
        None if names.is_empty() => {
            return Err(SqlError::unsupported("CYCLE of columns that the WITH query does not name")
                .with_hint("Name them behind the name of the query: WITH RECURSIVE t (a, b) AS ..."));
        }
        None => {}
    }
    Ok(names)
}

/// The names of the outputs of a query; `None` where it selects all columns of a table, or is no SELECT.
fn outputs_of(body: &SetExpr) -> Option<Vec<String>> {
    let SetExpr::Select(select) = body else { return None };
    let output = |output: &SelectItem| match output {
        SelectItem::UnnamedExpr(expression) => Some(column_name(expression)),
        SelectItem::ExprWithAlias { alias, .. } => Some(fold(alias)),
        _ => None,
    };
    select.projection.iter().map(output).collect()
}

/// What a SELECT calls the rows of the part of this name in its FROM.
fn recursion(select: &Select, name: &str) -> Option<Ident> {
    select.from.iter().find_map(|tables| recursion_in(tables, name))
}

fn recursion_in(tables: &TableWithJoins, name: &str) -> Option<Ident> {
    let joined = tables.joins.iter().map(|join| &join.relation);
    std::iter::once(&tables.relation).chain(joined).find_map(|factor| match factor {
        TableFactor::Table { name: table, alias, args: None, .. } => match table.0.as_slice() {
            [ObjectNamePart::Identifier(only)] if fold(only) == name => {
                Some(alias.as_ref().map_or(only, |alias| &alias.name).clone())
            }
            _ => None,
        },
        TableFactor::NestedJoin { table_with_joins, alias: None } => recursion_in(table_with_joins, name),
        _ => None,
    })
}
