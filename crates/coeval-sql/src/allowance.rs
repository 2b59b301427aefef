// SPDX-License-Identifier: Apache-2.0
//! What the functions of a statement look at while they run: whether it is to end, and what memory they may take.
//!
//! A function may make much of little: `repeat('x', 1000000000)`, a series of a billion members. So whatever makes a
//! value in a loop, or of a size that its arguments say, counts on a [`Meter`]: before it takes memory, and at each step.
//!
//! | bound | error |
//! |---|---|
//! | one value, as in PostgreSQL: 1 GiB | `54000` |
//! | the values of one batch of rows: 2 GiB, which is what Arrow's offsets reach | `54000` |
//! | what the query may have in all (`memory.rs`) | `53200` |
//! | a value of a constant expression, while the statement is planned: 64 KiB | none: it is computed when it runs |

use crate::cancel::Lifeline;
use crate::carried::Carry;
use crate::error::{SqlError, SqlState};
use arrow::array::ArrayRef;
use datafusion::common::config::ConfigOptions;
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::logical_expr::ColumnarValue;
use parking_lot::Mutex;
use std::cell::{Cell, RefCell};
use std::sync::{Arc, Weak};

/// The largest value.
pub(crate) const VALUE_BYTES_MAX: usize = 1 << 30;

/// What the values of a batch take at most: offsets of arrays have 31 bits.
const BATCH_BYTES_MAX: usize = i32::MAX as usize;

/// The largest value that is computed while a statement is planned.
const FOLDED_BYTES_MAX: usize = 64 << 10;

/// Memory is asked for in steps of this size.
const STEP_BYTES: usize = 64 << 10;

/// A loop looks once in so many steps whether the statement is to end.
const STEPS_BETWEEN_LOOKS: u32 = 1 << 8;

/// What a statement hands to its functions.
#[derive(Clone, Debug)]
pub(crate) struct Allowance {
    lifeline: Lifeline,
    memory: Arc<dyn MemoryPool>,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Planning,
    Running,
}

impl Carry for Allowance {
    const NAME: &'static str = "coeval_allowance";
}

impl Allowance {
    /// That of the statement that runs on this thread, in this environment.
    pub(crate) fn of(environment: &RuntimeEnv) -> Self {
        let memory = Arc::clone(&environment.memory_pool);
        Self { lifeline: Lifeline::of_query(Arc::clone(&memory)), memory, phase: Phase::Running }
    }

    /// What the statement's threads look at.
    pub(crate) fn lifeline(&self) -> &Lifeline {
        &self.lifeline
    }

    /// The same while constants are folded.
    pub(crate) fn while_planning(&self) -> Self {
        Self { phase: Phase::Planning, ..self.clone() }
    }

    /// The same for functions that a rule of planning makes, and that run later.
    pub(crate) fn while_running(&self) -> Self {
        Self { phase: Phase::Running, ..self.clone() }
    }
}

/// What functions look at in a plan that one statement after the other runs. Their options have it in the place of an [`Allowance`]: a plan
/// keeps the options that it was made with.
///
/// # Locking
/// Held to copy or to put in its place what one statement hands to its functions; no other lock is taken meanwhile.
#[derive(Clone, Debug)]
pub(crate) struct LentAllowance(Arc<Mutex<Option<Allowance>>>);

impl Carry for LentAllowance {
    const NAME: &'static str = "coeval_lent_allowance";
}

impl LentAllowance {
    /// That of no statement.
    pub(crate) fn new() -> Self {
        Self(Arc::default())
    }

    /// Functions look at this as long as the loan lives; `None` if another statement lends already.
    pub(crate) fn lend(&self, allowance: &Allowance) -> Option<Loan> {
        let mut lent = self.0.lock();
        if lent.is_some() {
            return None;
        }
        *lent = Some(allowance.clone());
        Some(Loan(self.clone()))
    }

    fn lent(&self) -> Option<Allowance> {
        self.0.lock().clone()
    }

    /// Whether a statement may lend.
    #[cfg(test)]
    pub(crate) fn is_free(&self) -> bool {
        self.0.lock().is_none()
    }
}

/// That functions of a plan look at what one statement hands them, as long as this lives.
#[derive(Debug)]
pub(crate) struct Loan(LentAllowance);

impl Drop for Loan {
    fn drop(&mut self) {
        // It goes when the lock is free again.
        let _lent = self.0.0.lock().take();
    }
}

/// The loan of a statement, for the rules that plan it: what they make may hold it, and the loan lives as long as that. The options that
/// carry it go along with much that lives longer, and do not hold it themselves.
#[derive(Clone, Debug)]
pub(crate) struct LoanInPlanning(Weak<Loan>);

impl Carry for LoanInPlanning {
    const NAME: &'static str = "coeval_loan_in_planning";
}

impl LoanInPlanning {
    /// This one.
    pub(crate) fn of(loan: &Arc<Loan>) -> Self {
        Self(Arc::downgrade(loan))
    }

    /// The loan, if it lives.
    pub(crate) fn loan(&self) -> Option<Arc<Loan>> {
        self.0.upgrade()
    }
}

/// Counts the memory and the steps of one call of a function. The memory is given back when this is dropped: from then on the
/// caller accounts for the result.
#[derive(Debug)]
pub(crate) struct Meter {
    allowance: Option<Allowance>,
    reservation: Option<MemoryReservation>,
    bytes: Cell<usize>,
    /// What is taken besides for work that ends with the call.
    workspace: Cell<usize>,
    steps: Cell<u32>,
}

