// SPDX-License-Identifier: Apache-2.0
//! INSERT and DELETE of brick tables: rows are appended in batches, and go by whole bricks.

use super::target::Target;
use crate::context::StatementContext;
use crate::error::{SqlError, SqlState};
use crate::pieces::SpreadPieces;
use crate::provider::{BrickScan, Condition, SpreadScan, conditions};
use crate::query;
use crate::result::{CommandTag, StatementResult};
use crate::{spread, spread_part};
use arrow::array::RecordBatch;
use arrow::datatypes::{Field, Schema};
use coeval_operators::stepwise_filter::filter_of;
use coeval_store::{ColumnBuilder, ColumnType, Selection, TableDef, Value};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::sql::sqlparser::ast::{Delete, With};
use std::sync::Arc;

/// Rows on their way into a brick table: they are appended together.
pub(super) struct BrickRowsToInsert {
    def: Arc<TableDef>,
    columns: Vec<(usize, ColumnType)>,
    builders: Vec<ColumnBuilder>,
}

impl BrickRowsToInsert {
    pub(super) fn new(def: &Arc<TableDef>) -> Self {
        let columns: Vec<_> = def.live_columns().map(|(index, column)| (index, column.ty)).collect();
        let builders = columns.iter().map(|(_, ty)| ColumnBuilder::new(*ty, 0)).collect();
        Self { def: Arc::clone(def), columns, builders }
    }

    /// Takes a row, by column of the definition.
    pub(super) fn push(&mut self, values: &[Value]) {
        for ((index, _), builder) in self.columns.iter().zip(&mut self.builders) {
            builder.push(values[*index].borrow());
        }
    }

    /// Appends them all, or none.
    ///
    /// # Errors
    /// Why a row is none of the table; of a spread table, why the transaction cannot load.
    pub(super) fn append(mut self, context: &mut StatementContext<'_>) -> Result<(), SqlError> {
        let field =
            |(index, ty): &(usize, ColumnType)| Field::new(&self.def.columns[*index].name, ty.arrow(), true);
        let fields: Vec<Field> = self.columns.iter().map(field).collect();
        let arrays = self.builders.iter_mut().map(ColumnBuilder::finish).collect();
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?;
        if self.def.is_spread() {
            spread::load_all(context, &self.def, std::slice::from_ref(&batch))?;
        } else {
            context.transaction.append(self.def.id, &batch, 0)?;
        }
        Ok(())
    }
}

/// `0A000` for a statement that changes rows one by one.
pub(super) fn refuse_rows(def: &TableDef, what: &str, instead: &str) -> Result<(), SqlError> {
    if def.bricks.is_none() {
        return Ok(());
    }
    let message = format!("{what} is not supported on brick table \"{}\"", def.name);
    Err(SqlError::new(SqlState::FeatureNotSupported, message).with_hint(instead))
}

/// Runs a DELETE of whole bricks.
///
/// # Errors
/// `0A000` for a condition that is not one on dimensions alone, and for one that would cut a brick, naming it.
pub(super) fn delete(
    context: &mut StatementContext<'_>,
    delete: &Delete,
    target: &Target,
    with: Option<&With>,
) -> Result<StatementResult, SqlError> {
    let def = Arc::clone(&target.def);
    let refused = [
        (delete.using.is_some(), "USING in a DELETE of bricks"),
        (delete.returning.is_some(), "RETURNING in a DELETE of bricks"),
    ];
    super::refuse_any(&refused)?;
    if def.is_spread() {
        return delete_spread(context, delete, target, with);
    }
    let Some(Conditions { conditions, .. }) = conditions_of(context, delete, target, with)? else {
        return Ok(StatementResult::tagged(CommandTag::Delete(0)));
    };
    let narrowed = |rows: Selection, condition: &Condition| {
        let dimension = condition.dimension(&def).expect("conditions on other columns were refused");
        condition.narrow(rows, dimension)
    };
    let rows = context.transaction.delete_bricks(def.id, |all| conditions.iter().fold(all, narrowed))?;
    Ok(StatementResult::tagged(CommandTag::Delete(rows)))
}

/// The same of a spread table. Whether a brick is cut is told by its rows, as the delete sees them: those that come later stay whatever
/// they are. Cost: reads the dimensions that the condition is about, of all bricks that it does not rule out; one, if it is about none,
/// for the number of rows.
fn delete_spread(
    context: &mut StatementContext<'_>,
    delete: &Delete,
    target: &Target,
    with: Option<&With>,
) -> Result<StatementResult, SqlError> {
    let def = Arc::clone(&target.def);
    // First, so that the bricks that the condition leaves are those that the delete sees.
    let seen = spread::begin_delete(context, &def)?;
    let found = conditions_of(context, delete, target, with)?;
    let Conditions { conditions, bricks } = found.unwrap_or_default();
    let mut columns: Vec<usize> = conditions.iter().map(|condition| condition.column).collect();
    columns.sort_unstable();
    columns.dedup();
    let (mut whole, mut rows) = (Vec::new(), 0);
    for brick in bricks {
        let (mut all, mut held) = (0, 0);
        for batch in spread::read_brick(context, &def, &seen, (brick, &columns[..]))? {
            let mut holds = vec![true; batch.num_rows()];
            for condition in &conditions {
                let place = columns.binary_search(&condition.column).expect("its column is read");
                condition.hold(batch.column(place), &mut holds)?;
            }
            all += holds.len();
            held += holds.iter().filter(|holds| **holds).count();
        }
        if held > 0 && held < all {
            return Err(cut(&def, brick, (held, all)));
        }
        if held > 0 {
            whole.push(brick);
            rows += held as u64;
        }
    }
    spread_part::delete_bricks(context.spread, context.engine, def.id, &whole)?;
    Ok(StatementResult::tagged(CommandTag::Delete(rows)))
}

