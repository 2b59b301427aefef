// SPDX-License-Identifier: Apache-2.0
//! SQL/JSON paths: `jsonb_path_query` and its like, and the operators `@?` and `@@`.
//!
//! A path is read once ([`parser`], of [`tokens`]), has one text ([`printed`]), and is followed through each document ([`following`]), as
//! PostgreSQL follows it: lax or strict, with errors that a filter takes for an unknown answer. What is found is a part of the document,
//! or a text of JSON that was made. Numbers are exact up to 38 digits ([`number`]); dates and times are read from ISO 8601 texts, or by a
//! template ([`moments`]).

mod following;
mod item;
mod moments;
mod number;
mod parser;
mod predicates;
mod printed;
mod rows;
mod tokens;

pub(super) use rows::functions;

use crate::allowance::Meter;
use crate::error::{SqlError, SqlState};
use crate::scalar::{ArithmeticOp, CompareOp};
use crate::types::json::{Kind, Part};
use chrono_tz::Tz;
use following::{Failure, Following};
use item::Item;
use std::borrow::Cow;
use std::cell::RefCell;
use std::rc::Rc;

/// A path, read.
#[derive(Debug)]
struct Path {
    is_lax: bool,
    expression: Expression,
}

/// What gives values.
#[derive(Debug)]
enum Expression {
    /// Where it begins, and the steps from there.
    Steps(Head, Vec<Step>),
    Arithmetic(ArithmeticOp, Box<Expression>, Box<Expression>),
    /// The same number, or the negative one.
    Sign(ArithmeticOp, Box<Expression>),
    /// True, false, or null if it is unknown.
    Predicate(Box<Predicate>),
}

#[derive(Debug)]
enum Head {
    /// `$`
    Root,
    /// `@`
    Current,
    /// `last`
    Last,
    /// `$name`
    Variable(String),
    /// A literal, as JSON.
    Literal(String),
    Nested(Box<Expression>),
}

#[derive(Debug)]
enum Step {
    /// `.name`
    Key(String),
    /// `.*`
    AnyKey,
    /// `.**{first to last}`; without an end: all levels below, and at both ends: what has nothing below it.
    AnyLevel { first: Option<usize>, last: Option<usize> },
    /// `[*]`
    AnyElement,
    /// `[1, 3 to last]`
    Elements(Vec<(Expression, Option<Expression>)>),
    /// `? (...)`
    Filter(Predicate),
    /// `.size()`
    Method(Method),
}

#[derive(Debug)]
enum Method {
    Type,
    Size,
    Abs,
    Floor,
    Ceiling,
    Double,
    KeyValue,
    /// With the template of what is read.
    Datetime(Option<String>),
}

#[derive(Debug)]
enum Predicate {
    And(Box<Predicate>, Box<Predicate>),
    Or(Box<Predicate>, Box<Predicate>),
    Not(Box<Predicate>),
    Compare(CompareOp, Expression, Expression),
    StartsWith(Expression, Expression),
    LikeRegex(Expression, Pattern),
    Exists(Expression),
    IsUnknown(Box<Predicate>),
}

/// What `like_regex` looks for.
#[derive(Debug)]
struct Pattern {
    /// As it was written.
    text: String,
    /// Its flags, each once.
    flags: String,
    /// As `functions` compiles it.
    compiled: String,
}

/// What becomes of errors on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Errors {
    Told,
    /// What was found before counts, or nothing.
    Silent,
}

/// A path to follow, and with what.
pub(super) struct Search<'s> {
    /// The path as it was written.
    pub(super) path: &'s str,
    /// The values of its variables, an object; without it all are null.
    pub(super) variables: Option<&'s str>,
    pub(super) errors: Errors,
    /// The zone of dates and times that have none; without one they are not compared with those that have.
    pub(super) zone: Option<Tz>,
    /// Counts the work.
    pub(super) meter: &'s Meter,
}

impl Search<'_> {
    /// What the path leads to in a document, each a text of JSON.
    ///
    /// # Errors
    /// `42601` for what is no path, `22023` for variables that are no object, `42704` for one that is not among them; those of the path
    /// unless it is silent.
    pub(super) fn found<'d>(&self, document: &'d str) -> Result<Vec<Cow<'d, str>>, SqlError> {
        let mut found = Vec::new();
        match (self.follow(document, &mut found)?, self.errors) {
            (Some(error), Errors::Told) => Err(error),
            _ => Ok(found.into_iter().map(Item::into_json).collect()),
        }
    }

    /// Whether the path leads to anything; `None` if that is not known.
    ///
    /// # Errors
    /// As [`found`](Self::found).
    pub(super) fn exists(&self, document: &str) -> Result<Option<bool>, SqlError> {
        let mut found = Vec::new();
        match self.follow(document, &mut found)? {
            None => Ok(Some(!found.is_empty())),
            // Who is lax looks no further than to the first.
            Some(_) if !found.is_empty() && parsed(self.path)?.is_lax => Ok(Some(true)),
            Some(error) if self.errors == Errors::Told => Err(error),
            Some(_) => Ok(None),
        }
    }

    /// What the path says of a document, being a condition; `None` if it does not say.
    ///
    /// # Errors
    /// As [`found`](Self::found); `22038` for a path that gives anything else than one truth value.
    pub(super) fn holds(&self, document: &str) -> Result<Option<bool>, SqlError> {
        let found = self.found(document)?;
        if let [only] = found.as_slice() {
            match &**only {
                "true" => return Ok(Some(true)),
                "false" => return Ok(Some(false)),
                "null" => return Ok(None),
                _ => {}
            }
        }
        match self.errors {
            Errors::Silent => Ok(None),
            Errors::Told => {
                let message = "single boolean result is expected";
                Err(SqlError::new(SqlState::SingletonSqlJsonItemRequired, message))
            }
        }
    }

    /// Follows the path; the error that ended it, if one did.
    fn follow<'d>(&self, document: &'d str, found: &mut Vec<Item<'d>>) -> Result<Option<SqlError>, SqlError> {
        let path = parsed(self.path)?;
        let variables = self.variables.map(Part::of);
        if variables.is_some_and(|variables| variables.kind() != Kind::Object) {
            let message = "\"vars\" argument is not an object";
            return Err(SqlError::new(SqlState::InvalidParameterValue, message).with_detail(
                "Jsonpath parameters should be encoded as key-value pairs of \"vars\" object.",
            ));
        }
        match Following::new(&path, document, variables, self).follow(found) {
            Ok(()) => Ok(None),
            Err(Failure::OfPath(error)) => Ok(Some(error)),
            Err(Failure::OfStatement(error)) => Err(error),
        }
    }
}

thread_local! {
    /// The path that was followed last: it is the same for all rows most of the time.
    static LAST: RefCell<Option<(String, Rc<Path>)>> = const { RefCell::new(None) };
}

fn parsed(text: &str) -> Result<Rc<Path>, SqlError> {
    LAST.with_borrow_mut(|last| {
        if let Some((known, path)) = last
            && known == text
        {
            return Ok(Rc::clone(path));
        }
        let path = Rc::new(parser::parse(text)?);
        *last = Some((text.to_owned(), Rc::clone(&path)));
        Ok(path)
    })
}

/// The one text of a path: what a `jsonpath` is shown as.
///
/// # Errors
/// Those of what is no path.
pub(super) fn canonical_path(text: &str) -> Result<String, SqlError> {
    Ok(parsed(text)?.canonical())
}
