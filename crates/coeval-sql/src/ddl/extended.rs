// SPDX-License-Identifier: Apache-2.0
//! DDL of PostgreSQL that the parser does not know: ALTER SEQUENCE, SET SCHEMA, renaming views and sequences,
//! and CREATE SEQUENCE with its options in any order.

use super::bricks::{self, RetentionChange};
use super::comment::ConstraintComment;
use super::domains::{self, DomainStatement};
use super::layout::{self, Layout};
use super::role_syntax::{RoleName, RoleStatement, role_name};
use super::schema::Existing;
use super::sequence::{self, CreateSequence};
use super::temporary::Said;
use super::{alter_column, create_table};
use super::{enum_types, lookup, owners, rename, roles, sequence_values};
use crate::context::StatementContext;
use crate::error::{SqlError, SqlState};
use crate::names::fold;
use crate::parse::{BrickClause, rewind};
use crate::result::StatementResult;
use crate::sequences;
use crate::tique::{self, ServerStatement};
use coeval_store::{CatalogChange, Identity, ObjectRef, QualifiedName, SequenceDef, TableDef};
use datafusion::sql::sqlparser::ast::{CreateTable, Expr, ObjectName, SequenceOptions};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;
use std::sync::Arc;

/// A statement that is parsed here.
#[derive(Clone, Debug)]
pub(crate) enum Extended {
    /// `CREATE SEQUENCE`.
    CreateSequence {
        /// Its name.
        name: ObjectName,
        /// Whether it belongs to the session alone.
        temporary: Said,
        /// What happens if it is there.
        existing: Existing,
        /// Its type and options.
        options: Box<Options>,
    },
    /// `CREATE TABLE ... USING brick`.
    CreateBricks {
        /// The table without the clause.
        create: Box<CreateTable>,
        /// The clause.
        bricks: BrickClause,
    },
    /// `CREATE TABLE ... USING tique SERVER ...`.
    CreateOnServer {
        /// The table without the clause.
        create: Box<CreateTable>,
        /// The server.
        server: String,
    },
    /// A statement about servers.
    Server(Box<ServerStatement>),
    /// `ALTER` of a relation.
    Alter {
        /// What it must be.
        kind: Kind,
        /// What happens if it is not there.
        missing: super::drop::Missing,
        /// Its name.
        name: ObjectName,
        /// What changes.
        change: Change,
    },
    /// `ALTER SCHEMA ... OWNER TO`.
    SchemaOwner {
        /// The schema.
        schema: String,
        /// Its new owner.
        owner: RoleName,
    },
    /// `ALTER TYPE ... OWNER TO`, `SET SCHEMA`.
    AlterType {
        /// The type.
        name: ObjectName,
        /// What changes.
        change: TypeChange,
    },
    /// A statement about domains.
    Domain(Box<DomainStatement>),
    /// A statement about roles or rights.
    Role(Box<RoleStatement>),
    /// `COMMENT ON CONSTRAINT`.
    Comment(Box<ConstraintComment>),
}

/// Where a type belongs.
#[derive(Clone, Debug)]
pub(crate) enum TypeChange {
    /// `OWNER TO`.
    Owner(RoleName),
    /// `SET SCHEMA`.
    Schema(String),
}

/// The kind of relation a statement names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `TABLE`.
    Table,
    /// `VIEW`.
    View,
    /// `SEQUENCE`.
    Sequence,
}

/// What changes.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// `RENAME TO`.
    Rename(ObjectName),
    /// `SET SCHEMA`.
    Schema(String),
    /// `OWNER TO`.
    Owner(RoleName),
    /// How long the rows of a brick table are kept.
    Retention(RetentionChange),
    /// The options of a sequence.
    Sequence(Box<Options>),
    /// `ALTER COLUMN ... ADD GENERATED ... AS IDENTITY (SEQUENCE NAME ...)`, as `pg_dump` writes it.
    Identity(Box<NewIdentity>),
    /// `ALTER COLUMN ... RESTART`, `SET INCREMENT BY ...`, of an identity column.
    ColumnSequence(Box<ColumnSequence>),
    /// How rows are laid out, which changes nothing.
    Layout(Layout),
}

