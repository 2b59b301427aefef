// SPDX-License-Identifier: Apache-2.0
//! `SEARCH DEPTH FIRST BY a SET seq` and `SEARCH BREADTH FIRST BY a SET seq` behind a part of WITH RECURSIVE, which the parser does not
//! know: a column that the rows of the recursion can be ordered by.
//!
//! | | of rows that nothing leads to | of rows that follow from others |
//! |---|---|---|
//! | depth first | `ARRAY[row(a)]` | `array_append(seq, row(a))` |
//! | breadth first | `row(0, a)` | `row(depth + 1, a)`, with the first field of `seq` as the depth |
//!
//! [`cycles`](super::cycles) writes it into the query, together with a `CYCLE` that may stand behind it.

use super::{is_space, is_word};
use crate::error::{SqlError, SqlState};
use crate::names::fold;
use crate::select::{call, cast, column};
use datafusion::sql::sqlparser::ast::{Array, BinaryOperator, DataType, Expr, Ident, Value};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// The sequence of the row that a row follows from.
pub(super) const SEQUENCE_BEFORE: &str = "coeval sequence";

/// In which order rows are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Depth,
    Breadth,
}

impl Order {
    const EACH: [Self; 2] = [Self::Depth, Self::Breadth];

    const fn word(self) -> &'static str {
        match self {
            Self::Depth => "depth",
            Self::Breadth => "breadth",
        }
    }

    /// The function that stands for a clause of it: of the new column, and those that rows are ordered by.
    const fn function(self) -> &'static str {
        match self {
            Self::Depth => "coeval_search_depth",
            Self::Breadth => "coeval_search_breadth",
        }
    }
}

/// The call that stands for the clause that begins here, and where the clause ends; `None` if it is something else.
pub(super) fn clause(tokens: &[TokenWithSpan], place: usize) -> Option<(Vec<Token>, usize)> {
    let mut places = (place..tokens.len()).filter(|&place| !is_space(&tokens[place]));
    let word_at = |place: usize| {
        let token = &tokens[place].token;
        matches!(token, Token::Word(_)).then(|| token.clone())
    };
    let [search, order, first, by] = [places.next()?, places.next()?, places.next()?, places.next()?];
    let is = |place: usize, word: &str| is_word(&tokens[place], word);
    let order = Order::EACH.into_iter().find(|known| is(order, known.word()))?;
    if !(is(search, "search") && is(first, "first") && is(by, "by")) {
        return None;
    }
    let mut columns = Vec::new();
    loop {
        columns.push(word_at(places.next()?)?);
        let behind = places.next()?;
        if is(behind, "set") {
            break;
        }
        if tokens[behind].token != Token::Comma {
            return None;
        }
    }
    let last = places.next()?;
    let mut words = vec![Token::make_word(order.function(), None), Token::LParen, word_at(last)?];
    words.extend(columns.into_iter().flat_map(|column| [Token::Comma, column]));
    words.push(Token::RParen);
    Some((words, last + 1))
}

/// A clause.
pub(super) struct Search {
    order: Order,
    /// The new column.
    pub(super) sequence: Ident,
    /// What rows are ordered by.
    columns: Vec<Ident>,
}

impl Search {
    /// The one that a call of this function with these arguments stands for.
    pub(super) fn of_call(function: &str, arguments: &[Expr]) -> Option<Self> {
        let order = Order::EACH.into_iter().find(|order| order.function() == function)?;
        let ident = |argument: &Expr| match argument {
            Expr::Identifier(ident) => Some(ident.clone()),
            _ => None,
        };
        let (sequence, columns) = arguments.split_first()?;
        let columns = columns.iter().map(ident).collect::<Option<_>>()?;
        Some(Self { order, sequence: ident(sequence)?, columns })
    }

    /// Whether the columns of the query, whose names these are, can be ordered so.
    ///
    /// # Errors
    /// `42703`, `42701`, `42601`.
    pub(super) fn check(&self, names: &[String]) -> Result<(), SqlError> {
        let mut known: Vec<String> = Vec::new();
        for one in self.columns.iter().map(fold) {
            if !names.contains(&one) {
                let message = format!("search column \"{one}\" not in WITH query column list");
                return Err(SqlError::new(SqlState::UndefinedColumn, message));
            }
            if known.contains(&one) {
                let message = format!("search column \"{one}\" specified more than once");
                return Err(SqlError::new(SqlState::DuplicateColumn, message));
            }
            known.push(one);
        }
        let sequence = fold(&self.sequence);
        if names.contains(&sequence) {
            let message =
                format!("search sequence column name \"{sequence}\" already used in WITH query column list");
            return Err(SqlError::syntax(message));
        }
        Ok(())
    }

    /// The sequence of a row of this table that nothing leads to.
    pub(super) fn first(&self, table: &Ident) -> Expr {
        match self.order {
            Order::Depth => Expr::Array(Array { elem: vec![self.row(None, table)], named: true }),
            Order::Breadth => self.row(Some(cast(number("0"), DataType::BigInt(None))), table),
        }
    }

    /// The sequence of a row of this table, which has that of the row before beside it.
    pub(super) fn next(&self, table: &Ident) -> Expr {
        let before = column(table, SEQUENCE_BEFORE);
        match self.order {
            Order::Depth => call("array_append", vec![before, self.row(None, table)]),
            Order::Breadth => {
                let field = Expr::Value(Value::SingleQuotedString("c0".to_owned()).into());
                let depth = call("get_field", vec![before, field]);
                let next = Expr::BinaryOp {
                    left: Box::new(depth),
                    op: BinaryOperator::Plus,
                    right: Box::new(number("1")),
                };
                self.row(Some(cast(next, DataType::BigInt(None))), table)
            }
        }
    }

    /// What a table's rows are ordered by, behind their depth.
    fn row(&self, depth: Option<Expr>, table: &Ident) -> Expr {
        let columns = self.columns.iter().map(|name| column(table, &fold(name)));
        call("row", depth.into_iter().chain(columns).collect())
    }
}

fn number(digits: &str) -> Expr {
    Expr::Value(Value::Number(digits.to_owned(), false).into())
}
