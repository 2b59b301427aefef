// SPDX-License-Identifier: Apache-2.0
//! The PostgreSQL wire protocol: what existing clients, drivers and tools speak.
//!
//! # Owns
//! Connections, protocol 3.0 with its messages and value formats, TLS, passwords, the end of sessions, metrics.
//!
//! # Never does
//! Parse, plan or run a statement: a session of `coeval-sql` does. Keep a row longer than it takes to send it.
//!
//! # Invariants
//! - What a client sends can end its own connection and nothing else: every length and count is checked before it is
//!   used, and memory grows with what has come, not with what was announced.
//! - A client that does not read is not computed for: rows are asked for when the ones before have been written.
//! - Nor is one that has gone: a second later the statement is told to end, whatever it is doing (`presence.rs`).
//! - Messages before one Sync are one transaction, unless they open or close one themselves; behind an error they
//!   are passed over up to the Sync.
//! - A session ends with its connection, and its transaction is rolled back then.
//! - A thread that serves connections waits for no disk, lock or query: a session leaves it before it does, and leaves
//!   the wait for the log to the connection's task (`connection.rs`, `run`).
//! - Who has proven nothing yet takes a place at the door (`doorway.rs`), of which an address that has too many loses
//!   its own: nobody keeps others out by connecting.
//! - Connections leave open files to the database (`options.rs`, `fitted_to`): more wait until others have gone.
//! - Nothing is given out before what it depends on is durable.
//!
//! # Start reading at
//! `server.rs`, then `connection.rs` and its parts; `protocol.rs` for the bytes, `types.rs` for the values in them;
//! `entrance.rs` for connections from the same process.

mod auth;
mod connection;
mod doorway;
mod endings;
mod entrance;
mod error;
#[doc(hidden)]
pub mod fuzzing;
mod metrics;
mod open_files;
mod options;
mod presence;
mod protocol;
mod server;
mod sessions;
mod shared;
mod stream;
mod threads;
mod tls;
mod types;

pub use auth::Roles;
pub use auth::rules::Encryption;
pub use coeval_secret::{SecretFileError, read_secret_file};
pub use doorway::{Doorway, DoorwayLimits, Place};
pub use entrance::{Entrance, Figures};
pub use error::ServerError;
pub use open_files::raise_open_files_limit;
pub use options::ServerOptions;
pub use server::Server;
pub use threads::runtime;
pub use tls::Certificate;
