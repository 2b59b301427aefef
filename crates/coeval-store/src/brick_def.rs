// SPDX-License-Identifier: Apache-2.0
//! How the rows of a brick table are laid out: which columns partition it, and how long its rows are kept. What bricks make of
//! its columns: `bricks/schema.rs`.

use crate::types::ColumnType;
use serde::{Deserialize, Serialize};

const MICROS_PER_DAY: i64 = 86_400_000_000;

/// What makes a table a brick table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BrickDef {
    /// The columns that it is partitioned on, in the order of the columns.
    pub dimensions: Vec<BrickDimension>,
    /// How long rows are kept; for ever if it does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention: Option<Retention>,
    /// If its rows are spread over the nodes of a cluster, on how many of them each brick is. No row of it is in the store then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u32>,
}

/// A column that a brick table is partitioned on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BrickDimension {
    /// The column, by its index in the table.
    pub column: usize,
    /// How many different values there can be.
    pub cardinality: u64,
    /// How many consecutive values share a brick.
    pub range_size: u64,
    /// The least value, as the number that stands for it; of no meaning for strings.
    pub origin: i64,
}

/// How long the rows of a brick table are kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Retention {
    /// The dimension that decides, a date or timestamp, by its column's index in the table.
    pub column: usize,
    /// How long, in the column's unit: days or microseconds.
    pub keep: i64,
}

impl BrickDef {
    /// What has expired at `now`: the dimension that decides, and the last value of the last range that is older as a
    /// whole; `None` if no range is.
    pub(crate) fn expired(
        &self,
        retention: &Retention,
        ty: ColumnType,
        now_micros: i64,
    ) -> Option<(usize, i64)> {
        let dimension = self.dimension_of(retention.column)?;
        let BrickDimension { cardinality, range_size, origin, .. } = &self.dimensions[dimension];
        let now = if ty == ColumnType::Date { now_micros.div_euclid(MICROS_PER_DAY) } else { now_micros };
        let older = i128::from(now) - i128::from(retention.keep) - i128::from(*origin);
        let range_size = i128::from((*range_size).min(*cardinality));
        let values = older.div_euclid(range_size) * range_size;
        let last = i64::try_from(i128::from(*origin) + values - 1).ok()?;
        (values > 0).then_some((dimension, last))
    }

    /// Whether its rows are spread over the nodes of a cluster. The definition is in the store then, and its rows are not.
    #[must_use]
    pub fn is_spread(&self) -> bool {
        self.replicas.is_some()
    }

    /// Which of the dimensions this column of the table is, if it is one.
    #[must_use]
    pub fn dimension_of(&self, column: usize) -> Option<usize> {
        self.dimensions.iter().position(|dimension| dimension.column == column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Break: make `replicas` a field without a default.
    #[test]
    fn a_definition_from_before_clusters_is_of_a_table_in_the_store() {
        let old = r#"{"dimensions":[{"column":0,"cardinality":4,"range_size":2,"origin":0}]}"#;
        let def: BrickDef = serde_json::from_str(old).unwrap();
        assert_eq!((def.replicas, def.is_spread()), (None, false));
        assert_eq!(serde_json::to_string(&def).unwrap(), old, "and is written as it was");
        let spread = BrickDef { replicas: Some(2), ..def };
        let written = serde_json::to_string(&spread).unwrap();
        assert_eq!(serde_json::from_str::<BrickDef>(&written).unwrap(), spread);
        assert!(spread.is_spread());
    }
}
