// SPDX-License-Identifier: Apache-2.0
//! An operator that gives the texts of its input as numbers of texts, in turn in all ways in which a scan may: of a dictionary that batches
//! have in common, with a text that no row has, and each row with a text of its own; NULL by no number, and by that of a NULL.

use crate::coded_groups::CodedGroupsExec;
use crate::coded_groups::coded_rows::CodedTexts;
use crate::over_one_input;
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringViewArray, UInt16Array};
use arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::{TryStreamExt, stream};
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

/// The plan with the operator below each that groups by codes, as far as that lets texts come so.
pub(super) fn with_numbered_texts(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let numbered = plan.transform_up(|node| {
        let columns = node.downcast_ref::<CodedGroupsExec>().map(CodedGroupsExec::grouped_texts);
        Ok(match columns.filter(|columns| !columns.is_empty()) {
            Some(columns) => {
                let input = Arc::clone(node.children()[0]);
                let input = Arc::new(NumberedTexts::over(input, columns)) as Arc<dyn ExecutionPlan>;
                Transformed::yes(replace_children_if_necessary(node, vec![input])?)
            }
            None => Transformed::no(node),
        })
    })?;
    Ok(numbered.data)
}

/// A column of texts as numbers of these.
pub(super) fn numbered(texts: &ArrayRef, shared: &ArrayRef) -> ArrayRef {
    let numbers: HashMap<Option<&str>, u16> = shared.as_string_view().iter().zip(0..=u16::MAX).collect();
    let number = |(row, text): (usize, Option<&str>)| match text {
        None if row % 2 == 0 => None,
        text => Some(numbers[&text]),
    };
    let numbers: UInt16Array = texts.as_string_view().iter().enumerate().map(number).collect();
    Arc::new(CodedTexts::try_new(numbers, Arc::clone(shared)).expect("numbers of texts"))
}

/// See the module.
#[derive(Debug)]
struct NumberedTexts {
    input: Arc<dyn ExecutionPlan>,
    columns: Vec<usize>,
    properties: Arc<PlanProperties>,
}

impl NumberedTexts {
    fn over(input: Arc<dyn ExecutionPlan>, columns: Vec<usize>) -> Self {
        let ty = DataType::Dictionary(Box::new(DataType::UInt16), Box::new(DataType::Utf8View));
        let field = |(index, field): (usize, &FieldRef)| match columns.contains(&index) {
            true => Arc::new(field.as_ref().clone().with_data_type(ty.clone())),
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

impl DisplayAs for NumberedTexts {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NumberedTexts: columns={:?}", self.columns)
    }
}

impl ExecutionPlan for NumberedTexts {
    fn name(&self) -> &'static str {
        "NumberedTexts"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    over_one_input!(input, |old, input| Arc::new(Self::over(input, old.columns.clone())));

    fn execute(&self, partition: usize, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = self.input.execute(partition, task)?;
        let (schema, columns) = (self.schema(), self.columns.clone());
        let given = Arc::clone(&schema);
        let rows = stream::once(rows.try_collect::<Vec<_>>()).map_ok(move |batches| {
            let batches = numbered_batches(&batches, &columns, &given);
            stream::iter(batches.into_iter().map(Ok::<_, DataFusionError>))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows.try_flatten())))
    }
}

fn numbered_batches(batches: &[RecordBatch], columns: &[usize], schema: &SchemaRef) -> Vec<RecordBatch> {
    let shared: Vec<_> = columns.iter().map(|column| shared_texts(batches, *column)).collect();
    let batch = |(number, batch): (usize, &RecordBatch)| {
        let mut arrays = batch.columns().to_vec();
        for (column, shared) in columns.iter().zip(&shared) {
            let array = &mut arrays[*column];
            *array = match shared.as_ref().filter(|_| number % 3 < 2) {
                Some(shared) => numbered(array, shared),
                None => {
                    let numbers = UInt16Array::from_iter_values((0..=u16::MAX).take(array.len()));
                    let numbered = CodedTexts::try_new(numbers, Arc::clone(array));
                    Arc::new(numbered.expect("a text for each row")) as ArrayRef
                }
            };
        }
        RecordBatch::try_new(Arc::clone(schema), arrays).expect("columns of these types")
    };
    batches.iter().enumerate().map(batch).collect()
}

/// All texts of a column, one that no row has, and NULL; `None` if they are too many to be numbered.
fn shared_texts(batches: &[RecordBatch], column: usize) -> Option<ArrayRef> {
    let texts = batches.iter().flat_map(|batch| batch.column(column).as_string_view().iter().flatten());
    let texts: BTreeSet<&str> = texts.collect();
    let all = std::iter::once("a text of no row").chain(texts).map(Some).chain([None]);
    let all: StringViewArray = all.collect();
    (all.len() <= usize::from(u16::MAX)).then(|| Arc::new(all) as ArrayRef)
}
