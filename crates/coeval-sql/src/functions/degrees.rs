// SPDX-License-Identifier: Apache-2.0
//! Trigonometry in degrees, exact where the result is: `sind(30)` is 0.5.
//!
//! A sine is computed for at most 30 degrees and a cosine for at most 60, as multiples of what comes out at these ends; all others follow
//! by symmetry. So the result at an end is what it should be, whatever the last digits of pi are. The ends are hidden from the compiler,
//! whose library may have other last digits than the one that computes all others.

use super::call::Call;
use super::choice::{Form, Takes};
use super::{Entry, strict};
use crate::error::{SqlError, out_of_range};
use coeval_store::{ColumnType, Value};
use std::hint::black_box;

const DOUBLE: Takes = Takes::Type(ColumnType::Double);

pub(super) const ENTRIES: &[Entry] = &[
    strict("sind", &[Form::new(&[DOUBLE], ColumnType::Double, |call| of_angle(call, sine))]),
    strict("cosd", &[Form::new(&[DOUBLE], ColumnType::Double, |call| of_angle(call, cosine))]),
    strict("tand", &[Form::new(&[DOUBLE], ColumnType::Double, |call| of_angle(call, tangent))]),
    strict("cotd", &[Form::new(&[DOUBLE], ColumnType::Double, |call| of_angle(call, cotangent))]),
    strict("asind", &[Form::new(&[DOUBLE], ColumnType::Double, |call| of_ratio(call, arc_sine))]),
    strict("acosd", &[Form::new(&[DOUBLE], ColumnType::Double, |call| of_ratio(call, arc_cosine))]),
    strict(
        "atand",
        &[Form::new(&[DOUBLE], ColumnType::Double, |call| {
            Ok(Value::Float64(call.double(0).atan() / black_box(1.0_f64).atan() * 45.0))
        })],
    ),
    strict(
        "atan2d",
        &[Form::new(&[DOUBLE, DOUBLE], ColumnType::Double, |call| {
            Ok(Value::Float64(call.double(0).atan2(call.double(1)) / black_box(1.0_f64).atan() * 45.0))
        })],
    ),
];

/// A function of an angle.
///
/// # Errors
/// `22003` for an infinite one.
fn of_angle(call: &Call<'_>, function: fn(f64) -> f64) -> Result<Value, SqlError> {
    let angle = call.double(0);
    if angle.is_infinite() {
        return Err(out_of_range("input is out of range"));
    }
    Ok(Value::Float64(if angle.is_nan() { angle } else { function(angle % 360.0) }))
}

/// The angle of a sine or cosine.
///
/// # Errors
/// `22003` for what is none.
fn of_ratio(call: &Call<'_>, function: fn(f64) -> f64) -> Result<Value, SqlError> {
    let ratio = call.double(0);
    if ratio.abs() > 1.0 {
        return Err(out_of_range("input is out of range"));
    }
    Ok(Value::Float64(if ratio.is_nan() { ratio } else { function(ratio) }))
}

/// The sine of at most 30 degrees.
fn small_sine(angle: f64) -> f64 {
    angle.to_radians().sin() / black_box(30.0_f64).to_radians().sin() / 2.0
}

/// The cosine of at most 60 degrees.
fn small_cosine(angle: f64) -> f64 {
    1.0 - (1.0 - angle.to_radians().cos()) / (1.0 - black_box(60.0_f64).to_radians().cos()) / 2.0
}

/// The sine of at most 90 degrees.
fn first_sine(angle: f64) -> f64 {
    if angle <= 30.0 { small_sine(angle) } else { small_cosine(90.0 - angle) }
}

/// The cosine of at most 90 degrees.
fn first_cosine(angle: f64) -> f64 {
    if angle <= 60.0 { small_cosine(angle) } else { small_sine(90.0 - angle) }
}

/// An angle of less than a whole turn as one of at most 90 degrees, with the signs that its sine and its cosine have.
fn first_quarter(angle: f64) -> (f64, f64, f64) {
    let (angle, sine) = if angle < 0.0 { (-angle, -1.0) } else { (angle, 1.0) };
    let (angle, sine) = if angle > 180.0 { (360.0 - angle, -sine) } else { (angle, sine) };
    if angle > 90.0 { (180.0 - angle, sine, -1.0) } else { (angle, sine, 1.0) }
}

fn sine(angle: f64) -> f64 {
    let (angle, sign, _) = first_quarter(angle);
    sign * first_sine(angle)
}

fn cosine(angle: f64) -> f64 {
    let (angle, _, sign) = first_quarter(angle);
    sign * first_cosine(angle)
}

fn tangent(angle: f64) -> f64 {
    let (angle, sine, cosine) = first_quarter(angle);
    let at_45 = first_sine(black_box(45.0)) / first_cosine(black_box(45.0));
    without_sign(sine * cosine * (first_sine(angle) / first_cosine(angle) / at_45))
}

fn cotangent(angle: f64) -> f64 {
    let (angle, sine, cosine) = first_quarter(angle);
    let at_45 = first_cosine(black_box(45.0)) / first_sine(black_box(45.0));
    without_sign(sine * cosine * (first_cosine(angle) / first_sine(angle) / at_45))
}

/// Zero has no sign.
fn without_sign(number: f64) -> f64 {
    if number == 0.0 { 0.0 } else { number }
}

/// The angle of a sine that is not negative.
fn first_arc_sine(ratio: f64) -> f64 {
    if ratio <= 0.5 {
        ratio.asin() / black_box(0.5_f64).asin() * 30.0
    } else {
        90.0 - ratio.acos() / black_box(0.5_f64).acos() * 60.0
    }
}

/// The angle of a cosine that is not negative.
fn first_arc_cosine(ratio: f64) -> f64 {
    if ratio <= 0.5 {
        90.0 - ratio.asin() / black_box(0.5_f64).asin() * 30.0
    } else {
        ratio.acos() / black_box(0.5_f64).acos() * 60.0
    }
}

fn arc_sine(ratio: f64) -> f64 {
    if ratio >= 0.0 { first_arc_sine(ratio) } else { -first_arc_sine(-ratio) }
}

fn arc_cosine(ratio: f64) -> f64 {
    if ratio >= 0.0 { first_arc_cosine(ratio) } else { 90.0 + first_arc_sine(-ratio) }
}
