// SPDX-License-Identifier: Apache-2.0
//! The expression that makes one key of the values of several others.

use super::layout::Layout;
use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Schema};
use datafusion::error::Result;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_plan::PhysicalExpr;
use std::fmt;
use std::sync::Arc;

/// See the module.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct PackedKey {
    columns: Vec<Arc<dyn PhysicalExpr>>,
    layout: Arc<Layout>,
}

impl PackedKey {
    /// Of these, which are what the layout is for.
    pub(super) fn new(columns: Vec<Arc<dyn PhysicalExpr>>, layout: Arc<Layout>) -> Self {
        Self { columns, layout }
    }
}

impl fmt::Display for PackedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns: Vec<String> = self.columns.iter().map(ToString::to_string).collect();
        write!(f, "packed({})", columns.join(", "))
    }
}

impl PhysicalExpr for PackedKey {
    fn data_type(&self, _: &Schema) -> Result<DataType> {
        Ok(self.layout.data_type())
    }

    fn nullable(&self, _: &Schema) -> Result<bool> {
        Ok(false)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let rows = batch.num_rows();
        let columns = self.columns.iter().map(|column| column.evaluate(batch)?.into_array(rows));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        Ok(ColumnarValue::Array(self.layout.pack(&columns, rows)?))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        self.columns.iter().collect()
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(Arc::new(Self::new(children, Arc::clone(&self.layout))))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
