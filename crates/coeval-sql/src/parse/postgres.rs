// SPDX-License-Identifier: Apache-2.0
//! PostgreSQL's dialect for texts that users write: the parser goes back over them only so often.
//!
//! Where the parser cannot tell what comes, it tries one reading, and goes back and tries another. A reading that is tried
//! at each level of something nested doubles the work with each level: `abs(abs(...))` was read as `abs(name => value)`
//! first, so that thirty levels, a hundred bytes, took hours and heard of no request. That reading is one of names alone
//! here, since no function has an argument whose name is an expression. Others are left, of texts that are wrong: `NOT (`, `CAST(`, or
//! `ARRAY[` before a mistake. So the dialect counts how often an operand begins, looks at the request meanwhile, and
//! gives up when that is far more often than there are words.

use crate::cancel;
use crate::error::{SqlError, SqlState, syntax_error};
use datafusion::sql::sqlparser::ast::Expr;
use datafusion::sql::sqlparser::dialect::{Dialect, PostgreSqlDialect, Precedence};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use std::any::TypeId;
use std::cell::{Cell, RefCell};

const POSTGRES: PostgreSqlDialect = PostgreSqlDialect {};

/// How many operands the parser may begin for each token. In correct statements, however nested, it begins at most three.
const STARTS_PER_TOKEN: usize = 10;

/// How many it may begin in a short text.
const STARTS_MIN: usize = 10_000;

/// After so many the request is looked at: some tenths of a millisecond.
const STARTS_BETWEEN_LOOKS: usize = 64;

/// The dialect for one text, or a part of one. It is spent with it: what one parser has done counts for the next.
#[derive(Debug)]
pub(crate) struct Postgres {
    starts: Cell<usize>,
    starts_max: usize,
    /// Why it gave up.
    given_up: RefCell<Option<SqlError>>,
}

impl Postgres {
    /// For a text of so many tokens.
    pub(crate) fn for_tokens(count: usize) -> Self {
        let starts_max = count.saturating_mul(STARTS_PER_TOKEN).max(STARTS_MIN);
        Self { starts: Cell::new(0), starts_max, given_up: RefCell::default() }
    }

    /// For a text that may have a token for each byte.
    pub(crate) fn for_text(sql: &str) -> Self {
        Self::for_tokens(sql.len())
    }

    /// The error to report for an error of the parser.
    pub(crate) fn error(&self, error: ParserError, sql: &str) -> SqlError {
        self.given_up.take().unwrap_or_else(|| syntax_error(error, sql))
    }

    /// Whether the parser may go on.
    fn may_go_on(&self) -> bool {
        if self.given_up.borrow().is_some() {
            return false;
        }
        let starts = self.starts.get() + 1;
        self.starts.set(starts);
        let outcome = if starts > self.starts_max {
            Err(too_intricate())
        } else if starts.is_multiple_of(STARTS_BETWEEN_LOOKS) {
            cancel::check()
        } else {
            Ok(())
        };
        outcome.map_err(|error| self.given_up.replace(Some(error))).is_ok()
    }
}

fn too_intricate() -> SqlError {
    let error = SqlError::new(SqlState::StatementTooComplex, "the statement is nested too deeply");
    error.with_detail("It can be read in too many ways to find the one that is right.").with_hint(
        "There may be a mistake in the innermost parentheses. Nest less, or name parts of it by WITH.",
    )
}

impl Dialect for Postgres {
    /// The parser asks for PostgreSQL's in places.
    fn dialect(&self) -> TypeId {
        TypeId::of::<PostgreSqlDialect>()
    }

    /// Called where an operand begins. The parser passes this error through all that it tries.
    fn parse_prefix(&self, parser: &mut Parser<'_>) -> Option<Result<Expr, ParserError>> {
        if !self.may_go_on() {
            return Some(Err(ParserError::RecursionLimitExceeded));
        }
        super::values_subquery::prefix(parser)
            .or_else(|| super::grouping_sets::prefix(parser))
            .or_else(|| super::prefix_operators::prefix(parser))
            .or_else(|| super::parentheses::prefix(parser))
    }

    fn parse_infix(
        &self,
        parser: &mut Parser<'_>,
        expr: &Expr,
        _precedence: u8,
    ) -> Option<Result<Expr, ParserError>> {
        super::between::infix(parser, expr)
            .or_else(|| super::in_lists::infix(parser, expr))
            .or_else(|| super::precedence::infix(parser, expr))
    }