fn cut(def: &TableDef, brick: u64, (held, all): (usize, usize)) -> SqlError {
    let message =
        format!("DELETE removes whole bricks; this one would cut brick {brick} of \"{}\"", def.name);
    SqlError::new(SqlState::FeatureNotSupported, message)
        .with_detail(format!("The condition holds for {held} of its {all} rows."))
        .with_hint("Widen or narrow the condition to the borders of the ranges of the table's dimensions.")
}

/// What a WHERE says of bricks.
#[derive(Default)]
struct Conditions {
    conditions: Vec<Condition>,
    /// Of a spread table, the bricks that may have rows.
    bricks: Vec<u64>,
}

/// What the statement's WHERE says of each dimension; `None` if no row can satisfy it. The query with the same WHERE is
/// planned for it, so that parameters, casts and the like are what they are in a query.
fn conditions_of(
    context: &mut StatementContext<'_>,
    delete: &Delete,
    target: &Target,
    with: Option<&With>,
) -> Result<Option<Conditions>, SqlError> {
    let def = &target.def;
    let items = def.live_columns().map(|(_, column)| {
        crate::select::item(crate::select::column(target.name(), &column.name), column.name.clone())
    });
    let items = items.collect();
    let select = crate::select::query(with.cloned(), items, vec![target.from()], delete.selection.clone());
    let types: Vec<_> = context.parameter_types.iter().copied().map(Some).collect();
    let planned = query::plan_with_hidden(context, &select, &types)?;
    let physical = query::optimized_physical_plan(context, &planned)?.physical;
    let (mut found, mut everywhere) = (Vec::new(), None);
    let mut plan: &Arc<dyn ExecutionPlan> = &physical;
    loop {
        if plan.downcast_ref::<EmptyExec>().is_some() {
            return Ok(None);
        }
        if plan.downcast_ref::<BrickScan>().is_some() {
            return Ok(Some(Conditions { conditions: found, bricks: Vec::new() }));
        }
        if let Some(scan) = plan.downcast_ref::<SpreadScan>() {
            let bricks = everywhere.unwrap_or_else(|| scan.bricks().collect());
            return Ok(Some(Conditions { conditions: found, bricks }));
        }
        if let Some(pieces) = plan.downcast_ref::<SpreadPieces>() {
            // Below are only those that are here.
            everywhere = Some(pieces.bricks().collect());
        } else if let Some(filter) = filter_of(plan) {
            let schema = filter.input().schema();
            let column = |name: &String| {
                let index = def.column_index(name);
                index.map(|index| (index, def.columns[index].ty))
            };
            let columns: Option<Vec<_>> = schema.fields().iter().map(|field| column(field.name())).collect();
            let columns = columns.ok_or_else(|| refused(def, "this condition"))?;
            let conditions = conditions(filter.predicate(), &columns)
                .map_err(|part| refused(def, &format!("the condition {part}")))?;
            for condition in conditions {
                check_dimension(def, &condition)?;
                found.push(condition);
            }
        } else {
            let passes_on = plan.downcast_ref::<CoalescePartitionsExec>().is_some()
                || plan.downcast_ref::<RepartitionExec>().is_some()
                || plan.downcast_ref::<CooperativeExec>().is_some()
                || plan.name() == "ProjectionExec";
            if !passes_on {
                return Err(refused(def, "this condition"));
            }
        }
        plan = plan.children().first().copied().ok_or_else(|| refused(def, "this condition"))?;
    }
}

fn check_dimension(def: &TableDef, condition: &Condition) -> Result<(), SqlError> {
    let column = &def.columns[condition.column];
    if condition.dimension(def).is_none() {
        return Err(refused(def, &format!("a condition on \"{}\", which is no dimension", column.name)));
    }
    Ok(())
}

fn refused(def: &TableDef, what: &str) -> SqlError {
    let message = format!("DELETE from brick table \"{}\" does not take {what}", def.name);
    SqlError::new(SqlState::FeatureNotSupported, message).with_hint(
        "It deletes whole bricks: compare dimensions with values, as in day >= '2026-01-01' AND region IN ('a', 'b').",
    )
}
