// SPDX-License-Identifier: Apache-2.0
//! Groups of rows by dimensions, without a hash table: in a brick a row's offsets say which group it is in.

use std::sync::Arc;

use arrow::array::{ArrayRef, UInt32Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use crate::brick_id::BrickLayout;
use crate::ordinals::{Bess, map_bess};
use crate::schema::{BrickSchema, Place};

/// The name of the column of groups.
const GROUP: &str = "group";

/// Numbers the combinations of values that rows of one brick can have in some dimensions: densely, from 0, and in each
/// brick anew.
#[derive(Clone, Debug)]
pub struct Grouping {
    parts: Vec<Part>,
    groups: u32,
}

/// What one dimension adds to a group's number: its offset times `stride`.
#[derive(Clone, Debug)]
struct Part {
    dimension: usize,
    range_size: u32,
    stride: u32,
}

impl Grouping {
    /// `None` if a column is no dimension, or the groups of a brick are more than 32 bits count.
    pub(crate) fn new(schema: &BrickSchema, columns: &[usize]) -> Option<Self> {
        let mut groups = 1_u32;
        let part = |column: &usize| {
            let Place::Dimension(dimension) = schema.place(*column) else { return None };
            let range_size = u32::try_from(schema.layout().dimensions()[dimension].range_size()).ok()?;
            let stride = groups;
            groups = groups.checked_mul(range_size)?;
            Some(Part { dimension, range_size, stride })
        };
        let parts = columns.iter().map(part).collect::<Option<Vec<_>>>()?;
        Some(Self { parts, groups })
    }

    /// How many groups a brick can have.
    #[must_use]
    pub const fn groups(&self) -> usize {
        self.groups as usize
    }

    /// How many columns it is by.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.parts.len()
    }

    /// Each row's group.
    pub(crate) fn of_rows(&self, layout: &BrickLayout, bess: &Bess, rows: usize) -> ArrayRef {
        let offset = |part: &Part, bess: u64| layout.dimensions()[part.dimension].offset(bess) as u32;
        let groups = match (bess, self.parts.as_slice()) {
            (None, _) | (_, []) => vec![0; rows],
            (Some(bess), [only]) => map_bess(bess, |bess| offset(only, bess)),
            (Some(bess), parts) => {
                map_bess(bess, |bess| parts.iter().map(|part| offset(part, bess) * part.stride).sum())
            }
        };
        Arc::new(UInt32Array::from(groups))
    }

    /// For each of the columns its dimension, and the offsets of these groups in it.
    pub(crate) fn offsets(&self, groups: &[u32]) -> impl Iterator<Item = (usize, Vec<u64>)> {
        self.parts.iter().map(|part| {
            let offset = |group: &u32| u64::from(group / part.stride % part.range_size);
            (part.dimension, groups.iter().map(offset).collect())
        })
    }
}

/// The columns of `schema` and, behind them, that of groups.
pub(crate) fn with_group(schema: &Schema) -> SchemaRef {
    let group = Arc::new(Field::new(GROUP, DataType::UInt32, false));
    Arc::new(Schema::new(schema.fields().iter().cloned().chain([group]).collect::<Vec<_>>()))
}
