// SPDX-License-Identifier: Apache-2.0
//! Definitions of servers and of their tables.
//!
//! A table's definition here is part of the transaction; the table on the server is made at once, and removed once the
//! definition's removal has committed. What a rollback or a crash between the two leaves is an empty table that nobody
//! knows, which CREATE TABLE of its name takes over.

use super::bound::is_harmless;
use crate::context::StatementContext;
use crate::dml;
use crate::error::{SqlError, SqlState};
use crate::foreign::{foreign_tables, is_of, is_server};
use crate::names;
use crate::parse::{rewind, take_word};
use crate::result::StatementResult;
use crate::rights::{Object, insufficient};
use crate::servers::engines::{check, driver};
use crate::servers::{DECISIONS, SCHEMA, SERVERS, text, unknown_server};
use crate::walk::any_expression;
use coeval_store::{CatalogChange, ForeignDef, ObjectAccess, Privilege, QualifiedName};
use datafusion::sql::sqlparser::ast::{
    ColumnOption, ColumnOptionDef, CreateTable, CreateTableOptions, DataType, Expr, Ident, ObjectName,
    SqlOption, Statement, TableConstraint,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Runs a definition of an object of the database itself; `None` if the statement is none. Handed in by the code that runs
/// definitions.
pub(crate) type Define =
    fn(&mut StatementContext<'_>, &Statement) -> Result<Option<StatementResult>, SqlError>;

/// CREATE TABLE of a table whose rows are here. Handed in likewise.
pub(crate) type MakeTable = fn(&mut StatementContext<'_>, &CreateTable) -> Result<StatementResult, SqlError>;

/// A statement about servers.
#[derive(Clone, Debug)]
pub(crate) enum ServerStatement {
    /// `CREATE SERVER [IF NOT EXISTS] name ENGINE engine [OPTIONS (key 'value', ...)]`.
    Create {
        /// Its name.
        name: String,
        /// Whether one that is there is left as it is.
        keeps_existing: bool,
        /// Its engine.
        engine: String,
        /// The engine's options.
        options: BTreeMap<String, String>,
    },
    /// `DROP SERVER [IF EXISTS] name`.
    Drop {
        /// Its name.
        name: String,
        /// Whether it need not be there.
        skips_missing: bool,
    },
}

impl ServerStatement {
    /// The statement at the parser's place, if it is one of these; else the parser is where it was.
    ///
    /// # Errors
    /// A syntax error behind the words that only these statements start with.
    pub(crate) fn parse(parser: &mut Parser<'_>) -> Result<Option<Self>, ParserError> {
        let start = parser.index();
        let creates = parser.parse_keyword(Keyword::CREATE);
        if (creates || parser.parse_keyword(Keyword::DROP)) && take_word(parser, "server") {
            return if creates { Self::parse_create(parser) } else { Self::parse_drop(parser) }.map(Some);
        }
        rewind(parser, start);
        Ok(None)
    }

    fn parse_create(parser: &mut Parser<'_>) -> Result<Self, ParserError> {
        let keeps_existing = parser.parse_keywords(&[Keyword::IF, Keyword::NOT, Keyword::EXISTS]);
        let name = names::fold(&parser.parse_identifier()?);
        if !take_word(parser, "engine") {
            return parser.expected("ENGINE and its name", parser.peek_token());
        }
        let engine = names::fold(&parser.parse_identifier()?);
        let mut options = BTreeMap::new();
        if take_word(parser, "options") {
            parser.expect_token(&Token::LParen)?;
            loop {
                let key = names::fold(&parser.parse_identifier()?);
                options.insert(key, parser.parse_literal_string()?);
                if !parser.consume_token(&Token::Comma) {
                    break;
                }
            }
            parser.expect_token(&Token::RParen)?;
        }
        Ok(Self::Create { name, keeps_existing, engine, options })
    }

    fn parse_drop(parser: &mut Parser<'_>) -> Result<Self, ParserError> {
        let skips_missing = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
        Ok(Self::Drop { name: names::fold(&parser.parse_identifier()?), skips_missing })
    }

    /// Runs the statement.
    ///
    /// # Errors
    /// `42501` if the role is no superuser; `42710`, `42704`, `2BP01`, `22023`; `HV000` if the engine cannot be opened.
    pub(crate) fn execute(
        &self,
        context: &mut StatementContext<'_>,
        define: Define,
    ) -> Result<StatementResult, SqlError> {
        if !context.rights().is_superuser() {
            return Err(insufficient("must be superuser to create or drop a server"));
        }
        make_tables(context, define)?;
        match self {
            Self::Create { name, keeps_existing, engine, options } => {
                if is_server(context, name)? {
                    let message = format!("server \"{name}\" already exists");
                    if !keeps_existing {
                        return Err(SqlError::new(SqlState::DuplicateObject, message));
                    }
                    context.notice(SqlState::DuplicateObject, message);
                    return Ok(StatementResult::plain("CREATE SERVER"));
                }
                // Opened once, so that a driver that is not there is told now.
                check(engine, options)?;
                drop(driver(engine, options)?);
                let options = serde_json::to_string(options)
                    .map_err(|error| SqlError::internal(format!("the options of a server: {error}")))?;
                let (name, engine, options) = (text(name), text(engine), text(&options));
                change(
                    context,
                    &format!("INSERT INTO {SCHEMA}.{SERVERS} VALUES ({name}, {engine}, {options})"),
                )?;
                context.engine.servers().note();
                Ok(StatementResult::plain("CREATE SERVER"))
            }
            Self::Drop { name, skips_missing } => {
                if !is_server(context, name)? && !skips_missing {
                    return Err(unknown_server(name));
                }
                if let Some(def) = foreign_tables(context).into_iter().find(|def| is_of(def, name, None)) {
                    let message = format!("cannot drop server {name} because other objects depend on it");
                    return Err(SqlError::new(SqlState::DependentObjectsStillExist, message)
                        .with_detail(format!("table {} depends on server {name}", def.name.name)));
                }
                change(context, &format!("DELETE FROM {SCHEMA}.{SERVERS} WHERE name = {}", text(name)))?;
                change(context, &format!("DELETE FROM {SCHEMA}.{DECISIONS} WHERE server = {}", text(name)))?;
                context
                    .transaction
                    .change_catalog(CatalogChange::PutServerAccess(name.clone(), ObjectAccess::default()))?;
                context.engine.servers().forget(name);
                Ok(StatementResult::plain("DROP SERVER"))
            }
        }
    }
}

/// Statements that we wrote.
fn parsed(sql: &str) -> Result<Vec<Statement>, SqlError> {
    let parsed = Parser::parse_sql(&PostgreSqlDialect {}, sql);
    parsed.map_err(|error| SqlError::internal(format!("{sql}: {error}")))
}

/// Changes the rows of one of our own tables.
fn change(context: &mut StatementContext<'_>, sql: &str) -> Result<(), SqlError> {
    for statement in &parsed(sql)? {
        dml::refuse_read_only(context, statement)?;
        dml::execute(context, statement)?;
    }
    Ok(())
}

/// The tables that say which servers there are. They are ordinary ones.
fn make_tables(context: &mut StatementContext<'_>, define: Define) -> Result<(), SqlError> {
    if context.transaction.catalog().has_schema(SCHEMA) {
        return Ok(());
    }
    let sql = format!(
        "CREATE SCHEMA {SCHEMA}; \
         CREATE TABLE {SCHEMA}.{SERVERS} (name text PRIMARY KEY, engine text NOT NULL, options text NOT NULL); \
         CREATE TABLE {SCHEMA}.{DECISIONS} (server text, transaction bigint, stamp bigint NOT NULL, \
         PRIMARY KEY (server, transaction))"
    );
    for statement in &parsed(&sql)? {
        define(context, statement)?;
    }
    Ok(())
}

/// CREATE TABLE on a server. Columns and primary key are the definition here; everything else is the server's.
///
/// # Errors
/// As CREATE TABLE; `42501` without USAGE on the server; what the server says.
pub(crate) fn create_table(
    context: &mut StatementContext<'_>,
    create: &CreateTable,
    server: &str,
    make: MakeTable,
) -> Result<StatementResult, SqlError> {
    context.rights().require(Object::Server(server), Privilege::Usage)?;
    let name = names::creation_name(&create.name, context.settings, context.transaction)?;
    let is_new = context.transaction.catalog().resolve(&name).is_none();
    if create.query.is_some() {
        return Err(SqlError::unsupported("CREATE TABLE AS on a server")
            .with_hint("Create the table, then INSERT INTO it what the query gives."));
    }
    if let Some(column) = create.columns.iter().find(|column| matches!(column.data_type, DataType::Array(_)))
    {
        let what = format!("an array (column \"{}\") in a table on a server", column.name.value);
        return Err(SqlError::unsupported(what).with_hint("Keep its elements in rows of another table."));
    }
    if let Some(column) = create.columns.iter().find(|column| column.options.iter().any(draws_numbers)) {
        let what =
            format!("a default with a sequence (column \"{}\") in a table on a server", column.name.value);
        return Err(SqlError::unsupported(what).with_hint("Let INSERT give the number."));
    }
    let result = make(context, &local(create))?;
    if !is_new {
        return Ok(result);
    }
    let table = match name.schema.as_str() {
        coeval_store::DEFAULT_SCHEMA => name.name.clone(),
        schema => format!("{schema}__{}", name.name),
    };
    let taken = foreign_tables(context).into_iter().find(|def| is_of(def, server, Some(&table)));
    if let Some(def) = taken {
        let message = format!("server {server} has {table} already, for table {}", def.name.name);
        return Err(SqlError::new(SqlState::DuplicateTable, message));
    }
    let mut remote = Statement::CreateTable(remote(context, create, server, &table)?);
    let opened = context.engine.servers().get(context.engine, server)?;
    if !is_harmless(&mut remote, &opened.kind) {
        return Err(SqlError::unsupported("such a default or CHECK of a table on a server").with_hint(
            "Expressions there may call functions that look at nothing but their arguments, and have no queries.",
        ));
    }
    put_foreign(context, &name, ForeignDef { server: server.to_owned(), table: table.clone() })?;
    let engine = Arc::clone(context.engine);
    let outcome = context.tique.lock().define(&engine, context.settings, server, remote.clone());
    match outcome {
        Err(error) if error.state == SqlState::DuplicateTable => {
            take_over(context, server, &table, error)?;
            context.tique.lock().define(&engine, context.settings, server, remote)?;
        }
        outcome => outcome?,
    }
    Ok(result)
}

/// Whether a column's default asks a sequence: sequences are ours, and defaults the server's.
fn draws_numbers(option: &ColumnOptionDef) -> bool {
    let ColumnOption::Default(value) = &option.option else { return false };
    any_expression(value, |expr| match expr {
        Expr::Function(function) => {
            names::split_name(&function.name).is_ok_and(|(_, name)| name == "nextval")
        }
        _ => false,
    })
}

/// Removes a table of the server that nobody knows, if it is empty.
fn take_over(
    context: &mut StatementContext<'_>,
    server: &str,
    table: &str,
    error: SqlError,
) -> Result<(), SqlError> {
    let quoted = format!("\"{}\"", table.replace('"', "\"\""));
    let opened = context.engine.servers().get(context.engine, server)?;
    let mut session = opened.database.session()?;
    let found = match session.execute(&format!("SELECT 1 FROM {quoted} LIMIT 1")) {
        // What is there is the engine's own.
        Err(missing) if missing.state.code() == "42P01" => return Err(error),
        found => found?.pop(),
    };
    if found.and_then(|outcome| outcome.rows).is_some_and(|rows| rows.count() > 0) {
        let detail = format!("Server {server} has a table {table} with rows that no definition here names.");
        return Err(error.with_detail(detail).with_hint("Choose another name."));
    }
    session.execute(&format!("DROP TABLE IF EXISTS {quoted}"))?;
    Ok(())
}

fn put_foreign(
    context: &mut StatementContext<'_>,
    name: &QualifiedName,
    foreign: ForeignDef,
) -> Result<(), SqlError> {
    let def = context.transaction.resolve_table(name);
    let def = def.ok_or_else(|| SqlError::internal("a table that was made is not there"))?;
    let mut def = (*def).clone();
    def.foreign = Some(foreign);
    context.transaction.change_catalog(CatalogChange::PutTable(Box::new(def)))?;
    Ok(())
}

/// What of a CREATE TABLE is the definition here.
fn local(create: &CreateTable) -> CreateTable {
    let mut local = create.clone();
    local.table_options = CreateTableOptions::None;
    local.constraints.retain(|constraint| matches!(constraint, TableConstraint::PrimaryKey(_)));
    for column in &mut local.columns {
        column.options.retain(|option| {
            matches!(option.option, ColumnOption::Null | ColumnOption::NotNull | ColumnOption::PrimaryKey(_))
        });
    }
    local
}

/// The CREATE TABLE as the server gets it: under its name there, with the options that are TiQuE's.
fn remote(
    context: &StatementContext<'_>,
    create: &CreateTable,
    server: &str,
    table: &str,
) -> Result<CreateTable, SqlError> {
    let mut remote = create.clone();
    remote.name = named(table);
    remote.if_not_exists = false;
    if let CreateTableOptions::With(options) = &mut remote.table_options {
        options.retain(|option| match option {
            SqlOption::KeyValue { key, .. } => ["key", "tique"].contains(&names::fold(key).as_str()),
            _ => false,
        });
    }
    let parent = |name: &mut ObjectName| -> Result<(), SqlError> {
        let own = names::creation_name(&create.name, context.settings, context.transaction)?;
        let found = names::existing_name(name, context.settings, context.transaction)?;
        if found.as_ref() == Some(&own) {
            *name = named(table);
            return Ok(());
        }
        let def = names::table(name, context.settings, context.transaction)?;
        context.rights().require(Object::Table(&def), Privilege::References)?;
        match &def.foreign {
            Some(foreign) if foreign.server == server => {
                *name = named(&foreign.table);
                Ok(())
            }
            _ => Err(SqlError::unsupported(format!("a foreign key to table {name}, which is elsewhere,"))),
        }
    };
    for constraint in &mut remote.constraints {
        if let TableConstraint::ForeignKey(key) = constraint {
            parent(&mut key.foreign_table)?;
        }
    }
    for option in remote.columns.iter_mut().flat_map(|column| &mut column.options) {
        if let ColumnOption::ForeignKey(key) = &mut option.option {
            parent(&mut key.foreign_table)?;
        }
    }
    Ok(remote)
}

/// A name as the server has it.
pub(super) fn named(table: &str) -> ObjectName {
    ObjectName::from(vec![Ident::with_quote('"', table)])
}
