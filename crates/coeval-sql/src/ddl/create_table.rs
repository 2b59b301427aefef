// SPDX-License-Identifier: Apache-2.0
//! CREATE TABLE and CREATE TABLE AS.

use super::bricks;
use super::columns::{self, DeclaredColumn, Place};
use super::constraints::{self, DeclaredKey};
use super::default_privileges::access_of_new;
use super::like_columns::Like;
use super::temporary::{self, Lasting};
use super::{expressions, generated_columns, index, lookup, naming, storage_parameters};
use crate::catalog::defined_column;
use crate::context::StatementContext;
use crate::error::{SqlError, SqlState};
use crate::parse::{BrickClause, UNTYPED};
use crate::result::{CommandTag, StatementResult};
use crate::stored::ROW_ID_COLUMN;
use crate::temporary::OnCommit;
use crate::types;
use crate::values;
use arrow::datatypes::Field;
use coeval_store::{
    BrickDef, CatalogChange, ColumnDef, ColumnState, ColumnType, NewObjects, Privilege, QualifiedName,
    SequenceDef, SpaceId, TableDef,
};
use datafusion::sql::sqlparser::ast::helpers::stmt_create_table::CreateTableBuilder;
use datafusion::sql::sqlparser::ast::{
    CreateTable, CreateTableLikeKind, CreateTableOptions, DataType, Query, SqlOption, Statement,
    TableConstraint,
};
use std::sync::Arc;

/// CREATE TABLE.
///
/// # Errors
/// 42P07 if the name is taken, 42701 for a column named twice, 42P16 for two primary keys, and what columns
/// and constraints can answer.
pub(super) fn execute(
    context: &mut StatementContext<'_>,
    create: &CreateTable,
    bricks: Option<&BrickClause>,
) -> Result<StatementResult, SqlError> {
    refuse_unsupported(create)?;
    let parameters = storage_parameters_of(create);
    let replicas = match bricks {
        None => storage_parameters::of_table(parameters).map(|()| None)?,
        Some(_) => bricks::replicas(context, parameters)?,
    };
    let lasting = Lasting::of(&create.name, create.temporary.into())?;
    let on_commit = temporary::on_commit(create, lasting)?;
    if bricks.is_some() && lasting == Lasting::Session {
        return Err(SqlError::unsupported("a temporary brick table").with_hint("Leave out USING brick."));
    }
    let name = temporary::target(context, &create.name, lasting)?;
    if create.if_not_exists && context.transaction.catalog().resolve(&name).is_some() {
        lookup::note_existing(context, &name.name);
        return Ok(StatementResult::plain("CREATE TABLE"));
    }
    lookup::require_create(context, &name.schema)?;
    lookup::refuse_taken(context, &name)?;
    lookup::refuse_type_name(context, &name)?;
    if let Some(query) = &create.query {
        if bricks.is_some() {
            return Err(SqlError::unsupported("CREATE TABLE AS of a brick table")
                .with_hint("Create the table, then INSERT INTO it what the query gives."));
        }
        return create_as(context, name, create, (query, on_commit));
    }
    let mut draft = Draft::new(context, name);
    let mut likes = Vec::new();
    if let Some(CreateTableLikeKind::Parenthesized(like)) = &create.like {
        likes.push(add_like(context, &mut draft, Like::of_clause(like))?);
    }
    for column in &create.columns {
        if let Some(like) = Like::of_column(column) {
            likes.push(add_like(context, &mut draft, like)?);
            continue;
        }
        let place = Place { table: draft.id, name: &draft.name, index: draft.columns.len() };
        let declared = columns::declare(context, &place, column)?;
        draft.add(declared)?;
    }
    draft.constraints.extend(create.constraints.iter().cloned());
    let mut finished = match bricks {
        None => draft.finish(context)?,
        Some(clause) => draft.finish_in_bricks(context, clause, replicas)?,
    };
    likes.iter().for_each(|(like, source)| like.note_comments(source, &mut finished.def));
    let relation = super::validate::relation(&finished.def);
    note_on_commit(context, &finished, on_commit);
    finished.put(context)?;
    for definition in likes.iter().flat_map(|(like, source)| like.indexes(source, &relation)) {
        create_index(context, &definition)?;
    }
    Ok(StatementResult::plain("CREATE TABLE"))
}

