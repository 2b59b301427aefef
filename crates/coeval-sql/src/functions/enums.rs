// SPDX-License-Identifier: Apache-2.0
//! `enum_first`, `enum_last`, `enum_range`: the labels of an enum type, which is that of the arguments, NULL or not.

use crate::constants::made_of;
use crate::error::{SqlError, SqlState};
use crate::types::{column_type_of_arrow, type_in_words};
use arrow::datatypes::{DataType, Field, FieldRef};
use coeval_store::{
    ColumnBuilder, ColumnType, ElementType, EnumType, ListEncoder, Value, ValueRef, value_at,
};
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};
use std::sync::Arc;

/// What is asked about the labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Question {
    /// The first of them.
    First,
    /// The last of them.
    Last,
    /// All of them, or those between two.
    Range,
}

impl Question {
    const fn name(self) -> &'static str {
        match self {
            Self::First => "enum_first",
            Self::Last => "enum_last",
            Self::Range => "enum_range",
        }
    }
}

/// The functions.
pub(super) fn functions() -> impl Iterator<Item = ScalarUDF> {
    [Question::First, Question::Last, Question::Range].into_iter().map(|question| {
        let signature = match question {
            Question::First | Question::Last => Signature::any(1, Volatility::Immutable),
            Question::Range => {
                Signature::one_of(vec![TypeSignature::Any(1), TypeSignature::Any(2)], Volatility::Immutable)
            }
        };
        ScalarUDF::new_from_impl(Labels { question, signature })
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Labels {
    question: Question,
    signature: Signature,
}

impl Labels {
    /// The type that the arguments are of.
    fn subject<'t>(&self, types: impl Iterator<Item = &'t DataType>) -> Result<EnumType, SqlError> {
        let mut found = None;
        for ty in types {
            match column_type_of_arrow(ty) {
                Some(ColumnType::Enum(ty)) if found.is_none_or(|known| known == ty) => found = Some(ty),
                // A bound without a type is of the other's.
                _ if ty.is_null() || ty.is_string() => {}
                _ => {
                    let (function, ty) = (self.question.name(), type_in_words(ty));
                    let message = format!("function {function}({ty}) does not exist");
                    return Err(SqlError::new(SqlState::UndefinedFunction, message)
                        .with_hint("It takes a value of an enum type, such as NULL::type."));
                }
            }
        }
        found.ok_or_else(|| {
            SqlError::new(SqlState::FeatureNotSupported, "could not determine actual enum type")
                .with_hint("Cast the argument: NULL::type.")
        })
    }

    fn result(&self, ty: EnumType) -> ColumnType {
        match self.question {
            Question::First | Question::Last => ColumnType::Enum(ty),
            Question::Range => ColumnType::Array(ElementType::Enum(ty)),
        }
    }
}

impl ScalarUDFImpl for Labels {
    fn name(&self) -> &str {
        self.question.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(self.result(self.subject(types.iter())?).arrow())
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types = arguments.arg_fields.iter().map(|field| field.data_type());
        let ty = self.result(self.subject(types)?).arrow();
        Ok(Arc::new(Field::new(self.question.name(), ty, true)))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let types: Vec<DataType> = arguments.args.iter().map(ColumnarValue::data_type).collect();
        let ty = self.subject(types.iter())?;
        made_of(&arguments.args, arguments.number_rows, |rows| {
            let bounds = arguments
                .args
                .iter()
                .map(|argument| {
                    let array = argument.to_array(rows)?;
                    Ok(crate::scalar::cast_function::cast_array(
                        &array,
                        ColumnType::Enum(ty),
                        chrono_tz::Tz::UTC,
                    )?)
                })
                .collect::<Result<Vec<_>>>()?;
            let mut builder = ColumnBuilder::new(self.result(ty), rows);
            for row in 0..rows {
                let bound = |index: usize| bounds.get(index).and_then(|array| value_at(array, row).as_i64());
                // With one argument only its type counts.
                let (first, last) = if bounds.len() == 1 { (None, None) } else { (bound(0), bound(1)) };
                builder.push(self.answer(ty, first, last).borrow());
            }
            Ok(builder.finish())
        })
    }
}

impl Labels {
    fn answer(&self, ty: EnumType, first: Option<i64>, last: Option<i64>) -> Value {
        let mut places = ty.def().labels.iter().map(|label| label.place);
        match self.question {
            Question::First => places.next().into(),
            Question::Last => places.next_back().into(),
            Question::Range => {
                let mut list = ListEncoder::default();
                places
                    .filter(|place| first.is_none_or(|first| first <= *place))
                    .filter(|place| last.is_none_or(|last| *place <= last))
                    .for_each(|place| list.push(ValueRef::Int64(place)));
                list.value()
            }
        }
    }
}
