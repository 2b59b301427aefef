// SPDX-License-Identifier: Apache-2.0
//! The settings of a session: what SET changes and SHOW prints.

mod compatible;
mod formats;
mod known;
mod of_database;
mod of_new_sessions;
mod reals;
mod snapshot_lag;
mod units;
mod zones;

use crate::error::{SqlError, SqlState};
use crate::rights::{Principal, Rights};
use crate::temporary::{PG_TEMP, Temporary};
use crate::turns::FULL_WEIGHT;
use chrono_tz::Tz;
use coeval_store::{AccessMode, SynchronousCommit};
use coeval_txn::Isolation;
use compatible::COMPATIBLE;
use known::{KNOWN, Known, accepted, find, parse_isolation, split_list};
pub(crate) use known::{
    MAX_SLOT_WAL_KEEP_SIZE, SAFE_SNAPSHOT_MAX_LAG, WAL_KEEP_SIZE, WAL_SENDER_TIMEOUT, canonical, is_custom,
    written_name,
};
pub(crate) use of_database::of_database;
pub(crate) use of_new_sessions::name_of_default;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use units::{DEFAULT_COPY_BYTES, bytes};
pub(crate) use units::{
    SENDER_TIMEOUT_DEFAULT, SLOT_SIZE_DEFAULT, limit, log_bytes, shown_log_bytes, shown_slot_bytes,
    slot_bytes,
};

/// Whether the point path may take statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PointPath {
    /// It takes what it can.
    On,
    /// Everything goes through DataFusion or the general DML.
    Off,
}

/// Which snapshot a transaction reads that is declared read-only at SERIALIZABLE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadOnlySnapshot {
    /// The newest safe one, unless that lacks what the session has committed or read: then the current one.
    #[default]
    Auto,
    /// The newest safe one in any case.
    Safe,
    /// The current one.
    Current,
}

/// Whether a transaction waits for a safe snapshot of its own time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deferrable {
    Yes,
    No,
}

impl Deferrable {
    /// As settings have it.
    pub(crate) fn shown(self) -> &'static str {
        match self {
            Self::Yes => "on",
            Self::No => "off",
        }
    }
}

/// A change of a setting that `set_config` asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SettingRequest {
    pub(crate) name: String,
    pub(crate) value: String,
    /// Whether it ends with the transaction.
    pub(crate) is_local: bool,
}

/// What the settings of a session may take that are not at their defaults: names and values of an application's own among
/// them, which may be anything.
const SETTINGS_BYTES_MAX: usize = 1 << 20;

/// How long a statement runs before its client is looked for: what the list of settings says.
const CLIENT_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// About what a setting takes.
fn setting_bytes(name: &str, value: &str) -> usize {
    const BESIDE: usize = 64;
    name.len() + value.len() + BESIDE
}

/// About what a list of schemas takes.
fn path_bytes(path: &[String]) -> usize {
    path.iter().map(|schema| setting_bytes(schema, "")).sum()
}

/// The settings of one session.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Shared with the copies that savepoints and frames keep.
    changed: Arc<BTreeMap<String, String>>,
    /// What the session began with, as far as that is not the default: what RESET goes back to.
    initial: Arc<BTreeMap<String, String>>,
    zone: Tz,
    /// Shared as `changed` is, for as long as it stays the same.
    search_path: Arc<[String]>,
    /// The same with the session's own schema, where it is looked at.
    name_path: Arc<[String]>,
    temporary: Arc<Temporary>,
    point_path: PointPath,
    default_access: AccessMode,
    statement_timeout: Option<Duration>,
    idle_timeout: Option<Duration>,
    idle_session_timeout: Option<Duration>,
    client_check_interval: Option<Duration>,
    copy_bytes_max: usize,
    default_isolation: Isolation,
    default_deferrable: Deferrable,
    has_priority: bool,
    read_only_snapshot: ReadOnlySnapshot,
    lock_timeout: Option<Duration>,
    deadlock_timeout: Duration,
    backend_pid: i32,
    /// The principal that opened the session.
    authenticated: Principal,
    /// The principal that the session belongs to now, as SET SESSION AUTHORIZATION says.
    session_user: Principal,
    /// The principal that the session acts as, as SET ROLE says.
    current_user: Principal,
    /// Whether that one may do everything, as of when it was set.
    is_superuser: bool,
    /// Whether the database is a replica: all transactions only read.
    is_replica: bool,
    /// The name under which a client asked for the database.
    database: Option<Box<str>>,
    /// What `set_config` of the running statement asks for.
    requests: Vec<SettingRequest>,
    /// Differs from that of any other settings that differ.
    revision: u64,
}

