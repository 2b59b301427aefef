// SPDX-License-Identifier: Apache-2.0
//! Columns of decimals that a scan reads as 64-bit integers: the schema with them, and what filters have to do with it.
//!
//! A comparison with a constant or with another such column is the same for both forms (`predicate.rs` of `coeval-operators`). All other
//! filters were planned for decimals.

use arrow::datatypes::{Field, Schema, SchemaRef};
use coeval_operators::predicate::Predicate;
use coeval_store::narrow_decimal_type;
use datafusion::physical_expr::expressions::DynamicFilterTracking;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::PhysicalExpr;
use std::sync::Arc;

/// A schema with 64-bit integers in the place of the decimals of few digits at these places.
pub(super) fn with_narrow(schema: &SchemaRef, places: &[usize]) -> SchemaRef {
    if places.is_empty() {
        return Arc::clone(schema);
    }
    let field = |(place, field): (usize, &Arc<Field>)| {
        let narrow = narrow_decimal_type(field.data_type()).filter(|_| places.contains(&place));
        match narrow {
            Some(ty) => Arc::new(field.as_ref().clone().with_data_type(ty)),
            None => Arc::clone(field),
        }
    };
    let fields: Vec<Arc<Field>> = schema.fields().iter().enumerate().map(field).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// Takes those columns away that a filter over this schema asks for anything but comparisons.
pub(super) fn retain_compared(
    columns: &mut Vec<usize>,
    filters: &[Arc<dyn PhysicalExpr>],
    source: &SchemaRef,
) {
    loop {
        let narrow = with_narrow(source, columns);
        let others = filters.iter().filter(|filter| !is_comparison(filter, &narrow));
        let read: Vec<usize> = others.flat_map(collect_columns).map(|column| column.index()).collect();
        let before = columns.len();
        columns.retain(|column| !read.contains(column));
        // Where one has gone that is compared with another one, this has to go, too.
        if columns.len() == before {
            return;
        }
    }
}

/// Whether a filter is made of comparisons that loops of ours make, and stays as it is while the query runs.
fn is_comparison(filter: &Arc<dyn PhysicalExpr>, source: &Schema) -> bool {
    !DynamicFilterTracking::classify(filter).contains_dynamic_filter()
        && Predicate::of(filter, source).is_some()
}
