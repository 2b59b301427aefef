// SPDX-License-Identifier: Apache-2.0
//! PostgreSQL's forms that DataFusion has not, written in those it has.
//!
//! A rewrite from syntax to syntax, after the outputs have their names and before literals get their types:
//!
//! | form | becomes |
//! |---|---|
//! | `pg_catalog.f(x)`, `x OPERATOR(pg_catalog.~) y` | `f(x)`, `x ~ y` |
//! | `x COLLATE "C"` | `x`: text compares by bytes |
//! | `x::regclass`, `regtype`, `regnamespace`, `regrole` | a function to the object id; to the name where it is shown or cast to text |
//! | `x::jsonpath` | a function that reads a path |
//! | `x::oid`, `name`, `"char"`, `int2[]` | `int`, `text`, `text`, a function that reads arrays |
//! | `x = ANY ('{a,b}')` | `x IN ('a', 'b')` |
//! | `x LIKE ANY (array)`, `x = ANY (ARRAY(query))` | a function, `x = ANY (query)` |
//! | `LEFT JOIN LATERAL (query) ON condition` | the same `ON true`, of the rows of the query that meet it |
//! | `ARRAY[x]` with columns, which DataFusion looks for in the innermost query alone | a function of its elements |
//! | `ARRAY(SELECT x ...)` | a subquery with `array_agg(x)` |
//! | functions that return sets, in the select list or in FROM | `unnest` of a function that returns an array |
//! | `SELECT unnest(x) ... ORDER BY y` | the same around a query that selects `y` too |
//! | `t TABLESAMPLE BERNOULLI (10)` | a subquery that takes each row with this probability |
//! | `(x).field`, subscripts of `int2vector` | a field by its name, a subscript from one |
//! | `json_agg(x)` | a document made of `array_agg(to_json(x))` |
//! | `string_agg(x, y)` | a text made of `array_agg(coeval_delimited(x, y))` |
//! | `concat_ws(x, VARIADIC y)` | `array_to_string(y, x)` |
//! | `row_to_json(row(a, b))` | a function of the names and values of its fields |
//! | `regexp_matches(x, y)` | `unnest` of an array of texts, each read as an array |
//! | `extract(year from x)` | a function of the field's name and the value |
//! | `substring(x FROM pattern FOR escape)` | the first element of `regexp_match` |
//! | `age(x)`, `make_interval(days => 1)` | `age(current_date, x)`, `make_interval(0, 0, 0, 1)` |
//! | `typname[0]` | the letter at that place |
//! | `x` of `a JOIN b USING (x)` | the column of one of them, or of both |
//! | a part of WITH with a point in its name | one with another name inside the plan |
//! | a part of WITH that names its first columns | one that names all |
//! | `(a, b) OVERLAPS (c, d)` | comparisons of its ends |
//! | `DISTINCT ON (a, b) ... ORDER BY b, a` | `DISTINCT ON (b, a)` |
//! | `LIMIT 1.5`, `FETCH FIRST n ROWS WITH TIES` | the count as a `bigint`, in a function that asks for ties |
//! | `OVER (... ROWS ... EXCLUDE CURRENT ROW)` | the values before and behind the row, put together, where that can be done |
//! | `OVER (... ROWS $1 PRECEDING)` | the current row, and a function of the offset |
//! | `OVER (w ORDER BY x)` | the window with what it takes from `w` |
//! | `GROUP BY (a, b)`, `ROLLUP ((a, b), c)`, `GROUPING SETS (a, CUBE (b, c))`, `GROUP BY DISTINCT ...` | columns, and the sets that they stand for |
//! | `ROLLUP (1)` | `ROLLUP (a)` with the first output |
//! | `sum(x), sum(x::bigint)`, whose names DataFusion could not tell apart | the second one with a function that casts |
//! | `percentile_disc(x) WITHIN GROUP (ORDER BY y)` | a function of `coeval_ordered_set(y)` |
//! | `(a, b) IN (query)`, `(a, b) = (query)` | comparisons of their columns in the subquery |
//! | `x IN (VALUES (1), (2))` | `x IN (SELECT column1 FROM (VALUES (1), (2)))` |
//! | `SELECT FROM a INTERSECT SELECT FROM b` | `SELECT FROM (SELECT 1 FROM a INTERSECT SELECT 1 FROM b)` |
//! | `GROUP BY ()`, HAVING without groups and aggregates | `GROUP BY GROUPING SETS (())` |