/// A column that becomes an identity column whose sequence has a given name.
#[derive(Clone, Debug)]
pub(crate) struct NewIdentity {
    column: String,
    identity: Identity,
    sequence: ObjectName,
    options: Options,
}

/// What changes of the sequence behind an identity column.
#[derive(Clone, Debug)]
pub(crate) struct ColumnSequence {
    column: String,
    options: Options,
}

/// The options of a sequence.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    data_type: Option<datafusion::sql::sqlparser::ast::DataType>,
    settings: Vec<SequenceOptions>,
    owned_by: Option<ObjectName>,
    /// `RESTART`, `RESTART WITH n`.
    restart: Option<Option<Expr>>,
}

impl Extended {
    /// The statement at the parser's place, if it is one of these; else the parser is where it was.
    ///
    /// # Errors
    /// A syntax error behind the words that only these statements start with.
    pub(crate) fn parse(parser: &mut Parser<'_>) -> Result<Option<Self>, ParserError> {
        if let Some(statement) = RoleStatement::parse(parser)? {
            return Ok(Some(Self::Role(Box::new(statement))));
        }
        if let Some(statement) = ServerStatement::parse(parser)? {
            return Ok(Some(Self::Server(Box::new(statement))));
        }
        if let Some(comment) = ConstraintComment::parse(parser)? {
            return Ok(Some(Self::Comment(Box::new(comment))));
        }
        if let Some(domain) = DomainStatement::parse(parser)? {
            return Ok(Some(Self::Domain(Box::new(domain))));
        }
        if let Some(found) = Self::parse_schema_owner(parser)? {
            return Ok(Some(found));
        }
        if let Some(found) = Self::parse_alter_type(parser)? {
            return Ok(Some(found));
        }
        if let Some(found) = Self::parse_create_sequence(parser)? {
            return Ok(Some(found));
        }
        for (word, kind) in
            [(Keyword::TABLE, Kind::Table), (Keyword::VIEW, Kind::View), (Keyword::SEQUENCE, Kind::Sequence)]
        {
            let start = parser.index();
            if parser.parse_keywords(&[Keyword::ALTER, word]) {
                let altered = Self::parse_alter(parser, kind)?;
                if altered.is_none() {
                    // ALTER TABLE and ALTER VIEW have forms that the parser knows.
                    rewind(parser, start);
                }
                return Ok(altered);
            }
        }
        Ok(None)
    }

    fn parse_create_sequence(parser: &mut Parser<'_>) -> Result<Option<Self>, ParserError> {
        let start = parser.index();
        if parser.parse_keyword(Keyword::CREATE) {
            let is_temporary = parser.parse_one_of_keywords(&[Keyword::TEMP, Keyword::TEMPORARY]).is_some();
            if parser.parse_keyword(Keyword::SEQUENCE) {
                let keep = parser.parse_keywords(&[Keyword::IF, Keyword::NOT, Keyword::EXISTS]);
                return Ok(Some(Self::CreateSequence {
                    temporary: is_temporary.into(),
                    existing: if keep { Existing::Keep } else { Existing::Refuse },
                    name: parser.parse_object_name(false)?,
                    options: Box::new(parse_options(parser)?),
                }));
            }
        }
        rewind(parser, start);
        Ok(None)
    }

    fn parse_schema_owner(parser: &mut Parser<'_>) -> Result<Option<Self>, ParserError> {
        let start = parser.index();
        if parser.parse_keywords(&[Keyword::ALTER, Keyword::SCHEMA]) {
            let schema = fold(&parser.parse_identifier()?);
            if parser.parse_keywords(&[Keyword::OWNER, Keyword::TO]) {
                return Ok(Some(Self::SchemaOwner { schema, owner: role_name(parser)? }));
            }
            rewind(parser, start);
        }
        Ok(None)
    }

