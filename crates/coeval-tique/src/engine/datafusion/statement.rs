// SPDX-License-Identifier: Apache-2.0
//! Statements: what a change is, and how a query is planned and run against the tables of one moment.

use super::Tables;
use super::block_on::unless_abandoned;
use super::table::{Kept, ROW_NUMBER};
use crate::engine::{Effort, EngineError, Rows};
use arrow::array::{Array, ArrayRef, RecordBatch, UInt64Array, new_null_array};
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::{Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::SchemaProvider;
use datafusion::datasource::TableProvider;
use datafusion::error::DataFusionError;
use datafusion::execution::SessionState;
use datafusion::physical_plan::collect;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion::sql::parser::Statement as PlannedStatement;
use datafusion::sql::sqlparser::ast::{
    FromTable, ObjectName, ObjectType, Statement, TableFactor, TableObject,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use std::cell::RefCell;
use std::sync::Arc;
use tokio::runtime::Runtime;

/// A query, parsed.
pub(super) type Query = Box<Statement>;

/// Whether a table that is there, or is not, is an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IfExists {
    Fine,
    Error,
}

impl From<bool> for IfExists {
    /// Whether IF EXISTS, or IF NOT EXISTS, is said.
    fn from(is_said: bool) -> Self {
        if is_said { Self::Fine } else { Self::Error }
    }
}

/// What [`Connection::execute`](crate::engine::Connection::execute) takes.
pub(super) enum Change {
    Create { name: String, columns: Vec<(String, String)>, kept: Kept, if_not_exists: IfExists },
    Drop { name: String, if_exists: IfExists },
    Insert { table: String, columns: Vec<String>, source: Query },
    Delete { table: String, query: Query },
}

fn refused(error: impl std::fmt::Display) -> EngineError {
    EngineError::refused(error.to_string())
}

fn parse_one(sql: &str) -> Result<Statement, EngineError> {
    let mut statements = Parser::parse_sql(&PostgreSqlDialect {}, sql).map_err(refused)?;
    match (statements.pop(), statements.is_empty()) {
        (Some(statement), true) => Ok(statement),
        _ => Err(refused("one statement at a time")),
    }
}

fn name_of(name: &ObjectName) -> Result<String, EngineError> {
    let ident =
        name.0.last().and_then(|part| part.as_ident()).ok_or_else(|| refused("a table has a name"))?;
    Ok(folded(ident))
}

fn folded(ident: &datafusion::sql::sqlparser::ast::Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_lowercase() }
}

/// The change that a statement asks for.
pub(super) fn parse(sql: &str) -> Result<Change, EngineError> {
    match parse_one(sql)? {
        Statement::CreateTable(create) => {
            let column = |column: &datafusion::sql::sqlparser::ast::ColumnDef| {
                (folded(&column.name), column.data_type.to_string())
            };
            Ok(Change::Create {
                name: name_of(&create.name)?,
                columns: create.columns.iter().map(column).collect(),
                kept: if create.temporary { Kept::No } else { Kept::Yes },
                if_not_exists: create.if_not_exists.into(),
            })
        }
        Statement::Drop { object_type: ObjectType::Table, if_exists: is_said, names, .. } => {
            let name = names.first().ok_or_else(|| refused("DROP TABLE names a table"))?;
            Ok(Change::Drop { name: name_of(name)?, if_exists: is_said.into() })
        }
        Statement::Insert(insert) => {
            let TableObject::TableName(table) = &insert.table else {
                return Err(refused("INSERT names a table"));
            };
            let columns: Result<_, _> = insert.columns.iter().map(name_of).collect();
            let source = insert.source.ok_or_else(|| refused("INSERT has a source"))?;
            let source = Box::new(Statement::Query(source));
            Ok(Change::Insert { table: name_of(table)?, columns: columns?, source })
        }
        Statement::Delete(delete) => {
            let FromTable::WithFromKeyword(from) = &delete.from else {
                return Err(refused("DELETE FROM a table"));
            };
            let [table] = from.as_slice() else { return Err(refused("DELETE FROM one table")) };
            let TableFactor::Table { name, .. } = &table.relation else {
                return Err(refused("DELETE FROM a table"));
            };
            let condition = delete.selection.as_ref().map(|condition| format!(" WHERE {condition}"));
            let condition = condition.unwrap_or_default();
            let query = format!("SELECT {table}.\"{ROW_NUMBER}\" FROM {table}{condition}");
            Ok(Change::Delete { table: name_of(name)?, query: Box::new(parse_one(&query)?) })
        }
        other => Err(refused(format!("this engine runs no statement such as: {other}"))),
    }
}

thread_local! {
    /// The tables of the statement that this thread is planning. Planning stays on its thread.
    static PLANNED: RefCell<Option<Arc<Tables>>> = const { RefCell::new(None) };
}

/// The schema that every statement is planned against: whatever tables the statement has.
#[derive(Debug)]
struct StatementTables;

