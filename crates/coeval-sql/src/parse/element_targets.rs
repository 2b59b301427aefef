// SPDX-License-Identifier: Apache-2.0
//! `SET a[1] = value`, `SET doc['a']['b'] = value`: a place of an array or of a document as what an UPDATE changes, which the parser
//! does not know.
//!
//! Before the text is parsed such a target becomes one name, which no identifier of a statement is; behind that the
//! assignment becomes one of the whole array: `a = coeval_array_with(a, 1, value)`, with as many subscripts as there are.

use super::{is_default, is_space, is_word, quoted_word};
use crate::error::SqlError;
use crate::names::fold;
use crate::select::call;
use crate::walk::{WalkMut, step};
use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, Expr, Ident, ObjectName, ObjectNamePart, OnConflictAction, OnInsert,
    Statement, TableAlias, TableFactor, TableObject, VisitorMut,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use std::ops::ControlFlow;

/// The function behind `SET array[place] = value`, of the array, the subscripts, and the value.
pub(crate) const ARRAY_WITH: &str = "coeval_array_with";

/// A subscript has at most so many tokens: a text may have a word for a target at every place.
const SUBSCRIPT_MAX: usize = 4_000;

/// The beginning of such a name, and what divides its parts: the column, each subscript.
const MARK: char = '\u{1}';

/// The tokens with each such target as one name, and whether there are any.
pub(super) fn spell_elements(tokens: Vec<TokenWithSpan>) -> (Vec<TokenWithSpan>, bool) {
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let (mut depth, mut list_depth, mut may_begin, mut has_any) = (0_usize, None, false, false);
    let mut rest = tokens.as_slice();
    while let Some((token, behind)) = rest.split_first() {
        if may_begin && let Some((target, behind)) = element_target(rest) {
            out.push(TokenWithSpan { token: target, span: token.span });
            (rest, may_begin, has_any) = (behind, false, true);
            continue;
        }
        match &token.token {
            Token::LParen | Token::LBracket => depth += 1,
            Token::RParen | Token::RBracket => depth = depth.saturating_sub(1),
            _ if is_word(token, "set") => list_depth = Some(depth),
            _ if ["where", "from", "returning"].iter().any(|word| is_word(token, word)) => list_depth = None,
            _ => {}
        }
        if !is_space(token) {
            let is_start = is_word(token, "set") || token.token == Token::Comma;
            may_begin = is_start && list_depth == Some(depth);
        }
        out.push(token.clone());
        rest = behind;
    }
    (out, has_any)
}

/// `name[subscript]`, with any number of subscripts, in front of `=`, as one name, and what is behind it.
fn element_target(tokens: &[TokenWithSpan]) -> Option<(Token, &[TokenWithSpan])> {
    let (first, mut rest) = tokens.split_first()?;
    let Token::Word(name) = &first.token else { return None };
    let mut parts =
        vec![fold(&Ident { value: name.value.clone(), quote_style: name.quote_style, span: first.span })];
    while let Some((subscript, behind)) = subscript(rest) {
        parts.push(subscript.iter().map(|token| token.token.to_string()).collect());
        rest = behind;
    }
    skip_space(rest).first().filter(|token| parts.len() > 1 && token.token == Token::Eq)?;
    let name: String = parts.iter().flat_map(|part| [String::from(MARK), part.clone()]).collect();
    Some((quoted_word(name), rest))
}

/// What is in the brackets that come next, and what is behind them.
fn subscript(tokens: &[TokenWithSpan]) -> Option<(&[TokenWithSpan], &[TokenWithSpan])> {
    let (_, inside) = skip_space(tokens).split_first().filter(|(token, _)| token.token == Token::LBracket)?;
    let mut depth = 1_usize;
    let end = inside.iter().take(SUBSCRIPT_MAX).position(|token| {
        match token.token {
            Token::LBracket | Token::LParen => depth += 1,
            Token::RBracket | Token::RParen => depth -= 1,
            _ => {}
        }
        depth == 0
    })?;
    Some((&inside[..end], &inside[end + 1..]))
}

pub(super) fn skip_space(tokens: &[TokenWithSpan]) -> &[TokenWithSpan] {
    let start = tokens.iter().position(|token| !is_space(token)).unwrap_or(tokens.len());
    &tokens[start..]
}

