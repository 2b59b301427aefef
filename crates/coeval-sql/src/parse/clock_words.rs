// SPDX-License-Identifier: Apache-2.0
//! The words `now`, `today`, `tomorrow` and `yesterday` as dates and times: `'now'::timestamptz`, `date 'today'`, `timestamp 'tomorrow 12:00'`.
//!
//! A text has no statement that would know the time, so a literal of such a word becomes what asks for the time of the transaction, where it
//! is cast and where a statement gives it to a column. (Where it stands beside a date or time, its type is known only when the query is
//! planned, and it gets its value while constants are computed: [`meant_at`].)
//!
//! | literal | becomes |
//! |---|---|
//! | `'now'::t` | `now()::t`, by way of a `timestamp` to `time` |
//! | `'tomorrow'::date` | `(now()::date + 1)::date` |
//! | `'today'::t` | `now()::date::timestamp::t` |
//! | `'today 12:00'::t` | `(now()::date + time '12:00')::t` |
//!
//! A definition keeps what such a word meant when it was made, as in PostgreSQL: there the literal gets the date or time in its place
//! ([`fix_in_definition`]).

use crate::clock::Clock;
use crate::select::{call, cast};
use crate::walk::WalkMut;
use chrono::{DateTime, Duration};
use chrono_tz::Tz;
use coeval_store::ColumnType;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, DataType, Expr, Statement, TimezoneInfo, TypedString, Value, VisitMut, VisitorMut,
};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use std::borrow::Cow;
use std::ops::ControlFlow;

/// Whether a literal among the tokens of a statement begins with such a word.
pub(super) fn has_clock_words(tokens: &[TokenWithSpan]) -> bool {
    let is_one =
        |token: &Token| matches!(token, Token::SingleQuotedString(text) if Meant::of(text).is_some());
    tokens.iter().any(|token| is_one(&token.token))
}

/// Has such literals ask for the time, in a statement that defines nothing.
pub(super) fn ask_for_time(statement: &mut Statement) {
    let is_run = match statement {
        Statement::CreateTable(table) => table.query.is_some(),
        Statement::Query(_)
        | Statement::Insert(_)
        | Statement::Update(_)
        | Statement::Delete(_)
        | Statement::Merge(_)
        | Statement::Copy { .. }
        | Statement::Explain { .. }
        | Statement::Prepare { .. }
        | Statement::Execute { .. } => true,
        _ => false,
    };
    if is_run {
        // Nothing breaks off the visit.
        let _ = statement.walk_mut(&mut Asking);
    }
}

/// What a statement gives to a column of this type: a literal of such a word as what asks for the time, anything else as it is.
pub(crate) fn given_to_column(value: &Expr, ty: ColumnType) -> Cow<'_, Expr> {
    let asked = match (value, type_of_column(ty)) {
        (Expr::Value(literal), Some(ty)) => match &literal.value {
            Value::SingleQuotedString(text) => Meant::of(text).and_then(|meant| meant.asked_as(&ty)),
            _ => None,
        },
        _ => None,
    };
    asked.map_or(Cow::Borrowed(value), Cow::Owned)
}

/// Whether a text that is to be of this type is such a word.
pub(crate) fn is_clock_word(text: &str, ty: ColumnType) -> bool {
    type_of_column(ty).zip(Meant::of(text)).is_some_and(|(ty, meant)| meant.asked_as(&ty).is_some())
}

/// What such a word means at a time, as a text of this type; `None` for any other text.
pub(crate) fn meant_at(text: &str, ty: ColumnType, now: &DateTime<Tz>) -> Option<String> {
    Meant::of(text)?.written_as(&type_of_column(ty)?, now)
}

/// The type of a column as a cast names it, if its values are dates or times.
fn type_of_column(ty: ColumnType) -> Option<DataType> {
    Some(match ty {
        ColumnType::Date => DataType::Date,
        ColumnType::Time => DataType::Time(None, TimezoneInfo::None),
        ColumnType::TimeTz => DataType::Time(None, TimezoneInfo::WithTimeZone),
        ColumnType::Timestamp => DataType::Timestamp(None, TimezoneInfo::None),
        ColumnType::TimestampTz => DataType::Timestamp(None, TimezoneInfo::WithTimeZone),
        _ => return None,
    })
}

/// Writes what such words mean now into a definition, where they are cast.
pub(crate) fn fix_in_definition<V: VisitMut>(definition: &mut V, clock: Clock, zone: Tz) {
    if let Some(now) = local_time(clock, zone) {
        // Nothing breaks off the visit.
        let _ = definition.walk_mut(&mut Fixing { now });
    }
}