mod calls;
mod casts;
mod casts_apart;
mod distinct_aggregates;
mod distinct_on;
mod dotted_names;
mod excluded_rows;
mod frame_offsets;
mod frames;
mod grouping;
mod interval_fields;
mod merged_columns;
mod named_arguments;
mod ordered_sets;
mod overlaps;
mod part_columns;
mod patterns;
mod quantifiers;
mod recursion;
mod row_counts;
mod row_documents;
mod row_offsets;
mod row_subqueries;
mod rows;
mod samples;
mod set_order;
mod sets;
mod sets_of_nothing;
mod subscripts;
mod tables;
mod value_rows;
mod variadic;
mod windows;

pub(super) use calls::is_register;
pub(super) use distinct_on::{are_same, meant};
pub(crate) use dotted_names::rename_part;
pub(super) use grouping::place_of;
pub(crate) use recursion::check_all as check_recursions;
pub(crate) use rows::compares;
pub(super) use set_order::output_name;
pub(super) use sets::OR_EMPTY;
pub(super) use tables::CHANGE_HEAD;

use crate::cancel;
use crate::error::{SqlError, SqlState};
use crate::functions::{IS_NORMALIZED, similar_pattern};
use crate::names::fold;
use crate::query::typing::{Distinction, Sign};
use crate::select::call;
use crate::walk::{WalkMut, each_expression, step};
use coeval_store::NUMERIC_PRECISION_MAX;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    ObjectName, ObjectNamePart, OrderByKind, Query, Select, SetExpr, TableFactor, UnaryOperator, Value,
    ValueWithSpan, VisitorMut, WindowType,
};
use std::ops::ControlFlow;

/// The function that makes an array of a series.
const SERIES: &str = crate::query::typing::SERIES;

/// The function in FROM that counts in `int`.
const INT_SERIES: &str = crate::query::typing::INT_SERIES;

/// The one that counts in `bigint`.
const BIGINT_SERIES: &str = crate::query::typing::BIGINT_SERIES;

/// The type that a cast to this one is to, in the form that columns are declared in; `None` if columns have no such
/// type.
pub(crate) fn plain_type(ty: &DataType) -> Option<DataType> {
    casts::plain_type(ty)
}

/// The query in forms that DataFusion plans.
///
/// # Errors
/// `42601` for rows of different lengths, `42704` for an unknown collation or window, `42P10` for an order of different values by something else, `42P20` for a window that changes what it takes from another, `42P19` for a
/// recursion that has no end, `0A000` for sets where one value is chosen.
pub(super) fn in_dialect(query: &mut Query) -> Result<(), SqlError> {
    query.try_walk_mut(&mut Dialect { depth: 0, copied: 0 })?;
    casts::show_names(query);
    Ok(())
}

/// The same for an expression that is in no query.
///
/// # Errors
/// As [`in_dialect`].
pub(crate) fn expression_in_dialect(expression: &mut Expr) -> Result<(), SqlError> {
    expression.try_walk_mut(&mut Dialect { depth: 1, copied: 0 })
}

/// The parts of what is written several times, at most: of all expressions, or of the windows or the outputs of one SELECT. Expressions are
/// copied with those in them that were: of ten periods within each other there would be thousands of millions of parts.
const COPIED_MAX: usize = 100_000;

