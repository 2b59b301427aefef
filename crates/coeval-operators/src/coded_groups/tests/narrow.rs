// SPDX-License-Identifier: Apache-2.0
//! An operator that gives decimals of its input as 64-bit integers, as a scan may.

use crate::coded_groups::CodedGroupsExec;
use crate::over_one_input;
use arrow::array::{Array, AsArray, Decimal64Array, RecordBatch};
use arrow::datatypes::{DataType, Decimal128Type, FieldRef, Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::TryStreamExt;
use std::fmt;
use std::sync::Arc;

/// The plan with the operator below each that groups by codes, as far as that lets decimals come so.
pub(super) fn with_narrow_rows(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let narrow = plan.transform_up(|node| {
        let columns = node.downcast_ref::<CodedGroupsExec>().map(CodedGroupsExec::folded_decimals);
        Ok(match columns.filter(|columns| !columns.is_empty()) {
            Some(columns) => {
                let input = Arc::clone(node.children()[0]);
                let input = Arc::new(NarrowRows::over(input, columns)) as Arc<dyn ExecutionPlan>;
                Transformed::yes(replace_children_if_necessary(node, vec![input])?)
            }
            None => Transformed::no(node),
        })
    })?;
    Ok(narrow.data)
}

/// See the module.
#[derive(Debug)]
struct NarrowRows {
    input: Arc<dyn ExecutionPlan>,
    columns: Vec<usize>,
    properties: Arc<PlanProperties>,
}

impl NarrowRows {
    fn over(input: Arc<dyn ExecutionPlan>, columns: Vec<usize>) -> Self {
        let field = |(index, field): (usize, &FieldRef)| match columns.contains(&index) {
            true => Arc::new(field.as_ref().clone().with_data_type(narrow_type(field.data_type()))),
            false => Arc::clone(field),
        };
        let schema = input.schema();
        let fields: Vec<FieldRef> = schema.fields().iter().enumerate().map(field).collect();
        let before = input.properties();
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::new(Schema::new(fields))),
            before.partitioning.clone(),
            before.emission_type,
            before.boundedness,
        );
        Self { properties: Arc::new(properties), input, columns }
    }
}

fn narrow_type(ty: &DataType) -> DataType {
    match ty {
        DataType::Decimal128(precision, scale) => DataType::Decimal64(*precision, *scale),
        other => panic!("{other} has no 64-bit integers"),
    }
}

impl DisplayAs for NarrowRows {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NarrowRows: columns={:?}", self.columns)
    }
}

impl ExecutionPlan for NarrowRows {
    fn name(&self) -> &'static str {
        "NarrowRows"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    over_one_input!(input, |old, input| Arc::new(Self::over(input, old.columns.clone())));

    fn execute(&self, partition: usize, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = self.input.execute(partition, task)?;
        let (schema, columns) = (self.schema(), self.columns.clone());
        let given = Arc::clone(&schema);
        let rows = rows.map_ok(move |batch| narrow_batch(&batch, &columns, &given));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}

fn narrow_batch(batch: &RecordBatch, columns: &[usize], schema: &SchemaRef) -> RecordBatch {
    let mut arrays = batch.columns().to_vec();
    for column in columns {
        let decimals = arrays[*column].as_primitive::<Decimal128Type>();
        let values: Vec<i64> = decimals.values().iter().map(|value| *value as i64).collect();
        let narrow = Decimal64Array::new(values.into(), decimals.nulls().cloned());
        let ty = narrow_type(decimals.data_type());
        arrays[*column] = Arc::new(narrow.with_data_type(ty));
    }
    RecordBatch::try_new(Arc::clone(schema), arrays).expect("columns of these types")
}
