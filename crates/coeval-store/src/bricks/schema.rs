// SPDX-License-Identifier: Apache-2.0
//! The columns of a table as its bricks hold them.

use crate::brick_def::{BrickDef, BrickDimension};
use crate::catalog::TableDef;
use crate::column::{ColumnBuilder, missing_value};
use crate::types::{ColumnType, Physical};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use coeval_brick::{BrickSchema, Column, Dimension, DimensionValues, Metric, Nulls};

impl BrickDef {
    /// The table's columns as bricks hold them: the live columns, in their order, with what rows have in those that were
    /// added after them.
    ///
    /// # Errors
    /// Why there is no such brick table, for a user.
    pub fn schema(&self, def: &TableDef) -> Result<BrickSchema, String> {
        for pair in self.dimensions.windows(2) {
            if pair[0].column >= pair[1].column {
                return Err("a brick table lists its dimensions in the order of its columns".to_owned());
            }
        }
        let is_live =
            |dimension: &BrickDimension| def.columns.get(dimension.column).is_some_and(|c| c.is_live());
        if !self.dimensions.iter().all(is_live) {
            return Err("a dimension is a column that is not there".to_owned());
        }
        let columns = def.live_columns().map(|(index, column)| {
            let data_type = arrow_type(column.ty);
            let name = column.name.clone();
            match self.dimensions.iter().find(|dimension| dimension.column == index) {
                None => {
                    let nulls = if column.not_null { Nulls::Refused } else { Nulls::Allowed };
                    Column::Metric(Metric { name, data_type, nulls })
                }
                Some(BrickDimension { cardinality, range_size, origin, .. }) => {
                    let values = match data_type {
                        DataType::Utf8 => DimensionValues::String,
                        data_type => DimensionValues::Ordered { data_type, origin: *origin },
                    };
                    let (cardinality, range_size) = (*cardinality, *range_size);
                    Column::Dimension(Dimension { name, values, cardinality, range_size })
                }
            }
        });
        let mut schema = BrickSchema::new(columns.collect()).map_err(|error| error.to_string())?;
        for (place, (_, column)) in def.live_columns().enumerate() {
            if column.missing.is_some() {
                let value = missing_value(column.missing.as_deref(), column.ty.physical());
                let mut builder = ColumnBuilder::new(column.ty, 1);
                builder.push(value.borrow());
                let value =
                    cast(&builder.finish(), &arrow_type(column.ty)).map_err(|error| error.to_string())?;
                schema = schema.with_missing(place, &value);
            }
        }
        Ok(schema)
    }
}

/// The Arrow type of a column in bricks, which keep strings by dictionary.
fn arrow_type(ty: ColumnType) -> DataType {
    match ty.physical() {
        Physical::Text => DataType::Utf8,
        _ => ty.arrow(),
    }
}
