// SPDX-License-Identifier: Apache-2.0
//! The types of parameters, of which there are more than of columns.

use super::names::type_name;
use coeval_store::ColumnType;
use std::fmt;

/// The type of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterType {
    /// A value.
    Scalar(ColumnType),
    /// An array of values.
    List(ColumnType),
    /// An object id.
    ObjectId,
    /// An array of object ids.
    ObjectIds,
}

impl fmt::Display for ParameterType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // A parameter has no precision and no length.
            Self::Scalar(ty) => f.write_str(&type_name(*ty)),
            Self::List(ty) => write!(f, "{}[]", type_name(*ty)),
            Self::ObjectId => f.write_str("oid"),
            Self::ObjectIds => f.write_str("oid[]"),
        }
    }
}

impl ParameterType {
    /// The type of its values as they are handed over.
    pub(crate) fn of_value(self) -> ColumnType {
        match self {
            Self::Scalar(ty) => ty,
            Self::ObjectId => ColumnType::Int,
            Self::List(_) | Self::ObjectIds => ColumnType::Text,
        }
    }
}
