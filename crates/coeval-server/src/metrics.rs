// SPDX-License-Identifier: Apache-2.0
//! Figures for Prometheus: counted as things happen, written out when somebody asks.

mod endpoint;

pub(crate) use endpoint::serve;

use coeval::{ArchivingStatus, ClusterFigures, Database, Durations};
use coeval_sql::{ActivityState, QueryTurns, Registered, UpstreamState};
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the statement times that are told apart, in microseconds, with their names in seconds.
const BOUNDS: [(u64, &str); 7] = [
    (100, "0.0001"),
    (1_000, "0.001"),
    (10_000, "0.01"),
    (100_000, "0.1"),
    (1_000_000, "1"),
    (10_000_000, "10"),
    (u64::MAX, "+Inf"),
];

/// What has happened since the server began.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    connections: AtomicU64,
    refused: AtomicU64,
    errors: AtomicU64,
    /// Statements by how long they took: each in the first bound that it fits.
    statements: [AtomicU64; BOUNDS.len()],
    statement_micros: AtomicU64,
}

impl Metrics {
    /// A connection has come.
    pub(crate) fn connection(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
    }

    /// A connection has come to no session.
    pub(crate) fn refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// A statement has failed.
    pub(crate) fn error(&self) {
        self.errors.fetch_add(1, Ordering::Relaxed);
    }

