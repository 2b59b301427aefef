// SPDX-License-Identifier: Apache-2.0
//! What a statement hands to subqueries that are planned while it runs.

use crate::carried::Carry;
use chrono::{DateTime, Utc};
use datafusion::execution::runtime_env::RuntimeEnv;
use std::sync::Arc;

/// What `now()` says in subqueries that are planned while the statement runs.
#[derive(Clone, Debug)]
pub(super) struct StatementTime(pub(super) Option<DateTime<Utc>>);

impl Carry for StatementTime {
    const NAME: &'static str = "coeval_statement";
}

/// What subqueries run in that are planned while the statement runs: its own memory.
#[derive(Clone, Debug)]
pub(super) struct StatementEnvironment(pub(super) Arc<RuntimeEnv>);

impl Carry for StatementEnvironment {
    const NAME: &'static str = "coeval_environment";
}
