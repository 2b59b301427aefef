// SPDX-License-Identifier: Apache-2.0
//! What gives one of several expressions, as CASE, COALESCE and their like do: all of them are of one type.

use super::arrays::array_literal;
use super::beside::beside;
use super::choice_by_key::Choice;
use super::compared::settle_operands;
use super::comparisons::{Operand, is_text_literal};
use super::declared::{is_char, without_blanks};
use super::instants::{settle_choices, settle_nullif};
use super::intervals::length;
use super::mixed_floats::{as_type, floats_of_one_type};
use super::reals::settled_nullif;
use super::sought::sought;
use super::{any_numeric, comparisons, jsonb};
use crate::query::float_zeros::compare_without_signs;
use crate::scalar::cast_function::literal_as;
use crate::types::{arrow_type_gives_way, common_arrow_type, require_common_type};
use arrow::datatypes::DataType;
use coeval_store::{ColumnType, EnumType};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Case, Expr, ExprSchemable};
use std::sync::Arc;

/// The results of a CASE, all of one type: what a query is told of its columns is what the first of them says.
pub(super) fn settle_case(case: &Case, schema: &DFSchema) -> Result<Option<Expr>> {
    // Before texts among them are read as times, as if all were literals.
    require_results(case, schema)?;
    let mut case = case.clone();
    let is_changed = settle_cases(&mut case, schema)?
        | compare_without_signs(&mut case, schema)
        | make_arrays("CASE", results_of(&mut case), schema)?
        | settle_choices(results_of(&mut case), schema)?
        | read_choices(results_of(&mut case), schema)?;
    Ok(with_one_type(&case, schema).or_else(|| is_changed.then_some(Expr::Case(case))))
}

/// Refuses results of a CASE that have no type in common; literals are of the type of the others.
///
/// # Errors
/// `42804` and `42846`.
fn require_results(case: &Case, schema: &DFSchema) -> Result<()> {
    let thens = case.when_then_expr.iter().map(|(_, then)| then.as_ref());
    let results = case.else_expr.as_deref().into_iter().chain(thens);
    let known = results.filter(|result| !is_text_literal(result));
    let types = known.map(|result| result.get_type(schema)).collect::<Result<Vec<_>>>();
    let Ok(types) = types else { return Ok(()) };
    Ok(require_common_type("CASE", &types)?)
}

/// Text literals among expressions of one type as values of the type that the others have; whether there are any. Texts stay.
///
/// # Errors
/// `22P02` for a literal that is no value of the type.
fn read_choices(choices: Vec<&mut Expr>, schema: &DFSchema) -> Result<bool> {
    let known: Vec<&Expr> =
        choices.iter().map(|choice| &**choice).filter(|one| !is_text_literal(one)).collect();
    if known.len() == choices.len() {
        return Ok(false);
    }
    let types = known.iter().map(|choice| choice.get_type(schema)).collect::<Result<Vec<_>>>();
    let Ok(types) = types else { return Ok(false) };
    let typed = known.into_iter().zip(&types).filter(|(_, ty)| !ty.is_null());
    let taken =
        typed.reduce(|so_far, next| if arrow_type_gives_way(so_far.1, next.1) { next } else { so_far });
    let Some((other, _)) = taken.filter(|(_, ty)| !ty.is_string()) else { return Ok(false) };
    let other = other.clone();
    let mut is_changed = false;
    for choice in choices.into_iter().filter(|choice| is_text_literal(choice)) {
        if let Some(read) = beside(choice, &other, schema)? {
            *choice = read;
            is_changed = true;
        }
    }
    Ok(is_changed)
}

/// Refuses expressions of which one is chosen and that have no type in common: DataFusion makes texts of all.
///
/// # Errors
/// `42804` and `42846`.
pub(super) fn require_choices(construct: &str, choices: &[Expr], schema: &DFSchema) -> Result<()> {
    let known = choices.iter().filter(|choice| !is_text_literal(choice));
    let types: Vec<DataType> = known.filter_map(|choice| choice.get_type(schema).ok()).collect();
    Ok(require_common_type(construct, &types)?)
}

