// SPDX-License-Identifier: Apache-2.0
//! How deep the syntax tree of a statement is, before there is one.
//!
//! `a OR b OR c` is a tree that leans to the left, as deep as the chain is long. The parser reads chains in a loop and
//! counts only what is nested; what walks the tree afterwards calls itself at each level. So the operators of a
//! chain are counted here, and a statement whose tree would not fit on the thread's stack is refused.

use super::is_word;
use crate::error::{SqlError, SqlState, character_position};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Levels of a tree, on whatever stack.
const LEVELS_MAX: usize = 5_000;

/// Most operators of one chain of sums, products and texts. DataFusion asks each for its type, and the type of each for
/// those of all before it: of so many that takes about a second, and four times as long of twice as many.
const OPERATORS_MAX: usize = 1_000;

/// Bytes of stack that a level takes in the pass that takes most, of those that do not ask for room themselves (`stack.rs`).
const LEVEL_BYTES: usize = 6 << 10;

/// Bytes of stack that a shallow statement takes.
const BASE_BYTES: usize = 512 << 10;

/// Stack of threads that run statements for others, of which only what is used is ever real.
pub(crate) const STACK_BYTES: usize = LEVELS_MAX * LEVEL_BYTES + 2 * BASE_BYTES;

/// Most operators before one operand: half of what the parser goes into, for what is around them.
const PREFIXES_MAX: usize = super::DEPTH_MAX / 2;

/// Pairs of parentheses and `CASE ... END` within each other from which on the parser may come to its limit: it goes into two
/// things at most for each.
const NESTED_MIN: usize = super::DEPTH_MAX / 2 - 5;

/// How many tokens may be read once more, in the parser's readings of tables in parentheses: less than half a second.
const READINGS_MAX: usize = 200_000;

/// And how often each token of a long text may.
const READINGS_PER_TOKEN: usize = 10;

/// The chains of one pair of parentheses, the part behind its last comma.
#[derive(Clone, Copy, Default)]
struct Chains {
    set_operations: usize,
    truths: usize,
    operators: usize,
}

impl Chains {
    fn levels(self) -> usize {
        self.set_operations + self.truths + self.operators
    }
}

/// Refuses tokens of a statement whose tree is too deep.
///
/// # Errors
/// `54001`, with the place at which it is.
pub(super) fn check(tokens: &[TokenWithSpan], sql: &str) -> Result<(), SqlError> {
    check_prefixes(tokens, sql)?;
    check_readings(tokens, sql)?;
    check_operators(tokens, sql)?;
    // A statement of few tokens cannot be deep, which most are.
    let levels_max = LEVELS_MAX.min(stack_levels());
    if tokens.len() <= levels_max {
        return Ok(());
    }
    let mut around: Vec<Chains> = Vec::new();
    let mut levels_around = 0;
    let mut here = Chains::default();
    for token in tokens {
        match &token.token {
            Token::LParen | Token::LBracket => {
                levels_around += here.levels() + 1;
                around.push(here);
                here = Chains::default();
            }
            Token::RParen | Token::RBracket => {
                here = around.pop().unwrap_or_default();
                levels_around = levels_around.saturating_sub(here.levels() + 1);
            }
            Token::Comma => here = Chains { set_operations: here.set_operations, ..Chains::default() },
            _ => note(token, &mut here),
        }
        if levels_around + here.levels() > levels_max {
            let hint =
                "Put long lists of alternatives into IN (...) or a table, or use a thread with more stack.";
            return Err(placed(too_deep(), token, sql).with_hint(hint));
        }
    }
    Ok(())
}

/// Refuses more operators before one operand than the parser goes into: it would take the next one for a mistake.
fn check_prefixes(tokens: &[TokenWithSpan], sql: &str) -> Result<(), SqlError> {
    if tokens.len() < PREFIXES_MAX {
        return Ok(());
    }
    let mut run = 0;
    for token in tokens {
        run = match &token.token {
            Token::Whitespace(_) => run,
            Token::Minus | Token::Plus | Token::Tilde => run + 1,
            Token::Word(_) if is_word(token, "not") => run + 1,
            _ => 0,
        };
        if run > PREFIXES_MAX {
            return Err(placed(too_deep(), token, sql));
        }
    }
    Ok(())
}

