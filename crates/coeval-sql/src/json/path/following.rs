// SPDX-License-Identifier: Apache-2.0
//! Follows a path through a document.
//!
//! A step is taken from one value after another, each to the end of the path before the next one, so that what was found before an
//! error is what PostgreSQL has found. In lax mode steps go into the elements of arrays by themselves, and what is not there is nothing;
//! in strict mode it is an error.

use super::moments::Moment;
use super::number::Number;
use super::{ArithmeticOp, Expression, Head, Item, Method, Path, Search, Step};
use crate::allowance::Meter;
use crate::error::{SqlError, SqlState};
use crate::functions::ExactPattern;
use crate::stack::with_room;
use crate::types::json::{Kind, Part, push_string};
use chrono_tz::Tz;
use std::borrow::Cow;
use std::cell::Cell;

/// What is held on the way is accounted for in steps of this size.
const HELD_BYTES: usize = 64 << 10;

/// Why a path was not followed to its end.
pub(super) enum Failure {
    /// An error of the path: unknown for a filter, and nothing for who is silent.
    OfPath(SqlError),
    /// One that ends the statement.
    OfStatement(SqlError),
}

/// What a step comes to.
pub(super) type Outcome<T = ()> = Result<T, Failure>;

pub(super) fn of_path<T>(state: SqlState, message: impl Into<String>) -> Outcome<T> {
    Err(Failure::OfPath(SqlError::new(state, message)))
}

/// Whether a step that is taken from an array is taken from its elements instead.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Arrays {
    Opened,
    Kept,
}

/// What a place in a path stands in.
#[derive(Clone, Copy)]
pub(super) struct Scope<'s, 'd> {
    /// `@`
    current: &'s Item<'d>,
    /// How many elements the array has whose subscript this is.
    size: Option<usize>,
    /// Whether what is not there is nothing, also in strict mode.
    is_lenient: bool,
}

/// A path, and what it is followed through.
pub(super) struct Following<'p, 'd> {
    path: &'p Path,
    root: Item<'d>,
    variables: Option<Part<'p>>,
    zone: Option<Tz>,
    meter: &'p Meter,
    /// What the items take that are held.
    held: Cell<usize>,
}

impl<'p, 'd> Following<'p, 'd> {
    pub(super) fn new(
        path: &'p Path,
        document: &'d str,
        variables: Option<Part<'p>>,
        search: &Search<'p>,
    ) -> Self {
        let root = Item::part(Part::of(document).text());
        Self { path, root, variables, zone: search.zone, meter: search.meter, held: Cell::new(0) }
    }

    /// The zone of dates and times that have none.
    pub(super) fn zone(&self) -> Option<Tz> {
        self.zone
    }

    pub(super) fn meter(&self) -> &Meter {
        self.meter
    }

    pub(super) fn is_lax(&self) -> bool {
        self.path.is_lax
    }

    /// Counts an item that is put to others.
    fn hold(&self, item: &Item<'d>) -> Outcome {
        let made = match item.json() {
            Cow::Owned(text) => text.len(),
            Cow::Borrowed(_) => 0,
        };
        let before = self.held.get();
        // A vector that grows has up to as much room again.
        let held = before + 2 * size_of::<Item<'_>>() + made;
        self.held.set(held);
        if before / HELD_BYTES == held / HELD_BYTES {
            return Ok(());
        }
        self.meter.workspace(held).map_err(Failure::OfStatement)
    }

    /// Makes items that are held until something was done with them.
    fn holding<T>(&self, make: impl FnOnce() -> Outcome<T>, work: impl FnOnce(T) -> Outcome) -> Outcome {
        let before = self.held.get();
        let items = make()?;
        let own = self.held.get() - before;
        work(items)?;
        self.held.set(self.held.get() - own);
        Ok(())
    }

    /// Does something after which no item is left that it has held.
    fn holding_nothing<T>(&self, work: impl FnOnce() -> T) -> T {
        let before = self.held.get();
        let done = work();
        self.held.set(before);
        done
    }

