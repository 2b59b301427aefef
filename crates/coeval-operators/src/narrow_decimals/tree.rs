// SPDX-License-Identifier: Apache-2.0
//! An expression of decimals as operations on columns of 64-bit integers.
//!
//! Decimals of different scales are added once the one with the smaller scale has been multiplied by a power of ten, and so does a cast
//! to a larger scale: both are a [`Node::Scaled`].

use super::bounds::Bounds;
use super::values::{NarrowValues, narrowed};
use super::wide::planned_type;
use arrow::array::{Array, RecordBatch};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DECIMAL128_MAX_SCALE, DataType, Schema};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, Column, Literal};
use datafusion::physical_plan::PhysicalExpr;
use std::sync::Arc;

/// An expression that is deeper is left as it is: whoever walks over one takes some of the stack for each level.
const DEPTH_MAX: usize = 64;

/// See the module.
#[derive(Debug)]
pub(super) struct Tree {
    /// Columns, each once.
    leaves: Vec<Leaf>,
    root: Decimal,
}

/// A column of decimals or integers.
#[derive(Debug, PartialEq)]
struct Leaf {
    column: usize,
    ty: DataType,
}

/// A part of an expression, and the type of what it is in there.
#[derive(Debug)]
struct Decimal {
    node: Node,
    precision: u8,
    scale: i8,
}

#[derive(Debug)]
enum Node {
    /// One of the tree's leaves.
    Leaf(usize),
    Constant(i64),
    /// Times a power of ten.
    Scaled(Box<Node>, i64),
    Binary(Operation, Box<[Node; 2]>),
}

#[derive(Clone, Copy, Debug)]
enum Operation {
    Add,
    Subtract,
    Multiply,
}

impl Tree {
    /// The operations that this expression is made of, for columns of these types; `None` if there are none, or others.
    pub(super) fn of(expression: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Option<Self> {
        Self::read(expression, |column| schema.fields().get(column).map(|field| field.data_type().clone()))
    }

    /// Those of `new`, which is `old` for columns at other places. The types of these are checked when it is computed.
    pub(super) fn moved(&self, old: &Arc<dyn PhysicalExpr>, new: &Arc<dyn PhysicalExpr>) -> Option<Self> {
        let (old, new_columns) = (columns_of(old), columns_of(new));
        if old.len() != new_columns.len() {
            return None;
        }
        Self::read(new, |column| {
            let was = old[new_columns.iter().position(|moved| *moved == column)?];
            self.leaves.iter().find(|leaf| leaf.column == was).map(|leaf| leaf.ty.clone())
        })
    }

    fn read(expression: &Arc<dyn PhysicalExpr>, type_of: impl Fn(usize) -> Option<DataType>) -> Option<Self> {
        let mut reading = Reading { type_of, leaves: Vec::new(), operations: 0 };
        let root = reading.decimal(expression, 0)?;
        let is_of_use = reading.operations > 0 && !reading.leaves.is_empty();
        is_of_use.then_some(Self { leaves: reading.leaves, root })
    }

    pub(super) fn data_type(&self) -> DataType {
        DataType::Decimal128(self.root.precision, self.root.scale)
    }

    /// What the expression is for these rows; `None` if some part of it may not fit.
    pub(super) fn narrow(&self, batch: &RecordBatch) -> Option<NarrowValues> {
        let mut columns = Vec::with_capacity(self.leaves.len());
        let mut bounds = Vec::with_capacity(self.leaves.len());
        for leaf in &self.leaves {
            let array = batch.columns().get(leaf.column)?;
            let ty = array.data_type();
            if ty != &leaf.ty && planned_type(ty).as_ref() != Some(&leaf.ty) {
                return None;
            }
            let (column, of_column) = narrowed(array)?;
            columns.push(column);
            bounds.push(of_column);
        }
        self.root.node.bounds(&bounds)?;
        let values = match self.root.node.values(&columns) {
            Operand::Constant(value) => vec![value; batch.num_rows()],
            Operand::Column(values) => values.to_vec(),
            Operand::Made(values) => values,
        };
        let values = values.into();
        let nulls = NullBuffer::union_many(columns.iter().map(|column| column.nulls.as_ref()));
        Some(NarrowValues { values, nulls })
    }
}

/// The places of an expression's columns, as often as they are in it, in an order that depends on its form alone.
fn columns_of(expression: &Arc<dyn PhysicalExpr>) -> Vec<usize> {
    let mut columns = Vec::new();
    let mut left = vec![expression];
    while let Some(part) = left.pop() {
        columns.extend(part.downcast_ref::<Column>().map(Column::index));
        left.extend(part.children());
    }
    columns
}

/// An expression while it is read.
struct Reading<F> {
    /// The type of the column at a place.
    type_of: F,
    leaves: Vec<Leaf>,
    operations: usize,
}

impl<F: Fn(usize) -> Option<DataType>> Reading<F> {
    fn decimal(&mut self, expression: &Arc<dyn PhysicalExpr>, depth: usize) -> Option<Decimal> {
        if depth > DEPTH_MAX {
            return None;
        }
        if let Some(binary) = expression.downcast_ref::<BinaryExpr>() {
            return self.binary(binary, depth);
        }
        if let Some(cast) = expression.downcast_ref::<CastExpr>() {
            return self.cast(cast, depth);
        }
        if let Some(literal) = expression.downcast_ref::<Literal>() {
            let ScalarValue::Decimal128(Some(value), precision, scale) = literal.value() else { return None };
            let node = Node::Constant(i64::try_from(*value).ok()?);
            return Some(Decimal { node, precision: *precision, scale: *scale });
        }
        let column = expression.downcast_ref::<Column>()?;
        let ty = (self.type_of)(column.index())?;
        let DataType::Decimal128(precision, scale) = ty else { return None };
        Some(Decimal { node: self.leaf(column, ty), precision, scale })
    }

