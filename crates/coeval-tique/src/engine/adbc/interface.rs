// SPDX-License-Identifier: Apache-2.0
//! The part of ADBC that is needed: a driver's table of functions, and handles that are released when dropped. All but the cancelling of
//! a statement is in version 1.0; a driver that knows 1.1 is asked for that.
#![allow(unsafe_code)]

use super::import::{ArrowArrayStream, read_stream};
use crate::engine::library::Library;
use crate::engine::{EngineError, Rows};
use crate::interrupt::stoppable;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ops::ControlFlow;
use std::path::Path;
use std::ptr::null_mut;
use std::sync::Arc;

/// ADBC 1.1, and 1.0 for drivers that do not know it: they are asked for the newest first.
const VERSIONS: [c_int; 2] = [1_001_000, 1_000_000];
const OK: u8 = 0;
const NOT_IMPLEMENTED: u8 = 2;

/// What was said instead of an answer.
#[derive(Debug)]
pub(super) struct Failure {
    /// In the words of the driver, or ours.
    pub(super) message: String,
    /// If it was said; a stream of rows does not.
    pub(super) sqlstate: Option<String>,
}

impl Failure {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), sqlstate: None }
    }
}

/// Of an engine that is well.
impl From<Failure> for EngineError {
    fn from(failure: Failure) -> Self {
        Self::refused(failure.message)
    }
}

/// What a driver says of a failure.
#[repr(C)]
struct AdbcError {
    message: *mut c_char,
    vendor_code: i32,
    sqlstate: [c_char; 5],
    release: Option<unsafe extern "C" fn(*mut AdbcError)>,
    private_data: *mut c_void,
    private_driver: *mut c_void,
}

/// A database, connection or statement: all three look the same.
#[repr(C)]
struct Handle {
    private_data: *mut c_void,
    private_driver: *mut c_void,
}

type OnHandle = unsafe extern "C" fn(*mut Handle, *mut AdbcError) -> u8;
type OnTwo = unsafe extern "C" fn(*mut Handle, *mut Handle, *mut AdbcError) -> u8;
type SetOption = unsafe extern "C" fn(*mut Handle, *const c_char, *const c_char, *mut AdbcError) -> u8;
type SetText = unsafe extern "C" fn(*mut Handle, *const c_char, *mut AdbcError) -> u8;
type Execute = unsafe extern "C" fn(*mut Handle, *mut ArrowArrayStream, *mut i64, *mut AdbcError) -> u8;
type Unused = *const c_void;

/// The functions of a driver, in the order of the standard.
#[repr(C)]
struct Functions {
    private_data: *mut c_void,
    private_manager: *mut c_void,
    release: Option<unsafe extern "C" fn(*mut Functions, *mut AdbcError) -> u8>,
    database_init: Option<OnHandle>,
    database_new: Option<OnHandle>,
    database_set_option: Option<SetOption>,
    database_release: Option<OnHandle>,
    connection_commit: Unused,
    connection_get_info: Unused,
    connection_get_objects: Unused,
    connection_get_table_schema: Unused,
    connection_get_table_types: Unused,
    connection_init: Option<OnTwo>,
    connection_new: Option<OnHandle>,
    connection_set_option: Unused,
    connection_read_partition: Unused,
    connection_release: Option<OnHandle>,
    connection_rollback: Unused,
    statement_bind: Unused,
    statement_bind_stream: Unused,
    statement_execute_query: Option<Execute>,
    statement_execute_partitions: Unused,
    statement_get_parameter_schema: Unused,
    statement_new: Option<OnTwo>,
    statement_prepare: Unused,
    statement_release: Option<OnHandle>,
    statement_set_option: Option<SetOption>,
    statement_set_sql_query: Option<SetText>,
    statement_set_substrait_plan: Unused,
    /// From here on those of version 1.1; missing in a table of 1.0.
    of_errors: [Unused; 3],
    of_databases: [Unused; 7],
    of_connections: [Unused; 10],
    statement_cancel: Option<OnHandle>,
    /// Room for what later versions of the standard append, should a driver fill it in unasked.
    later: [Unused; 64],
}

