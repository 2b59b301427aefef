// SPDX-License-Identifier: Apache-2.0
//! Two columns of one type, compared row by row.
//!
//! Numbers are compared as those of one column with a constant are. Of texts only is asked whether they are equal: two of up to 12 bytes
//! are if their views are, and of longer ones that begin alike the bytes are compared, row by row.

use super::float::Float;
use super::{FEW, INLINE_BYTES, Width, bits_of, both};
use crate::vector::{PairTest, bits_where_both};
use arrow::array::{Array, AsArray, RecordBatch, StringViewArray};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::{ArrowNativeType, DataType, Schema};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Column};

/// What the values of two columns are asked.
#[derive(Debug, PartialEq)]
pub struct Pair {
    left: usize,
    right: usize,
    kept: Kept,
    relation: Relation,
    /// Whether the rows pass that fail the test; those with a NULL never do.
    is_negated: bool,
}

/// As what the values of both columns are kept.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kept {
    Numbers(Width),
    Texts,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Relation {
    Equal,
    Less,
}

impl Pair {
    /// Two columns of one type beside a comparison; `None` of anything else, and of types whose values are neither in the order of numbers
    /// nor texts that are to be equal or not.
    pub(super) fn of(comparison: &BinaryExpr, schema: &Schema) -> Option<Self> {
        let left = comparison.left().downcast_ref::<Column>()?.index();
        let right = comparison.right().downcast_ref::<Column>()?.index();
        let ty = schema.fields().get(left)?.data_type();
        if schema.fields().get(right)?.data_type() != ty {
            return None;
        }
        let kept = match Width::of(ty) {
            Some(width) => Kept::Numbers(width),
            None if *ty == DataType::Utf8View => Kept::Texts,
            None => return None,
        };
        if kept == Kept::Texts && !matches!(comparison.op(), Operator::Eq | Operator::NotEq) {
            return None;
        }
        let of = |left, right, relation, is_negated| Self { left, right, kept, relation, is_negated };
        Some(match comparison.op() {
            Operator::Eq => of(left, right, Relation::Equal, false),
            Operator::NotEq => of(left, right, Relation::Equal, true),
            Operator::Lt => of(left, right, Relation::Less, false),
            Operator::GtEq => of(left, right, Relation::Less, true),
            Operator::Gt => of(right, left, Relation::Less, false),
            Operator::LtEq => of(right, left, Relation::Less, true),
            _ => return None,
        })
    }

    /// About how many bytes are looked at for a row.
    pub(super) fn cost(&self) -> usize {
        2 * match self.kept {
            Kept::Numbers(width) => width.bytes(),
            Kept::Texts => 2 * size_of::<u128>(),
        }
    }

    /// Which of these rows pass, among those whose bits are set, or of all.
    pub(super) fn passing(&self, rows: &RecordBatch, among: Option<&BooleanBuffer>) -> BooleanBuffer {
        let passing = match self.kept {
            Kept::Numbers(width) => self.numbers(width, rows, among),
            Kept::Texts => {
                let [left, right] = [self.left, self.right].map(|column| rows.column(column));
                equal_texts(left.as_string_view(), right.as_string_view(), among)
            }
        };
        let passing = match (self.is_negated, among) {
            (false, _) => passing,
            (true, Some(among)) => among ^ &passing,
            (true, None) => !&passing,
        };
        let known = |column: usize| rows.column(column).nulls().map(NullBuffer::inner);
        both(both(passing, known(self.left)), known(self.right))
    }

    /// The rows whose numbers are in the relation, whatever stands in the place of NULL.
    fn numbers(&self, width: Width, rows: &RecordBatch, among: Option<&BooleanBuffer>) -> BooleanBuffer {
        match width {
            Width::Short => self.compared::<i16>(rows, among, &Equal, &Less),
            Width::Word => self.compared::<i32>(rows, among, &Equal, &Less),
            Width::Long => self.compared::<i64>(rows, among, &Equal, &Less),
            Width::LowerHalf => self.compared::<i128>(rows, among, &LowerHalves(Equal), &LowerHalves(Less)),
            Width::Whole => self.compared::<i128>(rows, among, &Equal, &Less),
            Width::Single => self.compared::<f32>(rows, among, &Floats(Equal), &Floats(Less)),
            Width::Double => self.compared::<f64>(rows, among, &Floats(Equal), &Floats(Less)),
        }
    }

