// SPDX-License-Identifier: Apache-2.0
//! `coeval serve`: the database for clients that speak PostgreSQL's protocol.

use crate::arguments::ServeArguments;
mod engine;

use crate::directory;
use crate::failure::Failure;
use coeval::Database;
use coeval_server::{Certificate, Roles, Server, ServerOptions};
use std::io::{IsTerminal, stderr};
use std::time::Duration;
use tracing_subscriber::EnvFilter;

/// Serves until Ctrl-C or SIGTERM.
///
/// # Errors
/// If the database cannot be opened, the address cannot be listened on, or a file named on the command line cannot be
/// used.
pub(crate) fn run(arguments: &ServeArguments) -> Result<(), Failure> {
    log(arguments);
    let mut options = options(arguments)?;
    let mut opening = Database::options();
    if let Some(bytes) = arguments.query_memory {
        opening = opening.query_memory(bytes);
    }
    let database = match &arguments.dir {
        Some(dir) => directory::open_with(dir, opening)?,
        None => opening.in_memory().map_err(|error| Failure::work("cannot make a database", error))?,
    };
    if let Some(engine) = &arguments.engine {
        options.session_settings = engine::serve_from(&database, engine, arguments)?;
    }
    let runtime =
        coeval_server::runtime(&options).map_err(|error| Failure::work("cannot start threads", error))?;
    runtime.block_on(async {
        let server = Server::bind(&database, &arguments.listen, options)
            .await
            .map_err(|error| Failure::Work(error.to_string()))?;
        eprintln!("Listening on {}", server.address());
        if let Some(address) = server.metrics_address() {
            eprintln!("Figures at http://{address}/metrics");
        }
        server.run(asked_to_stop()).await;
        Ok(())
    })
}

/// Ready when the program is asked to end; the second time it ends at once.
async fn asked_to_stop() {
    asked().await;
    eprintln!("{}", crate::interrupt::STOPPING);
    tokio::spawn(async {
        asked().await;
        std::process::exit(crate::interrupt::INTERRUPTED);
    });
}

#[cfg(unix)]
async fn asked() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminated) = signal(SignalKind::terminate()) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminated.recv() => {}
    }
}

#[cfg(not(unix))]
async fn asked() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending().await
    }
}

/// What happens goes to stderr, one event a line.
fn log(arguments: &ServeArguments) {
    let filter = EnvFilter::try_from_env("COEVAL_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(stderr);
    if arguments.log_json {
        builder.json().init();
    } else {
        builder.with_ansi(stderr().is_terminal()).with_target(false).init();
    }
}

fn options(arguments: &ServeArguments) -> Result<ServerOptions, Failure> {
    let mut roles = Roles::new();
    if let (Some(user), Some(file)) = (&arguments.user, &arguments.password_file) {
        let password = std::fs::read_to_string(file)
            .map_err(|error| Failure::work(format_args!("cannot read {}", file.display()), error))?;
        // What an editor adds at the end is not part of it.
        let password = password.trim_end_matches(['\n', '\r']);
        if password.is_empty() {
            return Err(Failure::Work(format!("{} holds no password", file.display())));
        }
        roles = roles.with(user, password);
    }
    let certificate = match (&arguments.tls_cert, &arguments.tls_key) {
        (Some(chain), Some(key)) => Some(Certificate { chain: chain.clone(), key: key.clone() }),
        _ => None,
    };
    Ok(ServerOptions {
        connections_max: arguments.max_connections,
        roles,
        certificate,
        stopping_timeout: Duration::from_secs_f64(arguments.stop_seconds),
        metrics_address: arguments.metrics.clone(),
        slow_statement: arguments.slow_milliseconds.map(Duration::from_millis),
        ..ServerOptions::default()
    })
}