    fn get_next_precedence(&self, parser: &Parser<'_>) -> Option<Result<u8, ParserError>> {
        super::precedence::of_next(parser).map(Ok).or_else(|| POSTGRES.get_next_precedence(parser))
    }

    /// A colon ends the bound of a slice, which may be any expression.
    fn prec_value(&self, prec: Precedence) -> u8 {
        if matches!(prec, Precedence::Colon) { self.prec_unknown() } else { POSTGRES.prec_value(prec) }
    }

    /// PostgreSQL has no operator behind an operand since its version 14.
    fn supports_factorial_operator(&self) -> bool {
        false
    }

    fn supports_named_fn_args_with_expr_name(&self) -> bool {
        false
    }

    // From here on all is PostgreSQL's.

    fn identifier_quote_style(&self, identifier: &str) -> Option<char> {
        POSTGRES.identifier_quote_style(identifier)
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        POSTGRES.is_delimited_identifier_start(ch)
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        POSTGRES.is_identifier_start(ch)
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        POSTGRES.is_identifier_part(ch)
    }

    fn supports_unicode_string_literal(&self) -> bool {
        POSTGRES.supports_unicode_string_literal()
    }

    fn is_reserved_for_identifier(&self, kw: Keyword) -> bool {
        POSTGRES.is_reserved_for_identifier(kw)
    }

    fn is_custom_operator_part(&self, ch: char) -> bool {
        POSTGRES.is_custom_operator_part(ch)
    }

    fn supports_filter_during_aggregation(&self) -> bool {
        POSTGRES.supports_filter_during_aggregation()
    }

    fn supports_group_by_expr(&self) -> bool {
        POSTGRES.supports_group_by_expr()
    }

    fn allow_extract_custom(&self) -> bool {
        POSTGRES.allow_extract_custom()
    }

    fn allow_extract_single_quotes(&self) -> bool {
        POSTGRES.allow_extract_single_quotes()
    }

    fn supports_create_index_with_clause(&self) -> bool {
        POSTGRES.supports_create_index_with_clause()
    }

    fn supports_explain_with_utility_options(&self) -> bool {
        POSTGRES.supports_explain_with_utility_options()
    }

    fn supports_listen_notify(&self) -> bool {
        POSTGRES.supports_listen_notify()
    }

    fn supports_bitwise_shift_operators(&self) -> bool {
        POSTGRES.supports_bitwise_shift_operators()
    }

    fn supports_comment_on(&self) -> bool {
        POSTGRES.supports_comment_on()
    }

    fn supports_load_extension(&self) -> bool {
        POSTGRES.supports_load_extension()
    }

    fn supports_named_fn_args_with_colon_operator(&self) -> bool {
        POSTGRES.supports_named_fn_args_with_colon_operator()
    }

    fn supports_empty_projections(&self) -> bool {
        POSTGRES.supports_empty_projections()
    }

    fn supports_nested_comments(&self) -> bool {
        POSTGRES.supports_nested_comments()
    }

    fn supports_string_escape_constant(&self) -> bool {
        POSTGRES.supports_string_escape_constant()
    }

    fn supports_numeric_literal_underscores(&self) -> bool {
        POSTGRES.supports_numeric_literal_underscores()
    }

    fn supports_array_typedef_with_brackets(&self) -> bool {
        POSTGRES.supports_array_typedef_with_brackets()
    }

    fn supports_geometric_types(&self) -> bool {
        POSTGRES.supports_geometric_types()
    }

    fn supports_set_names(&self) -> bool {
        POSTGRES.supports_set_names()
    }

    fn supports_alter_column_type_using(&self) -> bool {
        POSTGRES.supports_alter_column_type_using()
    }

    fn supports_notnull_operator(&self) -> bool {
        POSTGRES.supports_notnull_operator()
    }

    fn supports_interval_options(&self) -> bool {
        POSTGRES.supports_interval_options()
    }

    fn supports_insert_table_alias(&self) -> bool {
        POSTGRES.supports_insert_table_alias()
    }

    fn supports_create_table_like_parenthesized(&self) -> bool {
        POSTGRES.supports_create_table_like_parenthesized()
    }

    fn supports_select_wildcard_with_alias(&self) -> bool {
        POSTGRES.supports_select_wildcard_with_alias()
    }

    fn supports_comma_separated_trim(&self) -> bool {
        POSTGRES.supports_comma_separated_trim()
    }

    fn supports_xml_expressions(&self) -> bool {
        POSTGRES.supports_xml_expressions()
    }

    fn supports_comment_optimizer_hint(&self) -> bool {
        POSTGRES.supports_comment_optimizer_hint()
    }
}
