// SPDX-License-Identifier: Apache-2.0
//! One operand that is compared with several: BETWEEN, IN with a list, CASE with an operand. Text literals among them become values of
//! the type of what they stand beside, and all are brought to types that compare.
//!
//! What a literal stands beside is
//!
//! - in a list with several members that name no column, the type that all of these and the operand have in common, if they have one,
//! - else the operand; if that is the literal, each of what it is compared with.
//!
//! Several members that name no column, and are numbers beside a `real`, are of that type: `r IN (0.1, 0.2)` finds what `r IN (0.1)` does not.

use super::arrays;
use super::beside::beside;
use super::comparable::comparable;
use super::comparisons::{Operand, is_text_literal, written};
use super::exact_types::is_any_numeric;
use super::reals::is_real;
use super::settle::settle;
use crate::query::float_zeros::without_sign;
use crate::scalar::cast_function::called;
use crate::types::{arrow_type_gives_way, require_common_type};
use arrow::datatypes::DataType;
use coeval_store::ColumnType;
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{Between, BinaryExpr, Expr, ExprSchemable, Operator, not};

/// BETWEEN with its operands of types that compare; `None` if it is right as it is.
///
/// # Errors
/// `42883` for what is not compared, and what is wrong with a literal.
pub(super) fn settle_between(between: &Between, schema: &DFSchema) -> Result<Option<Expr>> {
    let operators =
        if between.negated { [Operator::Lt, Operator::Gt] } else { [Operator::GtEq, Operator::LtEq] };
    let bounds = [between.low.as_ref(), between.high.as_ref()];
    if is_text_literal(&between.expr) && !bounds.iter().all(|bound| is_text_literal(bound)) {
        let [above, below] = operators;
        let (from, to) = (
            compared(&between.expr, above, &between.low, schema)?,
            compared(&between.expr, below, &between.high, schema)?,
        );
        return Ok(Some(if between.negated { from.or(to) } else { from.and(to) }));
    }
    let names = operators.map(written);
    let others = names.iter().map(String::as_str).zip(bounds);
    let own = Operand::of(&between.expr, schema);
    let settled = settle_operands((between.expr.as_ref(), own), others, schema)?;
    let is_of_arrays = matches!(between.expr.get_type(schema), Ok(DataType::List(_)));
    let operands = match settled {
        None if !is_of_arrays => return Ok(None),
        None => [&between.expr, &between.low, &between.high].map(|operand| operand.as_ref().clone()),
        Some(operands) => <[Expr; 3]>::try_from(operands).expect("as many operands as there were"),
    };
    let [input, low, high] = operands;
    if is_of_arrays {
        let between_them = arrays::between(input, low, high);
        return Ok(Some(if between.negated { not(between_them) } else { between_them }));
    }
    Ok(Some(Expr::Between(Between::new(Box::new(input), between.negated, Box::new(low), Box::new(high)))))
}

/// IN with its operands of types that compare; `None` if it is right as it is.
///
/// # Errors
/// `42883` for what is not compared, and what is wrong with a literal.
pub(super) fn settle_list(list: &InList, schema: &DFSchema) -> Result<Option<Expr>> {
    let operator = if list.negated { Operator::NotEq } else { Operator::Eq };
    let is_open = is_text_literal(&list.expr);
    let has_literals = is_open || list.list.iter().any(is_text_literal);
    let has_others = !list.list.iter().all(is_text_literal);
    let like = if has_literals && has_others { like_which(list, schema) } else { None };
    if is_open && has_others && like.is_none() {
        return one_by_one(list, operator, schema).map(Some);
    }
    let read = like.map(|like| with_read_literals(list, like, schema)).transpose()?;
    let list = read.as_ref().unwrap_or(list);
    let reals = with_reals(list, schema)?;
    let list = reals.as_ref().unwrap_or(list);
    let name = written(operator);
    let others = list.list.iter().map(|member| (name.as_str(), member));
    let settled = settle_operands((list.expr.as_ref(), Operand::of(&list.expr, schema)), others, schema)?;
    let settled = match settled {
        Some(mut operands) => {
            let input = operands.remove(0);
            Some(InList::new(Box::new(input), operands, list.negated))
        }
        None => reals.clone().or_else(|| read.clone()),
    };
    let settled = without_signs(settled.as_ref().unwrap_or(list)).or(settled);
    Ok(apart(settled.as_ref().unwrap_or(list)).or_else(|| settled.map(Expr::InList)))
}

