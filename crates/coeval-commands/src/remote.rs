// SPDX-License-Identifier: Apache-2.0
//! A server that a command asks, over a connection as any client's.

use crate::failure::Failure;
use coeval_replica::PrimaryAddress;
use std::error::Error;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_postgres::config::SslMode;
use tokio_postgres::tls::TlsStream;
use tokio_postgres::{Client, Config, Connection, NoTls, SimpleQueryMessage, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

/// How long a server may take to let somebody in: there is one that is stopped, or overloaded, or no server of a database at all.
const OPENING_TIME_MAX: Duration = Duration::from_secs(30);

/// After so much silence a server's machine is asked whether it is there, and then so often; a statement may take as long as it takes.
const KEEPALIVE_TIME: Duration = Duration::from_secs(30);
/// See [`KEEPALIVE_TIME`].
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// See [`KEEPALIVE_TIME`].
const KEEPALIVES_MAX: u32 = 6;

/// How long a server is asked to end a statement.
const CANCEL_TIME_MAX: Duration = Duration::from_secs(10);

/// The client of a connection that lasts as long as it; how it ends is told by the statements.
fn running<S>((client, connection): (Client, Connection<Socket, S>)) -> Client
where
    S: TlsStream + AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    tokio::spawn(async move { drop(connection.await) });
    client
}

/// What the server says, or all that is known of what went wrong on the way there.
pub(crate) fn reason(error: &tokio_postgres::Error) -> String {
    if let Some(said) = error.as_db_error() {
        return said.message().to_owned();
    }
    let causes = std::iter::successors(error.source(), |&cause| cause.source());
    causes.fold(error.to_string(), |said, cause| format!("{said}: {cause}"))
}

/// See the module.
pub(crate) struct Server {
    pub(crate) client: Client,
    /// What makes a connection to it encrypted, if it is to be.
    tls: Option<MakeRustlsConnect>,
    name: String,
}

impl Server {
    /// Connects to where libpq's words say.
    ///
    /// # Errors
    /// If they are malformed, or there is no connection.
    pub(crate) async fn open(words: &str) -> Result<Self, Failure> {
        let address = PrimaryAddress::parse(words).map_err(|error| Failure::Usage(error.to_string()))?;
        Self::connect(&address).await
    }

    /// Connects, for half a minute at most. Within a runtime with a clock.
    ///
    /// # Errors
    /// If there is no connection.
    pub(crate) async fn connect(address: &PrimaryAddress) -> Result<Self, Failure> {
        Self::connect_within(address, OPENING_TIME_MAX).await
    }

    async fn connect_within(address: &PrimaryAddress, patience: Duration) -> Result<Self, Failure> {
        let connected = tokio::time::timeout(patience, Self::unbounded(address)).await;
        connected.unwrap_or_else(|_| {
            let seconds = patience.as_secs_f64();
            Err(Failure::Work(format!("cannot connect to {address}: it does not answer within {seconds} s")))
        })
    }

    async fn unbounded(address: &PrimaryAddress) -> Result<Self, Failure> {
        let mut config = Config::new();
        config.host(&address.host).port(address.port).user(&address.user).dbname("coeval");
        config.keepalives_idle(KEEPALIVE_TIME).keepalives_interval(KEEPALIVE_INTERVAL);
        config.keepalives_retries(KEEPALIVES_MAX);
        address.password.as_ref().map(|password| config.password(password));
        let tls = address.tls_config().map_err(|error| Failure::Usage(error.to_string()))?;
        let tls = tls.map(MakeRustlsConnect::new);
        let failed = |error: tokio_postgres::Error| {
            Failure::work(format_args!("cannot connect to {address}"), reason(&error))
        };
        let client = match &tls {
            None => running(config.connect(NoTls).await.map_err(failed)?),
            Some(tls) => {
                config.ssl_mode(SslMode::Require);
                running(config.connect(tls.clone()).await.map_err(failed)?)
            }
        };
        let server = Self { client, tls, name: address.to_string() };
        // A replica may have nothing that is serializable, for the moment or for good.
        server.rows("SET default_transaction_isolation = 'repeatable read'").await?;
        Ok(server)
    }

    /// What went wrong with a statement.
    pub(crate) fn failed(&self, error: &tokio_postgres::Error) -> Failure {
        Failure::Work(format!("{}: {}", self.name, reason(error)))
    }

    /// The rows of a statement, as texts.
    ///
    /// # Errors
    /// What the server says.
    pub(crate) async fn rows(&self, sql: &str) -> Result<Vec<Vec<Option<String>>>, Failure> {
        self.ask(sql).await.map_err(|error| self.failed(&error))
    }

    /// The same, with all that the server says for who knows what to do then.
    ///
    /// # Errors
    /// The server's.
    pub(crate) async fn ask(&self, sql: &str) -> Result<Vec<Vec<Option<String>>>, tokio_postgres::Error> {
        let messages = self.client.simple_query(sql).await?;
        let rows = messages.iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => {
                Some((0..row.len()).map(|column| row.get(column).map(str::to_owned)).collect())
            }
            _ => None,
        });
        Ok(rows.collect())
    }

    /// The first column.
    ///
    /// # Errors
    /// What the server says.
    pub(crate) async fn column(&self, sql: &str) -> Result<Vec<String>, Failure> {
        let rows = self.rows(sql).await?;
        Ok(rows.into_iter().filter_map(|row| row.into_iter().next().flatten()).collect())
    }

    /// The first value; nothing is an empty text.
    ///
    /// # Errors
    /// What the server says.
    pub(crate) async fn value(&self, sql: &str) -> Result<String, Failure> {
        Ok(self.column(sql).await?.into_iter().next().unwrap_or_default())
    }

    /// Asks for the end of the statement that runs: its own answer says whether it has been ended.
    pub(crate) async fn cancel(&self) {
        let token = self.client.cancel_token();
        let asking = async {
            match &self.tls {
                None => token.cancel_query(NoTls).await,
                Some(tls) => token.cancel_query(tls.clone()).await,
            }
        };
        let why = match tokio::time::timeout(CANCEL_TIME_MAX, asking).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => reason(&error),
            Err(_) => format!("it does not answer within {} s", CANCEL_TIME_MAX.as_secs()),
        };
        eprintln!("coeval: the server is not told to stop: {why}");
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::net::TcpListener;

    /// Somebody who lets clients connect and says nothing, and where that is.
    pub(crate) fn silent() -> (TcpListener, PrimaryAddress) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        (listener, PrimaryAddress::parse(&format!("host=127.0.0.1,port={port},user=coeval")).unwrap())
    }

    /// Fails, without an end, if it is only waited for the connection: a server that stands still takes that, and says nothing behind it.
    #[test]
    fn a_server_that_takes_a_connection_and_says_nothing_is_given_up() {
        let (_listener, address) = silent();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let asked = runtime.block_on(Server::connect_within(&address, Duration::from_millis(200)));
        let Err(Failure::Work(said)) = asked.map(drop) else { panic!("somebody has answered") };
        assert!(said.contains("does not answer within 0.2 s"), "{said}");
    }
}
