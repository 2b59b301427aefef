// SPDX-License-Identifier: Apache-2.0
//! Which rows of a block count.

use super::super::batches::plain_mask;
use super::Conjunct;
use crate::guarded::guarded;
use crate::vector::bits_where;
use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::ArrowNativeType;
use coeval_store::{BrickView, Coverage};
use datafusion::common::ScalarValue;
use datafusion::common::cast::as_boolean_array;
use datafusion::error::Result;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::conjunction;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};
use datafusion::physical_plan::PhysicalExpr;
use std::sync::Arc;

/// What the rows of one brick must satisfy.
pub(super) struct Filter {
    comparisons: Vec<Comparison>,
    /// The rest, which DataFusion evaluates.
    rest: Option<Arc<dyn PhysicalExpr>>,
}

impl Filter {
    /// Leaves out what all rows of the brick satisfy by their dimensions. `None` if nothing is left.
    pub(super) fn of(conjuncts: &[Conjunct], brick: &BrickView) -> Option<Self> {
        let holds = |conjunct: &Conjunct| {
            let coverage = conjunct.selected.as_ref().map(|selected| selected.coverage(brick.id()));
            coverage == Some(Coverage::Whole)
        };
        let (mut comparisons, mut rest) = (Vec::new(), Vec::new());
        for conjunct in conjuncts.iter().filter(|conjunct| !holds(conjunct)) {
            match Comparison::of(&conjunct.predicate) {
                Some(comparison) => comparisons.push(comparison),
                None => rest.push(Arc::clone(&conjunct.predicate)),
            }
        }
        let rest = (!rest.is_empty()).then(|| guarded(conjunction(rest)));
        (rest.is_some() || !comparisons.is_empty()).then_some(Self { comparisons, rest })
    }

    /// For each row whether it counts: NULL counts as false.
    ///
    /// # Errors
    /// If the evaluation of a part fails. What the comparisons leave out is not evaluated, so they can guard the rest:
    /// `b <> 0 AND 10 / b > 5`.
    pub(super) fn mask(&self, rows: &RecordBatch) -> Result<BooleanArray> {
        let compared = self.comparisons.iter().map(|comparison| comparison.bits(rows));
        let compared = compared.reduce(|left, right| &left & &right);
        let compared = compared.map(|bits| BooleanArray::new(bits, None));
        let Some(rest) = &self.rest else {
            return Ok(compared.expect("there are comparisons or a rest"));
        };
        let answers = match &compared {
            Some(compared) => rest.evaluate_selection(rows, compared)?,
            None => rest.evaluate(rows)?,
        };
        Ok(plain_mask(as_boolean_array(&answers.into_array(rows.num_rows())?)?))
    }
}

/// A column of numbers, dates or moments beside a value of its type.
struct Comparison {
    column: usize,
    operator: Operator,
    bound: Bound,
}

/// A value as columns keep it.
#[derive(Clone, Copy)]
enum Bound {
    Short(i16),
    Word(i32),
    Long(i64),
}

impl Comparison {
    fn of(predicate: &Arc<dyn PhysicalExpr>) -> Option<Self> {
        let binary = predicate.downcast_ref::<BinaryExpr>()?;
        let (column, literal, operator) =
            match (binary.left().downcast_ref::<Column>(), binary.right().downcast_ref::<Column>()) {
                (Some(column), None) => (column, binary.right(), *binary.op()),
                (None, Some(column)) => (column, binary.left(), binary.op().swap()?),
                _ => return None,
            };
        let is_order = matches!(
            operator,
            Operator::Eq | Operator::NotEq | Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq
        );
        let bound = Bound::of(literal.downcast_ref::<Literal>()?.value())?;
        is_order.then_some(Self { column: column.index(), operator, bound })
    }

    fn bits(&self, rows: &RecordBatch) -> BooleanBuffer {
        let column = rows.column(self.column);
        let bits = match self.bound {
            Bound::Short(bound) => self.bits_beside(column, bound),
            Bound::Word(bound) => self.bits_beside(column, bound),
            Bound::Long(bound) => self.bits_beside(column, bound),
        };
        match column.nulls() {
            Some(known) => &bits & known.inner(),
            None => bits,
        }
    }

    fn bits_beside<T: ArrowNativeType + Ord>(&self, column: &ArrayRef, bound: T) -> BooleanBuffer {
        let data = column.to_data();
        let values = data.buffer::<T>(0);
        let values = &values[..column.len()];
        match self.operator {
            Operator::Eq => bits_where(values, |value| value == bound),
            Operator::NotEq => bits_where(values, |value| value != bound),
            Operator::Lt => bits_where(values, |value| value < bound),
            Operator::LtEq => bits_where(values, |value| value <= bound),
            Operator::Gt => bits_where(values, |value| value > bound),
            Operator::GtEq => bits_where(values, |value| value >= bound),
            other => unreachable!("{other} is no comparison that is made here"),
        }
    }
}

