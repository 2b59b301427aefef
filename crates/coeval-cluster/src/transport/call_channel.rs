// SPDX-License-Identifier: Apache-2.0
//! [`CallChannel`]: the connection that requests to a node go by, if there is one.

use super::connection::Life;
use super::error::LinkError;
use std::sync::Arc;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tonic::transport::Channel;

/// HTTP/2 over a connection that has been made, with a sign of its end.
pub(super) struct Line {
    pub(super) channel: Channel,
    pub(super) life: Arc<Life>,
}

/// The connection that requests to a node go by.
///
/// # Locking
/// `line` is held while a connection is opened, so that there is one, and whoever waits for it meanwhile takes it, or its
/// error.
#[derive(Default)]
pub(super) struct CallChannel {
    pub(super) line: Mutex<CallLine>,
}

/// What has become of it.
#[derive(Default)]
pub(super) enum CallLine {
    #[default]
    Unused,
    Open(Line),
    Failed(Instant, LinkError),
}

impl CallChannel {
    /// Gives the connection up, when nobody opens one any more.
    pub(super) async fn close(&self) {
        *self.line.lock().await = CallLine::Unused;
    }
}