#[async_trait]
impl SchemaProvider for StatementTables {
    fn table_names(&self) -> Vec<String> {
        PLANNED.with_borrow(|tables| tables.iter().flat_map(|tables| tables.keys().cloned()).collect())
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, DataFusionError> {
        let data = PLANNED.with_borrow(|tables| tables.as_ref().and_then(|tables| tables.get(name).cloned()));
        Ok(data.map(|data| data.provider()))
    }

    fn table_exist(&self, name: &str) -> bool {
        PLANNED.with_borrow(|tables| tables.as_ref().is_some_and(|tables| tables.contains_key(name)))
    }
}

/// DataFusion, and the threads that its operators use.
pub(super) struct Planner {
    runtime: Runtime,
    point: SessionContext,
    analytical: SessionContext,
}

fn context(partitions: usize) -> Result<SessionContext, EngineError> {
    // Dynamic filters find columns by name, and of two that have one name take the first: DataFusion's issue 25244.
    let mut config = SessionConfig::new()
        .with_target_partitions(partitions)
        .with_create_default_catalog_and_schema(true)
        .set_bool("datafusion.optimizer.enable_dynamic_filter_pushdown", false);
    config.options_mut().sql_parser.map_string_types_to_utf8view = false;
    let context = SessionContext::new_with_config(config);
    let catalog = context.catalog("datafusion").ok_or_else(|| refused("the default catalog is there"))?;
    catalog.register_schema("public", Arc::new(StatementTables)).map_err(refused)?;
    Ok(context)
}

impl Planner {
    pub(super) fn new() -> Result<Self, EngineError> {
        let threads = std::thread::available_parallelism().map_or(2, usize::from);
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(threads).thread_name("tique-engine").build().map_err(refused)?;
        Ok(Self { runtime, point: context(1)?, analytical: context(threads)? })
    }

    /// Arrow types of columns that are given by name and SQL type.
    pub(super) fn schema(&self, columns: &[(String, String)]) -> Result<SchemaRef, EngineError> {
        let casts: Vec<_> =
            columns.iter().map(|(name, kind)| format!("CAST(NULL AS {kind}) AS \"{name}\"")).collect();
        let sql = format!("SELECT {}", casts.join(", "));
        let rows = self.query(&sql, Effort::Point, &Arc::new(Tables::new()))?;
        let fields: Vec<_> =
            rows.schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true)).collect();
        Ok(Arc::new(Schema::new(fields)))
    }

    pub(super) fn query(&self, sql: &str, effort: Effort, tables: &Arc<Tables>) -> Result<Rows, EngineError> {
        self.run(Box::new(parse_one(sql)?), effort, tables)
    }

    pub(super) fn run(
        &self,
        query: Query,
        effort: Effort,
        tables: &Arc<Tables>,
    ) -> Result<Rows, EngineError> {
        if !matches!(*query, Statement::Query(_) | Statement::Explain { .. }) {
            return Err(refused("this is not a query"));
        }
        let state: SessionState = match effort {
            Effort::Point => self.point.state(),
            Effort::Analytical => self.analytical.state(),
        };
        let _inside = self.runtime.enter();
        let outcome = unless_abandoned(async {
            PLANNED.set(Some(Arc::clone(tables)));
            let planned = state.statement_to_plan(PlannedStatement::Statement(query)).await;
            PLANNED.set(None);
            let plan = state.create_physical_plan(&planned?).await?;
            let schema = plan.schema();
            let batches = collect(plan, state.task_ctx()).await?;
            Ok::<_, DataFusionError>(Rows { schema, batches })
        });
        match outcome {
            Some(outcome) => {
                outcome.map_err(|error: DataFusionError| EngineError::refused(error.strip_backtrace()))
            }
            None => {
                // It may have been dropped while it was planned.
                PLANNED.set(None);
                Err(refused("nobody waits for the query any more"))
            }
        }
    }
}

/// Rows with the columns and types of a table.
pub(super) fn conform(rows: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, EngineError> {
    if rows.num_columns() != schema.fields().len() {
        let (has, wants) = (rows.num_columns(), schema.fields().len());
        return Err(refused(format!("{has} columns where the table has {wants}")));
    }
    let columns: Result<Vec<_>, _> = rows
        .columns()
        .iter()
        .zip(schema.fields())
        .map(|(column, field)| cast(column, field.data_type()))
        .collect();
    RecordBatch::try_new(Arc::clone(schema), columns.map_err(refused)?).map_err(refused)
}

/// The rows of a source as rows of a table: by column names if some are given, NULL where none is.
pub(super) fn arrange(rows: &Rows, names: &[String], schema: &SchemaRef) -> Result<RecordBatch, EngineError> {
    let all = concat_batches(&rows.schema, &rows.batches).map_err(refused)?;
    if names.is_empty() {
        return conform(&all, schema);
    }
    if names.len() != all.num_columns() {
        return Err(refused("INSERT has more or fewer columns than its source"));
    }
    let column = |field: &arrow::datatypes::FieldRef| -> Result<ArrayRef, EngineError> {
        match names.iter().position(|name| name == field.name()) {
            Some(at) => cast(all.column(at), field.data_type()).map_err(refused),
            None => Ok(new_null_array(field.data_type(), all.num_rows())),
        }
    };
    let columns: Result<Vec<_>, _> = schema.fields().iter().map(column).collect();
    RecordBatch::try_new(Arc::clone(schema), columns?).map_err(refused)
}

/// The numbers that a DELETE's query found, in order, each once.
pub(super) fn row_numbers(rows: &Rows) -> Result<Vec<u64>, EngineError> {
    let mut numbers = Vec::with_capacity(rows.count());
    for batch in &rows.batches {
        let column = batch.column(0).as_any().downcast_ref::<UInt64Array>();
        let column = column.ok_or_else(|| refused("row numbers are integers"))?;
        assert_eq!(column.null_count(), 0, "each row has a number");
        numbers.extend(column.values());
    }
    numbers.sort_unstable();
    numbers.dedup();
    Ok(numbers)
}
