// SPDX-License-Identifier: Apache-2.0
//! What all connections of a server share.

use crate::auth::Admission;
use crate::doorway::Doorway;
use crate::endings::Endings;
use crate::error::ServerError;
use crate::metrics::Metrics;
use crate::options::ServerOptions;
use crate::tls::{self, Tls};
use coeval::Database;
use coeval_sql::{Engine, Quota, Registry};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

const UNSENT_HINT: &str = "Wait until other clients have read what was sent to them, or are gone. A row that is \
                           longer by itself needs a server with more --unsent-memory.";

/// Copies of the database that are being prepared at the same time: each has a thread, which waits for a checkpoint, also when its client has gone.
const COPIES_MAX: usize = 16;

const COPIES_HINT: &str = "Try again when the checkpoints that they begin with have ended.";

const RECEIVED_HINT: &str = "Wait until what other clients have sent is worked off, or send less at a time. A message that \
                             is longer by itself needs a server with more --received-memory.";

/// See the module.
///
/// # Locking
/// `stopping` is a flag that is set once and guards nothing.
pub(crate) struct Shared {
    pub(crate) database: Database,
    pub(crate) engine: Arc<Engine>,
    pub(crate) metrics: Metrics,
    pub(crate) options: ServerOptions,
    pub(crate) tls: Option<Tls>,
    pub(crate) admission: Admission,
    pub(crate) doorway: Arc<Doorway>,
    pub(crate) portals: Arc<Quota>,
    /// Bytes that wait to be sent to clients that do not read them, where they are many for one client.
    pub(crate) unsent: Arc<Quota>,
    /// See [`ServerOptions::received_bytes_max`].
    pub(crate) received: Arc<Quota>,
    /// See [`COPIES_MAX`].
    pub(crate) copies: Arc<Quota>,
    /// A permit for each connection that may be there.
    pub(crate) sockets: Arc<Semaphore>,
    /// Where sessions roll back whose clients have gone.
    pub(crate) endings: Endings,
    stopping: AtomicBool,
    random: ring::rand::SystemRandom,
}

impl Shared {
    /// # Errors
    /// If a file cannot be used that the options name.
    pub(crate) fn new(database: &Database, options: ServerOptions) -> Result<Self, ServerError> {
        Ok(Self {
            database: database.clone(),
            engine: Arc::clone(database.engine()),
            metrics: Metrics::default(),
            tls: options.certificate.as_ref().map(tls::of_certificate).transpose()?,
            admission: Admission::new(
                options.roles.clone(),
                options.rules_file.clone(),
                options.own_rules_file.clone(),
                options.mock_secret_file.as_deref(),
                options.offer(),
                options.passwords_per_second,
            )?,
            doorway: Doorway::new(options.doorway_limits()),
            portals: Quota::new("portals", "Close those that are not needed any more.", 1_000, 100_000),
            // One session may have all of it: what it has is one row, whose length has a bound of its own.
            unsent: Quota::new("bytes waiting to be sent", UNSENT_HINT, usize::MAX, options.unsent_bytes_max),
            received: Quota::new(
                "bytes of messages and of their values",
                RECEIVED_HINT,
                usize::MAX,
                options.received_bytes_max,
            ),
            copies: Quota::new("copies that are being prepared", COPIES_HINT, COPIES_MAX, COPIES_MAX),
            sockets: Arc::new(Semaphore::new(options.sockets_max.clamp(1, Semaphore::MAX_PERMITS))),
            endings: Endings::new(),
            stopping: AtomicBool::new(false),
            random: ring::rand::SystemRandom::new(),
            options,
        })
    }

    /// The sessions.
    pub(crate) fn registry(&self) -> &Arc<Registry> {
        self.engine.registry()
    }

    /// Whether no further session is opened.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// From here on, no further session is opened.
    pub(crate) fn begin_to_stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// Room for a connection that has come. If there is none, the oldest one has to go that is no session yet, of the
    /// address that has most.
    pub(crate) async fn socket(&self) -> OwnedSemaphorePermit {
        let sockets = Arc::clone(&self.sockets);
        if let Ok(socket) = Arc::clone(&sockets).try_acquire_owned() {
            return socket;
        }
        self.doorway.make_room();
        sockets.acquire_owned().await.expect("nobody closes it")
    }

    /// What proves that somebody may cancel a session's statements.
    pub(crate) fn new_secret(&self) -> i32 {
        let mut bytes = [0; 4];
        ring::rand::SecureRandom::fill(&self.random, &mut bytes).expect("the system gives random numbers");
        i32::from_be_bytes(bytes)
    }
}
