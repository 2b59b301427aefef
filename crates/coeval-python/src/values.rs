// SPDX-License-Identifier: Apache-2.0
//! Values of rows as Python's: `int`, `float`, `Decimal`, `str`, `bytes`, `bool`, `date`, `time`, `datetime`, `timedelta`, `UUID`,
//! `list`, what `json.loads` makes of a document, and `None`.

use crate::errors::refused;
use chrono::{DateTime, Datelike, NaiveDateTime, TimeDelta, TimeZone, Timelike};
use chrono_tz::Tz;
use coeval::{ColumnType, IntervalValue, ValueRef, format_value};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyAny, PyBytes, PyDate, PyDateTime, PyDelta, PyList, PyTime, PyTzInfo};

const MICROS_PER_SECOND: i64 = 1_000_000;
/// A month of an interval has so many days for Python, which counts days alone, and a year has so many.
const DAYS_PER_MONTH: i32 = 30;
const DAYS_PER_YEAR: i32 = 365;
const MONTHS_PER_YEAR: i32 = 12;

static DECIMAL: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
static UUID: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
static LOADS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

fn text_of(value: ValueRef<'_>, ty: ColumnType, zone: Tz) -> String {
    let mut text = String::new();
    format_value(value, ty, zone, &mut text);
    text
}

/// Which of the instants that have one local time is meant, where a clock was put back.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Occurrence {
    First,
    Second,
}

/// Makes values of rows into Python's, in the time zone of the session that read them.
pub(crate) struct Values<'py> {
    py: Python<'py>,
    zone: Tz,
    zone_of_python: Option<Bound<'py, PyTzInfo>>,
    /// What reads documents, if it is not `json.loads`.
    loads: Option<&'py Py<PyAny>>,
}

impl<'py> Values<'py> {
    pub(crate) fn new(py: Python<'py>, zone: Tz, loads: Option<&'py Py<PyAny>>) -> Self {
        Self { py, zone, zone_of_python: None, loads }
    }

