// SPDX-License-Identifier: Apache-2.0
//! Row-at-a-time expressions with PostgreSQL's semantics.
//!
//! An expression is compiled once against a [`Scope`] and then evaluated for one row after the other; the
//! common numeric and comparison cases allocate nothing. Defaults, checks, the point path and `ON CONFLICT`
//! use it. What it does not know itself it hands to a DataFusion physical expression over a batch of one row
//! ([`fallback`]), where the caller allows that.

mod arithmetic;
mod cast;
pub(crate) mod cast_function;
mod checks;
mod compare;
mod compile;
mod datum;
mod environment;
mod evaluate;
mod fallback;
mod function;
mod literal;
mod members;
mod node;
mod pattern;
mod promotion;
mod scope;

pub(crate) use arithmetic::ArithmeticOp;
pub(crate) use checks::{check_compiler, compile_generated, parse_stored};
pub(crate) use compile::{
    AggregateCall, AggregateFunction, AggregateScope, Compiler, DistinctInput, Refusal, SequenceNames,
};
pub(crate) use datum::Datum;
pub(crate) use environment::{Environment, Inputs, NewRow, NoRows, RowSource};
pub(crate) use fallback::PlanExpressions;
pub(crate) use literal::{decimal as decimal_literal, number as number_literal};
pub(crate) use node::{LetterCase, LikeStyle, Scalar};
pub(crate) use pattern::{dangles, like, lower_letter};
pub(crate) use scope::{Scope, ScopeTable, folded};

pub(crate) use compare::{CompareOp, compare_values};
pub(crate) use compile::compare_op;
pub(crate) use promotion::{is_integer, power_of_ten};

#[cfg(test)]
mod tests;