/// Rewrites.
struct Dialect {
    /// How many queries there are around the place that is visited.
    depth: usize,
    /// The parts of expressions that were written several times, as often as they were.
    copied: usize,
}

impl Dialect {
    /// Notes what is going to be written several times in the place of an expression.
    fn note_copies(&mut self, expression: &Expr) -> Result<(), SqlError> {
        let (copied, times) = match expression {
            // Each end of a period is there a dozen times.
            Expr::BinaryOp { op: BinaryOperator::Overlaps, .. } => (expression, 12),
            Expr::BinaryOp { op: BinaryOperator::Eq | BinaryOperator::NotEq, .. } => return Ok(()),
            Expr::BinaryOp { left, op, right } if rows::is_comparison(left, op, right) => (expression, 2),
            Expr::InList { expr, list, .. } if rows::columns(expr).is_some() => (expr.as_ref(), list.len()),
            Expr::Function(Function { over: Some(WindowType::WindowSpec(window)), .. })
                if excluded_rows::leaves_out_current_row(window) =>
            {
                (expression, 8)
            }
            _ => return Ok(()),
        };
        let (mut parts, mut is_plain) = (0_usize, true);
        each_expression(copied, |part| {
            parts += 1;
            is_plain &= matches!(
                part,
                Expr::Tuple(_) | Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Value(_)
            );
        });
        // A row of columns, which may be looked for in a long list.
        if !is_plain {
            self.copied = self.copied.saturating_add(parts.saturating_mul(times));
        }
        if self.copied <= COPIED_MAX {
            return Ok(());
        }
        let error = SqlError::new(SqlState::StatementTooComplex, "the statement is nested too deeply");
        Err(error
            .with_detail(
                "Rows that are compared, periods, and windows without a row are written several times.",
            )
            .with_hint("Compute what is within them in a subquery in FROM."))
    }
}

impl VisitorMut for Dialect {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        sets_of_nothing::give_columns(query);
        order_once(query);
        let checked = recursion::check(query).and_then(|()| distinct_on::follow_order(query));
        let counted = checked.and_then(|()| row_counts::rewrite(query));
        if let Err(error) = counted.and_then(|()| windows::write_into_order(query)) {
            return ControlFlow::Break(error);
        }
        recursion::keep_inner_parts(query);
        dotted_names::rename_parts(query);
        part_columns::name_all(query);
        merged_columns::name_by_table(query, self.depth);
        self.depth += 1;
        step(super::refuse_nested(query))
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        casts_apart::told_apart(query);
        set_order::select_keys(query);
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<SqlError> {
        row_subqueries::rewrite_conditions(select);
        tables::count_in_from(select);
        grouping::as_one_group(select);
        let grouped = grouping::refuse_copies(select).and_then(|()| grouping::write_out(select));
        step(grouped.and_then(|()| windows::write_out(select)))
    }

