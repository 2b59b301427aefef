// SPDX-License-Identifier: Apache-2.0
//! A path as PostgreSQL writes a `jsonpath`: names in quotes, blanks around operators alone, and no parentheses but those that are
//! needed.

use super::{ArithmeticOp, CompareOp, Expression, Head, Method, Path, Predicate, Step};
use crate::stack::with_room;
use crate::types::json::{Kind, Part, push_string};

/// How strongly operators bind. One within another is in parentheses if it does not bind more strongly.
type Strength = u8;

/// In parentheses of something else, or within brackets: an operator needs none of its own.
const NOTHING: Strength = 0;
const EITHER: Strength = 1;
const BOTH: Strength = 2;
const COMPARISON: Strength = 3;
const SUM: Strength = 4;
const PRODUCT: Strength = 5;
const SIGN: Strength = 6;
const PATTERN: Strength = 7;
/// An operator around which there is nothing is in parentheses, too.
const WHOLE: Strength = Strength::MAX;

impl Path {
    /// The one text that this path has. Read again, it is the same path.
    pub(super) fn canonical(&self) -> String {
        let mut out = String::from(if self.is_lax { "" } else { "strict " });
        push_expression(&self.expression, WHOLE, &mut out);
        out
    }
}

/// Writes an operator of this strength within another one.
fn enclosed(own: Strength, around: Strength, out: &mut String, write: impl FnOnce(&mut String)) {
    let (open, close) = if own <= around { ("(", ")") } else { ("", "") };
    out.push_str(open);
    with_room(|| write(out));
    out.push_str(close);
}

fn push_expression(expression: &Expression, around: Strength, out: &mut String) {
    match expression {
        Expression::Steps(head, steps) => {
            push_head(head, steps, out);
            steps.iter().for_each(|step| push_step(step, out));
        }
        Expression::Arithmetic(operation, left, right) => {
            let own = match operation {
                ArithmeticOp::Add | ArithmeticOp::Subtract => SUM,
                ArithmeticOp::Multiply | ArithmeticOp::Divide | ArithmeticOp::Remainder => PRODUCT,
            };
            enclosed(own, around, out, |out| {
                push_expression(left, own, out);
                push_operator(operation.sign(), out);
                push_expression(right, own, out);
            });
        }
        Expression::Sign(sign, operand) => enclosed(SIGN, around, out, |out| {
            out.push_str(sign.sign());
            push_expression(operand, SIGN, out);
        }),
        Expression::Predicate(predicate) => push_predicate(predicate, around, out),
    }
}

fn push_operator(operator: &str, out: &mut String) {
    out.push(' ');
    out.push_str(operator);
    out.push(' ');
}

fn push_head(head: &Head, steps: &[Step], out: &mut String) {
    match head {
        Head::Root => out.push('$'),
        Head::Current => out.push('@'),
        Head::Last => out.push_str("last"),
        Head::Variable(name) => {
            out.push('$');
            push_string(name, out);
        }
        // A point behind a number would be one of its own.
        Head::Literal(number) if !steps.is_empty() && Part::of(number).kind() == Kind::Number => {
            out.push('(');
            out.push_str(number);
            out.push(')');
        }
        Head::Literal(literal) => out.push_str(literal),
        Head::Nested(inner) => {
            out.push('(');
            with_room(|| push_expression(inner, NOTHING, out));
            out.push(')');
        }
    }
}

fn push_step(step: &Step, out: &mut String) {
    match step {
        Step::Key(key) => {
            out.push('.');
            push_string(key, out);
        }
        Step::AnyKey => out.push_str(".*"),
        Step::AnyLevel { first, last } => push_levels(*first, *last, out),
        Step::AnyElement => out.push_str("[*]"),
        Step::Elements(subscripts) => {
            out.push('[');
            for (place, (from, to)) in subscripts.iter().enumerate() {
                out.push_str(if place == 0 { "" } else { "," });
                with_room(|| push_expression(from, NOTHING, out));
                if let Some(to) = to {
                    out.push_str(" to ");
                    with_room(|| push_expression(to, NOTHING, out));
                }
            }
            out.push(']');
        }
        Step::Filter(predicate) => {
            out.push_str("?(");
            with_room(|| push_predicate(predicate, NOTHING, out));
            out.push(')');
        }
        Step::Method(method) => push_method(method, out),
    }
}

fn push_levels(first: Option<usize>, last: Option<usize>, out: &mut String) {
    let name = |level: Option<usize>| level.map_or_else(|| "last".to_owned(), |level| level.to_string());
    out.push_str(".**");
    if first == Some(0) && last.is_none() {
        return;
    }
    out.push('{');
    out.push_str(&name(first));
    if first != last {
        out.push_str(" to ");
        out.push_str(&name(last));
    }
    out.push('}');
}

fn push_method(method: &Method, out: &mut String) {
    out.push('.');
    out.push_str(match method {
        Method::Type => "type",
        Method::Size => "size",
        Method::Abs => "abs",
        Method::Floor => "floor",
        Method::Ceiling => "ceiling",
        Method::Double => "double",
        Method::KeyValue => "keyvalue",
        Method::Datetime(_) => "datetime",
    });
    out.push('(');
    if let Method::Datetime(Some(template)) = method {
        push_string(template, out);
    }
    out.push(')');
}

