// SPDX-License-Identifier: Apache-2.0
//! Arithmetic of decimals by 64-bit integers, where that is exact.
//!
//! A decimal has 128 bits in Arrow, and each `+`, `-` and `*` of them is checked for overflow, value by value: some ten times the work
//! of the same with 64 bits. Yet the values of most columns fit into 64 bits, and so does what is made of them: a price of ten digits
//! times a discount of three. What a batch holds decides, in three steps:
//!
//! ```text
//! l_extendedprice * (1 - l_discount)
//!
//! 1. narrow    each column's values become 64-bit integers, if they are not, and the least and the greatest of them are found
//! 2. bounds    from those follows between which bounds each part of the expression is: does all of it fit into 64 bits?
//! 3. compute   plain loops, which cannot overflow, so that nothing is checked in them
//! ```
//!
//! Where a value or a bound does not fit, the batch is computed by the expression that is stood for, as it is for all that is not
//! arithmetic of this kind. So whatever comes out, an error included, is what comes out of that one: a result of 64 bits is also what
//! Arrow gives, which checks a result's bits and not its digits.
//!
//! An aggregate that can add up integers asks for them ([`NarrowDecimals::narrow`]), and nothing becomes a decimal in between.
//!
//! ```text
//! tree.rs       the expression, as operations on columns; how it is computed
//! bounds.rs     the least and the greatest value that a part can have
//! values.rs     arrays as 64-bit integers, and back
//! wide.rs       columns that come as 64-bit integers though decimals of 128 bits were planned
//! plan.rs       where in a plan such expressions are put
//! inlined.rs    what aggregates have in common, put back into each of them
//! ```

mod bounds;
mod inlined;
mod plan;
#[cfg(test)]
mod tests;
mod tree;
mod values;
mod wide;

pub use plan::with_narrow_decimals;
pub use values::NarrowValues;
pub use wide::wide_columns;
pub(crate) use wide::{planned_schema, wide};

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::error::Result;
use datafusion::logical_expr::ColumnarValue;
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::sort_properties::ExprProperties;
use datafusion::physical_plan::PhysicalExpr;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use tree::Tree;
use wide::wide_rows;

/// See the module.
#[derive(Debug)]
pub struct NarrowDecimals {
    /// What it stands for.
    plain: Arc<dyn PhysicalExpr>,
    tree: Tree,
    /// The type of both.
    ty: DataType,
    /// Whether it is shown in parentheses, being an operand of an operator that binds more tightly.
    is_in_parentheses: bool,
}

impl NarrowDecimals {
    /// The expression that does what this one does, for columns of these types; `None` if it is anything but additions, subtractions and
    /// multiplications of decimals that are columns, literals, or casts of them that lose nothing. Decimals of few digits may come as 64-bit
    /// integers then, `Decimal64` of as many digits.
    ///
    /// # Errors
    ///
    /// Those of the expression, when its type is asked for.
    pub fn in_place_of(plain: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Option<Self>> {
        let Some(tree) = Tree::of(plain, schema) else { return Ok(None) };
        let ty = plain.data_type(schema)?;
        let is_of_type = ty == tree.data_type();
        Ok(is_of_type.then(|| Self { plain: Arc::clone(plain), tree, ty, is_in_parentheses: false }))
    }

    /// The same, shown in parentheses.
    fn in_parentheses(self) -> Self {
        Self { is_in_parentheses: true, ..self }
    }

    /// Its values without their scale; `None` if not all that is computed for this batch fits into 64 bits.
    #[must_use]
    pub fn narrow(&self, batch: &RecordBatch) -> Option<NarrowValues> {
        self.tree.narrow(batch)
    }

    /// Its values, by the expression that it stands for.
    ///
    /// # Errors
    ///
    /// Those of that expression.
    pub fn evaluate_plain(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        self.plain.evaluate(wide_rows(batch)?.as_ref().unwrap_or(batch))
    }
}

// By hand: `derive` would move the plain expression out.
impl PartialEq for NarrowDecimals {
    fn eq(&self, other: &Self) -> bool {
        self.plain.eq(&other.plain)
    }
}

impl Eq for NarrowDecimals {}

impl Hash for NarrowDecimals {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.plain.hash(state);
    }
}

impl fmt::Display for NarrowDecimals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_in_parentheses { write!(f, "({})", self.plain) } else { write!(f, "{}", self.plain) }
    }
}

impl PhysicalExpr for NarrowDecimals {
    fn data_type(&self, schema: &Schema) -> Result<DataType> {
        self.plain.data_type(planned_schema(schema).as_ref().unwrap_or(schema))
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.plain.nullable(planned_schema(schema).as_ref().unwrap_or(schema))
    }

    fn return_field(&self, schema: &Schema) -> Result<FieldRef> {
        self.plain.return_field(planned_schema(schema).as_ref().unwrap_or(schema))
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        match self.narrow(batch) {
            Some(narrow) => Ok(ColumnarValue::Array(narrow.widened(&self.ty))),
            None => self.evaluate_plain(batch),
        }
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        self.plain.children()
    }

    /// Operators like CASE compute their parts for fewer columns, at other places. Other children may be of other types: then it is the
    /// plain expression.
    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        let plain = Arc::clone(&self.plain).with_new_children(children)?;
        let tree = self.tree.moved(&self.plain, &plain).filter(|tree| tree.data_type() == self.ty);
        let (ty, is_in_parentheses) = (self.ty.clone(), self.is_in_parentheses);
        Ok(match tree {
            Some(tree) => Arc::new(Self { plain, tree, ty, is_in_parentheses }),
            None => plain,
        })
    }

    fn evaluate_bounds(&self, children: &[&Interval]) -> Result<Interval> {
        self.plain.evaluate_bounds(children)
    }

    fn propagate_constraints(
        &self,
        interval: &Interval,
        children: &[&Interval],
    ) -> Result<Option<Vec<Interval>>> {
        self.plain.propagate_constraints(interval, children)
    }

    fn get_properties(&self, children: &[ExprProperties]) -> Result<ExprProperties> {
        self.plain.get_properties(children)
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.is_in_parentheses {
            return self.plain.fmt_sql(f);
        }
        write!(f, "(")?;
        self.plain.fmt_sql(f)?;
        write!(f, ")")
    }
}
