// SPDX-License-Identifier: Apache-2.0
//! What a join tells scans of its other side: the keys that it looks for.
//!
//! DataFusion's join hands a filter down when it is planned, and says what the filter asks once its side is built: that a key's columns are
//! within their extents, which rules out chunks, and that the key is there; a few keys of one column are a list, which can be sent to where
//! bricks are. So does this one; of a join that is divided among threads the filter has the extents alone, of all of its parts.

use super::built::key_columns;
use super::codes::Extent;
use super::table::{NONE, Table};
use arrow::array::{ArrayRef, BooleanArray, RecordBatch, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Schema, SchemaRef, TimeUnit};
use datafusion::common::{ScalarValue, internal_err};
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, Operator};
use datafusion::physical_expr::expressions::{BinaryExpr, DynamicFilterPhysicalExpr, InListExpr, lit};
use datafusion::physical_expr::{PhysicalExpr, PhysicalExprRef, conjunction};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

/// See the module.
///
/// # Locking
/// `noted` is held while the filter is told, which takes the filter's own lock; nobody else takes both.
#[derive(Debug)]
pub(super) struct Sought {
    filter: Arc<DynamicFilterPhysicalExpr>,
    /// The keys of the other side, with their types.
    keys: Vec<(PhysicalExprRef, DataType)>,
    /// The columns of that side.
    schema: SchemaRef,
    noted: Mutex<Noted>,
}

#[derive(Debug)]
struct Noted {
    /// Parts that are not built yet.
    parts: usize,
    /// How many parts there are.
    all: usize,
    /// Over the parts that are; `None` while no row has a key.
    extents: Option<Vec<Extent>>,
}

impl Sought {
    /// What this filter is to ask of keys with these types, once so many parts of the join are built.
    pub(super) fn new(
        filter: Arc<DynamicFilterPhysicalExpr>,
        keys: Vec<(PhysicalExprRef, DataType)>,
        schema: SchemaRef,
        parts: usize,
    ) -> Self {
        Self { filter, keys, schema, noted: Mutex::new(Noted { parts, all: parts, extents: None }) }
    }

    /// Notes that a part is built, of rows with these keys. So many keys may be a list.
    pub(super) fn note(
        &self,
        table: Option<&Arc<Table>>,
        keys: &[ArrayRef],
        listed_max: usize,
    ) -> Result<()> {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(table) = table {
            noted.extents = Some(match noted.extents.take() {
                None => table.extents().to_vec(),
                Some(before) => before.iter().zip(table.extents()).map(|(a, b)| a.and(*b)).collect(),
            });
        }
        noted.parts = noted.parts.saturating_sub(1);
        if noted.parts > 0 {
            return Ok(());
        }
        let Some(extents) = &noted.extents else {
            self.filter.update(lit(false))?;
            self.filter.mark_complete();
            return Ok(());
        };
        let mut asked = Vec::new();
        for ((key, ty), extent) in self.keys.iter().zip(extents) {
            let bound = |operator, value| -> Result<PhysicalExprRef> {
                Ok(Arc::new(BinaryExpr::new(Arc::clone(key), operator, lit(value_of(ty, value)?))))
            };
            if extent.span == 0 {
                asked.push(bound(Operator::Eq, extent.least)?);
                continue;
            }
            asked.push(bound(Operator::GtEq, extent.least)?);
            asked.push(bound(Operator::LtEq, extent.most())?);
        }
        if let Some(table) = table.filter(|_| noted.all == 1) {
            if let ([(key, _)], [column]) = (self.keys.as_slice(), keys)
                && table.count() <= listed_max
            {
                let values = take(column, &UInt32Array::from(table.first_rows(column)), None)?;
                let list = InListExpr::try_new_from_array(Arc::clone(key), values, false, &self.schema)?;
                asked.push(Arc::new(list));
                self.filter.update(conjunction(asked))?;
                self.filter.mark_complete();
                return Ok(());
            }
            let keys = self.keys.iter().map(|(key, _)| Arc::clone(key)).collect();
            asked.push(Arc::new(IsKey { keys, table: Arc::clone(table) }));
        }
        self.filter.update(conjunction(asked))?;
        self.filter.mark_complete();
        Ok(())
    }
}

/// The number as a value of a type of keys.
fn value_of(ty: &DataType, number: i64) -> Result<ScalarValue> {
    Ok(match ty {
        DataType::Int16 => ScalarValue::Int16(i16::try_from(number).ok()),
        DataType::Int32 => ScalarValue::Int32(i32::try_from(number).ok()),
        DataType::Date32 => ScalarValue::Date32(i32::try_from(number).ok()),
        DataType::Int64 => ScalarValue::Int64(Some(number)),
        DataType::Timestamp(TimeUnit::Microsecond, zone) => {
            ScalarValue::TimestampMicrosecond(Some(number), zone.clone())
        }
        other => return internal_err!("{other} is no type of keys"),
    })
}

/// Whether a row of the built side has the key.
#[derive(Debug)]
struct IsKey {
    keys: Vec<PhysicalExprRef>,
    table: Arc<Table>,
}

// By hand: tables are equal if they are the same one.
impl PartialEq for IsKey {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.table, &other.table) && self.keys == other.keys
    }
}

impl Eq for IsKey {}

impl Hash for IsKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.table).hash(state);
        self.keys.hash(state);
    }
}

impl fmt::Display for IsKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("is_key(")?;
        for (place, key) in self.keys.iter().enumerate() {
            if place > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{key}")?;
        }
        f.write_str(")")
    }
}

impl PhysicalExpr for IsKey {
    fn data_type(&self, _: &Schema) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn nullable(&self, _: &Schema) -> Result<bool> {
        Ok(false)
    }

    fn evaluate(&self, rows: &RecordBatch) -> Result<ColumnarValue> {
        let entries = self.table.entries(&key_columns(&self.keys, rows)?);
        let are_keys: BooleanArray = entries.iter().map(|entry| Some(*entry != NONE)).collect();
        Ok(ColumnarValue::Array(Arc::new(are_keys)))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        self.keys.iter().collect()
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(Arc::new(Self { keys: children, table: Arc::clone(&self.table) }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
