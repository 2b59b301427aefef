// SPDX-License-Identifier: Apache-2.0
//! Statements of PostgreSQL's that are about neither rows nor definitions: cursors, LOCK TABLE, VACUUM, ANALYZE, REINDEX,
//! LISTEN and its like, SET CONSTRAINTS; and those that are refused whatever they are about.
//!
//! LOCK TABLE takes no lock: transactions do not wait for each other's tables here, and what two of them change is
//! found at commit. VACUUM and ANALYZE have nothing to do: versions that nobody reads are freed at once, and what
//! a filter leaves is tried, not stored; nor has REINDEX, as an index is made of its table's rows. All look whether the tables are there.

use super::block::IsQuery;
use super::cursor_statements::{Declare, Fetch, ForwardFetch};
use super::deferrable::DeferrableModes;
use super::refused::refused;
use super::set_constraints::SetConstraints;
use super::variables::Scope;
use super::{Session, State};
use crate::context::StatementContext;
use crate::error::{SqlError, SqlState};
use crate::names::fold;
use crate::parse::take_word;
use crate::result::StatementResult;
use crate::rights::Object;
use coeval_store::{ObjectRef, Privilege, QualifiedName};
use datafusion::sql::sqlparser::ast::{Ident, ObjectName, Statement};
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

/// A statement that is parsed here.
#[derive(Clone, Debug)]
pub(crate) enum Utility {
    /// `LOCK TABLE`, and the privileges of which it takes one.
    Lock(Vec<ObjectName>, &'static [Privilege]),
    /// `VACUUM`.
    Vacuum(Vec<ObjectName>),
    /// `ANALYZE`.
    Analyze(Vec<ObjectName>),
    /// `REINDEX`, of the tables or indexes.
    Reindex(Vec<ObjectName>),
    /// `UNLISTEN`: there is nothing to stop listening to.
    Unlisten,
    /// `LISTEN`, `NOTIFY`: refused under this name.
    Notification(&'static str),
    /// A statement of this name that there is not.
    Refused(String),
    /// `SET CONSTRAINTS`.
    SetConstraints(SetConstraints),
    /// `RESET SESSION AUTHORIZATION`.
    ResetAuthorization,
    /// BEGIN or SET TRANSACTION with `[NOT] DEFERRABLE`.
    DeferrableModes(Box<DeferrableModes>),
    /// `DECLARE`.
    Declare(Box<Declare>),
    /// `FETCH` and `MOVE`.
    Fetch(Fetch),
    /// `CLOSE`; `None`: all.
    Close(Option<String>),
}

impl Utility {
    /// The query that a cursor is declared for.
    pub(super) fn cursor_query(&self) -> Option<Statement> {
        match self {
            Self::Declare(declare) => Some(declare.query()),
            _ => None,
        }
    }

    /// What FETCH and MOVE want.
    pub(super) fn fetch(&self) -> Option<ForwardFetch<'_>> {
        match self {
            Self::Fetch(fetch) => Some(fetch.forward()),
            _ => None,
        }
    }

    /// The statement at the parser's place, if it is one of these; else the parser is where it was.
    ///
    /// # Errors
    /// A syntax error behind the words that only these statements start with.
    pub(super) fn parse(parser: &mut Parser<'_>) -> Result<Option<Self>, ParserError> {
        let Token::Word(word) = parser.peek_token().token else { return Ok(None) };
        if word.quote_style.is_some() {
            return Ok(None);
        }
        Ok(Some(match word.value.to_lowercase().as_str() {
            "lock" => lock(parser)?,
            "vacuum" => Self::Vacuum(maintained(parser)?),
            "analyze" | "analyse" => Self::Analyze(maintained(parser)?),
            "reindex" => Self::Reindex(reindexed(parser)?),
            "alter" | "cluster" | "commit" | "create" | "do" | "drop" | "import" | "prepare" | "refresh"
            | "rollback" | "security" => match refused(parser) {
                Some(name) => {
                    rest(parser);
                    Self::Refused(name)
                }
                None => return Ok(None),
            },
            "listen" => {
                rest(parser);
                Self::Notification("LISTEN")
            }
            "notify" => {
                rest(parser);
                Self::Notification("NOTIFY")
            }
            "unlisten" => {
                rest(parser);
                Self::Unlisten
            }
            "declare" => Self::Declare(Box::new(Declare::parse(parser)?)),
            "fetch" | "move" => Self::Fetch(Fetch::parse(parser)?),
            "close" => {
                parser.next_token();
                let name = parser.parse_identifier()?;
                let is_all = name.quote_style.is_none() && name.value.eq_ignore_ascii_case("all");
                Self::Close((!is_all).then(|| fold(&name)))
            }
            "set" if SetConstraints::is_next(parser) => Self::SetConstraints(SetConstraints::parse(parser)?),
            "reset" if authorization(parser) => Self::ResetAuthorization,
            _ => return Ok(None),
        }))
    }
}

/// Passes over what is left of the statement.
fn rest(parser: &mut Parser<'_>) {
    while parser.next_token().token != Token::EOF {}
}

fn lock(parser: &mut Parser<'_>) -> Result<Utility, ParserError> {
    parser.next_token();
    take_word(parser, "table");
    let mut tables = Vec::new();
    loop {
        take_word(parser, "only");
        tables.push(parser.parse_object_name(false)?);
        let _ = parser.consume_token(&Token::Mul);
        if !parser.consume_token(&Token::Comma) {
            break;
        }
    }
    let mut mode = Vec::new();
    if take_word(parser, "in") {
        while !take_word(parser, "mode") {
            mode.push(fold(&parser.parse_identifier()?));
        }
    }
    take_word(parser, "nowait");
    Ok(Utility::Lock(tables, enough_to_lock(&mode.join(" "))))
}

/// The privileges of which PostgreSQL asks for one where a table is locked in this mode.
fn enough_to_lock(mode: &str) -> &'static [Privilege] {
    match mode {
        "access share" => &[Privilege::Select],
        "row exclusive" => &[Privilege::Insert, Privilege::Update, Privilege::Delete, Privilege::Truncate],
        _ => &[Privilege::Update, Privilege::Delete, Privilege::Truncate],
    }
}

