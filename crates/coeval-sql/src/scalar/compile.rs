// SPDX-License-Identifier: Apache-2.0
//! From an expression of the parser to a compiled one: names become places, types are inferred, operands are
//! brought to the types their operation needs.

mod aggregates;
mod functions;
mod operators;

pub(crate) use aggregates::{AggregateCall, AggregateFunction, AggregateScope, DistinctInput};
pub(crate) use operators::compare_op;

use super::cast::{self, Cast, CastPlan};
use super::datum::Datum;
use super::environment::{Environment, Inputs, NoRows};
use super::fallback::{Fallback, PlanExpressions};
use super::literal;
use super::node::{Node, Scalar};
use super::promotion::is_text;
use super::scope::Scope;
use crate::error::SqlError;
use crate::parameters::{ParameterTypes, beside, index_of_name, read_as};
use crate::parse::is_clock_word;
use crate::stack::with_room;
use crate::types::{self, CastContext, cannot_assign, has_cast};
use chrono_tz::Tz;
use coeval_store::{ColumnDef, ColumnType, SequenceDef, Value};
use datafusion::sql::sqlparser::ast::{self, Expr, Ident};
use std::sync::Arc;

/// Why an expression was not compiled.
#[derive(Clone, Debug)]
pub(crate) enum Refusal {
    /// It is, or may be, correct, but this compiler does not know it.
    Unsupported(String),
    /// It is wrong.
    Wrong(SqlError),
}

impl Refusal {
    pub(crate) fn unsupported(what: impl std::fmt::Display) -> Self {
        Self::Unsupported(what.to_string())
    }
}

impl From<SqlError> for Refusal {
    fn from(error: SqlError) -> Self {
        Self::Wrong(error)
    }
}

impl From<Refusal> for SqlError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Unsupported(what) => Self::unsupported(what),
            Refusal::Wrong(error) => error,
        }
    }
}

/// A compiled expression whose type may still be open: a text literal, NULL, a parameter.
#[derive(Clone, Debug)]
struct Typed {
    node: Node,
    ty: Option<ColumnType>,
}

impl Typed {
    fn known(node: Node, ty: ColumnType) -> Self {
        Self { node, ty: Some(ty) }
    }

    fn truth(node: Node) -> Self {
        Self::known(node, ColumnType::Boolean)
    }

    /// The same, which looks whether there is room on the stack before it is evaluated. What has no operands needs none.
    fn with_room(self) -> Self {
        if matches!(self.node, Node::Column { .. } | Node::Parameter(_) | Node::Constant(_)) {
            return self;
        }
        Self { node: Node::WithRoom(Box::new(self.node)), ty: self.ty }
    }
}

/// So many operations within each other are evaluated without a look at the room on the stack: most expressions have fewer, and the look
/// would cost each row some nanoseconds.
const LEVELS_WITHOUT_LOOK: usize = 8;

/// Compiles the expressions of one statement.
pub(crate) struct Compiler<'s> {
    scope: &'s Scope,
    parameters: &'s mut ParameterTypes,
    aggregates: Option<&'s mut AggregateScope>,
    fallback: Option<&'s dyn PlanExpressions>,
    sequences: Option<&'s SequenceNames<'s>>,
    /// How many expressions there are around the one that is compiled.
    depth: usize,
}

/// Finds the sequence that a name in `nextval('name')` stands for.
pub(crate) type SequenceNames<'s> = dyn Fn(&str) -> Option<Arc<SequenceDef>> + 's;

impl<'s> Compiler<'s> {
    /// A compiler over the names of a scope; it notes what it learns about parameters.
    pub(crate) fn new(scope: &'s Scope, parameters: &'s mut ParameterTypes) -> Self {
        Self { scope, parameters, aggregates: None, fallback: None, sequences: None, depth: 0 }
    }

    /// The same, knowing sequences by name.
    #[must_use]
    pub(crate) fn with_sequences(mut self, sequences: &'s SequenceNames<'s>) -> Self {
        self.sequences = Some(sequences);
        self
    }

    /// The same, handing what it does not know to DataFusion, by way of this planner.
    #[must_use]
    pub(crate) fn with_fallback(mut self, planner: &'s dyn PlanExpressions) -> Self {
        self.fallback = Some(planner);
        self
    }

    /// The same for expressions over groups: aggregate calls are collected, columns must be grouped by.
    #[must_use]
    pub(crate) fn over_groups(mut self, aggregates: &'s mut AggregateScope) -> Self {
        self.aggregates = Some(aggregates);
        self
    }

