// SPDX-License-Identifier: Apache-2.0
//! A server of a database in memory with its console, and browsers without a screen.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used, reason = "each test uses a part")]

use bytes::Bytes;
use coeval::Database;
use coeval_console::{Console, ConsoleOptions};
use coeval_server::{Server, ServerOptions};
use http::{HeaderMap, Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::net::SocketAddr;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

/// A console that is answered from until it is dropped.
pub struct Running {
    pub database: Database,
    pub address: SocketAddr,
    pub runtime: Runtime,
}

impl Running {
    pub fn with(options: ServerOptions, console: ConsoleOptions) -> Self {
        let runtime = coeval_server::runtime(&options).unwrap();
        let database = Database::in_memory().unwrap();
        let address = runtime.block_on(async {
            let server = Server::bind(&database, "127.0.0.1:0", options).await.unwrap();
            let console = Console::bind(server.entrance(), "127.0.0.1:0", console).await.unwrap();
            let address = console.address();
            tokio::spawn(server.run(std::future::pending()));
            tokio::spawn(console.run());
            address
        });
        Self { database, address, runtime }
    }

    pub fn browser(&self) -> Browser {
        Browser {
            address: self.address,
            host: self.address.to_string(),
            cookie: None,
            csrf: None,
            more: HeaderMap::new(),
        }
    }

    /// A browser of this user, with one tab.
    pub async fn user(&self, user: &str, password: &str) -> (Browser, String) {
        let mut browser = self.browser();
        let login = json!({"user": user, "password": password, "database": "coeval"});
        let answer = browser.post("/api/login", &login).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
        let tab = browser.post("/api/tabs", &json!({})).await.json()["tab"].as_str().unwrap().to_owned();
        (browser, tab)
    }
}

/// What a browser keeps of a console.
#[derive(Clone)]
pub struct Browser {
    pub address: SocketAddr,
    pub host: String,
    pub cookie: Option<String>,
    pub csrf: Option<String>,
    /// Further headers.
    pub more: HeaderMap,
}

pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }
}

impl Browser {
    async fn sent(&self, method: Method, path: &str, body: Option<&Value>) -> http::Response<Incoming> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (mut sender, connection) = handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let mut request = Request::builder().method(method).uri(path).header(header::HOST, &self.host);
        if let Some(cookie) = &self.cookie {
            request = request.header(header::COOKIE, cookie);
        }
        if let Some(csrf) = &self.csrf {
            request = request.header("x-coeval-csrf", csrf);
        }
        for (name, value) in &self.more {
            request = request.header(name, value);
        }
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let body = body.map(Value::to_string).unwrap_or_default();
        sender.send_request(request.body(Full::new(Bytes::from(body))).unwrap()).await.unwrap()
    }

    /// Asks, and hears the whole answer.
    pub async fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> Answer {
        let answer = self.sent(method, path, body).await;
        let (status, headers) = (answer.status(), answer.headers().clone());
        Answer { status, headers, body: answer.into_body().collect().await.unwrap().to_bytes() }
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.ask(Method::GET, path, None).await
    }

    /// Posts; of a login it keeps what the answer says.
    pub async fn post(&mut self, path: &str, body: &Value) -> Answer {
        let answer = self.ask(Method::POST, path, Some(body)).await;
        if let Some(cookie) = answer.headers.get(header::SET_COOKIE) {
            self.cookie = Some(cookie.to_str().unwrap().split(';').next().unwrap().to_owned());
            self.csrf = answer.json()["csrf"].as_str().map(str::to_owned);
        }
        answer
    }

    /// Begins a download, and gives it as it comes.
    pub async fn begin_download(&self, address: &str) -> Incoming {
        let answer = self.sent(Method::GET, address, None).await;
        assert_eq!(answer.status(), StatusCode::OK);
        answer.into_body()
    }

    /// Begins a run, and gives its events as they come.
    pub async fn begin_run(&self, tab: &str, request: &Value) -> Incoming {
        let answer = self.sent(Method::POST, &format!("/api/tabs/{tab}/run"), Some(request)).await;
        assert_eq!(answer.status(), StatusCode::OK);
        answer.into_body()
    }

    /// All events of a run, without those of its progress.
    pub async fn run(&self, tab: &str, request: &Value) -> Vec<Value> {
        let body = self.begin_run(tab, request).await.collect().await.unwrap().to_bytes();
        let lines = std::str::from_utf8(&body).unwrap().lines();
        let events = lines.map(|line| serde_json::from_str::<Value>(line).unwrap());
        events.filter(|event| event["event"] != "progress").collect()
    }

    pub async fn run_sql(&self, tab: &str, sql: &str) -> Vec<Value> {
        self.run(tab, &json!({ "sql": sql })).await
    }

    /// Rows of a result.
    pub async fn rows(&self, tab: &str, result: &Value, window: &str) -> Value {
        let answer = self.get(&format!("/api/tabs/{tab}/results/{result}/rows?{window}")).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
        answer.json()["rows"].clone()
    }

    /// The rows of one statement.
    pub async fn all(&self, tab: &str, sql: &str) -> Value {
        let events = self.run_sql(tab, sql).await;
        assert_eq!(events[0]["event"], "columns", "{events:?}");
        self.rows(tab, &events[0]["result"], "count=2000").await
    }
}
