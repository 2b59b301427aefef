// SPDX-License-Identifier: Apache-2.0
//! Predicates that compare columns with constants or with each other, evaluated by plain loops over the columns' values.
//!
//! DataFusion evaluates a predicate as a tree of kernels: each comparison makes an array, of all rows, and AND and OR combine arrays.
//! Most predicates are made of comparisons of one column with one constant or with one other column. For those a [`Predicate`] is cheaper
//! in five ways:
//!
//! ```text
//! price >= 100 AND price < 200       one pass: is the value between two bounds?
//! numeric(7,2)                       128 bits in Arrow, of which the lower 64 are compared
//! double precision                   compared as whole numbers that have the same order, without a copy in which -0 is 0
//! city = 'Oslo'                      a text of up to 12 bytes is one number of 128 bits
//! a AND (b OR c)                     b is asked only for the rows that a leaves, c only for those that b has not taken
//! ```
//!
//! A row passes if the predicate is true; NULL is not. There is no negation above a comparison, so a comparison with NULL may count as
//! false from the start.

use crate::vector::{Test, bits_where};
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, StringViewArray};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::{ArrowNativeType, DataType, Schema};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, Literal, NotExpr,
};
use datafusion::physical_plan::PhysicalExpr;
use float::Float;
use pair::Pair;
use std::sync::Arc;

mod conjunction;
mod float;
mod pair;

pub use conjunction::{Conjunction, cheapest_first};

/// If fewer rows than one in this many are asked for, they are looked at one by one.
const FEW: usize = 16;

/// Lists of more members are left to DataFusion, which hashes them.
const LIST_MAX: usize = 8;

/// Bounds of one column are looked for among so many conditions.
const NARROWED_MAX: usize = 64;

/// A decimal of so many digits fits into 64 bits.
const LONG_DIGITS: u8 = 18;

/// A text of so many bytes stands in its view.
const INLINE_BYTES: usize = 12;

/// See the module.
#[derive(Debug, PartialEq)]
pub enum Predicate {
    /// All are true.
    All(Vec<Predicate>),
    /// One is true.
    Any(Vec<Predicate>),
    /// What one column is asked.
    Column(Comparison),
    /// What two columns are asked.
    Columns(Pair),
}

/// What one column's value is asked.
#[derive(Debug, PartialEq)]
pub struct Comparison {
    column: usize,
    question: Question,
    /// Whether the rows pass that fail the test; those with NULL never do.
    is_negated: bool,
}

#[derive(Debug, PartialEq)]
enum Question {
    /// It is not NULL.
    Known,
    /// It is true.
    True,
    /// It is neither less than the first value nor greater than the second one.
    Between(Width, i128, i128),
    /// It is this text.
    Text(Needle),
}

/// How the values of a column are kept and compared.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Width {
    Short,
    Word,
    Long,
    /// The lower half of 128 bits; the upper one says nothing more.
    LowerHalf,
    Whole,
    /// Floats of 32 bits.
    Single,
    /// Floats of 64 bits.
    Double,
}

#[derive(Debug, PartialEq)]
struct Needle {
    bytes: Box<[u8]>,
    /// As arrays of texts have it; behind [`INLINE_BYTES`] only its lower half is known, which has the length and four bytes.
    view: u128,
}