    /// Compiles an expression for its value; an open type becomes text.
    ///
    /// # Errors
    /// If the expression is wrong, or not known here.
    pub(crate) fn scalar(&mut self, expression: &Expr) -> Result<Scalar, Refusal> {
        let typed = self.top(expression)?;
        let (node, ty) = self.settle(typed, ColumnType::Text)?;
        Ok(Scalar { node, ty })
    }

    /// Compiles an expression whose open type, if it has one, becomes this one.
    ///
    /// # Errors
    /// As [`Self::scalar`].
    pub(crate) fn scalar_like(&mut self, expression: &Expr, ty: ColumnType) -> Result<Scalar, Refusal> {
        let typed = self.top(expression)?;
        let (node, ty) = self.settle_beside(typed, ty)?;
        Ok(Scalar { node, ty })
    }

    /// Compiles that two values are equal.
    ///
    /// # Errors
    /// If their types are not compared here.
    pub(crate) fn equality(&mut self, left: &Scalar, right: &Scalar) -> Result<Scalar, Refusal> {
        let side = |scalar: &Scalar| Typed::known(scalar.node.clone(), scalar.ty);
        let equal = self.comparison(super::compare::CompareOp::Equal, side(left), side(right))?;
        Ok(Scalar { node: equal.node, ty: ColumnType::Boolean })
    }

    /// Compiles a condition.
    ///
    /// # Errors
    /// As [`Self::scalar`]; 42804 if it is not boolean.
    pub(crate) fn condition(&mut self, expression: &Expr) -> Result<Scalar, Refusal> {
        let typed = self.top(expression)?;
        let (node, ty) = self.settle(typed, ColumnType::Boolean)?;
        if ty != ColumnType::Boolean {
            return Err(types::no_condition("WHERE", &types::type_name(ty)).into());
        }
        Ok(Scalar { node, ty })
    }

    /// Compiles an expression to be stored in a column, its assignment cast included.
    ///
    /// # Errors
    /// As [`Self::scalar`]; 42804 if the column cannot take its type.
    pub(crate) fn assignment(&mut self, expression: &Expr, column: &ColumnDef) -> Result<Scalar, Refusal> {
        let typed = self.top(expression)?;
        let (node, from) = self.settle(typed, column.ty)?;
        let node = self.cast(node, from, column.ty, CastContext::Assignment).map_err(|refusal| {
            // A cast that there is may still refuse a constant.
            let exists = has_cast(from, column.ty, CastContext::Assignment);
            if exists || matches!(refusal, Refusal::Wrong(_)) {
                return refusal;
            }
            cannot_assign(&column.name, column.ty, from).into()
        })?;
        Ok(Scalar { node, ty: column.ty })
    }

    fn top(&mut self, expression: &Expr) -> Result<Typed, Refusal> {
        match (self.expression(expression), self.fallback) {
            (Err(Refusal::Unsupported(_)), Some(planner)) => {
                let mut compile = |input: &Expr| {
                    let Typed { node, ty } = self.expression(input)?;
                    Ok(ty.map(|ty| Scalar { node, ty }))
                };
                let fallback = Fallback::new(expression, planner, &mut compile)?;
                let ty = fallback.ty();
                Ok(Typed::known(Node::Fallback(Arc::new(fallback)), ty))
            }
            (result, _) => result,
        }
    }

    fn expression(&mut self, expression: &Expr) -> Result<Typed, Refusal> {
        self.depth += 1;
        let compiled = with_room(|| self.one_expression(expression));
        self.depth -= 1;
        let is_deep = self.depth > 0 && self.depth.is_multiple_of(LEVELS_WITHOUT_LOOK);
        compiled.map(|typed| if is_deep { typed.with_room() } else { typed })
    }

    fn one_expression(&mut self, expression: &Expr) -> Result<Typed, Refusal> {
        if let Some(typed) = self.group_key(expression) {
            return Ok(typed);
        }
        match expression {
            Expr::Identifier(ident) => self.column(std::slice::from_ref(ident)),
            Expr::CompoundIdentifier(parts) => self.column(parts),
            Expr::Nested(inner) => self.expression(inner),
            Expr::Value(value) => self.literal(&value.value),
            Expr::TypedString(typed) => self.typed_string(typed),
            Expr::Cast {
                kind: ast::CastKind::Cast | ast::CastKind::DoubleColon,
                expr,
                data_type,
                array: false,
                format: None,
            } => self.explicit_cast(expr, data_type),
            Expr::Function(function) => self.function(function),
            Expr::Substring { .. } | Expr::Trim { .. } => self.special_function(expression),
            Expr::Case { operand, conditions, else_result, .. } => {
                self.case(operand.as_deref(), conditions, else_result.as_deref())
            }
            _ => self.operator(expression),
        }
    }

