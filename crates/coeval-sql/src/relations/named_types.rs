// SPDX-License-Identifier: Apache-2.0
//! Types that no column of a user has: object ids, names, single letters and `character varying` without a length, which only the
//! catalog has, paths of JSON, and `void`. To queries they are integers and text; clients are told of them where a result shows a column
//! of the catalog, a cast, or a call, so that they read it as PostgreSQL's.

use arrow::datatypes::{DataType, Field};

/// Marks fields of such a type.
const KEY: &str = "coeval.catalog_type";

/// A type that no column of a user has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CatalogType {
    /// `oid`: an integer.
    ObjectId,
    /// `oid[]`.
    ObjectIds,
    /// `name`: text.
    Name,
    /// `name[]`.
    Names,
    /// `"char"`: text of one letter.
    Letter,
    /// `"char"[]`.
    Letters,
    /// `character varying` without a length: text.
    Characters,
    /// `jsonpath`: text.
    Path,
    /// `void`, what functions give that are called for what they do: text of no letters.
    Void,
}

impl CatalogType {
    const ALL: [Self; 9] = [
        Self::ObjectId,
        Self::ObjectIds,
        Self::Name,
        Self::Names,
        Self::Letter,
        Self::Letters,
        Self::Characters,
        Self::Path,
        Self::Void,
    ];

    fn type_name(self) -> &'static str {
        match self {
            Self::ObjectId => "oid",
            Self::ObjectIds => "_oid",
            Self::Name => "name",
            Self::Names => "_name",
            Self::Letter => "char",
            Self::Letters => "_char",
            Self::Characters => "varchar",
            Self::Path => "jsonpath",
            Self::Void => "void",
        }
    }

    /// The type of this name in `pg_type`, or the one below a domain of the standard's views; `None` for those that columns of tables can
    /// have, too.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        match name {
            "sql_identifier" => Some(Self::Name),
            "character_data" | "yes_or_no" => Some(Self::Characters),
            name => Self::ALL.into_iter().find(|ty| ty.type_name() == name),
        }
    }

    /// The type of arrays of this type; `None` for those that are shown as arrays of text.
    pub(crate) fn array(self) -> Option<Self> {
        match self {
            Self::ObjectId => Some(Self::ObjectIds),
            Self::Name => Some(Self::Names),
            Self::Letter => Some(Self::Letters),
            Self::ObjectIds | Self::Names | Self::Letters | Self::Characters | Self::Path | Self::Void => {
                None
            }
        }
    }

    /// Its number in `pg_type`.
    #[must_use]
    pub fn oid(self) -> u32 {
        match self {
            Self::ObjectId => 26,
            Self::ObjectIds => 1028,
            Self::Name => 19,
            Self::Names => 1003,
            Self::Letter => 18,
            Self::Letters => 1002,
            Self::Characters => 1043,
            Self::Path => 4072,
            Self::Void => 2278,
        }
    }

    /// The number of the type of its elements, if it is an array type.
    #[must_use]
    pub fn element_oid(self) -> Option<u32> {
        Self::ALL.into_iter().find(|ty| ty.array() == Some(self)).map(Self::oid)
    }

    /// Bytes of a value, -1 if they vary.
    #[must_use]
    pub fn size(self) -> i16 {
        match self {
            Self::ObjectId | Self::Void => 4,
            Self::Name => 64,
            Self::Letter => 1,
            Self::ObjectIds | Self::Names | Self::Letters | Self::Characters | Self::Path => -1,
        }
    }

    /// The field, of this type.
    pub(crate) fn mark(self, field: Field) -> Field {
        let mut metadata = field.metadata().clone();
        metadata.insert(KEY.to_owned(), self.type_name().to_owned());
        field.with_metadata(metadata)
    }

    /// The field without such a type.
    pub(crate) fn unmark(field: Field) -> Field {
        let mut metadata = field.metadata().clone();
        if metadata.remove(KEY).is_some() { field.with_metadata(metadata) } else { field }
    }

    /// The type that a field of a result has, if it is one of these.
    #[must_use]
    pub fn of_field(field: &Field) -> Option<Self> {
        let ty = Self::of_name(field.metadata().get(KEY)?)?;
        ty.carries(field.data_type()).then_some(ty)
    }

    /// Whether its values are kept like this.
    fn carries(self, ty: &DataType) -> bool {
        let is_list_of =
            |fits: &dyn Fn(&DataType) -> bool| matches!(ty, DataType::List(item) if fits(item.data_type()));
        match self {
            Self::ObjectId => *ty == DataType::Int32,
            Self::ObjectIds => is_list_of(&|item| *item == DataType::Int32),
            Self::Name | Self::Letter | Self::Characters | Self::Path | Self::Void => ty.is_string(),
            Self::Names | Self::Letters => is_list_of(&DataType::is_string),
        }
    }
}
