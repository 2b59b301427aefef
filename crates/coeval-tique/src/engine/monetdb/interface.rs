// SPDX-License-Identifier: Apache-2.0
//! The part of MonetDB's embedded interface (monetdbe 11.41) that is needed: open, query, look at columns.
#![allow(unsafe_code)]

use crate::engine::EngineError;
use crate::engine::library::Library;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr::{null, null_mut};

/// The version of the interface whose structures these are.
const VERSION: &str = "2.0.";

#[repr(C)]
struct OpenOptions {
    memory_limit: c_int,
    query_timeout: c_int,
    session_timeout: c_int,
    thread_count: c_int,
    remote: *mut c_void,
    server: *mut c_void,
    trace_file: *const c_char,
}

/// What the library says if all its 64 places for sessions are taken; it uses one of them itself.
const NO_PLACE: &str = "Failed to initialize client";

/// What a query gave.
#[repr(C)]
pub(super) struct RawResult {
    pub(super) row_count: i64,
    pub(super) column_count: usize,
    name: *mut c_char,
    last_id: i64,
}

/// A column of a result; behind it stand the value that means NULL, and the scale.
#[repr(C)]
pub(super) struct RawColumn {
    pub(super) kind: c_int,
    pub(super) data: *const u8,
    pub(super) count: usize,
    pub(super) name: *const c_char,
}

/// A session of the library's.
type RawHandle = *mut c_void;

type Open = unsafe extern "C" fn(*mut RawHandle, *const c_char, *mut OpenOptions) -> c_int;
type Close = unsafe extern "C" fn(RawHandle) -> c_int;
type Said = unsafe extern "C" fn(RawHandle) -> *const c_char;
type Query = unsafe extern "C" fn(RawHandle, *const c_char, *mut *mut RawResult, *mut i64) -> *const c_char;
type Fetch = unsafe extern "C" fn(*mut RawResult, *mut *mut RawColumn, usize) -> *const c_char;
type Cleanup = unsafe extern "C" fn(RawHandle, *mut RawResult) -> *const c_char;

/// The functions that are used.
pub(super) struct Functions {
    open: Open,
    close: Close,
    error: Said,
    query: Query,
    fetch: Fetch,
    cleanup: Cleanup,
}

impl Functions {
    pub(super) fn load(path: &Path) -> Result<Self, EngineError> {
        let library = Library::load(path)?;
        let version = library.symbol(c"monetdbe_version")?;
        // SAFETY: the function has this type in all versions, and gives a text that is always there.
        let version = unsafe {
            let version: extern "C" fn() -> *const c_char = std::mem::transmute(version);
            CStr::from_ptr(version()).to_string_lossy()
        };
        if !version.starts_with(VERSION) {
            let place = path.display();
            return Err(EngineError::refused(format!(
                "{place} is libmonetdbe {version}, and {VERSION}x is supported: run \
                 crates/coeval-tique/fetch-monetdb DIRECTORY"
            )));
        }
        let (open, close) = (library.symbol(c"monetdbe_open")?, library.symbol(c"monetdbe_close")?);
        let (error, query) = (library.symbol(c"monetdbe_error")?, library.symbol(c"monetdbe_query")?);
        let fetch = library.symbol(c"monetdbe_result_fetch")?;
        let cleanup = library.symbol(c"monetdbe_cleanup_result")?;
        // SAFETY: the functions have these types in the version that was looked at.
        Ok(unsafe {
            Self {
                open: std::mem::transmute::<*mut c_void, Open>(open),
                close: std::mem::transmute::<*mut c_void, Close>(close),
                error: std::mem::transmute::<*mut c_void, Said>(error),
                query: std::mem::transmute::<*mut c_void, Query>(query),
                fetch: std::mem::transmute::<*mut c_void, Fetch>(fetch),
                cleanup: std::mem::transmute::<*mut c_void, Cleanup>(cleanup),
            }
        })
    }
}