    /// A statement has ended, in whatever way.
    pub(crate) fn statement(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let place = BOUNDS.iter().position(|(bound, _)| micros <= *bound).unwrap_or(BOUNDS.len() - 1);
        self.statements[place].fetch_add(1, Ordering::Relaxed);
        self.statement_micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// All figures in Prometheus' text format, those of the database as of now.
    pub(crate) fn text(&self, database: &Database) -> String {
        let mut text = String::new();
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        family(&mut text, "coeval_connections_total", "counter", "Connections that have come.");
        sample(&mut text, "coeval_connections_total", "", load(&self.connections));
        family(
            &mut text,
            "coeval_connections_refused_total",
            "counter",
            "Connections that came to no session.",
        );
        sample(&mut text, "coeval_connections_refused_total", "", load(&self.refused));
        family(&mut text, "coeval_errors_total", "counter", "Statements that have failed.");
        sample(&mut text, "coeval_errors_total", "", load(&self.errors));
        self.write_statements(&mut text);
        write_sessions(&mut text, &database.engine().registry().all());
        write_queries(&mut text, database.engine().query_turns());
        write_store(&mut text, database);
        text
    }

    fn write_statements(&self, text: &mut String) {
        const NAME: &str = "coeval_statement_seconds";
        family(text, NAME, "histogram", "How long statements took.");
        let mut count = 0;
        for ((_, bound), counter) in BOUNDS.iter().zip(&self.statements) {
            count += counter.load(Ordering::Relaxed);
            sample(text, "coeval_statement_seconds_bucket", &format!("{{le=\"{bound}\"}}"), count);
        }
        let micros = self.statement_micros.load(Ordering::Relaxed);
        let _ = writeln!(text, "{NAME}_sum {}.{:06}", micros / 1_000_000, micros % 1_000_000);
        sample(text, "coeval_statement_seconds_count", "", count);
    }
}

/// What a role sees of its own: its sessions.
pub(crate) fn text_of_sessions(database: &Database, role: &str) -> String {
    let mut sessions = database.engine().registry().all();
    sessions.retain(|session| session.client().user == role);
    let mut text = String::new();
    write_sessions(&mut text, &sessions);
    text
}

fn write_sessions(text: &mut String, sessions: &[Arc<Registered>]) {
    let states = [
        ActivityState::Active,
        ActivityState::Idle,
        ActivityState::IdleInTransaction,
        ActivityState::IdleInFailedTransaction,
    ];
    family(text, "coeval_sessions", "gauge", "Sessions by what they are about.");
    for state in states {
        let count = sessions.iter().filter(|session| session.state() == state).count();
        sample(text, "coeval_sessions", &format!("{{state=\"{}\"}}", state.name()), count as u64);
    }
}

/// How the threads for queries are shared.
fn write_queries(text: &mut String, turns: QueryTurns) {
    family(text, "coeval_queries", "gauge", "Statements whose queries are under way.");
    sample(text, "coeval_queries", "", turns.statements);
    family(
        text,
        "coeval_query_waits_total",
        "counter",
        "How often a task of a query has waited until other statements had had their part of the threads.",
    );
    sample(text, "coeval_query_waits_total", "", turns.waits);
}

fn write_store(text: &mut String, database: &Database) {
    let (store, world) = (database.store(), database.world());
    let version = world.version().get();
    family(text, "coeval_version", "counter", "Version of the newest published world.");
    sample(text, "coeval_version", "", version);
    family(text, "coeval_snapshots", "gauge", "Snapshots that transactions hold.");
    sample(text, "coeval_snapshots", "", store.active_snapshots() as u64);
    family(text, "coeval_oldest_snapshot_lag", "gauge", "Versions since the oldest snapshot that is held.");
    sample(text, "coeval_oldest_snapshot_lag", "", version.saturating_sub(store.oldest_active().get()));
    let (taken, conflicts) = (store.safe_snapshot_counts(), store.conflict_counts());
    let name = "coeval_safe_snapshots_total";
    family(text, name, "counter", "Transactions that asked for a safe snapshot, by what they got.");
    for (outcome, count) in [
        ("taken", taken.taken),
        ("behind_floor", taken.behind_floor),
        ("while_certifying", taken.while_certifying),
    ] {
        sample(text, name, &format!("{{outcome=\"{outcome}\"}}"), count);
    }
    family(text, "coeval_safe_worlds_total", "counter", "Safe worlds that were made.");
    sample(text, "coeval_safe_worlds_total", "", taken.made);
    family(text, "coeval_conflicts_total", "counter", "Transactions that were refused with 40001.");
    sample(text, "coeval_conflicts_total", "", conflicts.all);
    family(text, "coeval_commits_running", "gauge", "1 as long as commits go on, 0 once they have stopped.");
    sample(text, "coeval_commits_running", "", u64::from(store.check_running().is_ok()));
    let name = "coeval_data_memory_bytes";
    family(text, name, "gauge", "Bytes in memory of what was read of tables' files.");
    sample(text, name, "", store.data_memory_bytes());
    let failing = store.checkpoint_failures();
    let (failures, lasting) = failing.map_or((0, Duration::ZERO), |failing| (failing.count, failing.lasting));
    let name = "coeval_checkpoint_failures";
    family(text, name, "gauge", "Checkpoints that have failed since the last one that did not.");
    sample(text, name, "", failures);
    let name = "coeval_checkpoint_failing_seconds";
    family(text, name, "gauge", "For how long checkpoints have failed; 0 if the last one did not.");
    let _ = writeln!(text, "{name} {:.3}", lasting.as_secs_f64());
    let stays = store.leader_stays();
    let help = "How long the commit leader's lock was held at a time.";
    write_durations(text, "coeval_leader_seconds", help, &stays);
    let name = "coeval_leader_longest_seconds";
    family(text, name, "gauge", "The longest of these since the server began.");
    let _ = writeln!(text, "{name} {:.9}", stays.longest.as_secs_f64());
    let help = "How long commits waited from being applied to being published.";
    write_durations(text, "coeval_publication_seconds", help, &store.publication_times());
    write_replication(text, database);
}

/// Who follows, and whom this one follows.
fn write_replication(text: &mut String, database: &Database) {
    let (engine, store) = (database.engine(), database.engine().store());
    let Some((end, durable)) = store.log_position() else { return };
    family(text, "coeval_log_bytes", "counter", "Bytes of log that were ever written.");
    sample(text, "coeval_log_bytes", "", end.get());
    let name = "coeval_replica_behind_bytes";
    family(text, name, "gauge", "Bytes of durable log that a replica does not have, by how far it has them.");
    for (pid, standing) in engine.followers().standings() {
        let progress = standing.progress;
        let stages = [
            ("sent", progress.sent),
            ("written", progress.written),
            ("flushed", progress.flushed),
            ("applied", progress.applied),
        ];
        for (stage, place) in stages {
            let labels = format!("{{pid=\"{pid}\",stage=\"{stage}\"}}");
            sample(text, name, &labels, durable.get().saturating_sub(place.get()));
        }
    }
    let lag = store.snapshot_lag();
    let name = "coeval_safe_snapshot_behind_commits";
    family(text, name, "gauge", "Published commits that the newest safe snapshot lacks.");
    sample(text, name, "", lag.commits);
    let name = "coeval_safe_snapshot_age_seconds";
    family(text, name, "gauge", "For how long there has been something that it lacks.");
    let _ = writeln!(text, "{name} {:.6}", lag.age.as_secs_f64());
    if let Some(archiving) = engine.archiving() {
        write_archive(text, &archiving);
    }
    if let Some(figures) = engine.cluster().and_then(|cluster| cluster.figures()) {
        write_cluster(text, &figures);
    }
    let Some(upstream) = engine.upstream() else { return };
    let name = "coeval_following";
    family(text, name, "gauge", "1 while this replica takes its primary's log, 0 while it does not.");
    sample(
        text,
        name,
        "",
        u64::from(matches!(upstream.state, UpstreamState::Streaming | UpstreamState::Archive)),
    );
    let name = "coeval_replica_unshown_bytes";
    family(text, name, "gauge", "Bytes of log that this replica has and does not show yet.");
    let shown = store.shown_position().unwrap_or(end);
    sample(text, name, "", end.get().saturating_sub(shown.get()));
}

/// How far the archive is.
fn write_archive(text: &mut String, status: &ArchivingStatus) {
    let name = "coeval_archive_behind_bytes";
    family(text, name, "gauge", "Bytes of durable log that the archive does not have.");
    sample(text, name, "", status.bytes_behind);
    let name = "coeval_archive_sent_total";
    family(text, name, "counter", "Stretches of log that the archive was sent since the server began.");
    sample(text, name, "", status.sent);
    let name = "coeval_archive_failures_total";
    family(text, name, "counter", "Attempts to archive that have failed since the server began.");
    sample(text, name, "", status.failures);
    let name = "coeval_archive_backup_timestamp_seconds";
    family(
        text,
        name,
        "gauge",
        "When the last complete backup was made, in seconds since 1970; 0 without one.",
    );
    sample(text, name, "", status.last_backup.map_or(0, |time| time.micros() / 1_000_000));
}

/// How it stands with this node of a cluster.
fn write_cluster(text: &mut String, figures: &ClusterFigures) {
    for (name, kind, help, value) in [
        ("coeval_cluster_view", "counter", "The number of the view that this node is at.", figures.view),
        ("coeval_cluster_members", "gauge", "Nodes that take part in it.", figures.members),
        ("coeval_cluster_clock", "counter", "The next epoch of this node.", figures.clock),
        (
            "coeval_cluster_latest_committed",
            "counter",
            "The epoch up to which everything is seen (LCE).",
            figures.latest_committed,
        ),
        (
            "coeval_cluster_latest_safe",
            "counter",
            "The epoch behind which nobody reads (LSE).",
            figures.latest_safe,
        ),
        (
            "coeval_cluster_latest_committed_lag",
            "gauge",
            "Epochs of the cluster that the latest committed one is behind the clock.",
            figures.latest_committed_lag,
        ),
        (
            "coeval_cluster_pending",
            "gauge",
            "Transactions that are under way on any node, as far as this one knows.",
            figures.pending,
        ),
        ("coeval_cluster_open_loads", "gauge", "Loads of clients of this node.", figures.open_loads),
        (
            "coeval_cluster_copied_bytes",
            "counter",
            "Bytes of bricks that have come to this node.",
            figures.copied_bytes,
        ),
        (
            "coeval_cluster_waiting_for_disk",
            "gauge",
            "Messages that wait for the disk of this node.",
            figures.waiting_for_disk,
        ),
    ] {
        family(text, name, kind, help);
        sample(text, name, "", value);
    }
    write_messages(text, figures);
}

/// What this node of a cluster says to others, and hears.
fn write_messages(text: &mut String, figures: &ClusterFigures) {
    let messages = &figures.messages;
    let name = "coeval_cluster_messages_total";
    family(
        text,
        name,
        "counter",
        "Messages between nodes by their kind, since this node has started or come back.",
    );
    for kind in messages {
        sample(text, name, &format!("{{kind=\"{}\",way=\"sent\"}}", kind.kind), kind.sent);
        sample(text, name, &format!("{{kind=\"{}\",way=\"received\"}}", kind.kind), kind.received);
    }
    let name = "coeval_cluster_message_bytes_total";
    family(text, name, "counter", "Their bytes.");
    for kind in messages {
        sample(text, name, &format!("{{kind=\"{}\",way=\"sent\"}}", kind.kind), kind.sent_bytes);
        sample(text, name, &format!("{{kind=\"{}\",way=\"received\"}}", kind.kind), kind.received_bytes);
    }
    let name = "coeval_cluster_lost_messages_total";
    family(text, name, "counter", "Messages that were not sent, since too much waited, or not taken.");
    sample(text, name, "{reason=\"not_taken\"}", figures.lost.not_taken);
    sample(text, name, "{reason=\"refused\"}", figures.lost.refused);
}

fn write_durations(text: &mut String, name: &str, help: &str, durations: &Durations) {
    family(text, name, "histogram", help);
    let mut count = 0;
    for (bound, counted) in &durations.counts {
        count += counted;
        let is_last = *bound == Duration::MAX;
        let bound = if is_last { "+Inf".to_owned() } else { bound.as_secs_f64().to_string() };
        sample(text, &format!("{name}_bucket"), &format!("{{le=\"{bound}\"}}"), count);
    }
    let _ = writeln!(text, "{name}_sum {:.9}", durations.total.as_secs_f64());
    sample(text, &format!("{name}_count"), "", count);
}

fn family(text: &mut String, name: &str, kind: &str, help: &str) {
    // Writing to a String cannot fail.
    let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
}

fn sample(text: &mut String, name: &str, labels: &str, value: u64) {
    let _ = writeln!(text, "{name}{labels} {value}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use coeval::ClusterMessageFigures;

    #[test]
    fn a_node_of_a_cluster_says_what_it_sends_and_how_far_it_is() {
        let message =
            ClusterMessageFigures { kind: "begin", sent: 3, sent_bytes: 30, received: 4, received_bytes: 40 };
        let figures = ClusterFigures { pending: 2, messages: vec![message], ..ClusterFigures::default() };
        let mut text = String::new();
        write_cluster(&mut text, &figures);
        for line in [
            "coeval_cluster_pending 2",
            "coeval_cluster_latest_committed_lag 0",
            "coeval_cluster_messages_total{kind=\"begin\",way=\"sent\"} 3",
            "coeval_cluster_message_bytes_total{kind=\"begin\",way=\"received\"} 40",
            "coeval_cluster_lost_messages_total{reason=\"refused\"} 0",
        ] {
            assert!(text.lines().any(|other| other == line), "{line} is missing in\n{text}");
        }
    }

    #[test]
    fn statements_are_counted_by_their_time_cumulatively_beside_what_the_store_counts() {
        let metrics = Metrics::default();
        for micros in [50, 100, 101, 2_000_000] {
            metrics.statement(Duration::from_micros(micros));
        }
        let text = metrics.text(&Database::in_memory().unwrap());
        for line in [
            "coeval_safe_snapshots_total{outcome=\"behind_floor\"} 0",
            "coeval_conflicts_total 0",
            "coeval_queries 0",
            "coeval_query_waits_total 0",
            "coeval_commits_running 1",
            "coeval_checkpoint_failures 0",
            "coeval_checkpoint_failing_seconds 0.000",
            "# TYPE coeval_leader_seconds histogram",
            "# TYPE coeval_publication_seconds histogram",
            "coeval_publication_seconds_count 0",
            "coeval_statement_seconds_bucket{le=\"0.0001\"} 2",
            "coeval_statement_seconds_bucket{le=\"0.001\"} 3",
            "coeval_statement_seconds_bucket{le=\"1\"} 3",
            "coeval_statement_seconds_bucket{le=\"+Inf\"} 4",
            "coeval_statement_seconds_sum 2.000251",
            "coeval_statement_seconds_count 4",
        ] {
            assert!(text.lines().any(|other| other == line), "{line} is missing in\n{text}");
        }
    }
}
