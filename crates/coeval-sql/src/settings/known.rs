// SPDX-License-Identifier: Apache-2.0
//! Which settings there are, and what each of them accepts.

use super::compatible::COMPATIBLE;
use super::formats::Format;
use super::reals::Real;
use super::units::{
    SENDER_TIMEOUT_DEFAULT, SLOT_SIZE_DEFAULT, bytes, milliseconds, shown_duration, shown_size,
};
use super::zones::zone_name;
use crate::error::{SqlError, SqlState};
use crate::standby_names::SYNCHRONOUS_STANDBY_NAMES;
use coeval_txn::Isolation;

/// The name of the setting that bounds what slots keep.
pub(crate) const MAX_SLOT_WAL_KEEP_SIZE: &str = "max_slot_wal_keep_size";

/// The name of the setting that says how much log stays behind checkpoints, whoever is connected.
pub(crate) const WAL_KEEP_SIZE: &str = "wal_keep_size";

/// The name of the setting that bounds the silence of who follows.
pub(crate) const WAL_SENDER_TIMEOUT: &str = "wal_sender_timeout";

/// The name of the setting that bounds how old safe snapshots become.
pub(crate) const SAFE_SNAPSHOT_MAX_LAG: &str = "coeval.safe_snapshot_max_lag";

/// What a setting accepts.
#[derive(Clone, Copy, Debug)]
pub(super) enum Domain {
    Boolean,
    Text,
    Zone,
    SchemaList,
    Isolation,
    /// A name of UTF-8.
    Encoding,
    OneOf(&'static [&'static str]),
    Integer {
        min: i64,
        max: i64,
    },
    /// A number that may have a fraction.
    Real(Real),
    /// A time, in milliseconds if it has no unit; 0 is none.
    Duration,
    /// A number of bytes, in kB if it has no unit.
    Size,
    /// How values are written.
    Format(Format),
    /// Can be shown, and set only to what it is.
    Fixed,
}

pub(super) struct Known {
    pub(super) name: &'static str,
    pub(super) default: &'static str,
    pub(super) domain: Domain,
    pub(super) description: &'static str,
}

pub(super) const fn known(
    name: &'static str,
    default: &'static str,
    domain: Domain,
    description: &'static str,
) -> Known {
    Known { name, default, domain, description }
}

const fn switch(name: &'static str, default: &'static str, description: &'static str) -> Known {
    known(name, default, Domain::Boolean, description)
}

const fn duration(name: &'static str, default: &'static str, description: &'static str) -> Known {
    known(name, default, Domain::Duration, description)
}

const fn fixed(name: &'static str, default: &'static str, description: &'static str) -> Known {
    known(name, default, Domain::Fixed, description)
}