    fn column(&mut self, parts: &[Ident]) -> Result<Typed, Refusal> {
        let found = self.scope.resolve(parts)?;
        let node = Node::Column { table: found.table, column: found.column };
        if let Some(aggregates) = &self.aggregates {
            return aggregates
                .key_of_column(found.table, found.column)
                .map(|key| Typed::known(key, found.ty))
                .ok_or_else(|| Refusal::unsupported("a column outside aggregates"));
        }
        Ok(Typed::known(node, found.ty))
    }

    fn literal(&mut self, value: &ast::Value) -> Result<Typed, Refusal> {
        match value {
            ast::Value::Number(text, _) => {
                let (value, ty) = literal::number(text)?;
                Ok(Typed::known(Node::Constant(value), ty))
            }
            ast::Value::SingleQuotedString(text) | ast::Value::EscapedStringLiteral(text) => {
                Ok(Typed { node: Node::Constant(Value::Text(text.as_str().into())), ty: None })
            }
            ast::Value::DollarQuotedString(text) => {
                Ok(Typed { node: Node::Constant(Value::Text(text.value.as_str().into())), ty: None })
            }
            ast::Value::SingleQuotedByteStringLiteral(digits) => bits(&format!("b{digits}")),
            ast::Value::HexStringLiteral(digits) => bits(&format!("x{digits}")),
            ast::Value::Boolean(truth) => Ok(Typed::truth(Node::Constant(Value::Boolean(*truth)))),
            ast::Value::Null => Ok(Typed { node: Node::Constant(Value::Null), ty: None }),
            ast::Value::Placeholder(name) => {
                let index =
                    index_of_name(name).ok_or_else(|| Refusal::unsupported(format!("parameter {name}")))?;
                Ok(Typed { node: Node::Parameter(index), ty: self.parameters.mention(index) })
            }
            other => Err(Refusal::unsupported(format!("literal {other}"))),
        }
    }

    fn typed_string(&mut self, typed: &ast::TypedString) -> Result<Typed, Refusal> {
        refuse_digits(&typed.data_type)?;
        let ty = match typed.data_type {
            // A literal has all of its bits, where the same type of a column has one.
            ast::DataType::Bit(None) => ColumnType::Bit(None),
            _ => types::column_type(&typed.data_type)?,
        };
        match typed.value.value.clone().into_string() {
            Some(text) => {
                let literal = Typed { node: Node::Constant(Value::Text(text.into())), ty: None };
                let (node, from) = self.settle(literal, ty)?;
                Ok(Typed::known(self.cast(node, from, ty, CastContext::Explicit)?, ty))
            }
            None => Err(Refusal::unsupported("this literal")),
        }
    }

    fn explicit_cast(&mut self, expression: &Expr, data_type: &ast::DataType) -> Result<Typed, Refusal> {
        if matches!(data_type, ast::DataType::Regclass) {
            // Names of objects are their text.
            return self.expression(expression);
        }
        refuse_digits(data_type)?;
        let ty = types::column_type(data_type)?;
        let unconstrained = matches!(data_type, ast::DataType::Numeric(info) | ast::DataType::Decimal(info) | ast::DataType::Dec(info)
            if *info == ast::ExactNumberInfo::None);
        let typed = self.expression(expression)?;
        if unconstrained
            && typed.ty.is_none()
            && let Node::Constant(Value::Text(text)) = &typed.node
        {
            let (value, ty) = number_of_text(text)?;
            return Ok(Typed::known(Node::Constant(value), ty));
        }
        let (node, from) = self.settle(typed, ty)?;
        if unconstrained {
            // `numeric` without a precision keeps the digits that are there.
            return match super::promotion::decimal_shape(from) {
                Some((precision, scale)) => {
                    let kept = super::promotion::numeric(precision, scale);
                    Ok(Typed::known(self.cast(node, from, kept, CastContext::Explicit)?, kept))
                }
                None => Ok(Typed::known(self.cast(node, from, ty, CastContext::Explicit)?, ty)),
            };
        }
        Ok(Typed::known(self.cast(node, from, ty, CastContext::Explicit)?, ty))
    }