    fn parse_alter_type(parser: &mut Parser<'_>) -> Result<Option<Self>, ParserError> {
        let start = parser.index();
        if parser.parse_keywords(&[Keyword::ALTER, Keyword::TYPE]) {
            let name = parser.parse_object_name(false)?;
            if parser.parse_keywords(&[Keyword::OWNER, Keyword::TO]) {
                return Ok(Some(Self::AlterType { name, change: TypeChange::Owner(role_name(parser)?) }));
            }
            if parser.parse_keywords(&[Keyword::SET, Keyword::SCHEMA]) {
                let schema = fold(&parser.parse_identifier()?);
                return Ok(Some(Self::AlterType { name, change: TypeChange::Schema(schema) }));
            }
            rewind(parser, start);
        }
        Ok(None)
    }

    fn parse_alter(parser: &mut Parser<'_>, kind: Kind) -> Result<Option<Self>, ParserError> {
        use super::drop::Missing;
        let skip = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
        let missing = if skip { Missing::Skip } else { Missing::Refuse };
        let _ = parser.parse_keyword(Keyword::ONLY);
        let name = parser.parse_object_name(false)?;
        let change = if parser.parse_keywords(&[Keyword::SET, Keyword::SCHEMA]) {
            Change::Schema(fold(&parser.parse_identifier()?))
        } else if parser.parse_keywords(&[Keyword::OWNER, Keyword::TO]) {
            Change::Owner(role_name(parser)?)
        } else if let Some(identity) = parse_identity(parser)? {
            Change::Identity(Box::new(identity))
        } else if let Some(changed) = parse_column_sequence(parser)? {
            Change::ColumnSequence(Box::new(changed))
        } else if kind == Kind::Table
            && let Some(layout) = layout::parse(parser)?
        {
            Change::Layout(layout)
        } else if let Some(retention) = parse_retention(parser)? {
            Change::Retention(retention)
        } else if kind != Kind::Table && parser.parse_keywords(&[Keyword::RENAME, Keyword::TO]) {
            Change::Rename(parser.parse_object_name(false)?)
        } else if kind == Kind::Sequence {
            Change::Sequence(Box::new(parse_options(parser)?))
        } else {
            return Ok(None);
        };
        Ok(Some(Self::Alter { kind, missing, name, change }))
    }
}

/// `ALTER COLUMN c ADD GENERATED ALWAYS AS IDENTITY (SEQUENCE NAME s ...)`; without a name it is the parser's.
fn parse_identity(parser: &mut Parser<'_>) -> Result<Option<NewIdentity>, ParserError> {
    let start = parser.index();
    if parser.parse_keyword(Keyword::ALTER) {
        let _ = parser.parse_keyword(Keyword::COLUMN);
        let column = fold(&parser.parse_identifier()?);
        if parser.parse_keywords(&[Keyword::ADD, Keyword::GENERATED]) {
            let by_default = parser.parse_keywords(&[Keyword::BY, Keyword::DEFAULT]);
            let identity = if by_default { Identity::ByDefault } else { Identity::Always };
            let _ = parser.parse_keyword(Keyword::ALWAYS);
            if parser.parse_keywords(&[Keyword::AS, Keyword::IDENTITY])
                && parser.consume_token(&Token::LParen)
                && parser.parse_keyword(Keyword::SEQUENCE)
                && parser.parse_keyword(Keyword::NAME)
            {
                let sequence = parser.parse_object_name(false)?;
                let options = parse_options(parser)?;
                parser.expect_token(&Token::RParen)?;
                return Ok(Some(NewIdentity { column, identity, sequence, options }));
            }
        }
    }
    rewind(parser, start);
    Ok(None)
}

/// `ALTER COLUMN c RESTART WITH 100 SET INCREMENT BY 2`, to the end of the statement.
fn parse_column_sequence(parser: &mut Parser<'_>) -> Result<Option<ColumnSequence>, ParserError> {
    let start = parser.index();
    if parser.parse_keyword(Keyword::ALTER) {
        let _ = parser.parse_keyword(Keyword::COLUMN);
        let column = fold(&parser.parse_identifier()?);
        let mut options = Options::default();
        loop {
            if parser.parse_keyword(Keyword::RESTART) {
                options.restart = Some(parse_restart(parser)?);
            } else if let Some(setting) = parse_set_option(parser) {
                options.settings.push(setting);
            } else {
                break;
            }
        }
        let is_said = options.restart.is_some() || !options.settings.is_empty();
        if is_said && parser.peek_token().token == Token::EOF {
            return Ok(Some(ColumnSequence { column, options }));
        }
    }
    rewind(parser, start);
    Ok(None)
}

