// SPDX-License-Identifier: Apache-2.0
//! A connection: a session, its transactions, its options and what there is in the database.

use crate::client::{Client, Transactions, automatic};
use crate::errors::{misplaced, missing, of_database, refused};
use crate::information;
use crate::names::{CATALOG, literal, quoted, relation};
use crate::objects;
use crate::opened::Share;
use crate::options;
use crate::relations;
use crate::results::Batches;
use crate::statement::Statement;
use crate::statistics::{self, Effort};
use crate::wanted::Wanted;
use adbc_core::constants::{
    ADBC_OPTION_ISOLATION_LEVEL_DEFAULT, ADBC_OPTION_ISOLATION_LEVEL_READ_COMMITTED,
    ADBC_OPTION_ISOLATION_LEVEL_READ_UNCOMMITTED, ADBC_OPTION_ISOLATION_LEVEL_REPEATABLE_READ,
    ADBC_OPTION_ISOLATION_LEVEL_SERIALIZABLE, ADBC_OPTION_ISOLATION_LEVEL_SNAPSHOT,
};
use adbc_core::error::{Error, Result, Status};
use adbc_core::options::{InfoCode, ObjectDepth, OptionConnection, OptionValue};
use arrow::datatypes::Schema;
use coeval::{Exporter, SqlState, TextForm, TransactionStatus};
use std::collections::HashSet;
use std::sync::Arc;

const VIEWS: &str = "coeval.arrow.views";

/// A connection to an open database.
pub struct Connection {
    client: Arc<Client>,
    isolation: String,
    access: Access,
}

/// Whether transactions may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    ReadWrite,
    ReadOnly,
}

impl Connection {
    pub(crate) fn new(share: Share) -> Result<Self> {
        Ok(Self {
            client: Arc::new(Client::new(share)?),
            isolation: ADBC_OPTION_ISOLATION_LEVEL_DEFAULT.to_owned(),
            access: Access::ReadWrite,
        })
    }

    /// Turning autocommit on commits what is open, as ADBC's driver for PostgreSQL does.
    fn set_transactions(&self, wanted: Transactions) -> Result<()> {
        self.client.run(|open| {
            if wanted == Transactions::Automatic && open.transactions == Transactions::Manual {
                open.commit()?;
            }
            open.transactions = wanted;
            Ok(())
        })
    }

    /// Changes a setting of transactions, which one that has begun would not take.
    fn set_for_transactions(&self, key: &str, sql: &str) -> Result<()> {
        self.client.run(|open| {
            if open.status()? != TransactionStatus::Idle {
                return Err(misplaced(format!("the option {key} cannot be set within a transaction")));
            }
            open.execute(sql).map(|_| ())
        })
    }

    fn set_schema(&self, schema: &str) -> Result<()> {
        self.client.run(|open| {
            let known =
                format!("SELECT 1 FROM information_schema.schemata WHERE schema_name = {}", literal(schema));
            if relations::rows(open, &known)?.is_empty() {
                let message = format!("schema {} does not exist", quoted(schema));
                return Err(refused(SqlState::InvalidSchemaName, message));
            }
            open.execute(&format!("SET search_path TO {}", quoted(schema))).map(|_| ())
        })
    }

    fn schema(&self) -> Result<String> {
        self.client.run(|open| {
            let rows = relations::rows(open, "SELECT current_schema()")?;
            let schema = rows.into_iter().next().and_then(|row| row.into_iter().next().flatten());
            schema.ok_or_else(|| options::unset(OptionConnection::CurrentSchema.as_ref()))
        })
    }
}

impl Drop for Connection {
    /// Statements and rows may be left that have a part of it: what is open is rolled back nevertheless.
    fn drop(&mut self) {
        self.client.close();
    }
}

/// How SQL calls a level of isolation.
///
/// # Errors
/// `NotImplemented` for one that it has not.
fn level(value: &str) -> Result<Option<&'static str>> {
    Ok(Some(match value {
        ADBC_OPTION_ISOLATION_LEVEL_DEFAULT => return Ok(None),
        ADBC_OPTION_ISOLATION_LEVEL_SERIALIZABLE => "serializable",
        ADBC_OPTION_ISOLATION_LEVEL_REPEATABLE_READ | ADBC_OPTION_ISOLATION_LEVEL_SNAPSHOT => {
            "repeatable read"
        }
        // As in PostgreSQL, nobody ever reads what is not committed.
        ADBC_OPTION_ISOLATION_LEVEL_READ_COMMITTED | ADBC_OPTION_ISOLATION_LEVEL_READ_UNCOMMITTED => {
            "read committed"
        }
        _ => {
            let message = format!("there is no isolation level {value}");
            return Err(Error::with_message_and_status(message, Status::NotImplemented));
        }
    }))
}

impl adbc_core::Optionable for Connection {
    type Option = OptionConnection;

