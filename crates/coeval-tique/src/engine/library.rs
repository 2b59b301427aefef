// SPDX-License-Identifier: Apache-2.0
//! Shared libraries that engines come in.
#![allow(unsafe_code)]

use super::EngineError;
use std::ffi::{CStr, CString, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Whether an engine's library is there.
///
/// # Errors
/// It is not; the message names the script beside this crate that fetches it, and the file that the script leaves.
pub(super) fn require(library: &Path, what: &str, script: &str, file: &str) -> Result<(), EngineError> {
    if library.exists() {
        return Ok(());
    }
    let place = library.display();
    Err(EngineError::refused(format!(
        "there is no {what} at {place}: run crates/coeval-tique/{script} DIRECTORY, then name DIRECTORY/{file}"
    )))
}

/// A loaded library. It stays loaded as long as the process.
pub(super) struct Library {
    handle: *mut c_void,
    place: String,
}

impl Library {
    pub(super) fn load(library: &Path) -> Result<Self, EngineError> {
        let place = library.display().to_string();
        let path = CString::new(library.as_os_str().as_bytes());
        let path = path.map_err(|_| EngineError::refused(format!("{place} is no path")))?;
        // SAFETY: loading runs the library's initializers; the caller names a library that it trusts.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            return Err(EngineError::refused(format!("{place} cannot be loaded: {}", last_error())));
        }
        Ok(Self { handle, place })
    }

    /// Where a function of the library is; never null.
    pub(super) fn symbol(&self, name: &CStr) -> Result<*mut c_void, EngineError> {
        // SAFETY: `handle` is an open library and `name` a text that ends with zero.
        let symbol = unsafe { libc::dlsym(self.handle, name.as_ptr()) };
        if symbol.is_null() {
            let (place, name) = (&self.place, name.to_string_lossy());
            return Err(EngineError::refused(format!("{place} is not the engine's: it has no {name}")));
        }
        Ok(symbol)
    }
}

/// What the loader says of its last failure on this thread.
fn last_error() -> String {
    // SAFETY: a text that ends with zero, this thread's until its next call of the loader; or null.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "the loader does not say why".to_owned();
    }
    // SAFETY: as above.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
