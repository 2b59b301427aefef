// SPDX-License-Identifier: Apache-2.0
//! The parameters of statements, `$1`, `$2`, ...: which there are, and of which types they are.
//!
//! # Owns
//!
//! - how a parameter is named, and which ones a statement names ([`index_of_name`], [`places_in`], [`count`]);
//! - what the syntax alone says of their types: casts, LIMIT, conditions, arguments of functions ([`stated_types`]), of which the last
//!   hold for literals in quotes as well ([`arguments_of`]);
//! - the rules: that the first place which gives a type counts ([`note_type`], [`ParameterTypes`]), the type beside an operand of
//!   a known type ([`beside`], [`of_operand`]), the type where texts are read ([`read_as`]), text for what has none
//!   ([`resolved_types`]);
//! - what a plan says of them: beside operators, while these are planned ([`typed_operands`]), in all other places once the plan
//!   stands ([`inferred_types`]), and which ones are arrays or object ids ([`special_types`]);
//! - what PostgreSQL refuses: a parameter without a type ([`refuse_undetermined`]), and one with two ([`refuse_two_types`]).
//!
//! # Never does
//!
//! It resolves no names and knows no tables: a plan has the types of its columns, and who finds an operand in the syntax, or the
//! column that is assigned, asks here what that makes of the parameter. Those who ask are listed in `docs/internals.md`, and
//! counted by a test of the style.
//!
//! # Invariants
//!
//! - A type that the client has declared, or that an earlier place has given, is never replaced.
//! - A type that is found here never has the length of a column of text, so that a value that is too long is refused where it is stored.
//!
//! # Start reading at
//!
//! [`stated`] for the syntax, [`operands`] for the rules, [`inferred`] for the places in a plan.

mod arguments;
mod in_plan;
mod inferred;
mod known;
mod numbers;
mod operands;
mod refused;
mod special;
mod stated;

pub(crate) use arguments::arguments_of;
pub(crate) use in_plan::{parameter_field, parameter_of, typed_operands};
pub(crate) use inferred::inferred_types;
pub(crate) use known::{ParameterTypes, note_type, resolved_types};
pub(crate) use numbers::{count, index_of, index_of_name, places_in, refuse_parameters};
pub(crate) use operands::{Side, beside, of_operand, read_as};
pub(crate) use refused::{refuse_two_types, refuse_undetermined};
pub(crate) use special::{are_object_ids, special_types};
pub(crate) use stated::stated_types;
