// SPDX-License-Identifier: Apache-2.0
//! What is answered to browsers, by path.
//!
//! | request | answer |
//! |---|---|
//! | `GET /`, `GET /app.js` ... | the page |
//! | `POST /api/login` | who is logged in from then on, and a cookie |
//! | `GET /api/session` | who is logged in |
//! | `POST /api/logout` | nothing |
//! | `POST /api/query` | an answer to one of the page's own questions |
//! | `GET /api/figures` | the metrics, in Prometheus' text format: all for `pg_monitor`, else of the own sessions |
//! | `POST /api/tabs` | the name of a new tab |
//! | `GET /api/tabs/TAB` | where it stands; a page that is there asks now and then, else the tab ends |
//! | `DELETE /api/tabs/TAB` | nothing |
//! | `POST /api/tabs/TAB/run` | events of the run, as JSON lines (`running.rs`) |
//! | `POST /api/tabs/TAB/cancel` | nothing |
//! | `GET /api/tabs/TAB/results/N/rows` | a window of a result |
//! | `POST /api/tabs/TAB/results/N/ticket` | a ticket for the next one |
//! | `GET /api/tabs/TAB/results/N/csv?ticket=...` | all of it, as a file |
//! | `POST /api/tabs/TAB/copy` | a ticket for the next one, once the query runs (`copying.rs`) |
//! | `GET /api/tabs/TAB/copy?ticket=...` | what it gives, as a file of Arrow or Parquet |
//!
//! A browser sends the cookie to every port of the host, other programs' too. So all of `/api` but the login wants the login's
//! second value in a header, which only the page has that has logged in; a download, which is none of the page's own requests, wants
//! a ticket in its place.

use crate::assets;
use crate::columnar::Copy;
use crate::copying;
use crate::export::{Format, exported};
use crate::guard::{CSRF_HEADER, guard};
use crate::logins::{Answer, Login, Logins};
use crate::peer::Peer;
use crate::report::Report;
use crate::results::{ResultSet, Row};
use crate::running::{self, Request as RunRequest};
use crate::tabs::{Standing, Tab};
use crate::wire::Identity;
use axum::body::Body;
use axum::extract::{FromRequestParts, Path, Query, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use axum::{Extension, Router, middleware};
use coeval_server::{Encryption, Entrance, Figures};
use futures::Stream;
use futures::stream::poll_fn;
use http::request::Parts;
use http::{HeaderMap, Method, StatusCode, Uri, header};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::Receiver;

/// Longest request; a text of SQL is one.
const BODY_BYTES_MAX: usize = 16 << 20;

/// Longest request of somebody who is not logged in.
const LOGIN_BYTES_MAX: usize = 16 << 10;

/// How long the rest of a request may take to come.
const BODY_TIME_MAX: Duration = Duration::from_secs(30);

/// Rows of a window.
const WINDOW_ROWS_MAX: usize = 2_000;

/// What requests are answered from.
pub(crate) struct Served {
    pub(crate) logins: Logins,
    pub(crate) entrance: Entrance,
    /// The name of the cookie.
    pub(crate) cookie: String,
}

type Shared = State<Arc<Served>>;

/// An answer in JSON.
struct Json<T>(T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        let text = serde_json::to_vec(&self.0).expect("an answer is JSON");
        ([(header::CONTENT_TYPE, "application/json")], text).into_response()
    }
}

/// Why a request has no other answer.
struct Refused(StatusCode, Box<Report>);

impl Refused {
    fn new(status: StatusCode, report: Report) -> Self {
        Self(status, Box::new(report))
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        (self.0, Json(self.1)).into_response()
    }
}

fn nobody() -> Refused {
    Refused::new(
        StatusCode::UNAUTHORIZED,
        Report::own("28000", "nobody is logged in, or the login has ended"),
    )
}

fn missing(what: &str) -> Refused {
    Refused::new(StatusCode::NOT_FOUND, Report::own("02000", format!("there is no such {what}")))
}