    fn case(
        &mut self,
        operand: Option<&Expr>,
        conditions: &[ast::CaseWhen],
        otherwise: Option<&Expr>,
    ) -> Result<Typed, Refusal> {
        let mut tests = Vec::with_capacity(conditions.len());
        let mut results = Vec::with_capacity(conditions.len() + 1);
        for branch in conditions {
            let test = match operand {
                None => self.expression(&branch.condition)?,
                Some(operand) => {
                    let (left, right) = (self.case_operand(operand)?, self.expression(&branch.condition)?);
                    self.comparison(super::compare::CompareOp::Equal, left, right)?
                }
            };
            tests.push(self.settle_truth(test)?);
            results.push(self.expression(&branch.result)?);
        }
        if let Some(otherwise) = otherwise {
            results.push(self.expression(otherwise)?);
        }
        let (mut results, ty) = self.unify(results)?;
        let otherwise = otherwise.map(|_| Box::new(results.pop().expect("ELSE was pushed last")));
        let branches = tests.into_iter().zip(results).collect();
        Ok(Typed::known(Node::Case { branches, otherwise }, ty))
    }

    /// What stands behind CASE: a literal is a text there, whatever it is compared with.
    fn case_operand(&mut self, operand: &Expr) -> Result<Typed, Refusal> {
        let typed = self.expression(operand)?;
        let is_literal = typed.ty.is_none() && matches!(typed.node, Node::Constant(Value::Text(_)));
        Ok(if is_literal { Typed::known(typed.node, ColumnType::Text) } else { typed })
    }

    /// Gives a condition that was compiled its boolean type.
    fn settle_truth(&mut self, typed: Typed) -> Result<Node, Refusal> {
        let (node, ty) = self.settle(typed, ColumnType::Boolean)?;
        if ty != ColumnType::Boolean {
            return Err(Refusal::unsupported(format!("{ty} as a condition")));
        }
        Ok(node)
    }

    /// Brings alternatives to the one type they have in common.
    fn unify(&mut self, alternatives: Vec<Typed>) -> Result<(Vec<Node>, ColumnType), Refusal> {
        let mut ty: Option<ColumnType> = None;
        for known in alternatives.iter().filter_map(|alternative| alternative.ty) {
            ty = Some(match ty {
                None => known,
                Some(so_far) => common_type_here(so_far, known)?,
            });
        }
        let mut ty = ty.unwrap_or(ColumnType::Text);
        let mut settled = Vec::with_capacity(alternatives.len());
        for alternative in alternatives {
            let (node, from) = self.settle_beside(alternative, ty)?;
            ty = common_type_here(ty, from)?;
            settled.push((node, from));
        }
        let nodes = settled.into_iter().map(|(node, from)| self.cast(node, from, ty, CastContext::Explicit));
        Ok((nodes.collect::<Result<_, _>>()?, ty))
    }

    /// As [`Self::settle`], of what stands beside something of this type: a parameter has digits of its own.
    fn settle_beside(&mut self, typed: Typed, ty: ColumnType) -> Result<(Node, ColumnType), Refusal> {
        let is_parameter = matches!(typed.node, Node::Parameter(_));
        self.settle(typed, if is_parameter { beside(ty) } else { ty })
    }

    /// Gives an open type this type: a literal is read as one, a parameter becomes one.
    fn settle(&mut self, typed: Typed, ty: ColumnType) -> Result<(Node, ColumnType), Refusal> {
        if let Some(known) = typed.ty {
            return Ok((typed.node, known));
        }
        match typed.node {
            node if matches!(ty, ColumnType::Char(_)) => {
                if let Node::Parameter(index) = node {
                    self.parameters.fix(index, read_as(ty));
                }
                // Against a char(n), trailing blanks do not count.
                let cast = Cast::TrimBlanks;
                Ok((Node::Cast { input: Box::new(node), cast }, ColumnType::Text))
            }
            Node::Parameter(index) => {
                let ty = self.parameters.fix(index, read_as(ty));
                Ok((Node::Parameter(index), ty))
            }
            Node::Constant(Value::Text(text)) if is_text(ty) => {
                Ok((Node::Constant(Value::Text(text)), ColumnType::Text))
            }
            // In each transaction it is another value.
            Node::Constant(Value::Text(text)) if is_clock_word(&text, ty) => {
                Err(Refusal::unsupported(format!("'{text}' here")))
            }
            Node::Constant(Value::Text(text)) if is_zoned(ty) => {
                // What the text means depends on the session's time zone, so it is read at each run.
                let cast = Cast::General { from: ColumnType::Text, to: ty };
                Ok((Node::Cast { input: Box::new(Node::Constant(Value::Text(text))), cast }, ty))
            }
            Node::Constant(Value::Text(text)) => {
                let (value, ty) = match ty {
                    ColumnType::Numeric { .. } => number_of_text(&text)?,
                    ty => {
                        let ty = read_as(ty);
                        (types::parse_value(&text, ty, Tz::UTC)?, ty)
                    }
                };
                Ok((Node::Constant(value), ty))
            }
            node => Ok((node, ty)),
        }
    }