    /// The rows whose values pass the test of the relation, whatever stands in the place of NULL.
    fn compared<T: ArrowNativeType>(
        &self,
        rows: &RecordBatch,
        among: Option<&BooleanBuffer>,
        equal: &impl PairTest<T>,
        less: &impl PairTest<T>,
    ) -> BooleanBuffer {
        let [left, right] = [self.left, self.right].map(|column| rows.column(column).to_data());
        let (left, right) =
            (&left.buffer::<T>(0)[..rows.num_rows()], &right.buffer::<T>(0)[..rows.num_rows()]);
        match self.relation {
            Relation::Equal => select_both(left, right, among, equal),
            Relation::Less => select_both(left, right, among, less),
        }
    }
}

/// The rows whose values pass the test, among these, or of all.
fn select_both<T: Copy>(
    left: &[T],
    right: &[T],
    among: Option<&BooleanBuffer>,
    test: &impl PairTest<T>,
) -> BooleanBuffer {
    match among {
        Some(among) if among.count_set_bits() * FEW < left.len() => {
            bits_of(among.set_indices().filter(|row| test.passes(left[*row], right[*row])), left.len())
        }
        _ => both(bits_where_both(left, right, test), among),
    }
}

/// The rows whose texts are equal, among these, or of all; maybe some of those that have a NULL.
fn equal_texts(
    left: &StringViewArray,
    right: &StringViewArray,
    among: Option<&BooleanBuffer>,
) -> BooleanBuffer {
    let short = select_both(left.views(), right.views(), among, &SameShortText);
    let alike = select_both(left.views(), right.views(), among, &LongAndAlike);
    // What stands in the place of a NULL need not be a text.
    let is_equal =
        |row: &usize| left.is_valid(*row) && right.is_valid(*row) && left.value(*row) == right.value(*row);
    let long = bits_of(alike.set_indices().filter(is_equal), left.len());
    &short | &long
}

/// Whether two views have the same text in them.
struct SameShortText;

impl PairTest<u128> for SameShortText {
    #[inline(always)]
    fn passes(&self, left: u128, right: u128) -> bool {
        // By halves, as `IsView`.
        let differences = left ^ right;
        ((differences as u64) | ((differences >> u64::BITS) as u64) == 0)
            & ((left as u32) <= INLINE_BYTES as u32)
    }
}

/// Whether the texts of two views are somewhere else, as long as each other, and begin with the same bytes.
struct LongAndAlike;

impl PairTest<u128> for LongAndAlike {
    #[inline(always)]
    fn passes(&self, left: u128, right: u128) -> bool {
        ((left as u64) == (right as u64)) & ((left as u32) > INLINE_BYTES as u32)
    }
}

struct Equal;

impl<T: PartialEq> PairTest<T> for Equal {
    #[inline(always)]
    fn passes(&self, left: T, right: T) -> bool {
        left == right
    }
}

struct Less;

impl<T: PartialOrd> PairTest<T> for Less {
    #[inline(always)]
    fn passes(&self, left: T, right: T) -> bool {
        left < right
    }
}

/// The same of the lower halves.
struct LowerHalves<P>(P);

impl<P: PairTest<i64>> PairTest<i128> for LowerHalves<P> {
    #[inline(always)]
    fn passes(&self, left: i128, right: i128) -> bool {
        self.0.passes(left as i64, right as i64)
    }
}

/// The same of the places among all floats.
struct Floats<P>(P);

impl<F: Float, P: PairTest<F::Order>> PairTest<F> for Floats<P> {
    #[inline(always)]
    fn passes(&self, left: F, right: F) -> bool {
        self.0.passes(left.order(), right.order())
    }
}