/// The list with constants as `real`, if that is the type that several of them and the operand have in common: one of them is, and none
/// is a `double precision`. `None` of others. A single constant is compared as what it is.
fn with_reals(list: &InList, schema: &DFSchema) -> Result<Option<InList>> {
    let constants = || list.list.iter().filter(|member| !member.any_column_refs());
    if constants().nth(1).is_none() {
        return Ok(None);
    }
    let operands = std::iter::once(list.expr.as_ref()).chain(constants());
    let types: Vec<DataType> = operands.filter_map(|operand| operand.get_type(schema).ok()).collect();
    let is_number = |ty: &DataType| ty.is_numeric() || ty.is_null() || is_any_numeric(ty);
    let are_reals = types.iter().all(is_number)
        && types.contains(&DataType::Float32)
        && !types.contains(&DataType::Float64);
    if !are_reals {
        return Ok(None);
    }
    let mut changed = None;
    for (place, member) in list.list.iter().enumerate().filter(|(_, member)| !member.any_column_refs()) {
        let is_exact = |ty: DataType| ty.is_decimal() || is_any_numeric(&ty) || ty.is_integer();
        // Of integers that are the same as a `real` DataFusion makes them.
        if member.get_type(schema).is_ok_and(is_exact) && !is_real(member) {
            let real = called(member.clone(), ColumnType::Real)?;
            changed.get_or_insert_with(|| list.clone()).list[place] = real;
        }
    }
    Ok(changed)
}

/// The list with `0` in the place of each constant `-0`; `None` if it has none.
fn without_signs(list: &InList) -> Option<InList> {
    let mut changed = None;
    for (place, member) in list.list.iter().enumerate() {
        if let Some(zero) = without_sign(member) {
            changed.get_or_insert_with(|| list.clone()).list[place] = zero;
        }
    }
    changed
}

/// Whether a member of a list is the same for all rows. Each of the others is compared by itself.
pub(in crate::query) fn is_constant_member(member: &Expr) -> bool {
    let asks = member.exists(|part| {
        Ok(matches!(part, Expr::Column(_) | Expr::OuterReferenceColumn(..) | Expr::ScalarSubquery(_)))
    });
    !asks.unwrap_or(true) && !member.is_volatile()
}

/// The list as one of its constants, and a comparison with each other member; `None` if all members are constants.
///
/// DataFusion makes one list of two that are joined by AND or OR, of members that are written the same way: of `a IN (b, 1) AND
/// a IN (c, 1)` it makes `a IN (1)`, though `b` and `c` may have one value.
fn apart(list: &InList) -> Option<Expr> {
    if list.expr.is_volatile() || list.list.iter().all(is_constant_member) {
        return None;
    }
    let (constants, others): (Vec<_>, Vec<_>) = list.list.iter().cloned().partition(is_constant_member);
    let operator = if list.negated { Operator::NotEq } else { Operator::Eq };
    let compared = |member| Expr::BinaryExpr(BinaryExpr::new(list.expr.clone(), operator, Box::new(member)));
    let comparisons = others.into_iter().map(compared);
    let of_constants = (!constants.is_empty())
        .then(|| Expr::InList(InList::new(list.expr.clone(), constants, list.negated)));
    joined(of_constants.into_iter().chain(comparisons).collect(), operator)
}