impl Predicate {
    /// The predicate over columns of these types; `None` if there is anything in it that is left to DataFusion.
    pub fn of(predicate: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Option<Self> {
        if let Some(binary) = predicate.downcast_ref::<BinaryExpr>() {
            let operator = *binary.op();
            let of_operands =
                || operands(predicate, operator).into_iter().map(|operand| Self::of(operand, schema));
            return match operator {
                Operator::And => of_operands().collect::<Option<Vec<_>>>().map(Self::all),
                Operator::Or => of_operands().collect::<Option<Vec<_>>>().map(Self::Any),
                _ => Comparison::of_binary(binary, schema)
                    .map(Self::Column)
                    .or_else(|| Pair::of(binary, schema).map(Self::Columns)),
            };
        }
        if let Some(list) = predicate.downcast_ref::<InListExpr>() {
            return Self::of_list(list, schema);
        }
        let asked = |column: &Arc<dyn PhysicalExpr>, question: Question, is_negated| {
            let column = column.downcast_ref::<Column>()?.index();
            let ty = schema.fields().get(column)?.data_type();
            let is_of_type = match question {
                Question::True => *ty == DataType::Boolean,
                _ => marks_nulls(ty),
            };
            is_of_type.then_some(Self::Column(Comparison { column, question, is_negated }))
        };
        if let Some(known) = predicate.downcast_ref::<IsNotNullExpr>() {
            return asked(known.arg(), Question::Known, false);
        }
        if let Some(unknown) = predicate.downcast_ref::<IsNullExpr>() {
            return asked(unknown.arg(), Question::Known, true);
        }
        if let Some(not) = predicate.downcast_ref::<NotExpr>() {
            return asked(not.arg(), Question::True, true);
        }
        asked(predicate, Question::True, false)
    }

    /// `column IN (…)`, of few members. DataFusion looks for floats by their bits, so 0 is another member than -0, and they are left to it.
    fn of_list(list: &InListExpr, schema: &Schema) -> Option<Self> {
        let is_of_floats = list.expr().data_type(schema).is_ok_and(|ty| ty.is_floating());
        if list.is_empty() || list.len() > LIST_MAX || is_of_floats {
            return None;
        }
        let operator = if list.negated() { Operator::NotEq } else { Operator::Eq };
        let members = list
            .list()
            .iter()
            .map(|member| Comparison::of_sides(list.expr(), operator, member, schema).map(Self::Column));
        let members = members.collect::<Option<Vec<_>>>()?;
        Some(if list.negated() { Self::All(members) } else { Self::Any(members) })
    }

    /// What is true if all of these are. Bounds of one column become one pass, in lists that are not long: each part looks at those before it.
    pub fn all(parts: Vec<Self>) -> Self {
        if parts.len() > NARROWED_MAX {
            return Self::All(parts);
        }
        let mut narrowed: Vec<Self> = Vec::with_capacity(parts.len());
        for part in parts {
            if !narrowed.iter_mut().any(|before| before.narrow(&part)) {
                narrowed.push(part);
            }
        }
        if narrowed.len() == 1 { narrowed.remove(0) } else { Self::All(narrowed) }
    }

    /// About how many bytes are looked at for a row.
    pub fn cost(&self) -> usize {
        match self {
            Self::All(parts) | Self::Any(parts) => parts.iter().map(Self::cost).sum(),
            Self::Column(comparison) => comparison.cost(),
            Self::Columns(pair) => pair.cost(),
        }
    }

    /// Makes this one true where the other one is true, too, if both have bounds for one column.
    fn narrow(&mut self, other: &Self) -> bool {
        let (Self::Column(this), Self::Column(other)) = (self, other) else { return false };
        let (Question::Between(_, least, most), Question::Between(_, other_least, other_most)) =
            (&mut this.question, &other.question)
        else {
            return false;
        };
        if this.column != other.column || this.is_negated || other.is_negated {
            return false;
        }
        *least = (*least).max(*other_least);
        *most = (*most).min(*other_most);
        true
    }

    /// Which of these rows pass, among those whose bits are set, or of all.
    pub fn passing(&self, rows: &RecordBatch, among: Option<&BooleanBuffer>) -> BooleanBuffer {
        match self {
            Self::Column(comparison) => comparison.passing(rows, among),
            Self::Columns(pair) => pair.passing(rows, among),
            Self::All(parts) => {
                let mut left: Option<BooleanBuffer> = None;
                for part in parts {
                    let passing = part.passing(rows, left.as_ref().or(among));
                    let is_empty = passing.count_set_bits() == 0;
                    left = Some(passing);
                    if is_empty {
                        break;
                    }
                }
                left.or_else(|| among.cloned()).unwrap_or_else(|| BooleanBuffer::new_set(rows.num_rows()))
            }
            Self::Any(parts) => {
                let mut passed = BooleanBuffer::new_unset(rows.num_rows());
                let mut left = among.cloned();
                for part in parts {
                    let passing = part.passing(rows, left.as_ref());
                    let others = match &left {
                        Some(left) => left ^ &passing,
                        None => !&passing,
                    };
                    passed = &passed | &passing;
                    if others.count_set_bits() == 0 {
                        break;
                    }
                    left = Some(others);
                }
                passed
            }
        }
    }
}

/// The operands of a chain of ANDs or ORs, in their order. A chain may have thousands, each within the one before.
pub(crate) fn operands(chain: &Arc<dyn PhysicalExpr>, operator: Operator) -> Vec<&Arc<dyn PhysicalExpr>> {
    let (mut found, mut left) = (Vec::new(), vec![chain]);
    while let Some(part) = left.pop() {
        match part.downcast_ref::<BinaryExpr>() {
            Some(binary) if *binary.op() == operator => left.extend([binary.right(), binary.left()]),
            _ => found.push(part),
        }
    }
    found
}

impl Comparison {
    fn of_binary(binary: &BinaryExpr, schema: &Schema) -> Option<Self> {
        let (left, operator, right) = (binary.left(), *binary.op(), binary.right());
        Self::of_sides(left, operator, right, schema)
            .or_else(|| Self::of_sides(right, operator.swap()?, left, schema))
    }