    pub(crate) fn py(&self) -> Python<'py> {
        self.py
    }

    /// The value of this type.
    ///
    /// # Errors
    /// `DataError` for a time that Python's types cannot hold; what `json.loads`, or what stands for it, raises.
    pub(crate) fn of(&mut self, ty: ColumnType, value: ValueRef<'_>) -> PyResult<Bound<'py, PyAny>> {
        let py = self.py;
        Ok(match (ty, value) {
            (_, ValueRef::Null) => py.None().into_bound(py),
            (ColumnType::Date, ValueRef::Int32(days)) => self.date(days)?,
            (ColumnType::Time, ValueRef::Int64(micros)) => self.time(micros)?,
            (ColumnType::Timestamp, ValueRef::Int64(micros)) => self.timestamp(micros)?,
            (ColumnType::TimestampTz, ValueRef::Int64(micros)) => self.instant(micros)?,
            (ColumnType::PgLsn, ValueRef::Int64(_))
            | (ColumnType::TimeTz | ColumnType::Bit(_) | ColumnType::Varbit(_), ValueRef::Bytes(_)) => {
                text_of(value, ty, self.zone).into_pyobject(py)?.into_any()
            }
            (ColumnType::Enum(labels), ValueRef::Int64(place)) => {
                labels.def().label_at(place).into_pyobject(py)?.into_any()
            }
            (ColumnType::Json | ColumnType::Jsonb, ValueRef::Text(text)) => {
                let loads = self.loads.map(|own| own.bind(py));
                loads.map_or_else(|| LOADS.import(py, "json", "loads"), Ok)?.call1((text,))?
            }
            (ColumnType::Array(element), ValueRef::List(list)) => {
                let items = PyList::empty(py);
                let mut outcome = Ok(());
                list.for_each(element, |item| {
                    if outcome.is_ok() {
                        outcome = self.of(element.column_type(), item).and_then(|item| items.append(item));
                    }
                });
                outcome?;
                items.into_any()
            }
            (ty, ValueRef::Decimal(_) | ValueRef::Number(_)) => {
                let text = text_of(value, ty, self.zone);
                DECIMAL.import(py, "decimal", "Decimal")?.call1((text,))?
            }
            (_, ValueRef::Boolean(value)) => value.into_pyobject(py)?.to_owned().into_any(),
            (_, ValueRef::Int16(value)) => value.into_pyobject(py)?.into_any(),
            (_, ValueRef::Int32(value)) => value.into_pyobject(py)?.into_any(),
            (_, ValueRef::Int64(value)) => value.into_pyobject(py)?.into_any(),
            (_, ValueRef::Float32(value)) => value.into_pyobject(py)?.into_any(),
            (_, ValueRef::Float64(value)) => value.into_pyobject(py)?.into_any(),
            (_, ValueRef::Text(value)) => value.into_pyobject(py)?.into_any(),
            (_, ValueRef::Bytes(value)) => PyBytes::new(py, value).into_any(),
            (_, ValueRef::Interval(value)) => interval(py, value)?,
            (_, ValueRef::Uuid(value)) => {
                UUID.import(py, "uuid", "UUID")?.call1((py.None(), PyBytes::new(py, &value)))?
            }
            (_, ValueRef::List(_)) => py.None().into_bound(py),
        })
    }

    fn date(&self, days: i32) -> PyResult<Bound<'py, PyAny>> {
        let date = DateTime::UNIX_EPOCH.date_naive().checked_add_signed(TimeDelta::days(days.into()));
        let date = date.filter(|date| is_year_of_python(date.year()));
        let date = date.ok_or_else(|| self.no_time(ColumnType::Date, ValueRef::Int32(days)))?;
        Ok(PyDate::new(self.py, date.year(), small(date.month()), small(date.day()))?.into_any())
    }

    fn time(&self, micros: i64) -> PyResult<Bound<'py, PyAny>> {
        let second = micros / MICROS_PER_SECOND;
        let (hour, minute) = (second / 3600, second / 60 % 60);
        if !(0..24).contains(&hour) {
            return Err(self.no_time(ColumnType::Time, ValueRef::Int64(micros)));
        }
        let rest = u32::try_from(micros % MICROS_PER_SECOND).unwrap_or(0);
        Ok(PyTime::new(self.py, hour as u8, minute as u8, (second % 60) as u8, rest, None)?.into_any())
    }

    fn timestamp(&self, micros: i64) -> PyResult<Bound<'py, PyAny>> {
        let time = DateTime::from_timestamp_micros(micros).map(|time| time.naive_utc());
        let time = time.filter(|time| is_year_of_python(time.year()));
        let time = time.ok_or_else(|| self.no_time(ColumnType::Timestamp, ValueRef::Int64(micros)))?;
        self.local(time, None, Occurrence::First)
    }

    fn instant(&mut self, micros: i64) -> PyResult<Bound<'py, PyAny>> {
        let instant = DateTime::from_timestamp_micros(micros).map(|time| time.with_timezone(&self.zone));
        let instant = instant.filter(|time| is_year_of_python(time.year()));
        let instant =
            instant.ok_or_else(|| self.no_time(ColumnType::TimestampTz, ValueRef::Int64(micros)))?;
        let local = instant.naive_local();
        let earliest = self.zone.from_local_datetime(&local).earliest();
        let is_first = earliest.is_none_or(|first| first == instant);
        let occurrence = if is_first { Occurrence::First } else { Occurrence::Second };
        if self.zone_of_python.is_none() {
            self.zone_of_python = Some(PyTzInfo::timezone(self.py, self.zone.name())?);
        }
        self.local(local, self.zone_of_python.as_ref(), occurrence)
    }

    fn local(
        &self,
        time: NaiveDateTime,
        zone: Option<&Bound<'py, PyTzInfo>>,
        occurrence: Occurrence,
    ) -> PyResult<Bound<'py, PyAny>> {
        let made = PyDateTime::new_with_fold(
            self.py,
            time.year(),
            small(time.month()),
            small(time.day()),
            small(time.hour()),
            small(time.minute()),
            small(time.second()),
            time.and_utc().timestamp_subsec_micros(),
            zone,
            occurrence == Occurrence::Second,
        );
        Ok(made?.into_any())
    }

    fn no_time(&self, ty: ColumnType, value: ValueRef<'_>) -> PyErr {
        let text = text_of(value, ty, self.zone);
        let hint = Some("Select it as text (value::text), or read the result as Arrow.");
        refused(self.py, "22008", &format!("Python has no value for the {ty} {text}"), hint)
    }
}

fn small(part: u32) -> u8 {
    u8::try_from(part).unwrap_or(u8::MAX)
}

fn is_year_of_python(year: i32) -> bool {
    (1..=9999).contains(&year)
}

/// An interval in microseconds, with as many days to a month and a year as [`interval`] has; `None` if they are too many.
pub(crate) fn micros_of(value: IntervalValue) -> Option<i64> {
    let years = i64::from(value.months / MONTHS_PER_YEAR) * i64::from(DAYS_PER_YEAR);
    let months = i64::from(value.months % MONTHS_PER_YEAR) * i64::from(DAYS_PER_MONTH);
    let days = years + months + i64::from(value.days);
    days.checked_mul(86_400 * MICROS_PER_SECOND)?.checked_add(value.nanoseconds / 1_000)
}

fn interval(py: Python<'_>, value: IntervalValue) -> PyResult<Bound<'_, PyAny>> {
    let days = value.months / MONTHS_PER_YEAR * DAYS_PER_YEAR
        + value.months % MONTHS_PER_YEAR * DAYS_PER_MONTH
        + value.days;
    let micros = value.nanoseconds / 1_000;
    let seconds = i32::try_from(micros / MICROS_PER_SECOND % 86_400).unwrap_or(0);
    let whole_days = i32::try_from(micros / MICROS_PER_SECOND / 86_400).unwrap_or(i32::MAX);
    let rest = i32::try_from(micros % MICROS_PER_SECOND).unwrap_or(0);
    Ok(PyDelta::new(py, days.saturating_add(whole_days), seconds, rest, true)?.into_any())
}
