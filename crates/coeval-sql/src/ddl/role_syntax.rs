// SPDX-License-Identifier: Apache-2.0
//! Statements about roles and rights, read: CREATE, ALTER and DROP ROLE, GRANT, REVOKE, REASSIGN and DROP OWNED.

use super::dependents::Behavior;
use super::existence::Missing;
use crate::names::fold;
use crate::parse::{rewind, take_word, to_next_word};
use crate::rights::COLUMN_PRIVILEGES;
use coeval_store::{Privilege, RoleAttribute};
use datafusion::sql::sqlparser::ast::{Ident, ObjectName, Value};
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

/// A role as a statement names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RoleName {
    /// By its name.
    Named(String),
    /// `CURRENT_USER`, `CURRENT_ROLE`.
    CurrentUser,
    /// `SESSION_USER`.
    SessionUser,
    /// `PUBLIC`: everyone.
    Public,
}

/// What an option of CREATE or ALTER ROLE says.
#[derive(Clone, Debug)]
pub(crate) enum RoleOption {
    /// `LOGIN`.
    Has(RoleAttribute),
    /// `NOLOGIN`.
    HasNot(RoleAttribute),
    /// `PASSWORD`; `None`: NULL.
    Password(Option<String>),
    /// `VALID UNTIL`.
    ValidUntil(String),
    /// `IN ROLE`.
    InRoles(Vec<RoleName>),
    /// `ROLE`, `USER`: who becomes a member.
    Members(Vec<RoleName>),
    /// `ADMIN`: who becomes a member that may make others members.
    Admins(Vec<RoleName>),
    /// `CONNECTION LIMIT`.
    ConnectionLimit(i64),
}

/// What is granted, or taken back.
#[derive(Clone, Debug)]
pub(crate) enum Granted {
    /// Privileges on objects.
    Privileges(Named, Objects),
    /// Membership in roles.
    Roles(Vec<RoleName>),
}

/// The privileges that a statement names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    /// On whole objects; `None`: ALL.
    pub(super) whole: Option<Vec<Privilege>>,
    /// On columns, each with their names.
    pub(super) on_columns: Vec<(Privilege, Vec<String>)>,
}

/// The objects of a GRANT.
#[derive(Clone, Debug)]
pub(crate) enum Objects {
    /// Tables and views, by name.
    Tables(Vec<ObjectName>),
    /// Sequences, by name.
    Sequences(Vec<ObjectName>),
    /// Schemas.
    Schemas(Vec<String>),
    /// All tables and views of schemas.
    TablesIn(Vec<String>),
    /// All sequences of schemas.
    SequencesIn(Vec<String>),
    /// What has no rights of its own here, under this name: databases, functions, ...
    Unchecked(&'static str),
    /// Servers of other engines.
    Servers(Vec<String>),
}

/// Whether the right to grant goes along, or goes alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GrantOption {
    /// It is not named.
    Unnamed,
    /// `WITH GRANT OPTION`, `WITH ADMIN OPTION`; `GRANT OPTION FOR` in REVOKE.
    Named,
}

/// A statement about roles and rights.
#[derive(Clone, Debug)]
pub(crate) enum RoleStatement {
    /// CREATE ROLE.
    Create {
        /// Its name.
        name: RoleName,
        /// Its options, CREATE USER's LOGIN first.
        options: Vec<RoleOption>,
    },
    /// ALTER ROLE.
    Alter {
        /// Its name.
        name: RoleName,
        /// Its options.
        options: Vec<RoleOption>,
    },
    /// ALTER ROLE RENAME.
    Rename {
        /// Its name.
        name: RoleName,
        /// Its new one.
        new: String,
    },
    /// DROP ROLE.
    Drop {
        /// Their names.
        names: Vec<RoleName>,
        /// What happens if one is not there.
        missing: Missing,
    },
    /// GRANT.
    Grant {
        /// What.
        granted: Granted,
        /// To whom.
        to: Vec<RoleName>,
        /// Whether they may grant it in turn.
        option: GrantOption,
    },
    /// REVOKE.
    Revoke {
        /// What.
        granted: Granted,
        /// From whom.
        from: Vec<RoleName>,
        /// Whether only the right to grant it is taken back.
        option: GrantOption,
        /// What else goes.
        behavior: Behavior,
    },
    /// REASSIGN OWNED.
    Reassign {
        /// Whose.
        from: Vec<RoleName>,
        /// To whom.
        to: RoleName,
    },
    /// DROP OWNED.
    DropOwned(Vec<RoleName>, Behavior),
}

type Parsed<T> = Result<T, ParserError>;

