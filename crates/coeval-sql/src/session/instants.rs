// SPDX-License-Identifier: Apache-2.0
//! Literals of instants in statements that are prepared: they mean what they mean in the session's time zone of then, whatever zone it has
//! when the statement runs, as in PostgreSQL, which reads them when it plans a statement.

use crate::ddl::{fix_instants, has_local_instants};
use crate::names::{path_of, split_name};
use crate::settings::Settings;
use crate::walk::Walk;
use coeval_store::{QualifiedName, Store, TableDef, Transaction};
use datafusion::sql::sqlparser::ast::{ObjectName, Statement, Visitor};
use std::ops::ControlFlow;
use std::sync::Arc;

/// What a session's next statement sees.
pub(super) struct Sight<'s> {
    pub(super) settings: &'s Settings,
    /// That of the open block.
    pub(super) transaction: Option<&'s Transaction>,
    pub(super) store: &'s Store,
}

impl Sight<'_> {
    /// Puts the offset of the session's zone behind literals of instants that have none.
    pub(super) fn fix_instants(&self, statement: &mut Statement) {
        if !has_local_instants(statement) {
            return;
        }
        let mut tables = Tables { sight: self, found: Vec::new() };
        // Nothing breaks off the visit.
        let _ = statement.walk(&mut tables);
        let found = tables.found;
        fix_instants(statement, self.settings.zone(), &found);
    }

    /// The table that a name stands for.
    fn table_of(&self, name: &ObjectName) -> Option<Arc<TableDef>> {
        let (schema, name) = split_name(name).ok()?;
        let found = |schema: &str| {
            let name = QualifiedName::new(schema, name.as_str());
            match self.transaction {
                Some(transaction) => transaction.resolve_table(&name),
                None => self.store.world().table_named(&name).map(|table| Arc::clone(table.def())),
            }
        };
        match schema {
            Some(schema) => found(self.settings.temporary().meant(&schema)),
            None => path_of(&name, self.settings).find_map(found),
        }
    }
}

/// The tables that a statement names.
struct Tables<'s> {
    sight: &'s Sight<'s>,
    found: Vec<Arc<TableDef>>,
}

impl Visitor for Tables<'_> {
    type Break = ();

    fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<()> {
        self.found.extend(self.sight.table_of(name));
        ControlFlow::Continue(())
    }
}
