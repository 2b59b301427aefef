// SPDX-License-Identifier: Apache-2.0
//! Functions about sessions and the server they talk to: users, schemas, settings, ending what others run.

use super::{Call, Entry, Gives, called, strict};
use crate::catalog::rows::Cell;
use crate::error::SqlError;
use crate::oids;
use crate::relations::PG_CATALOG;
use crate::rights::insufficient;
use crate::settings::SettingRequest;
use crate::temporary::is_temporary;
use std::net::SocketAddr;

/// What `version()` answers: clients read the first two words.
const VERSION: &str =
    concat!("PostgreSQL 15.0 (Coeval ", env!("CARGO_PKG_VERSION"), ") on a Rust engine, 64-bit");

pub(super) const ENTRIES: &[Entry] = &[
    called("version", 0..=0, Gives::Text, |_| Ok(VERSION.into())),
    called("current_database", 0..=0, Gives::Text, database),
    called("current_catalog", 0..=0, Gives::Text, database),
    called("current_schema", 0..=0, Gives::Text, |call| Ok(named_path(call)?.into_iter().next().into())),
    strict("current_schemas", 1..=1, Gives::Texts, schemas),
    called("pg_my_temp_schema", 0..=0, Gives::Int, |call| Ok(temporary_schema(call)?.into())),
    strict("pg_is_other_temp_schema", 1..=1, Gives::Bool, |call| {
        let (own, asked) = (temporary_schema(call)?, call.oid(0));
        let mut schemas = call.access()?.objects().schemas();
        let is_one = schemas.any(|schema| is_temporary(schema) && Some(oids::of_schema(schema)) == asked);
        Ok((is_one && asked != Some(own)).into())
    }),
    called("current_user", 0..=0, Gives::Text, user),
    called("session_user", 0..=0, Gives::Text, |call| Ok(call.access()?.settings().session_user().into())),
    called("current_role", 0..=0, Gives::Text, user),
    called("user", 0..=0, Gives::Text, user),
    strict("current_setting", 1..=2, Gives::Text, current_setting),
    strict("set_config", 3..=3, Gives::Text, set_config),
    called("pg_backend_pid", 0..=0, Gives::Int, |call| Ok(call.access()?.settings().backend_pid().into())),
    strict("pg_blocking_pids", 1..=1, Gives::Ints, blocking_pids),
    called("inet_client_addr", 0..=0, Gives::Text, |call| {
        Ok(client_address(call)?.map(|address| address.ip().to_canonical().to_string()).into())
    }),
    called("inet_client_port", 0..=0, Gives::Int, |call| {
        Ok(client_address(call)?.map(|address| i32::from(address.port())).into())
    }),
    strict("pg_cancel_backend", 1..=1, Gives::Bool, |call| signal(call, Signal::Cancel)),
    strict("pg_terminate_backend", 1..=2, Gives::Bool, |call| signal(call, Signal::Terminate)),
    called("pg_reload_conf", 0..=0, Gives::Bool, reload),
    called("inet_server_addr", 0..=0, Gives::Text, |_| Ok(Cell::Null)),
    called("inet_server_port", 0..=0, Gives::Int, |_| Ok(Cell::Null)),
    called("pg_client_encoding", 0..=0, Gives::Text, |_| Ok("UTF8".into())),
    called("getdatabaseencoding", 0..=0, Gives::Text, |_| Ok("UTF8".into())),
    strict("pg_encoding_to_char", 1..=1, Gives::Text, |call| {
        Ok((if call.int(0) == Some(6) { "UTF8" } else { "" }).into())
    }),
    strict("pg_char_to_encoding", 1..=1, Gives::Int, |call| {
        let is_utf8 = call
            .text(0)
            .is_some_and(|name| matches!(name.to_lowercase().as_str(), "utf8" | "utf-8" | "unicode"));
        Ok((if is_utf8 { 6 } else { -1 }).into())
    }),
    called("statement_timestamp", 0..=0, Gives::Time, |call| {
        Ok(call.access()?.clock().statement_micros.into())
    }),
    called("transaction_timestamp", 0..=0, Gives::Time, |call| {
        Ok(call.access()?.clock().transaction_micros.into())
    }),
    called("clock_timestamp", 0..=0, Gives::Time, |_| Ok(chrono::Utc::now().timestamp_micros().into())),
    called("pg_postmaster_start_time", 0..=0, Gives::Time, |call| {
        Ok(call.access()?.registry().began_micros().into())
    }),
    called("row_security_active", 1..=1, Gives::Bool, |_| Ok(false.into())),
];

fn database(call: &Call<'_>) -> Result<Cell, SqlError> {
    Ok(call.access()?.settings().database().into())
}

