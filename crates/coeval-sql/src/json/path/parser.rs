// SPDX-License-Identifier: Apache-2.0
//! Reads a path, by PostgreSQL's grammar of it: what is compared is no condition, and a condition is no number.

use super::{ArithmeticOp, CompareOp, Expression, Head, Method, Path, Predicate, Step};
use crate::error::{SqlError, SqlState};
use crate::functions::pattern_of_path;
use crate::stack::with_room;
use crate::types::json::push_string;
use std::iter::Peekable;
use std::str::Chars;

/// How deep a path may be nested.
const DEPTH_MAX: usize = 200;

/// How many operators and steps it may have.
const JOINED_MAX: usize = 500;

fn too_deep() -> SqlError {
    let message = "a jsonpath is nested too deeply, or has too many operators";
    SqlError::new(SqlState::StatementTooComplex, message)
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Root,
    Current,
    Variable(String),
    /// In quotes.
    Text(String),
    Number(String),
    Word(String),
    Mark(&'static str),
}

/// Marks, the longer ones first.
const MARKS: [&str; 26] = [
    "**", "&&", "||", "==", "!=", "<>", "<=", ">=", "<", ">", "!", "?", "%", "*", "+", "-", "/", ".", ",",
    "(", ")", "[", "]", "{", "}", ":",
];

/// The path that a text writes.
///
/// # Errors
/// `42601` for what is none, `2201B` for a pattern in it that is none, `54001` for one that is nested too deeply, `0A000` for
/// `.datetime()` with a template.
pub(super) fn parse(text: &str) -> Result<Path, SqlError> {
    let tokens = tokens(text)?;
    if tokens.is_empty() {
        let message = format!("invalid input syntax for type jsonpath: \"{text}\"");
        return Err(SqlError::new(SqlState::InvalidTextRepresentation, message));
    }
    let mut parser = Parser { tokens, at: 0, depth: 0, joined: 0, filters: 0, subscripts: 0 };
    let is_lax = !parser.take_word("strict");
    if is_lax {
        parser.take_word("lax");
    }
    let expression = match parser.either()? {
        Either::Value(expression) => expression,
        Either::Truth(predicate) => Expression::Predicate(Box::new(predicate)),
    };
    match parser.peek() {
        None => Ok(Path { is_lax, expression }),
        Some(_) => Err(parser.wrong()),
    }
}

fn tokens(text: &str) -> Result<Vec<Token>, SqlError> {
    let mut tokens = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        if let Some(comment) = rest.strip_prefix("/*") {
            rest = comment.split_once("*/").ok_or_else(|| at_end("unexpected end of comment"))?.1;
            continue;
        }
        let Some(first) = rest.chars().next() else { return Ok(tokens) };
        let behind = &rest[first.len_utf8()..];
        let begins_number = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
        let (token, behind) = match first {
            '"' => {
                let (text, behind) = quoted(behind)?;
                (Token::Text(text), behind)
            }
            '$' if behind.starts_with('"') => {
                let (name, behind) = quoted(&behind[1..])?;
                (Token::Variable(name), behind)
            }
            '$' if behind.starts_with(is_of_word) => {
                let (name, behind) = word(behind)?;
                (Token::Variable(name), behind)
            }
            '$' => (Token::Root, behind),
            '@' => (Token::Current, behind),
            '0'..='9' => number(rest)?,
            '.' if begins_number(behind) && !ends_value(tokens.last()) => number(rest)?,
            _ => match MARKS.iter().find(|mark| rest.starts_with(**mark)) {
                Some(mark) => (Token::Mark(mark), &rest[mark.len()..]),
                None if is_of_word(first) => {
                    let (word, behind) = word(rest)?;
                    (Token::Word(word), behind)
                }
                None => return Err(near(&first.to_string())),
            },
        };
        tokens.push(token);
        rest = behind;
    }
}

/// Whether a point behind a token begins a step.
fn ends_value(token: Option<&Token>) -> bool {
    !matches!(
        token,
        None | Some(Token::Mark(
            "**" | "&&"
                | "||"
                | "=="
                | "!="
                | "<>"
                | "<="
                | ">="
                | "<"
                | ">"
                | "!"
                | "%"
                | "+"
                | "-"
                | "/"
                | ","
                | "("
                | "["
                | "{"
        ))
    )
}