type Init = unsafe extern "C" fn(c_int, *mut c_void, *mut AdbcError) -> u8;

/// A loaded driver. Its library stays loaded as long as the process.
pub(super) struct Driver {
    functions: Box<Functions>,
}

// SAFETY: the table is not changed after it was filled in, and ADBC's functions may be called from any thread as long as
// one handle is used by one thread at a time, which `Link`'s `&mut self` ensures; a statement may be cancelled beside that (`Cancelled`).
unsafe impl Send for Driver {}
// SAFETY: as above.
unsafe impl Sync for Driver {}

fn no_error() -> AdbcError {
    let (private_data, private_driver) = (null_mut(), null_mut());
    AdbcError {
        message: null_mut(),
        vendor_code: 0,
        sqlstate: [0; 5],
        release: None,
        private_data,
        private_driver,
    }
}

fn no_handle() -> Box<Handle> {
    Box::new(Handle { private_data: null_mut(), private_driver: null_mut() })
}

fn lacking() -> Failure {
    Failure::new("the driver lacks a function of ADBC 1.0")
}

/// Calls a function of the driver and turns its status and error into a result.
fn call(function: impl FnOnce(*mut AdbcError) -> u8) -> Result<(), Failure> {
    let mut error = no_error();
    if function(&raw mut error) == OK {
        return Ok(());
    }
    let message = if error.message.is_null() {
        "the driver failed and did not say why".to_owned()
    } else {
        // SAFETY: a driver that fails sets `message` to a text that lives until `release`.
        unsafe { CStr::from_ptr(error.message) }.to_string_lossy().into_owned()
    };
    let sqlstate: String = error.sqlstate.iter().map(|&byte| char::from(byte.cast_unsigned())).collect();
    let is_said = sqlstate.chars().all(|character| character.is_ascii_alphanumeric());
    if let Some(release) = error.release {
        // SAFETY: the driver's own function, on the error that it filled in, once.
        unsafe { release(&raw mut error) };
    }
    // Drivers add the statement that they got, which nobody wrote.
    let ends = ["\nquery:", "\nQuery was:"].iter().filter_map(|words| message.find(words));
    let said = message[..ends.min().unwrap_or(message.len())].trim_end();
    Err(Failure { message: said.to_owned(), sqlstate: is_said.then_some(sqlstate) })
}

fn c_text(text: &str) -> Result<CString, Failure> {
    CString::new(text).map_err(|_| Failure::new("a statement or option holds a zero byte"))
}

impl Driver {
    /// Loads a library and asks its entry point for the functions.
    pub(super) fn load(library: &Path, entry: &CStr) -> Result<Self, EngineError> {
        let symbol = Library::load(library)?.symbol(entry)?;
        // SAFETY: the entry point of an ADBC driver has this type by the standard.
        let init = unsafe { std::mem::transmute::<*mut c_void, Init>(symbol) };
        let [newest, oldest] = VERSIONS;
        Self::filled(init, newest).or_else(|_| Self::filled(init, oldest)).map_err(EngineError::from)
    }

    /// With the functions that its library gives for a version.
    fn filled(init: Init, version: c_int) -> Result<Self, Failure> {
        // SAFETY: all zero is a table whose functions are all missing.
        let mut functions: Box<Functions> = Box::new(unsafe { std::mem::zeroed() });
        let table: *mut Functions = &raw mut *functions;
        // SAFETY: the table has the layout that the driver fills in for this version.
        call(|error| unsafe { init(version, table.cast(), error) })?;
        Ok(Self { functions })
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if let Some(release) = self.functions.release {
            let mut error = no_error();
            // SAFETY: the driver's own function on its own table, once, after all handles are gone.
            unsafe { release(&raw mut *self.functions, &raw mut error) };
        }
    }
}