impl RoleStatement {
    /// The statement at the parser's place, if it is one of these; else the parser is where it was.
    ///
    /// # Errors
    /// A syntax error behind the words that only these statements start with.
    pub(super) fn parse(parser: &mut Parser<'_>) -> Parsed<Option<Self>> {
        let first = word_at(parser, 0);
        let is_role = |word: &str| matches!(word, "role" | "user" | "group");
        let second = word_at(parser, 1).unwrap_or_default();
        Ok(Some(match (first.as_deref(), second.as_str()) {
            (Some("create"), kind) if is_role(kind) => {
                skip(parser, 2);
                let name = role_name(parser)?;
                let mut options = Vec::new();
                if kind == "user" {
                    options.push(RoleOption::Has(RoleAttribute::Login));
                }
                options.extend(role_options(parser)?);
                Self::Create { name, options }
            }
            (Some("alter"), kind) if is_role(kind) => {
                skip(parser, 2);
                Self::parse_alter(parser)?
            }
            (Some("drop"), kind) if is_role(kind) => {
                skip(parser, 2);
                let skips = take_word(parser, "if");
                if skips && !take_word(parser, "exists") {
                    return parser.expected("EXISTS", parser.peek_token());
                }
                let missing = if skips { Missing::Skip } else { Missing::Refuse };
                Self::Drop { names: role_names(parser)?, missing }
            }
            (Some("drop"), "owned") => {
                skip(parser, 2);
                expect_word(parser, "by")?;
                let names = role_names(parser)?;
                Self::DropOwned(names, behavior(parser))
            }
            (Some("reassign"), "owned") => {
                skip(parser, 2);
                expect_word(parser, "by")?;
                let from = role_names(parser)?;
                expect_word(parser, "to")?;
                Self::Reassign { from, to: role_name(parser)? }
            }
            (Some("grant"), _) => {
                skip(parser, 1);
                Self::parse_grant(parser)?
            }
            (Some("revoke"), _) => {
                skip(parser, 1);
                Self::parse_revoke(parser)?
            }
            _ => return Ok(None),
        }))
    }

    fn parse_alter(parser: &mut Parser<'_>) -> Parsed<Self> {
        let name = role_name(parser)?;
        if take_word(parser, "rename") {
            expect_word(parser, "to")?;
            return Ok(Self::Rename { name, new: fold(&parser.parse_identifier()?) });
        }
        let members = |parser: &mut Parser<'_>| -> Parsed<Vec<RoleName>> {
            expect_word(parser, "user")?;
            role_names(parser)
        };
        // ALTER GROUP ... ADD USER.
        if take_word(parser, "add") {
            let granted = Granted::Roles(vec![name]);
            return Ok(Self::Grant { granted, to: members(parser)?, option: GrantOption::Unnamed });
        }
        if take_word(parser, "drop") {
            let (granted, from) = (Granted::Roles(vec![name]), members(parser)?);
            let (option, behavior) = (GrantOption::Unnamed, Behavior::Restrict);
            return Ok(Self::Revoke { granted, from, option, behavior });
        }
        Ok(Self::Alter { name, options: role_options(parser)? })
    }

    fn parse_grant(parser: &mut Parser<'_>) -> Parsed<Self> {
        let granted = granted(parser)?;
        expect_word(parser, "to")?;
        let to = role_names(parser)?;
        let option = with_option(parser)?;
        granted_by(parser)?;
        Ok(Self::Grant { granted, to, option })
    }

    fn parse_revoke(parser: &mut Parser<'_>) -> Parsed<Self> {
        let option = option_for(parser);
        let granted = granted(parser)?;
        expect_word(parser, "from")?;
        let from = role_names(parser)?;
        granted_by(parser)?;
        Ok(Self::Revoke { granted, from, option, behavior: behavior(parser) })
    }
}

/// `WITH GRANT OPTION` behind what is granted, if it is there.
///
/// # Errors
/// If something else stands behind WITH.
pub(super) fn with_option(parser: &mut Parser<'_>) -> Parsed<GrantOption> {
    if !take_word(parser, "with") {
        return Ok(GrantOption::Unnamed);
    }
    if !(take_word(parser, "grant") || take_word(parser, "admin")) {
        return parser.expected("GRANT OPTION", parser.peek_token());
    }
    expect_word(parser, "option")?;
    Ok(GrantOption::Named)
}