    /// A column beside a value of its type.
    fn of_sides(
        column: &Arc<dyn PhysicalExpr>,
        operator: Operator,
        literal: &Arc<dyn PhysicalExpr>,
        schema: &Schema,
    ) -> Option<Self> {
        let column = column.downcast_ref::<Column>()?.index();
        let literal = literal.downcast_ref::<Literal>()?.value();
        let ty = schema.fields().get(column)?.data_type();
        if let Some(text) = text_of(literal, ty) {
            let is_negated = match operator {
                Operator::Eq => false,
                Operator::NotEq => true,
                _ => return None,
            };
            return Some(Self { column, question: Question::Text(Needle::new(text)), is_negated });
        }
        let (width, value) = number_of(literal, ty)?;
        let (least, most) = (i128::MIN, i128::MAX);
        let (least, most) = match operator {
            Operator::Eq | Operator::NotEq => (value, value),
            Operator::Lt => value.checked_sub(1).map_or((1, 0), |most| (least, most)),
            Operator::LtEq => (least, value),
            Operator::Gt => value.checked_add(1).map_or((1, 0), |least| (least, most)),
            Operator::GtEq => (value, most),
            _ => return None,
        };
        let is_negated = operator == Operator::NotEq;
        Some(Self { column, question: Question::Between(width, least, most), is_negated })
    }

    fn cost(&self) -> usize {
        match &self.question {
            Question::Known | Question::True => 1,
            Question::Between(width, ..) => width.bytes(),
            Question::Text(needle) => size_of::<u128>() + needle.bytes.len(),
        }
    }