/// An open database.
pub(super) struct Database {
    driver: Driver,
    handle: *mut Handle,
}

// SAFETY: the handle is passed to the driver alone, to make connections, which ADBC allows from any thread.
unsafe impl Send for Database {}
// SAFETY: as above.
unsafe impl Sync for Database {}

impl Database {
    pub(super) fn open(driver: Driver, options: &[(&str, &str)]) -> Result<Self, Failure> {
        let functions = &driver.functions;
        let new = functions.database_new.ok_or_else(lacking)?;
        let (set, init) = (functions.database_set_option, functions.database_init.ok_or_else(lacking)?);
        let database = Self { handle: Box::into_raw(no_handle()), driver };
        let handle = database.handle;
        // SAFETY: a handle of ours that is empty.
        call(|error| unsafe { new(handle, error) })?;
        for (name, value) in options {
            let (name, value) = (c_text(name)?, c_text(value)?);
            let set = set.ok_or_else(lacking)?;
            // SAFETY: a handle that was made, and two texts that outlive the call.
            call(|error| unsafe { set(handle, name.as_ptr(), value.as_ptr(), error) })?;
        }
        // SAFETY: a handle that was made.
        call(|error| unsafe { init(handle, error) })?;
        Ok(database)
    }
}

/// Releases a handle and the memory it stands in.
fn release(handle: *mut Handle, function: Option<OnHandle>) {
    // SAFETY: made by `Box::into_raw`, and given up here, once.
    let mut handle = unsafe { Box::from_raw(handle) };
    if let Some(function) = function
        && !handle.private_data.is_null()
    {
        let mut error = no_error();
        // SAFETY: the driver's own function on a handle that it made, once.
        unsafe { function(&raw mut *handle, &raw mut error) };
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        release(self.handle, self.driver.functions.database_release);
    }
}

/// A connection to a database.
pub(super) struct Link {
    database: Arc<Database>,
    handle: *mut Handle,
}

// SAFETY: a connection may be used by any thread, one at a time.
unsafe impl Send for Link {}

impl Link {
    pub(super) fn connect(database: Arc<Database>) -> Result<Self, Failure> {
        let functions = &database.driver.functions;
        let new = functions.connection_new.ok_or_else(lacking)?;
        let init = functions.connection_init.ok_or_else(lacking)?;
        let link = Self { handle: Box::into_raw(no_handle()), database };
        // SAFETY: a handle of ours that is empty.
        call(|error| unsafe { new(link.handle, error) })?;
        // SAFETY: a connection that was made, and a database that is open.
        call(|error| unsafe { init(link.handle, link.database.handle, error) })?;
        Ok(link)
    }

    /// Runs a statement and reads all that it gives.
    pub(super) fn run(&mut self, sql: &str) -> Result<Rows, Failure> {
        self.run_counted(sql).map(|(rows, _)| rows)
    }

    /// Runs a statement; what it gives, and how many rows it touched, if the driver says so.
    pub(super) fn run_counted(&mut self, sql: &str) -> Result<(Rows, Option<u64>), Failure> {
        let statement = self.statement(sql)?;
        self.answer(&statement)
    }

    /// As [`run`](Self::run), with an option of the driver's for this statement.
    pub(super) fn run_with(&mut self, sql: &str, option: &CStr, value: &CStr) -> Result<Rows, Failure> {
        let statement = self.statement(sql)?;
        let set = self.database.driver.functions.statement_set_option.ok_or_else(lacking)?;
        // SAFETY: a statement that was made, and two texts that outlive the call.
        call(|error| unsafe { set(statement.handle, option.as_ptr(), value.as_ptr(), error) })?;
        self.answer(&statement).map(|(rows, _)| rows)
    }