/// `GRANT OPTION FOR` in front of what is taken back, if it is there.
pub(super) fn option_for(parser: &mut Parser<'_>) -> GrantOption {
    let is_named = matches!(word_at(parser, 0).as_deref(), Some("grant" | "admin"))
        && word_at(parser, 1).as_deref() == Some("option")
        && word_at(parser, 2).as_deref() == Some("for");
    if !is_named {
        return GrantOption::Unnamed;
    }
    skip(parser, 3);
    GrantOption::Named
}

/// `CASCADE` or `RESTRICT`, which is meant where neither stands.
pub(super) fn behavior(parser: &mut Parser<'_>) -> Behavior {
    if take_word(parser, "cascade") {
        return Behavior::Cascade;
    }
    take_word(parser, "restrict");
    Behavior::Restrict
}

/// The `distance`th word from here on, in lower case, if it is one without quotes.
pub(super) fn word_at(parser: &Parser<'_>, distance: usize) -> Option<String> {
    match &parser.peek_nth_token(distance).token {
        Token::Word(word) if word.quote_style.is_none() => Some(word.value.to_lowercase()),
        _ => None,
    }
}

/// Passes over so many words.
pub(super) fn skip(parser: &mut Parser<'_>, words: usize) {
    for _ in 0..words {
        parser.next_token();
    }
}

/// Takes the word.
///
/// # Errors
/// If another one is next.
pub(super) fn expect_word(parser: &mut Parser<'_>, word: &str) -> Parsed<()> {
    if take_word(parser, word) { Ok(()) } else { parser.expected(&word.to_uppercase(), parser.peek_token()) }
}

/// The role at the parser's place.
///
/// # Errors
/// If there is none.
pub(super) fn role_name(parser: &mut Parser<'_>) -> Parsed<RoleName> {
    // GROUP before a name is an older way to write it.
    take_word(parser, "group");
    parser.parse_identifier().map(|ident| role_of(&ident))
}

/// The role that a name means.
pub(super) fn role_of(ident: &Ident) -> RoleName {
    let name = fold(ident);
    match (ident.quote_style, name.as_str()) {
        (None, "current_user" | "current_role") => RoleName::CurrentUser,
        (None, "session_user") => RoleName::SessionUser,
        (None, "public") => RoleName::Public,
        _ => RoleName::Named(name),
    }
}

/// The roles at the parser's place.
///
/// # Errors
/// If there is none.
pub(super) fn role_names(parser: &mut Parser<'_>) -> Parsed<Vec<RoleName>> {
    parser.parse_comma_separated(role_name)
}

/// `GRANTED BY` names who grants anyway.
fn granted_by(parser: &mut Parser<'_>) -> Parsed<()> {
    if take_word(parser, "granted") {
        expect_word(parser, "by")?;
        role_name(parser)?;
    }
    Ok(())
}

fn role_options(parser: &mut Parser<'_>) -> Parsed<Vec<RoleOption>> {
    take_word(parser, "with");
    let mut options = Vec::new();
    while parser.peek_token().token != Token::EOF {
        options.push(role_option(parser)?);
    }
    Ok(options)
}

fn role_option(parser: &mut Parser<'_>) -> Parsed<RoleOption> {
    let attributes = [
        ("login", RoleAttribute::Login),
        ("superuser", RoleAttribute::Superuser),
        ("inherit", RoleAttribute::Inherit),
        ("createrole", RoleAttribute::CreateRole),
        ("createdb", RoleAttribute::CreateDatabase),
        ("replication", RoleAttribute::Replication),
        ("bypassrls", RoleAttribute::BypassRowSecurity),
    ];
    let Some(word) = word_at(parser, 0) else {
        return parser.expected("an option of a role", parser.peek_token());
    };
    let named =
        |word: &str| attributes.iter().find(|(name, _)| *name == word).map(|(_, attribute)| *attribute);
    if let Some(attribute) = named(&word) {
        skip(parser, 1);
        return Ok(RoleOption::Has(attribute));
    }
    if let Some(attribute) = word.strip_prefix("no").and_then(named) {
        skip(parser, 1);
        return Ok(RoleOption::HasNot(attribute));
    }
    match word.as_str() {
        "encrypted" => {
            skip(parser, 1);
            role_option(parser)
        }
        "password" => {
            skip(parser, 1);
            if take_word(parser, "null") {
                return Ok(RoleOption::Password(None));
            }
            Ok(RoleOption::Password(Some(text(parser)?)))
        }
        "valid" => {
            skip(parser, 1);
            expect_word(parser, "until")?;
            Ok(RoleOption::ValidUntil(text(parser)?))
        }
        "in" => {
            skip(parser, 1);
            if !take_word(parser, "role") {
                expect_word(parser, "group")?;
            }
            Ok(RoleOption::InRoles(role_names(parser)?))
        }
        "role" | "user" => {
            skip(parser, 1);
            Ok(RoleOption::Members(role_names(parser)?))
        }
        "admin" => {
            skip(parser, 1);
            Ok(RoleOption::Admins(role_names(parser)?))
        }
        "connection" => {
            skip(parser, 1);
            expect_word(parser, "limit")?;
            let negative = parser.consume_token(&Token::Minus);
            let limit = parser.parse_literal_uint()?;
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            Ok(RoleOption::ConnectionLimit(if negative { -limit } else { limit }))
        }
        _ => parser.expected("an option of a role", parser.peek_token()),
    }
}