/// The same for the default of a column of this type.
pub(crate) fn fix_in_default(value: &mut Expr, ty: ColumnType, clock: Clock, zone: Tz) {
    fix_in_definition(value, clock, zone);
    let (Some(ty), Some(now)) = (type_of_column(ty), local_time(clock, zone)) else { return };
    if let Expr::Value(literal) = value {
        fix_literal(&mut literal.value, &ty, &now);
    }
}

fn local_time(clock: Clock, zone: Tz) -> Option<DateTime<Tz>> {
    DateTime::from_timestamp_micros(clock.transaction_micros).map(|now| now.with_timezone(&zone))
}

fn fix_literal(literal: &mut Value, ty: &DataType, now: &DateTime<Tz>) {
    let Value::SingleQuotedString(text) = literal else { return };
    if let Some(written) = Meant::of(text).and_then(|meant| meant.written_as(ty, now)) {
        *text = written;
    }
}

struct Fixing {
    now: DateTime<Tz>,
}

impl VisitorMut for Fixing {
    type Break = ();

    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
        match expression {
            Expr::Cast { expr, data_type, array: false, format: None, .. } => {
                if let Expr::Value(literal) = expr.as_mut() {
                    fix_literal(&mut literal.value, data_type, &self.now);
                }
            }
            Expr::TypedString(typed) => fix_literal(&mut typed.value.value, &typed.data_type, &self.now),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

struct Asking;

impl VisitorMut for Asking {
    type Break = ();

    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<()> {
        let (literal, ty) = match &*expression {
            Expr::Cast { expr, data_type, array: false, format: None, .. } => match expr.as_ref() {
                Expr::Value(value) => (&value.value, data_type),
                _ => return ControlFlow::Continue(()),
            },
            Expr::TypedString(TypedString { data_type, value, .. }) => (&value.value, data_type),
            _ => return ControlFlow::Continue(()),
        };
        if let Value::SingleQuotedString(text) = literal
            && let Some(asked) = Meant::of(text).and_then(|meant| meant.asked_as(ty))
        {
            *expression = asked;
        }
        ControlFlow::Continue(())
    }
}

/// What a text means that begins with such a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meant<'t> {
    Now,
    /// So many days from today on, at a time.
    Day(i8, Option<&'t str>),
}

impl<'t> Meant<'t> {
    fn of(text: &'t str) -> Option<Self> {
        let text = text.trim_ascii();
        // Of a time with a zone the offset would have to be found, too.
        let is_time = |time: &str| {
            let is_part = |byte: u8| byte.is_ascii_digit() || matches!(byte, b':' | b'.');
            time.contains(':') && time.bytes().all(is_part)
        };
        let (word, time) = match text.split_once(|letter: char| letter.is_ascii_whitespace()) {
            Some((time, word)) if is_time(time) => (word.trim_ascii(), Some(time)),
            Some((word, time)) => (word, Some(time.trim_ascii())),
            None => (text, None),
        };
        if !time.is_none_or(is_time) {
            return None;
        }
        let is = |wanted: &str| word.eq_ignore_ascii_case(wanted);
        match time {
            None if is("now") => Some(Self::Now),
            _ if is("today") => Some(Self::Day(0, time)),
            _ if is("tomorrow") => Some(Self::Day(1, time)),
            _ if is("yesterday") => Some(Self::Day(-1, time)),
            _ => None,
        }
    }

    /// What asks for the time of this type; `None` for types that it is none of.
    fn asked_as(self, ty: &DataType) -> Option<Expr> {
        let local = || DataType::Timestamp(None, TimezoneInfo::None);
        let is_moment = match ty {
            DataType::Date => false,
            DataType::Timestamp(..) => true,
            DataType::Time(_, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) if self == Self::Now => {
                return Some(cast(cast(call("now", Vec::new()), local()), ty.clone()));
            }
            DataType::Time(..) if self == Self::Now => {
                return Some(cast(call("now", Vec::new()), ty.clone()));
            }
            _ => return None,
        };
        let now = call("now", Vec::new());
        let Self::Day(days, time) = self else { return Some(cast(now, ty.clone())) };
        let today = cast(now, DataType::Date);
        let day = match days {
            0 => today,
            1.. => plus(today, BinaryOperator::Plus, one()),
            _ => plus(today, BinaryOperator::Minus, one()),
        };
        let meant = match (is_moment, time) {
            (false, _) => day,
            (true, None) => cast(day, local()),
            (true, Some(time)) => plus(day, BinaryOperator::Plus, time_of_day(time)),
        };
        Some(cast(meant, ty.clone()))
    }

    /// What it is now, as a text of this type; `None` for types that it is none of. A day has no offset: it begins when the clocks of the
    /// session's zone show midnight.
    fn written_as(self, ty: &DataType, now: &DateTime<Tz>) -> Option<String> {
        let written = |format: &str| Some(now.format(format).to_string());
        match (self, ty) {
            (Self::Now, DataType::Date) => written("%Y-%m-%d"),
            (Self::Now, DataType::Timestamp(_, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz)) => {
                written("%Y-%m-%d %H:%M:%S%.6f%:z")
            }
            (Self::Now, DataType::Timestamp(..)) => written("%Y-%m-%d %H:%M:%S%.6f"),
            (Self::Now, DataType::Time(_, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone)) => {
                written("%H:%M:%S%.6f")
            }
            (Self::Now, DataType::Time(..)) => written("%H:%M:%S%.6f%:z"),
            (Self::Day(days, time), DataType::Date | DataType::Timestamp(..)) => {
                let day = now.date_naive().checked_add_signed(Duration::days(days.into()))?;
                Some(match ty {
                    DataType::Date => day.to_string(),
                    _ => format!("{day} {}", time.unwrap_or("00:00")),
                })
            }
            _ => None,
        }
    }
}

fn plus(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::Nested(Box::new(Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }))
}

fn one() -> Expr {
    Expr::Value(Value::Number("1".to_owned(), false).into())
}

fn time_of_day(text: &str) -> Expr {
    let literal = Expr::Value(Value::SingleQuotedString(text.to_owned()).into());
    cast(literal, DataType::Time(None, TimezoneInfo::None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_may_have_a_time_beside_it_and_nothing_else() {
        assert_eq!(Meant::of(" NOW "), Some(Meant::Now));
        assert_eq!(Meant::of("tomorrow  12:30:05.5"), Some(Meant::Day(1, Some("12:30:05.5"))));
        assert_eq!(Meant::of("Yesterday"), Some(Meant::Day(-1, None)));
        assert_eq!(Meant::of("10:30  today"), Some(Meant::Day(0, Some("10:30"))));
        let others = ["", "now 12:00", "12:00 now", "12:00", "12:00 13:00 today", "today 12:00 PST"];
        for other in others.into_iter().chain(["today noon", "nowhere", "todays", "today 12"]) {
            assert_eq!(Meant::of(other), None, "{other}");
        }
    }

    #[test]
    fn a_definition_keeps_what_a_word_meant() {
        let now = "2024-02-28T23:30:00.25Z".parse::<DateTime<chrono::Utc>>().expect("a time");
        let now = now.with_timezone(&Tz::Europe__Berlin);
        let timestamp = |zone| DataType::Timestamp(None, zone);
        let written = |meant: Meant<'_>, ty: &DataType| meant.written_as(ty, &now).expect("a date or time");
        assert_eq!(written(Meant::Day(0, None), &DataType::Date), "2024-02-29");
        assert_eq!(written(Meant::Day(1, Some("12:00")), &timestamp(TimezoneInfo::None)), "2024-03-01 12:00");
        let zoned = timestamp(TimezoneInfo::WithTimeZone);
        assert_eq!(written(Meant::Now, &zoned), "2024-02-29 00:30:00.250000+01:00");
        assert_eq!(Meant::Now.written_as(&DataType::Text, &now), None);
    }

    #[test]
    fn a_word_has_a_meaning_where_its_type_is_known() {
        let now = "2024-02-28T23:30:00Z".parse::<DateTime<chrono::Utc>>().expect("a time");
        let now = now.with_timezone(&Tz::Europe__Berlin);
        let meant = |text: &str, ty| meant_at(text, ty, &now);
        assert_eq!(meant("today", ColumnType::Date).as_deref(), Some("2024-02-29"));
        assert_eq!(meant("12:00 tomorrow", ColumnType::Timestamp).as_deref(), Some("2024-03-01 12:00"));
        assert!(is_clock_word("today", ColumnType::TimestampTz) && is_clock_word("now", ColumnType::Time));
        assert!(!is_clock_word("today", ColumnType::Text) && !is_clock_word("today", ColumnType::Time));
        assert!(!is_clock_word("2024-02-29", ColumnType::Date));
        assert_eq!(meant("2024-02-29", ColumnType::Date), None);
    }

    #[test]
    fn a_type_without_a_day_has_no_today() {
        let time = DataType::Time(None, TimezoneInfo::None);
        assert!(Meant::Now.asked_as(&time).is_some());
        assert!(Meant::Day(0, None).asked_as(&time).is_none());
        assert!(Meant::Now.asked_as(&DataType::Text).is_none());
        let asked = Meant::Day(1, Some("12:00")).asked_as(&DataType::Timestamp(None, TimezoneInfo::None));
        let asked = asked.map(|asked| asked.to_string());
        assert_eq!(asked.as_deref(), Some("((now()::DATE + 1) + '12:00'::TIME)::TIMESTAMP"));
    }
}