/// Takes along what a LIKE clause says of another table.
///
/// # Errors
/// As the table's name has it; `42501` without SELECT on the table; as [`Like::column`].
fn add_like(
    context: &StatementContext<'_>,
    draft: &mut Draft,
    like: Like,
) -> Result<(Like, Arc<TableDef>), SqlError> {
    let source = lookup::table_with(context, &like.name, Privilege::Select)?;
    for (_, column) in source.live_columns() {
        let place = Place { table: draft.id, name: &draft.name, index: draft.columns.len() };
        let declared = like.column(context, &place, column)?;
        draft.add(declared)?;
    }
    draft.constraints.extend(like.constraints(&source)?);
    Ok((like, source))
}

/// CREATE INDEX that we wrote.
fn create_index(context: &mut StatementContext<'_>, definition: &str) -> Result<(), SqlError> {
    match crate::parse::parse_known(definition)?.as_slice() {
        [Statement::CreateIndex(create)] => index::create(context, create).map(|_| ()),
        _ => Err(SqlError::internal(format!("{definition} is no index"))),
    }
}

fn note_on_commit(context: &StatementContext<'_>, finished: &Finished, action: Option<OnCommit>) {
    if let Some(action) = action {
        context.settings.temporary().note_on_commit(context.transaction, finished.def.id, action);
    }
}

/// Refuses every clause of other dialects and of PostgreSQL that has no meaning here.
fn refuse_unsupported(create: &CreateTable) -> Result<(), SqlError> {
    let named = [
        ("table inheritance", create.inherits.is_some()),
        ("table partition", create.partition_of.is_some() || create.partition_by.is_some()),
        ("CREATE TABLE LIKE without parentheses", matches!(create.like, Some(CreateTableLikeKind::Plain(_)))),
        ("CREATE OR REPLACE TABLE", create.or_replace),
        ("EXTERNAL table", create.external),
    ];
    if let Some((clause, _)) = named.iter().find(|(_, given)| *given) {
        return Err(SqlError::unsupported(clause));
    }
    let understood = CreateTableBuilder::new(create.name.clone())
        .if_not_exists(create.if_not_exists)
        .temporary(create.temporary)
        .global(create.global)
        .on_commit(create.on_commit)
        .columns(create.columns.clone())
        .like(create.like.clone())
        .constraints(create.constraints.clone())
        .query(create.query.clone())
        .hive_distribution(create.hive_distribution.clone())
        .hive_formats(create.hive_formats.clone())
        .table_options(create.table_options.clone())
        .build();
    let hive = create.hive_formats.as_ref().is_some_and(|formats| *formats != Default::default());
    if understood != *create || hive {
        return Err(SqlError::unsupported("a clause behind the columns of CREATE TABLE"));
    }
    match &create.table_options {
        CreateTableOptions::None | CreateTableOptions::With(_) => Ok(()),
        _ => Err(SqlError::unsupported("a table option in this dialect")),
    }
}

/// What stands in `WITH (...)`.
fn storage_parameters_of(create: &CreateTable) -> &[SqlOption] {
    match &create.table_options {
        CreateTableOptions::With(options) => options,
        _ => &[],
    }
}

/// A table that is being put together.
struct Draft {
    id: SpaceId,
    name: QualifiedName,
    columns: Vec<ColumnDef>,
    sequences: Vec<SequenceDef>,
    constraints: Vec<TableConstraint>,
}

/// A table and the sequences that feed it, ready for the catalog.
struct Finished {
    def: TableDef,
    sequences: Vec<SequenceDef>,
}

impl Draft {
    fn new(context: &StatementContext<'_>, name: QualifiedName) -> Self {
        Self {
            id: context.engine.store().new_space_id(),
            name,
            columns: Vec::new(),
            sequences: Vec::new(),
            constraints: Vec::new(),
        }
    }