fn is_of_word(c: char) -> bool {
    !c.is_whitespace() && !"?%$.[]{}()|&!=<>@#,*:-+/\"".contains(c)
}

/// A word, and what is behind it.
fn word(text: &str) -> Result<(String, &str), SqlError> {
    let mut word = String::new();
    let mut chars = text.chars();
    let mut rest = text;
    while let Some(c) = chars.next() {
        if !is_of_word(c) {
            break;
        }
        if c == '\\' {
            word.push(escaped(&mut chars)?);
        } else {
            word.push(c);
        }
        rest = chars.as_str();
    }
    Ok((word, rest))
}

/// A text behind its first quote, and what is behind its last one.
fn quoted(text: &str) -> Result<(String, &str), SqlError> {
    let mut inner = String::new();
    let mut chars = text.chars();
    loop {
        match chars.next().ok_or_else(|| at_end("unterminated quoted string"))? {
            '"' => return Ok((inner, chars.as_str())),
            '\\' => inner.push(escaped(&mut chars)?),
            c => inner.push(c),
        }
    }
}

/// The character that is written behind a backslash.
fn escaped(chars: &mut Chars<'_>) -> Result<char, SqlError> {
    let c = chars.next().ok_or_else(|| at_end("unexpected end after backslash"))?;
    Ok(match c {
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\u{b}',
        'x' => character(&mut chars.by_ref().take(2).peekable(), 2)?,
        'u' if chars.as_str().starts_with('{') => {
            let (digits, _) = chars.as_str()[1..].split_once('}').ok_or_else(invalid_escape)?;
            let found = character(&mut digits.chars().take(6).peekable(), digits.len())?;
            let length = digits.len() + 2;
            chars.by_ref().take(length).for_each(drop);
            found
        }
        'u' => {
            let first = code(&mut chars.by_ref().take(4).peekable(), 4)?;
            match first {
                // A character beyond the first 65,536 is written as two halves.
                0xD800..=0xDBFF if chars.as_str().starts_with("\\u") => {
                    chars.by_ref().take(2).for_each(drop);
                    let second = code(&mut chars.by_ref().take(4).peekable(), 4)?;
                    if !(0xDC00..=0xDFFF).contains(&second) {
                        return Err(invalid_escape());
                    }
                    let joined = 0x1_0000 + ((first - 0xD800) << 10) + (second - 0xDC00);
                    char::from_u32(joined).ok_or_else(invalid_escape)?
                }
                code => char::from_u32(code).filter(|c| *c != '\0').ok_or_else(invalid_escape)?,
            }
        }
        other => other,
    })
}

/// The character of so many hexadecimal digits.
fn character<I: Iterator<Item = char>>(digits: &mut Peekable<I>, count: usize) -> Result<char, SqlError> {
    let code = code(digits, count)?;
    char::from_u32(code).filter(|c| *c != '\0').ok_or_else(invalid_escape)
}

fn code<I: Iterator<Item = char>>(digits: &mut Peekable<I>, count: usize) -> Result<u32, SqlError> {
    let mut code = 0_u32;
    let mut read = 0;
    while let Some(digit) = digits.next_if(char::is_ascii_hexdigit) {
        code = (code << 4) | digit.to_digit(16).unwrap_or(0);
        read += 1;
    }
    if read == count && (1..=6).contains(&count) { Ok(code) } else { Err(invalid_escape()) }
}

fn invalid_escape() -> SqlError {
    SqlError::syntax("invalid Unicode escape sequence of jsonpath input")
}

/// A number, and what is behind it.
fn number(text: &str) -> Result<(Token, &str), SqlError> {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let mut end = digits(text);
    if text[end..].starts_with('.') && (end > 0 || digits(&text[end + 1..]) > 0) {
        end += 1 + digits(&text[end + 1..]);
    }
    if let Some(exponent) = text[end..].strip_prefix(['e', 'E']) {
        let sign = usize::from(exponent.starts_with(['+', '-']));
        let count = digits(&exponent[sign..]);
        if count == 0 {
            return Err(near(text));
        }
        end += 1 + sign + count;
    }
    if text[end..].starts_with(is_of_word) {
        return Err(SqlError::syntax("trailing junk after numeric literal of jsonpath input"));
    }
    let written = text[..end].trim_end_matches('.');
    let written = if written.starts_with('.') { format!("0{written}") } else { written.to_owned() };
    Ok((Token::Number(written), &text[end..]))
}

