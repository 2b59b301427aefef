// SPDX-License-Identifier: Apache-2.0
//! ALTER ROLE ... SET and ALTER DATABASE ... SET: the settings that sessions begin with, and what becomes of them when a role is
//! renamed or goes.
//!
//! | statement | may |
//! |---|---|
//! | `ALTER ROLE r` | r, whoever may make roles; of a superuser, superusers |
//! | `ALTER ROLE ALL`, `ALTER DATABASE d` | superusers |
//!
//! Values are kept as they were given, and tried before: what no session takes is refused. They count for sessions that are opened
//! later (`session/kept_settings.rs`).

use super::named_roles;
use super::role_syntax::{RoleName, expect_word, role_name, skip, text, word_at};
use crate::context::StatementContext;
use crate::error::{SqlError, SqlState};
use crate::names::fold;
use crate::parse::take_word;
use crate::quoting::quoted;
use crate::relations::CATALOG_NAME;
use crate::result::StatementResult;
use crate::rights::insufficient;
use crate::settings::{canonical, is_custom, name_of_default};
use coeval_store::{CatalogChange, DefaultSetting, DefaultsReach, RoleAttribute, SessionDefaults};
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

/// The statement.
#[derive(Clone, Debug)]
pub(crate) struct AlterSessionDefaults {
    /// Whose sessions; `None`: those of all roles.
    role: Option<RoleName>,
    /// In which database; `None`: in all.
    database: Option<String>,
    change: Change,
    tag: &'static str,
}

/// What becomes of the settings.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Change {
    /// `SET name TO`, with the values as texts.
    Set(String, Vec<String>),
    /// `SET name FROM CURRENT`.
    SetToCurrent(String),
    /// `RESET name`, `SET name TO DEFAULT`.
    Reset(String),
    /// `RESET ALL`.
    ResetAll,
}

/// What `TIME ZONE` sets.
const TIME_ZONE: &str = "timezone";

type Parsed<T> = Result<T, ParserError>;

impl AlterSessionDefaults {
    /// Whether the statement at the parser's place is one of these.
    pub(crate) fn is_next(parser: &Parser<'_>) -> bool {
        let is_one_of = |distance: usize, words: &[&str]| {
            word_at(parser, distance).is_some_and(|word| words.contains(&word.as_str()))
        };
        if !is_one_of(0, &["alter"]) {
            return false;
        }
        let changes_settings = is_one_of(3, &["set", "reset"]);
        if is_one_of(1, &["role", "user"]) {
            return changes_settings || is_one_of(3, &["in"]) && is_one_of(4, &["database"]);
        }
        is_one_of(1, &["database"]) && changes_settings && !is_one_of(4, &["tablespace"])
    }

    /// The statement at the parser's place, if it is one of these; else the parser is where it was.
    ///
    /// # Errors
    /// A syntax error behind the words that only these statements start with.
    pub(super) fn parse(parser: &mut Parser<'_>) -> Parsed<Option<Self>> {
        if !Self::is_next(parser) {
            return Ok(None);
        }
        skip(parser, 1);
        if take_word(parser, "database") {
            let database = Some(fold(&parser.parse_identifier()?));
            return Ok(Some(Self { role: None, database, change: change(parser)?, tag: "ALTER DATABASE" }));
        }
        skip(parser, 1);
        let role = if take_word(parser, "all") { None } else { Some(role_name(parser)?) };
        let mut database = None;
        if take_word(parser, "in") {
            expect_word(parser, "database")?;
            database = Some(fold(&parser.parse_identifier()?));
        }
        Ok(Some(Self { role, database, change: change(parser)?, tag: "ALTER ROLE" }))
    }

    /// Runs it.
    ///
    /// # Errors
    /// `42501` unless the role may say so, `42704` for a role or a setting that is not there, `3D000` for another database, `22023`
    /// and `55P02` for what no session takes.
    pub(super) fn execute(&self, context: &mut StatementContext<'_>) -> Result<StatementResult, SqlError> {
        let role = self.role.as_ref().map(|name| changeable(context, name)).transpose()?;
        if let Some(database) = &self.database
            && database != context.settings.database()
            && database != CATALOG_NAME
        {
            let message = format!("database \"{database}\" does not exist");
            return Err(SqlError::new(SqlState::InvalidCatalogName, message));
        }
        if role.is_none() && !context.rights().is_superuser() {
            return Err(insufficient(match &self.database {
                Some(database) => format!("must be owner of database {database}"),
                None => "must be superuser to alter settings globally".to_owned(),
            }));
        }
        let reach = if self.database.is_some() { DefaultsReach::Database } else { DefaultsReach::Server };
        let kept = context.transaction.catalog().session_defaults(role.as_deref(), reach);
        let before = kept.map(|defaults| defaults.settings.clone()).unwrap_or_default();
        let settings = self.change.applied_to(before, context)?;
        put(context, SessionDefaults { role, reach, settings })?;
        Ok(StatementResult::plain(self.tag))
    }
}