    fn add(&mut self, declared: DeclaredColumn) -> Result<(), SqlError> {
        let name = &declared.column.name;
        columns::refuse_too_many(self.columns.len())?;
        refuse_reserved_column(name)?;
        if self.columns.iter().any(|column| column.name == *name) {
            let message = format!("column \"{name}\" specified more than once");
            return Err(SqlError::new(SqlState::DuplicateColumn, message));
        }
        self.columns.push(declared.column);
        self.sequences.extend(declared.sequence);
        self.constraints.extend(declared.constraints);
        Ok(())
    }

    fn primary_key(&self) -> Result<Option<DeclaredKey>, SqlError> {
        let mut found = None;
        for constraint in &self.constraints {
            if let TableConstraint::PrimaryKey(key) = constraint
                && found.replace(constraints::primary_key(&self.columns, key)?).is_some()
            {
                let message =
                    format!("multiple primary keys for table \"{}\" are not allowed", self.name.name);
                return Err(SqlError::new(SqlState::InvalidTableDefinition, message));
            }
        }
        Ok(found)
    }

    /// The definition, with a hidden row id if no primary key was declared.
    fn finish(mut self, context: &StatementContext<'_>) -> Result<Finished, SqlError> {
        let key = match self.primary_key()? {
            Some(key) => key,
            None => {
                let place = Place { table: self.id, name: &self.name, index: self.columns.len() };
                let (column, sequence) = columns::row_id(context, &place)?;
                self.columns.push(column);
                self.sequences.push(sequence);
                DeclaredKey { name: None, columns: vec![self.columns.len() - 1] }
            }
        };
        let schema = self.name.schema.clone();
        let table = self.name.name.clone();
        let mut def = TableDef::new(self.id, self.name, self.columns, key.columns);
        def.access = access_of_new(context, NewObjects::Tables, Some(&def.name.schema));
        let catalog = context.transaction.catalog();
        def.primary_key_name = key.name.unwrap_or_else(|| {
            naming::choose(&table, &[], "pkey", |name| naming::is_relation(catalog, &schema, name))
        });
        for constraint in &self.constraints {
            if !matches!(constraint, TableConstraint::PrimaryKey(_)) {
                constraints::add(context, &mut def, constraint)?;
            }
        }
        Ok(Finished { def, sequences: self.sequences })
    }
}

impl Draft {
    /// The definition of a brick table, of which each brick is on so many nodes of a cluster, or here. Its hidden row id stands for the key that all tables have, and is in no row.
    fn finish_in_bricks(
        mut self,
        context: &StatementContext<'_>,
        clause: &BrickClause,
        replicas: Option<u32>,
    ) -> Result<Finished, SqlError> {
        let zone = context.settings.zone();
        if self.columns.iter().any(|column| column.generated.is_some()) {
            return Err(SqlError::unsupported("a generated column of a brick table")
                .with_hint("Compute it in the query that loads the rows, or in a view."));
        }
        // What is appended is kept as it came, all six digits.
        self.columns.iter_mut().for_each(|column| column.second_digits = None);
        let layout = bricks::layout(clause, &mut self.columns, &self.constraints, zone)?;
        let mut hidden = ColumnDef::new(ROW_ID_COLUMN, ColumnType::BigInt);
        hidden.state = ColumnState::Hidden;
        self.columns.push(hidden);
        let key = vec![self.columns.len() - 1];
        let mut def = TableDef::new(self.id, self.name, self.columns, key);
        def.columns.last_mut().expect("the row id was pushed").not_null = false;
        def.access = access_of_new(context, NewObjects::Tables, Some(&def.name.schema));
        def.bricks = Some(BrickDef { replicas, ..layout });
        Ok(Finished { def, sequences: self.sequences })
    }
}

/// Names that every table of PostgreSQL has columns of.
const SYSTEM_COLUMNS: [&str; 6] = ["tableoid", "ctid", "xmin", "xmax", "cmin", "cmax"];

