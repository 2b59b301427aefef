// SPDX-License-Identifier: Apache-2.0
//! What leaves the range of floats: PostgreSQL has an error (`22003`) where processors have infinity and zero.

use crate::error::{SqlError, out_of_range};
use crate::types::one_nan::real_with_one_nan;

/// A result that is infinite though nothing that it was made of is.
#[cold]
pub(crate) fn float_overflow() -> SqlError {
    out_of_range("value out of range: overflow")
}

/// One that is zero though it is not, but for the digits that a float has.
#[cold]
pub(crate) fn float_underflow() -> SqlError {
    out_of_range("value out of range: underflow")
}

/// The number as a `real`.
///
/// # Errors
/// If it is too large for one, or too small.
pub(crate) fn real_of(number: f64) -> Result<f32, SqlError> {
    let real = number as f32;
    if real.is_infinite() && number.is_finite() {
        return Err(float_overflow());
    }
    if real == 0.0 && number != 0.0 {
        return Err(float_underflow());
    }
    Ok(real_with_one_nan(real))
}