impl Change {
    fn applied_to(
        &self,
        mut settings: Vec<DefaultSetting>,
        context: &StatementContext<'_>,
    ) -> Result<Vec<DefaultSetting>, SqlError> {
        match self {
            Self::Set(name, values) => set(&mut settings, context, name, list(name, values)?)?,
            Self::SetToCurrent(name) => {
                let value = context.settings.get(name)?.to_owned();
                set(&mut settings, context, name, value)?;
            }
            Self::Reset(name) => {
                let name = allowed(context, name)?;
                settings.retain(|setting| setting.name != name);
            }
            // What a role may not set stays.
            Self::ResetAll => {
                let may_set_all = context.rights().is_superuser();
                settings.retain(|setting| !may_set_all && is_custom(&setting.name));
            }
        }
        Ok(settings)
    }
}

/// Puts a value into the place of the one before, or behind the others.
fn set(
    settings: &mut Vec<DefaultSetting>,
    context: &StatementContext<'_>,
    name: &str,
    value: String,
) -> Result<(), SqlError> {
    let given = DefaultSetting { name: allowed(context, name)?, value };
    let known = settings.iter_mut().find(|known| known.name == given.name);
    match known {
        Some(known) => *known = given,
        None => settings.push(given),
    }
    context.settings.check_defaults(settings)
}

/// The name under which a setting is kept.
///
/// # Errors
/// `42501` for an application's setting unless it is a superuser who asks, as in PostgreSQL; `42704`, `55P02`.
fn allowed(context: &StatementContext<'_>, name: &str) -> Result<String, SqlError> {
    let name = name_of_default(name)?;
    if is_custom(&name) && !context.rights().is_superuser() {
        return Err(insufficient(format!("permission denied to set parameter \"{name}\"")));
    }
    Ok(name)
}

/// The values as one text: schemas are names, and quoted where names are.
fn list(name: &str, values: &[String]) -> Result<String, SqlError> {
    match (canonical(name).as_str(), values) {
        ("search_path", schemas) => {
            Ok(schemas.iter().map(|schema| quoted(schema)).collect::<Vec<_>>().join(", "))
        }
        (_, [value]) => Ok(value.clone()),
        ("datestyle", words) => Ok(words.join(", ")),
        (name, _) => {
            let message = format!("SET {name} takes only one argument");
            Err(SqlError::new(SqlState::InvalidParameterValue, message))
        }
    }
}

/// The role of this name, if the session may say what its sessions begin with.
fn changeable(context: &StatementContext<'_>, name: &RoleName) -> Result<String, SqlError> {
    let name = named_roles::known(context, name)?;
    named_roles::refuse_predefined(context, &name)?;
    let role = named_roles::role(context, &name)?;
    let rights = context.rights();
    if rights.is_superuser() {
        return Ok(name);
    }
    if role.is(RoleAttribute::Superuser) {
        return Err(insufficient("must be superuser to alter superusers"));
    }
    let own = context.settings.principal().role(rights.authority());
    let is_own = own.is_some_and(|own| own.name == role.name && own.number == role.number);
    if is_own || named_roles::may_make_roles(context) {
        Ok(name)
    } else {
        Err(insufficient("permission denied"))
    }
}

/// Gives a role another name wherever settings are kept for its sessions.
///
/// # Errors
/// `25006` in a read-only transaction.
pub(super) fn rename_role(context: &mut StatementContext<'_>, old: &str, new: &str) -> Result<(), SqlError> {
    for defaults in of_role(context, old) {
        put(context, SessionDefaults { role: Some(new.to_owned()), ..defaults.clone() })?;
        put(context, SessionDefaults { settings: Vec::new(), ..defaults })?;
    }
    Ok(())
}

/// Keeps nothing any more for the sessions of a role that goes.
///
/// # Errors
/// `25006` in a read-only transaction.
pub(super) fn drop_role(context: &mut StatementContext<'_>, role: &str) -> Result<(), SqlError> {
    for defaults in of_role(context, role) {
        put(context, SessionDefaults { settings: Vec::new(), ..defaults })?;
    }
    Ok(())
}

fn of_role(context: &StatementContext<'_>, role: &str) -> Vec<SessionDefaults> {
    let catalog = context.transaction.catalog();
    let reaches = [DefaultsReach::Server, DefaultsReach::Database].into_iter();
    let kept = reaches.filter_map(|reach| catalog.session_defaults(Some(role), reach));
    kept.map(|defaults| defaults.as_ref().clone()).collect()
}

fn put(context: &mut StatementContext<'_>, defaults: SessionDefaults) -> Result<(), SqlError> {
    Ok(context.transaction.change_catalog(CatalogChange::PutSessionDefaults(defaults))?)
}