/// All settings, by name.
pub(super) const KNOWN: &[Known] = &[
    known("application_name", "", Domain::Text, "Name of the application, as clients send it."),
    known("bytea_output", "hex", Domain::OneOf(&["hex"]), "Output format of bytea."),
    duration(
        "client_connection_check_interval",
        "1s",
        "How long a statement runs before it is looked whether the client is still there; 0: it is not.",
    ),
    known("client_encoding", "UTF8", Domain::Encoding, "Encoding of the client."),
    known("client_min_messages", "notice", Domain::Text, "Least level of messages that are sent."),
    switch("coeval.coded_groups", "on", "Whether GROUP BY groups by codes of values where it can."),
    known(
        "coeval.copy_memory",
        "2GB",
        Domain::Size,
        "Most bytes of rows that COPY keeps before they go into the table.",
    ),
    switch(
        "coeval.group_top",
        "on",
        "Whether rows that cannot be among the best of their group are dropped before they are sorted.",
    ),
    switch(
        "coeval.grouping_sets",
        "on",
        "Whether GROUPING SETS, ROLLUP and CUBE are made of the finest groups in the place of the rows.",
    ),
    switch(
        "coeval.integer_joins",
        "on",
        "Whether joins by whole numbers, dates and instants leave looked-up rows as they are where each meets one row.",
    ),
    switch("coeval.join_keys", "on", "Whether scans ask what joins look for, and leave other rows out."),
    switch(
        "coeval.joined_subqueries",
        "on",
        "Whether subqueries that would run for each row become joins where that is the same and quicker.",
    ),
    switch(
        "coeval.kept_plans",
        "on",
        "Whether what is done to plan a query that is sent again is kept for as long as its tables do not change.",
    ),
    switch(
        "coeval.late_joins",
        "on",
        "Whether tables that are joined by a key of what is grouped by are joined with the groups in the place of the rows.",
    ),
    duration(
        "coeval.max_staleness",
        "0",
        "On a replica: transactions fail that would read what is older; 0 for any age.",
    ),
    switch(
        "coeval.narrow_decimals",
        "on",
        "Whether decimals are computed by 64-bit integers where they fit.",
    ),
    switch(
        "coeval.narrow_scans",
        "on",
        "Whether decimals of up to 18 digits come from tables as 64-bit integers where these are added up, computed with or compared.",
    ),
    switch(
        "coeval.packed_groups",
        "on",
        "Whether GROUP BY takes several integers, dates and times as one value where they fit into 128 bits.",
    ),
    fixed(
        "coeval.peers",
        "",
        "The other machines that a promotion asks, and tells of it; none if no --peer is named.",
    ),
    switch("coeval.point_path", "on", "Whether statements by key bypass DataFusion."),
    switch(
        "coeval.priority",
        "off",
        "Whether what a transaction accessed that has lost is reserved for the session's next one.",
    ),
    known(
        "coeval.query_weight",
        "100",
        Domain::Integer { min: 1, max: 100 },
        "Share of the threads for queries that a statement gets while others want them: one with 50 gets half as much as one with 100.",
    ),
    known(
        "coeval.read_only_snapshot",
        "auto",
        Domain::OneOf(&["auto", "safe", "current"]),
        "Snapshot of READ ONLY transactions at SERIALIZABLE.",
    ),
    switch(
        "coeval.running_windows",
        "on",
        "Whether aggregates over windows that begin with their partition are computed batch by batch where they can be.",
    ),
    duration(
        SAFE_SNAPSHOT_MAX_LAG,
        "0",
        "Longest that a transaction may hold safe snapshots back; 0 for any. Of the whole database.",
    ),
    switch(
        "coeval.shared_subplans",
        "on",
        "Whether what a query has in several places, as WITH queries that it names more than once, is computed once.",
    ),
    switch(
        "coeval.short_groups",
        "on",
        "Whether texts and decimals that follow from a key beside them in GROUP BY are left out of what is grouped by.",
    ),
    fixed("coeval.snapshot_lag", "", "How far safe snapshots are behind, and because of whom."),
    switch(
        "coeval.spread_pieces",
        "on",
        "Whether nodes of a cluster do parts of a query with the bricks that they have; off: rows are fetched.",
    ),
    switch(
        "coeval.stepwise_filters",
        "on",
        "Whether filters above scans ask their conditions one after the other, and they and joins compare by loops of their own.",
    ),
    known(
        "coeval.table_server",
        "",
        Domain::Text,
        "Server of new tables; none: they are the database's own.",
    ),
    switch(
        "coeval.text_codes",
        "on",
        "Whether GROUP BY and the filters of scans take columns of few different texts as the codes that files have of them.",
    ),
    known("coeval.wait_for_token", "", Domain::Text, "SET waits until the token's snapshot is there."),
    duration(
        "coeval.wait_for_token_timeout",
        "1min",
        "Longest wait of SET coeval.wait_for_token; 0 for any.",
    ),
    known("datestyle", "ISO, MDY", Domain::Format(Format::Dates), "Order and style of dates."),
    duration("deadlock_timeout", "0", "How long a wait for a lock lasts before deadlocks are looked for."),
    switch("default_transaction_deferrable", "off", "Whether new transactions are DEFERRABLE."),
    known("default_transaction_isolation", "serializable", Domain::Isolation, "Level of new transactions."),
    switch("default_transaction_read_only", "off", "Whether new transactions are READ ONLY."),
    known("extra_float_digits", "1", Domain::Format(Format::Floats), "Digits of floats: the shortest exact."),
    duration(
        "idle_in_transaction_session_timeout",
        "0",
        "Longest silence of a client in a transaction block.",
    ),
    duration("idle_session_timeout", "0", "Longest silence of a client outside a transaction."),
    fixed("in_hot_standby", "off", "Whether this is a standby."),
    fixed("integer_datetimes", "on", "Times are integers."),
    known("intervalstyle", "postgres", Domain::Format(Format::Intervals), "Output format of intervals."),
    fixed("is_superuser", "on", "Whether the user may do everything."),
    duration("lock_timeout", "0", "Longest wait for a lock; 0 for any."),
    known(
        MAX_SLOT_WAL_KEEP_SIZE,
        SLOT_SIZE_DEFAULT,
        Domain::Text,
        "Log that a replication slot, or a backup that is asked for, keeps at most; -1 for any. Of the whole database, until it is closed.",
    ),
    fixed("max_identifier_length", "1024", "Longest name."),
    known(
        "plan_cache_mode",
        "auto",
        Domain::OneOf(&["auto", "force_custom_plan", "force_generic_plan"]),
        "Plans of prepared queries: for the values of each execution, or for all values where that is no worse; auto: after five executions.",
    ),
    known("search_path", "public", Domain::SchemaList, "Schemas of unqualified names."),
    fixed("server_encoding", "UTF8", "Encoding of the database."),
    fixed("server_version", "15.0 (Coeval 0.1.0)", "Version that clients see."),
    fixed("server_version_num", "150000", "The same as a number."),
    known("standard_conforming_strings", "on", Domain::OneOf(&["on"]), "Backslashes in strings are plain."),
    duration("statement_timeout", "0", "Longest run of a statement."),
    known(
        "synchronous_commit",
        "on",
        Domain::OneOf(&["on", "off", "local", "remote_write", "remote_apply"]),
        "What commits wait for: the disk, replicas; off: they are durable some 200 ms later.",
    ),
    known(
        SYNCHRONOUS_STANDBY_NAMES,
        "",
        Domain::Text,
        "Replicas that commits wait for: names, FIRST n (names) or ANY n (names). Of the whole database.",
    ),
    known(
        "tique.formulation",
        "auto",
        Domain::OneOf(&["auto", "ranking", "anti_join", "copied"]),
        "How queries on servers find the newest versions of rows.",
    ),
    known(
        "tique.priority",
        "normal",
        Domain::OneOf(&["normal", "high"]),
        "high: what coeval.priority says, on servers alone.",
    ),
    known("timezone", "UTC", Domain::Zone, "Zone of timestamps with time zone."),
    switch("transaction_deferrable", "off", "Whether this transaction is DEFERRABLE."),
    known("transaction_isolation", "serializable", Domain::Isolation, "Level of this transaction."),
    switch("transaction_read_only", "off", "Whether this transaction is READ ONLY."),
    known(
        WAL_KEEP_SIZE,
        "0",
        Domain::Text,
        "Log that stays behind each checkpoint, whoever follows. Of the whole database, until it is closed.",
    ),
    duration(
        WAL_SENDER_TIMEOUT,
        SENDER_TIMEOUT_DEFAULT,
        "Longest silence of who follows; 0 for any. Of the whole database, until it is closed.",
    ),
];