impl Meter {
    /// A meter for a call of the function of this name in the statement of these options.
    pub(crate) fn begin(options: &ConfigOptions, name: &str) -> Self {
        let allowance = match LentAllowance::carried_by(options) {
            Some(lent) => lent.lent(),
            None => Allowance::carried_by(options).cloned(),
        };
        let reserve = |allowance: &Allowance| MemoryConsumer::new(name).register(&allowance.memory);
        let reservation = allowance.as_ref().map(reserve);
        Self { allowance, reservation, bytes: Cell::new(0), workspace: Cell::new(0), steps: Cell::new(0) }
    }

    /// One more step of a loop.
    ///
    /// # Errors
    /// The error of a statement that was told to end.
    #[inline]
    pub(crate) fn step(&self) -> Result<(), SqlError> {
        self.steps.set(self.steps.get().wrapping_add(1));
        if self.steps.get().is_multiple_of(STEPS_BETWEEN_LOOKS) { self.look() } else { Ok(()) }
    }

    /// Whether the statement is to end.
    ///
    /// # Errors
    /// Its error then.
    pub(crate) fn look(&self) -> Result<(), SqlError> {
        self.allowance.as_ref().map_or(Ok(()), |allowance| allowance.lifeline.check())
    }

    /// A value of this size is about to be made.
    ///
    /// # Errors
    /// See the module.
    pub(crate) fn value(&self, bytes: usize) -> Result<(), SqlError> {
        if bytes > VALUE_BYTES_MAX {
            return Err(too_large());
        }
        self.take(bytes)
    }

    /// A value that has so many bytes is about to become this much longer.
    ///
    /// # Errors
    /// See the module.
    #[inline]
    pub(crate) fn longer(&self, before: usize, more: usize) -> Result<(), SqlError> {
        if before.saturating_add(more) > VALUE_BYTES_MAX {
            return Err(too_large());
        }
        self.take(more)
    }

    /// An argument as a column: the copies of a constant are counted before they are made.
    ///
    /// # Errors
    /// See the module.
    pub(crate) fn column(&self, argument: &ColumnarValue, rows: usize) -> Result<ArrayRef, DataFusionError> {
        if let ColumnarValue::Scalar(constant) = argument
            && rows > 1
        {
            self.take(constant.size().saturating_mul(rows))?;
        }
        argument.to_array(rows)
    }

    /// So many bytes more are about to be taken.
    ///
    /// # Errors
    /// See the module.
    #[inline]
    pub(crate) fn take(&self, bytes: usize) -> Result<(), SqlError> {
        let before = self.bytes.get();
        let after = before.saturating_add(bytes);
        if before / STEP_BYTES != after / STEP_BYTES {
            self.grow(after)?;
        }
        self.bytes.set(after);
        Ok(())
    }

    /// What the call works with beside the values that it makes is about to take so many bytes in all. Of this a batch may
    /// need as much as the query has.
    ///
    /// # Errors
    /// The error of a statement that was told to end, `53200`.
    pub(crate) fn workspace(&self, bytes: usize) -> Result<(), SqlError> {
        self.look()?;
        if bytes > self.workspace.get() {
            if let Some(reservation) = &self.reservation {
                reservation.try_resize(self.bytes.get().saturating_add(bytes))?;
            }
            self.workspace.set(bytes);
        }
        Ok(())
    }

    #[cold]
    fn grow(&self, after: usize) -> Result<(), SqlError> {
        self.look()?;
        let is_planning = self.allowance.as_ref().is_some_and(|allowance| allowance.phase == Phase::Planning);
        if is_planning && after > FOLDED_BYTES_MAX {
            return Err(SqlError::new(
                SqlState::ProgramLimitExceeded,
                "a constant is too large to be folded",
            ));
        }
        if after > BATCH_BYTES_MAX {
            return Err(SqlError::new(
                SqlState::ProgramLimitExceeded,
                "values of several rows are too large together",
            )
            .with_detail("The values that a function gives for a batch of rows may take 2 GiB.")
            .with_hint("Let the statement read fewer rows, or make smaller values."));
        }
        if let Some(reservation) = &self.reservation {
            reservation.try_resize(after.saturating_add(self.workspace.get()))?;
        }
        Ok(())
    }
}

/// What an operator has made since it was asked for its next batch.
#[derive(Debug)]
struct Made {
    memory: Arc<dyn MemoryPool>,
    reservation: Option<MemoryReservation>,
}

thread_local! {
    /// Of the operator that is at work on this thread.
    static MADE: RefCell<Option<Made>> = const { RefCell::new(None) };
}

/// What was at work on this thread before.
struct MadeBefore(Option<Made>);

impl Drop for MadeBefore {
    fn drop(&mut self) {
        MADE.set(self.0.take());
    }
}

/// An operator works on this thread: what it has [`made`] by then is given back with the end of the work, when it is a
/// batch on its way.
pub(crate) fn making<T>(memory: &Arc<dyn MemoryPool>, work: impl FnOnce() -> T) -> T {
    let before = MADE.replace(Some(Made { memory: Arc::clone(memory), reservation: None }));
    let _back = MadeBefore(before);
    work()
}

/// So many bytes more are made by the operator that works on this thread.
///
/// # Errors
/// `53200`.
pub(crate) fn made(bytes: usize) -> Result<(), DataFusionError> {
    MADE.with_borrow_mut(|made| {
        let Some(Made { memory, reservation }) = made else { return Ok(()) };
        let reserve = || MemoryConsumer::new("the values of a window").register(memory);
        reservation.get_or_insert_with(reserve).try_grow(bytes)
    })
}

/// `54000`: a value beyond what values may take.
pub(crate) fn too_large() -> SqlError {
    SqlError::new(SqlState::ProgramLimitExceeded, "requested length too large")
        .with_detail("A value may take 1 GiB.")
}