/// Refuses a chain of more operators than can be planned in time.
fn check_operators(tokens: &[TokenWithSpan], sql: &str) -> Result<(), SqlError> {
    if tokens.len() <= OPERATORS_MAX {
        return Ok(());
    }
    let (mut around, mut here) = (Vec::new(), 0);
    for token in tokens {
        match &token.token {
            Token::LParen | Token::LBracket => around.push(std::mem::take(&mut here)),
            Token::RParen | Token::RBracket => here = around.pop().unwrap_or(0),
            Token::Plus | Token::Minus | Token::Mul | Token::Div | Token::Mod | Token::StringConcat => {
                here += 1
            }
            Token::Comma | Token::SemiColon | Token::Eq | Token::Neq => here = 0,
            Token::Word(_) if is_border(token) => here = 0,
            _ => {}
        }
        if here > OPERATORS_MAX {
            let hint = format!(
                "At most {OPERATORS_MAX} operators may follow each other. Divide them by parentheses, or use sum(), \
                 string_agg() or concat() over a list."
            );
            return Err(placed(too_deep(), token, sql).with_hint(hint));
        }
    }
    Ok(())
}

/// Whether no operand reaches over this word.
fn is_border(token: &TokenWithSpan) -> bool {
    const BORDERS: [&str; 16] = [
        "and", "or", "when", "then", "else", "end", "select", "from", "where", "having", "on", "union",
        "values", "set", "by", "limit",
    ];
    BORDERS.iter().any(|word| is_word(token, word))
}

/// Refuses tables in parentheses that the parser would read too often: `((SELECT ...) a JOIN ...)` it takes for a query
/// first, up to the `a`, and then reads anew; so each such level doubles the work of what is in it.
fn check_readings(tokens: &[TokenWithSpan], sql: &str) -> Result<(), SqlError> {
    let mut around: Vec<usize> = Vec::new();
    let (mut here, mut run, mut readings) = (1_usize, 0_usize, 0_usize);
    let readings_max = READINGS_MAX.max(tokens.len().saturating_mul(READINGS_PER_TOKEN));
    for token in tokens {
        readings = readings.saturating_add(here - 1);
        match &token.token {
            Token::Whitespace(_) => continue,
            Token::LParen => {
                around.push(here);
                run += 1;
                continue;
            }
            Token::RParen => here = around.pop().unwrap_or(1),
            Token::Word(_)
                if run > 1 && ["select", "with", "values", "table"].iter().any(|w| is_word(token, w)) =>
            {
                here = here.saturating_mul(run);
            }
            _ => {}
        }
        run = 0;
        if readings > readings_max {
            let hint = "Name the innermost tables by WITH.";
            return Err(placed(too_deep(), token, sql).with_hint(hint));
        }
    }
    Ok(())
}

/// Whether the statement is nested so that the parser may come to its limit.
pub(super) fn is_nested(tokens: &[TokenWithSpan]) -> bool {
    let (mut depth, mut most) = (0_usize, 0);
    for token in tokens {
        match &token.token {
            Token::LParen | Token::LBracket => depth += 1,
            Token::RParen | Token::RBracket => depth = depth.saturating_sub(1),
            Token::Word(_) if is_word(token, "case") => depth += 1,
            Token::Word(_) if is_word(token, "end") => depth = depth.saturating_sub(1),
            _ => {}
        }
        most = most.max(depth);
    }
    most >= NESTED_MIN
}

/// The error of a statement whose tree would be too deep.
pub(super) fn too_deep() -> SqlError {
    SqlError::new(SqlState::StatementTooComplex, "the statement is nested too deeply")
}

/// The error with the token's place.
fn placed(error: SqlError, token: &TokenWithSpan, sql: &str) -> SqlError {
    let start = token.span.start;
    match character_position(sql, start.line, start.column) {
        Some(position) => error.with_position(position),
        None => error,
    }
}

fn note(token: &TokenWithSpan, here: &mut Chains) {
    match &token.token {
        Token::Word(_) if is_word(token, "and") || is_word(token, "or") => {
            *here = Chains { truths: here.truths + 1, operators: 0, ..*here };
        }
        Token::Word(_) if ["union", "intersect", "except"].iter().any(|word| is_word(token, word)) => {
            *here = Chains { set_operations: here.set_operations + 1, ..Chains::default() };
        }
        // A join leans like an operator, and so do NOT, IS, COLLATE, AT TIME ZONE, CASE.
        Token::Word(_)
            if ["join", "not", "is", "collate", "at", "when", "case", "like", "ilike"]
                .iter()
                .any(|word| is_word(token, word)) =>
        {
            here.operators += 1;
        }
        Token::Word(_)
        | Token::Whitespace(_)
        | Token::Number(..)
        | Token::SingleQuotedString(_)
        | Token::Placeholder(_)
        | Token::Period => {}
        // Any sign: what is no operator counts too, which does no harm.
        _ => here.operators += 1,
    }
}

/// How many levels fit on what is left of this thread's stack.
fn stack_levels() -> usize {
    stacker::remaining_stack().map_or(LEVELS_MAX, |bytes| bytes.saturating_sub(BASE_BYTES) / LEVEL_BYTES)
}
