// SPDX-License-Identifier: Apache-2.0
//! Operators: arithmetic, comparisons, logic, `IN`, `BETWEEN`, `LIKE`, `||`.

use super::{Compiler, Refusal, Typed, common_type_here};
use crate::cancel;
use crate::scalar::arithmetic::ArithmeticOp;
use crate::scalar::cast::Cast;
use crate::scalar::compare::CompareOp;
use crate::scalar::literal;
use crate::scalar::members::Members;
use crate::scalar::node::{LetterCase, LikeStyle, Node, Polarity, Scalar, Scaling, Test};
use crate::scalar::promotion::{
    self, decimal_shape, is_document, is_float, is_integer, is_number, is_text, is_text_array, power_of_ten,
};
use crate::stack::with_room;
use crate::types::CastContext;
use coeval_store::ColumnType;
use datafusion::sql::sqlparser::ast::{self, BinaryOperator, Expr, UnaryOperator};
use std::sync::Arc;

/// An expression whose type is known.
type Settled = (Node, ColumnType);

/// Each member of an IN list is kept as an expression, with its text for EXPLAIN. A longer list is DataFusion's, which keeps an
/// array.
const LISTED_MAX: usize = 100_000;
/// Members that are evaluated and compared one after the other, as they are no constants.
const EVALUATED_MAX: usize = 10_000;

