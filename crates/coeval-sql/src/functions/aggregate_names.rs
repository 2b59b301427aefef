// SPDX-License-Identifier: Apache-2.0
//! Which names are those of aggregates.

use super::ordered_sets::ORDERED_SET;
use datafusion::functions_aggregate::all_default_aggregate_functions;
use std::collections::HashSet;
use std::sync::LazyLock;

/// Whether functions of this name are aggregates.
pub(crate) fn is_aggregate(name: &str) -> bool {
    static AGGREGATES: LazyLock<HashSet<String>> = LazyLock::new(|| {
        let all = all_default_aggregate_functions().into_iter();
        all.flat_map(|function| [function.name().to_owned()].into_iter().chain(function.aliases().to_vec()))
            .collect()
    });
    (name.starts_with("json") && name.ends_with("_agg")) || name == ORDERED_SET || AGGREGATES.contains(name)
}