    /// The type is as Arrow has it.
    fn binary(&mut self, binary: &BinaryExpr, depth: usize) -> Option<Decimal> {
        let operation = match binary.op() {
            Operator::Plus => Operation::Add,
            Operator::Minus => Operation::Subtract,
            Operator::Multiply => Operation::Multiply,
            _ => return None,
        };
        let left = self.decimal(binary.left(), depth + 1)?;
        let right = self.decimal(binary.right(), depth + 1)?;
        self.operations += 1;
        let (scale, digits) = match operation {
            Operation::Add | Operation::Subtract => {
                let scale = left.scale.max(right.scale);
                (scale, i16::from(scale) + left.whole_digits().max(right.whole_digits()) + 1)
            }
            Operation::Multiply => {
                let digits = i16::from(left.precision) + i16::from(right.precision) + 1;
                (left.scale.checked_add(right.scale)?, digits)
            }
        };
        let precision = u8::try_from(digits).ok()?.min(DECIMAL128_MAX_PRECISION);
        if scale > DECIMAL128_MAX_SCALE {
            return None;
        }
        let sides = match operation {
            Operation::Add | Operation::Subtract => [left.scaled(scale)?, right.scaled(scale)?],
            Operation::Multiply => [left.node, right.node],
        };
        Some(Decimal { node: Node::Binary(operation, Box::new(sides)), precision, scale })
    }

    /// A cast that no value is too large for, and that cuts off no digit.
    fn cast(&mut self, cast: &CastExpr, depth: usize) -> Option<Decimal> {
        let DataType::Decimal128(precision, scale) = cast.cast_type() else { return None };
        let (precision, scale) = (*precision, *scale);
        let input = match self.integer(cast.expr()) {
            Some(integer) => integer,
            None => self.decimal(cast.expr(), depth + 1)?,
        };
        let has_room = i16::from(precision) - i16::from(scale) >= input.whole_digits();
        if !has_room || scale < input.scale {
            return None;
        }
        Some(Decimal { node: input.scaled(scale)?, precision, scale })
    }

    /// An integer as a decimal of as many digits as one of its type can have.
    fn integer(&mut self, expression: &Arc<dyn PhysicalExpr>) -> Option<Decimal> {
        let digits = |ty: &DataType| match ty {
            DataType::Int16 => Some(5),
            DataType::Int32 => Some(10),
            DataType::Int64 => Some(19),
            _ => None,
        };
        if let Some(literal) = expression.downcast_ref::<Literal>() {
            let value = match literal.value() {
                ScalarValue::Int16(value) => value.map(i64::from),
                ScalarValue::Int32(value) => value.map(i64::from),
                ScalarValue::Int64(value) => *value,
                _ => None,
            }?;
            let precision = digits(&literal.value().data_type())?;
            return Some(Decimal { node: Node::Constant(value), precision, scale: 0 });
        }
        let column = expression.downcast_ref::<Column>()?;
        let ty = (self.type_of)(column.index())?;
        let precision = digits(&ty)?;
        Some(Decimal { node: self.leaf(column, ty), precision, scale: 0 })
    }