impl Compiler<'_> {
    pub(super) fn operator(&mut self, expression: &Expr) -> Result<Typed, Refusal> {
        match expression {
            Expr::BinaryOp { left, op, right } => self.binary(left, op, right),
            Expr::UnaryOp { op, expr } => self.unary(*op, expr),
            Expr::IsNull(input) => self.is(input, Test::Null),
            Expr::IsNotNull(input) => self.is(input, Test::NotNull),
            Expr::IsUnknown(input) => self.is_truth(input, Test::Null),
            Expr::IsNotUnknown(input) => self.is_truth(input, Test::NotNull),
            Expr::IsTrue(input) => self.is_truth(input, Test::True),
            Expr::IsNotTrue(input) => self.is_truth(input, Test::NotTrue),
            Expr::IsFalse(input) => self.is_truth(input, Test::False),
            Expr::IsNotFalse(input) => self.is_truth(input, Test::NotFalse),
            Expr::IsDistinctFrom(left, right) => self.distinct(left, right, Polarity::Plain),
            Expr::IsNotDistinctFrom(left, right) => self.distinct(left, right, Polarity::Negated),
            Expr::Between { expr, negated, low, high } => {
                self.between(expr, low, high, Polarity::of(negated))
            }
            Expr::InList { expr, list, negated } => self.in_list(expr, list, Polarity::of(negated)),
            Expr::Like { negated, any: false, expr, pattern, escape_char } => {
                let style =
                    LikeStyle { escape: escape(escape_char.as_ref())?, letters: LetterCase::Sensitive };
                self.like(expr, pattern, style, Polarity::of(negated))
            }
            Expr::ILike { negated, any: false, expr, pattern, escape_char } => {
                let style = LikeStyle { escape: escape(escape_char.as_ref())?, letters: LetterCase::Ignored };
                self.like(expr, pattern, style, Polarity::of(negated))
            }
            other => Err(Refusal::unsupported(other)),
        }
    }

    fn binary(&mut self, left: &Expr, op: &BinaryOperator, right: &Expr) -> Result<Typed, Refusal> {
        match op {
            BinaryOperator::And => {
                let mut conditions = Vec::new();
                self.conjuncts(left, &mut conditions)?;
                self.conjuncts(right, &mut conditions)?;
                return Ok(Typed::truth(Node::And(conditions.into())));
            }
            BinaryOperator::Or => {
                let left = self.expression(left)?;
                let right = self.expression(right)?;
                let sides = [self.settle_truth(left)?, self.settle_truth(right)?];
                return Ok(Typed::truth(Node::Or(Box::new(sides))));
            }
            _ => {}
        }
        let left = self.expression(left)?;
        let right = self.expression(right)?;
        if let Some(op) = compare_op(op) {
            return self.comparison(op, left, right);
        }
        match op {
            BinaryOperator::Plus => self.arithmetic(ArithmeticOp::Add, left, right),
            BinaryOperator::Minus => self.arithmetic(ArithmeticOp::Subtract, left, right),
            BinaryOperator::Multiply => self.arithmetic(ArithmeticOp::Multiply, left, right),
            BinaryOperator::Divide => self.arithmetic(ArithmeticOp::Divide, left, right),
            BinaryOperator::Modulo => self.arithmetic(ArithmeticOp::Remainder, left, right),
            BinaryOperator::StringConcat => self.concat(left, right),
            other => Err(Refusal::unsupported(format!("operator {other}"))),
        }
    }

    fn conjuncts(&mut self, expression: &Expr, conditions: &mut Vec<Node>) -> Result<(), Refusal> {
        if let Expr::BinaryOp { left, op: BinaryOperator::And, right } = expression {
            with_room(|| self.conjuncts(left, conditions))?;
            return self.conjuncts(right, conditions);
        }
        let typed = self.expression(expression)?;
        conditions.push(self.settle_truth(typed)?);
        Ok(())
    }

    fn unary(&mut self, op: UnaryOperator, input: &Expr) -> Result<Typed, Refusal> {
        match op {
            UnaryOperator::Not => {
                let typed = self.expression(input)?;
                Ok(Typed::truth(Node::Not(Box::new(self.settle_truth(typed)?))))
            }
            UnaryOperator::Minus => {
                if let Expr::Value(value) = input
                    && let ast::Value::Number(text, _) = &value.value
                {
                    let (value, ty) = literal::number(&format!("-{text}"))?;
                    return Ok(Typed::known(Node::Constant(value), ty));
                }
                let typed = self.expression(input)?;
                match typed.ty {
                    Some(ty) if is_number(ty) => Ok(Typed::known(Node::Negate(Box::new(typed.node)), ty)),
                    _ => Err(Refusal::unsupported("this operand of -")),
                }
            }
            UnaryOperator::Plus => {
                let typed = self.expression(input)?;
                if typed.ty.is_some_and(is_number) { Ok(typed) } else { Err(Refusal::unsupported("unary +")) }
            }
            other => Err(Refusal::unsupported(format!("operator {other}"))),
        }
    }

    fn arithmetic(&mut self, op: ArithmeticOp, left: Typed, right: Typed) -> Result<Typed, Refusal> {
        // What a literal is beside documents and times depends on the operator: a key, an interval.
        if let Some(ty) = [left.ty, right.ty].into_iter().flatten().find(|ty| !is_number(*ty)) {
            return Err(Refusal::unsupported(format!("{op:?} of {ty}")));
        }
        let ((left, left_type), (right, right_type)) = self.settle_pair(left, right)?;
        let Some((ty, kind)) = promotion::arithmetic(op, left_type, right_type) else {
            return Err(Refusal::unsupported(format!("{left_type} {op:?} {right_type}")));
        };
        let (left, right) = if is_float(ty) {
            (self.as_float(left, left_type)?, self.as_float(right, right_type)?)
        } else {
            (left, right)
        };
        Ok(Typed::known(Node::Arithmetic { op, kind, left: Box::new(left), right: Box::new(right) }, ty))
    }

    /// Decimals become doubles; other numbers are widened by the operation itself.
    fn as_float(&self, node: Node, ty: ColumnType) -> Result<Node, Refusal> {
        if matches!(ty, ColumnType::Numeric { .. }) {
            self.cast(node, ty, ColumnType::Double, CastContext::Explicit)
        } else {
            Ok(node)
        }
    }

    /// Gives an open side the type of the other.
    fn settle_pair(&mut self, left: Typed, right: Typed) -> Result<(Settled, Settled), Refusal> {
        let (left_wish, right_wish) = (right.ty, left.ty);
        let left = self.settle_beside(left, left_wish.unwrap_or(ColumnType::Text))?;
        let right = self.settle_beside(right, right_wish.unwrap_or(ColumnType::Text))?;
        Ok((left, right))
    }

    pub(super) fn comparison(&mut self, op: CompareOp, left: Typed, right: Typed) -> Result<Typed, Refusal> {
        let (left, right) = self.settle_pair(left, right)?;
        let (left, right, scaling) = self.comparable(left, right)?;
        Ok(Typed::truth(Node::Compare { op, scaling, left: Box::new(left), right: Box::new(right) }))
    }

    /// Brings two sides to where they can be compared.
    fn comparable(
        &self,
        (left, left_type): (Node, ColumnType),
        (right, right_type): (Node, ColumnType),
    ) -> Result<(Node, Node, Scaling), Refusal> {
        let same = left_type == right_type && !is_document(left_type);
        if is_text(left_type) && is_text(right_type) {
            let left = beside_text(left, left_type, right_type);
            return Ok((left, beside_text(right, right_type, left_type), Scaling::Same));
        }
        if same
            || (is_integer(left_type) && is_integer(right_type))
            || (left_type.is_bits() && right_type.is_bits())
            || (is_text_array(left_type) && is_text_array(right_type))
        {
            return Ok((left, right, Scaling::Same));
        }
        let has_digits = |ty| is_number(ty) || ty == ColumnType::AnyNumeric;
        if has_digits(left_type) && has_digits(right_type) {
            if is_float(left_type) || is_float(right_type) {
                let left = self.cast(left, left_type, ColumnType::Double, CastContext::Explicit)?;
                let right = self.cast(right, right_type, ColumnType::Double, CastContext::Explicit)?;
                return Ok((left, right, Scaling::Same));
            }
            if let (Some((_, left_scale)), Some((_, right_scale))) =
                (decimal_shape(left_type), decimal_shape(right_type))
            {
                let scale = left_scale.max(right_scale);
                if let (Some(left_factor), Some(right_factor)) =
                    (power_of_ten(scale - left_scale), power_of_ten(scale - right_scale))
                {
                    return Ok((left, right, Scaling::Factors(left_factor, right_factor)));
                }
            }
        }
        if let Ok(ty) = common_type_here(left_type, right_type)
            && !is_document(ty)
        {
            let left = self.cast(left, left_type, ty, CastContext::Explicit)?;
            let right = self.cast(right, right_type, ty, CastContext::Explicit)?;
            return Ok((left, right, Scaling::Same));
        }
        Err(Refusal::unsupported(format!("comparison of {left_type} and {right_type}")))
    }

    /// As [`Self::unify`], of what is compared: a `real` beside another number is a `double precision` then.
    fn unify_compared(&mut self, mut sides: Vec<Typed>) -> Result<Vec<Node>, Refusal> {
        let types = || sides.iter().filter_map(|side| side.ty);
        if types().any(|ty| ty == ColumnType::Real) && types().any(|ty| ty != ColumnType::Real) {
            let widened = sides.into_iter().map(|side| match side.ty {
                Some(ty) if is_number(ty) => {
                    let node = self.cast(side.node, ty, ColumnType::Double, CastContext::Explicit)?;
                    Ok::<_, Refusal>(Typed::known(node, ColumnType::Double))
                }
                _ => Ok(side),
            });
            sides = widened.collect::<Result<_, _>>()?;
        }
        let mut known = sides.iter().filter_map(|side| side.ty);
        if let Some(other) = known.find(|ty| matches!(ty, ColumnType::Char(_))) {
            let beside = |side: Typed| match side.ty {
                Some(ty) => Typed::known(beside_text(side.node, ty, other), ty),
                None => side,
            };
            sides = sides.into_iter().map(beside).collect();
        }
        let (nodes, ty) = self.unify(sides)?;
        if is_document(ty) {
            return Err(Refusal::unsupported(format!("comparison of {ty}")));
        }
        Ok(nodes)
    }

    fn distinct(&mut self, left: &Expr, right: &Expr, polarity: Polarity) -> Result<Typed, Refusal> {
        let sides = vec![self.expression(left)?, self.expression(right)?];
        let mut nodes = self.unify_compared(sides)?;
        let right = Box::new(nodes.pop().expect("two sides"));
        let left = Box::new(nodes.pop().expect("two sides"));
        Ok(Typed::truth(Node::Distinct { polarity, left, right }))
    }

    fn between(
        &mut self,
        input: &Expr,
        low: &Expr,
        high: &Expr,
        polarity: Polarity,
    ) -> Result<Typed, Refusal> {
        let (left, low) = (self.expression(input)?, self.expression(low)?);
        let from = self.comparison(CompareOp::GreaterOrEqual, left, low)?;
        let (left, high) = (self.expression(input)?, self.expression(high)?);
        let to = self.comparison(CompareOp::LessOrEqual, left, high)?;
        let both = Node::And(Box::new([from.node, to.node]));
        Ok(Typed::truth(if polarity == Polarity::Plain { both } else { Node::Not(Box::new(both)) }))
    }

    fn in_list(&mut self, input: &Expr, list: &[Expr], polarity: Polarity) -> Result<Typed, Refusal> {
        if list.len() > LISTED_MAX {
            return Err(Refusal::unsupported("so long a list"));
        }
        let mut sides = vec![self.expression(input)?];
        for candidate in list {
            cancel::check()?;
            sides.push(self.expression(candidate)?);
        }
        let mut nodes = self.unify_compared(self.with_reals(sides)?)?;
        let list = nodes.split_off(1);
        let input = Box::new(nodes.pop().expect("the input is first"));
        let node = match Members::of(&list) {
            Some(members) => Node::Among { input, members: Arc::new(members), polarity },
            None if list.len() > EVALUATED_MAX => return Err(Refusal::unsupported("so long a list")),
            None => Node::In { input, list: list.into(), polarity },
        };
        Ok(Typed::truth(node))
    }

    /// The operand of a list and its members, of which `numeric` constants are `real` if that is the type that several constants and the operand
    /// have in common.
    fn with_reals(&self, sides: Vec<Typed>) -> Result<Vec<Typed>, Refusal> {
        let constants = || sides[1..].iter().filter(|side| is_constant(side));
        let has = |ty: ColumnType| sides[..1].iter().chain(constants()).any(|side| side.ty == Some(ty));
        if constants().nth(1).is_none() || !has(ColumnType::Real) || has(ColumnType::Double) {
            return Ok(sides);
        }
        let is_numeric = |ty: &ColumnType| matches!(ty, ColumnType::Numeric { .. } | ColumnType::AnyNumeric);
        let as_meant = |(place, side): (usize, Typed)| match side.ty.filter(is_numeric) {
            Some(ty) if place > 0 && is_constant(&side) => {
                let node = self.cast(side.node, ty, ColumnType::Real, CastContext::Explicit)?;
                Ok::<_, Refusal>(Typed::known(node, ColumnType::Real))
            }
            _ => Ok(side),
        };
        sides.into_iter().enumerate().map(as_meant).collect()
    }

    fn like(
        &mut self,
        input: &Expr,
        pattern: &Expr,
        style: LikeStyle,
        polarity: Polarity,
    ) -> Result<Typed, Refusal> {
        let input = self.expression(input)?;
        if matches!(input.ty, Some(ColumnType::Char(_))) {
            return Err(Refusal::unsupported("patterns beside char(n), whose blanks count there"));
        }
        let (input, pattern) = (self.as_text(input)?, self.text(pattern)?);
        Ok(Typed::truth(Node::Like { input: Box::new(input), pattern: Box::new(pattern), style, polarity }))
    }

    /// An expression that must be text.
    pub(super) fn text(&mut self, expression: &Expr) -> Result<Node, Refusal> {
        let typed = self.expression(expression)?;
        self.as_text(typed)
    }

    fn as_text(&mut self, typed: Typed) -> Result<Node, Refusal> {
        let (node, ty) = self.settle(typed, ColumnType::Text)?;
        if is_text(ty) { Ok(node) } else { Err(Refusal::unsupported(format!("{ty} as text"))) }
    }

    fn concat(&mut self, left: Typed, right: Typed) -> Result<Typed, Refusal> {
        let is_no_text = |ty: ColumnType| {
            is_document(ty) || ty.is_bits() || matches!(ty, ColumnType::Array(_) | ColumnType::Bytea)
        };
        if left.ty.is_some_and(is_no_text) || right.ty.is_some_and(is_no_text) {
            return Err(Refusal::unsupported("|| of documents, arrays, bytes or bits"));
        }
        if !left.ty.is_none_or(is_text) && !right.ty.is_none_or(is_text) {
            return Err(Refusal::unsupported("|| without text"));
        }
        let mut parts = Vec::new();
        for side in [left, right] {
            let (node, ty) = self.settle(side, ColumnType::Text)?;
            match node.without_room() {
                Node::Concat(inner) => parts.extend(inner),
                node => parts.push(self.cast(node, ty, ColumnType::Text, CastContext::Explicit)?),
            }
        }
        Ok(Typed::known(Node::Concat(parts.into()), ColumnType::Text))
    }

    fn is(&mut self, input: &Expr, test: Test) -> Result<Typed, Refusal> {
        let typed = self.expression(input)?;
        let (node, _) = self.settle(typed, ColumnType::Text)?;
        Ok(Typed::truth(Node::Is { input: Box::new(node), test }))
    }

    fn is_truth(&mut self, input: &Expr, test: Test) -> Result<Typed, Refusal> {
        let typed = self.expression(input)?;
        let input = Box::new(self.settle_truth(typed)?);
        Ok(Typed::truth(Node::Is { input, test }))
    }
}

