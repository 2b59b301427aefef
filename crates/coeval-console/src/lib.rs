// SPDX-License-Identifier: Apache-2.0
//! A page to ask, look and manage from, in the browser, served by the database's own program.
//!
//! # Owns
//! What browsers are served over HTTP: the page (`web/`), who is logged in, the tabs of the editor with their results.
//!
//! # Never does
//! Decide who may do what. Each login, and each tab of the editor, is a connection of its own to the server in the same
//! process, in PostgreSQL's protocol, on behalf of the browser's address: rules, passwords, rights, limits and
//! `pg_stat_activity` are the server's. Whatever the page shows can be asked for in SQL.
//!
//! # Invariants
//! - Nothing but the page itself and the login is answered to whom has not logged in.
//! - A request that changes anything comes from the page: it carries a value that other sites do not know, and says no other
//!   origin. Without TLS the page answers to names of the loopback only, so that a name which another site points there is none.
//! - A result takes bounded memory: rows go to a file without a name, of bounded size; the page asks for those that it shows.
//! - A browser that goes away ends its statement.
//!
//! # Start reading at
//! `console.rs` for the listener, `routes.rs` for what is answered; `wire.rs` for the connection to the server, `tabs.rs` for what
//! runs on it.

mod assets;
mod columnar;
mod console;
mod copying;
mod error;
mod export;
mod guard;
mod logins;
mod peer;
mod report;
mod results;
mod routes;
mod running;
mod tabs;
mod wire;

pub use console::{Console, ConsoleOptions};
pub use error::ConsoleError;