/// The tables of VACUUM or ANALYZE, behind its options.
fn maintained(parser: &mut Parser<'_>) -> Result<Vec<ObjectName>, ParserError> {
    parser.next_token();
    skip_parentheses(parser)?;
    while ["full", "freeze", "verbose", "analyze", "analyse"].iter().any(|word| take_word(parser, word)) {}
    let mut tables = Vec::new();
    while parser.peek_token().token != Token::EOF {
        tables.push(parser.parse_object_name(false)?);
        skip_parentheses(parser)?;
        if !parser.consume_token(&Token::Comma) {
            break;
        }
    }
    Ok(tables)
}

/// The table or index of REINDEX; none if a schema or all of the database is meant.
fn reindexed(parser: &mut Parser<'_>) -> Result<Vec<ObjectName>, ParserError> {
    parser.next_token();
    skip_parentheses(parser)?;
    let is_one = ["table", "index"].iter().any(|word| take_word(parser, word));
    if !is_one && !["schema", "database", "system"].iter().any(|word| take_word(parser, word)) {
        return parser.expected("TABLE, INDEX, SCHEMA, DATABASE or SYSTEM", parser.peek_token());
    }
    take_word(parser, "concurrently");
    let name = parser.parse_object_name(false)?;
    Ok(if is_one { vec![name] } else { Vec::new() })
}

fn skip_parentheses(parser: &mut Parser<'_>) -> Result<(), ParserError> {
    if !parser.consume_token(&Token::LParen) {
        return Ok(());
    }
    let mut depth = 1;
    while depth > 0 {
        match parser.next_token().token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            Token::EOF => return parser.expected("a closing parenthesis", parser.peek_token()),
            _ => {}
        }
    }
    Ok(())
}

/// `RESET SESSION AUTHORIZATION`.
fn authorization(parser: &mut Parser<'_>) -> bool {
    let is_next = |distance: usize, wanted: &str| {
        matches!(&parser.peek_nth_token(distance).token, Token::Word(word)
            if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted))
    };
    let found = is_next(1, "session") && is_next(2, "authorization");
    if found {
        rest(parser);
    }
    found
}