/// The comparison that an operator stands for.
pub(crate) fn compare_op(op: &BinaryOperator) -> Option<CompareOp> {
    Some(match op {
        BinaryOperator::Eq => CompareOp::Equal,
        BinaryOperator::NotEq => CompareOp::NotEqual,
        BinaryOperator::Lt => CompareOp::Less,
        BinaryOperator::LtEq => CompareOp::LessOrEqual,
        BinaryOperator::Gt => CompareOp::Greater,
        BinaryOperator::GtEq => CompareOp::GreaterOrEqual,
        _ => return None,
    })
}

const fn is_constant(side: &Typed) -> bool {
    matches!(side.node, Node::Constant(_))
}

/// A text that is compared with another one of this type. Against a `char(n)`, trailing blanks of a `varchar` and of a parameter do not
/// count, which become one in PostgreSQL; those of a text do.
fn beside_text(node: Node, ty: ColumnType, other: ColumnType) -> Node {
    let becomes_char = matches!(ty, ColumnType::Varchar(_)) || matches!(node, Node::Parameter(_));
    if !becomes_char || !matches!(other, ColumnType::Char(_)) {
        return node;
    }
    Node::Cast { input: Box::new(node), cast: Cast::TrimBlanks }
}

impl Scalar {
    /// The value as it is looked up in a column of this type, where it is compared with that: without the blanks that do not count,
    /// and an exact number as one without digits where the column has none.
    #[must_use]
    pub(crate) fn beside_column(self, column: ColumnType) -> Self {
        if column == ColumnType::AnyNumeric && decimal_shape(self.ty).is_some() {
            let cast = Cast::General { from: self.ty, to: column };
            return Self { node: Node::Cast { input: Box::new(self.node), cast }, ty: column };
        }
        if !is_text(self.ty) || !is_text(column) {
            return self;
        }
        Self { node: beside_text(self.node, self.ty, column), ty: self.ty }
    }
}

/// The escape character of a `LIKE`: a backslash unless given; an empty one switches escaping off.
fn escape(given: Option<&ast::ValueWithSpan>) -> Result<Option<char>, Refusal> {
    let Some(given) = given else { return Ok(Some('\\')) };
    let text = given.value.clone().into_string().ok_or_else(|| Refusal::unsupported("this ESCAPE"))?;
    let mut symbols = text.chars();
    match (symbols.next(), symbols.next()) {
        (None, _) => Ok(None),
        (Some(symbol), None) => Ok(Some(symbol)),
        _ => Err(Refusal::unsupported("an ESCAPE of several characters")),
    }
}
