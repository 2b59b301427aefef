// SPDX-License-Identifier: Apache-2.0
//! `coeval bench replica` as a process, small and short: every part runs, and nothing is found wrong. No figure is looked at but for
//! its presence.
// Helper functions of a test are a test too.
#![allow(clippy::unwrap_used)]

#[path = "../../../tests/bounded.rs"]
mod bounded;

use std::process::Command;

fn bench(arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_coeval"));
    command.args(["bench", "replica", "--tiny"]).args(arguments);
    let output = bounded::output(&mut command);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn both_pairs_are_measured_and_nothing_is_wrong_with_what_they_did() {
    let arguments =
        ["--warehouses", "2", "--threads", "2", "--streams", "2", "--seconds", "0.5", "--runs", "2"];
    let (code, shown, said) = bench(&arguments);
    assert_eq!(code, Some(0), "{shown}\n{said}");
    let report: serde_json::Value = serde_json::from_str(shown.lines().last().unwrap()).unwrap();
    for name in [
        "primary_rss_over_si_ratio",
        "primary_rss_over_si_low_ratio",
        "replica_rss_over_si_ratio",
        "primary_cpu_rss_over_si_ratio",
        "replica_cpu_rss_over_si_ratio",
        "safe_age_p50_ms",
        "safe_age_p99_ms",
        "apply_over_commit_ratio",
        "typed_apply_over_commit_ratio",
        "apply_bytes_per_s",
        "synced_over_local_ratio",
        "archive_over_plain_ratio",
        "rss_primary_abort_rate",
        "si_primary_abort_rate",
        "si_read_only_anomaly_is_seen",
    ] {
        assert!(report["figures"][name].is_number(), "{name} is missing in {shown}");
    }
    assert_eq!(report["figures"]["streams"], serde_json::json!([0, 1, 2]));
    assert_eq!(report["figures"]["rss_transactions_per_s_by_streams"].as_array().unwrap().len(), 3);
    let checks = report["checks"].as_object().unwrap();
    for name in [
        "rss_replica_aborts",
        "rss_read_only_anomaly",
        "rss_replica_tpcc_conditions",
        "si_tables_that_differ",
    ] {
        assert_eq!(checks[name], 0, "{name}");
    }
    assert_eq!((&report["isolation"], &report["durability"]), (&"serializable".into(), &"fsync".into()));
}

#[test]
fn what_cannot_be_measured_is_refused() {
    assert_eq!(bench(&["--durability", "none"]).0, Some(2));
    assert_eq!(bench(&["--streams", "0"]).0, Some(2));
}
