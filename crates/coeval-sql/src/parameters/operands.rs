// SPDX-License-Identifier: Apache-2.0
//! The type of what has none by itself, a parameter or a literal in quotes, from what stands beside it.

use crate::types::{NUMERIC_SCALE_DEFAULT, common_arrow_type, common_type, without_length};
use arrow::datatypes::DataType;
use coeval_store::{ColumnType, NUMERIC_PRECISION_MAX};
use datafusion::sql::sqlparser::ast::BinaryOperator;

/// The side of an operator at which an operand stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Left,
    Right,
}

/// What a parameter is as a number of bytes that are added to a place in a log.
const BYTES: ColumnType =
    ColumnType::Numeric { precision: NUMERIC_PRECISION_MAX, scale: NUMERIC_SCALE_DEFAULT };

/// The type of an operand of arithmetic that has none by itself, beside one of this type; `None` if it is that of the other, as beside
/// numbers, or if there is no such operation. PostgreSQL takes the type of the other operand where there is an operator of two such,
/// and else that of the one operator that there is.
pub(crate) fn of_operand(operator: &BinaryOperator, side: Side, other: ColumnType) -> Option<ColumnType> {
    match (operator, side, other) {
        (BinaryOperator::Plus, _, ColumnType::Timestamp | ColumnType::TimestampTz)
        | (BinaryOperator::Plus | BinaryOperator::Minus, _, ColumnType::Interval | ColumnType::TimeTz) => {
            Some(ColumnType::Interval)
        }
        (
            BinaryOperator::Minus,
            _,
            ColumnType::Timestamp | ColumnType::TimestampTz | ColumnType::Date | ColumnType::PgLsn,
        ) => Some(other),
        (BinaryOperator::Multiply, _, ColumnType::Interval)
        | (BinaryOperator::Divide, Side::Right, ColumnType::Interval) => Some(ColumnType::Double),
        (BinaryOperator::Plus, _, ColumnType::PgLsn) => Some(BYTES),
        _ => None,
    }
}

/// The type of a parameter at this side of an operator, beside an operand of this type; `None` if that does not say it.
pub(super) fn of_parameter(operator: &BinaryOperator, side: Side, other: ColumnType) -> Option<ColumnType> {
    let is_document = matches!(other, ColumnType::Json | ColumnType::Jsonb);
    match operator {
        BinaryOperator::StringConcat => Some(match other {
            ColumnType::Jsonb | ColumnType::Bytea | ColumnType::Array(_) => other,
            other if other.is_bits() => ColumnType::Varbit(None),
            _ => ColumnType::Text,
        }),
        BinaryOperator::AtArrow | BinaryOperator::ArrowAt | BinaryOperator::PGOverlap => {
            matches!(other, ColumnType::Jsonb | ColumnType::Array(_)).then_some(other)
        }
        // What is taken out of a document, or looked for in it, is named by texts.
        BinaryOperator::Minus if is_document => Some(ColumnType::Text),
        BinaryOperator::Arrow
        | BinaryOperator::LongArrow
        | BinaryOperator::HashArrow
        | BinaryOperator::HashLongArrow
        | BinaryOperator::HashMinus
        | BinaryOperator::Question
        | BinaryOperator::QuestionAnd
        | BinaryOperator::QuestionPipe
        | BinaryOperator::AtQuestion
        | BinaryOperator::AtAt => None,
        BinaryOperator::PGExp if !matches!(other, ColumnType::Numeric { .. } | ColumnType::AnyNumeric) => {
            Some(ColumnType::Double)
        }
        // Bits are counted by an `integer`, whatever they are bits of.
        BinaryOperator::PGBitwiseShiftLeft | BinaryOperator::PGBitwiseShiftRight if side == Side::Right => {
            Some(ColumnType::Int)
        }
        operator => of_operand(operator, side, other).or_else(|| Some(beside(read_as(other)))),
    }
}

/// The type of a parameter that is compared or computed with a value of this type, or chosen beside it. A `numeric` gets as many
/// digits before the point as there is room for, and at least ten behind it, unless the other side needs the room: if a client
/// sends more digits than a column has, all of them count.
pub(crate) fn beside(ty: ColumnType) -> ColumnType {
    let ColumnType::Numeric { precision, scale } = ty else { return ty };
    let room = i8::try_from(NUMERIC_PRECISION_MAX.saturating_sub(precision)).unwrap_or(0);
    let most = scale.saturating_add(room);
    ColumnType::Numeric {
        precision: NUMERIC_PRECISION_MAX,
        scale: scale.max(NUMERIC_SCALE_DEFAULT.min(most)),
    }
}

/// The type of a parameter among choices of these types, as in a CASE; `None` if they say nothing. Texts beside another type are
/// literals of it.
pub(super) fn among(types: &[DataType]) -> Option<DataType> {
    let others = types.iter().filter(|ty| !ty.is_string());
    common_arrow_type(others).or_else(|| common_arrow_type(types))
}