/// Makes assignments of whole arrays of those to their elements.
///
/// # Errors
/// `42601` for a subscript that is no expression, `0A000` for a slice and for DEFAULT.
pub(super) fn put_elements(statement: &mut Statement) -> Result<(), SqlError> {
    statement.try_walk_mut(&mut Elements)
}

struct Elements;

impl VisitorMut for Elements {
    type Break = SqlError;

    fn pre_visit_statement(&mut self, statement: &mut Statement) -> ControlFlow<SqlError> {
        let (table, assignments) = match statement {
            Statement::Update(update) => (exposed_name(&update.table.relation), &mut update.assignments),
            Statement::Insert(insert) => match &mut insert.on {
                Some(OnInsert::OnConflict(conflict)) => match &mut conflict.action {
                    OnConflictAction::DoUpdate(update) => {
                        let alias = insert.table_alias.as_ref().map(|alias| alias.alias.clone());
                        let name = match &insert.table {
                            TableObject::TableName(name) => last_name(name),
                            _ => None,
                        };
                        (alias.or(name), &mut update.assignments)
                    }
                    OnConflictAction::DoNothing => return ControlFlow::Continue(()),
                },
                _ => return ControlFlow::Continue(()),
            },
            _ => return ControlFlow::Continue(()),
        };
        step(with_whole_arrays(std::mem::take(assignments), table.as_ref()).map(|whole| *assignments = whole))
    }
}

/// The name that a table goes by.
fn exposed_name(factor: &TableFactor) -> Option<Ident> {
    match factor {
        TableFactor::Table { alias: Some(TableAlias { name, .. }), .. } => Some(name.clone()),
        TableFactor::Table { name, .. } => last_name(name),
        _ => None,
    }
}

fn last_name(name: &ObjectName) -> Option<Ident> {
    name.0.last().and_then(ObjectNamePart::as_ident).cloned()
}

/// The assignments; several to one array become one.
fn with_whole_arrays(
    assignments: Vec<Assignment>,
    table: Option<&Ident>,
) -> Result<Vec<Assignment>, SqlError> {
    let mut whole: Vec<Assignment> = Vec::with_capacity(assignments.len());
    let mut arrays: Vec<(String, usize)> = Vec::new();
    for assignment in assignments {
        let Some((column, subscripts)) = element(&assignment.target)? else {
            whole.push(assignment);
            continue;
        };
        if is_default(&assignment.value) {
            return Err(SqlError::unsupported("setting an array element to DEFAULT"));
        }
        let known = arrays.iter().find(|(name, _)| *name == column).map(|(_, place)| *place);
        let place = known.unwrap_or_else(|| {
            let name = Ident::with_quote('"', column.as_str());
            let names: Vec<Ident> = table.cloned().into_iter().chain([name.clone()]).collect();
            let target = AssignmentTarget::ColumnName(ObjectName::from(vec![name]));
            whole.push(Assignment { target, value: Expr::CompoundIdentifier(names) });
            arrays.push((column, whole.len() - 1));
            whole.len() - 1
        });
        let array = whole[place].value.clone();
        let arguments = std::iter::once(array).chain(subscripts).chain([assignment.value]);
        whole[place].value = call(ARRAY_WITH, arguments.collect());
    }
    Ok(whole)
}

/// The column and the subscripts of such a target.
fn element(target: &AssignmentTarget) -> Result<Option<(String, Vec<Expr>)>, SqlError> {
    let AssignmentTarget::ColumnName(name) = target else { return Ok(None) };
    let [ObjectNamePart::Identifier(ident)] = name.0.as_slice() else { return Ok(None) };
    let Some(marked) = ident.value.strip_prefix(MARK) else { return Ok(None) };
    let mut parts = marked.split(MARK);
    let column = parts.next().unwrap_or_default().to_owned();
    Ok(Some((column, parts.map(parsed).collect::<Result<_, _>>()?)))
}

/// A subscript, read.
fn parsed(subscript: &str) -> Result<Expr, SqlError> {
    let mut parser = Parser::new(&PostgreSqlDialect {})
        .try_with_sql(subscript)
        .map_err(|error| SqlError::syntax(error.to_string()))?;
    let parsed = parser.parse_expr().map_err(|error| SqlError::syntax(error.to_string()))?;
    match parser.peek_token().token {
        Token::EOF => Ok(parsed),
        Token::Colon => Err(SqlError::unsupported("setting a slice of an array")
            .with_hint("Set the elements, or the whole array.")),
        other => Err(SqlError::syntax(format!("syntax error at or near \"{other}\" in a subscript"))),
    }
}