fn near(what: &str) -> SqlError {
    SqlError::syntax(format!("syntax error at or near \"{what}\" of jsonpath input"))
}

fn at_end(what: &str) -> SqlError {
    SqlError::syntax(format!("{what} at end of jsonpath input"))
}

/// What stands at a place: a value, or a condition.
enum Either {
    Value(Expression),
    Truth(Predicate),
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
    /// How many operators and steps there are so far.
    joined: usize,
    /// How many filters and subscripts there are around the place.
    filters: usize,
    subscripts: usize,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn take(&mut self, mark: &str) -> bool {
        let is_it = matches!(self.peek(), Some(Token::Mark(found)) if *found == mark);
        self.at += usize::from(is_it);
        is_it
    }

    fn expect(&mut self, mark: &str) -> Result<(), SqlError> {
        if self.take(mark) { Ok(()) } else { Err(self.wrong()) }
    }

    fn is_word(&self, wanted: &str) -> bool {
        matches!(self.peek(), Some(Token::Word(word)) if word.eq_ignore_ascii_case(wanted))
    }

    fn take_word(&mut self, wanted: &str) -> bool {
        let is_it = self.is_word(wanted);
        self.at += usize::from(is_it);
        is_it
    }

    /// The error of the token that is next.
    fn wrong(&self) -> SqlError {
        match self.peek() {
            None => at_end("syntax error"),
            Some(Token::Root) => near("$"),
            Some(Token::Current) => near("@"),
            Some(Token::Variable(text) | Token::Text(text) | Token::Number(text) | Token::Word(text)) => {
                near(text)
            }
            Some(Token::Mark(mark)) => near(mark),
        }
    }

    fn value(&mut self) -> Result<Expression, SqlError> {
        match self.sum()? {
            Either::Value(value) => Ok(value),
            Either::Truth(_) => Err(self.wrong()),
        }
    }

    fn condition(&mut self) -> Result<Predicate, SqlError> {
        match self.either()? {
            Either::Truth(predicate) => Ok(predicate),
            Either::Value(_) => Err(self.wrong()),
        }
    }

    /// Conditions connected by `||`, or a value.
    fn either(&mut self) -> Result<Either, SqlError> {
        let mut left = self.both()?;
        while matches!(left, Either::Truth(_)) && self.take("||") {
            left = self.connected(left, Self::both, Predicate::Or)?;
        }
        Ok(left)
    }

    /// Conditions connected by `&&`, or a value.
    fn both(&mut self) -> Result<Either, SqlError> {
        let mut left = self.negated()?;
        while matches!(left, Either::Truth(_)) && self.take("&&") {
            left = self.connected(left, Self::negated, Predicate::And)?;
        }
        Ok(left)
    }

    fn connected(
        &mut self,
        left: Either,
        right: fn(&mut Self) -> Result<Either, SqlError>,
        by: fn(Box<Predicate>, Box<Predicate>) -> Predicate,
    ) -> Result<Either, SqlError> {
        self.join()?;
        match (left, right(self)?) {
            (Either::Truth(left), Either::Truth(right)) => {
                Ok(Either::Truth(by(Box::new(left), Box::new(right))))
            }
            _ => Err(self.wrong()),
        }
    }

    fn negated(&mut self) -> Result<Either, SqlError> {
        if !self.take("!") {
            return self.compared();
        }
        // What is negated stands in parentheses, or is an `exists`.
        if !matches!(self.peek(), Some(Token::Mark("("))) && !self.is_word("exists") {
            return Err(self.wrong());
        }
        match self.sum()? {
            Either::Truth(predicate) => Ok(Either::Truth(Predicate::Not(Box::new(predicate)))),
            Either::Value(_) => Err(self.wrong()),
        }
    }