impl Bound {
    /// `None` for a NULL, and for types whose order is not that of the numbers that are kept.
    fn of(value: &ScalarValue) -> Option<Self> {
        match value {
            ScalarValue::Int16(bound) => bound.map(Self::Short),
            ScalarValue::Int32(bound) | ScalarValue::Date32(bound) => bound.map(Self::Word),
            ScalarValue::Int64(bound)
            | ScalarValue::Time64Microsecond(bound)
            | ScalarValue::TimestampMicrosecond(bound, _) => bound.map(Self::Long),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int16Array, Int32Array, Int64Array, TimestampMicrosecondArray};
    use arrow::datatypes::{Field, Schema};
    use datafusion::physical_expr::expressions::{binary, col, lit};

    const OPERATORS: [Operator; 6] =
        [Operator::Eq, Operator::NotEq, Operator::Lt, Operator::LtEq, Operator::Gt, Operator::GtEq];

    fn rows() -> RecordBatch {
        let numbers = |row: i64| (row % 5 != 3).then_some(row * 37 % 11 - 5);
        let columns: Vec<ArrayRef> = vec![
            Arc::new((0..150).map(|row| numbers(row).map(|number| number as i16)).collect::<Int16Array>()),
            Arc::new((0..150).map(|row| numbers(row).map(|number| number as i32)).collect::<Int32Array>()),
            Arc::new((0..150).map(numbers).collect::<Int64Array>()),
            Arc::new((0..150).map(numbers).collect::<TimestampMicrosecondArray>().with_timezone("UTC")),
        ];
        let names = ["short", "word", "long", "moment"];
        let fields = names.iter().zip(&columns);
        let fields = fields.map(|(name, column)| Field::new(*name, column.data_type().clone(), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        RecordBatch::try_new(schema, columns).expect("the columns are those of the schema")
    }

    /// What DataFusion answers, in the place of a comparison here.
    fn evaluated(predicate: &Arc<dyn PhysicalExpr>, rows: &RecordBatch) -> BooleanArray {
        let answers = predicate.evaluate(rows).and_then(|answers| answers.into_array(rows.num_rows()));
        let answers = answers.expect("it can be evaluated");
        plain_mask(as_boolean_array(&answers).expect("a condition is true or false"))
    }

    #[test]
    fn comparisons_answer_as_datafusion_does_also_on_slices() {
        let bounds = [
            ("short", ScalarValue::Int16(Some(2))),
            ("word", ScalarValue::Int32(Some(-1))),
            ("long", ScalarValue::Int64(Some(0))),
            ("moment", ScalarValue::TimestampMicrosecond(Some(3), Some("UTC".into()))),
        ];
        let all = rows();
        for rows in [all.clone(), all.slice(7, 100), all.slice(64, 64), all.slice(3, 0)] {
            for ((name, bound), operator) in
                bounds.iter().flat_map(|one| OPERATORS.map(|operator| (one, operator)))
            {
                let schema = all.schema();
                let column = || col(name, &schema).expect("there is the column");
                let predicates = [
                    binary(column(), operator, lit(bound.clone()), &schema),
                    binary(lit(bound.clone()), operator, column(), &schema),
                ];
                for predicate in predicates {
                    let predicate = predicate.expect("the types are the same");
                    let comparison = Comparison::of(&predicate).expect("it is a comparison");
                    let bits = BooleanArray::new(comparison.bits(&rows), None);
                    assert_eq!(bits, evaluated(&predicate, &rows), "{predicate}");
                }
            }
        }
    }

    #[test]
    fn a_null_and_other_types_are_left_to_datafusion() {
        assert!(Bound::of(&ScalarValue::Int64(None)).is_none());
        assert!(Bound::of(&ScalarValue::Float64(Some(1.0))).is_none());
    }

    #[test]
    fn a_filter_is_the_conjunction_of_comparisons_and_the_rest() {
        let rows = rows();
        let schema = rows.schema();
        let column = |name| col(name, &schema).expect("there is the column");
        let long = binary(column("long"), Operator::Gt, lit(-3_i64), &schema).expect("types are the same");
        let sum =
            binary(column("long"), Operator::Plus, column("long"), &schema).expect("types are the same");
        let even = binary(sum, Operator::Lt, lit(4_i64), &schema).expect("types are the same");
        let whole = evaluated(&conjunction([Arc::clone(&long), Arc::clone(&even)]), &rows);
        let comparisons = || Comparison::of(&long).into_iter().collect();
        let both = Filter { comparisons: comparisons(), rest: Some(Arc::clone(&even)) };
        assert_eq!(both.mask(&rows).expect("it can be evaluated"), whole);
        let first = Filter { comparisons: comparisons(), rest: None };
        assert_eq!(first.mask(&rows).expect("it can be evaluated"), evaluated(&long, &rows));
        let second = Filter { comparisons: Vec::new(), rest: Some(Arc::clone(&even)) };
        assert_eq!(second.mask(&rows).expect("it can be evaluated"), evaluated(&even, &rows));
    }
}