    /// Adds what the path leads to.
    pub(super) fn follow(&self, found: &mut Vec<Item<'d>>) -> Outcome {
        let scope = Scope { current: &self.root, size: None, is_lenient: self.is_lax() };
        self.expression(&self.path.expression, &self.root, scope, found)
    }

    /// Where arrays are opened by themselves: in lax mode.
    fn opened(&self) -> Arrays {
        if self.is_lax() { Arrays::Opened } else { Arrays::Kept }
    }

    /// Adds the values of an expression, `item` being what is looked at.
    pub(super) fn expression(
        &self,
        expression: &Expression,
        item: &Item<'d>,
        scope: Scope<'_, 'd>,
        found: &mut Vec<Item<'d>>,
    ) -> Outcome {
        self.meter.step().map_err(Failure::OfStatement)?;
        match expression {
            Expression::Steps(head, steps) => {
                for begin in self.head(head, item, scope)? {
                    self.steps(&begin, steps, scope, found, self.opened())?;
                }
                Ok(())
            }
            Expression::Arithmetic(operation, left, right) => {
                let left = self.holding_nothing(|| self.operand(left, item, scope, "left", *operation))?;
                let right = self.holding_nothing(|| self.operand(right, item, scope, "right", *operation))?;
                let result = match operation {
                    ArithmeticOp::Add => left.plus(right),
                    ArithmeticOp::Subtract => left.minus(right),
                    ArithmeticOp::Multiply => left.times(right),
                    ArithmeticOp::Divide => left.over(right),
                    ArithmeticOp::Remainder => left.modulo(right),
                };
                found.push(Item::made(result.map_err(Failure::OfPath)?.text()));
                Ok(())
            }
            Expression::Sign(sign, operand) => {
                for value in self.opened_values(operand, item, scope)? {
                    let Some(number) = number_of(&value)? else {
                        let message = format!(
                            "operand of unary jsonpath operator {} is not a numeric value",
                            sign.sign()
                        );
                        return of_path(SqlState::SqlJsonNumberNotFound, message);
                    };
                    let signed = if *sign == ArithmeticOp::Subtract { number.negative() } else { Ok(number) };
                    found.push(Item::made(signed.map_err(Failure::OfPath)?.text()));
                }
                Ok(())
            }
            Expression::Predicate(predicate) => {
                let truth = match self.holding_nothing(|| self.truth(predicate, item, scope))? {
                    Some(true) => "true",
                    Some(false) => "false",
                    None => "null",
                };
                found.push(Item::part(truth));
                Ok(())
            }
        }
    }

    /// Where steps begin.
    fn head(&self, head: &Head, item: &Item<'d>, scope: Scope<'_, 'd>) -> Outcome<Vec<Item<'d>>> {
        Ok(vec![match head {
            Head::Root => self.root.clone(),
            Head::Current => scope.current.clone(),
            Head::Literal(literal) => Item::made(literal.clone()),
            Head::Last => {
                let last = scope.size.unwrap_or(0).cast_signed() - 1;
                Item::made(last.to_string())
            }
            Head::Variable(name) => match self.variables.map(|variables| variables.member(name)) {
                None => Item::part("null"),
                Some(Some(value)) => Item::made(value.text().to_owned()),
                Some(None) => {
                    let message = format!("could not find jsonpath variable \"{name}\"");
                    return Err(Failure::OfStatement(SqlError::new(SqlState::UndefinedObject, message)));
                }
            },
            Head::Nested(inner) => {
                let mut values = Vec::new();
                self.expression(inner, item, scope, &mut values)?;
                return Ok(values);
            }
        }])
    }

    /// The values of an expression.
    pub(super) fn values(
        &self,
        expression: &Expression,
        item: &Item<'d>,
        scope: Scope<'_, 'd>,
    ) -> Outcome<Vec<Item<'d>>> {
        let mut values = Vec::new();
        self.expression(expression, item, scope, &mut values)?;
        Ok(values)
    }

