// SPDX-License-Identifier: Apache-2.0
//! Expressions over rows, written down and read.

use super::codec::{Decoder, Encoder};
use super::known::{put_operator, take_operator};
use super::wire::{malformed, read, written};
use crate::query::LISTED_MAX;
use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{Field, Schema};
use datafusion::common::ScalarValue;
use datafusion::common::format::DEFAULT_CAST_OPTIONS;
use datafusion::common::metadata::FieldMetadata;
use datafusion::error::Result;
use datafusion::physical_expr::ScalarFunctionExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NotExpr,
};
use datafusion::physical_plan::PhysicalExpr;
use std::collections::HashSet;
use std::sync::Arc;

const COLUMN: u8 = 0;
const LITERAL: u8 = 1;
const BINARY: u8 = 2;
const NOT: u8 = 3;
const IS_NULL: u8 = 4;
const IS_NOT_NULL: u8 = 5;
const CAST: u8 = 6;
const IN_LIST: u8 = 7;
const LIKE: u8 = 8;
const CASE: u8 = 9;
const FUNCTION: u8 = 10;
const LISTED: u8 = 11;

/// The deepest expression that is: whoever reads it goes into it by recursion.
const DEPTH_MAX: usize = 200;

type Expression = Arc<dyn PhysicalExpr>;

impl Encoder<'_> {
    /// Writes an expression; `None` if it cannot be.
    pub(super) fn expression(&mut self, expression: &Expression) -> Option<()> {
        if self.depth >= DEPTH_MAX {
            return None;
        }
        self.depth += 1;
        let written = self.simple(expression);
        self.depth -= 1;
        written
    }

    pub(super) fn expressions<'e>(
        &mut self,
        mut all: impl ExactSizeIterator<Item = &'e Expression>,
    ) -> Option<()> {
        self.out.number(all.len());
        all.try_for_each(|one| self.expression(one))
    }

    fn simple(&mut self, expression: &Expression) -> Option<()> {
        if let Some(column) = expression.downcast_ref::<Column>() {
            self.out.byte(COLUMN);
            self.out.text(column.name());
            self.out.number(column.index());
            return Some(());
        }
        if let Some(literal) = expression.downcast_ref::<Literal>() {
            self.out.byte(LITERAL);
            return self.literal(literal);
        }
        if let Some(binary) = expression.downcast_ref::<BinaryExpr>() {
            self.out.byte(BINARY);
            put_operator(&mut self.out, *binary.op())?;
            self.expression(binary.left())?;
            return self.expression(binary.right());
        }
        let of_one = [
            (NOT, expression.downcast_ref::<NotExpr>().map(NotExpr::arg)),
            (IS_NULL, expression.downcast_ref::<IsNullExpr>().map(IsNullExpr::arg)),
            (IS_NOT_NULL, expression.downcast_ref::<IsNotNullExpr>().map(IsNotNullExpr::arg)),
        ];
        if let Some((kind, argument)) = of_one.into_iter().find_map(|(kind, one)| Some((kind, one?))) {
            self.out.byte(kind);
            return self.expression(argument);
        }
        self.compound(expression)
    }

    fn compound(&mut self, expression: &Expression) -> Option<()> {
        if let Some(cast) = expression.downcast_ref::<CastExpr>() {
            if *cast.cast_options() != DEFAULT_CAST_OPTIONS {
                return None;
            }
            self.out.byte(CAST);
            self.out.byte(u8::from(cast.has_explicit_metadata()));
            self.field(cast.target_field());
            return self.expression(cast.expr());
        }
        if let Some(list) = expression.downcast_ref::<InListExpr>() {
            if let Some(values) = constants(list.list()) {
                return self.listed(list, values);
            }
            if list.list().len() > LISTED_MAX {
                return None;
            }
            self.out.byte(IN_LIST);
            self.out.byte(u8::from(list.negated()));
            self.expression(list.expr())?;
            return self.expressions(list.list().iter());
        }
        if let Some(like) = expression.downcast_ref::<LikeExpr>() {
            self.out.byte(LIKE);
            self.out.byte(u8::from(like.negated()));
            self.out.byte(u8::from(like.case_insensitive()));
            self.expression(like.expr())?;
            return self.expression(like.pattern());
        }
        if let Some(case) = expression.downcast_ref::<CaseExpr>() {
            self.out.byte(CASE);
            self.perhaps(case.expr())?;
            self.out.number(case.when_then_expr().len());
            for (when, then) in case.when_then_expr() {
                self.expression(when)?;
                self.expression(then)?;
            }
            return self.perhaps(case.else_expr());
        }
        let call = expression.downcast_ref::<ScalarFunctionExpr>()?;
        self.out.byte(FUNCTION);
        self.known.put_scalar(&mut self.out, call.fun())?;
        self.out.text(call.name());
        self.field(&call.return_field(&Schema::empty()).ok()?);
        self.expressions(call.args().iter())
    }

    /// Writes a list of constants.
    fn listed(&mut self, list: &InListExpr, values: ArrayRef) -> Option<()> {
        if values.len() > LISTED_MAX {
            return None;
        }
        let values = RecordBatch::try_from_iter([("values", values)]).ok()?;
        let values = written(values.schema_ref(), Some(&values)).ok()?;
        self.out.byte(LISTED);
        self.out.byte(u8::from(list.negated()));
        self.out.bytes(&values);
        self.expression(list.expr())
    }

    /// Writes an expression that need not be there.
    pub(super) fn perhaps(&mut self, expression: Option<&Expression>) -> Option<()> {
        self.out.byte(u8::from(expression.is_some()));
        expression.map_or(Some(()), |expression| self.expression(expression))
    }

    fn literal(&mut self, literal: &Literal) -> Option<()> {
        let described = literal.return_field(&Schema::empty()).ok()?;
        let field = Field::new("literal", literal.value().data_type(), true);
        let field = field.with_metadata(described.metadata().clone());
        let value = literal.value().to_array().ok()?;
        self.value(Arc::new(field), value);
        Some(())
    }
}