    fn leaf(&mut self, column: &Column, ty: DataType) -> Node {
        let leaf = Leaf { column: column.index(), ty };
        if let Some(known) = self.leaves.iter().position(|known| *known == leaf) {
            return Node::Leaf(known);
        }
        self.leaves.push(leaf);
        Node::Leaf(self.leaves.len() - 1)
    }
}

impl Decimal {
    /// How many digits there are in front of the point.
    fn whole_digits(&self) -> i16 {
        i16::from(self.precision) - i16::from(self.scale)
    }

    /// The same value with this scale, which is no smaller; `None` if the factor alone does not fit.
    fn scaled(self, scale: i8) -> Option<Node> {
        let more = u32::try_from(i16::from(scale) - i16::from(self.scale)).ok()?;
        let factor = 10_i64.checked_pow(more)?;
        match self.node {
            node if factor == 1 => Some(node),
            Node::Constant(value) => value.checked_mul(factor).map(Node::Constant),
            node => Some(Node::Scaled(Box::new(node), factor)),
        }
    }
}

/// Values while an expression is computed.
enum Operand<'c> {
    Constant(i64),
    /// Of a column, which others may use, too.
    Column(&'c [i64]),
    Made(Vec<i64>),
}

impl Node {
    /// Between which bounds it is, if columns are between these; `None` if a part of it may not fit.
    fn bounds(&self, columns: &[Bounds]) -> Option<Bounds> {
        match self {
            Self::Leaf(leaf) => columns.get(*leaf).copied(),
            Self::Constant(value) => Some(Bounds::of(*value)),
            Self::Scaled(input, factor) => input.bounds(columns)?.product(Bounds::of(*factor)),
            Self::Binary(operation, sides) => {
                let (left, right) = (sides[0].bounds(columns)?, sides[1].bounds(columns)?);
                match operation {
                    Operation::Add => left.sum(right),
                    Operation::Subtract => left.difference(right),
                    Operation::Multiply => left.product(right),
                }
            }
        }
    }

    /// What it is, row by row. Nothing wraps: the bounds of all parts have been found to fit.
    fn values<'c>(&self, columns: &'c [NarrowValues]) -> Operand<'c> {
        match self {
            Self::Leaf(leaf) => Operand::Column(&columns[*leaf].values),
            Self::Constant(value) => Operand::Constant(*value),
            Self::Scaled(input, factor) => {
                combined(input.values(columns), Operand::Constant(*factor), i64::wrapping_mul)
            }
            Self::Binary(operation, sides) => {
                let (left, right) = (sides[0].values(columns), sides[1].values(columns));
                match operation {
                    Operation::Add => combined(left, right, i64::wrapping_add),
                    Operation::Subtract => combined(left, right, i64::wrapping_sub),
                    Operation::Multiply => combined(left, right, i64::wrapping_mul),
                }
            }
        }
    }
}

/// What the operation makes of both sides, in the place of one that nobody else uses.
fn combined<'c>(left: Operand<'c>, right: Operand<'c>, operation: impl Fn(i64, i64) -> i64) -> Operand<'c> {
    match (left, right) {
        (Operand::Constant(left), Operand::Constant(right)) => Operand::Constant(operation(left, right)),
        (left, Operand::Constant(right)) => left.changed(|value| operation(value, right)),
        (Operand::Constant(left), right) => right.changed(|value| operation(left, value)),
        (Operand::Made(mut left), Operand::Made(right)) => {
            left.iter_mut().zip(&right).for_each(|(left, right)| *left = operation(*left, *right));
            Operand::Made(left)
        }
        (Operand::Made(mut left), Operand::Column(right)) => {
            left.iter_mut().zip(right).for_each(|(left, right)| *left = operation(*left, *right));
            Operand::Made(left)
        }
        (Operand::Column(left), Operand::Made(mut right)) => {
            left.iter().zip(&mut right).for_each(|(left, right)| *right = operation(*left, *right));
            Operand::Made(right)
        }
        (Operand::Column(left), Operand::Column(right)) => {
            Operand::Made(left.iter().zip(right).map(|(left, right)| operation(*left, *right)).collect())
        }
    }
}

impl Operand<'_> {
    fn changed(self, change: impl Fn(i64) -> i64) -> Self {
        match self {
            Self::Constant(value) => Self::Constant(change(value)),
            Self::Column(values) => Self::Made(values.iter().map(|value| change(*value)).collect()),
            Self::Made(mut values) => {
                values.iter_mut().for_each(|value| *value = change(*value));
                Self::Made(values)
            }
        }
    }
}
