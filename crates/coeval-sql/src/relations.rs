// SPDX-License-Identifier: Apache-2.0
//! What the system brings along by name: its database, its schemas, and their relations with their columns, which are read
//! from `relations.txt`. The rows of these relations are put together by `catalog` and `system`.

mod library;
mod named_types;
mod own;

pub(crate) use library::{keywords, library_table, special_keywords};
pub use named_types::CatalogType;
pub(crate) use own::{is_own, is_unqualified};

use arrow::datatypes::{DataType, Field, IntervalUnit, Schema, SchemaRef, TimeUnit};
use coeval_store::ColumnType;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, LazyLock};

/// The name of the database, as `current_database()` and qualified names have it.
pub(crate) const CATALOG_NAME: &str = "coeval";

/// The schema of PostgreSQL's own relations, functions and types.
pub(crate) const PG_CATALOG: &str = "pg_catalog";

/// The schema of the standard's catalog views.
pub(crate) const INFORMATION_SCHEMA: &str = "information_schema";

/// The relation of PostgreSQL's keywords, which is a function there.
pub(crate) const KEYWORDS: &str = "pg_get_keywords";

/// Whether a relation is a table or a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RelationKind {
    /// A table: columns that a row does not name are zero, false or empty, where they cannot be NULL.
    Table,
    /// A view: such columns are NULL.
    View,
}

/// A column of a relation.
#[derive(Debug)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    /// The name of its type in `pg_type`.
    pub(crate) type_name: &'static str,
}

/// A relation of `pg_catalog` or `information_schema`.
#[derive(Debug)]
pub(crate) struct Relation {
    pub(crate) schema: &'static str,
    pub(crate) name: &'static str,
    pub(crate) oid: i32,
    pub(crate) kind: RelationKind,
    pub(crate) columns: Vec<Column>,
}

impl Relation {
    /// Its schema for queries.
    pub(crate) fn arrow(&self) -> SchemaRef {
        let fields: Vec<Field> = self.columns.iter().map(Column::field).collect();
        Arc::new(Schema::new(fields))
    }
}

/// Marks fields that hold vectors, which are written otherwise than arrays.
const VECTOR: &str = "coeval.vector";

/// Whether a field of a query is a column of the catalog that holds vectors.
pub(crate) fn is_vector(field: &Field) -> bool {
    field.metadata().contains_key(VECTOR)
}

impl Column {
    /// The column of a query.
    fn field(&self) -> Field {
        let field = Field::new(self.name, self.arrow(), true);
        match self.type_name {
            "int2vector" | "oidvector" => {
                field.with_metadata([(VECTOR.to_owned(), self.type_name.to_owned())].into())
            }
            name => match CatalogType::of_name(name) {
                Some(ty) => ty.mark(field),
                None => field,
            },
        }
    }

    /// The Arrow type of its values.
    pub(crate) fn arrow(&self) -> DataType {
        let list = |element| DataType::List(Arc::new(Field::new_list_field(element, true)));
        match self.type_name {
            "int2vector" => list(DataType::Int16),
            "oidvector" => list(DataType::Int32),
            // Types by name, as they are shown.
            "_regtype" => list(DataType::Utf8View),
            name => match name.strip_prefix('_') {
                Some(element) => list(scalar(element)),
                None => scalar(name),
            },
        }
    }

    /// Whether its values are never NULL in a table.
    pub(crate) fn is_never_null(&self) -> bool {
        matches!(self.type_name, "oid" | "int2" | "int4" | "int8" | "float4" | "bool" | "char" | "name")
    }
}

/// Object ids are `int4`; what has no type of its own here is text, as is a function or a type that a column names.
fn scalar(type_name: &str) -> DataType {
    match type_name {
        "oid" | "int4" | "cardinal_number" => DataType::Int32,
        "int2" => DataType::Int16,
        "int8" => DataType::Int64,
        "float4" => DataType::Float32,
        "float8" => DataType::Float64,
        "bool" => DataType::Boolean,
        "bytea" => DataType::BinaryView,
        "pg_lsn" => ColumnType::PgLsn.arrow(),
        "timestamptz" | "time_stamp" => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        "interval" => DataType::Interval(IntervalUnit::MonthDayNano),
        _ => DataType::Utf8View,
    }
}

/// All relations.
pub(crate) fn all() -> &'static [Relation] {
    static RELATIONS: LazyLock<Vec<Relation>> = LazyLock::new(|| parse(include_str!("relations.txt")));
    &RELATIONS
}

/// The relation of this name.
pub(crate) fn find(schema: &str, name: &str) -> Option<&'static Relation> {
    static PLACES: LazyLock<HashMap<(&str, &str), usize>> = LazyLock::new(|| {
        all().iter().enumerate().map(|(place, relation)| ((relation.schema, relation.name), place)).collect()
    });
    PLACES.get(&(schema, name)).map(|place| &all()[*place])
}

/// Whether `pg_catalog` has a relation of this name.
pub(crate) fn is_known(name: &str) -> bool {
    name == KEYWORDS || find(PG_CATALOG, name).is_some()
}

/// Whether a column of the catalog holds functions, which are kept there by name.
pub(crate) fn holds_functions(column: &str) -> bool {
    static COLUMNS: LazyLock<HashSet<&str>> = LazyLock::new(|| {
        let columns = all().iter().flat_map(|relation| &relation.columns);
        columns.filter(|column| column.type_name == "regproc").map(|column| column.name).collect()
    });
    COLUMNS.contains(column)
}

/// Whether a column of a table of the catalog holds names.
pub(crate) fn holds_names(column: &str) -> bool {
    static COLUMNS: LazyLock<HashSet<&str>> = LazyLock::new(|| {
        let tables = all().iter().filter(|relation| relation.kind == RelationKind::Table);
        let columns = tables.flat_map(|relation| &relation.columns);
        columns.filter(|column| column.type_name == "name").map(|column| column.name).collect()
    });
    COLUMNS.contains(column)
}

/// The columns of a view of `information_schema` with their types, in order; `None` if there is no such view.
pub(crate) fn standard_columns(name: &str) -> Option<SchemaRef> {
    find(INFORMATION_SCHEMA, name).map(Relation::arrow)
}

/// The catalog's own relations: schema, name, kind as the standard calls it.
pub(crate) fn own_relations() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    all().iter().map(|relation| {
        let kind = match relation.kind {
            RelationKind::Table => "BASE TABLE",
            RelationKind::View => "VIEW",
        };
        (relation.schema, relation.name, kind)
    })
}

fn parse(text: &'static str) -> Vec<Relation> {
    let mut schema = "";
    let mut relations = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            schema = name;
        } else {
            relations.push(relation(schema, line).expect("the list of relations is well formed"));
        }
    }
    relations
}

/// `table pg_am 2601: oid oid, amname name`.
fn relation(schema: &'static str, line: &'static str) -> Option<Relation> {
    let (head, columns) = line.split_once(": ")?;
    let mut words = head.split(' ');
    let kind = match words.next()? {
        "table" => RelationKind::Table,
        "view" => RelationKind::View,
        _ => return None,
    };
    let name = words.next()?;
    let oid = words.next()?.parse().ok()?;
    let column = |text: &'static str| {
        let (name, type_name) = text.split_once(' ')?;
        Some(Column { name, type_name })
    };
    let columns = columns.split(", ").map(column).collect::<Option<_>>()?;
    Some(Relation { schema, name, oid, kind, columns })
}