/// `SET` and an option of a sequence; `None` of all that else is set of a column, where the parser then still is.
fn parse_set_option(parser: &mut Parser<'_>) -> Option<SequenceOptions> {
    let start = parser.index();
    if parser.parse_keyword(Keyword::SET)
        && let Ok(setting) = parse_setting(parser)
    {
        return Some(setting);
    }
    rewind(parser, start);
    None
}

/// The value behind `RESTART`, if there is one.
fn parse_restart(parser: &mut Parser<'_>) -> Result<Option<Expr>, ParserError> {
    let with = parser.parse_keyword(Keyword::WITH);
    let bare = !with && !matches!(parser.peek_token().token, Token::Number(..) | Token::Minus | Token::Plus);
    if bare { Ok(None) } else { parser.parse_prefix().map(Some) }
}

/// `SET RETENTION 'interval' ON column` and `DROP RETENTION`.
fn parse_retention(parser: &mut Parser<'_>) -> Result<Option<RetentionChange>, ParserError> {
    let start = parser.index();
    let sets = parser.parse_keyword(Keyword::SET);
    let is_word =
        |token: &Token| matches!(token, Token::Word(word) if word.value.eq_ignore_ascii_case("retention"));
    if (sets || parser.parse_keyword(Keyword::DROP)) && is_word(&parser.peek_token().token) {
        parser.next_token();
        if !sets {
            return Ok(Some(RetentionChange::Drop));
        }
        let keep = parser.parse_literal_string()?;
        parser.expect_keyword(Keyword::ON)?;
        return Ok(Some(RetentionChange::Keep(keep, parser.parse_identifier()?)));
    }
    rewind(parser, start);
    Ok(None)
}

/// Options in any order, to the end of the statement or of the parentheses around them.
fn parse_options(parser: &mut Parser<'_>) -> Result<Options, ParserError> {
    let mut options = Options::default();
    while !matches!(parser.peek_token().token, Token::EOF | Token::RParen) {
        if parser.parse_keyword(Keyword::AS) {
            options.data_type = Some(parser.parse_data_type()?);
        } else if parser.parse_keywords(&[Keyword::OWNED, Keyword::BY]) {
            options.owned_by = Some(parser.parse_object_name(false)?);
        } else if parser.parse_keyword(Keyword::RESTART) {
            options.restart = Some(parse_restart(parser)?);
        } else {
            options.settings.push(parse_setting(parser)?);
        }
    }
    Ok(options)
}

fn parse_setting(parser: &mut Parser<'_>) -> Result<SequenceOptions, ParserError> {
    if parser.parse_keyword(Keyword::INCREMENT) {
        let by = parser.parse_keyword(Keyword::BY);
        Ok(SequenceOptions::IncrementBy(parser.parse_prefix()?, by))
    } else if parser.parse_keyword(Keyword::MINVALUE) {
        Ok(SequenceOptions::MinValue(Some(parser.parse_prefix()?)))
    } else if parser.parse_keyword(Keyword::MAXVALUE) {
        Ok(SequenceOptions::MaxValue(Some(parser.parse_prefix()?)))
    } else if parser.parse_keyword(Keyword::START) {
        let with = parser.parse_keyword(Keyword::WITH);
        Ok(SequenceOptions::StartWith(parser.parse_prefix()?, with))
    } else if parser.parse_keyword(Keyword::CACHE) {
        Ok(SequenceOptions::Cache(parser.parse_prefix()?))
    } else if parser.parse_keyword(Keyword::CYCLE) {
        // The parser's flag says whether NO was written.
        Ok(SequenceOptions::Cycle(false))
    } else if parser.parse_keywords(&[Keyword::NO, Keyword::CYCLE]) {
        Ok(SequenceOptions::Cycle(true))
    } else if parser.parse_keywords(&[Keyword::NO, Keyword::MINVALUE]) {
        Ok(SequenceOptions::MinValue(None))
    } else if parser.parse_keywords(&[Keyword::NO, Keyword::MAXVALUE]) {
        Ok(SequenceOptions::MaxValue(None))
    } else {
        parser.expected("an option of a sequence", parser.peek_token())
    }
}

