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
//! nobody has: a recursion has no order of its own. A `SEARCH` clause in front of it, or in its place, adds a column likewise
//! ([`searches`](super::searches)).

use super::searches::{self, SEQUENCE_BEFORE, Search};
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

/// The clauses of a query among the tokens of a statement.
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
pub(super) fn spell_cycles(tokens: &mut Vec<TokenWithSpan>) -> bool {
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
        if let Some((words, end)) = clauses_at(tokens, place) {
            clauses.push(Found { close, end, tokens: words, span: tokens[place].span });
            at = end;
        }
    }
    if clauses.is_empty() {
        return false;
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
    true
}

/// What stands in the place of the clauses that begin here and of the parenthesis in front of them, and where they end; `None` if it is
/// something else.
fn clauses_at(tokens: &[TokenWithSpan], place: usize) -> Option<(Vec<Token>, usize)> {
    let search = searches::clause(tokens, place);
    let behind = search.as_ref().map_or(place, |(_, end)| *end);
    let next = (behind..tokens.len()).find(|&place| !is_space(&tokens[place]));
    let next = next.filter(|&place| is_word(&tokens[place], "cycle"));
    let cycle = next.and_then(|place| clause(tokens, place));
    let end = cycle.as_ref().or(search.as_ref()).map(|(_, end)| *end)?;
    let mut words = vec![Token::make_keyword("ORDER"), Token::make_keyword("BY")];
    for (place, (call, _)) in search.into_iter().chain(cycle).enumerate() {
        words.extend((place > 0).then_some(Token::Comma));
        words.extend(call);
    }
    words.push(Token::RParen);
    Some((words, end))
}

/// The call that stands for the CYCLE clause that begins here, and where the clause ends; `None` if it is something else.
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
    let mut call = vec![Token::make_word(CYCLE, None), Token::LParen, mark, Token::Comma, path, Token::Comma];
    call.append(&mut value);
    call.push(Token::Comma);
    call.append(&mut default);
    call.extend(columns.into_iter().flat_map(|column| [Token::Comma, column]));
    call.push(Token::RParen);
    Some((call, last + 1))
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
        step(with.cte_tables.iter_mut().try_for_each(|part| match Clauses::taken(&mut part.query) {
            Some(_) if !is_recursive => Err(SqlError::syntax("WITH query is not recursive")),
            Some(clauses) => clauses.write_into(part),
            None => Ok(()),
        }))
    }
}

/// The clauses of a query, one at least.
struct Clauses {
    search: Option<Search>,
    cycle: Option<Cycle>,
}

impl Clauses {
    /// Takes them off a query.
    fn taken(query: &mut Query) -> Option<Self> {
        let OrderByKind::Expressions(keys) = &query.order_by.as_ref()?.kind else { return None };
        let (mut search, mut cycle) = (None, None);
        for key in keys {
            let (name, arguments) = plain_call(&key.expr)?;
            match Search::of_call(name, &arguments) {
                Some(found) => search = Some(found),
                None => cycle = Some(Cycle::of_call(name, arguments)?),
            }
        }
        if search.is_none() && cycle.is_none() {
            return None;
        }
        query.order_by = None;
        Some(Self { search, cycle })
    }

    fn write_into(self, part: &mut Cte) -> Result<(), SqlError> {
        let SetExpr::SetOperation { op: SetOperator::Union, left, right, .. } = part.query.body.as_mut()
        else {
            return Err(SqlError::syntax("with a SEARCH or CYCLE clause, the query must be a UNION"));
        };
        let names = names_of(&part.alias, left)?;
        self.check(&names)?;
        let SetExpr::Select(select) = right.as_mut() else { return Err(not_plain()) };
        let recursion = recursion(select, &fold(&part.alias.name)).ok_or_else(not_plain)?;
        **left = self.first(left, &names);
        self.follow(select, &recursion, &names)?;
        **right = self.next(right, &names);
        if !part.alias.columns.is_empty() {
            part.alias.columns = named(names.iter().cloned().chain(self.added()));
        }
        Ok(())
    }

    fn check(&self, names: &[String]) -> Result<(), SqlError> {
        if let Some(search) = &self.search {
            search.check(names)?;
        }
        let Some(cycle) = &self.cycle else { return Ok(()) };
        cycle.check(names)?;
        let Some(search) = &self.search else { return Ok(()) };
        for (what, name) in [("mark", &cycle.mark), ("path", &cycle.path)] {
            if fold(name) == fold(&search.sequence) {
                let message =
                    format!("search sequence column name and cycle {what} column name are the same");
                return Err(SqlError::syntax(message));
            }
        }
        Ok(())
    }

    /// The names of the new columns.
    fn added(&self) -> impl Iterator<Item = String> {
        let sequence = self.search.as_ref().map(|search| fold(&search.sequence));
        let of_cycle = self.cycle.as_ref().map(|cycle| [fold(&cycle.mark), fold(&cycle.path)]);
        sequence.into_iter().chain(of_cycle.into_iter().flatten())
    }

    /// What a row has of the one that it follows from: columns of that, and their names in the row.
    fn carried(&self) -> impl Iterator<Item = (String, &'static str)> {
        let sequence = self.search.as_ref().map(|search| (fold(&search.sequence), SEQUENCE_BEFORE));
        let path = self.cycle.as_ref().map(|cycle| (fold(&cycle.path), PATH_BEFORE));
        sequence.into_iter().chain(path)
    }

