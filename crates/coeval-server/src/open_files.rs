// SPDX-License-Identifier: Apache-2.0
//! How many files this process may have open, of which each connection is one.
//!
//! What a process is given at first is often 1,024, for the sake of programs that can only wait for so many (`select`).
//! It may take more, up to what an administrator allows.

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};
use std::io;

/// Raises how many files this process, and those that it starts, may have open as far as it is allowed to. How many they
/// are now; `None` if there is no limit.
///
/// # Errors
/// What the system answers; the limit is as it was then.
pub fn raise_open_files_limit() -> io::Result<Option<u64>> {
    let (now, allowed) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if now < allowed {
        setrlimit(Resource::RLIMIT_NOFILE, allowed, allowed)?;
    }
    Ok((allowed != RLIM_INFINITY).then_some(allowed))
}