fn results_of(case: &mut Case) -> Vec<&mut Expr> {
    let results = case.when_then_expr.iter_mut().map(|(_, then)| then).chain(&mut case.else_expr);
    results.map(AsMut::as_mut).collect()
}

/// Makes what a CASE compares with each other comparable; whether something was not.
fn settle_cases(case: &mut Case, schema: &DFSchema) -> Result<bool> {
    let Some(input) = &case.expr else { return Ok(false) };
    let candidates = case.when_then_expr.iter().map(|(candidate, _)| ("=", candidate.as_ref()));
    let own = Operand::of_case(input, schema);
    let Some(operands) = settle_operands((input.as_ref(), own), candidates, schema)? else {
        return Ok(false);
    };
    let mut operands = operands.into_iter();
    case.expr = operands.next().map(Box::new);
    for ((candidate, _), settled) in case.when_then_expr.iter_mut().zip(operands) {
        **candidate = settled;
    }
    Ok(true)
}

/// Makes text literals among arrays arrays, too, among values of an enum its labels, and among places in a log places; whether
/// there are any.
fn make_arrays(construct: &str, mut choices: Vec<&mut Expr>, schema: &DFSchema) -> Result<bool> {
    let list = |choice: &&mut Expr| match choice.get_type(schema) {
        Ok(DataType::List(element)) => Some(element),
        _ => None,
    };
    let Some(element) = choices.iter().find_map(list) else {
        return make_labels(construct, &mut choices, schema);
    };
    let mut has_literals = false;
    for choice in &mut choices {
        if let Expr::Literal(scalar, _) = &**choice
            && let Some(text) = scalar.try_as_str().flatten()
        {
            **choice = array_literal(text, element.data_type())?;
            has_literals = true;
        }
    }
    Ok(has_literals)
}

/// Makes text literals among values of an enum its labels, and among places in a log, times with a zone and bit strings such; whether
/// there are any.
///
/// # Errors
/// `42804` and `42846` for something of another type among them.
pub(super) fn make_labels(construct: &str, choices: &mut [&mut Expr], schema: &DFSchema) -> Result<bool> {
    let strict = |choice: &&mut Expr| {
        let ty = choice.get_type(schema).ok()?;
        let others = [ColumnType::PgLsn, ColumnType::TimeTz, ColumnType::Bit(None)];
        EnumType::of_arrow(&ty)
            .map(ColumnType::Enum)
            .or_else(|| others.into_iter().find(|other| other.arrow() == ty))
    };
    let Some(ty) = choices.iter().find_map(strict) else { return Ok(false) };
    let (mut types, mut has_literals) = (Vec::new(), false);
    for choice in choices {
        if matches!(&**choice, Expr::Literal(scalar, _) if scalar.try_as_str().flatten().is_some()) {
            **choice = literal_as(choice.clone(), ty)?;
            has_literals = true;
        } else {
            types.push(choice.get_type(schema)?);
        }
    }
    require_common_type(construct, &types)?;
    Ok(has_literals)
}

fn with_one_type(case: &Case, schema: &DFSchema) -> Option<Expr> {
    let results =
        || case.when_then_expr.iter().map(|(_, then)| then.as_ref()).chain(case.else_expr.as_deref());
    let types = results().map(|result| result.get_type(schema)).collect::<Result<Vec<_>>>().ok()?;
    let ty = common_arrow_type(&types)?;
    if types.iter().all(|own| own.is_null() || *own == ty) {
        return None;
    }
    let mut case = case.clone();
    for result in case.when_then_expr.iter_mut().map(|(_, then)| then).chain(&mut case.else_expr) {
        **result = as_type(result.as_ref().clone(), &ty, schema);
    }
    Some(Expr::Case(case))
}