    fn cast(
        &self,
        node: Node,
        from: ColumnType,
        to: ColumnType,
        context: CastContext,
    ) -> Result<Node, Refusal> {
        let cast = match cast::plan(from, to, context) {
            CastPlan::None => return Ok(node),
            CastPlan::Do(cast) => cast,
            CastPlan::Refused => return Err(Refusal::unsupported(format!("cast from {from} to {to}"))),
        };
        let depends_on_zone = matches!(cast, Cast::General { from, to } if is_zoned(from) || is_zoned(to));
        match node {
            Node::Constant(Value::Null) => Ok(Node::Constant(Value::Null)),
            Node::Constant(_) if !depends_on_zone => {
                let node = Node::Cast { input: Box::new(node), cast };
                let inputs = Inputs { rows: &NoRows, parameters: &[], environment: &Nowhere };
                // A constant that does not fit is an error of the run, as on the other path.
                let folded = node.eval(inputs).ok().map(Datum::into_value);
                Ok(folded.map_or(node, Node::Constant))
            }
            node => Ok(Node::Cast { input: Box::new(node), cast }),
        }
    }
}

/// A bit string from its digits, behind the letter of their base.
fn bits(digits: &str) -> Result<Typed, Refusal> {
    let kept = Value::Bytes(types::read_bits(digits)?.into());
    Ok(Typed::known(Node::Constant(kept), ColumnType::Bit(None)))
}

/// The number that a text without a type is, with the digits that are written there; one that has too many for a `numeric` with digits, or is
/// none, without.
fn number_of_text(text: &str) -> Result<(Value, ColumnType), SqlError> {
    literal::decimal(text).or_else(|_| {
        let ty = ColumnType::AnyNumeric;
        Ok((types::parse_value(text, ty, Tz::UTC)?, ty))
    })
}

/// The one type of two, but for arrays, which are not always compared where they have one, and for instants, which depend on a zone.
fn common_type_here(left: ColumnType, right: ColumnType) -> Result<ColumnType, Refusal> {
    types::common_type(left, right)
        .filter(|ty| left == right || !(matches!(ty, ColumnType::Array(_)) || is_zoned(*ty)))
        .ok_or_else(|| Refusal::unsupported(format!("{left} beside {right}")))
}

/// Casts here keep all digits of seconds, and all fields of an interval.
fn refuse_digits(ty: &ast::DataType) -> Result<(), Refusal> {
    use ast::DataType::{Interval, Time, Timestamp};
    match ty {
        Timestamp(Some(_), _) | Time(Some(_), _) | Interval { precision: Some(_), .. } => {
            Err(Refusal::unsupported("rounding to digits of seconds"))
        }
        Interval { fields: Some(_), .. } => Err(Refusal::unsupported("an interval of some fields")),
        _ => Ok(()),
    }
}

/// Whether the session's zone says which values texts stand for.
fn is_zoned(ty: ColumnType) -> bool {
    match ty {
        ColumnType::Array(element) => is_zoned(element.column_type()),
        ty => matches!(ty, ColumnType::TimestampTz | ColumnType::TimeTz),
    }
}

/// Where constants are folded: nothing there depends on the statement.
struct Nowhere;

impl Environment for Nowhere {
    fn transaction_time(&self) -> i64 {
        0
    }

    fn zone(&self) -> Tz {
        Tz::UTC
    }

    fn next_value(&self, _sequence: &SequenceDef) -> Result<i64, SqlError> {
        Err(SqlError::internal("a constant has asked for a sequence"))
    }
}