/// Refuses the names of system columns and of the hidden row id for a column of the user's.
///
/// # Errors
/// `42701`, `42602`.
pub(super) fn refuse_reserved_column(name: &str) -> Result<(), SqlError> {
    if SYSTEM_COLUMNS.contains(&name) {
        let message = format!("column name \"{name}\" conflicts with a system column name");
        return Err(SqlError::new(SqlState::DuplicateColumn, message));
    }
    if name == ROW_ID_COLUMN {
        let message = format!("column name \"{name}\" is reserved");
        return Err(SqlError::new(SqlState::InvalidName, message));
    }
    Ok(())
}

impl Finished {
    fn put(self, context: &mut StatementContext<'_>) -> Result<(), SqlError> {
        for sequence in self.sequences {
            context.transaction.change_catalog(CatalogChange::PutSequence(sequence))?;
        }
        let def = self.def;
        generated_columns::validate(context, &def)?;
        context.transaction.change_catalog(CatalogChange::PutTable(Box::new(def.clone())))?;
        for (_, column) in def.live_columns() {
            if let Some(default) = &column.default {
                values::validate_default(context, column, &expressions::parse(default)?)?;
            }
        }
        for check in &def.checks {
            super::validate::validate_check(context, &def, check)?;
        }
        Ok(())
    }
}

/// CREATE TABLE AS: the query's columns, nullable and without constraints, and its rows.
fn create_as(
    context: &mut StatementContext<'_>,
    name: QualifiedName,
    create: &CreateTable,
    (query, on_commit): (&Query, Option<OnCommit>),
) -> Result<StatementResult, SqlError> {
    if !create.constraints.is_empty() || create.columns.iter().any(|column| !column.options.is_empty()) {
        return Err(SqlError::unsupported("constraint in CREATE TABLE AS"));
    }
    if let Some(typed) = create.columns.iter().find(|column| !is_untyped(&column.data_type)) {
        let message =
            format!("column \"{}\" of CREATE TABLE AS takes its type from the query", typed.name.value);
        return Err(SqlError::syntax(message).with_hint("Cast the query's columns."));
    }
    let rows = crate::query::collect(context, query)?;
    let given = create.columns.iter().map(|column| lookup::fold(&column.name));
    let own = rows.schema.fields().iter().map(|field| field.name().clone());
    let named: Vec<String> = given.clone().chain(own.skip(create.columns.len())).collect();
    if create.columns.len() > rows.schema.fields().len() {
        return Err(SqlError::syntax("too many column names were specified"));
    }
    let mut draft = Draft::new(context, name);
    for (field, name) in rows.schema.fields().iter().zip(named) {
        let column = column_of(context, field, name)?;
        draft.add(DeclaredColumn { column, sequence: None, constraints: Vec::new() })?;
    }
    let finished = draft.finish(context)?;
    note_on_commit(context, &finished, on_commit);
    let def = finished.def.clone();
    let columns: Vec<usize> = def.live_columns().map(|(index, _)| index).collect();
    finished.put(context)?;
    let count = crate::copy::load::append(context, &def, &columns, &rows.batches)?;
    Ok(StatementResult::tagged(CommandTag::Select(count)))
}

/// Whether a column was declared without a type.
fn is_untyped(data_type: &DataType) -> bool {
    let DataType::Custom(name, _) = data_type else { return false };
    lookup::split_name(name).is_ok_and(|(schema, name)| schema.is_none() && name == UNTYPED)
}

/// The column for an output of a query: of its type; where the output is a column of a table, with the domain and the digits of seconds
/// that the table declares, too.
fn column_of(context: &StatementContext<'_>, output: &Field, name: String) -> Result<ColumnDef, SqlError> {
    let ty = types::column_type_of_field(output)
        .ok_or_else(|| SqlError::unsupported(format!("a column of type {}", output.data_type())))?;
    let mut column = ColumnDef::new(name, ty);
    let tables = context.transaction.world().tables().map(|table| &**table.def());
    if let Some(declared) = defined_column(output, tables).filter(|declared| declared.ty == ty) {
        column.second_digits = declared.second_digits;
        column.domain.clone_from(&declared.domain);
    }
    Ok(column)
}