    fn passing(&self, rows: &RecordBatch, among: Option<&BooleanBuffer>) -> BooleanBuffer {
        let column = rows.column(self.column);
        let known = column.nulls().map(NullBuffer::inner);
        let passing = match &self.question {
            Question::Known => {
                both(known.cloned().unwrap_or_else(|| BooleanBuffer::new_set(rows.num_rows())), among)
            }
            Question::True => both(column.as_boolean().values().clone(), among),
            Question::Between(width, least, most) => {
                let (least, most) = (*least, *most);
                match width {
                    Width::Short => numbers::<i16>(column, among, least, most),
                    Width::Word => numbers::<i32>(column, among, least, most),
                    Width::Long => numbers::<i64>(column, among, least, most),
                    Width::LowerHalf => lower_halves(column, among, least, most),
                    Width::Whole => numbers::<i128>(column, among, least, most),
                    Width::Single => floats::<f32>(column, among, least, most),
                    Width::Double => floats::<f64>(column, among, least, most),
                }
            }
            Question::Text(needle) => texts(column.as_string_view(), among, needle),
        };
        let passing = match (self.is_negated, among) {
            (false, _) => passing,
            (true, Some(among)) => among ^ &passing,
            (true, None) => !&passing,
        };
        match self.question {
            Question::Known => passing,
            _ => both(passing, known),
        }
    }
}

/// The rows whose values are between these, whatever stands in the place of NULL.
fn numbers<T>(column: &ArrayRef, among: Option<&BooleanBuffer>, least: i128, most: i128) -> BooleanBuffer
where
    T: ArrowNativeType + Ord + Extremes + TryFrom<i128>,
    i128: From<T>,
{
    let data = column.to_data();
    let values = &data.buffer::<T>(0)[..column.len()];
    match within(least, most) {
        Some((least, most)) => select(values, among, &Between { least, most }),
        None => BooleanBuffer::new_unset(values.len()),
    }
}

fn lower_halves(column: &ArrayRef, among: Option<&BooleanBuffer>, least: i128, most: i128) -> BooleanBuffer {
    let data = column.to_data();
    let values = &data.buffer::<i128>(0)[..column.len()];
    match within(least, most) {
        Some((least, most)) => select(values, among, &LowerHalfBetween(Between { least, most })),
        None => BooleanBuffer::new_unset(values.len()),
    }
}

fn floats<F>(column: &ArrayRef, among: Option<&BooleanBuffer>, least: i128, most: i128) -> BooleanBuffer
where
    F: ArrowNativeType + Float,
    F::Order: Copy + Ord + Extremes + TryFrom<i128>,
    i128: From<F::Order>,
{
    let data = column.to_data();
    let values = &data.buffer::<F>(0)[..column.len()];
    match within::<F::Order>(least, most) {
        Some((least, most)) => select(values, among, &OrderBetween(Between { least, most })),
        None => BooleanBuffer::new_unset(values.len()),
    }
}

fn texts(column: &StringViewArray, among: Option<&BooleanBuffer>, needle: &Needle) -> BooleanBuffer {
    let (length_and_prefix, others) = (needle.view as u64, (needle.view >> u64::BITS) as u64);
    if needle.bytes.len() <= INLINE_BYTES {
        return select(column.views(), among, &IsView(length_and_prefix, others));
    }
    let alike = select(column.views(), among, &BeginsLike(length_and_prefix));
    // What stands in the place of a NULL need not be a text.
    let is_equal = |row: usize| column.is_valid(row) && column.value(row).as_bytes() == &*needle.bytes;
    bits_of(alike.set_indices().filter(|row| is_equal(*row)), column.len())
}

impl Needle {
    fn new(text: &str) -> Self {
        let array = StringViewArray::from_iter_values([text]);
        Self { bytes: text.as_bytes().into(), view: array.views()[0] }
    }
}

/// The least and the greatest value of a type.
trait Extremes {
    const LEAST: Self;
    const MOST: Self;
}

macro_rules! extremes {
    ($($ty:ty),*) => { $(impl Extremes for $ty {
        const LEAST: Self = Self::MIN;
        const MOST: Self = Self::MAX;
    })* };
}
extremes!(i16, i32, i64, i128);

/// The bounds as values of this type; `None` if no value is between them.
fn within<T: Extremes + Copy + TryFrom<i128>>(least: i128, most: i128) -> Option<(T, T)>
where
    i128: From<T>,
{
    let least = least.max(T::LEAST.into());
    let most = most.min(T::MOST.into());
    if least > most {
        return None;
    }
    Some((T::try_from(least).ok()?, T::try_from(most).ok()?))
}

/// Whether a number is between two.
struct Between<T> {
    least: T,
    most: T,
}

impl<T: Ord> Test<T> for Between<T> {
    #[inline(always)]
    fn passes(&self, value: T) -> bool {
        (self.least <= value) & (value <= self.most)
    }
}

/// Whether the lower half of a number is.
struct LowerHalfBetween(Between<i64>);

impl Test<i128> for LowerHalfBetween {
    #[inline(always)]
    fn passes(&self, value: i128) -> bool {
        self.0.passes(value as i64)
    }
}

/// Whether a float is, by its place among all floats.
struct OrderBetween<T>(Between<T>);

impl<F: Float> Test<F> for OrderBetween<F::Order>
where
    F::Order: Ord,
{
    #[inline(always)]
    fn passes(&self, value: F) -> bool {
        self.0.passes(value.order())
    }
}

/// Whether both halves of a view are these: two comparisons of 64 bits are some registers at a time, and one of 128 is not.
struct IsView(u64, u64);

impl Test<u128> for IsView {
    #[inline(always)]
    fn passes(&self, view: u128) -> bool {
        ((view as u64) ^ self.0) | (((view >> u64::BITS) as u64) ^ self.1) == 0
    }
}

/// Whether a view has this length and these first bytes.
struct BeginsLike(u64);

impl Test<u128> for BeginsLike {
    #[inline(always)]
    fn passes(&self, view: u128) -> bool {
        view as u64 == self.0
    }
}

/// The rows whose values pass the test, among these, or of all, whatever stands in the place of NULL.
pub fn select<T: Copy>(values: &[T], among: Option<&BooleanBuffer>, test: &impl Test<T>) -> BooleanBuffer {
    match among {
        Some(among) if among.count_set_bits() * FEW < values.len() => {
            bits_of(among.set_indices().filter(|row| test.passes(values[*row])), values.len())
        }
        _ => both(bits_where(values, test), among),
    }
}

/// These rows, of so many.
pub(crate) fn bits_of(rows: impl Iterator<Item = usize>, count: usize) -> BooleanBuffer {
    let mut words = vec![0_u64; count.div_ceil(u64::BITS as usize)];
    for row in rows {
        words[row / u64::BITS as usize] |= 1 << (row % u64::BITS as usize);
    }
    BooleanBuffer::new(words.into(), 0, count)
}

fn both(bits: BooleanBuffer, among: Option<&BooleanBuffer>) -> BooleanBuffer {
    match among {
        Some(among) => &bits & among,
        None => bits,
    }
}

/// Whether an array of this type has a mark for each row that is NULL; others have it for the values that rows refer to, or none.
fn marks_nulls(ty: &DataType) -> bool {
    !matches!(
        ty,
        DataType::Null | DataType::Dictionary(_, _) | DataType::RunEndEncoded(_, _) | DataType::Union(_, _)
    )
}

/// The rows for which a condition is true. NULL is not.
pub(crate) fn where_true(answers: &BooleanArray) -> BooleanBuffer {
    both(answers.values().clone(), answers.nulls().map(NullBuffer::inner))
}

/// The text that a column of texts is compared with.
fn text_of<'a>(literal: &'a ScalarValue, ty: &DataType) -> Option<&'a str> {
    match (literal, ty) {
        (ScalarValue::Utf8View(Some(text)), DataType::Utf8View) => Some(text),
        _ => None,
    }
}

