// SPDX-License-Identifier: Apache-2.0
//! A session: statements with parameters, one after the other.

use crate::errors::{exception, refused};
use crate::importing;
use crate::parameters::{Parameters, own_type};
use crate::placeholders::{Given, Numbered, numbered};
use crate::rows::Rows;
use chrono_tz::Tz;
use coeval::{CancelHandle, ColumnType, Error, Outcome, Prepared, SqlState, TransactionStatus, Value};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyString};
use pyo3_arrow::PyRecordBatchReader;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

/// So many texts of statements with parameters are remembered; then all are forgotten.
const KNOWN_MAX: usize = 256;

/// One client's statements.
///
/// # Locking
/// `open` is held while a statement runs, by a thread that does not hold the interpreter. So whoever holds the interpreter gives
/// it away before it takes the lock. `loads` is held for a look.
#[pyclass(frozen, module = "coeval._native")]
pub(crate) struct Session {
    open: Mutex<Option<Open>>,
    cancel: CancelHandle,
    /// What reads documents, if it is not `json.loads`.
    loads: Mutex<Option<Py<PyAny>>>,
}

struct Open {
    session: coeval::Session,
    /// Statements with parameters, by text and how these are given.
    known: HashMap<(String, Given), Arc<Known>>,
}

/// A statement with parameters.
struct Known {
    numbered: Numbered,
    /// By the types that are not inferred, but those of the values.
    prepared: Mutex<Vec<(Vec<Option<ColumnType>>, Prepared)>>,
}

impl Session {
    pub(crate) fn new(session: coeval::Session) -> Self {
        let cancel = session.cancel_handle();
        Self {
            open: Mutex::new(Some(Open { session, known: HashMap::new() })),
            cancel,
            loads: Mutex::default(),
        }
    }

    /// Runs something with the session, while others have the interpreter.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        run: impl FnOnce(&mut Open) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        let outcome = py.detach(|| self.open.lock().as_mut().map(run));
        let outcome = outcome.ok_or_else(|| refused(py, "08003", "the session is closed", None))?;
        outcome.map_err(|error| exception(py, &error))
    }

    /// The statement, prepared for these values. The types of parameters are those that the statement infers; where it says
    /// nothing about one, which then counts as text or is refused, the value says what it is.
    fn prepared(&self, py: Python<'_>, known: &Known, given: &[Bound<'_, PyAny>]) -> PyResult<Prepared> {
        let inferred = self.prepared_with(py, known, Vec::new())?;
        let is_open = |index: usize| match &inferred {
            Ok(inferred) => inferred.parameter_types().get(index).is_some_and(|ty| *ty == ColumnType::Text),
            Err(_) => true,
        };
        let texts = if inferred.is_err() { Some(ColumnType::Text) } else { None };
        // Where the statement only asks whether it is NULL, a NULL may be of any type.
        let says_nothing = |error: &Error| error.state() == SqlState::IndeterminateDatatype;
        let nulls = if inferred.as_ref().is_err_and(says_nothing) { texts } else { None };
        let own = given.iter().enumerate().map(|(index, value)| match value {
            _ if !is_open(index) => Ok(None),
            null if null.is_none() => Ok(nulls),
            value => own_type(value, texts),
        });
        let own = own.collect::<PyResult<Vec<_>>>()?;
        let prepared = match inferred {
            // What is done with an array is often planned as of nothing, and refused as such.
            Err(error) if !error.is_about_parameter_types() && !own.iter().flatten().any(is_array) => {
                Err(error)
            }
            inferred if own.iter().all(Option::is_none) => inferred,
            _ => self.prepared_with(py, known, own)?,
        };
        prepared.map_err(|error| exception(py, &error))
    }

    /// The statement, prepared with these types of its parameters where they are given.
    fn prepared_with(
        &self,
        py: Python<'_>,
        known: &Known,
        types: Vec<Option<ColumnType>>,
    ) -> PyResult<Result<Prepared, Error>> {
        let found = known.prepared.lock().iter().find(|(of, _)| *of == types).map(|(_, made)| made.clone());
        if let Some(found) = found {
            return Ok(Ok(found));
        }
        let sql = &known.numbered.sql;
        let made = self.with(py, |open| Ok(open.session.prepare_aside(sql, &types)))?;
        Ok(made.inspect(|made| known.prepared.lock().push((types, made.clone()))))
    }

    fn known(&self, py: Python<'_>, sql: &str, given: Given) -> PyResult<(Arc<Known>, Tz)> {
        self.with(py, |open| {
            let zone = open.session.settings().zone();
            let key = (sql.to_owned(), given);
            if let Some(known) = open.known.get(&key) {
                return Ok((Arc::clone(known), zone));
            }
            if open.known.len() >= KNOWN_MAX {
                open.known.clear();
            }
            let known = Known { numbered: numbered(sql, given), prepared: Mutex::default() };
            let known = Arc::new(known);
            open.known.insert(key, Arc::clone(&known));
            Ok((known, zone))
        })
    }

    /// A statement and the values of its parameters.
    fn bound(
        &self,
        py: Python<'_>,
        sql: &str,
        parameters: &Bound<'_, PyAny>,
    ) -> PyResult<(Prepared, Vec<Value>, Tz)> {
        let (known, zone) = self.known(py, sql, Given::of(parameters))?;
        let given = if Given::of(parameters) == Given::ByName {
            let value = |name: &String| match parameters.get_item(name) {
                Ok(value) => Ok(value),
                Err(_) => {
                    Err(refused(py, "07001", &format!("there is no value for the parameter ${name}"), None))
                }
            };
            known.numbered.names.iter().map(value).collect::<PyResult<Vec<_>>>()?
        } else if parameters.is_instance_of::<PyString>() {
            let hint = Some("Give a list or a tuple, as in [\"text\"].");
            return Err(refused(
                py,
                "07001",
                "parameters are a sequence of values, and a text is one value",
                hint,
            ));
        } else {
            parameters.try_iter()?.collect::<PyResult<Vec<_>>>()?
        };
        let prepared = self.prepared(py, &known, &given)?;
        let types = prepared.parameter_types();
        if types.len() != given.len() {
            let (wanted, given) = (types.len(), given.len());
            let message = format!("the statement has {wanted} parameters, {given} values were given");
            return Err(refused(py, "07001", &message, None));
        }
        let making = Parameters { py, zone };
        let values = given.iter().zip(types).enumerate();
        let values = values.map(|(index, (value, ty))| making.value(value, *ty, index + 1));
        let values = values.collect::<PyResult<Vec<_>>>()?;
        Ok((prepared, values, zone))
    }
}