    /// A value, or two that are compared.
    fn compared(&mut self) -> Result<Either, SqlError> {
        const COMPARISONS: [(&str, CompareOp); 7] = [
            ("==", CompareOp::Equal),
            ("!=", CompareOp::NotEqual),
            ("<>", CompareOp::NotEqual),
            ("<=", CompareOp::LessOrEqual),
            (">=", CompareOp::GreaterOrEqual),
            ("<", CompareOp::Less),
            (">", CompareOp::Greater),
        ];
        let left = match self.sum()? {
            Either::Value(left) => left,
            truth @ Either::Truth(_) => return Ok(truth),
        };
        for (mark, comparison) in COMPARISONS {
            if self.take(mark) {
                return Ok(Either::Truth(Predicate::Compare(comparison, left, self.value()?)));
            }
        }
        if self.take_word("starts") {
            if !self.take_word("with") {
                return Err(self.wrong());
            }
            let is_initial = matches!(self.peek(), Some(Token::Text(_) | Token::Variable(_)));
            let initial = if is_initial { self.primary()? } else { None };
            return match initial {
                Some(Either::Value(initial)) => Ok(Either::Truth(Predicate::StartsWith(left, initial))),
                _ => Err(self.wrong()),
            };
        }
        if self.take_word("like_regex") {
            return Ok(Either::Truth(Predicate::LikeRegex(left, self.pattern()?)));
        }
        Ok(Either::Value(left))
    }

    /// The pattern behind `like_regex`, with its flags in front.
    fn pattern(&mut self) -> Result<String, SqlError> {
        let Some(Token::Text(pattern)) = self.peek().cloned() else { return Err(self.wrong()) };
        self.at += 1;
        let mut flags = String::new();
        if self.take_word("flag") {
            let Some(Token::Text(given)) = self.peek().cloned() else { return Err(self.wrong()) };
            self.at += 1;
            flags = given;
        }
        if let Some(other) = flags.chars().find(|flag| !"ismxq".contains(*flag)) {
            return Err(SqlError::syntax("invalid input syntax for type jsonpath")
                .with_detail(format!("Unrecognized flag character \"{other}\" in LIKE_REGEX predicate.")));
        }
        let is_literal = flags.contains('q');
        if flags.contains('x') && !is_literal {
            let message = "XQuery \"x\" flag (expanded regular expressions) is not implemented";
            return Err(SqlError::new(SqlState::FeatureNotSupported, message));
        }
        if is_literal {
            let written = regex::escape(&pattern);
            return Ok(if flags.contains('i') { format!("(?i){written}") } else { written });
        }
        pattern_of_path(&pattern, &flags)?.ok_or_else(|| {
            SqlError::unsupported("a back reference, a look ahead or a look behind in like_regex")
        })
    }

    /// Counts an operator or a step. Each is one call more within others when the path is followed.
    fn join(&mut self) -> Result<(), SqlError> {
        self.joined += 1;
        if self.joined > JOINED_MAX { Err(too_deep()) } else { Ok(()) }
    }

