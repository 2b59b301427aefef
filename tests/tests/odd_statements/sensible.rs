// SPDX-License-Identifier: Apache-2.0
//! Expressions over the table `t` that make sense more often than not: each of a kind, made of parts of fitting kinds.

use super::Odd;
use rand::Rng;

/// What an expression is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Number,
    Text,
    Truth,
    Moment,
    Interval,
}

const NUMBERS: &[&str] = &[
    "a",
    "b",
    "n",
    "f",
    "r",
    "si",
    "0",
    "1",
    "-1",
    "2",
    "7",
    "3.5",
    "0.001",
    "1e3",
    "-2147483648",
    "9223372036854775807",
    "'NaN'::float8",
    "NULL::int",
    "'12'",
    "99999999999999999999.5",
];
const TEXTS: &[&str] =
    &["c", "v", "s", "''", "'x'", "'ab '", "'%'", "NULL", "'\u{e9}'", "j::text", "u::text"];
const TRUTHS: &[&str] = &["true", "false", "bo", "NULL::boolean", "a = 1", "c IS NULL"];
const MOMENTS: &[&str] = &[
    "d",
    "ts",
    "z",
    "DATE '2024-02-29'",
    "TIMESTAMP '2024-01-01 10:00'",
    "now()",
    "'infinity'::timestamp",
    "'-infinity'::date",
    "TIMESTAMPTZ '2024-01-01 10:00+02'",
    "'2024-02-29'::date",
];
const INTERVALS: &[&str] =
    &["y", "INTERVAL '1 month'", "INTERVAL '-1 day 02:00'", "INTERVAL '0'", "NULL::interval"];

const COMPARISONS: &[&str] = &["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM"];

impl Odd {
    pub(super) fn kind(&mut self) -> Kind {
        [Kind::Number, Kind::Number, Kind::Text, Kind::Truth, Kind::Moment, Kind::Interval]
            [self.random.random_range(0..6)]
    }

    /// An expression of this kind; now and then any other.
    pub(super) fn sensible(&mut self, kind: Kind, depth: u32) -> String {
        if self.chance(2) {
            return self.expression(depth.min(1));
        }
        if depth == 0 || self.chance(20) {
            let leaves = match kind {
                Kind::Number => NUMBERS,
                Kind::Text => TEXTS,
                Kind::Truth => TRUTHS,
                Kind::Moment => MOMENTS,
                Kind::Interval => INTERVALS,
            };
            return self.pick(leaves);
        }
        let depth = depth - 1;
        if self.chance(15) {
            return self.alternative(kind, depth);
        }
        match kind {
            Kind::Number => self.number(depth),
            Kind::Text => self.text(depth),
            Kind::Truth => self.truth(depth),
            Kind::Moment => self.moment(depth),
            Kind::Interval => match self.random.random_range(0..3) {
                0 => format!("({} * {})", self.sensible(kind, depth), self.sensible(Kind::Number, depth)),
                1 => format!("({} + {})", self.sensible(kind, depth), self.sensible(kind, depth)),
                _ => format!("({} / {})", self.sensible(kind, depth), self.sensible(Kind::Number, depth)),
            },
        }
    }

    fn alternative(&mut self, kind: Kind, depth: u32) -> String {
        let (left, right) = (self.sensible(kind, depth), self.sensible(kind, depth));
        match self.random.random_range(0..5) {
            0 => format!("coalesce({left}, {right})"),
            1 => format!("nullif({left}, {right})"),
            2 => format!("greatest({left}, {right})"),
            3 => format!("(SELECT {left} FROM t ORDER BY a LIMIT 1)"),
            _ => format!("CASE WHEN {} THEN {left} ELSE {right} END", self.sensible(Kind::Truth, depth)),
        }
    }

    fn number(&mut self, depth: u32) -> String {
        let left = self.sensible(Kind::Number, depth);
        match self.random.random_range(0..12) {
            0..=4 => {
                let right = self.sensible(Kind::Number, depth);
                format!("({left} {} {right})", self.pick(&["+", "-", "*", "/", "%"]))
            }
            5 | 6 => {
                let function = self.pick(&["abs", "round", "floor", "ceil", "trunc", "sign", "-"]);
                format!("{function}({left})")
            }
            7 | 8 => {
                let ty = self.pick(&[
                    "int",
                    "bigint",
                    "smallint",
                    "real",
                    "float8",
                    "numeric",
                    "numeric(6,2)",
                    "numeric(38,30)",
                ]);
                format!("({left})::{ty}")
            }
            9 => format!("length({})", self.sensible(Kind::Text, depth)),
            10 => format!("round({left}, {})", self.pick(&["0", "1", "-1", "30"])),
            _ => format!("mod({left}, {})", self.sensible(Kind::Number, depth)),
        }
    }