/// A setting as SHOW ALL and `pg_settings` list it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listed<'a> {
    pub(crate) name: &'a str,
    pub(crate) value: &'a str,
    pub(crate) default: &'a str,
    /// What RESET goes back to.
    pub(crate) initial: &'a str,
    pub(crate) description: &'a str,
    /// PostgreSQL's name for its kind.
    pub(crate) type_name: &'static str,
    pub(crate) is_changed: bool,
}

/// Numbers the revisions of all sessions' settings.
static NEXT_REVISION: AtomicU64 = AtomicU64::new(1);

impl Default for Settings {
    fn default() -> Self {
        let embedded = Principal::named(crate::relations::CATALOG_NAME);
        let temporary = Arc::new(Temporary::default());
        Self {
            changed: Arc::default(),
            initial: Arc::default(),
            zone: Tz::UTC,
            search_path: Arc::from([coeval_store::DEFAULT_SCHEMA.to_owned()]),
            name_path: Arc::from([temporary.schema().to_owned(), coeval_store::DEFAULT_SCHEMA.to_owned()]),
            temporary,
            point_path: PointPath::On,
            default_access: AccessMode::ReadWrite,
            statement_timeout: None,
            idle_timeout: None,
            idle_session_timeout: None,
            client_check_interval: Some(CLIENT_CHECK_INTERVAL),
            copy_bytes_max: DEFAULT_COPY_BYTES,
            default_isolation: Isolation::Serializable,
            default_deferrable: Deferrable::No,
            has_priority: false,
            read_only_snapshot: ReadOnlySnapshot::Auto,
            lock_timeout: None,
            deadlock_timeout: Duration::ZERO,
            revision: 0,
            backend_pid: 0,
            authenticated: embedded.clone(),
            session_user: embedded.clone(),
            current_user: embedded,
            is_superuser: true,
            is_replica: false,
            database: None,
            requests: Vec::new(),
        }
    }
}

impl Settings {
    /// The zone that timestamps with time zone are shown and read in.
    #[must_use]
    pub fn zone(&self) -> Tz {
        self.zone
    }

    /// The schemas that unqualified names are looked up in, in order.
    #[must_use]
    pub fn search_path(&self) -> &[String] {
        &self.search_path
    }

    /// The same for who keeps them.
    pub(crate) fn shared_search_path(&self) -> Arc<[String]> {
        Arc::clone(&self.search_path)
    }

    /// The schemas that unqualified names of relations are looked up in, in order: the session's own one first, unless
    /// the search path has it elsewhere.
    pub(crate) fn name_path(&self) -> &[String] {
        &self.name_path
    }

    /// The session's temporary objects.
    pub(crate) fn temporary(&self) -> &Arc<Temporary> {
        &self.temporary
    }

    /// Whether the point path may take statements.
    #[must_use]
    pub fn point_path(&self) -> PointPath {
        self.point_path
    }

    /// What commits wait for.
    #[must_use]
    pub fn synchronous_commit(&self) -> SynchronousCommit {
        match self.changed.get("synchronous_commit").map(String::as_str) {
            Some("off") => SynchronousCommit::Off,
            Some("local") => SynchronousCommit::Local,
            Some("remote_write") => SynchronousCommit::RemoteWrite,
            Some("remote_apply") => SynchronousCommit::RemoteApply,
            _ => SynchronousCommit::On,
        }
    }

    /// How old what a replica's transactions read may be.
    pub(crate) fn max_staleness(&self) -> Option<Duration> {
        self.get("coeval.max_staleness").ok().and_then(limit)
    }

    /// How long SET coeval.wait_for_token waits at most.
    #[must_use]
    pub(crate) fn token_timeout(&self) -> Option<Duration> {
        self.get("coeval.wait_for_token_timeout").ok().and_then(limit)
    }

    /// Whether new transactions may write.
    #[must_use]
    pub fn default_access(&self) -> AccessMode {
        self.default_access
    }

    /// A number that is another one after each change, and the same again when a change is undone.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// What a statement's query weighs beside those of others where they share threads.
    pub(crate) fn query_weight(&self) -> u32 {
        let set = self.get("coeval.query_weight").ok().and_then(|weight| weight.parse().ok());
        set.unwrap_or(FULL_WEIGHT)
    }

    /// The longest a statement may run.
    #[must_use]
    pub fn statement_timeout(&self) -> Option<Duration> {
        self.statement_timeout
    }

    /// How long the client may be silent inside a transaction block.
    #[must_use]
    pub fn idle_in_transaction_session_timeout(&self) -> Option<Duration> {
        self.idle_timeout
    }