impl Session {
    pub(super) fn utility(&mut self, utility: &Utility) -> Result<StatementResult, SqlError> {
        self.refuse_if_failed()?;
        match utility {
            Utility::Lock(tables, privileges) => {
                if matches!(self.state, State::Idle) {
                    let message = "LOCK TABLE can only be used in transaction blocks";
                    return Err(SqlError::new(SqlState::NoActiveSqlTransaction, message));
                }
                self.look_for(tables, Some(privileges))?;
                Ok(StatementResult::plain("LOCK TABLE"))
            }
            Utility::Vacuum(tables) => {
                if !matches!(self.state, State::Idle) {
                    let message = "VACUUM cannot run inside a transaction block";
                    return Err(SqlError::new(SqlState::ActiveSqlTransaction, message));
                }
                self.look_for(tables, None)?;
                Ok(StatementResult::plain("VACUUM"))
            }
            Utility::Analyze(tables) => {
                self.look_for(tables, None)?;
                Ok(StatementResult::plain("ANALYZE"))
            }
            Utility::Reindex(relations) => {
                self.look_for(relations, None)?;
                Ok(StatementResult::plain("REINDEX"))
            }
            Utility::Refused(name) => Err(SqlError::unsupported(name)),
            Utility::Unlisten => Ok(StatementResult::plain("UNLISTEN")),
            Utility::Notification(name) => Err(SqlError::unsupported(name)),
            Utility::ResetAuthorization => {
                self.set_authorization(Scope::Session, None)?;
                Ok(StatementResult::plain("RESET"))
            }
            Utility::DeferrableModes(modes) => self.deferrable_modes(modes),
            Utility::SetConstraints(which) => self.set_constraints(which),
            Utility::Declare(declare) => self.declare(declare, &[], &[]),
            Utility::Fetch(fetch) => self.fetch(fetch),
            Utility::Close(name) => self.close(name.as_deref()),
        }
    }

    /// `42P01` if one of the tables is not there. If one of these privileges on it is needed, `42501` if none is there, and `42809` if it is
    /// something else than a table or a view.
    fn look_for(&mut self, tables: &[ObjectName], needed: Option<&[Privilege]>) -> Result<(), SqlError> {
        self.in_transaction("", &[], &[], IsQuery::No, |context| {
            for table in tables {
                let found = crate::names::existing_name(table, context.settings, context.transaction)?;
                let name =
                    table.0.last().and_then(|part| part.as_ident()).map_or("", |ident: &Ident| &ident.value);
                // The index of a primary key is its table.
                let mut tables = context.transaction.world().tables();
                if found.is_none() && !tables.any(|table| table.def().primary_key_name == name) {
                    return Err(crate::names::unknown_table(name));
                }
                match (&found, needed) {
                    (Some(name), Some(needed)) => require_any(context, name, needed)?,
                    (None, Some(_)) => return Err(no_lock(name)),
                    (_, None) => {}
                }
            }
            Ok(())
        })
    }
}

/// `42501` if none of the privileges on a table or view is there, `42809` if it is something else.
fn require_any(
    context: &StatementContext<'_>,
    name: &QualifiedName,
    privileges: &[Privilege],
) -> Result<(), SqlError> {
    let catalog = context.transaction.catalog();
    match catalog.resolve(name) {
        Some(ObjectRef::Table(id)) => {
            let def = context.transaction.table_def(id)?;
            context.rights().require_any(Object::Table(def), privileges)
        }
        Some(ObjectRef::View) => match catalog.view(name) {
            Some(view) => context.rights().require_any(Object::View(view), privileges),
            None => Ok(()),
        },
        Some(ObjectRef::Sequence(_) | ObjectRef::Index(..)) => Err(no_lock(&name.name)),
        None => Ok(()),
    }
}

/// `42809`: LOCK TABLE of what is no table or view.
fn no_lock(name: &str) -> SqlError {
    SqlError::new(SqlState::WrongObjectType, format!("cannot lock relation \"{name}\""))
}