pub(crate) fn router(served: Arc<Served>) -> Router {
    Router::new()
        .route("/", get(async || assets::page()))
        .route("/api/login", post(log_in))
        .route("/api/session", get(session))
        .route("/api/logout", post(log_out))
        .route("/api/query", post(query))
        .route("/api/figures", get(figures))
        .route("/api/tabs", post(add_tab))
        .route("/api/tabs/{tab}", delete(remove_tab).get(tab_standing))
        .route("/api/tabs/{tab}/run", post(run))
        .route("/api/tabs/{tab}/cancel", post(cancel))
        .route("/api/tabs/{tab}/results/{result}/rows", get(rows))
        .route("/api/tabs/{tab}/results/{result}/ticket", post(ticket))
        .route("/api/tabs/{tab}/results/{result}/csv", get(download))
        .route("/api/tabs/{tab}/copy", post(begin_copy).get(download_copy))
        .fallback(get(file))
        .layer(middleware::from_fn(guard))
        .with_state(served)
}

async fn file(uri: Uri, headers: HeaderMap) -> Response {
    assets::file(uri.path().trim_start_matches('/'), &headers)
}

/// Whoever asks, if that is somebody who is logged in; and who wants to change something has proven that the page does.
struct Caller {
    login: Arc<Login>,
    token: String,
}

impl FromRequestParts<Arc<Served>> for Caller {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, served: &Arc<Served>) -> Result<Self, Refused> {
        let token = cookie(&parts.headers, &served.cookie).ok_or_else(nobody)?;
        let login = served.logins.find(token).ok_or_else(nobody)?;
        let given = parts.headers.get(CSRF_HEADER).and_then(|value| value.to_str().ok());
        let is_proven = match (given, ticket_of(&parts.uri)) {
            (Some(given), _) => login.proves(given),
            (None, Some(ticket)) => parts.method == Method::GET && login.take_ticket(ticket),
            (None, None) => false,
        };
        if !is_proven {
            let message = format!("the header {CSRF_HEADER} is not the one of this login");
            return Err(Refused::new(StatusCode::FORBIDDEN, Report::own("28000", message)));
        }
        if let Some(peer) = parts.extensions.get::<Peer>() {
            peer.is_known.notify_one();
        }
        Ok(Self { login, token: token.to_owned() })
    }
}

/// The ticket of a download.
fn ticket_of(uri: &Uri) -> Option<&str> {
    let query = uri.query().filter(|_| uri.path().ends_with("/csv") || uri.path().ends_with("/copy"))?;
    query.split('&').find_map(|part| part.strip_prefix("ticket="))
}

fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let given = headers.get_all(header::COOKIE).into_iter().filter_map(|value| value.to_str().ok());
    given.flat_map(|cookies| cookies.split(';')).find_map(|cookie| {
        let (given, value) = cookie.trim().split_once('=')?;
        (given == name).then_some(value)
    })
}