/// The number that a column is compared with, as its values are kept. `None` for NULL, for another type than the column's, and for types
/// whose order is not that of the numbers that are kept.
fn number_of(literal: &ScalarValue, ty: &DataType) -> Option<(Width, i128)> {
    let value: i128 = match (literal, ty) {
        (
            ScalarValue::Decimal128(Some(value), _, scale),
            DataType::Decimal128(_, of_column) | DataType::Decimal64(_, of_column),
        ) if scale == of_column => *value,
        (ScalarValue::Int16(Some(value)), DataType::Int16) => (*value).into(),
        (ScalarValue::Int32(Some(value)), DataType::Int32)
        | (ScalarValue::Date32(Some(value)), DataType::Date32) => (*value).into(),
        (ScalarValue::Int64(Some(value)), DataType::Int64)
        | (ScalarValue::Time64Microsecond(Some(value)), DataType::Time64(_))
        | (ScalarValue::TimestampMicrosecond(Some(value), _), DataType::Timestamp(_, _))
            if literal.data_type() == *ty =>
        {
            (*value).into()
        }
        (ScalarValue::Float32(Some(value)), DataType::Float32) => value.order().into(),
        (ScalarValue::Float64(Some(value)), DataType::Float64) => value.order().into(),
        _ => return None,
    };
    Some((Width::of(ty)?, value))
}

impl Width {
    /// That of a type's values; `None` if their order is not that of the numbers that are kept.
    fn of(ty: &DataType) -> Option<Self> {
        Some(match ty {
            DataType::Int16 => Self::Short,
            DataType::Int32 | DataType::Date32 => Self::Word,
            DataType::Int64 | DataType::Time64(_) | DataType::Timestamp(_, _) | DataType::Decimal64(_, _) => {
                Self::Long
            }
            DataType::Decimal128(precision, _) if *precision <= LONG_DIGITS => Self::LowerHalf,
            DataType::Decimal128(_, _) => Self::Whole,
            DataType::Float32 => Self::Single,
            DataType::Float64 => Self::Double,
            _ => return None,
        })
    }

    /// How many bytes a value has.
    fn bytes(self) -> usize {
        match self {
            Self::Short => 2,
            Self::Word | Self::Single => 4,
            Self::Long | Self::Double => 8,
            Self::LowerHalf | Self::Whole => 16,
        }
    }
}

#[cfg(test)]
mod tests;