    fn text(&mut self, depth: u32) -> String {
        let text = self.sensible(Kind::Text, depth);
        match self.random.random_range(0..7) {
            0 | 1 => format!("({text} || {})", self.sensible(Kind::Text, depth)),
            2 => format!("{}({text})", self.pick(&["lower", "upper", "trim", "md5", "reverse"])),
            3 => format!(
                "substr({text}, {}, {})",
                self.pick(&["0", "1", "-2", "a"]),
                self.pick(&["0", "1", "5"])
            ),
            4 => format!("({text})::{}", self.pick(&["text", "varchar(1)", "char(3)"])),
            5 => {
                let kind = self.kind();
                format!("({})::text", self.sensible(kind, depth))
            }
            _ => format!("replace({text}, 'x', {})", self.sensible(Kind::Text, depth)),
        }
    }

    fn truth(&mut self, depth: u32) -> String {
        let kind = self.kind();
        let (left, right) = (self.sensible(kind, depth), self.sensible(kind, depth));
        match self.random.random_range(0..10) {
            0..=3 => format!("({left} {} {right})", self.pick(COMPARISONS)),
            4 => format!("({left} BETWEEN {right} AND {})", self.sensible(kind, depth)),
            5 => format!("({left} IN ({right}, {}))", self.sensible(kind, depth)),
            6 => format!("({left} IS NULL)"),
            7 => format!("({} LIKE {})", self.sensible(Kind::Text, depth), self.sensible(Kind::Text, depth)),
            8 => format!("(NOT {})", self.sensible(Kind::Truth, depth)),
            _ => {
                let operator = self.pick(&["AND", "OR"]);
                format!(
                    "({} {operator} {})",
                    self.sensible(Kind::Truth, depth),
                    self.sensible(Kind::Truth, depth)
                )
            }
        }
    }

    fn moment(&mut self, depth: u32) -> String {
        let moment = self.sensible(Kind::Moment, depth);
        match self.random.random_range(0..4) {
            0 | 1 => {
                format!("({moment} {} {})", self.pick(&["+", "-"]), self.sensible(Kind::Interval, depth))
            }
            2 => format!("({moment})::{}", self.pick(&["date", "timestamp", "timestamptz"])),
            _ => format!("date_trunc('{}', {moment})", self.pick(&["year", "month", "day", "hour"])),
        }
    }

    /// A query of `t`, or a change of it, that makes sense more often than not.
    pub(super) fn sensible_statement(&mut self) -> String {
        let condition = self.sensible(Kind::Truth, 2);
        let kind = self.kind();
        let (value, other) = (self.sensible(kind, 3), self.sensible(Kind::Number, 2));
        match self.random.random_range(0..12) {
            0..=3 => format!("SELECT {value} AS x, {other} FROM t WHERE {condition} ORDER BY a"),
            4 => format!("SELECT {value} FROM t WHERE a = {}", self.pick(&["1", "2", "3", "'2'", "1.0"])),
            5 => {
                format!("SELECT count(*), max({value}), sum({other}), avg({other}) FROM t WHERE {condition}")
            }
            6 => format!("SELECT {value}, sum({other}) FROM t GROUP BY {value} ORDER BY 2"),
            7 => format!("SELECT DISTINCT {value} FROM t UNION ALL SELECT {} FROM t", self.sensible(kind, 2)),
            8 => format!("SELECT {value}, avg({other}) OVER (ORDER BY a) FROM t"),
            9 => {
                let column = self.pick(&["b", "n", "f", "si", "r"]);
                format!("UPDATE t SET {column} = {other} WHERE {condition} RETURNING {value}")
            }
            10 => format!(
                "INSERT INTO t (a, b, n) VALUES ({}, 5, {other}) RETURNING {value}",
                self.random.random_range(1..9)
            ),
            _ => format!("DELETE FROM t WHERE {condition} AND a > 3 RETURNING {value}"),
        }
    }
}
