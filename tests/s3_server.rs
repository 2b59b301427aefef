// SPDX-License-Identifier: Apache-2.0
//! A server of the S3 protocol, for the tests that archive into one. `crates/coeval-archive/cloud-tests/install` builds its program.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const KEY: &str = "key-of-the-tests";
pub(crate) const SECRET: &str = "secret-of-the-tests";

/// A server with a bucket.
pub(crate) struct S3Server {
    process: Child,
    pub(crate) address: String,
    _home: tempfile::TempDir,
}

/// Where the server's program is, if it was installed.
pub(crate) fn program() -> Option<PathBuf> {
    let named = std::env::var_os("COEVAL_CLOUD_DIR").map(PathBuf::from);
    let cached = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache/coeval-s3"));
    let directory = named.or_else(cached)?;
    Some(directory.join("versitygw")).filter(|program| program.exists())
}

impl S3Server {
    pub(crate) fn start(program: &PathBuf) -> Self {
        let home = tempfile::tempdir().unwrap();
        let (objects, metadata) = (home.path().join("objects"), home.path().join("metadata"));
        std::fs::create_dir_all(objects.join("bucket")).unwrap();
        std::fs::create_dir_all(&metadata).unwrap();
        // Somebody else may take the port before the server does: then another one is tried.
        for _ in 0..10 {
            let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
            let mut process = Command::new(program)
                .args([
                    "--access",
                    KEY,
                    "--secret",
                    SECRET,
                    "--port",
                    &address,
                    "--quiet",
                    "posix",
                    "--sidecar",
                ])
                .args([&metadata, &objects])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            let begun = Instant::now();
            while process.try_wait().unwrap().is_none() && begun.elapsed() < Duration::from_secs(60) {
                if std::net::TcpStream::connect(&address).is_ok() {
                    return Self { process, address, _home: home };
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            let _ = process.kill();
            let _ = process.wait();
        }
        panic!("{} does not serve", program.display());
    }

    /// What says where the server is, for who has this secret: the variables of the environment that S3's own tools use.
    pub(crate) fn settings(&self, secret: &str) -> [(&'static str, String); 5] {
        [
            ("AWS_ENDPOINT_URL", format!("http://{}", self.address)),
            ("AWS_ALLOW_HTTP", "true".to_owned()),
            ("AWS_REGION", "us-east-1".to_owned()),
            ("AWS_ACCESS_KEY_ID", KEY.to_owned()),
            ("AWS_SECRET_ACCESS_KEY", secret.to_owned()),
        ]
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
