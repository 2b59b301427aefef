// SPDX-License-Identifier: Apache-2.0
//! What a node serves by name, and how it refuses.

use tonic::Code;

pub(super) const FRAMES: &str = "/coeval.cluster.Transport/Frames";
pub(super) const CALL: &str = "/coeval.cluster.Transport/Call";
pub(super) const FETCH: &str = "/coeval.cluster.Transport/Fetch";

/// The code of a handler's refusal.
pub(super) const REFUSAL: Code = Code::Aborted;