/// What a request says in JSON, of so many bytes at most.
async fn said<T: DeserializeOwned>(body: Body, bytes_max: usize) -> Result<T, Refused> {
    let refused = |message: String| Refused::new(StatusCode::BAD_REQUEST, Report::own("22023", message));
    let read = axum::body::to_bytes(body, bytes_max);
    let bytes = tokio::time::timeout(BODY_TIME_MAX, read)
        .await
        .map_err(|_| refused("the request did not come in time".to_owned()))?
        .map_err(|error| refused(format!("the request cannot be read: {error}")))?;
    serde_json::from_slice(&bytes)
        .map_err(|error| refused(format!("the request is not what is expected: {error}")))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct LoginRequest {
    user: String,
    #[serde(default)]
    password: String,
    database: Option<String>,
    #[serde(default)]
    read_only: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Whoever<'a> {
    user: &'a str,
    database: &'a str,
    superuser: bool,
    read_only: bool,
    /// Told once, to the page that logs in.
    #[serde(skip_serializing_if = "Option::is_none")]
    csrf: Option<&'a str>,
    version: &'a str,
}

impl<'a> Whoever<'a> {
    fn of(login: &'a Login, csrf: Option<&'a str>) -> Json<Self> {
        Json(Self {
            user: &login.identity.user,
            database: &login.identity.database,
            superuser: login.is_superuser,
            read_only: login.identity.is_read_only,
            csrf,
            version: &login.version,
        })
    }
}

/// The cookie of a login; an empty token takes it away.
fn set_cookie(served: &Served, peer: &Peer, token: &str) -> [(header::HeaderName, String); 1] {
    let secure = match peer.encryption {
        Encryption::Tls => "; Secure",
        Encryption::None => "",
    };
    let age = if token.is_empty() { "; Max-Age=0" } else { "" };
    let cookie = &served.cookie;
    [(header::SET_COOKIE, format!("{cookie}={token}; Path=/; HttpOnly; SameSite=Strict{secure}{age}"))]
}

async fn log_in(
    State(served): Shared,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refused> {
    // A form of another site cannot say so.
    let is_json =
        headers.get(header::CONTENT_TYPE).is_some_and(|of| of.as_bytes().starts_with(b"application/json"));
    if !is_json {
        let report = Report::own("22023", "a login is application/json");
        return Err(Refused::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, report));
    }
    let given: LoginRequest = said(body, LOGIN_BYTES_MAX).await?;
    let identity = Identity {
        database: given.database.filter(|name| !name.is_empty()).unwrap_or_else(|| given.user.clone()),
        user: given.user,
        password: given.password,
        address: peer.address,
        encryption: peer.encryption,
        is_read_only: given.read_only,
    };
    let entered = served.logins.enter(identity).await;
    let (token, login) = entered.map_err(|report| Refused::new(StatusCode::UNAUTHORIZED, report))?;
    if let Some(former) = cookie(&headers, &served.cookie) {
        served.logins.leave(former);
    }
    Ok((set_cookie(&served, &peer, &token), Whoever::of(&login, Some(login.csrf()))).into_response())
}

async fn session(caller: Caller) -> Response {
    Whoever::of(&caller.login, None).into_response()
}

async fn log_out(State(served): Shared, Extension(peer): Extension<Peer>, caller: Caller) -> Response {
    served.logins.leave(&caller.token);
    (StatusCode::NO_CONTENT, set_cookie(&served, &peer, "")).into_response()
}

async fn query(caller: Caller, body: Body) -> Result<Json<Answer>, Refused> {
    let request: RunRequest = said(body, BODY_BYTES_MAX).await?;
    let answer = caller.login.ask(request.sql(), request.parameters()).await;
    answer.map(Json).map_err(|report| Refused::new(StatusCode::UNPROCESSABLE_ENTITY, report))
}

/// All of them for who sees what all sessions do; a user who is no role has been asked at the login.
async fn figures(State(served): Shared, caller: Caller) -> String {
    let Login { identity, is_superuser, .. } = &*caller.login;
    let is_monitor = served.entrance.is_monitor(&identity.user).unwrap_or(*is_superuser);
    let seen = if is_monitor { Figures::All } else { Figures::OwnSessions(&identity.user) };
    served.entrance.figures(&seen)
}

#[derive(Serialize)]
struct TabName {
    tab: String,
}

async fn add_tab(caller: Caller) -> Result<Json<TabName>, Refused> {
    let Some(tab) = caller.login.add_tab() else {
        let report = Report::own("53400", "there are as many tabs as there may be: close one first");
        return Err(Refused::new(StatusCode::TOO_MANY_REQUESTS, report));
    };
    Ok(Json(TabName { tab }))
}

fn tab(caller: &Caller, name: &str) -> Result<Arc<Tab>, Refused> {
    caller.login.tab(name).ok_or_else(|| missing("tab"))
}

async fn tab_standing(caller: Caller, Path(name): Path<String>) -> Result<Json<Standing>, Refused> {
    Ok(Json(tab(&caller, &name)?.standing()))
}

/// Whatever runs there is ended, and its transaction rolled back.
async fn remove_tab(caller: Caller, Path(name): Path<String>) -> Result<StatusCode, Refused> {
    if caller.login.remove_tab(&name) { Ok(StatusCode::NO_CONTENT) } else { Err(missing("tab")) }
}

async fn cancel(caller: Caller, Path(name): Path<String>) -> Result<StatusCode, Refused> {
    let failed = |error: std::io::Error| {
        Refused::new(StatusCode::SERVICE_UNAVAILABLE, Report::own("53000", error.to_string()))
    };
    tab(&caller, &name)?.cancel().await.map_err(failed)?;
    Ok(StatusCode::NO_CONTENT)
}

async fn run(caller: Caller, Path(name): Path<String>, body: Body) -> Result<Response, Refused> {
    let tab = tab(&caller, &name)?;
    let request = said(body, BODY_BYTES_MAX).await?;
    let Some(events) = running::begin(caller.login, tab, request) else {
        let report = Report::own("55006", "something runs in this tab: wait, or cancel it");
        return Err(Refused::new(StatusCode::CONFLICT, report));
    };
    let events = futures::StreamExt::map(streamed(events), Ok::<_, Infallible>);
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson; charset=utf-8")], Body::from_stream(events))
        .into_response())
}