/// What comparisons of an operand with the members of a list are, together; `None` if there is none: that any of them holds, or, of
/// NOT IN, all.
fn joined(mut conditions: Vec<Expr>, operator: Operator) -> Option<Expr> {
    let join = if operator == Operator::Eq { Expr::or } else { Expr::and };
    // Whoever walks over expressions goes as deep as they are: halves keep that low.
    while conditions.len() > 1 {
        let mut pairs = Vec::with_capacity(conditions.len().div_ceil(2));
        let mut left = conditions.into_iter();
        while let Some(one) = left.next() {
            pairs.push(match left.next() {
                Some(other) => join(one, other),
                None => one,
            });
        }
        conditions = pairs;
    }
    conditions.pop()
}

/// An expression and those that it is compared with, each by an operator of this name; `None` if they are right as they are. What is
/// known of the expression's type is told.
///
/// # Errors
/// `42883` for what is not compared, and what is wrong with a literal.
pub(super) fn settle_operands<'a>(
    (input, own): (&Expr, Operand),
    others: impl IntoIterator<Item = (&'a str, &'a Expr)>,
    schema: &DFSchema,
) -> Result<Option<Vec<Expr>>> {
    let mut changed = false;
    let mut operands = vec![input.clone()];
    for (operator, other) in others {
        let settled = beside(other, input, schema)?;
        own.require(&operator, Operand::of(settled.as_ref().unwrap_or(other), schema))?;
        changed |= settled.is_some();
        operands.push(settled.unwrap_or_else(|| other.clone()));
    }
    Ok(comparable(&operands, schema)?.or_else(|| changed.then_some(operands)))
}

/// The operand of a list whose type its literals are of; `None` if that is the type of what they are compared with.
fn like_which<'l>(list: &'l InList, schema: &DFSchema) -> Option<&'l Expr> {
    let constants = || list.list.iter().filter(|member| !member.any_column_refs());
    let has_several = constants().nth(1).is_some();
    if !has_several && !is_text_literal(&list.expr) {
        return None;
    }
    let is_meant = |member: &&Expr| !has_several || !member.any_column_refs();
    let operands = std::iter::once(list.expr.as_ref()).chain(list.list.iter().filter(is_meant));
    let known: Vec<(&Expr, DataType)> = operands
        .filter(|operand| !is_text_literal(operand))
        .filter_map(|operand| Some((operand, operand.get_type(schema).ok()?)))
        .filter(|(_, ty)| !ty.is_null())
        .collect();
    require_common_type("IN", known.iter().map(|(_, ty)| ty)).ok()?;
    let taken = known
        .into_iter()
        .reduce(|so_far, next| if arrow_type_gives_way(&so_far.1, &next.1) { next } else { so_far });
    taken.map(|(operand, _)| operand)
}

/// The list with its text literals as values of the type of one of its operands.
fn with_read_literals(list: &InList, like: &Expr, schema: &DFSchema) -> Result<InList> {
    let mut list = list.clone();
    for operand in list.list.iter_mut().chain([list.expr.as_mut()]) {
        if let Some(read) = beside(operand, like, schema)? {
            *operand = read;
        }
    }
    Ok(list)
}

/// The list as a comparison with each member, where the literal in front of it is of another type in each.
fn one_by_one(list: &InList, operator: Operator, schema: &DFSchema) -> Result<Expr> {
    let comparisons = list.list.iter().map(|member| compared(&list.expr, operator, member, schema));
    let comparisons = joined(comparisons.collect::<Result<Vec<_>>>()?, operator);
    Ok(comparisons.unwrap_or_else(|| Expr::InList(list.clone())))
}

/// A comparison of two operands of types that compare.
fn compared(left: &Expr, operator: Operator, right: &Expr, schema: &DFSchema) -> Result<Expr> {
    let comparison = BinaryExpr::new(Box::new(left.clone()), operator, Box::new(right.clone()));
    settle(Expr::BinaryExpr(comparison), schema).map(|settled| settled.data)
}