/// Runs the statement.
///
/// # Errors
/// 42P01 and 42809 for a name that is not there or of another kind, and what the change answers.
pub(crate) fn execute(
    context: &mut StatementContext<'_>,
    statement: &Extended,
) -> Result<StatementResult, SqlError> {
    match statement {
        Extended::CreateSequence { name, temporary, existing, options } => {
            if options.restart.is_some() {
                return Err(SqlError::syntax("CREATE SEQUENCE takes no RESTART").with_hint("Use START."));
            }
            let create = CreateSequence {
                name,
                temporary: *temporary,
                existing: *existing,
                data_type: options.data_type.as_ref(),
                options: &options.settings,
                owned_by: options.owned_by.as_ref(),
            };
            sequence::create(context, &create)
        }
        Extended::CreateBricks { create, bricks } => create_table::execute(context, create, Some(bricks)),
        Extended::CreateOnServer { create, server } => {
            tique::create_table(context, create, server, super::create_row_table)
        }
        Extended::Server(statement) => statement.execute(context, super::execute),
        Extended::Alter { kind, missing, name, change } => {
            let tag = StatementResult::plain(match kind {
                Kind::Table => "ALTER TABLE",
                Kind::View => "ALTER VIEW",
                Kind::Sequence => "ALTER SEQUENCE",
            });
            let (found, object) = match lookup::resolve(context, name)? {
                Some(found) => found,
                None if *missing == super::drop::Missing::Skip => return Ok(tag),
                None => return Err(lookup::unknown_relation(name)),
            };
            refuse_other_kind(*kind, &found, object)?;
            lookup::require_owner(context, &found, object)?;
            alter(context, &found, object, change)?;
            Ok(tag)
        }
        Extended::SchemaOwner { schema, owner } => {
            owners::of_schema(context, schema, owner)?;
            Ok(StatementResult::plain("ALTER SCHEMA"))
        }
        Extended::AlterType { name, change } => {
            match change {
                TypeChange::Owner(owner) => enum_types::set_owner(context, name, owner)?,
                TypeChange::Schema(schema) => enum_types::set_schema(context, name, schema)?,
            }
            Ok(StatementResult::plain("ALTER TYPE"))
        }
        Extended::Domain(statement) => domains::execute(context, statement),
        Extended::Role(statement) => roles::execute(context, statement),
        Extended::Comment(comment) => comment.execute(context),
    }
}

fn refuse_other_kind(kind: Kind, name: &QualifiedName, object: ObjectRef) -> Result<(), SqlError> {
    match (kind, object) {
        (Kind::Table, _) | (Kind::View, ObjectRef::View) | (Kind::Sequence, ObjectRef::Sequence(_)) => Ok(()),
        (Kind::View, _) => Err(lookup::wrong_kind(name, "view")),
        (Kind::Sequence, _) => Err(lookup::wrong_kind(name, "sequence")),
    }
}

fn alter(
    context: &mut StatementContext<'_>,
    name: &QualifiedName,
    object: ObjectRef,
    change: &Change,
) -> Result<(), SqlError> {
    match (change, object) {
        (Change::Rename(new), _) => rename::relation(context, name, object, new),
        (Change::Owner(owner), _) => owners::of_relation(context, name, object, owner),
        (Change::Schema(schema), _) => rename::set_schema(context, name, object, schema),
        (Change::Retention(change), _) => bricks::set_retention(context, name, change),
        (Change::Sequence(options), ObjectRef::Sequence(id)) => {
            let sequence = sequences::by_id(context, id)?;
            alter_sequence(context, &sequence, options)
        }
        (Change::Sequence(_), _) => Err(lookup::wrong_kind(name, "sequence")),
        (Change::Identity(new), ObjectRef::Table(id)) => {
            let def = Arc::clone(context.transaction.table_def(id)?);
            let added = alter_column::Added {
                column: &new.column,
                identity: new.identity,
                sequence: Some(&new.sequence),
                options: &new.options.settings,
            };
            alter_column::add_identity(context, &def, &added).map(|_| ())
        }
        (Change::ColumnSequence(change), ObjectRef::Table(id)) => {
            let def = Arc::clone(context.transaction.table_def(id)?);
            let sequence = identity_sequence(context, &def, &change.column)?;
            alter_sequence(context, &sequence, &change.options)
        }
        (Change::Layout(layout), ObjectRef::Table(id)) => match &layout.column {
            Some(column) => lookup::column(context.transaction.table_def(id)?, column).map(|_| ()),
            None => Ok(()),
        },
        (Change::Identity(_) | Change::ColumnSequence(_) | Change::Layout(_), _) => {
            Err(lookup::wrong_kind(name, "table"))
        }
    }
}