/// The text at the parser's place, in any of its quotes.
///
/// # Errors
/// If there is none.
pub(super) fn text(parser: &mut Parser<'_>) -> Parsed<String> {
    match parser.parse_value()?.value {
        Value::SingleQuotedString(text)
        | Value::EscapedStringLiteral(text)
        | Value::DollarQuotedString(datafusion::sql::sqlparser::ast::DollarQuotedString {
            value: text,
            ..
        }) => Ok(text),
        other => Err(ParserError::ParserError(format!("Expected: a text, found: {other}"))),
    }
}

/// What stands between GRANT and TO.
fn granted(parser: &mut Parser<'_>) -> Parsed<Granted> {
    if let Some(privileges) = privileges(parser)? {
        return Ok(Granted::Privileges(privileges, objects(parser)?));
    }
    Ok(Granted::Roles(role_names(parser)?))
}

/// A list of privileges with ON behind it; `None`, and nothing taken, if it is a list of roles.
///
/// # Errors
/// For a list of columns that is none.
pub(super) fn privileges(parser: &mut Parser<'_>) -> Parsed<Option<Named>> {
    to_next_word(parser);
    let start = parser.index();
    let (mut privileges, mut on_columns) = (Vec::new(), Vec::new());
    let mut is_all = take_word(parser, "all");
    if is_all {
        take_word(parser, "privileges");
        if let Some(columns) = columns(parser)? {
            is_all = false;
            on_columns.extend(COLUMN_PRIVILEGES.map(|privilege| (privilege, columns.clone())));
        }
    } else {
        loop {
            let word = word_at(parser, 0).unwrap_or_default().to_uppercase();
            let known = Privilege::ALL.into_iter().find(|privilege| privilege.name() == word);
            // CONNECT, TEMPORARY and EXECUTE are on objects that have no rights here.
            let passed = matches!(word.as_str(), "CONNECT" | "TEMPORARY" | "TEMP" | "EXECUTE");
            if known.is_none() && !passed {
                break;
            }
            skip(parser, 1);
            match (known, columns(parser)?) {
                (Some(privilege), Some(columns)) => on_columns.push((privilege, columns)),
                (known, _) => privileges.extend(known),
            }
            if !parser.consume_token(&Token::Comma) {
                break;
            }
        }
    }
    if take_word(parser, "on") {
        return Ok(Some(Named { whole: (!is_all).then_some(privileges), on_columns }));
    }
    rewind(parser, start);
    Ok(None)
}

/// A list of columns in parentheses, if one is next.
fn columns(parser: &mut Parser<'_>) -> Parsed<Option<Vec<String>>> {
    if !parser.consume_token(&Token::LParen) {
        return Ok(None);
    }
    let columns =
        parser.parse_comma_separated(|parser| parser.parse_identifier().map(|ident| fold(&ident)))?;
    parser.expect_token(&Token::RParen)?;
    Ok(Some(columns))
}