    /// The same; in lax mode the elements of those that are arrays.
    pub(super) fn opened_values(
        &self,
        expression: &Expression,
        item: &Item<'d>,
        scope: Scope<'_, 'd>,
    ) -> Outcome<Vec<Item<'d>>> {
        let values = self.values(expression, item, scope)?;
        if !self.is_lax() {
            return Ok(values);
        }
        let mut opened = Vec::with_capacity(values.len());
        for value in values {
            if part(&value).kind() != Kind::Array {
                opened.push(value);
                continue;
            }
            for element in elements(&value) {
                self.hold(&element)?;
                opened.push(element);
            }
        }
        Ok(opened)
    }

    fn operand(
        &self,
        expression: &Expression,
        item: &Item<'d>,
        scope: Scope<'_, 'd>,
        side: &str,
        operation: ArithmeticOp,
    ) -> Outcome<Number> {
        let values = with_room(|| self.opened_values(expression, item, scope))?;
        if let [only] = values.as_slice()
            && let Some(number) = number_of(only)?
        {
            return Ok(number);
        }
        let message =
            format!("{side} operand of jsonpath operator {} is not a single numeric value", operation.sign());
        of_path(SqlState::SingletonSqlJsonItemRequired, message)
    }

    /// Takes the steps from a value.
    fn steps(
        &self,
        item: &Item<'d>,
        steps: &[Step],
        scope: Scope<'_, 'd>,
        found: &mut Vec<Item<'d>>,
        arrays: Arrays,
    ) -> Outcome {
        self.meter.step().map_err(Failure::OfStatement)?;
        let Some((step, rest)) = steps.split_first() else {
            self.hold(item)?;
            found.push(item.clone());
            return Ok(());
        };
        let kind = part(item).kind();
        let opens = match step {
            Step::Key(_) | Step::AnyKey | Step::Filter(_) => true,
            Step::Method(method) => !matches!(method, Method::Type | Method::Size),
            Step::AnyLevel { .. } | Step::AnyElement | Step::Elements(_) => false,
        };
        if opens && kind == Kind::Array && arrays == Arrays::Opened {
            return elements(item)
                .try_for_each(|element| self.steps(&element, steps, scope, found, Arrays::Kept));
        }
        match step {
            Step::Key(key) => self.key(item, key, rest, scope, found),
            Step::AnyKey if kind == Kind::Object => {
                members(item).try_for_each(|(_, value)| self.next(&value, rest, scope, found))
            }
            Step::AnyKey if scope.is_lenient => Ok(()),
            Step::AnyKey => {
                let message = "jsonpath wildcard member accessor can only be applied to an object";
                of_path(SqlState::SqlJsonObjectNotFound, message)
            }
            Step::AnyElement if kind == Kind::Array => {
                elements(item).try_for_each(|element| self.next(&element, rest, scope, found))
            }
            Step::AnyElement if self.is_lax() => self.next(item, rest, scope, found),
            Step::AnyElement if scope.is_lenient => Ok(()),
            Step::AnyElement => {
                let message = "jsonpath wildcard array accessor can only be applied to an array";
                of_path(SqlState::SqlJsonArrayNotFound, message)
            }
            Step::Elements(subscripts) => self.subscripts(item, subscripts, rest, scope, found),
            Step::AnyLevel { first, last } => {
                let lenient = Scope { is_lenient: true, ..scope };
                if *first == Some(0) {
                    self.next(item, rest, lenient, found)?;
                }
                self.levels(item, 1, (*first, *last), &mut |below| self.next(below, rest, lenient, found))
            }
            Step::Filter(predicate) => {
                let inner = Scope { current: item, ..scope };
                match self.holding_nothing(|| self.truth(predicate, item, inner))? {
                    Some(true) => self.next(item, rest, scope, found),
                    Some(false) | None => Ok(()),
                }
            }
            Step::Method(method) => self.holding(
                || self.method(item, method, scope),
                |results: Option<Vec<Item<'d>>>| {
                    results.iter().flatten().try_for_each(|result| self.next(result, rest, scope, found))
                },
            ),
        }
    }

    fn next(
        &self,
        item: &Item<'d>,
        rest: &[Step],
        scope: Scope<'_, 'd>,
        found: &mut Vec<Item<'d>>,
    ) -> Outcome {
        with_room(|| self.steps(item, rest, scope, found, self.opened()))
    }

    fn key(
        &self,
        item: &Item<'d>,
        key: &str,
        rest: &[Step],
        scope: Scope<'_, 'd>,
        found: &mut Vec<Item<'d>>,
    ) -> Outcome {
        if part(item).kind() != Kind::Object {
            if scope.is_lenient {
                return Ok(());
            }
            let message = "jsonpath member accessor can only be applied to an object";
            return of_path(SqlState::SqlJsonMemberNotFound, message);
        }
        let value = match item.json() {
            Cow::Borrowed(text) => Part::of(text).member(key).map(|value| Item::part(value.text())),
            Cow::Owned(text) => Part::of(text).member(key).map(|value| Item::made(value.text().to_owned())),
        };
        match value {
            Some(value) => self.next(&value, rest, scope, found),
            None if scope.is_lenient => Ok(()),
            None => {
                let message = format!("JSON object does not contain key \"{key}\"");
                of_path(SqlState::SqlJsonMemberNotFound, message)
            }
        }
    }

    fn subscripts(
        &self,
        item: &Item<'d>,
        subscripts: &[(Expression, Option<Expression>)],
        rest: &[Step],
        scope: Scope<'_, 'd>,
        found: &mut Vec<Item<'d>>,
    ) -> Outcome {
        let is_array = part(item).kind() == Kind::Array;
        if !is_array && !self.is_lax() {
            if scope.is_lenient {
                return Ok(());
            }
            let message = "jsonpath array accessor can only be applied to an array";
            return of_path(SqlState::SqlJsonArrayNotFound, message);
        }
        let listed = || if is_array { self.listed(item) } else { Ok(vec![item.clone()]) };
        self.holding(listed, |elements: Vec<Item<'d>>| {
            let inner = Scope { size: Some(elements.len()), ..scope };
            let last = i128::try_from(elements.len()).unwrap_or(i128::MAX) - 1;
            for (from, to) in subscripts {
                let from = self.holding_nothing(|| self.subscript(from, item, inner))?;
                let to = match to {
                    Some(to) => self.holding_nothing(|| self.subscript(to, item, inner))?,
                    None => from,
                };
                if !scope.is_lenient && (from < 0 || from > to || to > last) {
                    let message = "jsonpath array subscript is out of bounds";
                    return of_path(SqlState::InvalidSqlJsonSubscript, message);
                }
                for place in from.max(0)..=to.min(last) {
                    if let Some(element) = usize::try_from(place).ok().and_then(|place| elements.get(place)) {
                        self.next(element, rest, scope, found)?;
                    }
                }
            }
            Ok(())
        })
    }

    /// The elements of an array, of which some are looked for by their places.
    fn listed(&self, item: &Item<'d>) -> Outcome<Vec<Item<'d>>> {
        let held = |element: Item<'d>| self.hold(&element).map(|()| element);
        elements(item).map(held).collect()
    }

    fn subscript(&self, expression: &Expression, item: &Item<'d>, scope: Scope<'_, 'd>) -> Outcome<i128> {
        let mut values = Vec::new();
        self.expression(expression, item, scope, &mut values)?;
        if let [only] = values.as_slice()
            && let Some(number) = number_of(only)?
        {
            let place = number.whole();
            if i32::try_from(place).is_err() {
                let message = "jsonpath array subscript is out of integer range";
                return of_path(SqlState::InvalidSqlJsonSubscript, message);
            }
            return Ok(place);
        }
        let message = "jsonpath array subscript is not a single numeric value";
        of_path(SqlState::InvalidSqlJsonSubscript, message)
    }

    /// Hands what lies on these levels below a value to `take`, each before what is below it.
    fn levels(
        &self,
        item: &Item<'d>,
        level: usize,
        wanted: (Option<usize>, Option<usize>),
        take: &mut dyn FnMut(&Item<'d>) -> Outcome,
    ) -> Outcome {
        if wanted.1.is_some_and(|last| level > last) {
            return Ok(());
        }
        let below: Box<dyn Iterator<Item = Item<'d>> + '_> = match part(item).kind() {
            Kind::Array => elements(item),
            Kind::Object => Box::new(members(item).map(|(_, value)| value)),
            _ => return Ok(()),
        };
        for value in below {
            self.meter.step().map_err(Failure::OfStatement)?;
            let is_leaf = !matches!(part(&value).kind(), Kind::Array | Kind::Object);
            let is_wanted = match wanted {
                (Some(first), _) => level >= first,
                (None, None) => is_leaf,
                (None, Some(_)) => false,
            };
            if is_wanted {
                take(&value)?;
            }
            if !is_leaf && wanted.1.is_none_or(|last| level < last) {
                with_room(|| self.levels(&value, level + 1, wanted, take))?;
            }
        }
        Ok(())
    }

    /// What a method gives; `None` for nothing.
    fn method(
        &self,
        item: &Item<'d>,
        method: &Method,
        scope: Scope<'_, 'd>,
    ) -> Outcome<Option<Vec<Item<'d>>>> {
        let value = part(item);
        let one = |text: String| Ok(Some(vec![Item::made(text)]));
        match method {
            Method::Type => {
                let name = item.moment().map_or_else(|| value.kind().name(), Moment::name);
                one(format!("\"{name}\""))
            }
            Method::Size => match value.kind() {
                Kind::Array => one(value.elements().count().to_string()),
                _ if self.is_lax() => one("1".to_owned()),
                _ if scope.is_lenient => Ok(None),
                _ => {
                    let message = "jsonpath item method .size() can only be applied to an array";
                    of_path(SqlState::SqlJsonArrayNotFound, message)
                }
            },
            Method::Abs => one(numeric(item, "abs")?.absolute().map_err(Failure::OfPath)?.text()),
            Method::Floor => one(numeric(item, "floor")?.floor().text()),
            Method::Ceiling => one(numeric(item, "ceiling")?.ceiling().text()),
            Method::Double => one(double(value)?),
            Method::Datetime(template) => {
                Ok(Some(vec![Item::of_moment(moment_of(item, template.as_deref())?)]))
            }
            Method::KeyValue if value.kind() == Kind::Object => {
                let entry = |(key, value): (String, Item<'d>)| {
                    let mut text = String::from("{\"id\": 0, \"key\": ");
                    push_string(&key, &mut text);
                    text.push_str(", \"value\": ");
                    text.push_str(&value);
                    text.push('}');
                    let entry = Item::made(text);
                    self.hold(&entry).map(|()| entry)
                };
                members(item).map(entry).collect::<Outcome<Vec<_>>>().map(Some)
            }
            Method::KeyValue => {
                let message = "jsonpath item method .keyvalue() can only be applied to an object";
                of_path(SqlState::SqlJsonObjectNotFound, message)
            }
        }
    }
}