/// What comes through a channel, as a stream that closes it when it is dropped.
fn streamed<T: Send + 'static>(mut received: Receiver<T>) -> impl Stream<Item = T> + Send + 'static {
    poll_fn(move |context| received.poll_recv(context))
}

fn result(caller: &Caller, name: &str, number: u64) -> Result<Arc<ResultSet>, Refused> {
    tab(caller, name)?.result(number).ok_or_else(|| missing("result: the tab has run something else since"))
}

#[derive(Deserialize)]
struct Window {
    #[serde(default)]
    from: u64,
    #[serde(default)]
    count: usize,
}

#[derive(Serialize)]
struct Rows {
    from: u64,
    /// As many as were asked for, unless there are fewer, or they are long: at least one if there is one.
    rows: Vec<Row>,
}

async fn rows(
    caller: Caller,
    Path((name, number)): Path<(String, u64)>,
    Query(Window { from, count }): Query<Window>,
) -> Result<Json<Rows>, Refused> {
    let result = result(&caller, &name, number)?;
    let read = tokio::task::spawn_blocking(move || result.window(from, count.clamp(1, WINDOW_ROWS_MAX)));
    let failed = |error: String| Refused::new(StatusCode::INTERNAL_SERVER_ERROR, Report::own("58030", error));
    let read = read.await.map_err(|error| failed(error.to_string()))?;
    Ok(Json(Rows { from, rows: read.map_err(|error| failed(error.to_string()))? }))
}

#[derive(Serialize)]
struct Ticket {
    ticket: String,
}

async fn ticket(caller: Caller, Path((name, number)): Path<(String, u64)>) -> Result<Json<Ticket>, Refused> {
    result(&caller, &name, number)?;
    Ok(Json(Ticket { ticket: caller.login.ticket() }))
}

async fn begin_copy(caller: Caller, Path(name): Path<String>, body: Body) -> Result<Json<Ticket>, Refused> {
    let tab = tab(&caller, &name)?;
    let request: copying::Request = said(body, BODY_BYTES_MAX).await?;
    let refused = |report| Refused::new(StatusCode::UNPROCESSABLE_ENTITY, report);
    copying::begin(tab, request).await.map_err(refused)?;
    Ok(Json(Ticket { ticket: caller.login.ticket() }))
}

async fn download_copy(caller: Caller, Path(name): Path<String>) -> Result<Response, Refused> {
    let prepared = tab(&caller, &name)?.take_prepared();
    let Copy { format, pieces } = prepared.ok_or_else(|| missing("file: it was not asked for in time"))?;
    Ok(attached(format.content_type(), format.file_name(), Body::from_stream(streamed(pieces))))
}

/// A file that the browser is to keep.
fn attached(content_type: &str, name: &str, body: Body) -> Response {
    let headers = [
        (header::CONTENT_TYPE, content_type.to_owned()),
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{name}\"")),
    ];
    (headers, body).into_response()
}

#[derive(Deserialize)]
struct Wanted {
    format: Option<String>,
}

async fn download(
    caller: Caller,
    Path((name, number)): Path<(String, u64)>,
    Query(Wanted { format }): Query<Wanted>,
) -> Result<Response, Refused> {
    let format = match format.as_deref() {
        None | Some("csv") => Format::Csv,
        Some("json") => Format::JsonLines,
        Some(_) => {
            let report = Report::own("22023", "a result is downloaded as csv or json");
            return Err(Refused::new(StatusCode::BAD_REQUEST, report));
        }
    };
    let pieces = exported(result(&caller, &name, number)?, format);
    Ok(attached(format.content_type(), format.file_name(), Body::from_stream(pieces)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_found_by_its_whole_name() {
        let mut headers = HeaderMap::new();
        headers.append(header::COOKIE, "a=1; coeval_console_84=no".parse().unwrap());
        headers.append(header::COOKIE, "coeval_console_8432=yes; b=2".parse().unwrap());
        assert_eq!(cookie(&headers, "coeval_console_8432"), Some("yes"));
        assert_eq!(cookie(&headers, "coeval_console_8"), None);
    }
}