/// What stands behind ON.
fn objects(parser: &mut Parser<'_>) -> Parsed<Objects> {
    let names =
        |parser: &mut Parser<'_>| parser.parse_comma_separated(|parser| parser.parse_object_name(false));
    let schemas = |parser: &mut Parser<'_>| {
        parser.parse_comma_separated(|parser| parser.parse_identifier().map(|ident| fold(&ident)))
    };
    if take_word(parser, "all") {
        let is_sequences = take_word(parser, "sequences");
        if !is_sequences && !take_word(parser, "tables") {
            let unchecked = ["functions", "routines", "procedures"];
            let Some(word) = unchecked.iter().find(|word| take_word(parser, word)) else {
                return parser.expected("TABLES or SEQUENCES", parser.peek_token());
            };
            expect_word(parser, "in")?;
            expect_word(parser, "schema")?;
            schemas(parser)?;
            return Ok(Objects::Unchecked(word));
        }
        expect_word(parser, "in")?;
        expect_word(parser, "schema")?;
        let schemas = schemas(parser)?;
        return Ok(if is_sequences { Objects::SequencesIn(schemas) } else { Objects::TablesIn(schemas) });
    }
    if take_word(parser, "schema") {
        return Ok(Objects::Schemas(schemas(parser)?));
    }
    if word_at(parser, 0).as_deref() == Some("foreign") && word_at(parser, 1).as_deref() == Some("server") {
        skip(parser, 2);
        return Ok(Objects::Servers(schemas(parser)?));
    }
    if take_word(parser, "sequence") {
        return Ok(Objects::Sequences(names(parser)?));
    }
    for word in ["database", "tablespace", "language", "type", "domain"] {
        if word_at(parser, 0).as_deref() == Some(word) && word_at(parser, 1).is_some_and(|next| next != "to")
        {
            skip(parser, 1);
            names(parser)?;
            return Ok(Objects::Unchecked(word));
        }
    }
    take_word(parser, "table");
    Ok(Objects::Tables(names(parser)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;

    fn parse(sql: &str) -> Option<RoleStatement> {
        let mut parser = Parser::new(&PostgreSqlDialect {}).try_with_sql(sql).unwrap();
        let found = RoleStatement::parse(&mut parser).unwrap();
        if found.is_some() {
            assert_eq!(parser.peek_token().token, Token::EOF, "{sql}");
        } else {
            assert_eq!(parser.index(), 0, "{sql}");
        }
        found
    }

    #[test]
    fn statements_about_roles_are_read_whole_and_others_left() {
        for sql in [
            "CREATE ROLE r",
            "CREATE USER \"U\" WITH ENCRYPTED PASSWORD 'x' NOINHERIT VALID UNTIL '2030-01-01' IN ROLE a, b",
            "ALTER ROLE r NOLOGIN CONNECTION LIMIT -1 PASSWORD NULL",
            "ALTER USER CURRENT_USER RENAME TO s",
            "ALTER GROUP g ADD USER a, b",
            "DROP ROLE IF EXISTS a, b",
            "DROP OWNED BY a CASCADE",
            "REASSIGN OWNED BY a, b TO c",
            "GRANT ALL PRIVILEGES ON TABLE a.t, u TO r, PUBLIC WITH GRANT OPTION",
            "GRANT select, Insert ON ALL TABLES IN SCHEMA public TO GROUP r",
            "GRANT USAGE ON SCHEMA s TO r",
            "GRANT CONNECT, TEMPORARY ON DATABASE d TO r",
            "GRANT SELECT, INSERT (a, \"B\"), UPDATE (a) ON t TO r",
            "REVOKE ALL PRIVILEGES (a) ON t FROM r",
            "GRANT a, b TO c WITH ADMIN OPTION GRANTED BY CURRENT_USER",
            "REVOKE GRANT OPTION FOR UPDATE ON t FROM r CASCADE",
            "REVOKE a FROM b",
        ] {
            assert!(parse(sql).is_some(), "{sql}");
        }
        for sql in ["CREATE TABLE role (a int)", "SELECT 1", "DROP TABLE role", "ALTER TABLE t RENAME TO u"] {
            assert!(parse(sql).is_none(), "{sql}");
        }
    }

    #[test]
    fn privileges_on_columns_stand_beside_those_on_tables() {
        let read = |sql: &str| match parse(sql) {
            Some(RoleStatement::Grant { granted: Granted::Privileges(named, _), .. }) => named,
            other => panic!("{sql} grants no privileges: {other:?}"),
        };
        let both = read("GRANT SELECT, UPDATE (a, \"B\") ON t TO r");
        assert_eq!(both.whole, Some(vec![Privilege::Select]));
        assert_eq!(both.on_columns, [(Privilege::Update, vec!["a".to_owned(), "B".to_owned()])]);
        let all = read("GRANT ALL (a) ON t TO r");
        assert_eq!((all.whole, all.on_columns.len()), (Some(Vec::new()), COLUMN_PRIVILEGES.len()));
        assert_eq!(read("GRANT ALL ON t TO r"), Named { whole: None, on_columns: Vec::new() });
    }

    #[test]
    fn a_role_may_be_called_like_a_privilege() {
        let Some(RoleStatement::Grant { granted: Granted::Roles(roles), .. }) =
            parse("GRANT \"select\" TO r")
        else {
            panic!("a role is granted");
        };
        assert_eq!(roles, [RoleName::Named("select".to_owned())]);
        let Some(RoleStatement::Grant { granted: Granted::Roles(roles), .. }) = parse("GRANT usage, b TO r")
        else {
            panic!("roles are granted");
        };
        assert_eq!(roles.len(), 2);
    }
}
