// SPDX-License-Identifier: Apache-2.0
//! Parameters: the types that clients declare, the types they are told, and values from bytes.

use super::arrays::{element_of, text_of_binary};
use super::{WireType, oid};
use crate::protocol::frontend::{Bind, Format, violation};
use chrono_tz::Tz;
use coeval::{ColumnType, SqlError, SqlState, Value};
use coeval_sql::{CatalogType, ParameterType, decode_binary, parse_value, utf8};

/// A `numeric` of a client that does not say how many digits it has.
pub(super) const ANY_NUMERIC: ColumnType = ColumnType::AnyNumeric;

/// What a client says of a parameter's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Declared {
    /// Nothing, or nothing that helps: it follows from where the parameter stands.
    Nothing,
    /// This type.
    Type(ColumnType),
    /// A number of some precision, which follows from where the parameter stands if anything does.
    Numeric,
    /// An array of this type.
    List(ColumnType),
}

impl Declared {
    /// What is known of the type before the statement is planned.
    pub(crate) fn known(self) -> Option<ParameterType> {
        match self {
            Self::Type(ty) => Some(ParameterType::Scalar(ty)),
            Self::List(element) => Some(ParameterType::List(element)),
            Self::Nothing | Self::Numeric => None,
        }
    }

    /// What is known of it once planning without it has given this type; `None` if nothing new is.
    pub(crate) fn corrected(self, inferred: ColumnType) -> Option<ParameterType> {
        let is_numeric = matches!(inferred, ColumnType::Numeric { .. } | ColumnType::AnyNumeric);
        (self == Self::Numeric && !is_numeric).then_some(ParameterType::Scalar(ANY_NUMERIC))
    }
}

/// `oid` and its aliases `regproc`, `regclass`, `regtype`, `regrole`, `regnamespace`: numbers of objects.
const OBJECT_NUMBERS: [u32; 6] = [26, 24, 2205, 2206, 4096, 4089];

fn is_object_number(oid: u32) -> bool {
    OBJECT_NUMBERS.contains(&oid)
}

/// Whether values of the type with this number are arrays that are handed over as text. The types of users are enums,
/// whose values are of these types themselves, and arrays of enums.
fn is_list_as_text(number: u32, ty: ColumnType) -> bool {
    element_of(number).is_some() || (number >= oid::FIRST_OF_USERS && ty == ColumnType::Text)
}

/// The number of an object in binary form, as a value of the type that its place asks for.
fn object_number(bytes: &[u8], ty: ColumnType, zone: Tz) -> Result<Value, SqlError> {
    let Ok(bytes) = bytes.try_into() else {
        let message = "incorrect binary data format for type oid";
        return Err(SqlError::new(SqlState::InvalidBinaryRepresentation, message));
    };
    parse_value(&u32::from_be_bytes(bytes).to_string(), ty, zone)
}

