// SPDX-License-Identifier: Apache-2.0
//! The type a declaration names, and the type an Arrow array stands for.

use crate::error::{SqlError, SqlState};
use arrow::datatypes::DataType;
use coeval_store::{ColumnType, ElementType, EnumType, NUMERIC_PRECISION_MAX, SECOND_DIGITS_MAX};
use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, CharacterLength, DataType as AstType, ExactNumberInfo, Ident, ObjectName, TimezoneInfo,
};

/// Digits behind the point that a parameter gets beside a `numeric` with digits, if there is room.
pub(crate) const NUMERIC_SCALE_DEFAULT: i8 = 10;

/// The column type that this declaration names.
///
/// # Errors
/// `0A000` for a type that Coeval does not have, `22023` for lengths and precisions out of range.
pub fn column_type(ty: &AstType) -> Result<ColumnType, SqlError> {
    Ok(match ty {
        AstType::SmallInt(_) | AstType::Int2(_) => ColumnType::SmallInt,
        AstType::Int(_) | AstType::Integer(_) | AstType::Int4(_) => ColumnType::Int,
        AstType::BigInt(_) | AstType::Int8(_) => ColumnType::BigInt,
        AstType::Real | AstType::Float4 => ColumnType::Real,
        AstType::Double(_) | AstType::DoublePrecision | AstType::Float8 => ColumnType::Double,
        AstType::Float(ExactNumberInfo::Precision(1..=24)) => ColumnType::Real,
        AstType::Float(ExactNumberInfo::None | ExactNumberInfo::Precision(25..=53)) => ColumnType::Double,
        AstType::Numeric(info) | AstType::Decimal(info) | AstType::Dec(info) => numeric(info)?,
        AstType::Boolean | AstType::Bool => ColumnType::Boolean,
        AstType::Text | AstType::String(None) => ColumnType::Text,
        AstType::Varchar(length) | AstType::CharacterVarying(length) | AstType::CharVarying(length) => {
            match character_length(length.as_ref(), "varchar")? {
                Some(length) => ColumnType::Varchar(length),
                None => ColumnType::Text,
            }
        }
        AstType::Char(length) | AstType::Character(length) => {
            ColumnType::Char(character_length(length.as_ref(), "char")?.unwrap_or(1))
        }
        AstType::Bytea => ColumnType::Bytea,
        AstType::Bit(length) => ColumnType::Bit(Some(bits_length(length.unwrap_or(1), "bit")?)),
        AstType::BitVarying(length) | AstType::VarBit(length) => {
            ColumnType::Varbit(length.map(|length| bits_length(length, "varbit")).transpose()?)
        }
        AstType::Date => ColumnType::Date,
        AstType::Time(_, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => ColumnType::Time,
        AstType::Time(_, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz) => ColumnType::TimeTz,
        AstType::Timestamp(_, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => ColumnType::Timestamp,
        AstType::Timestamp(_, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz) => ColumnType::TimestampTz,
        AstType::Interval { .. } => ColumnType::Interval,
        AstType::Uuid => ColumnType::Uuid,
        AstType::JSON => ColumnType::Json,
        AstType::JSONB => ColumnType::Jsonb,
        AstType::Array(
            ArrayElemTypeDef::SquareBracket(element, _) | ArrayElemTypeDef::AngleBracket(element),
        ) => array_of(column_type(element)?)?,
        AstType::Custom(name, arguments) => custom(name, arguments)?,
        other => {
            return Err(SqlError::unsupported(format_args!("type {}", other.to_string().to_lowercase())));
        }
    })
}

/// To how many digits of seconds a column of this declaration rounds its times; `None` if that is not said. More than six are six,
/// as in PostgreSQL; elements of arrays keep all six.
pub(crate) fn second_digits(ty: &AstType) -> Option<u8> {
    let digits = match ty {
        AstType::Timestamp(digits, _) | AstType::Time(digits, _) => (*digits)?,
        AstType::Interval { precision, .. } => (*precision)?,
        _ => return None,
    };
    Some(u8::try_from(digits).unwrap_or(SECOND_DIGITS_MAX).min(SECOND_DIGITS_MAX))
}

/// The type of arrays of this type.
fn array_of(element: ColumnType) -> Result<ColumnType, SqlError> {
    ElementType::of(element).map(ColumnType::Array).ok_or_else(|| {
        SqlError::unsupported("an array of several dimensions")
            .with_hint("Keep it as jsonb, or its rows in a table of their own.")
    })
}

fn numeric(info: &ExactNumberInfo) -> Result<ColumnType, SqlError> {
    let (precision, scale) = match *info {
        ExactNumberInfo::None => return Ok(ColumnType::AnyNumeric),
        ExactNumberInfo::Precision(precision) => (precision, 0),
        ExactNumberInfo::PrecisionAndScale(precision, scale) => (precision, scale),
    };
    if precision == 0 || precision > u64::from(NUMERIC_PRECISION_MAX) {
        let message = format!("NUMERIC precision {precision} must be between 1 and {NUMERIC_PRECISION_MAX}");
        return Err(SqlError::new(SqlState::InvalidParameterValue, message));
    }
    match i8::try_from(scale) {
        Ok(scale) if scale >= 0 && u64::from(scale.unsigned_abs()) <= precision => {
            Ok(ColumnType::Numeric { precision: precision as u8, scale })
        }
        Ok(_) | Err(_) => {
            let message = format!("NUMERIC scale {scale} must be between 0 and precision {precision}");
            Err(SqlError::new(SqlState::InvalidParameterValue, message))
        }
    }
}

fn character_length(length: Option<&CharacterLength>, ty: &str) -> Result<Option<u32>, SqlError> {
    match length {
        None | Some(CharacterLength::Max) => Ok(None),
        Some(CharacterLength::IntegerLength { length, .. }) => match u32::try_from(*length) {
            Ok(length) if (1..=10_485_760).contains(&length) => Ok(Some(length)),
            Ok(_) | Err(_) => {
                let message = format!("length for type {ty} must be between 1 and 10485760");
                Err(SqlError::new(SqlState::InvalidParameterValue, message))
            }
        },
    }
}

/// The most bits that a bit string can be declared to have.
const BITS_LENGTH_MAX: u64 = 83_886_080;

fn bits_length(length: u64, ty: &str) -> Result<u32, SqlError> {
    let refused = |what: String| Err(SqlError::new(SqlState::InvalidParameterValue, what));
    match u32::try_from(length) {
        Ok(0) => refused(format!("length for type {ty} must be at least 1")),
        Ok(short) if length <= BITS_LENGTH_MAX => Ok(short),
        Ok(_) | Err(_) => refused(format!("length for type {ty} cannot exceed {BITS_LENGTH_MAX}")),
    }
}

/// In front of the number of an enum's version, in the name of a type that has been looked up.
const RESOLVED_ENUM: &str = "\u{1}enum ";

/// The name of an enum type that [`column_type`] knows without a catalog.
pub(crate) fn resolved_enum(ty: EnumType) -> AstType {
    let name = Ident::with_quote('"', format!("{RESOLVED_ENUM}{}", ty.number()));
    AstType::Custom(ObjectName::from(vec![name]), Vec::new())
}

/// The enum type behind such a name.
fn enum_of_name(name: &ObjectName) -> Option<EnumType> {
    let [part] = name.0.as_slice() else { return None };
    let number = part.as_ident()?.value.strip_prefix(RESOLVED_ENUM)?;
    EnumType::with_number(number.parse().ok()?)
}

/// Types that the parser does not know by name.
fn custom(name: &ObjectName, arguments: &[String]) -> Result<ColumnType, SqlError> {
    if let Some(ty) = enum_of_name(name) {
        return Ok(ColumnType::Enum(ty));
    }
    let text = name.to_string().to_lowercase();
    let bare = text.strip_prefix("pg_catalog.").unwrap_or(&text);
    match (bare, arguments) {
        ("serial" | "serial4", []) => Ok(ColumnType::Int),
        ("bigserial" | "serial8", []) => Ok(ColumnType::BigInt),
        ("smallserial" | "serial2", []) => Ok(ColumnType::SmallInt),
        ("bpchar", []) => Ok(ColumnType::Text),
        ("name", []) => Ok(ColumnType::Text),
        ("pg_lsn", []) => Ok(ColumnType::PgLsn),
        // In quotes it is not the word that stands for one bit.
        ("\"bit\"", []) => Ok(ColumnType::Bit(None)),
        ("timestamptz", _) => Ok(ColumnType::TimestampTz),
        _ if is_known_elsewhere(bare) => Err(SqlError::unsupported(format_args!("type {bare}"))),
        _ => Err(SqlError::new(SqlState::UndefinedObject, format!("type \"{bare}\" does not exist"))),
    }
}

/// Types of PostgreSQL that Coeval does not have.
fn is_known_elsewhere(name: &str) -> bool {
    matches!(
        name,
        "jsonb"
            | "money"
            | "inet"
            | "cidr"
            | "macaddr"
            | "xml"
            | "hstore"
            | "citext"
            | "oid"
            | "point"
            | "line"
            | "box"
            | "path"
            | "polygon"
            | "circle"
            | "tsvector"
            | "tsquery"
    )
}

/// Whether values of this type have elements or fields that may be NULL: arrays and rows, but not labels of enums.
pub(crate) fn has_elements(data_type: &DataType) -> bool {
    data_type.is_nested() && EnumType::of_arrow(data_type).is_none()
}

/// What messages call a type: PostgreSQL's name of it, without lengths and digits.
pub(crate) fn type_name(ty: ColumnType) -> String {
    match ty {
        ColumnType::Numeric { .. } => "numeric".to_owned(),
        ColumnType::Varchar(_) => "character varying".to_owned(),
        ColumnType::Char(_) => "character".to_owned(),
        ColumnType::Bit(_) => "bit".to_owned(),
        ColumnType::Varbit(_) => "bit varying".to_owned(),
        ColumnType::Array(element) => format!("{}[]", type_name(element.column_type())),
        other => other.to_string(),
    }
}

/// What messages call an Arrow type, likewise.
pub(crate) fn type_in_words(ty: &DataType) -> String {
    match ty {
        DataType::Null => "unknown".to_owned(),
        DataType::List(element) => format!("{}[]", type_in_words(element.data_type())),
        ty => match (column_type_of_arrow(ty), ty) {
            (Some(known), _) => type_name(known),
            (None, DataType::Struct(_)) => "record".to_owned(),
            (None, ty) => ty.to_string(),
        },
    }
}

/// The column type whose values this Arrow type carries; `None` if there is none.
#[must_use]
pub fn column_type_of_arrow(ty: &DataType) -> Option<ColumnType> {
    Some(match ty {
        DataType::Null => ColumnType::Text,
        DataType::Int8 | DataType::Int16 | DataType::UInt8 => ColumnType::SmallInt,
        DataType::Int32 | DataType::UInt16 => ColumnType::Int,
        DataType::Int64 | DataType::UInt32 | DataType::UInt64 => ColumnType::BigInt,
        DataType::Float16 | DataType::Float32 => ColumnType::Real,
        DataType::Float64 => ColumnType::Double,
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => {
            ColumnType::Numeric { precision: (*precision).min(NUMERIC_PRECISION_MAX), scale: (*scale).max(0) }
        }
        DataType::Boolean => ColumnType::Boolean,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => ColumnType::Text,
        DataType::BinaryView => ColumnType::Bytea,
        DataType::Binary => ColumnType::Bit(None),
        DataType::LargeBinary => ColumnType::AnyNumeric,
        DataType::FixedSizeBinary(16) => ColumnType::Uuid,
        DataType::FixedSizeBinary(12) => ColumnType::TimeTz,
        DataType::FixedSizeBinary(8) => ColumnType::PgLsn,
        DataType::FixedSizeBinary(_) => ColumnType::Bytea,
        DataType::Date32 | DataType::Date64 => ColumnType::Date,
        DataType::Time32(_) | DataType::Time64(_) => ColumnType::Time,
        DataType::Timestamp(_, None) => ColumnType::Timestamp,
        DataType::Timestamp(_, Some(_)) => ColumnType::TimestampTz,
        DataType::Interval(_) | DataType::Duration(_) => ColumnType::Interval,
        DataType::Struct(_) => return EnumType::of_arrow(ty).map(ColumnType::Enum),
        DataType::Dictionary(_, value) => return column_type_of_arrow(value),
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            ColumnType::Array(ElementType::of(column_type_of_arrow(item.data_type())?)?)
        }
        _ => return None,
    })
}
