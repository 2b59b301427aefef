// SPDX-License-Identifier: Apache-2.0
//! Literals of instants in statements that are prepared: they mean what they mean in the session's time zone of then, whatever zone it has
//! when the statement runs, as in PostgreSQL, which reads them when it plans a statement.

use super::Session;
use crate::ddl::{fix_instants, has_local_instants};
use crate::names::{path_of, split_name};
use crate::walk::Walk;
use coeval_store::{QualifiedName, TableDef};
use datafusion::sql::sqlparser::ast::{ObjectName, Statement, Visitor};
use std::ops::ControlFlow;
use std::sync::Arc;

impl Session {
    /// Puts the offset of the session's zone behind literals of instants that have none.
    pub(super) fn fix_instants(&self, statement: &mut Statement) {
        if !has_local_instants(statement) {
            return;
        }
        let mut tables = Tables { session: self, found: Vec::new() };
        // Nothing breaks off the visit.
        let _ = statement.walk(&mut tables);
        let found = tables.found;
        fix_instants(statement, self.settings.zone(), &found);
    }

    /// The table that a name stands for in the session's next statement.
    fn table_of(&self, name: &ObjectName) -> Option<Arc<TableDef>> {
        let (schema, name) = split_name(name).ok()?;
        let found = |schema: &str| {
            let name = QualifiedName::new(schema, name.as_str());
            match self.running_transaction() {
                Some(transaction) => transaction.resolve_table(&name),
                None => self.engine.store().world().table_named(&name).map(|table| Arc::clone(table.def())),
            }
        };
        match schema {
            Some(schema) => found(self.settings.temporary().meant(&schema)),
            None => path_of(&name, &self.settings).find_map(found),
        }
    }
}

/// The tables that a statement names.
struct Tables<'s> {
    session: &'s Session,
    found: Vec<Arc<TableDef>>,
}

impl Visitor for Tables<'_> {
    type Break = ();

    fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<()> {
        self.found.extend(self.session.table_of(name));
        ControlFlow::Continue(())
    }
}