    /// How long the client may be silent outside a transaction.
    #[must_use]
    pub fn idle_session_timeout(&self) -> Option<Duration> {
        self.idle_session_timeout
    }

    /// How long a statement runs before it is looked whether the client is still there.
    #[must_use]
    pub fn client_connection_check_interval(&self) -> Option<Duration> {
        self.client_check_interval
    }

    /// How many bytes of rows COPY keeps before they go into the table.
    #[must_use]
    pub fn copy_bytes_max(&self) -> usize {
        self.copy_bytes_max
    }

    /// The server that new tables go to, if they do not say.
    pub(crate) fn table_server(&self) -> Option<String> {
        let name = self.get("coeval.table_server").unwrap_or_default();
        (!name.is_empty()).then(|| name.to_owned())
    }

    /// How queries on servers are written, and the priority of transactions there, in TiQuE's words.
    pub(crate) fn on_servers(&self) -> [(&'static str, &str); 2] {
        let of = |name: &'static str| (name, self.get(name).unwrap_or_default());
        let priority = if self.has_priority { ("tique.priority", "high") } else { of("tique.priority") };
        [of("tique.formulation"), priority]
    }

    /// The level of new transactions.
    #[must_use]
    pub fn default_isolation(&self) -> Isolation {
        self.default_isolation
    }

    /// Whether new transactions, if read-only and SERIALIZABLE, wait for a safe snapshot of their own time.
    pub(crate) fn default_deferrable(&self) -> Deferrable {
        self.default_deferrable
    }

    /// Whether what a transaction that has lost accessed is reserved for the next one.
    pub(crate) fn has_priority(&self) -> bool {
        self.has_priority
    }

    /// Which snapshot declared read-only transactions read at SERIALIZABLE.
    #[must_use]
    pub fn read_only_snapshot(&self) -> ReadOnlySnapshot {
        self.read_only_snapshot
    }

    /// How long a statement waits for a lock at most; for ever if not given.
    #[must_use]
    pub fn lock_timeout(&self) -> Option<Duration> {
        self.lock_timeout
    }

    /// How long a wait for a lock lasts before deadlocks are looked for.
    #[must_use]
    pub fn deadlock_timeout(&self) -> Duration {
        self.deadlock_timeout
    }

    /// The user that the session acts as: `current_user`.
    #[must_use]
    pub fn user(&self) -> &str {
        &self.current_user.name
    }

    /// The user whose session it is: `session_user`.
    #[must_use]
    pub fn session_user(&self) -> &str {
        &self.session_user.name
    }

    /// The principal that the session acts as.
    #[inline]
    pub(crate) fn principal(&self) -> &Principal {
        &self.current_user
    }

    /// Whose session it is.
    pub(crate) fn session_principal(&self) -> &Principal {
        &self.session_user
    }

    /// The principal that opened it.
    pub(crate) fn authenticated(&self) -> &Principal {
        &self.authenticated
    }

    /// Takes on a role, or none: SET ROLE.
    pub(crate) fn assume(&mut self, role: Option<Principal>) {
        self.current_user = role.unwrap_or_else(|| self.session_user.clone());
        self.derive();
    }

    /// Makes it somebody's session who has taken on no role: SET SESSION AUTHORIZATION.
    pub(crate) fn authorize(&mut self, user: Principal) {
        self.session_user = user.clone();
        self.current_user = user;
        self.derive();
    }

    /// Notes whether who the session acts as may do everything, for clients that ask.
    pub(crate) fn note_rights(&mut self, rights: &Rights) {
        self.is_superuser = rights.is_superuser();
    }

    /// Looks up names without a schema in this one first, and puts there what is made under such names, until any setting changes.
    pub(crate) fn look_first_in(&mut self, schema: &str) {
        let first = || std::iter::once(schema.to_owned());
        let own = self.temporary.schema();
        let behind_own = usize::from(self.name_path.first().is_some_and(|path| path == own));
        let (before, behind) = self.name_path.split_at(behind_own);
        self.name_path = before.iter().cloned().chain(first()).chain(behind.iter().cloned()).collect();
        self.search_path = first().chain(self.search_path.iter().cloned()).collect();
        self.revision = NEXT_REVISION.fetch_add(1, Ordering::Relaxed);
    }

    /// The settings of a session on a replica: all its transactions only read.
    pub(crate) fn on_replica(mut self) -> Self {
        self.is_replica = true;
        self.derive();
        self
    }

    /// Whether the database is a replica.
    #[must_use]
    pub(crate) fn is_replica(&self) -> bool {
        self.is_replica
    }

    /// The number that names the session to `pg_cancel_backend`; 0 in an embedded session.
    #[must_use]
    pub fn backend_pid(&self) -> i32 {
        self.backend_pid
    }

    /// The name of the database: a server has one, under whatever name its client asks for it.
    #[must_use]
    pub fn database(&self) -> &str {
        self.database.as_deref().unwrap_or(crate::relations::CATALOG_NAME)
    }

    /// Names the database.
    pub(crate) fn set_database(&mut self, name: &str) {
        self.database = Some(name.into());
    }

    /// Names the session, as a server does when it opens one.
    pub(crate) fn identify(&mut self, user: Principal, backend_pid: i32) {
        self.authenticated = user.clone();
        self.backend_pid = backend_pid;
        self.authorize(user);
    }

    /// About what keeping them takes, without what these others, which are kept as well, have in common with them.
    /// Costs a look at each of its texts that they do not share.
    pub(crate) fn bytes_beside(&self, others: &[&Self]) -> usize {
        let mut bytes = size_of::<Self>();
        if !others.iter().any(|other| Arc::ptr_eq(&other.changed, &self.changed)) {
            bytes += self.changed.iter().map(|(name, value)| setting_bytes(name, value)).sum::<usize>();
        }
        if !others.iter().any(|other| Arc::ptr_eq(&other.search_path, &self.search_path)) {
            bytes += path_bytes(&self.search_path);
        }
        if !others.iter().any(|other| Arc::ptr_eq(&other.name_path, &self.name_path)) {
            bytes += path_bytes(&self.name_path);
        }
        bytes
    }

    /// Notes changes that a statement asks for, for the session to make when the statement has succeeded.
    pub(crate) fn request(&mut self, requests: Vec<SettingRequest>) {
        self.requests = requests;
    }

    /// Takes the changes that the last statement has asked for.
    pub(crate) fn take_requests(&mut self) -> Vec<SettingRequest> {
        std::mem::take(&mut self.requests)
    }

    /// The value as SHOW prints it.
    ///
    /// # Errors
    /// `42704` for a setting that does not exist.
    pub fn get(&self, name: &str) -> Result<&str, SqlError> {
        let name = canonical(name);
        match name.as_str() {
            "session_authorization" => return Ok(&self.session_user.name),
            "role" if self.current_user.is(&self.session_user) => return Ok("none"),
            "role" => return Ok(&self.current_user.name),
            "is_superuser" => return Ok(if self.is_superuser { "on" } else { "off" }),
            "in_hot_standby" => return Ok(if self.is_replica { "on" } else { "off" }),
            _ => {}
        }
        if let Some(value) = self.changed.get(&name) {
            return Ok(value);
        }
        find(&name).map(|known| known.default)
    }

    /// Whether a boolean setting is on.
    #[must_use]
    pub fn is_on(&self, name: &str) -> bool {
        self.get(name) == Ok("on")
    }

    /// Sets it.
    ///
    /// # Errors
    /// `42704` for a setting that does not exist, `22023` for a value that it does not take, `54000` if the session's
    /// settings are too long together. Nothing is set then.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), SqlError> {
        let (name, value) = accepted(name, value)?;
        self.insert(name, value)?;
        self.derive();
        Ok(())
    }