fn push_predicate(predicate: &Predicate, around: Strength, out: &mut String) {
    match predicate {
        Predicate::And(left, right) => push_connected(left, (BOTH, "&&"), right, around, out),
        Predicate::Or(left, right) => push_connected(left, (EITHER, "||"), right, around, out),
        Predicate::Not(inner) => {
            out.push_str("!(");
            with_room(|| push_predicate(inner, NOTHING, out));
            out.push(')');
        }
        Predicate::IsUnknown(inner) => {
            out.push('(');
            with_room(|| push_predicate(inner, NOTHING, out));
            out.push_str(") is unknown");
        }
        Predicate::Exists(expression) => {
            out.push_str("exists (");
            push_expression(expression, NOTHING, out);
            out.push(')');
        }
        Predicate::Compare(comparison, left, right) => {
            push_compared(left, comparison_sign(*comparison), right, around, out);
        }
        Predicate::StartsWith(value, initial) => push_compared(value, "starts with", initial, around, out),
        Predicate::LikeRegex(value, pattern) => enclosed(PATTERN, around, out, |out| {
            push_expression(value, PATTERN, out);
            push_operator("like_regex", out);
            push_string(&pattern.text, out);
            if !pattern.flags.is_empty() {
                out.push_str(" flag ");
                push_string(&pattern.flags, out);
            }
        }),
    }
}

fn push_connected(
    left: &Predicate,
    (own, sign): (Strength, &str),
    right: &Predicate,
    around: Strength,
    out: &mut String,
) {
    enclosed(own, around, out, |out| {
        push_predicate(left, own, out);
        push_operator(sign, out);
        push_predicate(right, own, out);
    });
}

fn push_compared(left: &Expression, sign: &str, right: &Expression, around: Strength, out: &mut String) {
    enclosed(COMPARISON, around, out, |out| {
        push_expression(left, COMPARISON, out);
        push_operator(sign, out);
        push_expression(right, COMPARISON, out);
    });
}

fn comparison_sign(comparison: CompareOp) -> &'static str {
    match comparison {
        CompareOp::Equal => "==",
        CompareOp::NotEqual => "!=",
        CompareOp::Less => "<",
        CompareOp::LessOrEqual => "<=",
        CompareOp::Greater => ">",
        CompareOp::GreaterOrEqual => ">=",
    }
}

#[cfg(test)]
mod tests {
    use super::super::parser::parse;

    /// What PostgreSQL 15 answers to `SELECT '...'::jsonpath`.
    #[test]
    fn a_path_has_one_text() {
        for (path, canonical) in [
            ("lax $", "$"),
            ("strict $.a[*].b", "strict $.\"a\"[*].\"b\""),
            ("$.**.b", "$.**.\"b\""),
            ("$.**{2 to 2}.**{last}.**{last to 5}.**{0 to 3}", "$.**{2}.**{last}.**{last to 5}.**{0 to 3}"),
            ("$.a[$a + 1, ($b[*]) to -($[0] * 2)]", "$.\"a\"[$\"a\" + 1,$\"b\"[*] to -($[0] * 2)]"),
            ("$--+1", "($ - -1)"),
            ("1 * 2 + 4 % -3 != false", "(1 * 2 + 4 % -3 != false)"),
            ("1 + 2 + 3", "((1 + 2) + 3)"),
            ("$.g ? (+@.x >= +-(+@.a + 2))", "$.\"g\"?(+@.\"x\" >= +(-(+@.\"a\" + 2)))"),
            ("$ ? (@ == 1 || !(@ >= 123) && @.b == 7)", "$?(@ == 1 || !(@ >= 123) && @.\"b\" == 7)"),
            ("$ ? ((@ < 1 || @ == 4) is unknown)", "$?((@ < 1 || @ == 4) is unknown)"),
            ("$ ? ((@ < 1 || @ == 4) && exists(@.x))", "$?((@ < 1 || @ == 4) && exists (@.\"x\"))"),
            ("($.a.b).c.d", "$.\"a\".\"b\".\"c\".\"d\""),
            ("(-+$.a.b).c", "(-(+$.\"a\".\"b\")).\"c\""),
            ("1 + ($.a > 2).c", "(1 + ($.\"a\" > 2).\"c\")"),
            ("1.2.type()", "(1.2).type()"),
            ("1.e3.e", "(1000).\"e\""),
            ("1..e", "(1).\"e\""),
            ("$ ? (@ like_regex \"a.b\" flag \"smixq\")", "$?(@ like_regex \"a.b\" flag \"ismxq\")"),
            ("$ like_regex \"a\" flag \"\"", "($ like_regex \"a\")"),
            ("\"\\x50\\u{53}\\z\\t\"", "\"PSz\\t\""),
            ("$.datetime(\"dd-mm\").type()", "$.datetime(\"dd-mm\").type()"),
            ("0.0010e+1 > .5e1", "(0.010 > 5)"),
        ] {
            let read = parse(path).unwrap();
            assert_eq!(read.canonical(), canonical, "{path}");
            assert_eq!(parse(canonical).unwrap().canonical(), canonical, "{path}");
        }
        let long = ["$ == 1"; 400].join(" || ");
        let canonical = parse(&long).unwrap().canonical();
        assert_eq!(parse(&canonical).unwrap().canonical(), canonical);
    }
}
