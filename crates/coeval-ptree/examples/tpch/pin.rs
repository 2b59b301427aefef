// SPDX-License-Identifier: Apache-2.0
//! Threads on cores of their own.

use std::process::Command;

/// Keeps this thread on a core from now on; whether that worked, which needs `taskset` of util-linux.
pub(crate) fn to_core(core: usize) -> bool {
    let Ok(path) = std::fs::read_link("/proc/thread-self") else { return false };
    let Some(thread) = path.file_name() else { return false };
    let output = Command::new("taskset").arg("-pc").arg(core.to_string()).arg(thread).output();
    output.is_ok_and(|output| output.status.success())
}