    fn set_option(&mut self, key: OptionConnection, value: OptionValue) -> Result<()> {
        let name = key.as_ref().to_owned();
        match key {
            OptionConnection::AutoCommit => {
                let is_on = options::switch(&name, &value)?;
                self.set_transactions(if is_on { Transactions::Automatic } else { Transactions::Manual })
            }
            OptionConnection::ReadOnly => {
                let is_on = options::switch(&name, &value)?;
                let sql = format!("SET default_transaction_read_only = {is_on}");
                self.set_for_transactions(&name, &sql)?;
                self.access = if is_on { Access::ReadOnly } else { Access::ReadWrite };
                Ok(())
            }
            OptionConnection::IsolationLevel => {
                let value = options::text(&name, value)?;
                let sql = match level(&value)? {
                    Some(level) => format!("SET default_transaction_isolation = {}", literal(level)),
                    None => "RESET default_transaction_isolation".to_owned(),
                };
                self.set_for_transactions(&name, &sql)?;
                self.isolation = value;
                Ok(())
            }
            OptionConnection::CurrentCatalog => match options::text(&name, value)?.as_str() {
                CATALOG => Ok(()),
                other => {
                    let message = format!("database {} does not exist", quoted(other));
                    Err(refused(SqlState::InvalidCatalogName, message))
                }
            },
            OptionConnection::CurrentSchema => self.set_schema(&options::text(&name, value)?),
            OptionConnection::Other(other) if other == VIEWS => {
                let form = if options::switch(&name, &value)? { TextForm::Views } else { TextForm::Offsets };
                self.client.run(|open| {
                    open.text_form = form;
                    Ok(())
                })
            }
            _ => Err(options::unknown(&name)),
        }
    }

    fn get_option_string(&self, key: OptionConnection) -> Result<String> {
        match key {
            OptionConnection::AutoCommit => self.client.run(|open| {
                Ok(match open.transactions {
                    Transactions::Automatic => options::ON.to_owned(),
                    Transactions::Manual => options::OFF.to_owned(),
                })
            }),
            OptionConnection::ReadOnly => Ok(match self.access {
                Access::ReadOnly => options::ON.to_owned(),
                Access::ReadWrite => options::OFF.to_owned(),
            }),
            OptionConnection::IsolationLevel => Ok(self.isolation.clone()),
            OptionConnection::CurrentCatalog => Ok(CATALOG.to_owned()),
            OptionConnection::CurrentSchema => self.schema(),
            OptionConnection::Other(other) if other == VIEWS => self.client.run(|open| {
                Ok(match open.text_form {
                    TextForm::Views => options::ON.to_owned(),
                    TextForm::Offsets => options::OFF.to_owned(),
                })
            }),
            other => Err(options::unset(other.as_ref())),
        }
    }

    options::texts_alone!();
}

impl adbc_core::Connection for Connection {
    type StatementType = Statement;

    fn new_statement(&mut self) -> Result<Statement> {
        Ok(Statement::new(Arc::clone(&self.client)))
    }

    fn get_cancel_handle(&self) -> Box<dyn adbc_core::CancelHandle> {
        self.client.cancel_handle()
    }

    fn get_info(&self, codes: Option<HashSet<InfoCode>>) -> Result<Batches> {
        information::batches(codes.as_ref())
    }

    fn get_objects(
        &self,
        depth: ObjectDepth,
        catalog: Option<&str>,
        db_schema: Option<&str>,
        table_name: Option<&str>,
        table_type: Option<Vec<&str>>,
        column_name: Option<&str>,
    ) -> Result<Batches> {
        let wanted =
            Wanted { depth, catalog, schema: db_schema, table: table_name, table_type, column: column_name };
        self.client.run(|open| objects::batches(open, &wanted))
    }

    fn get_table_schema(
        &self,
        catalog: Option<&str>,
        db_schema: Option<&str>,
        table_name: &str,
    ) -> Result<Schema> {
        if catalog.is_some_and(|catalog| !catalog.is_empty() && catalog != CATALOG) {
            let message = format!("there is no catalog but {CATALOG:?}");
            return Err(refused(SqlState::InvalidCatalogName, message));
        }
        let name = relation(db_schema.filter(|schema| !schema.is_empty()), table_name);
        self.client.run(|open| {
            let prepared = open.prepared(&format!("SELECT * FROM {name}"), &[])?;
            let prepared = prepared.map_err(|error| of_database(&error))?;
            let columns = prepared.columns().map(|columns| Exporter::new(columns, open.text_form));
            Ok(columns.map_or_else(Schema::empty, |columns| columns.schema().as_ref().clone()))
        })
    }

    fn get_table_types(&self) -> Result<Batches> {
        objects::table_types()
    }

    fn get_statistic_names(&self) -> Result<Batches> {
        Ok(statistics::names())
    }

    fn get_statistics(
        &self,
        catalog: Option<&str>,
        db_schema: Option<&str>,
        table_name: Option<&str>,
        approximate: bool,
    ) -> Result<Batches> {
        let depth = ObjectDepth::All;
        let wanted =
            Wanted { depth, catalog, schema: db_schema, table: table_name, table_type: None, column: None };
        let effort = if approximate { Effort::Looking } else { Effort::Reading };
        self.client.run(|open| statistics::batches(open, &wanted, effort))
    }

    fn commit(&mut self) -> Result<()> {
        self.client.run(|open| match open.transactions {
            Transactions::Automatic => Err(automatic("commit")),
            Transactions::Manual => open.commit(),
        })
    }

    fn rollback(&mut self) -> Result<()> {
        self.client.run(|open| match open.transactions {
            Transactions::Automatic => Err(automatic("roll back")),
            Transactions::Manual => open.rollback(),
        })
    }

    fn read_partition(&self, _partition: impl AsRef<[u8]>) -> Result<Batches> {
        missing("reading a partition")
    }
}