/// What a client declares by the types' numbers. `user_type` finds the types that users have made.
///
/// # Errors
/// `0A000` for a type that parameters cannot have.
pub(crate) fn declared_types(
    oids: impl Iterator<Item = u32>,
    user_type: impl Fn(u32) -> Option<ColumnType>,
) -> Result<Vec<Declared>, SqlError> {
    /// `unknown`: text of whatever type the place asks for.
    const UNKNOWN: u32 = 705;
    let declared = oids.map(|oid| {
        Ok(match oid {
            0 | UNKNOWN => Declared::Nothing,
            oid if is_object_number(oid) => Declared::Nothing,
            number if number >= oid::FIRST_OF_USERS => match user_type(number) {
                Some(ColumnType::Array(element)) => Declared::List(element.column_type()),
                Some(ty) => Declared::Type(ty),
                None => Declared::Nothing,
            },
            oid::BOOL => Declared::Type(ColumnType::Boolean),
            oid::BYTEA => Declared::Type(ColumnType::Bytea),
            oid::INT2 => Declared::Type(ColumnType::SmallInt),
            oid::INT4 => Declared::Type(ColumnType::Int),
            oid::INT8 => Declared::Type(ColumnType::BigInt),
            oid::FLOAT4 => Declared::Type(ColumnType::Real),
            oid::FLOAT8 => Declared::Type(ColumnType::Double),
            oid::NUMERIC => Declared::Numeric,
            oid::TEXT | oid::VARCHAR | oid::BPCHAR | oid::NAME => Declared::Type(ColumnType::Text),
            oid::JSON => Declared::Type(ColumnType::Json),
            oid::JSONB => Declared::Type(ColumnType::Jsonb),
            oid::BIT => Declared::Type(ColumnType::Bit(None)),
            oid::VARBIT => Declared::Type(ColumnType::Varbit(None)),
            oid::DATE => Declared::Type(ColumnType::Date),
            oid::TIME => Declared::Type(ColumnType::Time),
            oid::TIMETZ => Declared::Type(ColumnType::TimeTz),
            oid::TIMESTAMP => Declared::Type(ColumnType::Timestamp),
            oid::TIMESTAMPTZ => Declared::Type(ColumnType::TimestampTz),
            oid::INTERVAL => Declared::Type(ColumnType::Interval),
            oid::UUID => Declared::Type(ColumnType::Uuid),
            oid::PG_LSN => Declared::Type(ColumnType::PgLsn),
            other => match element_of(other) {
                Some(element) => Declared::List(element),
                None => {
                    let message = format!("parameters of the type with number {other} are not supported");
                    return Err(SqlError::new(SqlState::FeatureNotSupported, message));
                }
            },
        })
    });
    declared.collect()
}

/// The numbers of a statement's parameter types: what the client declared, else what was inferred.
pub(crate) fn described_types(
    declared: impl Iterator<Item = u32>,
    inferred: impl Iterator<Item = ParameterType>,
) -> Box<[u32]> {
    let mut declared = declared.fuse();
    inferred
        .map(|inferred| match (declared.next(), inferred) {
            (Some(oid), _) if oid != 0 && oid != 705 => oid,
            (_, ParameterType::Scalar(ty)) => WireType::of(ty).oid,
            (_, ParameterType::List(element)) => WireType::list_of(element).oid,
            (_, ParameterType::ObjectId) => CatalogType::ObjectId.oid(),
            (_, ParameterType::ObjectIds) => CatalogType::ObjectIds.oid(),
        })
        .collect()
}

/// The values of a Bind message, of the statement's parameter types where their form says no other; arrays as text.
/// `told` are the numbers of the types that the client was told.
///
/// # Errors
/// `08P01` for another number of values than parameters, and what the types say of bytes and text.
pub(crate) fn bound_values(
    bind: &Bind<'_>,
    types: &[ColumnType],
    told: &[u32],
    zone: Tz,
) -> Result<Vec<Value>, SqlError> {
    let (given, wanted) = (bind.values.len(), types.len());
    bind.formats.check(given, "parameter")?;
    if given != wanted {
        let name = bind.statement;
        let message = format!(
            "bind message supplies {given} parameters, but prepared statement \"{name}\" requires {wanted}"
        );
        return Err(violation(message));
    }
    let values = bind.values.iter().zip(types).enumerate();
    let values = values.map(|(index, (value, &ty))| match value {
        None => Ok(Value::Null),
        Some(bytes) => match bind.formats.of(index) {
            Format::Binary if told.get(index).is_some_and(|&oid| is_object_number(oid)) => {
                object_number(bytes, ty, zone)
            }
            Format::Binary if told.get(index).is_some_and(|&oid| is_list_as_text(oid, ty)) => {
                text_of_binary(bytes, zone).map(|text| Value::Text(text.into()))
            }
            Format::Binary => decode_binary(bytes, ty),
            Format::Text => utf8(bytes).and_then(|text| parse_value(text, ty, zone)),
        },
    });
    values.collect()
}