/// `SET ...` or `RESET ...` at the parser's place.
fn change(parser: &mut Parser<'_>) -> Parsed<Change> {
    if take_word(parser, "reset") {
        if take_word(parser, "all") {
            return Ok(Change::ResetAll);
        }
        let is_zone = take_time_zone(parser);
        return Ok(Change::Reset(if is_zone { TIME_ZONE.to_owned() } else { setting_name(parser)? }));
    }
    expect_word(parser, "set")?;
    if take_time_zone(parser) {
        let name = TIME_ZONE.to_owned();
        return if take_word(parser, "local") { Ok(Change::Reset(name)) } else { assigned(parser, name) };
    }
    let name = setting_name(parser)?;
    if take_word(parser, "from") {
        expect_word(parser, "current")?;
        return Ok(Change::SetToCurrent(name));
    }
    let has_sign = parser.consume_token(&Token::Eq) || take_word(parser, "to");
    // `SET ROLE r` has none.
    if !has_sign && name != "role" {
        return parser.expected("TO", parser.peek_token());
    }
    assigned(parser, name)
}

/// The values behind a setting's name.
fn assigned(parser: &mut Parser<'_>, name: String) -> Parsed<Change> {
    if take_word(parser, "default") {
        return Ok(Change::Reset(name));
    }
    Ok(Change::Set(name, parser.parse_comma_separated(value)?))
}

fn take_time_zone(parser: &mut Parser<'_>) -> bool {
    let is_next =
        word_at(parser, 0).as_deref() == Some("time") && word_at(parser, 1).as_deref() == Some("zone");
    if is_next {
        skip(parser, 2);
    }
    is_next
}

fn setting_name(parser: &mut Parser<'_>) -> Parsed<String> {
    let mut name = fold(&parser.parse_identifier()?);
    while parser.consume_token(&Token::Period) {
        name.push('.');
        name.push_str(&fold(&parser.parse_identifier()?));
    }
    Ok(name)
}

/// A word, a text or a number with its sign, as text.
fn value(parser: &mut Parser<'_>) -> Parsed<String> {
    if matches!(parser.peek_token().token, Token::Word(_)) {
        return parser.parse_identifier().map(|word| fold(&word));
    }
    let is_negative = parser.consume_token(&Token::Minus);
    let has_sign = is_negative || parser.consume_token(&Token::Plus);
    match parser.peek_token().token {
        Token::Number(digits, _) => {
            parser.next_token();
            Ok(if is_negative { format!("-{digits}") } else { digits })
        }
        _ if has_sign => parser.expected("a number", parser.peek_token()),
        _ => text(parser),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;

    fn parse(sql: &str) -> Option<AlterSessionDefaults> {
        let mut parser = Parser::new(&PostgreSqlDialect {}).try_with_sql(sql).unwrap();
        let found = AlterSessionDefaults::parse(&mut parser).unwrap();
        if found.is_some() {
            assert_eq!(parser.peek_token().token, Token::EOF, "{sql}");
        } else {
            assert_eq!(parser.index(), 0, "{sql}");
        }
        found
    }

    #[test]
    fn statements_about_settings_are_read_whole_and_others_left() {
        let changed = |sql: &str| parse(sql).unwrap_or_else(|| panic!("{sql} is left")).change;
        let set = |name: &str, values: &[&str]| {
            Change::Set(name.to_owned(), values.iter().map(|value| (*value).to_owned()).collect())
        };
        let one = "ALTER ROLE r SET search_path = \"$user\", Public, 'a b'";
        assert_eq!(changed(one), set("search_path", &["$user", "public", "a b"]));
        assert_eq!(changed("ALTER USER ALL SET my.own TO -1.5"), set("my.own", &["-1.5"]));
        assert_eq!(changed("ALTER ROLE r IN DATABASE d SET jit TO on"), set("jit", &["on"]));
        assert_eq!(changed("ALTER ROLE r SET TIME ZONE 'UTC'"), set("timezone", &["UTC"]));
        assert_eq!(changed("ALTER ROLE r SET ROLE s"), set("role", &["s"]));
        let current = Change::SetToCurrent("jit".to_owned());
        assert_eq!(changed("ALTER DATABASE \"my d\" SET jit FROM CURRENT"), current);
        assert_eq!(changed("ALTER ROLE r SET jit TO DEFAULT"), Change::Reset("jit".to_owned()));
        assert_eq!(changed("ALTER ROLE r RESET TIME ZONE"), Change::Reset("timezone".to_owned()));
        assert_eq!(changed("ALTER DATABASE d RESET ALL"), Change::ResetAll);
        for sql in [
            "ALTER ROLE r PASSWORD 'x'",
            "ALTER ROLE set RENAME TO reset",
            "ALTER DATABASE d SET TABLESPACE s",
            "ALTER DATABASE d OWNER TO r",
            "ALTER TABLE t SET SCHEMA s",
        ] {
            assert!(parse(sql).is_none(), "{sql}");
        }
    }
}
