// SPDX-License-Identifier: Apache-2.0
//! Types as SQL names them, as the store keeps them and as Arrow carries them.

mod assign;
mod binary;
mod date_text;
mod date_tokens;
mod datetime;
mod interval_text;
mod lists;
mod names;
pub(crate) mod numeric;
mod scalar;
mod text;
mod zones;

pub(crate) use assign::{assign, assign_array};
pub use binary::{decode_binary, encode_binary, utf8};
pub(crate) use date_text::{read_date, read_timestamp};
pub(crate) use datetime::{is_date, is_timestamp};
pub(crate) use interval_text::{Unit as IntervalUnit, format_interval, read_interval, read_interval_in};
pub use names::{column_type, column_type_of_arrow};
pub(crate) use names::{parameter_beside, resolved_enum};
pub(crate) use scalar::{scalar_of, value_of_scalar};
pub use text::{format_value, parse_value};
pub(crate) use text::{no_time, parse_label, push_hex, read_hex};
pub(crate) use zones::{Clock, clock_named, instant_after, local_to_utc, offset, utc_to_local};
