// SPDX-License-Identifier: Apache-2.0
//! The expression beside the one that it stands for, over random rows.

mod model;

use super::{NarrowDecimals, wide_columns, with_narrow_decimals};
use arrow::array::{Array, ArrayRef, AsArray, Decimal64Array, Decimal128Array, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Decimal128Type, Field, FieldRef, Schema};
use arrow::util::display::array_value_to_string;
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::datasource::MemTable;
use datafusion::error::Result;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, Column, Literal};
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr, collect, displayable};
use datafusion::prelude::{SessionConfig, SessionContext};
use model::{random_batch, random_expression, schema};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use std::sync::Arc;

#[test]
fn values_are_those_of_the_plain_expression() {
    let mut random = SmallRng::seed_from_u64(11);
    let schema = schema();
    let (mut narrow, mut wide) = (0, 0);
    for round in 0..6_000 {
        let plain = random_expression(&mut random, 3);
        if plain.data_type(&schema).is_err() {
            continue;
        }
        let ours = NarrowDecimals::in_place_of(&plain, &schema).expect("it has a type");
        let Some(ours) = ours else { continue };
        let batch = random_batch(&mut random, [12, 30, 64, 126][round % 4]);
        *(if ours.narrow(&batch).is_some() { &mut narrow } else { &mut wide }) += 1;
        assert_same(&ours, &plain, &batch);
    }
    assert!(narrow > 200 && wide > 200, "{narrow} batches were computed by 64-bit integers, {wide} were not");
}

/// An error is the same, too; so is all of columns that come as 64-bit integers.
fn assert_same(ours: &NarrowDecimals, plain: &Arc<dyn PhysicalExpr>, batch: &RecordBatch) {
    let rows = batch.num_rows();
    for given in [batch, &with_narrow_columns(batch)] {
        let schemas = (given.schema(), batch.schema());
        assert_eq!(ours.data_type(&schemas.0).ok(), plain.data_type(&schemas.1).ok(), "{plain}");
        let ours = ours.evaluate(given).and_then(|values| values.into_array(rows));
        let theirs = plain.evaluate(batch).and_then(|values| values.into_array(rows));
        match (ours, theirs) {
            (Ok(ours), Ok(theirs)) => {
                assert_eq!(ours.data_type(), theirs.data_type(), "{plain}");
                assert!(ours.as_ref() == theirs.as_ref(), "{plain}: {ours:?}, not {theirs:?}");
            }
            (Err(ours), Err(theirs)) => assert_eq!(ours.to_string(), theirs.to_string(), "{plain}"),
            (ours, theirs) => panic!("{plain}: {ours:?}, not {theirs:?}"),
        }
    }
}

/// The rows with their decimals of few digits as 64-bit integers, column by column if all values fit.
fn with_narrow_columns(batch: &RecordBatch) -> RecordBatch {
    let narrow = |column: &ArrayRef| -> ArrayRef {
        let DataType::Decimal128(precision @ ..=18, scale) = *column.data_type() else {
            return Arc::clone(column);
        };
        let decimals = column.as_primitive::<Decimal128Type>();
        // Where a value is NULL anything may stand.
        let value = |value: Option<i128>| value.map_or(Some(i64::MIN), |value| i64::try_from(value).ok());
        match decimals.iter().map(value).collect::<Option<Vec<i64>>>() {
            Some(values) => {
                let values = Decimal64Array::new(values.into(), decimals.nulls().cloned());
                Arc::new(values.with_data_type(DataType::Decimal64(precision, scale)))
            }
            None => Arc::clone(column),
        }
    };
    let columns: Vec<ArrayRef> = batch.columns().iter().map(narrow).collect();
    let field = |(field, column): (&FieldRef, &ArrayRef)| {
        field.as_ref().clone().with_data_type(column.data_type().clone())
    };
    let schema = batch.schema();
    let fields: Vec<Field> = schema.fields().iter().zip(&columns).map(field).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).expect("columns of these types")
}