    /// Notes a value, unless all together would be too long.
    fn insert(&mut self, name: String, value: String) -> Result<(), SqlError> {
        let others: usize = self
            .changed
            .iter()
            .filter(|(other, _)| **other != name)
            .map(|(name, value)| setting_bytes(name, value))
            .sum();
        if others + setting_bytes(&name, &value) > SETTINGS_BYTES_MAX {
            let message = format!("too many bytes of settings: a session may have {SETTINGS_BYTES_MAX}");
            return Err(SqlError::new(SqlState::ProgramLimitExceeded, message)
                .with_hint("RESET those that are not needed any more, or keep long values in a table."));
        }
        Arc::make_mut(&mut self.changed).insert(name, value);
        Ok(())
    }

    /// Sets it to what the session begins with: what [`reset`](Self::reset) goes back to from now on.
    ///
    /// # Errors
    /// As [`set`](Self::set).
    pub(crate) fn begin_with(&mut self, name: &str, value: &str) -> Result<(), SqlError> {
        let (name, value) = accepted(name, value)?;
        self.insert(name.clone(), value.clone())?;
        Arc::make_mut(&mut self.initial).insert(name, value);
        self.derive();
        Ok(())
    }

    /// Sets it back to what the session began with, else to its default.
    ///
    /// # Errors
    /// `42704` for a setting that does not exist.
    pub fn reset(&mut self, name: &str) -> Result<(), SqlError> {
        let name = canonical(name);
        if !is_custom(&name) {
            find(&name)?;
        }
        match self.initial.get(&name) {
            Some(value) => Arc::make_mut(&mut self.changed).insert(name, value.clone()),
            None => Arc::make_mut(&mut self.changed).remove(&name),
        };
        self.derive();
        Ok(())
    }

