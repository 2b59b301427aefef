// SPDX-License-Identifier: Apache-2.0
//! Reads a path, by PostgreSQL's grammar of it: what is compared is no condition, and a condition is no number.

use super::tokens::{Token, at_end, near, tokens};
use super::{ArithmeticOp, CompareOp, Expression, Head, Method, Path, Pattern, Predicate, Step};
use crate::error::{SqlError, SqlState};
use crate::functions::pattern_of_path;
use crate::stack::with_room;
use crate::types::json::{Kind, Part, push_string};

/// How deep a path may be nested.
const DEPTH_MAX: usize = 600;

/// How many operators and steps it may have.
const JOINED_MAX: usize = 500;

// Operators in a row are in parentheses in a path's one text, which is to be read as well.
const _: () = assert!(DEPTH_MAX > JOINED_MAX);

/// The flags of patterns, in the order in which they are shown.
const FLAGS: &str = "ismxq";

fn too_deep() -> SqlError {
    let message = "a jsonpath is nested too deeply, or has too many operators";
    SqlError::new(SqlState::StatementTooComplex, message)
}

/// The path that a text writes.
///
/// # Errors
/// `22P02` for an empty text, `42601` for what is none, `22003` for a number in it that is too long, `2201B` for a pattern that is
/// none, `54001` for a path that is too long, or nested too deeply.
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
        self.join()?;
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

    /// What stands behind `like_regex`.
    fn pattern(&mut self) -> Result<Pattern, SqlError> {
        let Some(Token::Text(text)) = self.peek().cloned() else { return Err(self.wrong()) };
        self.at += 1;
        let mut given = String::new();
        if self.take_word("flag") {
            let Some(Token::Text(flags)) = self.peek().cloned() else { return Err(self.wrong()) };
            self.at += 1;
            given = flags;
        }
        if let Some(other) = given.chars().find(|flag| !FLAGS.contains(*flag)) {
            return Err(SqlError::syntax("invalid input syntax for type jsonpath")
                .with_detail(format!("Unrecognized flag character \"{other}\" in LIKE_REGEX predicate.")));
        }
        let is_literal = given.contains('q');
        if given.contains('x') && !is_literal {
            let message = "XQuery \"x\" flag (expanded regular expressions) is not implemented";
            return Err(SqlError::new(SqlState::FeatureNotSupported, message));
        }
        let flags: String = FLAGS.chars().filter(|flag| given.contains(*flag)).collect();
        let compiled = if is_literal {
            let written = regex::escape(&text);
            if flags.contains('i') { format!("(?i){written}") } else { written }
        } else {
            pattern_of_path(&text, &flags)?.ok_or_else(|| {
                SqlError::unsupported("a back reference, or looking around within a pattern, in like_regex")
            })?
        };
        Ok(Pattern { text, flags, compiled })
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
            self.join()?;
            self.at += 1;
            signs.push(sign);
            next = match self.peek() {
                Some(Token::Mark("-")) => Some(ArithmeticOp::Subtract),
                Some(Token::Mark("+")) => Some(ArithmeticOp::Add),
                _ => None,
            };
        }
        match self.accessed()? {
            Either::Value(value) => Ok(Either::Value(signs.into_iter().rev().fold(value, signed))),
            Either::Truth(_) => Err(self.wrong()),
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
        let nested = |value| Head::Nested(Box::new(value));
        Ok(Either::Value(match primary {
            // Those of parentheses and those behind them are one way.
            Either::Value(Expression::Steps(head, mut before)) => {
                before.append(&mut steps);
                Expression::Steps(head, before)
            }
            Either::Value(value) => Expression::Steps(nested(value), steps),
            Either::Truth(predicate) => {
                Expression::Steps(nested(Expression::Predicate(Box::new(predicate))), steps)
            }
        }))
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
                self.join()?;
                Ok(Either::Truth(Predicate::IsUnknown(Box::new(predicate))))
            }
            other => Ok(other),
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
        let mut method = match name.to_ascii_lowercase().as_str() {
            "type" => Method::Type,
            "size" => Method::Size,
            "abs" => Method::Abs,
            "floor" => Method::Floor,
            "ceiling" => Method::Ceiling,
            "double" => Method::Double,
            "keyvalue" => Method::KeyValue,
            "datetime" => Method::Datetime(None),
            _ => {
                self.at += 1;
                return Err(self.wrong());
            }
        };
        self.at += 1;
        self.expect("(")?;
        if let (Method::Datetime(template), Some(Token::Text(given))) = (&mut method, self.peek()) {
            *template = Some(given.clone());
            self.at += 1;
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

/// A value behind a sign, which a number takes in.
fn signed(value: Expression, sign: ArithmeticOp) -> Expression {
    match value {
        Expression::Steps(Head::Literal(number), steps)
            if steps.is_empty() && Part::of(&number).kind() == Kind::Number =>
        {
            let number = if sign == ArithmeticOp::Subtract { negative(&number) } else { number };
            Expression::Steps(Head::Literal(number), steps)
        }
        value => Expression::Sign(sign, Box::new(value)),
    }
}

/// The negative of a number, as JSON writes both. A zero has no sign.
fn negative(number: &str) -> String {
    match number.strip_prefix('-') {
        Some(positive) => positive.to_owned(),
        None if number.bytes().all(|byte| matches!(byte, b'0' | b'.')) => number.to_owned(),
        None => format!("-{number}"),
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
            ("0x10", "trailing junk after numeric literal at or near \"0x\" of jsonpath input"),
            ("00", "trailing junk after numeric literal at or near \"00\" of jsonpath input"),
            ("1.2e", "trailing junk after numeric literal at or near \"1.2e\" of jsonpath input"),
            ("1e+", "invalid numeric literal at or near \"1e+\" of jsonpath input"),
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
        let deep = format!("{}1{}", "(".repeat(700), ")".repeat(700));
        assert_eq!(parse(&deep).unwrap_err().state.code(), "54001");
        for long in [format!("$[0{}]", ", 0".repeat(10_000)), format!("\"{}\"", "a".repeat(1 << 20))] {
            assert_eq!(parse(&long).unwrap_err().state.code(), "54001");
        }
        // Each sign is one within another, also of different parentheses.
        let signed = format!("{}$", format!("{}(", "-".repeat(100)).repeat(10));
        assert_eq!(parse(&signed).unwrap_err().state.code(), "54001");
    }
}