/// To break it: let what is read as it is come so, too.
#[test]
fn columns_that_are_read_for_more_are_wide() -> Result<()> {
    let product = binary(column(0), Operator::Multiply, column(1));
    let narrow: Arc<dyn PhysicalExpr> =
        Arc::new(NarrowDecimals::in_place_of(&product, &schema())?.expect("arithmetic of decimals"));
    assert_eq!(wide_columns(&product), [1, 0]);
    assert_eq!(wide_columns(&narrow), [0; 0]);
    assert_eq!(wide_columns(&binary(narrow, Operator::Gt, column(1))), [1]);
    Ok(())
}

fn column(place: usize) -> Arc<dyn PhysicalExpr> {
    Arc::new(Column::new(schema().field(place).name(), place))
}

fn literal(value: Option<i128>) -> Arc<dyn PhysicalExpr> {
    Arc::new(Literal::new(ScalarValue::Decimal128(value, 15, 2)))
}

fn binary(
    left: Arc<dyn PhysicalExpr>,
    operator: Operator,
    right: Arc<dyn PhysicalExpr>,
) -> Arc<dyn PhysicalExpr> {
    Arc::new(BinaryExpr::new(left, operator, right))
}

/// The column `a` with these values, as a batch of it alone.
fn batch_of(values: Vec<Option<i128>>) -> RecordBatch {
    let values = Decimal128Array::from(values).with_precision_and_scale(15, 2).expect("a decimal");
    let schema = Schema::new(vec![schema().field(0).clone()]);
    RecordBatch::try_new(Arc::new(schema), vec![Arc::new(values)]).expect("one column")
}

#[test]
fn what_is_no_arithmetic_of_decimals_stays_as_it_is() {
    let schema = schema();
    let (a, c) = (column(0), column(2));
    let fewer_places = Arc::new(CastExpr::new(Arc::clone(&c), DataType::Decimal128(38, 2), None));
    for plain in [
        Arc::clone(&a),
        literal(Some(3)),
        binary(literal(Some(3)), Operator::Plus, literal(Some(4))),
        binary(Arc::clone(&a), Operator::Plus, literal(None)),
        binary(Arc::clone(&a), Operator::Divide, literal(Some(4))),
        binary(Arc::clone(&a), Operator::Gt, literal(Some(4))),
        binary(column(7), Operator::Plus, column(7)),
        binary(a, Operator::Plus, fewer_places),
    ] {
        assert!(NarrowDecimals::in_place_of(&plain, &schema).expect("it has a type").is_none(), "{plain}");
    }
}

#[test]
fn values_up_to_the_ends_of_64_bits_are_narrow() {
    let most = Some(i64::MAX.into());
    let least = Some(i64::MIN.into());
    let both = batch_of(vec![most, None, least]);
    for (literal, batch, is_narrow) in [
        (literal(Some(0)), &both, true),
        (literal(Some(1)), &both, false),
        (literal(Some(1)), &batch_of(vec![least]), true),
        (literal(Some(-1)), &batch_of(vec![most]), true),
        (literal(Some(0)), &batch_of(vec![Some(i128::from(i64::MAX) + 1)]), false),
        (literal(Some(0)), &batch_of(vec![Some(i128::from(i64::MIN) - 1)]), false),
        (literal(Some(0)), &batch_of(vec![Some(1 << 64)]), false),
        (literal(Some(0)), &batch_of(vec![None, None]), true),
        (literal(Some(0)), &batch_of(vec![]), true),
    ] {
        let plain = binary(column(0), Operator::Plus, literal);
        let ours = NarrowDecimals::in_place_of(&plain, &batch.schema()).expect("it has a type");
        let ours = ours.expect("a sum of decimals");
        assert_eq!(ours.narrow(batch).is_some(), is_narrow, "{plain}: {batch:?}");
        assert_same(&ours, &plain, batch);
    }
}

