// SPDX-License-Identifier: Apache-2.0
//! Enum types: lists of labels, each with a place among the others.
//!
//! A value is kept as the place of its label, an eight-byte integer, so it compares and sorts as the labels do, and takes
//! part in keys and bounds like any integer. A label that is added between two others gets a place between theirs; no
//! place ever changes, so nothing that is stored does.
//!
//! A column's type is one *version* of the definition: whoever changes the labels gives the tables that use them new
//! definitions, and every snapshot reads values by the labels that it knows. Versions are kept for the life of the
//! process, each once, so that a type stays a small value that can be copied; a process holds as many of them as it has
//! seen definitions, some hundred bytes each.

use crate::ids::SpaceId;
use crate::qualified_name::{DEFAULT_SCHEMA, QualifiedName};
use arrow::datatypes::{DataType, Field, Fields};
use parking_lot::RwLock;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, LazyLock};

/// The distance between labels that are declared one after the other: forty labels can be put between two of them,
/// each next to the one before.
const DISTANCE: i64 = 1 << 40;

/// How the only field of an enum's Arrow type is called, in front of the number of the version.
const FIELD: &str = "coeval.enum.";

/// One label.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct EnumLabel {
    /// Where it stands: what values are kept as.
    pub place: i64,
    /// Its name.
    pub name: String,
}

/// What an enum type is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct EnumDef {
    /// Its number, and that of the type of its arrays: numbers like those of tables, used for nothing else.
    pub id: SpaceId,
    /// The number of the type of its arrays.
    pub array_id: SpaceId,
    /// Its name.
    pub name: QualifiedName,
    /// The labels, by their places.
    pub labels: Vec<EnumLabel>,
}

/// Where a label is put among the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelPlace {
    /// Behind all others.
    Last,
    /// Before the label with this index.
    Before(usize),
    /// Behind the label with this index.
    After(usize),
}

impl EnumDef {
    /// A type with these labels, in this order.
    #[must_use]
    pub fn new(
        id: SpaceId,
        array_id: SpaceId,
        name: QualifiedName,
        labels: impl IntoIterator<Item = String>,
    ) -> Self {
        let labels = (0..).map(|index: i64| index * DISTANCE).zip(labels);
        let labels = labels.map(|(place, name)| EnumLabel { place, name }).collect();
        Self { id, array_id, name, labels }
    }

    /// The place of a label.
    #[must_use]
    pub fn place_of(&self, label: &str) -> Option<i64> {
        self.labels.iter().find(|known| known.name == label).map(|known| known.place)
    }

    /// The label at a place.
    #[must_use]
    pub fn label_at(&self, place: i64) -> Option<&str> {
        let index = self.labels.binary_search_by_key(&place, |label| label.place).ok()?;
        Some(&self.labels[index].name)
    }

    /// The same type with one label more; `None` if there is no place left between the two that it would stand between.
    #[must_use]
    pub fn with_label(&self, name: String, at: LabelPlace) -> Option<Self> {
        let index = match at {
            LabelPlace::Last => self.labels.len(),
            LabelPlace::Before(index) => index,
            LabelPlace::After(index) => index + 1,
        };
        let before = index.checked_sub(1).map(|index| self.labels[index].place);
        let behind = self.labels.get(index).map(|label| label.place);
        let place = match (before, behind) {
            (None, None) => 0,
            (Some(before), None) => before.checked_add(DISTANCE)?,
            (None, Some(behind)) => behind.checked_sub(DISTANCE)?,
            (Some(before), Some(behind)) => {
                let middle = before + (behind - before) / 2;
                (middle != before).then_some(middle)?
            }
        };
        let mut changed = self.clone();
        changed.labels.insert(index, EnumLabel { place, name });
        Some(changed)
    }

    /// The sort order of a label, as in `pg_enum`: the first labels have 1, 2, 3, ..., labels added later have numbers in between.
    #[must_use]
    pub fn sort_order(place: i64) -> f32 {
        (place as f64 / DISTANCE as f64 + 1.0) as f32
    }
}

/// A version of an enum type.
#[derive(Clone, Copy)]
pub struct EnumType(&'static Version);

struct Version {
    number: usize,
    def: EnumDef,
}

/// All versions that there have been.
#[derive(Default)]
struct Versions {
    all: Vec<&'static Version>,
    known: HashMap<&'static EnumDef, usize>,
}

/// # Locking
/// Guards the list of versions, which only grows. Held for one look-up or one insertion, under no other lock's rule.
static VERSIONS: LazyLock<RwLock<Versions>> = LazyLock::new(RwLock::default);

impl EnumType {
    /// The version with this definition; equal definitions are one version.
    #[must_use]
    pub fn of(def: EnumDef) -> Self {
        let find = |versions: &Versions| versions.known.get(&def).map(|&number| versions.all[number]);
        let known = find(&VERSIONS.read());
        if let Some(known) = known {
            return Self(known);
        }
        let mut versions = VERSIONS.write();
        if let Some(known) = find(&versions) {
            return Self(known);
        }
        let version: &'static Version = Box::leak(Box::new(Version { number: versions.all.len(), def }));
        versions.all.push(version);
        versions.known.insert(&version.def, version.number);
        Self(version)
    }

    /// What it is.
    #[must_use]
    pub fn def(self) -> &'static EnumDef {
        &self.0.def
    }

    /// The number of the version, for as long as the process runs.
    #[must_use]
    pub fn number(self) -> usize {
        self.0.number
    }

    /// The version with this number.
    #[must_use]
    pub fn with_number(number: usize) -> Option<Self> {
        VERSIONS.read().all.get(number).copied().map(Self)
    }

    /// The Arrow type of its values: a struct with the place as its only field, whose name says which version it is. So
    /// the type goes with the values wherever a query takes them, and nothing takes them for numbers.
    #[must_use]
    pub fn arrow(self) -> DataType {
        DataType::Struct(self.fields())
    }

    /// The field of [`arrow`](Self::arrow).
    pub(crate) fn fields(self) -> Fields {
        [Arc::new(Field::new(format!("{FIELD}{}", self.number()), DataType::Int64, true))]
            .into_iter()
            .collect()
    }

    /// The version whose values an Arrow type holds.
    #[must_use]
    pub fn of_arrow(ty: &DataType) -> Option<Self> {
        let DataType::Struct(fields) = ty else { return None };
        let [field] = &fields[..] else { return None };
        Self::with_number(field.name().strip_prefix(FIELD)?.parse().ok()?)
    }
}

impl PartialEq for EnumType {
    fn eq(&self, other: &Self) -> bool {
        self.number() == other.number()
    }
}

impl Eq for EnumType {}

impl Hash for EnumType {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.number().hash(state);
    }
}

impl fmt::Debug for EnumType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.def(), f)
    }
}

impl fmt::Display for EnumType {
    /// The name, in quotes where SQL needs them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.def().name;
        if name.schema != DEFAULT_SCHEMA {
            write_identifier(f, &name.schema)?;
            f.write_str(".")?;
        }
        write_identifier(f, &name.name)
    }
}

fn write_identifier(f: &mut fmt::Formatter<'_>, name: &str) -> fmt::Result {
    let is_plain = name.starts_with(|first: char| first.is_ascii_lowercase() || first == '_')
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    if is_plain { f.write_str(name) } else { write!(f, "\"{}\"", name.replace('"', "\"\"")) }
}

impl Serialize for EnumType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.def().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for EnumType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        EnumDef::deserialize(deserializer).map(Self::of)
    }
}

#[cfg(test)]
mod tests;
