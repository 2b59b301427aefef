// SPDX-License-Identifier: Apache-2.0
//! What the catalog's functions work on: it comes with the statement, as an extension of the options that
//! DataFusion hands to functions.

use super::objects::{Objects, ViewColumns};
use crate::advisory::{AdvisoryLocks, SessionLocks};
use crate::archiving::Backups;
use crate::carried::Carry;
use crate::changes::ChangeSource;
use crate::clock::Clock;
use crate::cluster::Cluster;
use crate::engine::Engine;
use crate::error::SqlError;
use crate::lock_graph::WaitGraph;
use crate::registry::Registry;
use crate::rights::{Authority, Principal, Rights};
use crate::settings::{SettingRequest, Settings, of_database};
use crate::upstream::Upstream;
use coeval_store::{RoleAttribute, Store, Transaction, World};
use coeval_txn::Isolation;
use datafusion::common::config::ConfigOptions;
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;

/// The changes that a statement has asked for.
#[derive(Default)]
struct Requests {
    /// In their order; of one setting the last that ends with the transaction, and the last that does not.
    last: Vec<SettingRequest>,
    /// The session's settings with all of them: together they have a bound.
    outcome: Option<Settings>,
}

/// What the functions of one statement work on. Clones share it.
#[derive(Clone)]
pub(crate) struct CatalogAccess(Arc<Shared>);

/// # Locking
/// `requests` is held for one call of `set_config` or `current_setting`; nothing else is locked meanwhile.
struct Shared {
    objects: Objects,
    settings: Settings,
    isolation: Isolation,
    is_read_only: bool,
    world: Arc<World>,
    store: Store,
    authority: Authority,
    registry: Arc<Registry>,
    upstream: Option<Arc<dyn Upstream>>,
    clock: Clock,
    advisory_locks: Arc<SessionLocks>,
    all_advisory_locks: AdvisoryLocks,
    requests: Mutex<Requests>,
    change_source: Option<Arc<dyn ChangeSource>>,
    backups: Option<Arc<dyn Backups>>,
    cluster: Option<Arc<dyn Cluster>>,
}

impl CatalogAccess {
    /// What the functions of a statement work on that runs in this transaction, with its session's settings and locks.
    pub(crate) fn of(
        engine: &Engine,
        transaction: &Transaction,
        settings: &Settings,
        clock: Clock,
        advisory_locks: &Arc<SessionLocks>,
    ) -> Self {
        transaction.note_definitions();
        let view_columns = ViewColumns::new();
        Self(Arc::new(Shared {
            objects: Objects::of(transaction, settings, &view_columns),
            settings: settings.clone(),
            isolation: transaction.isolation(),
            is_read_only: transaction.is_read_only(),
            world: Arc::clone(transaction.world()),
            store: engine.store().clone(),
            authority: Authority::of(transaction, engine.store()),
            registry: Arc::clone(engine.registry()),
            upstream: engine.upstream_handle(),
            clock,
            advisory_locks: Arc::clone(advisory_locks),
            all_advisory_locks: Arc::clone(engine.advisory_locks()),
            requests: Mutex::default(),
            change_source: engine.change_source().cloned(),
            backups: engine.backups().cloned(),
            cluster: engine.cluster().cloned(),
        }))
    }

    /// The objects of the statement's snapshot.
    pub(super) fn objects(&self) -> &Objects {
        &self.0.objects
    }

    /// The snapshot without the transaction's own changes.
    pub(super) fn world(&self) -> &World {
        &self.0.world
    }

    /// The store, as it is now.
    pub(super) fn store(&self) -> &Store {
        &self.0.store
    }

    /// Where to read changes whose log the store no longer has.
    pub(super) fn change_source(&self) -> Option<&Arc<dyn ChangeSource>> {
        self.0.change_source.as_ref()
    }

    /// The part of the program that makes backups of the database, if this process makes any.
    pub(super) fn backups(&self) -> Option<&Arc<dyn Backups>> {
        self.0.backups.as_ref()
    }

    /// The node of a cluster that this process is, if it is one.
    pub(super) fn cluster(&self) -> Option<&Arc<dyn Cluster>> {
        self.0.cluster.as_ref()
    }

    /// The sessions of the server's clients.
    pub(super) fn registry(&self) -> &Registry {
        &self.0.registry
    }