    fn pre_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<SqlError> {
        if let Some(replaced) = quantifiers::rewritten(expression) {
            *expression = replaced;
        }
        value_rows::select_columns(expression);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<SqlError> {
        let checked = cancel::check().and_then(|()| rows::check(expression));
        let checked = checked.and_then(|()| self.note_copies(expression));
        match checked.and_then(|()| rewritten(expression)) {
            Ok(Some(replaced)) => *expression = replaced,
            Ok(None) => {}
            Err(error) => return ControlFlow::Break(error),
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<SqlError> {
        tables::expand_changes(factor);
        tables::expand_records(factor);
        tables::name_sets(factor);
        match samples::write_out(factor) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<SqlError> {
        tables::rewrite(factor);
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<SqlError> {
        windows::take_offsets(select);
        tables::make_lateral(select);
        tables::keep_conditions(select);
        ControlFlow::Continue(())
    }
}

/// What stands in an expression's place; `None` if it stays.
fn rewritten(expression: &mut Expr) -> Result<Option<Expr>, SqlError> {
    set_order::refuse_sets(expression)?;
    if let Some(replaced) = row_subqueries::rewritten(expression)? {
        return Ok(Some(replaced));
    }
    if let Expr::BinaryOp { left, op, right } = &*expression
        && let Some(replaced) = overlaps::rewritten(left, op, right)
    {
        return Ok(Some(replaced));
    }
    Ok(match expression {
        Expr::Substring { .. } => part_of_text(expression),
        Expr::BinaryOp { left, op, right } if rows::is_comparison(left, op, right) => {
            Some(rows::comparison(left, op, right))
        }
        Expr::InList { expr, list, negated } if rows::is_membership(expr, list) => {
            Some(rows::membership(expr, list, negated))
        }
        Expr::Array(array) if array.elem.iter().any(tables::names_columns) => {
            Some(call("make_array", array.elem.clone()))
        }
        Expr::Collate { expr, collation } => {
            refuse_collation(collation)?;
            Some(expr.as_ref().clone())
        }
        Expr::BinaryOp { left, op: BinaryOperator::Eq | BinaryOperator::NotEq, right } => {
            compare_functions(left, right);
            None
        }
        Expr::BinaryOp { left, op, right } => operation(left, op, right)?,
        Expr::Cast { expr, data_type, .. } => casts::rewritten(expr, data_type)
            .or_else(|| interval_fields::rewritten(expression))
            .or_else(|| casts::rounded(expression)),
        Expr::TypedString(typed) => casts::rounded_literal(typed).or_else(|| casts::path_literal(typed)),
        Expr::Interval(literal) => casts::rounded_interval(literal),
        Expr::UnaryOp { op, expr } => sign(*op, expr),
        Expr::Function(function) => rewritten_call(function)?,
        Expr::Case { conditions, else_result: Some(otherwise), .. } => {
            if is_text(otherwise) && conditions.iter().any(|when| is_texts(&when.result)) {
                let literal = otherwise.as_ref().clone();
                **otherwise = call("coeval_array", vec![literal, text("text")]);
            }
            None
        }
        Expr::Identifier(ident) if ident.quote_style.is_none() => calls::register(&fold(ident)),
        Expr::CompoundFieldAccess { root, access_chain } => subscripts::accessed(root, access_chain),
        Expr::Like { pattern, escape_char: Some(escape), .. }
        | Expr::ILike { pattern, escape_char: Some(escape), .. }
            if !is_backslash(escape) =>
        {
            let arguments = vec![pattern.as_ref().clone(), Expr::Value(escape.clone())];
            **pattern = call("coeval_like_pattern", arguments);
            *escape = Value::SingleQuotedString("\\".to_owned()).into();
            None
        }
        other => rewritten_test(other)?,
    })
}

/// What stands in the place of a call; `None` if it stays.
fn rewritten_call(function: &mut Function) -> Result<Option<Expr>, SqlError> {
    if let Some(WindowType::WindowSpec(window)) = &function.over {
        frames::check(window)?;
    }
    distinct_aggregates::check_order(function)?;
    named_arguments::put_in_places(function);
    if let Some(both) = excluded_rows::rewritten(function) {
        return Ok(Some(both));
    }
    frame_offsets::take_of_call(function);
    row_offsets::take_columns(function);
    if let Some(whole) = variadic::rewritten(function)? {
        return Ok(Some(whole));
    }
    Ok(ordered_sets::rewritten(function)?.or_else(|| calls::rewritten(function)))
}

/// What stands in the place of a question about rows, arrays, patterns and zones; `None` if it stays.
///
/// # Errors
/// `2201B` for a pattern that is none, `22025` for an escape of several letters.
fn rewritten_test(expression: &Expr) -> Result<Option<Expr>, SqlError> {
    Ok(match expression {
        Expr::IsNull(row) => rows::all_are(row, rows::Is::Null),
        Expr::IsNotNull(row) => rows::all_are(row, rows::Is::NotNull),
        Expr::IsDistinctFrom(left, right) => Some(Distinction::Distinct.between(left, right)),
        Expr::IsNotDistinctFrom(left, right) => Some(Distinction::Same.between(left, right)),
        Expr::AtTimeZone { timestamp, time_zone } => {
            Some(call("timezone", vec![time_zone.as_ref().clone(), timestamp.as_ref().clone()]))
        }
        Expr::Extract { field, expr, .. } => {
            let field = text(&field.to_string().to_lowercase());
            Some(call(crate::query::typing::EXTRACT, vec![field, expr.as_ref().clone()]))
        }
        Expr::IsNormalized { expr, form, negated } => {
            let form = form.as_ref().map_or_else(|| "NFC".to_owned(), ToString::to_string);
            let question = call(IS_NORMALIZED, vec![expr.as_ref().clone(), text(&form)]);
            Some(if *negated {
                Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(question) }
            } else {
                question
            })
        }
        Expr::SimilarTo { negated, expr, pattern, escape_char } => {
            let op = if *negated { BinaryOperator::PGRegexNotMatch } else { BinaryOperator::PGRegexMatch };
            Some(similar(expr, op, pattern, escape_char.as_ref())?)
        }
        Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, .. } => {
            in_array(left, right, sets::Quantifier::Any)
        }
        Expr::AnyOp { right, .. } if !matches!(right.as_ref(), Expr::Subquery(_)) => {
            let array = right.as_ref().clone();
            Some(call(crate::query::typing::FOUND, vec![expression.clone(), array]))
        }
        Expr::AllOp { left, compare_op: BinaryOperator::NotEq, right } => {
            in_array(left, right, sets::Quantifier::All)
        }
        _ => None,
    })
}

/// A value that is compared with all elements of an array; `None` for a subquery.
fn in_array(left: &Expr, right: &Expr, quantifier: sets::Quantifier) -> Option<Expr> {
    sets::membership(left, right, quantifier).or_else(|| sets::sought(left, right, quantifier))
}

/// The function behind an operator; one behind `OPERATOR(...)` gets its own form.
///
/// # Errors
/// `2201B` for a pattern that is none.
fn operation(
    left: &Expr,
    operator_named: &mut BinaryOperator,
    right: &mut Expr,
) -> Result<Option<Expr>, SqlError> {
    if *operator_named == BinaryOperator::PGStartsWith {
        return Ok(Some(call("starts_with", vec![left.clone(), right.clone()])));
    }
    if let BinaryOperator::PGCustomBinaryOperator(parts) = operator_named
        && let Some(known) = parts.last().and_then(|name| operator(name))
    {
        *operator_named = known;
    }
    patterns::matched(left, operator_named, right)
}

/// The function behind a sign in front of a number.
fn sign(sign: UnaryOperator, operand: &Expr) -> Option<Expr> {
    let of = |function: &str| Some(call(function, vec![operand.clone()]));
    match sign {
        // Of a `numeric` it is a float, where the function is a `numeric`.
        UnaryOperator::PGSquareRoot => {
            Some(call("sqrt", vec![casts::cast(operand.clone(), DataType::DoublePrecision)]))
        }
        UnaryOperator::PGCubeRoot => of("cbrt"),
        UnaryOperator::PGAbs => of("abs"),
        UnaryOperator::BitwiseNot => Some(Sign::Not.before(operand)),
        UnaryOperator::Minus if !is_signed_literal(operand) => Some(Sign::Minus.before(operand)),
        UnaryOperator::Plus if !is_signed_literal(operand) => Some(Sign::Plus.before(operand)),
        _ => None,
    }
}

/// Whether an operand is a literal, or a parameter, whose type a sign in front of it has a part in.
fn is_signed_literal(operand: &Expr) -> bool {
    match operand {
        Expr::Nested(inner) | Expr::UnaryOp { expr: inner, .. } => is_signed_literal(inner),
        // One of more digits is no number of DataFusion's.
        Expr::Value(ValueWithSpan { value: Value::Number(number, _), .. }) => {
            number.bytes().filter(u8::is_ascii_digit).count() <= usize::from(NUMERIC_PRECISION_MAX)
        }
        operand => matches!(operand, Expr::Value(_) | Expr::TypedString(_) | Expr::Interval(_)),
    }
}

/// ORDER BY names what it has named before no more, which changes nothing, and which DataFusion's DISTINCT ON does not
/// expect.
fn order_once(query: &mut Query) {
    if let Some(order) = &mut query.order_by
        && let OrderByKind::Expressions(expressions) = &mut order.kind
    {
        let mut known: Vec<Expr> = Vec::with_capacity(expressions.len());
        expressions.retain(|one| {
            let is_new = !known.contains(&one.expr);
            known.push(one.expr.clone());
            is_new
        });
    }
}

/// The part that a pattern finds. What `substr` is given are places in any case, also as literals that have no type.
fn part_of_text(expression: &mut Expr) -> Option<Expr> {
    match expression {
        Expr::Substring { shorthand: true, substring_from, substring_for, .. } => {
            let counts = [substring_from, substring_for].into_iter().flatten();
            for count in counts.filter(|count| is_text(count)) {
                **count = casts::cast(count.as_ref().clone(), DataType::Int(None));
            }
            None
        }
        Expr::Substring { expr, substring_from: Some(pattern), substring_for, .. } => {
            part_by_pattern(expr, pattern, substring_for.as_deref())
        }
        _ => None,
    }
}

/// The part of a text that a pattern finds, a regular expression or, with an escape, one of `SIMILAR TO`; `None` where places are
/// counted.
fn part_by_pattern(input: &Expr, pattern: &Expr, escape: Option<&Expr>) -> Option<Expr> {
    let pattern = match escape {
        None if is_text(pattern) => pattern.clone(),
        Some(escape) if is_text(pattern) || is_text(escape) => {
            call("coeval_similar_part", vec![pattern.clone(), escape.clone()])
        }
        _ => return None,
    };
    let found = call("regexp_match", vec![input.clone(), pattern]);
    Some(call("array_element", vec![found, number("1")]))
}

/// `SIMILAR TO` as a regular expression.
///
/// # Errors
/// `2201B` for a pattern that is none, `22025` for an escape of several letters.
fn similar(
    input: &Expr,
    op: BinaryOperator,
    pattern: &Expr,
    escape: Option<&ValueWithSpan>,
) -> Result<Expr, SqlError> {
    let escape = escape.map_or_else(|| text("\\"), |escape| Expr::Value(escape.clone()));
    let mut pattern = match (patterns::literal(pattern), patterns::literal(&escape)) {
        (Some(pattern), Some(escape)) => text(&similar_pattern(pattern, escape)?),
        _ => call("coeval_similar_pattern", vec![pattern.clone(), escape.clone()]),
    };
    let matched = match patterns::matched(input, &op, &mut pattern)? {
        Some(call) => call,
        None => Expr::BinaryOp { left: Box::new(input.clone()), op, right: Box::new(pattern) },
    };
    Ok(Expr::Nested(Box::new(matched)))
}

fn nested(expression: &Expr) -> Expr {
    Expr::Nested(Box::new(expression.clone()))
}

/// A function beside an object id is compared by its id, a type beside a column of names by its name.
fn compare_functions(left: &mut Expr, right: &mut Expr) {
    if casts::names_a_type(left) {
        casts::by_type_name(right);
    } else if casts::names_a_type(right) {
        casts::by_type_name(left);
    }
    let is_column = |side: &Expr| matches!(side, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
    if is_column(left) && is_column(right) {
        for side in [left, right] {
            if let Some(number) = casts::function_number(side) {
                *side = number;
            }
        }
    }
}

fn is_backslash(escape: &ValueWithSpan) -> bool {
    matches!(&escape.value, Value::SingleQuotedString(text) if text == "\\")
}

/// Takes collations that compare by bytes, and the default one; here they are all the same.
///
/// # Errors
/// `42704` for any other.
pub(crate) fn refuse_collation(name: &ObjectName) -> Result<(), SqlError> {
    let last = name.0.last().and_then(ObjectNamePart::as_ident).map(|ident| ident.value.to_lowercase());
    match last.as_deref() {
        Some("c" | "posix" | "default" | "ucs_basic" | "c.utf-8" | "c.utf8") => Ok(()),
        _ => {
            let message = format!("collation {name} does not exist");
            Err(SqlError::new(SqlState::UndefinedObject, message)
                .with_hint("Text compares by bytes: COLLATE \"C\"."))
        }
    }
}

/// The operator behind `OPERATOR(schema.name)`.
fn operator(name: &str) -> Option<BinaryOperator> {
    Some(match name {
        "~" => BinaryOperator::PGRegexMatch,
        "~*" => BinaryOperator::PGRegexIMatch,
        "!~" => BinaryOperator::PGRegexNotMatch,
        "!~*" => BinaryOperator::PGRegexNotIMatch,
        "~~" => BinaryOperator::PGLikeMatch,
        "~~*" => BinaryOperator::PGILikeMatch,
        "!~~" => BinaryOperator::PGNotLikeMatch,
        "!~~*" => BinaryOperator::PGNotILikeMatch,
        "=" => BinaryOperator::Eq,
        "<>" => BinaryOperator::NotEq,
        "<" => BinaryOperator::Lt,
        "<=" => BinaryOperator::LtEq,
        ">" => BinaryOperator::Gt,
        ">=" => BinaryOperator::GtEq,
        "+" => BinaryOperator::Plus,
        "-" => BinaryOperator::Minus,
        "*" => BinaryOperator::Multiply,
        "/" => BinaryOperator::Divide,
        "||" => BinaryOperator::StringConcat,
        _ => return None,
    })
}

/// The name of a function without the schema, if that is one of PostgreSQL's; `None` for another schema's.
fn unqualified(name: &ObjectName) -> Option<String> {
    let idents: Option<Vec<&Ident>> = name.0.iter().map(ObjectNamePart::as_ident).collect();
    match idents?.as_slice() {
        [name] => Some(fold(name)),
        [schema, name] if matches!(fold(schema).as_str(), "pg_catalog" | "information_schema") => {
            Some(fold(name))
        }
        _ => None,
    }
}

fn arguments_of(function: &Function) -> Vec<Expr> {
    match &function.args {
        FunctionArguments::List(list) => plain_arguments(&list.args),
        FunctionArguments::None | FunctionArguments::Subquery(_) => Vec::new(),
    }
}

fn plain_arguments(arguments: &[FunctionArg]) -> Vec<Expr> {
    let expression = |argument: &FunctionArg| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expression)) => Some(expression.clone()),
        _ => None,
    };
    arguments.iter().filter_map(expression).collect()
}

fn is_text(expression: &Expr) -> bool {
    matches!(expression, Expr::Value(value) if matches!(value.value, Value::SingleQuotedString(_)))
}

/// Whether an expression is a call of a function of the catalog that gives an array of texts.
fn is_texts(expression: &Expr) -> bool {
    matches!(expression, Expr::Function(function)
        if unqualified(&function.name).is_some_and(|name| crate::catalog::gives_texts(&name)))
}

fn number(digits: &str) -> Expr {
    Expr::Value(Value::Number(digits.to_owned(), false).into())
}

pub(super) fn text(value: &str) -> Expr {
    Expr::Value(Value::SingleQuotedString(value.to_owned()).into())
}

/// A query that is one SELECT.
fn only_select(query: &mut Query) -> Option<&mut Select> {
    match query.body.as_mut() {
        SetExpr::Select(select) => Some(select),
        _ => None,
    }
}