    /// Sets all back to what the session began with, else to their defaults; the user stays.
    pub fn reset_all(&mut self) {
        self.changed = Arc::clone(&self.initial);
        self.derive();
    }

    /// All settings that PostgreSQL's clients may know, by name, then those of the session's own making.
    pub(crate) fn all(&self) -> impl Iterator<Item = Listed<'_>> {
        let mut known: Vec<&Known> = KNOWN.iter().chain(COMPATIBLE).collect();
        known.sort_unstable_by_key(|known| known.name);
        let listed = known.into_iter().map(|known| {
            let changed = self.changed.get(known.name);
            Listed {
                name: known.name,
                value: self.get(known.name).unwrap_or(known.default),
                default: known.default,
                initial: self.initial.get(known.name).map_or(known.default, String::as_str),
                description: known.description,
                type_name: known.domain.type_name(),
                is_changed: changed.is_some(),
            }
        });
        let own = self.changed.iter().filter(|(name, _)| is_custom(name));
        listed.chain(own.map(|(name, value)| Listed {
            name,
            value,
            default: "",
            initial: self.initial.get(name).map_or("", String::as_str),
            description: "",
            type_name: "string",
            is_changed: true,
        }))
    }

    /// Keeps the typed copies in step with the texts.
    fn derive(&mut self) {
        let text = |name: &str| self.get(name).map(str::to_owned).unwrap_or_default();
        let zone = text("timezone").parse().unwrap_or(Tz::UTC);
        let path = split_list(&text("search_path"));
        let point_path = if self.is_on("coeval.point_path") { PointPath::On } else { PointPath::Off };
        let statement_timeout = limit(&text("statement_timeout"));
        let idle_timeout = limit(&text("idle_in_transaction_session_timeout"));
        let idle_session_timeout = limit(&text("idle_session_timeout"));
        let client_check_interval = limit(&text("client_connection_check_interval"));
        let copy_bytes_max = bytes(&text("coeval.copy_memory")).unwrap_or(DEFAULT_COPY_BYTES);
        let isolation = parse_isolation(&text("default_transaction_isolation"));
        let lock_timeout = limit(&text("lock_timeout"));
        let deadlock_timeout = limit(&text("deadlock_timeout")).unwrap_or_default();
        self.zone = zone;
        let mut names: Vec<String> =
            path.iter().map(|schema| self.temporary.meant(schema).to_owned()).collect();
        if !path.iter().any(|schema| schema == PG_TEMP) {
            names.insert(0, self.temporary.schema().to_owned());
        }
        if *self.name_path != *names {
            self.name_path = names.into();
        }
        if *self.search_path != *path {
            self.search_path = path.into();
        }
        self.point_path = point_path;
        self.read_only_snapshot = match self.get("coeval.read_only_snapshot") {
            Ok("safe") => ReadOnlySnapshot::Safe,
            Ok("current") => ReadOnlySnapshot::Current,
            _ => ReadOnlySnapshot::Auto,
        };
        self.default_isolation = isolation.unwrap_or_default();
        self.has_priority = self.is_on("coeval.priority");
        let deferrable = self.is_on("default_transaction_deferrable");
        self.default_deferrable = if deferrable { Deferrable::Yes } else { Deferrable::No };
        self.statement_timeout = statement_timeout;
        self.idle_timeout = idle_timeout;
        self.idle_session_timeout = idle_session_timeout;
        self.client_check_interval = client_check_interval;
        self.copy_bytes_max = copy_bytes_max;
        self.lock_timeout = lock_timeout;
        self.deadlock_timeout = deadlock_timeout;
        let read_only = self.is_replica || self.is_on("default_transaction_read_only");
        self.default_access = if read_only { AccessMode::ReadOnly } else { AccessMode::ReadWrite };
        self.revision = NEXT_REVISION.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_weighs_what_the_session_says_and_never_more_than_the_default() {
        let mut settings = Settings::default();
        assert_eq!(settings.query_weight(), FULL_WEIGHT);
        settings.set("coeval.query_weight", "10").unwrap();
        assert_eq!(settings.query_weight(), 10);
        assert!(settings.set("coeval.query_weight", "200").is_err());
        settings.reset("coeval.query_weight").unwrap();
        assert_eq!(settings.query_weight(), FULL_WEIGHT);
    }
}
