// SPDX-License-Identifier: Apache-2.0
//! Types as SQL names them, as the store keeps them, as Arrow carries them and as `pg_type` numbers them.

mod abbreviations;
pub(crate) mod any_numeric;
mod array_text;
mod assign;
mod binary;
mod bits;
mod casts;
mod common_type;
mod comparisons;
mod date_text;
mod date_tokens;
mod datetime;
mod facts;
mod float_range;
mod given;
mod interval_iso;
mod interval_parts;
mod interval_scaled;
mod interval_text;
pub(crate) mod json;
mod lists;
pub(crate) mod marks;
mod names;
pub(crate) mod numeric;
mod one_nan;
mod parameter;
mod scalar;
mod shown;
mod text;
mod zoned_time;
mod zones;

pub(crate) use abbreviations::{Meaning as ZoneMeaning, abbreviations as zone_abbreviations};
pub(crate) use array_text::array_elements;
pub(crate) use assign::{assign, assign_array, decimal_to_float};
pub use binary::{decode_binary, encode_binary, utf8};
pub(crate) use bits::{
    bits_of_integer, fit_bits, integer_of_bits, read_bits, require_length, without_length,
};
pub(crate) use casts::{
    CastContext, cannot_assign, cannot_cast, has_cast, is_text, no_condition, no_document, require_cast,
};
pub(crate) use common_type::{
    arrow_type_gives_way, common_arrow_type, common_type, require_common_type, type_of_both,
};
pub(crate) use comparisons::{
    no_operator, no_prefix_operator, require_comparison, require_equality, require_order,
};
pub(crate) use date_text::{read_date, read_timestamp};
pub(crate) use datetime::{is_date, is_timestamp};
pub use facts::type_number;
pub(crate) use facts::{
    TypeFacts, cast_name, category, facts, facts_of_arrow, facts_of_column, facts_of_name,
    facts_of_view_column,
};
pub(crate) use float_range::{float_overflow, float_underflow, real_of};
pub use given::column_type_of_given;
pub(crate) use given::without_large_bytes;
pub(crate) use interval_parts::Unit as IntervalUnit;
pub(crate) use interval_scaled::scaled_interval;
pub(crate) use interval_text::{format_interval, read_interval, read_interval_in};
pub use marks::column_type_of_field;
pub(crate) use marks::{marked_field, view_column};
pub(crate) use names::{
    NUMERIC_SCALE_DEFAULT, has_elements, resolved_enum, second_digits, type_in_words, type_name,
};
pub use names::{column_type, column_type_of_arrow};
pub(crate) use one_nan::{double_with_one_nan, real_with_one_nan, with_one_nan};
pub use parameter::ParameterType;
pub(crate) use scalar::{scalar_of, value_of_scalar};
pub use shown::format_shown;
pub(crate) use shown::{element_text, shown_elements};
pub use text::{format_value, parse_value, text_without_zone};
pub(crate) use text::{no_time, parse_label, push_hex, read_hex};
pub(crate) use zoned_time::{zoned_elsewhere, zoned_time};
pub(crate) use zones::{
    Clock, INSTANT_AFTER, INSTANT_BEFORE, clock_named, instant_after, local_to_utc, offset, posix_offset,
    session_zone, utc_to_local,
};