    fn sum(&mut self) -> Result<Either, SqlError> {
        const SIGNS: [(&str, ArithmeticOp); 2] = [("+", ArithmeticOp::Add), ("-", ArithmeticOp::Subtract)];
        // What is nested comes by here.
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(too_deep());
        }
        let found = with_room(|| self.operations(Self::product, &SIGNS));
        self.depth -= 1;
        found
    }

    fn product(&mut self) -> Result<Either, SqlError> {
        const SIGNS: [(&str, ArithmeticOp); 3] =
            [("*", ArithmeticOp::Multiply), ("/", ArithmeticOp::Divide), ("%", ArithmeticOp::Remainder)];
        self.operations(Self::signed, &SIGNS)
    }

    fn operations(
        &mut self,
        operand: fn(&mut Self) -> Result<Either, SqlError>,
        signs: &[(&str, ArithmeticOp)],
    ) -> Result<Either, SqlError> {
        let mut left = operand(self)?;
        loop {
            let Some((_, sign)) = signs.iter().find(|(mark, _)| self.take(mark)) else { return Ok(left) };
            self.join()?;
            left = match (left, operand(self)?) {
                (Either::Value(left), Either::Value(right)) => {
                    Either::Value(Expression::Arithmetic(*sign, Box::new(left), Box::new(right)))
                }
                _ => return Err(self.wrong()),
            };
        }
    }

    fn signed(&mut self) -> Result<Either, SqlError> {
        let sign = match self.peek() {
            Some(Token::Mark("-")) => ArithmeticOp::Subtract,
            Some(Token::Mark("+")) => ArithmeticOp::Add,
            _ => return self.accessed(),
        };
        let mut signs = Vec::new();
        let mut next = Some(sign);
        while let Some(sign) = next {
            self.at += 1;
            signs.push(sign);
            next = match self.peek() {
                Some(Token::Mark("-")) => Some(ArithmeticOp::Subtract),
                Some(Token::Mark("+")) => Some(ArithmeticOp::Add),
                _ => None,
            };
        }
        match self.accessed()? {
            Either::Value(value) if signs.len() <= DEPTH_MAX => {
                let signed = |value, sign| Expression::Sign(sign, Box::new(value));
                Ok(Either::Value(signs.into_iter().rev().fold(value, signed)))
            }
            _ => Err(self.wrong()),
        }
    }

    /// Where a value comes from, and the steps from there.
    fn accessed(&mut self) -> Result<Either, SqlError> {
        let primary = self.primary()?.ok_or_else(|| self.wrong())?;
        let mut steps = Vec::new();
        while let Some(step) = self.step()? {
            self.join()?;
            steps.push(step);
        }
        if steps.is_empty() {
            return Ok(primary);
        }
        let head = match primary {
            Either::Value(Expression::Steps(head, before)) if before.is_empty() => head,
            Either::Value(value) => Head::Nested(Box::new(value)),
            Either::Truth(predicate) => Head::Nested(Box::new(Expression::Predicate(Box::new(predicate)))),
        };
        Ok(Either::Value(Expression::Steps(head, steps)))
    }

    fn primary(&mut self) -> Result<Option<Either>, SqlError> {
        let Some(token) = self.peek().cloned() else { return Ok(None) };
        let head = match token {
            Token::Root => Head::Root,
            Token::Current if self.filters == 0 => {
                return Err(SqlError::syntax("@ is not allowed in root expressions"));
            }
            Token::Current => Head::Current,
            Token::Variable(name) => Head::Variable(name),
            Token::Number(number) => Head::Literal(number),
            Token::Text(text) => {
                let mut literal = String::new();
                push_string(&text, &mut literal);
                Head::Literal(literal)
            }
            Token::Word(word) => match word.as_str() {
                "true" | "false" | "null" => Head::Literal(word),
                _ if word.eq_ignore_ascii_case("last") => {
                    if self.subscripts == 0 {
                        return Err(SqlError::syntax("LAST is allowed only in array subscripts"));
                    }
                    Head::Last
                }
                _ if word.eq_ignore_ascii_case("exists") => {
                    self.at += 1;
                    self.expect("(")?;
                    let value = self.value()?;
                    self.expect(")")?;
                    return Ok(Some(Either::Truth(Predicate::Exists(value))));
                }
                _ => return Ok(None),
            },
            Token::Mark("(") => {
                self.at += 1;
                let inner = self.either()?;
                self.expect(")")?;
                return self.closed(inner).map(Some);
            }
            Token::Mark(_) => return Ok(None),
        };
        self.at += 1;
        Ok(Some(Either::Value(Expression::Steps(head, Vec::new()))))
    }

    /// What stood in parentheses, perhaps in front of `is unknown`.
    fn closed(&mut self, inner: Either) -> Result<Either, SqlError> {
        match inner {
            Either::Truth(predicate) if self.take_word("is") => {
                if !self.take_word("unknown") {
                    return Err(self.wrong());
                }
                Ok(Either::Truth(Predicate::IsUnknown(Box::new(predicate))))
            }
            Either::Value(value) => {
                // Steps behind it are those of its result.
                Ok(Either::Value(match value {
                    Expression::Steps(head, steps) if steps.is_empty() => Expression::Steps(head, steps),
                    other => Expression::Steps(Head::Nested(Box::new(other)), Vec::new()),
                }))
            }
            truth @ Either::Truth(_) => Ok(truth),
        }
    }

    fn step(&mut self) -> Result<Option<Step>, SqlError> {
        if self.take("[") {
            return self.elements().map(Some);
        }
        if self.take("?") {
            self.expect("(")?;
            self.filters += 1;
            let predicate = self.condition()?;
            self.filters -= 1;
            self.expect(")")?;
            return Ok(Some(Step::Filter(predicate)));
        }
        if !self.take(".") {
            return Ok(None);
        }
        if self.take("*") {
            return Ok(Some(Step::AnyKey));
        }
        if self.take("**") {
            return self.levels().map(Some);
        }
        let key = match self.peek().cloned() {
            Some(Token::Text(key)) => key,
            // A name may begin with a sign.
            Some(Token::Variable(name)) => format!("${name}"),
            Some(Token::Word(word)) => {
                if matches!(self.tokens.get(self.at + 1), Some(Token::Mark("("))) {
                    return self.method(&word).map(Some);
                }
                word
            }
            _ => return Err(self.wrong()),
        };
        self.at += 1;
        Ok(Some(Step::Key(key)))
    }

    fn method(&mut self, name: &str) -> Result<Step, SqlError> {
        let method = match name.to_ascii_lowercase().as_str() {
            "type" => Method::Type,
            "size" => Method::Size,
            "abs" => Method::Abs,
            "floor" => Method::Floor,
            "ceiling" => Method::Ceiling,
            "double" => Method::Double,
            "keyvalue" => Method::KeyValue,
            "datetime" => Method::Datetime,
            _ => {
                self.at += 1;
                return Err(self.wrong());
            }
        };
        self.at += 1;
        self.expect("(")?;
        if method == Method::Datetime && matches!(self.peek(), Some(Token::Text(_))) {
            let what = "a template of the jsonpath item method .datetime()";
            let hint = "Compare dates and times in SQL, as to_timestamp(document ->> 'key', 'template').";
            return Err(SqlError::unsupported(what).with_hint(hint));
        }
        self.expect(")")?;
        Ok(Step::Method(method))
    }

    fn elements(&mut self) -> Result<Step, SqlError> {
        if self.take("*") {
            self.expect("]")?;
            return Ok(Step::AnyElement);
        }
        self.subscripts += 1;
        let mut subscripts = Vec::new();
        loop {
            let from = self.value()?;
            let to = if self.take_word("to") { Some(self.value()?) } else { None };
            subscripts.push((from, to));
            if !self.take(",") {
                break;
            }
        }
        self.subscripts -= 1;
        self.expect("]")?;
        Ok(Step::Elements(subscripts))
    }

    /// The levels behind `.**`; `None` is the last one.
    fn levels(&mut self) -> Result<Step, SqlError> {
        if !self.take("{") {
            return Ok(Step::AnyLevel { first: Some(0), last: None });
        }
        let first = self.level()?;
        let last = if self.take_word("to") { self.level()? } else { first };
        self.expect("}")?;
        Ok(Step::AnyLevel { first, last })
    }

    fn level(&mut self) -> Result<Option<usize>, SqlError> {
        if self.take_word("last") {
            return Ok(None);
        }
        match self.peek() {
            Some(Token::Number(number)) => {
                let level = number.parse().map_err(|_| self.wrong())?;
                self.at += 1;
                Ok(Some(level))
            }
            _ => Err(self.wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn what_is_no_path_is_refused_where_it_ends_to_be_one() {
        for (path, message) in [
            ("$[", "syntax error at end of jsonpath input"),
            ("$.a b", "syntax error at or near \"b\" of jsonpath input"),
            ("last", "LAST is allowed only in array subscripts"),
            ("@", "@ is not allowed in root expressions"),
            ("$ ? (@)", "syntax error at or near \")\" of jsonpath input"),
            ("$[*] ? (1)", "syntax error at or near \")\" of jsonpath input"),
            ("", "invalid input syntax for type jsonpath: \"\""),
            ("0x10", "trailing junk after numeric literal of jsonpath input"),
            ("$.nosuch()", "syntax error at or near \"(\" of jsonpath input"),
        ] {
            assert_eq!(parse(path).unwrap_err().message, message, "{path}");
        }
        for path in [
            "$",
            "strict $.a.\"b c\"[*].**{1 to last} ? (@.x > 1 && !(@.y == null)).size()",
            "$.to.last.is",
            "(($.a + 1) * -2 > 3) is unknown",
            "$.a[last - 1, 0 to 2]",
            "exists($.a) || $ like_regex \"^a.b\" flag \"i\"",
            "$x + .5e1",
            "/* nothing */ lax $",
            "($.a).type()",
            "$[*] starts with \"a\\u0062\"",
        ] {
            assert!(parse(path).is_ok(), "{path}: {:?}", parse(path));
        }
        let deep = format!("{}1{}", "(".repeat(300), ")".repeat(300));
        assert_eq!(parse(&deep).unwrap_err().state.code(), "54001");
    }
}