/// A function that gives one of its arguments, floats and `numeric` as floats, literals among arrays as arrays.
///
/// # Errors
/// `42804` and `42846` for arguments that have no type in common.
pub(super) fn settle_choice(function: &ScalarFunction, schema: &DFSchema) -> Result<Option<Expr>> {
    let call =
        |arguments| Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&function.func), arguments));
    if let ("array_has", [list, element]) = (function.name(), &function.args[..]) {
        return Ok(sought(list, element, schema)?.map(call));
    }
    comparisons::require_sought(function, schema)?;
    if function.name() == "make_array" {
        require_choices("ARRAY", &function.args, schema)?;
        if let Some(floats) = floats_of_one_type(&function.args, schema) {
            return Ok(Some(call(floats)));
        }
        let mut elements = function.args.clone();
        let is_changed = settle_choices(elements.iter_mut().collect(), schema)?
            | jsonb::settle_elements(&mut elements, schema)?
            | make_labels("ARRAY", &mut elements.iter_mut().collect::<Vec<_>>(), schema)?
            | read_choices(elements.iter_mut().collect(), schema)?;
        return Ok(is_changed.then(|| call(elements)));
    }
    if !matches!(function.name(), "coalesce" | "greatest" | "least" | "nullif") {
        return Ok(None);
    }
    let construct = function.name().to_uppercase();
    match &function.args[..] {
        [left, right] if function.name() == "nullif" => comparisons::require(left, &"=", right, schema)?,
        choices => require_choices(&construct, choices, schema)?,
    }
    if let Some(settled) = any_numeric::settle_choice(function, schema)? {
        return Ok(Some(settled));
    }
    if function.name() != "coalesce"
        && let Some(settled) = jsonb::settle_choice(function, schema)?
    {
        return Ok(Some(settled));
    }
    if function.name() == "nullif"
        && let Some(settled) = settle_nullif(function, schema)?
    {
        return Ok(Some(settled));
    }
    if function.name() == "nullif"
        && let Some(settled) = settled_nullif(function, schema)?
    {
        return Ok(Some(settled));
    }
    if let ([left, right], "nullif") = (&function.args[..], function.name())
        && is_char(left, schema)
        && let Some(read) = without_blanks(right)
    {
        return Ok(Some(call(vec![left.clone(), read])));
    }
    let read = with_read_literals(function, schema)?;
    let has_read = read.args != function.args;
    let function = &read;
    if let Some(chosen) = choice_by_key(function, schema) {
        return Ok(Some(chosen));
    }
    if let Some(floats) = floats_of_one_type(&function.args, schema) {
        return Ok(Some(call(floats)));
    }
    let mut arguments = function.args.clone();
    let is_null =
        |argument: &Expr| matches!(argument, Expr::Literal(scalar, _) if scalar.data_type().is_null());
    if function.name() != "nullif" && arguments.iter().any(is_null) && !arguments.iter().all(is_null) {
        // Some types have no NULL that DataFusion makes one of them.
        arguments.retain(|argument| !is_null(argument));
    }
    let is_shorter = arguments.len() < function.args.len();
    let is_changed = make_arrays(&construct, arguments.iter_mut().collect(), schema)?
        || (function.name() != "nullif" && settle_choices(arguments.iter_mut().collect(), schema)?);
    Ok((is_changed || is_shorter || has_read).then(|| call(arguments)))
}

/// The call with text literals as values of the type that its other arguments have.
fn with_read_literals(function: &ScalarFunction, schema: &DFSchema) -> Result<ScalarFunction> {
    let mut function = function.clone();
    let construct = function.name().to_uppercase();
    make_arrays(&construct, function.args.iter_mut().collect(), schema)?;
    read_choices(function.args.iter_mut().collect(), schema)?;
    Ok(function)
}

/// `greatest` and `least` of intervals, by their length, and of arrays, in which NULL is above all else; `None` of anything else.
fn choice_by_key(function: &ScalarFunction, schema: &DFSchema) -> Option<Expr> {
    let choice = Choice::of(function.name())?;
    let types =
        function.args.iter().map(|argument| argument.get_type(schema)).collect::<Result<Vec<_>>>().ok()?;
    let mut known = types.iter().filter(|ty| !ty.is_null());
    let first = known.next()?;
    if !known.all(|ty| ty == first) {
        return None;
    }
    let key = |argument: &Expr| match first {
        DataType::Interval(_) => Some(length(argument.clone())),
        DataType::List(_) => Some(argument.clone()),
        _ => None,
    };
    let known = function.args.iter().zip(&types).filter(|(_, ty)| !ty.is_null());
    let pairs = known.map(|(argument, _)| Some((key(argument)?, argument.clone())));
    Some(choice.among(pairs.collect::<Option<Vec<_>>>()?))
}