/// The type of a parameter of which one place says one type, and a later one another: the first one, but of two `numeric` that which
/// keeps the digits of both.
pub(super) fn of_both(first: ColumnType, other: ColumnType) -> ColumnType {
    match (first, other) {
        (
            ColumnType::Numeric { .. } | ColumnType::AnyNumeric,
            ColumnType::Numeric { .. } | ColumnType::AnyNumeric,
        ) => common_type(first, other).unwrap_or(first),
        _ => first,
    }
}

/// The type of a parameter that is cast to this type, or stored as it, and of a literal beside one of it. Texts and bit strings keep
/// their length until then: a cast cuts them off, and a parameter of that type would refuse them.
pub(crate) fn read_as(ty: ColumnType) -> ColumnType {
    match ty {
        ColumnType::Varchar(_) | ColumnType::Char(_) => ColumnType::Text,
        ty => without_length(ty),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operand_has_the_type_of_the_other_or_of_the_one_operator_that_there_is() {
        use BinaryOperator::{Divide, Minus, Multiply, Plus};
        use ColumnType::{Date, Double, Int, Interval, PgLsn, Timestamp, TimestampTz};
        let cases = [
            (Minus, Side::Left, Timestamp, Some(Timestamp)),
            (Minus, Side::Right, TimestampTz, Some(TimestampTz)),
            (Plus, Side::Left, Timestamp, Some(Interval)),
            (Plus, Side::Right, TimestampTz, Some(Interval)),
            (Minus, Side::Right, Date, Some(Date)),
            (Plus, Side::Right, Date, None),
            (Minus, Side::Left, Interval, Some(Interval)),
            (Multiply, Side::Left, Interval, Some(Double)),
            (Divide, Side::Right, Interval, Some(Double)),
            (Divide, Side::Left, Interval, None),
            (Minus, Side::Left, PgLsn, Some(PgLsn)),
            (Plus, Side::Left, PgLsn, Some(BYTES)),
            (Plus, Side::Right, Int, None),
        ];
        for (operator, side, other, ty) in cases {
            assert_eq!(of_operand(&operator, side, other), ty, "{side:?} of {operator} beside {other}");
        }
    }

    #[test]
    fn a_parameter_has_the_type_that_the_operator_gives_it() {
        use BinaryOperator::{
            Arrow, AtArrow, Eq, Lt, Minus, PGBitwiseShiftLeft, PGExp, PGOverlap, PGRegexMatch, Plus,
            StringConcat,
        };
        use ColumnType::{BigInt, Bytea, Int, Interval, Jsonb, Real, Text, Timestamp, Varchar};
        let cases = [
            (Eq, Side::Right, Varchar(3), Some(Text)),
            (Lt, Side::Left, Real, Some(Real)),
            (Eq, Side::Left, Jsonb, Some(Jsonb)),
            (Plus, Side::Right, Timestamp, Some(Interval)),
            (Plus, Side::Right, Int, Some(Int)),
            (StringConcat, Side::Left, Int, Some(Text)),
            (StringConcat, Side::Right, Bytea, Some(Bytea)),
            (StringConcat, Side::Right, Jsonb, Some(Jsonb)),
            (AtArrow, Side::Right, Jsonb, Some(Jsonb)),
            (AtArrow, Side::Right, Text, None),
            (PGOverlap, Side::Right, Int, None),
            (Minus, Side::Right, Jsonb, Some(Text)),
            (Arrow, Side::Right, Jsonb, None),
            (PGRegexMatch, Side::Right, Text, Some(Text)),
            (PGExp, Side::Right, Int, Some(ColumnType::Double)),
            (PGBitwiseShiftLeft, Side::Right, BigInt, Some(Int)),
            (PGBitwiseShiftLeft, Side::Left, BigInt, Some(BigInt)),
        ];
        for (operator, side, other, ty) in cases {
            assert_eq!(of_parameter(&operator, side, other), ty, "{side:?} of {operator} beside {other}");
        }
    }

    #[test]
    fn choices_and_several_places_say_what_a_parameter_is() {
        let numeric = |precision, scale| ColumnType::Numeric { precision, scale };
        assert_eq!(among(&[DataType::Utf8, DataType::Date32]), Some(DataType::Date32));
        assert_eq!(among(&[]), None);
        assert_eq!(of_both(ColumnType::Date, ColumnType::Interval), ColumnType::Date);
        assert_eq!(of_both(numeric(20, 2), numeric(20, 4)), numeric(22, 4));
        assert_eq!(of_both(numeric(38, 10), numeric(38, 14)), numeric(38, 14));
    }

    #[test]
    fn a_numeric_parameter_has_digits_of_its_own() {
        let numeric = |precision, scale| ColumnType::Numeric { precision, scale };
        assert_eq!(beside(numeric(10, 2)), numeric(38, 10));
        assert_eq!(beside(numeric(24, 14)), numeric(38, 14));
        assert_eq!(beside(numeric(38, 0)), numeric(38, 0));
        assert_eq!(beside(ColumnType::Int), ColumnType::Int);
        assert_eq!(read_as(ColumnType::Varchar(3)), ColumnType::Text);
        assert_eq!(read_as(ColumnType::Bit(Some(3))), ColumnType::Bit(None));
    }
}