fn is_array(ty: &ColumnType) -> bool {
    matches!(ty, ColumnType::Array(_))
}

#[pymethods]
impl Session {
    /// Runs a text of one or several statements, or one statement with parameters; gives the rows of the last one.
    #[pyo3(signature = (sql, parameters = None))]
    fn run(&self, py: Python<'_>, sql: &str, parameters: Option<&Bound<'_, PyAny>>) -> PyResult<Rows> {
        let (outcome, zone): (Outcome, Tz) = match parameters {
            None => self.with(py, |open| Ok((open.session.start(sql)?, open.session.settings().zone())))?,
            Some(parameters) => {
                let (prepared, values, zone) = self.bound(py, sql, parameters)?;
                (self.with(py, |open| open.session.start_prepared(&prepared, &values))?, zone)
            }
        };
        let loads = self.loads.lock().as_ref().map(|loads| loads.clone_ref(py));
        Ok(Rows::new(outcome, zone, loads))
    }

    /// Reads documents with this from the next statement on, in place of `json.loads`.
    fn set_json_loads(&self, loads: Py<PyAny>) {
        *self.loads.lock() = Some(loads);
    }

    /// Runs a statement once for each set of parameters, and gives the number of rows that they are about in all.
    fn run_many(&self, py: Python<'_>, sql: &str, sets: &Bound<'_, PyAny>) -> PyResult<u64> {
        let mut rows = 0;
        for parameters in sets.try_iter()? {
            let (prepared, values, _) = self.bound(py, sql, &parameters?)?;
            rows += self.with(py, |open| open.session.execute_prepared(&prepared, &values))?;
        }
        Ok(rows)
    }

    /// "idle", "active" within a transaction block, or "failed" within one of which a statement has failed.
    fn status(&self, py: Python<'_>) -> PyResult<&'static str> {
        self.with(py, |open| {
            Ok(match open.session.transaction_status() {
                TransactionStatus::Idle => "idle",
                TransactionStatus::Active => "active",
                TransactionStatus::Failed => "failed",
            })
        })
    }

    /// What the last statement had to say without failing: its SQLSTATE and the text.
    fn notices(&self, py: Python<'_>) -> PyResult<Vec<(&'static str, String)>> {
        self.with(py, |open| {
            let notices = open.session.take_notices();
            Ok(notices.into_iter().map(|notice| (notice.state.code(), notice.message)).collect())
        })
    }

    /// Ends the statement that runs, with `57014`. If none does, nothing happens.
    fn cancel(&self) {
        self.cancel.cancel();
    }

    /// Names of relations in a text with such parameters that the database does not have.
    #[pyo3(signature = (sql, parameters = None))]
    fn unknown_relations(
        &self,
        py: Python<'_>,
        sql: &str,
        parameters: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Vec<String>> {
        let sql = match parameters {
            None => Cow::Borrowed(sql),
            Some(parameters) => Cow::Owned(numbered(sql, Given::of(parameters)).sql),
        };
        self.with(py, |open| Ok(open.session.unknown_relations(&sql)))
    }

    /// Lends what the stream has as a table of this name. For an INSERT, texts and bytes are read as values of the types that the columns
    /// of their names have.
    #[pyo3(signature = (name, stream, insert = None))]
    fn lend(
        &self,
        py: Python<'_>,
        name: &str,
        stream: PyRecordBatchReader,
        insert: Option<&str>,
    ) -> PyResult<()> {
        let (schema, batches) = importing::batches(py, stream)?;
        self.with(py, |open| match insert {
            Some(insert) => open.session.lend_to_insert(name, insert, &schema, &batches),
            None => open.session.lend(name, &schema, &batches),
        })
    }

    /// Takes back what was lent.
    fn give_back(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        self.with(py, |open| {
            open.session.give_back(name);
            Ok(())
        })
    }

    /// Rolls back what is open, as soon as no statement runs.
    fn close(&self, py: Python<'_>) {
        py.detach(|| drop(self.open.lock().take()));
    }
}