/// The sequence behind an identity column.
///
/// # Errors
/// `42703` for a column that is not there, `55000` for one that is no identity column.
fn identity_sequence(
    context: &StatementContext<'_>,
    def: &TableDef,
    column: &str,
) -> Result<Arc<SequenceDef>, SqlError> {
    let found = &def.columns[lookup::column(def, column)?];
    match found.sequence.filter(|_| found.identity.is_some()) {
        Some(sequence) => sequences::by_id(context, sequence),
        None => {
            let relation = &def.name.name;
            let message = format!("column \"{column}\" of relation \"{relation}\" is not an identity column");
            Err(SqlError::new(SqlState::ObjectNotInPrerequisiteState, message))
        }
    }
}

fn alter_sequence(
    context: &mut StatementContext<'_>,
    sequence: &SequenceDef,
    options: &Options,
) -> Result<(), SqlError> {
    let settings = sequence::SequenceSettings::read(&options.settings)?.typed(options.data_type.as_ref())?;
    let mut changed = settings.change(sequence.clone())?;
    if let Some(owner) = &options.owned_by {
        changed.owned_by = sequence::read_owner(context, sequence, owner)?;
    }
    let restart = match &options.restart {
        None => None,
        Some(None) => Some(changed.start),
        Some(Some(value)) => Some(sequence::number(value)?),
    };
    context.transaction.change_catalog(CatalogChange::PutSequence(changed.clone()))?;
    match restart {
        Some(value) => sequence_values::restart(context, &changed, value),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;

    fn parse(sql: &str) -> Option<Extended> {
        let mut parser = Parser::new(&PostgreSqlDialect {}).try_with_sql(sql).unwrap();
        let found = Extended::parse(&mut parser).unwrap();
        if found.is_none() {
            // Nothing was consumed: the parser's own statement is still whole.
            parser.parse_statement().unwrap();
        }
        found
    }

    #[test]
    fn only_what_the_parser_does_not_know_is_taken() {
        assert!(parse("ALTER TABLE t ADD COLUMN a int").is_none());
        assert!(parse("CREATE TABLE t (a int)").is_none());
        assert!(parse("ALTER TABLE t ALTER COLUMN a SET DEFAULT 1").is_none());
        assert!(parse("ALTER TABLE t ALTER a SET NOT NULL, ALTER a DROP DEFAULT").is_none());
        assert!(matches!(
            parse("ALTER TABLE t ALTER COLUMN a SET INCREMENT BY 2 SET NO CYCLE RESTART WITH 5"),
            Some(Extended::Alter { change: Change::ColumnSequence(_), .. })
        ));
        assert!(matches!(parse("ALTER TABLE IF EXISTS t SET SCHEMA s"), Some(Extended::Alter { .. })));
        assert!(matches!(parse("ALTER VIEW v RENAME TO w"), Some(Extended::Alter { kind: Kind::View, .. })));
        assert!(matches!(
            parse("ALTER SEQUENCE s RESTART WITH 5 INCREMENT BY -1 NO CYCLE OWNED BY NONE"),
            Some(Extended::Alter { change: Change::Sequence(_), .. })
        ));
        assert!(matches!(
            parse("CREATE SEQUENCE IF NOT EXISTS s START 3 CACHE 10 INCREMENT 2 MAXVALUE 9 CYCLE"),
            Some(Extended::CreateSequence { .. })
        ));
    }
}