    /// Runs a statement that gives no rows; how many it touched, if the driver says so.
    pub(super) fn change(&mut self, sql: &str) -> Result<Option<u64>, Failure> {
        let statement = self.statement(sql)?;
        let execute = self.database.driver.functions.statement_execute_query.ok_or_else(lacking)?;
        let mut touched = -1_i64;
        self.cancellable(&statement, || {
            // SAFETY: a statement with its text, no stream, which says that no rows are wanted, and a number to fill in.
            call(|error| unsafe { execute(statement.handle, null_mut(), &raw mut touched, error) })
        })?;
        Ok(u64::try_from(touched).ok())
    }

    /// A statement with its text.
    fn statement(&mut self, sql: &str) -> Result<Statement, Failure> {
        let functions = &self.database.driver.functions;
        let new = functions.statement_new.ok_or_else(lacking)?;
        let set = functions.statement_set_sql_query.ok_or_else(lacking)?;
        let sql = c_text(sql)?;
        let statement =
            Statement { handle: Box::into_raw(no_handle()), release: functions.statement_release };
        // SAFETY: a connection that is open, and a handle of ours that is empty.
        call(|error| unsafe { new(self.handle, statement.handle, error) })?;
        // SAFETY: a statement that was made, and a text that outlives the call.
        call(|error| unsafe { set(statement.handle, sql.as_ptr(), error) })?;
        Ok(statement)
    }

    fn answer(&mut self, statement: &Statement) -> Result<(Rows, Option<u64>), Failure> {
        let execute = self.database.driver.functions.statement_execute_query.ok_or_else(lacking)?;
        self.cancellable(statement, || {
            let mut stream = ArrowArrayStream::empty();
            let mut touched = -1_i64;
            // SAFETY: a statement with its text, and an empty stream and a number for the driver to fill in.
            call(|error| unsafe { execute(statement.handle, &raw mut stream, &raw mut touched, error) })?;
            Ok((read_stream(&mut stream)?, u64::try_from(touched).ok()))
        })
    }

    /// Works on a statement, whose driver is asked to end that once nobody waits for it any more.
    fn cancellable<T>(
        &self,
        statement: &Statement,
        work: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let cancel = self.database.driver.functions.statement_cancel;
        let cancelled = Cancelled { handle: statement.handle, cancel };
        // The statement is there until behind the work, and nobody cancels it behind the work.
        stoppable(move || cancelled.ask(), work).unwrap_or_else(|| Err(Failure::new(NOBODY_WAITS)))
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        release(self.handle, self.database.driver.functions.connection_release);
    }
}

/// A statement while it runs.
struct Statement {
    handle: *mut Handle,
    release: Option<OnHandle>,
}

impl Drop for Statement {
    fn drop(&mut self) {
        release(self.handle, self.release);
    }
}

/// What is said of a call that was not made, or not to its end, because nobody waits for it.
pub(super) const NOBODY_WAITS: &str = "nobody waits for the statement any more";

/// A statement as those who cancel it have it.
struct Cancelled {
    handle: *mut Handle,
    /// None if the driver cannot.
    cancel: Option<OnHandle>,
}

// SAFETY: ADBC 1.1 asks of a driver that its function for cancelling a statement may be called by any thread while another one works on
// the statement; nothing else is done with the handle.
unsafe impl Send for Cancelled {}
// SAFETY: as above.
unsafe impl Sync for Cancelled {}

impl Cancelled {
    /// Asks the driver to end the work on the statement; `Break` if it cannot.
    fn ask(&self) -> ControlFlow<()> {
        let Some(cancel) = self.cancel else { return ControlFlow::Break(()) };
        let mut error = no_error();
        // SAFETY: the driver's own function, on a statement that is there.
        let status = unsafe { cancel(self.handle, &raw mut error) };
        if let Some(release) = error.release {
            // SAFETY: the driver's own function, on the error that it filled in, once.
            unsafe { release(&raw mut error) };
        }
        // Any other failure may be of the moment: a server that takes no connection.
        if status == NOT_IMPLEMENTED { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

#[cfg(test)]
mod tests;
