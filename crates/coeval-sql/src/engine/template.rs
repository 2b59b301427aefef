// SPDX-License-Identifier: Apache-2.0
//! How DataFusion is set up: options, functions, rules.

use crate::error::SqlError;
use crate::query::CheckedArithmetic;
use datafusion::config::Dialect;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::context::SessionState;
use datafusion::prelude::SessionConfig;
use std::sync::Arc;

/// The state that statements clone.
pub(super) fn session_state(threads: usize) -> Result<SessionState, SqlError> {
    let mut config = SessionConfig::new()
        .with_target_partitions(threads)
        .with_default_catalog_and_schema(super::CATALOG_NAME, "public")
        .with_create_default_catalog_and_schema(false)
        .with_information_schema(false);
    let options = config.options_mut();
    options.sql_parser.dialect = Dialect::PostgreSQL;
    options.sql_parser.parse_float_as_decimal = true;
    options.sql_parser.collect_spans = true;
    options.execution.time_zone = Some("UTC".to_owned());
    let mut state = SessionStateBuilder::new()
        .with_config(config)
        .with_default_features()
        .with_analyzer_rule(Arc::new(CheckedArithmetic))
        .build();
    for function in crate::ddl::sequence_functions::functions() {
        state.register_udf(Arc::new(function))?;
    }
    Ok(state)
}