#[test]
fn a_column_of_another_type_than_was_planned_is_left_to_the_plain_expression() {
    let plain = binary(column(0), Operator::Plus, literal(Some(1)));
    let ours = NarrowDecimals::in_place_of(&plain, &schema()).expect("it has a type").expect("a sum");
    let values: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let batch = RecordBatch::try_from_iter([("a", values)]).expect("one column");
    assert!(ours.narrow(&batch).is_none());
}

/// As CASE does it, which computes its branches for the columns that they need.
#[test]
fn columns_may_move() -> Result<()> {
    let sum = binary(column(0), Operator::Plus, column(1));
    let plain = binary(sum, Operator::Multiply, binary(column(0), Operator::Minus, column(2)));
    let narrow = NarrowDecimals::in_place_of(&plain, &schema())?.expect("arithmetic of decimals");
    let moved = |expression: Arc<dyn PhysicalExpr>| {
        let moved = expression.transform_up(|part| {
            Ok(match part.downcast_ref::<Column>() {
                Some(column) => {
                    let place = [2, 0, 1][column.index()];
                    Transformed::yes(Arc::new(Column::new(column.name(), place)) as Arc<dyn PhysicalExpr>)
                }
                None => Transformed::no(part),
            })
        });
        moved.map(|moved| moved.data)
    };
    let (plain, narrow) = (moved(plain)?, moved(Arc::new(narrow))?);
    let narrow = narrow.downcast_ref::<NarrowDecimals>().expect("it is one for other places, too");
    let batch = random_batch(&mut SmallRng::seed_from_u64(5), 4).project(&[1, 2, 0])?;
    assert!(narrow.narrow(&batch).is_some());
    assert_same(narrow, &plain, &batch);
    Ok(())
}

const QUERIES: [&str; 7] = [
    "SELECT a * (1 - b), k * a, a - b FROM t",
    "SELECT (a + b) % 7, 7 % (a - b + 1000000) FROM t",
    "SELECT CASE WHEN a > b THEN a * b ELSE a + b END FROM t",
    "SELECT a FROM t WHERE a * b > 3.5 AND k > 2",
    "SELECT sum(a * (1 - b)), sum(a * (1 - b) * (1 + b)), min(a - b), count(*) FROM t",
    "SELECT k, sum(a * b) FILTER (WHERE a > b), avg(a + b) FROM t GROUP BY k",
    "SELECT k, sum(a) FILTER (WHERE a + b < 2 * a), count(*) FROM t GROUP BY k",
];

/// What is computed is also what rows are ordered by.
const ORDERED: &str =
    "SELECT x, count(*) FROM (SELECT a * b AS x FROM t ORDER BY a * b LIMIT 50) GROUP BY x ORDER BY x";

/// The table `t` of small numbers, in two partitions.
fn table() -> Result<MemTable> {
    let batch = |from: i128| -> Result<RecordBatch> {
        let decimals = |scale: i8, factor: i128| -> Result<ArrayRef> {
            let value = |row: i128| (row % 11 != 3).then(|| (from + row * factor) % 9_973 - 2_000);
            let values: Decimal128Array = (0..100).map(value).collect();
            Ok(Arc::new(values.with_precision_and_scale(15, scale)?))
        };
        let k: ArrayRef = Arc::new((0..100_i64).map(|row| row % 5).collect::<Int64Array>());
        let columns = [("a", decimals(2, 7_919)?, true), ("b", decimals(4, 104_729)?, true), ("k", k, true)];
        Ok(RecordBatch::try_from_iter_with_nullable(columns)?)
    };
    let partitions = [0, 50].map(|from| Ok(vec![batch(from)?, batch(from + 1)?]));
    let partitions = partitions.into_iter().collect::<Result<Vec<_>>>()?;
    MemTable::try_new(partitions[0][0].schema(), partitions)
}

