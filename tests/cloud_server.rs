// SPDX-License-Identifier: Apache-2.0
//! Servers of the clouds' protocols, for the tests that archive into them. `crates/coeval-archive/cloud-tests/install` brings their
//! programs, and says which they are.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Whose protocol a server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cloud {
    S3,
    Google,
    Azure,
}

/// The bucket that each server has.
const BUCKET: &str = "bucket";

/// Of Versity's gateway.
const S3_KEY: &str = "key-of-the-tests";
const S3_SECRET: &str = "secret-of-the-tests";

/// A key of Google's as fake-gcs-server needs it, which asks for none.
const GOOGLE_KEY: &str =
    r#"{"client_email": "", "private_key_id": "", "private_key": "", "disable_oauth": true}"#;

/// The account that Azurite has, and its key, which everybody knows.
const AZURE_ACCOUNT: &str = "devstoreaccount1";
const AZURE_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// Lets who sends it make containers in that account: the client of the archive makes none. The last of them is the HMAC-SHA256 by the
/// key over the account, `c`, `b`, `c`, nothing, the end, nothing, nothing and the version, each with a line feed behind it.
const AZURE_MAY_MAKE_CONTAINERS: &str = "sv=2020-08-04&ss=b&srt=c&sp=c&se=2099-01-01T00%3A00%3A00Z\
     &sig=TRDULb%2B8gQim4u2wts%2F6XC3IM08VpaB%2Fv27GbjaJYsY%3D";

/// How long a server may take until it serves.
const START_PATIENCE: Duration = Duration::from_secs(60);

impl Cloud {
    /// What tests need of it, as it is called where they were skipped.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::S3 => "s3",
            Self::Google => "gcs",
            Self::Azure => "azure",
        }
    }

    /// Where the server's program is, if it was installed.
    pub(crate) fn program(self) -> Option<PathBuf> {
        let named = std::env::var_os("COEVAL_CLOUD_DIR").map(PathBuf::from);
        let cached = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache/coeval-clouds"));
        let program = named.or_else(cached)?.join(match self {
            Self::S3 => "versitygw",
            Self::Google => "gcs-server",
            Self::Azure => "azure/node_modules/.bin/azurite-blob",
        });
        Some(program).filter(|program| program.exists())
    }

    /// The address of a path in the bucket.
    pub(crate) fn place(self, path: &str) -> String {
        self.place_in(BUCKET, path)
    }

    /// The same in a bucket of this name.
    pub(crate) fn place_in(self, bucket: &str, path: &str) -> String {
        let scheme = match self {
            Self::S3 => "s3",
            Self::Google => "gs",
            Self::Azure => "az",
        };
        format!("{scheme}://{bucket}/{path}")
    }

    /// What starts a server at an address with all that it keeps in a directory.
    fn command(self, program: &Path, address: &str, home: &Path) -> Command {
        let mut command = Command::new(program);
        let port = address.rsplit(':').next().unwrap();
        match self {
            Self::S3 => {
                let (objects, metadata) = (home.join("objects"), home.join("metadata"));
                std::fs::create_dir_all(objects.join(BUCKET)).unwrap();
                std::fs::create_dir_all(&metadata).unwrap();
                command.args(["--access", S3_KEY, "--secret", S3_SECRET, "--port", address, "--quiet"]);
                command.args(["posix", "--sidecar"]).args([&metadata, &objects])
            }
            Self::Google => {
                std::fs::write(home.join("key.json"), GOOGLE_KEY).unwrap();
                command.args([address, BUCKET])
            }
            Self::Azure => command.args(["--blobHost", "127.0.0.1", "--blobPort", port]).args([
                "--inMemoryPersistence",
                "--silent",
                "--disableTelemetry",
                "--skipApiVersionCheck",
            ]),
        };
        command.current_dir(home);
        command
    }
}

/// A server with an empty bucket.
pub(crate) struct CloudServer {
    cloud: Cloud,
    pub(crate) process: Child,
    address: String,
    home: tempfile::TempDir,
}

impl CloudServer {
    pub(crate) fn start(cloud: Cloud, program: &Path) -> Self {
        // Somebody else may take the port before the server does: then another one is tried.
        for _ in 0..10 {
            let home = tempfile::tempdir().unwrap();
            let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
            let mut command = cloud.command(program, &address, home.path());
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let mut server = Self { cloud, process: command.spawn().unwrap(), address, home };
            if server.serves() {
                return server;
            }
        }
        panic!("{} does not serve", program.display());
    }

    /// Waits until it serves, or has ended.
    fn serves(&mut self) -> bool {
        let begun = Instant::now();
        while self.process.try_wait().unwrap().is_none() && begun.elapsed() < START_PATIENCE {
            if TcpStream::connect(&self.address).is_ok() {
                return self.cloud != Cloud::Azure || self.makes_container();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        false
    }

    /// Azurite begins with none.
    fn makes_container(&self) -> bool {
        let (address, may) = (&self.address, AZURE_MAY_MAKE_CONTAINERS);
        let request = format!(
            "PUT /{AZURE_ACCOUNT}/{BUCKET}?restype=container&{may} HTTP/1.1\r\nHost: {address}\r\n\
             x-ms-version: 2020-08-04\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
        let mut socket = TcpStream::connect(address).unwrap();
        socket.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        answer.starts_with("HTTP/1.1 201 ")
    }

    /// See [`Cloud::place`].
    pub(crate) fn place(&self, path: &str) -> String {
        self.cloud.place(path)
    }

    /// What says where the server is, and has its key: the variables of the environment that the cloud's own tools use.
    pub(crate) fn settings(&self) -> Vec<(&'static str, String)> {
        let address = format!("http://{}", self.address);
        match self.cloud {
            Cloud::S3 => self.s3_settings(S3_KEY, S3_SECRET),
            Cloud::Google => vec![
                ("GOOGLE_SERVICE_ACCOUNT", self.home.path().join("key.json").display().to_string()),
                ("GOOGLE_BASE_URL", address),
            ],
            Cloud::Azure => self.azure_settings(AZURE_KEY),
        }
    }

    /// The same with a wrong key, unless the server takes each.
    pub(crate) fn settings_with_wrong_key(&self) -> Option<Vec<(&'static str, String)>> {
        match self.cloud {
            Cloud::S3 => Some(self.s3_settings(S3_KEY, "wrong")),
            Cloud::Google => None,
            Cloud::Azure => Some(self.azure_settings("d3Jvbmc=")),
        }
    }

    fn s3_settings(&self, key: &str, secret: &str) -> Vec<(&'static str, String)> {
        vec![
            ("AWS_ENDPOINT_URL", format!("http://{}", self.address)),
            ("AWS_ALLOW_HTTP", "true".to_owned()),
            ("AWS_REGION", "us-east-1".to_owned()),
            ("AWS_ACCESS_KEY_ID", key.to_owned()),
            ("AWS_SECRET_ACCESS_KEY", secret.to_owned()),
        ]
    }

    fn azure_settings(&self, key: &str) -> Vec<(&'static str, String)> {
        vec![
            ("AZURE_STORAGE_ENDPOINT", format!("http://{}/{AZURE_ACCOUNT}", self.address)),
            ("AZURE_ALLOW_HTTP", "true".to_owned()),
            ("AZURE_STORAGE_ACCOUNT_NAME", AZURE_ACCOUNT.to_owned()),
            ("AZURE_STORAGE_ACCOUNT_KEY", key.to_owned()),
        ]
    }
}

impl Drop for CloudServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