fn numeric(item: &Item<'_>, method: &str) -> Outcome<Number> {
    match number_of(item)? {
        Some(number) => Ok(number),
        None => {
            let message = format!("jsonpath item method .{method}() can only be applied to a numeric value");
            of_path(SqlState::NonNumericSqlJsonItem, message)
        }
    }
}

/// The date or time that a text writes, by the template if there is one.
fn moment_of(item: &Item<'_>, template: Option<&str>) -> Outcome<Moment> {
    let Some(text) = item.string() else {
        let message = "jsonpath item method .datetime() can only be applied to a string";
        return of_path(SqlState::InvalidArgumentForSqlJsonDatetimeFunction, message);
    };
    if let Some(template) = template {
        let template = ExactPattern::new(template).map_err(Failure::OfStatement)?;
        return Moment::by_template(&text, &template).map_err(Failure::OfPath);
    }
    Moment::read(&text).ok_or_else(|| {
        let message = format!("datetime format is not recognized: \"{text}\"");
        let error = SqlError::new(SqlState::InvalidArgumentForSqlJsonDatetimeFunction, message);
        let hint = "Use a datetime template argument to specify the input data format.";
        Failure::OfPath(error.with_hint(hint))
    })
}

/// A number, or a text that writes one, as a `double precision`.
fn double(value: Part<'_>) -> Outcome<String> {
    let text = match value.kind() {
        Kind::Number => Cow::Borrowed(value.text()),
        Kind::String => value.string().unwrap_or_default(),
        _ => {
            let message = "jsonpath item method .double() can only be applied to a string or numeric value";
            return of_path(SqlState::NonNumericSqlJsonItem, message);
        }
    };
    match text.trim().parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(number.to_string()),
        _ => {
            let what = if value.kind() == Kind::String { "string" } else { "numeric" };
            let message = format!(
                "{what} argument of jsonpath item method .double() is not a valid representation of a double precision number"
            );
            of_path(SqlState::NonNumericSqlJsonItem, message)
        }
    }
}