/// The values of a list, each once, if they are constants of one type.
#[allow(clippy::mutable_key_type, reason = "nobody changes what arrays in values point to")]
fn constants(list: &[Expression]) -> Option<ArrayRef> {
    let (mut seen, mut values) = (HashSet::new(), Vec::new());
    for one in list {
        let value = one.downcast_ref::<Literal>()?.value();
        if seen.insert(value) {
            values.push(value.clone());
        }
    }
    ScalarValue::iter_to_array(values).ok()
}

impl Decoder<'_> {
    /// Reads an expression over such columns.
    pub(super) fn expression(&mut self, schema: &Schema) -> Result<Expression> {
        if self.depth >= DEPTH_MAX {
            return Err(malformed("an expression is too deep").into());
        }
        self.depth += 1;
        let read = self.one(schema);
        self.depth -= 1;
        read
    }

    pub(super) fn expressions(&mut self, schema: &Schema) -> Result<Vec<Expression>> {
        let count = self.from.count()?;
        (0..count).map(|_| self.expression(schema)).collect()
    }

    fn one(&mut self, schema: &Schema) -> Result<Expression> {
        let read: Expression = match self.from.byte()? {
            COLUMN => {
                let (name, index) = (self.from.text()?, self.from.number()?);
                if index >= schema.fields().len() {
                    return Err(malformed("there is no such column").into());
                }
                Arc::new(Column::new(name, index))
            }
            LITERAL => self.literal()?,
            BINARY => {
                let operator = take_operator(&mut self.from)?;
                let left = self.expression(schema)?;
                Arc::new(BinaryExpr::new(left, operator, self.expression(schema)?))
            }
            NOT => Arc::new(NotExpr::new(self.expression(schema)?)),
            IS_NULL => Arc::new(IsNullExpr::new(self.expression(schema)?)),
            IS_NOT_NULL => Arc::new(IsNotNullExpr::new(self.expression(schema)?)),
            CAST => {
                let (is_explicit, field) = (self.flag()?, self.field()?);
                let input = self.expression(schema)?;
                Arc::new(if is_explicit {
                    CastExpr::new_with_target_field(input, field, None)
                } else {
                    CastExpr::new(input, field.data_type().clone(), None)
                })
            }
            IN_LIST => {
                let (is_negated, input) = (self.flag()?, self.expression(schema)?);
                Arc::new(InListExpr::try_new(input, self.expressions(schema)?, is_negated, schema)?)
            }
            LISTED => self.constants_listed(schema)?,
            LIKE => {
                let (is_negated, ignores_case) = (self.flag()?, self.flag()?);
                let input = self.expression(schema)?;
                Arc::new(LikeExpr::new(is_negated, ignores_case, input, self.expression(schema)?))
            }
            CASE => self.case(schema)?,
            FUNCTION => {
                let function = self.known.take_scalar(&mut self.from)?;
                let (name, field) = (self.from.text()?, self.field()?);
                let (arguments, options) = (self.expressions(schema)?, Arc::clone(&self.options));
                Arc::new(ScalarFunctionExpr::new(name, function, arguments, field, options))
            }
            _ => return Err(malformed("there is no such expression").into()),
        };
        Ok(read)
    }

    fn constants_listed(&mut self, schema: &Schema) -> Result<Expression> {
        let (is_negated, (_, values)) = (self.flag()?, read(self.from.bytes()?)?);
        let values = values.filter(|values| values.num_columns() == 1);
        let values = values.ok_or_else(|| malformed("a list has no values"))?;
        let input = self.expression(schema)?;
        let values = Arc::clone(values.column(0));
        Ok(Arc::new(InListExpr::try_new_from_array(input, values, is_negated, schema)?))
    }

    fn case(&mut self, schema: &Schema) -> Result<Expression> {
        let subject = self.perhaps(schema)?;
        let count = self.from.count()?;
        let branches = (0..count).map(|_| Ok((self.expression(schema)?, self.expression(schema)?)));
        let branches = branches.collect::<Result<Vec<_>>>()?;
        Ok(Arc::new(CaseExpr::try_new(subject, branches, self.perhaps(schema)?)?))
    }

    pub(super) fn perhaps(&mut self, schema: &Schema) -> Result<Option<Expression>> {
        Ok(if self.flag()? { Some(self.expression(schema)?) } else { None })
    }

    fn literal(&mut self) -> Result<Expression> {
        let (field, value) = self.value()?;
        let metadata = (!field.metadata().is_empty()).then(|| FieldMetadata::from(&*field));
        let value = ScalarValue::try_from_array(&value, 0)?;
        Ok(Arc::new(Literal::new_with_metadata(value, metadata)))
    }
}