/// Names of settings do not care for case; some have two names.
pub(crate) fn canonical(name: &str) -> String {
    let lower = name.to_lowercase();
    match lower.as_str() {
        "time zone" => "timezone".to_owned(),
        "transaction isolation level" => "transaction_isolation".to_owned(),
        _ => lower,
    }
}

/// Name and value as they are kept.
pub(super) fn accepted(name: &str, value: &str) -> Result<(String, String), SqlError> {
    let name = canonical(name);
    if !is_custom(&name) {
        let value = normalize(find(&name)?, value)?;
        return Ok((name, value));
    }
    if is_custom_name(&name) {
        return Ok((name, value.to_owned()));
    }
    let message = format!("invalid configuration parameter name \"{name}\"");
    let detail = "Custom parameter names must be two or more simple identifiers separated by dots.";
    Err(SqlError::new(SqlState::InvalidName, message).with_detail(detail))
}

/// Whether an application's setting may be called so.
fn is_custom_name(name: &str) -> bool {
    let is_first = |letter: char| letter.is_ascii_alphabetic() || letter == '_' || !letter.is_ascii();
    let is_next = |letter: char| is_first(letter) || letter.is_ascii_digit() || letter == '$';
    name.split('.').all(|part| part.starts_with(is_first) && part.chars().all(is_next))
}

pub(super) fn find(name: &str) -> Result<&'static Known, SqlError> {
    KNOWN.iter().chain(COMPATIBLE).find(|known| known.name == name).ok_or_else(|| {
        SqlError::new(SqlState::UndefinedObject, format!("unrecognized configuration parameter \"{name}\""))
    })
}

/// Whether a setting belongs to an application: PostgreSQL takes any name with a point in it.
pub(crate) fn is_custom(name: &str) -> bool {
    name.contains('.') && !name.starts_with("coeval.") && !name.starts_with("tique.")
}

