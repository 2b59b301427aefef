// SPDX-License-Identifier: Apache-2.0
//! `account.id` in a subquery, where `account` is a table outside and also a column inside.
//!
//! DataFusion takes it for a field of the column. SQL has no such fields here, so it is the outer table's column.

use crate::walk::Walk;
use arrow::datatypes::{DataType, Field};
use coeval_store::TableDef;
use datafusion::common::{Column, Result, TableReference};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult};
use datafusion::sql::sqlparser::ast::{ObjectName, Query, TableFactor, Visitor};
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

/// The tables of a query by the names that they have in it.
#[derive(Debug)]
pub(crate) struct OuterTables {
    tables: HashMap<String, Arc<TableDef>>,
}

impl OuterTables {
    /// Those of a query and its subqueries; `find` resolves a table's own name.
    pub(crate) fn of(query: &Query, find: impl Fn(&ObjectName) -> Option<Arc<TableDef>>) -> Self {
        struct Factors<F>(HashMap<String, Arc<TableDef>>, F);
        impl<F: Fn(&ObjectName) -> Option<Arc<TableDef>>> Visitor for Factors<F> {
            type Break = ();
            fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
                if let TableFactor::Table { name, alias, args: None, .. } = factor
                    && let Some(def) = (self.1)(name)
                {
                    let alias = alias.as_ref().map(|alias| crate::names::fold(&alias.name));
                    self.0.insert(alias.unwrap_or_else(|| def.name.name.clone()), def);
                }
                ControlFlow::Continue(())
            }
        }
        let mut factors = Factors(HashMap::new(), find);
        // Nothing breaks off the visit.
        let _ = query.walk(&mut factors);
        Self { tables: factors.0 }
    }
}

impl ExprPlanner for OuterTables {
    fn plan_compound_identifier(
        &self,
        field: &Field,
        _: Option<&TableReference>,
        nested: &[String],
    ) -> Result<PlannerResult<Vec<Expr>>> {
        let outer = self.tables.get(field.name());
        let found = match (outer, nested) {
            (Some(def), [name]) if !matches!(field.data_type(), DataType::Struct(_)) => {
                def.column_index(name).map(|index| &def.columns[index])
            }
            _ => None,
        };
        let Some(column) = found else { return Ok(PlannerResult::Original(Vec::new())) };
        let outer_field = Field::new(&column.name, column.ty.arrow(), true);
        let place = Column::new(Some(field.name().as_str()), &column.name);
        Ok(PlannerResult::Planned(Expr::OuterReferenceColumn(Arc::new(outer_field), place)))
    }
}
