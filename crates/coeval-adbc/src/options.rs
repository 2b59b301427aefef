// SPDX-License-Identifier: Apache-2.0
//! Values of options, of which ADBC has four kinds.

use adbc_core::error::{Error, Result, Status};
use adbc_core::options::OptionValue;

/// An option's text.
///
/// # Errors
/// If it is of another kind.
pub(crate) fn text(key: &str, value: OptionValue) -> Result<String> {
    match value {
        OptionValue::String(text) => Ok(text),
        other => Err(unfit(key, &other, "a text")),
    }
}

/// Whether an option is on.
///
/// # Errors
/// If it is neither `true` nor `false`.
pub(crate) fn switch(key: &str, value: &OptionValue) -> Result<bool> {
    bool::try_from(value).map_err(|_| unfit(key, value, "'true' or 'false'"))
}

/// An option's number of bytes.
///
/// # Errors
/// If it is no number, or a negative one.
pub(crate) fn bytes(key: &str, value: &OptionValue) -> Result<u64> {
    let number = match value {
        OptionValue::Int(number) => u64::try_from(*number).ok(),
        OptionValue::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    number.ok_or_else(|| unfit(key, value, "a number of bytes"))
}

/// What an option is if it is on, as a text.
pub(crate) const ON: &str = "true";
/// What an option is if it is off, as a text.
pub(crate) const OFF: &str = "false";

/// The error for a value of the wrong kind.
pub(crate) fn unfit(key: &str, value: &OptionValue, wanted: &str) -> Error {
    let given = match value {
        OptionValue::String(text) => format!("{text:?}"),
        OptionValue::Int(number) => number.to_string(),
        OptionValue::Double(number) => number.to_string(),
        _ => "bytes".to_owned(),
    };
    let message = format!("the option {key} is {wanted}, {given} was given");
    Error::with_message_and_status(message, Status::InvalidArguments)
}

/// The error for an option that nobody knows, when it is set.
pub(crate) fn unknown(key: &str) -> Error {
    Error::with_message_and_status(format!("there is no option {key}"), Status::NotImplemented)
}

/// The error for an option that has no value, when it is asked for.
pub(crate) fn unset(key: &str) -> Error {
    Error::with_message_and_status(format!("there is no option {key}, or it has no value"), Status::NotFound)
}

/// The ways to ask for an option that is a text, which all options of this driver are.
macro_rules! texts_alone {
    () => {
        fn get_option_bytes(&self, key: Self::Option) -> adbc_core::error::Result<Vec<u8>> {
            Ok(self.get_option_string(key)?.into_bytes())
        }

        fn get_option_int(&self, key: Self::Option) -> adbc_core::error::Result<i64> {
            let name = key.as_ref().to_owned();
            self.get_option_string(key)?.parse().map_err(|_| $crate::options::unset(&name))
        }

        fn get_option_double(&self, key: Self::Option) -> adbc_core::error::Result<f64> {
            let name = key.as_ref().to_owned();
            self.get_option_string(key)?.parse().map_err(|_| $crate::options::unset(&name))
        }
    };
}

pub(crate) use texts_alone;