    /// The rows that nothing leads to.
    fn first(&self, left: &SetExpr, names: &[String]) -> SetExpr {
        let table = quoted("coeval first");
        let sequence = self.search.as_ref().map(|search| search.first(&table));
        let of_cycle = self.cycle.as_ref().map(|cycle| cycle.first(&table));
        let values = sequence.into_iter().chain(of_cycle.into_iter().flatten());
        self.around(left.clone(), &table, names.to_vec(), names, values)
    }

    /// Has the recursive side give what there is of the rows that it goes on from, which are no cycles.
    fn follow(&self, select: &mut Select, recursion: &Ident, names: &[String]) -> Result<(), SqlError> {
        let groups = match &select.group_by {
            GroupByExpr::All(_) => true,
            GroupByExpr::Expressions(keys, modifiers) => !keys.is_empty() || !modifiers.is_empty(),
        };
        if groups || select.distinct.is_some() || select.having.is_some() {
            return Err(not_plain());
        }
        let is_alone = matches!(select.from.as_slice(), [only] if only.joins.is_empty());
        let mut projection = Vec::with_capacity(select.projection.len() + 2);
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
            // Without the new columns.
            if is_recursion {
                let outputs = names.iter().map(|name| item(column(recursion, name), name.clone()));
                projection.extend(outputs);
            } else {
                projection.push(output);
            }
        }
        let carried = self.carried().map(|(name, before)| item(column(recursion, &name), before.to_owned()));
        projection.extend(carried);
        select.projection = projection;
        let Some(cycle) = &self.cycle else { return Ok(()) };
        let mark = column(recursion, &fold(&cycle.mark));
        let goes_on = operation(mark, BinaryOperator::NotEq, cycle.value.clone());
        select.selection = Some(match select.selection.take() {
            Some(condition) => operation(Expr::Nested(Box::new(condition)), BinaryOperator::And, goes_on),
            None => goes_on,
        });
        Ok(())
    }

    /// The rows that follow from others.
    fn next(&self, right: &SetExpr, names: &[String]) -> SetExpr {
        let table = quoted("coeval next");
        let sequence = self.search.as_ref().map(|search| search.next(&table));
        let of_cycle = self.cycle.as_ref().map(|cycle| cycle.next(&table));
        let values = sequence.into_iter().chain(of_cycle.into_iter().flatten());
        let before = self.carried().map(|(_, before)| before.to_owned());
        let inner = names.iter().cloned().chain(before).collect();
        self.around(right.clone(), &table, inner, names, values)
    }

    /// `SELECT table.names, values FROM (body) AS table (inner)`.
    fn around(
        &self,
        body: SetExpr,
        table: &Ident,
        inner: Vec<String>,
        names: &[String],
        values: impl Iterator<Item = Expr>,
    ) -> SetExpr {
        let mut items: Vec<SelectItem> =
            names.iter().map(|name| item(column(table, name), name.clone())).collect();
        items.extend(values.zip(self.added()).map(|(value, name)| item(value, name)));
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

/// The name and the arguments of a call.
fn plain_call(expression: &Expr) -> Option<(&str, Vec<Expr>)> {
    let Expr::Function(Function { name, args: FunctionArguments::List(list), .. }) = expression else {
        return None;
    };
    let [ObjectNamePart::Identifier(name)] = name.0.as_slice() else { return None };
    let arguments = list.args.iter().map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)) => Some(argument.clone()),
        _ => None,
    });
    Some((name.value.as_str(), arguments.collect::<Option<_>>()?))
}

/// A CYCLE clause.
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
    /// The one that a call of this function with these arguments stands for.
    fn of_call(function: &str, arguments: Vec<Expr>) -> Option<Self> {
        if function != CYCLE {
            return None;
        }
        let mut arguments = arguments.into_iter();
        let ident = |argument: Expr| match argument {
            Expr::Identifier(ident) => Some(ident),
            _ => None,
        };
        let (mark, path) = (ident(arguments.next()?)?, ident(arguments.next()?)?);
        let (value, default) = (arguments.next()?, arguments.next()?);
        Some(Self { mark, path, value, default, columns: arguments.map(ident).collect::<Option<_>>()? })
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

    /// The mark and the path of a row of this table that nothing leads to.
    fn first(&self, table: &Ident) -> [Expr; 2] {
        let path = Expr::Array(Array { elem: vec![self.row(table)], named: true });
        [self.default.clone(), path]
    }

    /// The mark and the path of a row of this table, which has the path of the row before beside it.
    fn next(&self, table: &Ident) -> [Expr; 2] {
        let before = || column(table, PATH_BEFORE);
        let condition = Expr::AnyOp {
            left: Box::new(self.row(table)),
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
        [mark, call("array_append", vec![before(), self.row(table)])]
    }
}

fn not_plain() -> SqlError {
    let what = "SEARCH or CYCLE of a recursion that is more than a SELECT from the WITH query and others";
    SqlError::unsupported(what)
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
            return Err(SqlError::unsupported(
                "SEARCH or CYCLE of columns that the WITH query does not name",
            )
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