impl Domain {
    /// `vartype` of `pg_settings`.
    pub(super) fn type_name(self) -> &'static str {
        match self {
            Self::Boolean => "bool",
            Self::Integer { .. } | Self::Duration | Self::Size => "integer",
            Self::Format(Format::Floats) => "integer",
            Self::Real(_) => "real",
            Self::Isolation | Self::OneOf(_) | Self::Format(Format::Intervals) => "enum",
            Self::Text
            | Self::Zone
            | Self::SchemaList
            | Self::Encoding
            | Self::Fixed
            | Self::Format(Format::Dates) => "string",
        }
    }
}

/// A setting's name as PostgreSQL writes it: clients compare it with that.
pub(crate) fn written_name(name: &str) -> &str {
    match name {
        "timezone" => "TimeZone",
        "datestyle" => "DateStyle",
        "intervalstyle" => "IntervalStyle",
        other => other,
    }
}

fn normalize(known: &Known, value: &str) -> Result<String, SqlError> {
    let name = known.name;
    let refuse = || {
        SqlError::new(
            SqlState::InvalidParameterValue,
            format!("invalid value for parameter \"{}\": \"{value}\"", written_name(name)),
        )
    };
    match known.domain {
        Domain::Boolean => match value.to_lowercase().as_str() {
            "on" | "true" | "yes" | "1" | "t" => Ok("on".to_owned()),
            "off" | "false" | "no" | "0" | "f" => Ok("off".to_owned()),
            _ => Err(refuse()),
        },
        Domain::Text => Ok(value.to_owned()),
        Domain::Real(real) => real.normalized(value).ok_or_else(refuse),
        Domain::Duration => milliseconds(value).map(shown_duration).ok_or_else(refuse),
        Domain::Size => bytes(value).map(shown_size).ok_or_else(refuse),
        Domain::Zone => zone_name(value)?.ok_or_else(refuse),
        Domain::SchemaList => Ok(split_list(value).join(", ")),
        Domain::Isolation => Ok(parse_isolation(value).ok_or_else(refuse)?.to_string().to_lowercase()),
        Domain::OneOf(values) => {
            let lower = value.to_lowercase();
            // A choice between on, off and more takes the words of a boolean, too.
            let lower = match lower.as_str() {
                "true" | "yes" | "1" if values.contains(&"off") => "on".to_owned(),
                "false" | "no" | "0" if values.contains(&"off") => "off".to_owned(),
                _ => lower,
            };
            match values.iter().find(|allowed| allowed.to_lowercase() == lower) {
                Some(_) => Ok(lower),
                None => Err(refuse()),
            }
        }
        Domain::Encoding => {
            // As PostgreSQL reads names of encodings: `'utf-8'` with its quotes is one, too.
            let name: String = value.chars().filter(char::is_ascii_alphanumeric).collect();
            let is_utf8 = ["utf8", "unicode"].iter().any(|known| name.eq_ignore_ascii_case(known));
            if is_utf8 { Ok("UTF8".to_owned()) } else { Err(refuse()) }
        }
        Domain::Integer { min, max } => match value.trim().parse::<i64>() {
            Ok(number) if (min..=max).contains(&number) => Ok(number.to_string()),
            Ok(_) | Err(_) => Err(refuse()),
        },
        Domain::Format(format) => format.normalized(value)?.ok_or_else(refuse),
        Domain::Fixed if value.eq_ignore_ascii_case(known.default) => Ok(known.default.to_owned()),
        Domain::Fixed => Err(SqlError::new(
            SqlState::ObjectNotInPrerequisiteState,
            format!("parameter \"{name}\" cannot be changed"),
        )),
    }
}

/// The isolation level of this name, if there is one.
pub(super) fn parse_isolation(value: &str) -> Option<Isolation> {
    match value.to_lowercase().as_str() {
        "read uncommitted" | "read committed" => Some(Isolation::ReadCommitted),
        "repeatable read" | "snapshot" => Some(Isolation::Snapshot),
        "serializable" => Some(Isolation::Serializable),
        _ => None,
    }
}

pub(super) fn split_list(value: &str) -> Vec<String> {
    value
        .split(',')
        .map(|part| part.trim())
        .filter(|part| !part.is_empty() && *part != "\"$user\"" && *part != "$user")
        .map(|part| match part.strip_prefix('"').and_then(|part| part.strip_suffix('"')) {
            Some(quoted) => quoted.to_owned(),
            None => part.to_lowercase(),
        })
        .collect()
}