    /// Tells how far this replica is, if the database is a replica that a server runs.
    pub(super) fn upstream(&self) -> Option<&Arc<dyn Upstream>> {
        self.0.upstream.as_ref()
    }

    /// The principal that the session acts as.
    pub(super) fn principal(&self) -> &Principal {
        self.0.settings.principal()
    }

    /// Whether the session may see to replicas, and read what they do: superusers, and roles with REPLICATION.
    pub(super) fn may_replicate(&self) -> bool {
        let role = self.principal().role(self.authority());
        self.rights().is_superuser() || role.is_some_and(|role| role.is(RoleAttribute::Replication))
    }

    /// What the session may do.
    pub(super) fn rights(&self) -> Rights {
        self.rights_of(self.principal())
    }

    /// What somebody may do.
    pub(super) fn rights_of(&self, principal: &Principal) -> Rights {
        Rights::of(principal, self.0.authority.clone())
    }

    /// The definitions that rights are read from.
    pub(super) fn authority(&self) -> &Authority {
        &self.0.authority
    }

    /// The session's advisory locks.
    pub(super) fn advisory_locks(&self) -> &SessionLocks {
        &self.0.advisory_locks
    }

    /// Which session waits for which, as it is now: see [`WaitGraph::now`].
    pub(super) fn waits(&self) -> WaitGraph {
        WaitGraph::now(&self.0.store, &self.0.all_advisory_locks, &self.0.registry)
    }

    /// The statement's times.
    pub(super) fn clock(&self) -> Clock {
        self.0.clock
    }

    /// The session's settings as they were when the statement began.
    pub(super) fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// The value of a setting, earlier requests of the statement included.
    ///
    /// # Errors
    /// `42704` for a setting that does not exist.
    pub(super) fn setting(&self, name: &str) -> Result<String, SqlError> {
        let requests = self.0.requests.lock();
        match requests.last.iter().rev().find(|request| request.name.eq_ignore_ascii_case(name)) {
            Some(request) => Ok(request.value.clone()),
            None => {
                let name = name.to_ascii_lowercase();
                let elsewhere = self.of_transaction(&name);
                let elsewhere = elsewhere.or_else(|| {
                    of_database(&name, &self.0.store, &self.0.registry, self.0.upstream.as_deref())
                });
                elsewhere.map_or_else(|| self.0.settings.get(&name).map(str::to_owned), Ok)
            }
        }
    }

    /// What the transaction says in which it runs.
    fn of_transaction(&self, name: &str) -> Option<String> {
        match name {
            "transaction_isolation" => Some(self.0.isolation.to_string().to_lowercase()),
            "transaction_read_only" => Some(if self.0.is_read_only { "on" } else { "off" }.to_owned()),
            _ => None,
        }
    }

    /// Asks for a change of a setting; the session makes it when the statement has succeeded.
    ///
    /// # Errors
    /// As setting it. Then nothing is asked for.
    pub(super) fn request(&self, request: SettingRequest) -> Result<(), SqlError> {
        let mut requests = self.0.requests.lock();
        // Who may act as whom is for the session to say.
        let is_identity =
            ["role", "session_authorization"].iter().any(|name| request.name.eq_ignore_ascii_case(name));
        if !is_identity {
            let outcome = requests.outcome.get_or_insert_with(|| self.0.settings.clone());
            outcome.set(&request.name, &request.value)?;
        }
        requests.last.retain(|earlier| {
            earlier.is_local != request.is_local || !earlier.name.eq_ignore_ascii_case(&request.name)
        });
        requests.last.push(request);
        Ok(())
    }

    /// The changes that were asked for.
    pub(crate) fn requests(&self) -> Vec<SettingRequest> {
        self.0.requests.lock().last.clone()
    }
}

impl fmt::Debug for CatalogAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CatalogAccess")
    }
}

/// What the functions of the running statement work on.
///
/// # Errors
/// If they run outside of one.
pub(super) fn access(options: &ConfigOptions) -> Result<&CatalogAccess, SqlError> {
    CatalogAccess::carried_by(options)
        .ok_or_else(|| SqlError::unsupported("a function of the catalog in this expression"))
}

impl Carry for CatalogAccess {
    const NAME: &'static str = "coeval_catalog";
}