fn user(call: &Call<'_>) -> Result<Cell, SqlError> {
    Ok(call.access()?.settings().user().into())
}

/// The schemas that the search path names, of those that there are: the system's own and the session's always are.
fn named_path(call: &Call<'_>) -> Result<Vec<String>, SqlError> {
    let access = call.access()?;
    let (objects, settings) = (access.objects(), access.settings());
    let own = settings.temporary().schema();
    let named = settings.search_path().iter().map(|schema| settings.temporary().meant(schema));
    let is_there = |schema: &&str| *schema == own || objects.schemas().any(|known| known == *schema);
    Ok(named.filter(is_there).map(str::to_owned).collect())
}

/// The schema of the session's temporary objects, or 0 while it has none.
fn temporary_schema(call: &Call<'_>) -> Result<i32, SqlError> {
    let access = call.access()?;
    let own = access.settings().temporary().schema();
    Ok(access.objects().schemas().find(|schema| *schema == own).map_or(0, oids::of_schema))
}

fn schemas(call: &Call<'_>) -> Result<Cell, SqlError> {
    let mut path = named_path(call)?;
    if call.truth(0) == Some(true) {
        let access = call.access()?;
        let own = access.settings().temporary().schema();
        let is_named = |schema: &&str| path.iter().any(|named| named == schema);
        let implicit = [PG_CATALOG, own].into_iter().filter(|schema| !is_named(schema));
        let is_there = |schema: &&str| access.objects().schemas().any(|known| known == *schema);
        let implicit: Vec<String> = implicit.filter(is_there).map(str::to_owned).collect();
        path.splice(0..0, implicit);
    }
    Ok(Cell::Texts(path))
}

fn current_setting(call: &Call<'_>) -> Result<Cell, SqlError> {
    let name = call.text(0).unwrap_or_default();
    match call.access()?.setting(name) {
        Ok(value) => Ok(value.into()),
        Err(_) if call.truth(1) == Some(true) => Ok(Cell::Null),
        Err(error) => Err(error),
    }
}

fn set_config(call: &Call<'_>) -> Result<Cell, SqlError> {
    let (name, value) = (call.text(0).unwrap_or_default(), call.text(1).unwrap_or_default());
    let request = SettingRequest {
        name: name.to_owned(),
        value: value.to_owned(),
        is_local: call.truth(2) == Some(true),
    };
    call.access()?.request(request)?;
    Ok(value.into())
}

/// Empty for a session that waits for no lock, and for one that is not there.
fn blocking_pids(call: &Call<'_>) -> Result<Cell, SqlError> {
    let blockers: &[i32] = match call.oid(0) {
        Some(pid) => call.waits()?.blockers(pid),
        None => &[],
    };
    Ok(Cell::Ints(blockers.iter().copied().map(i64::from).collect()))
}

fn client_address(call: &Call<'_>) -> Result<Option<SocketAddr>, SqlError> {
    let access = call.access()?;
    let session = access.registry().find(access.settings().backend_pid());
    Ok(session.and_then(|session| session.client().address))
}

/// What one session may do to another.
#[derive(Clone, Copy)]
enum Signal {
    Cancel,
    Terminate,
}

/// Asks the server to read its rules again.
fn reload(call: &Call<'_>) -> Result<Cell, SqlError> {
    let access = call.access()?;
    if !access.rights().is_superuser() {
        return Err(insufficient("permission denied for function pg_reload_conf"));
    }
    access.registry().ask_to_reload();
    Ok(true.into())
}

/// Whether there is a session of this number; it ends its statement, or itself.
fn signal(call: &Call<'_>, signal: Signal) -> Result<Cell, SqlError> {
    let access = call.access()?;
    let Some(session) = call.oid(0).and_then(|pid| access.registry().find(pid)) else {
        return Ok(false.into());
    };
    let (rights, target) = (access.rights(), session.principal());
    let (verb, what) = match signal {
        Signal::Cancel => ("cancel", ("query", "query is being canceled")),
        Signal::Terminate => ("terminate", ("process", "process is being terminated")),
    };
    if !rights.is_superuser() {
        if access.rights_of(&target).is_superuser() {
            return Err(insufficient(format!("must be a superuser to {verb} superuser {}", what.0)));
        }
        // A member that does not inherit has them once it has taken the role on.
        if !rights.include(target.as_owner()) && !rights.may_signal() {
            let message =
                format!("must be a member of the role whose {} or member of pg_signal_backend", what.1);
            return Err(insufficient(message));
        }
    }
    match signal {
        Signal::Cancel => session.cancel(),
        Signal::Terminate => session.terminate(),
    }
    Ok(true.into())
}
