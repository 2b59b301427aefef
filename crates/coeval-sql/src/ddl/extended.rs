// SPDX-License-Identifier: Apache-2.0
//! DDL of PostgreSQL that the parser does not know: ALTER SEQUENCE, SET SCHEMA, renaming views and sequences,
//! and CREATE SEQUENCE with its options in any order.

use super::alter_constraint::{self, ConstraintChange};
use super::alter_default_privileges::AlterDefaultPrivileges;
use super::alter_view::{self, ViewChange};
use super::bricks::{self, RetentionChange};
use super::comment::ConstraintComment;
use super::domains::{self, DomainStatement};
use super::existence::Existing;
use super::identity_column::{self, IdentityChange};
use super::layout::{self, Layout};
use super::role_syntax::{RoleName, RoleStatement, role_name};
use super::schema_elements::SchemaElements;
use super::sequence::{self, CreateSequence};
use super::sequence_options::{self, Options};
use super::session_defaults::AlterSessionDefaults;
use super::temporary::Said;
use super::{create_table, enum_types, lookup, owners, rename, roles};
use crate::context::StatementContext;
use crate::error::SqlError;
use crate::names::fold;
use crate::parse::{BrickClause, rewind};
use crate::result::StatementResult;
use crate::sequences;
use crate::tique::{self, ServerStatement};
use coeval_store::{ObjectRef, QualifiedName};
use datafusion::sql::sqlparser::ast::{CreateTable, ObjectName};
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
        missing: super::existence::Missing,
        /// Its name.
        name: ObjectName,
        /// What changes.
        change: Change,
    },
    /// `CREATE SCHEMA` with what is made in it.
    Schema(Box<SchemaElements>),
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
    /// `ALTER DEFAULT PRIVILEGES`.
    DefaultPrivileges(Box<AlterDefaultPrivileges>),
    /// `ALTER ROLE ... SET`, `ALTER DATABASE ... SET`.
    SessionDefaults(Box<AlterSessionDefaults>),
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
    /// What is generated for a column, and how.
    Identity(Box<IdentityChange>),
    /// How rows are laid out, which changes nothing.
    Layout(Layout),
    /// When a constraint is checked.
    Constraint(Box<ConstraintChange>),
    /// What a view alone has.
    View(Box<ViewChange>),
}

impl Extended {
    /// The statement at the parser's place, if it is one of these; else the parser is where it was.
    ///
    /// # Errors
    /// A syntax error behind the words that only these statements start with.
    pub(crate) fn parse(parser: &mut Parser<'_>) -> Result<Option<Self>, ParserError> {
        if let Some(statement) = AlterDefaultPrivileges::parse(parser)? {
            return Ok(Some(Self::DefaultPrivileges(Box::new(statement))));
        }
        if let Some(statement) = AlterSessionDefaults::parse(parser)? {
            return Ok(Some(Self::SessionDefaults(Box::new(statement))));
        }
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
                    options: Box::new(sequence_options::parse(parser)?),
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
        use super::existence::Missing;
        let skip = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
        let missing = if skip { Missing::Skip } else { Missing::Refuse };
        let _ = parser.parse_keyword(Keyword::ONLY);
        let name = parser.parse_object_name(false)?;
        let change = if parser.parse_keywords(&[Keyword::SET, Keyword::SCHEMA]) {
            Change::Schema(fold(&parser.parse_identifier()?))
        } else if parser.parse_keywords(&[Keyword::OWNER, Keyword::TO]) {
            Change::Owner(role_name(parser)?)
        } else if kind == Kind::View
            && let Some(changed) = alter_view::parse(parser)?
        {
            Change::View(Box::new(changed))
        } else if kind == Kind::Table
            && let Some(changed) = alter_constraint::parse(parser)?
        {
            Change::Constraint(Box::new(changed))
        } else if let Some(changed) = identity_column::parse(parser)? {
            Change::Identity(Box::new(changed))
        } else if kind == Kind::Table
            && let Some(layout) = layout::parse(parser)?
        {
            Change::Layout(layout)
        } else if let Some(retention) = parse_retention(parser)? {
            Change::Retention(retention)
        } else if kind != Kind::Table && parser.parse_keywords(&[Keyword::RENAME, Keyword::TO]) {
            Change::Rename(parser.parse_object_name(false)?)
        } else if kind == Kind::Sequence {
            Change::Sequence(Box::new(sequence_options::parse(parser)?))
        } else {
            return Ok(None);
        };
        Ok(Some(Self::Alter { kind, missing, name, change }))
    }
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
                None if *missing == super::existence::Missing::Skip => return Ok(tag),
                None => return Err(lookup::unknown_relation(name)),
            };
            refuse_other_kind(*kind, &found, object)?;
            lookup::require_owner(context, &found, object)?;
            alter(context, &found, object, change)?;
            Ok(tag)
        }
        Extended::Schema(schema) => schema.execute(context),
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
        Extended::DefaultPrivileges(statement) => statement.execute(context),
        Extended::SessionDefaults(statement) => statement.execute(context),
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
            sequence_options::alter(context, &sequence, options)
        }
        (Change::Sequence(_), _) => Err(lookup::wrong_kind(name, "sequence")),
        (Change::Identity(change), ObjectRef::Table(id)) => {
            let def = Arc::clone(context.transaction.table_def(id)?);
            identity_column::execute(context, &def, change)
        }
        (Change::Layout(layout), ObjectRef::Table(id)) => match &layout.column {
            Some(column) => lookup::column(context.transaction.table_def(id)?, column).map(|_| ()),
            None => Ok(()),
        },
        (Change::Constraint(change), ObjectRef::Table(id)) => {
            let def = Arc::clone(context.transaction.table_def(id)?);
            alter_constraint::execute(context, &def, change)
        }
        (Change::View(change), _) => alter_view::execute(context, name, change),
        (Change::Identity(_) | Change::Constraint(_) | Change::Layout(_), _) => {
            Err(lookup::wrong_kind(name, "table"))
        }
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
            Some(Extended::Alter { change: Change::Identity(_), .. })
        ));
        assert!(matches!(
            parse("ALTER TABLE t ALTER a DROP IDENTITY IF EXISTS"),
            Some(Extended::Alter { change: Change::Identity(_), .. })
        ));
        assert!(parse("ALTER TABLE t ALTER a ADD GENERATED ALWAYS AS IDENTITY").is_none());
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