/// The value that a text of JSON writes.
pub(super) fn part<'i>(item: &'i Item<'_>) -> Part<'i> {
    Part::of(item)
}

/// The number that an item is; `None` if it is none.
pub(super) fn number_of(item: &Item<'_>) -> Outcome<Option<Number>> {
    let value = part(item);
    if value.kind() != Kind::Number {
        return Ok(None);
    }
    Number::parse(value.text()).map(Some).map_err(Failure::OfPath)
}

/// The elements of an array, in order.
fn elements<'i, 'd>(item: &'i Item<'d>) -> Box<dyn Iterator<Item = Item<'d>> + 'i> {
    match item.json() {
        Cow::Borrowed(text) => Box::new(Part::of(text).elements().map(|value| Item::part(value.text()))),
        Cow::Owned(text) => {
            Box::new(Part::of(text).elements().map(|value| Item::made(value.text().to_owned())))
        }
    }
}

/// The members of an object, by their keys.
fn members<'i, 'd>(item: &'i Item<'d>) -> Box<dyn Iterator<Item = (String, Item<'d>)> + 'i> {
    let key = |key: Part<'_>| key.string().map(Cow::into_owned).unwrap_or_default();
    match item.json() {
        Cow::Borrowed(text) => {
            Box::new(Part::of(text).members().map(move |(name, value)| (key(name), Item::part(value.text()))))
        }
        Cow::Owned(text) => {
            let owned = |value: Part<'_>| Item::made(value.text().to_owned());
            Box::new(Part::of(text).members().map(move |(name, value)| (key(name), owned(value))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Errors;
    use super::*;
    use crate::allowance::Allowance;
    use crate::carried::Carry;
    use datafusion::common::config::ConfigOptions;
    use datafusion::execution::runtime_env::RuntimeEnvBuilder;

    #[test]
    fn what_is_found_is_accounted_for_and_what_is_only_looked_at_is_not() {
        let environment = RuntimeEnvBuilder::new().with_memory_limit(1 << 20, 1.0).build().unwrap();
        let mut options = ConfigOptions::new();
        Allowance::of(&environment).carry_in(&mut options);
        let meter = Meter::begin(&options, "test");
        let document = format!("[{}1]", "1, ".repeat(20_000));
        let found = |path: &str| {
            let search = Search { path, variables: None, errors: Errors::Told, zone: None, meter: &meter };
            search.found(&document).map(|found| found.len())
        };
        for (path, count) in [
            ("$.size()", 1),
            ("$[*] ? (@ > 1)", 0),
            ("$[*] ? (@ + 1 == 0)", 0),
            ("$[*] ? (exists($) && @ == 3)", 0),
            ("$.** ? (@ == 3)", 0),
        ] {
            assert_eq!(found(path).unwrap(), count, "{path}");
        }
        for path in ["$[*]", "$[0, 1]", "$.**"] {
            assert_eq!(found(path).unwrap_err().state.code(), "53200", "{path}");
        }
    }
}