#[tokio::test]
async fn plans_with_it_give_the_same_and_look_the_same() -> Result<()> {
    let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(2));
    context.register_table("t", Arc::new(table()?))?;
    for query in QUERIES {
        let plain = context.sql(query).await?.create_physical_plan().await?;
        let narrow = with_narrow_decimals(Arc::clone(&plain))?;
        assert_eq!(count(&plain)?, 0, "{query}");
        assert!(count(&narrow)? > 0, "{query}:\n{}", shown(&narrow));
        assert_eq!(shown(&narrow), shown(&plain), "{query}");
        assert_eq!(narrow.schema(), plain.schema(), "{query}");
        let (mut ours, mut theirs) = (rows(narrow, &context).await?, rows(plain, &context).await?);
        ours.sort_unstable();
        theirs.sort_unstable();
        assert_eq!(ours, theirs, "{query}");
    }
    Ok(())
}

#[tokio::test]
async fn rows_stay_in_their_order() -> Result<()> {
    let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(2));
    context.register_table("t", Arc::new(table()?))?;
    let plain = context.sql(ORDERED).await?.create_physical_plan().await?;
    let narrow = with_narrow_decimals(Arc::clone(&plain))?;
    assert_eq!(shown(&narrow), shown(&plain));
    assert_eq!(rows(narrow, &context).await?, rows(plain, &context).await?);
    Ok(())
}

/// To break it: leave the projection where it is, or put back what DataFusion computes.
#[tokio::test]
async fn what_aggregates_have_in_common_is_computed_for_each() -> Result<()> {
    let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(2));
    context.register_table("t", Arc::new(table()?))?;
    for (calls, is_put_back) in [
        ("sum(a * (1 - b)), sum(a * (1 - b) * (1 + b)), count(*)", true),
        ("sum(a * b), max(a * b) FILTER (WHERE k > 1), min(a * b), sum(b)", true),
        ("sum(DISTINCT a * b), sum(DISTINCT a * b + a)", true),
        ("sum(a * b), sum(CASE WHEN a * b > 3 THEN a END)", false),
        ("sum(a * b), sum(a * b + a), sum(a * b - a), sum(a * b + b), sum(a * b - b)", false),
    ] {
        let query = format!("SELECT k, {calls} FROM t GROUP BY k");
        let plain = context.sql(&query).await?.create_physical_plan().await?;
        let narrow = with_narrow_decimals(Arc::clone(&plain))?;
        let is_projected = |plan| shown(plan).contains(" as __common_expr");
        assert!(is_projected(&plain), "{query}:\n{}", shown(&plain));
        assert_eq!(!is_projected(&narrow), is_put_back, "{query}:\n{}", shown(&narrow));
        assert_eq!(narrow.schema(), plain.schema(), "{query}");
        let (mut ours, mut theirs) = (rows(narrow, &context).await?, rows(plain, &context).await?);
        ours.sort_unstable();
        theirs.sort_unstable();
        assert_eq!(ours, theirs, "{query}");
    }
    Ok(())
}

fn shown(plan: &Arc<dyn ExecutionPlan>) -> String {
    displayable(plan.as_ref()).indent(false).to_string()
}

/// How often the expression is in the plan.
fn count(plan: &Arc<dyn ExecutionPlan>) -> Result<usize> {
    let mut count = 0;
    plan.apply(|node| {
        node.apply_expressions(&mut |expression| {
            expression.apply(|part| {
                count += usize::from(part.is::<NarrowDecimals>());
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(count)
}

/// Each row as one text.
async fn rows(plan: Arc<dyn ExecutionPlan>, context: &SessionContext) -> Result<Vec<String>> {
    let plan = reset_plan_states(plan)?;
    let mut rows = Vec::new();
    for batch in collect(plan, context.task_ctx()).await? {
        for row in 0..batch.num_rows() {
            let values = batch.columns().iter().map(|column| array_value_to_string(column, row));
            rows.push(values.collect::<Result<Vec<_>, _>>()?.join("|"));
        }
    }
    Ok(rows)
}
