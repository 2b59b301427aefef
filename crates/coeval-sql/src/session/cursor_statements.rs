// SPDX-License-Identifier: Apache-2.0
//! DECLARE, FETCH and MOVE as they are written.

use crate::names::fold;
use crate::parse::take_word;
use datafusion::sql::sqlparser::ast::{Query, Statement};
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

/// How long a cursor stays open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    /// Until its transaction ends.
    Transaction,
    /// Until it is closed, if its transaction commits.
    Session,
}

/// Whether a cursor can go back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scroll {
    /// It can: its rows are kept.
    Yes,
    /// NO SCROLL was said.
    No,
}

/// `DECLARE name CURSOR FOR query`.
#[derive(Clone, Debug)]
pub(crate) struct Declare {
    pub(super) name: String,
    pub(super) hold: Hold,
    pub(super) scroll: Scroll,
    query: Box<Query>,
}

/// Where to go, and over which rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// So many rows on; back if negative; the row at hand again if zero.
    By(i64),
    /// To the end.
    ForwardAll,
    /// To the beginning.
    BackwardAll,
    /// To the row of this number; from the end if negative.
    To(i64),
    /// To the row so far from the one at hand.
    Relative(i64),
}

/// `FETCH` or `MOVE`.
#[derive(Clone, Debug)]
pub(crate) struct Fetch {
    pub(super) name: String,
    pub(super) direction: Direction,
    pub(super) only_moves: OnlyMoves,
}

/// Whether the rows passed over are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnlyMoves {
    No,
    Yes,
}

impl Declare {
    /// The query that gives the cursor's rows.
    pub(super) fn query(&self) -> Statement {
        Statement::Query(self.query.clone())
    }

    /// Reads the statement.
    ///
    /// # Errors
    /// A syntax error.
    pub(super) fn parse(parser: &mut Parser<'_>) -> Result<Self, ParserError> {
        parser.next_token();
        let name = fold(&parser.parse_identifier()?);
        let mut scroll = Scroll::Yes;
        loop {
            if take_word(parser, "no") {
                scroll = Scroll::No;
                if !take_word(parser, "scroll") {
                    return parser.expected("SCROLL", parser.peek_token());
                }
            } else if !["binary", "insensitive", "asensitive", "scroll"]
                .iter()
                .any(|word| take_word(parser, word))
            {
                break;
            }
        }
        if !take_word(parser, "cursor") {
            return parser.expected("CURSOR", parser.peek_token());
        }
        let hold = if take_word(parser, "with") { Hold::Session } else { Hold::Transaction };
        let says_hold = hold == Hold::Session || take_word(parser, "without");
        if says_hold && !take_word(parser, "hold") {
            return parser.expected("HOLD", parser.peek_token());
        }
        if !take_word(parser, "for") {
            return parser.expected("FOR", parser.peek_token());
        }
        Ok(Self { name, hold, scroll, query: parser.parse_query()? })
    }
}

/// What FETCH and MOVE want of a cursor that only goes forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardFetch<'f> {
    /// So many rows of the cursor of this name.
    Rows(&'f str, u64),
    /// To pass over so many.
    Over(&'f str, u64),
    /// To go back in it.
    Back(&'f str),
}

impl Fetch {
    /// What it wants, if the cursor only goes forward.
    pub(super) fn forward(&self) -> ForwardFetch<'_> {
        let count = match self.direction {
            Direction::By(steps) if steps >= 1 => steps.unsigned_abs(),
            Direction::ForwardAll => u64::MAX,
            _ => return ForwardFetch::Back(&self.name),
        };
        match self.only_moves {
            OnlyMoves::No => ForwardFetch::Rows(&self.name, count),
            OnlyMoves::Yes => ForwardFetch::Over(&self.name, count),
        }
    }

    /// Reads the statement.
    ///
    /// # Errors
    /// A syntax error.
    pub(super) fn parse(parser: &mut Parser<'_>) -> Result<Self, ParserError> {
        let only_moves = if take_word(parser, "move") { OnlyMoves::Yes } else { OnlyMoves::No };
        if only_moves == OnlyMoves::No {
            parser.next_token();
        }
        let direction = direction(parser)?;
        if !take_word(parser, "from") {
            take_word(parser, "in");
        }
        let name = fold(&parser.parse_identifier()?);
        Ok(Self { name, direction, only_moves })
    }
}

fn direction(parser: &mut Parser<'_>) -> Result<Direction, ParserError> {
    // A cursor may have the name of a direction: then nothing follows.
    if parser.peek_nth_token(1).token == Token::EOF {
        return Ok(Direction::By(1));
    }
    let words = [
        ("next", Direction::By(1)),
        ("prior", Direction::By(-1)),
        ("first", Direction::To(1)),
        ("last", Direction::To(-1)),
        ("all", Direction::ForwardAll),
    ];
    if let Some((_, direction)) = words.iter().find(|(word, _)| take_word(parser, word)) {
        return Ok(*direction);
    }
    if take_word(parser, "absolute") {
        return signed(parser).map(Direction::To);
    }
    if take_word(parser, "relative") {
        return signed(parser).map(Direction::Relative);
    }
    let sign = if take_word(parser, "backward") {
        -1
    } else {
        take_word(parser, "forward");
        1
    };
    if take_word(parser, "all") {
        return Ok(if sign < 0 { Direction::BackwardAll } else { Direction::ForwardAll });
    }
    let counted = matches!(parser.peek_token().token, Token::Number(..) | Token::Minus | Token::Plus);
    Ok(Direction::By(if counted { sign * signed(parser)? } else { sign }))
}

fn signed(parser: &mut Parser<'_>) -> Result<i64, ParserError> {
    let is_negative = parser.consume_token(&Token::Minus);
    let _ = parser.consume_token(&Token::Plus);
    let number = i64::try_from(parser.parse_literal_uint()?).unwrap_or(i64::MAX);
    Ok(if is_negative { -number } else { number })
}