/// A text of the library's; it lives until the next call on the session.
fn said(text: *const c_char) -> String {
    if text.is_null() {
        return "MonetDB failed and did not say why".to_owned();
    }
    // SAFETY: a text that is there ends with zero.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().trim().to_owned()
}

/// A session. The first opens the database, the last closes it.
pub(super) struct Handle {
    functions: &'static Functions,
    raw: RawHandle,
}

impl Handle {
    /// A session with the database in this directory, or in memory.
    pub(super) fn open(functions: &'static Functions, directory: Option<&CStr>) -> Result<Self, EngineError> {
        let mut options = OpenOptions {
            memory_limit: 0,
            query_timeout: 0,
            session_timeout: 0,
            thread_count: 0,
            remote: null_mut(),
            server: null_mut(),
            trace_file: null(),
        };
        let mut raw: RawHandle = null_mut();
        let url = directory.map_or(null(), CStr::as_ptr);
        // SAFETY: a place for the session, a text or null, and options that outlive the call.
        let status = unsafe { (functions.open)(&raw mut raw, url, &raw mut options) };
        if status == 0 {
            return Ok(Self { functions, raw });
        }
        if raw.is_null() {
            return Err(EngineError::refused("MonetDB cannot be opened: there is no memory"));
        }
        // SAFETY: a session that failed to open says why, and is given back once.
        let message = unsafe { said((functions.error)(raw)) };
        Err(if message.contains(NO_PLACE) {
            EngineError::full("MonetDB takes no more than 63 sessions at a time")
        } else {
            EngineError::refused(format!("MonetDB cannot be opened: {message}"))
        })
    }

    /// Runs a statement; what it gives, and how many rows it changed.
    pub(super) fn run(&mut self, sql: &str) -> Result<(QueryResult<'_>, u64), EngineError> {
        let sql = CString::new(sql).map_err(|_| EngineError::refused("a statement holds a zero byte"))?;
        let (mut raw, mut touched): (*mut RawResult, i64) = (null_mut(), 0);
        // SAFETY: an open session, a text that outlives the call, and places for what is given.
        let error = unsafe { (self.functions.query)(self.raw, sql.as_ptr(), &raw mut raw, &raw mut touched) };
        if error.is_null() {
            return Ok((QueryResult { handle: self, raw }, u64::try_from(touched).unwrap_or(0)));
        }
        Err(EngineError::refused(said(error)))
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the library's own function on an open session, once.
        unsafe { (self.functions.close)(self.raw) };
    }
}

/// The result of a statement, while it is looked at.
pub(super) struct QueryResult<'a> {
    handle: &'a mut Handle,
    raw: *mut RawResult,
}

impl QueryResult<'_> {
    /// How many rows and columns there are.
    pub(super) fn size(&self) -> (usize, usize) {
        if self.raw.is_null() {
            return (0, 0);
        }
        // SAFETY: a result that is there, until it is dropped.
        let raw = unsafe { &*self.raw };
        (usize::try_from(raw.row_count).unwrap_or(0), raw.column_count)
    }

    /// A column; it lives as long as the result.
    pub(super) fn column(&mut self, place: usize) -> Result<&RawColumn, EngineError> {
        assert!(place < self.size().1, "a column that is there");
        let mut column: *mut RawColumn = null_mut();
        // SAFETY: a result that is there, and a place for the column.
        let error = unsafe { (self.handle.functions.fetch)(self.raw, &raw mut column, place) };
        if !error.is_null() || column.is_null() {
            return Err(EngineError::refused(said(error)));
        }
        // SAFETY: the library keeps the column until the result is given back.
        Ok(unsafe { &*column })
    }
}

impl Drop for QueryResult<'_> {
    fn drop(&mut self) {
        if !self.raw.is_null() {
            // SAFETY: a result of this session, given back once.
            unsafe { (self.handle.functions.cleanup)(self.handle.raw, self.raw) };
        }
    }
}
