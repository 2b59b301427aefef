// SPDX-License-Identifier: Apache-2.0
//! `\d` and its relatives: what there is, and how it is defined.

mod declared;

use super::command::{ListKind, matches};
use crate::cells::{Alignment, Listing};
use crate::grid::{Colours, print_aligned, shown};
use arrow::datatypes::SchemaRef;
use coeval::{
    Deferral, Definitions, ForeignKeyDef, IndexDef, ObjectRef, QualifiedName, ReferentialAction, SequenceDef,
    TableDef, Uniqueness, ViewDef, as_given,
};
use declared::{brick_lines, column_comments, default_text, index_keys, index_text, type_text};
use std::io::{self, Write};

/// A pattern of names: `name`, `schema.name`, both with `*` and `?`. Like names in SQL it is folded to lower case
/// outside of double quotes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamePattern {
    /// `None`: any schema.
    schema: Option<String>,
    name: String,
}

impl NamePattern {
    /// Reads a pattern.
    pub(crate) fn parse(text: &str) -> Self {
        let mut parts = vec![String::new()];
        let mut quoted = false;
        for character in text.chars() {
            let part = parts.last_mut().expect("there is always a last part");
            match character {
                '"' => quoted = !quoted,
                '.' if !quoted => parts.push(String::new()),
                other if quoted => part.push(other),
                other => part.extend(other.to_lowercase()),
            }
        }
        let name = parts.pop().unwrap_or_default();
        Self { schema: parts.pop(), name }
    }

    /// The same as a condition over columns with the names of schemas and relations.
    pub(super) fn condition(&self, schema: &str, name: &str) -> String {
        let of_name = format!("{name} LIKE {}", liked(&self.name));
        match &self.schema {
            Some(pattern) => format!("{schema} LIKE {} AND {of_name}", liked(pattern)),
            None => of_name,
        }
    }

    fn fits(&self, name: &QualifiedName) -> bool {
        self.schema.as_ref().is_none_or(|schema| matches(schema, &name.schema))
            && matches(&self.name, &name.name)
    }
}

/// A pattern as LIKE has it, in quotes.
fn liked(pattern: &str) -> String {
    let mut liked = String::from("'");
    for character in pattern.chars() {
        match character {
            '*' => liked.push('%'),
            '?' => liked.push('_'),
            '%' | '_' | '\\' => liked.extend(['\\', character]),
            '\'' => liked.push_str("''"),
            other => liked.push(other),
        }
    }
    liked.push('\'');
    liked
}

/// Lists objects of a kind.
///
/// # Errors
/// If the output cannot be written.
pub(crate) fn list(
    out: &mut dyn Write,
    definitions: &Definitions,
    kind: ListKind,
    pattern: Option<&NamePattern>,
) -> io::Result<()> {
    let left = Alignment::Left;
    if kind == ListKind::Schemas {
        let mut listing = Listing::new(&[("Schema", left)]);
        let schemas = definitions.catalog().schemas();
        let fits = |schema: &&str| pattern.is_none_or(|pattern| matches(&pattern.name, schema));
        schemas.filter(fits).for_each(|schema| listing.push([schema.to_owned()]));
        return print_aligned(out, &listing, Colours::Off);
    }
    let fits = |name: &QualifiedName| pattern.is_none_or(|pattern| pattern.fits(name));
    let objects = definitions.names().filter(|(name, _)| fits(name));
    if kind == ListKind::Indexes {
        let mut listing = Listing::new(&[
            ("Schema", left),
            ("Name", left),
            ("Table", left),
            ("Columns", left),
            ("Kind", left),
        ]);
        let mut indexes = Vec::new();
        for table in definitions.tables().filter(|table| table.has_declared_primary_key()) {
            let name = QualifiedName::new(&table.name.schema, &table.primary_key_name);
            if fits(&name) {
                let columns = column_names(table, &table.primary_key);
                let kind = "primary key".to_owned();
                indexes.push([name.schema, name.name, table.name.name.clone(), columns, kind]);
            }
        }
        for (name, object) in objects {
            let Some((table, index)) = index_of(definitions, object, name) else { continue };
            let columns = index_keys(table, index);
            let (schema, name) = (name.schema.clone(), name.name.clone());
            indexes.push([schema, name, table.name.name.clone(), columns, index_kind(index).to_owned()]);
        }
        indexes.sort_unstable();
        indexes.into_iter().for_each(|index| listing.push(index));
        return print_aligned(out, &listing, Colours::Off);
    }
    let mut listing = Listing::new(&[("Schema", left), ("Name", left), ("Type", left)]);
    for (name, object) in objects {
        let (word, is_wanted) = match object {
            ObjectRef::Table(_) => ("table", matches!(kind, ListKind::All | ListKind::Tables)),
            ObjectRef::View => ("view", matches!(kind, ListKind::All | ListKind::Views)),
            ObjectRef::Sequence(_) => ("sequence", matches!(kind, ListKind::All | ListKind::Sequences)),
            ObjectRef::Index(..) => continue,
        };
        if is_wanted {
            listing.push([name.schema.clone(), name.name.clone(), word.to_owned()]);
        }
    }
    print_aligned(out, &listing, Colours::Off)
}

fn index_of<'a>(
    definitions: &'a Definitions,
    object: ObjectRef,
    name: &QualifiedName,
) -> Option<(&'a TableDef, &'a IndexDef)> {
    let ObjectRef::Index(table, _) = object else { return None };
    let table = definitions.table(table)?;
    Some((table, table.index(&name.name)?))
}

fn index_kind(index: &IndexDef) -> &'static str {
    match index.uniqueness {
        Uniqueness::Any => "index",
        Uniqueness::Unique => "unique index",
        Uniqueness::Constraint => "unique constraint",
    }
}

fn column_names(table: &TableDef, columns: &[usize]) -> String {
    let names: Vec<&str> = columns.iter().map(|&column| table.columns[column].name.as_str()).collect();
    names.join(", ")
}

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Something,
    Nothing,
}

/// Describes everything that fits the pattern. `columns_of` gives the columns of a view.
///
/// # Errors
/// If the output cannot be written.
pub(crate) fn describe(
    out: &mut dyn Write,
    definitions: &Definitions,
    pattern: &NamePattern,
    columns_of: &mut dyn FnMut(&QualifiedName) -> Option<SchemaRef>,
) -> io::Result<Found> {
    let mut found = Found::Nothing;
    let objects = definitions.names().filter(|(name, _)| pattern.fits(name));
    for (name, object) in objects {
        found = Found::Something;
        match object {
            ObjectRef::Table(id) => {
                let table = definitions.table(id).expect("a table that has a name has a definition");
                describe_table(out, definitions, table)?;
            }
            ObjectRef::Index(..) => {
                let index =
                    index_of(definitions, object, name).expect("an index that has a name is its table's");
                describe_index(out, name, index)?;
            }
            ObjectRef::View => {
                let view = definitions.catalog().view(name).expect("a view that has a name has a definition");
                describe_view(out, view, columns_of(name))?;
            }
            ObjectRef::Sequence(id) => {
                let sequence = definitions.catalog().sequence(id);
                describe_sequence(out, definitions, sequence.expect("a sequence has a definition"))?;
            }
        }
        writeln!(out)?;
    }
    Ok(found)
}

fn title(out: &mut dyn Write, kind: &str, name: &QualifiedName) -> io::Result<()> {
    writeln!(out, "{kind} \"{}.{}\"", name.schema, name.name)
}

fn describe_table(out: &mut dyn Write, definitions: &Definitions, table: &TableDef) -> io::Result<()> {
    title(out, if table.bricks.is_some() { "Brick table" } else { "Table" }, &table.name)?;
    let left = Alignment::Left;
    let mut columns =
        Listing::new(&[("Column", left), ("Type", left), ("Nullable", left), ("Default", left)]);
    for (_, column) in table.live_columns() {
        let nullable = if column.not_null { "not null" } else { "" };
        let default = default_text(definitions, column);
        columns.push([column.name.clone(), type_text(column), nullable.to_owned(), default]);
    }
    print_aligned(out, &columns, Colours::Off)?;
    section(out, "Bricks", &brick_lines(table))?;
    describe_keys(out, table)?;
    let foreign_keys: Vec<String> =
        table.foreign_keys.iter().map(|key| foreign_key_text(definitions, table, key)).collect();
    section(out, "Foreign keys", &foreign_keys)?;
    let mut children = Vec::new();
    for child in definitions.catalog().children(table.id).filter_map(|child| definitions.table(child)) {
        for key in child.foreign_keys.iter().filter(|key| key.parent == table.id) {
            children.push(format!("{}: {}", child.name, foreign_key_text(definitions, child, key)));
        }
    }
    section(out, "Referenced by", &children)?;
    if let Some(foreign) = &table.foreign {
        writeln!(out, "Its rows are on server {}, as {}", foreign.server, foreign.table)?;
    }
    section(out, "Comments on columns", &column_comments(table))?;
    comment(out, table.comment.as_deref())
}

fn comment(out: &mut dyn Write, said: Option<&str>) -> io::Result<()> {
    said.map_or(Ok(()), |said| writeln!(out, "Comment: {}", shown(said).join("\n    ")))
}

fn describe_keys(out: &mut dyn Write, table: &TableDef) -> io::Result<()> {
    let mut indexes = Vec::new();
    if table.has_declared_primary_key() {
        let columns = column_names(table, &table.primary_key);
        indexes.push(format!("\"{}\" primary key ({columns})", table.primary_key_name));
    }
    for index in &table.indexes {
        indexes.push(format!("\"{}\" {} {}", index.name, index_kind(index), index_text(table, index)));
    }
    section(out, "Indexes", &indexes)?;
    let checks = table.checks.iter().map(|check| {
        let not_valid = if check.validity.is_valid() { "" } else { " NOT VALID" };
        format!("\"{}\" CHECK ({}){not_valid}", check.name, check.expression)
    });
    let checks: Vec<String> = checks.collect();
    section(out, "Check constraints", &checks)
}

fn section(out: &mut dyn Write, heading: &str, lines: &[String]) -> io::Result<()> {
    if lines.is_empty() {
        return Ok(());
    }
    writeln!(out, "{heading}:")?;
    // What users have said may hold what a terminal would obey.
    lines.iter().flat_map(|line| shown(line)).try_for_each(|line| writeln!(out, "    {line}"))
}

fn foreign_key_text(definitions: &Definitions, child: &TableDef, key: &ForeignKeyDef) -> String {
    let columns = column_names(child, &key.columns);
    let parent = definitions.table(key.parent).map_or_else(String::new, |parent| {
        format!("{} ({})", parent.name, column_names(parent, &key.parent_columns))
    });
    let on = |event: &str, action: ReferentialAction| match action {
        ReferentialAction::NoAction => String::new(),
        ReferentialAction::Restrict => format!(" ON {event} RESTRICT"),
        ReferentialAction::Cascade => format!(" ON {event} CASCADE"),
        ReferentialAction::SetNull => format!(" ON {event} SET NULL"),
        ReferentialAction::SetDefault => format!(" ON {event} SET DEFAULT"),
    };
    let (on_delete, on_update) = (on("DELETE", key.on_delete), on("UPDATE", key.on_update));
    let deferral = match key.deferral {
        Deferral::Never => "",
        Deferral::Immediate => " DEFERRABLE",
        Deferral::Deferred => " DEFERRABLE INITIALLY DEFERRED",
    };
    let not_valid = if key.validity.is_valid() { "" } else { " NOT VALID" };
    let name = &key.name;
    format!(
        "\"{name}\" FOREIGN KEY ({columns}) REFERENCES {parent}{on_delete}{on_update}{deferral}{not_valid}"
    )
}

fn describe_index(
    out: &mut dyn Write,
    name: &QualifiedName,
    index: (&TableDef, &IndexDef),
) -> io::Result<()> {
    let (table, index) = index;
    title(out, "Index", name)?;
    let mut columns = Listing::new(&[("Column", Alignment::Left), ("Type", Alignment::Left)]);
    for column in index.columns.iter().map(|&column| &table.columns[column]).filter(|key| !key.is_marker()) {
        columns.push([column.name.clone(), type_text(column)]);
    }
    print_aligned(out, &columns, Colours::Off)?;
    writeln!(out, "{} on table \"{}\" {}", index_kind(index), table.name, index_text(table, index))
}

fn describe_view(out: &mut dyn Write, view: &ViewDef, schema: Option<SchemaRef>) -> io::Result<()> {
    title(out, "View", &view.name)?;
    if let Some(schema) = schema {
        let mut columns = Listing::new(&[("Column", Alignment::Left), ("Type", Alignment::Left)]);
        for field in schema.fields() {
            let ty = coeval::column_type_of_arrow(field.data_type());
            let ty = ty.map_or_else(|| field.data_type().to_string(), |ty| ty.to_string());
            columns.push([field.name().clone(), ty]);
        }
        print_aligned(out, &columns, Colours::Off)?;
    }
    let query = as_given(&view.query);
    writeln!(out, "Definition:\n    {}", shown(&query).join("\n    "))?;
    comment(out, view.comment.as_deref())
}

fn describe_sequence(
    out: &mut dyn Write,
    definitions: &Definitions,
    sequence: &SequenceDef,
) -> io::Result<()> {
    title(out, "Sequence", &sequence.name)?;
    let right = Alignment::Right;
    let mut listing = Listing::new(&[
        ("Start", right),
        ("Minimum", right),
        ("Maximum", right),
        ("Increment", right),
        ("Cycles", Alignment::Left),
    ]);
    let cycles = if sequence.cycle { "yes" } else { "no" };
    listing.push([
        sequence.start.to_string(),
        sequence.min.to_string(),
        sequence.max.to_string(),
        sequence.increment.to_string(),
        cycles.to_owned(),
    ]);
    print_aligned(out, &listing, Colours::Off)?;
    let owner = sequence.owned_by.and_then(|(table, column)| Some((definitions.table(table)?, column)));
    match owner {
        Some((table, column)) => writeln!(out, "Owned by: {}.{}", table.name, table.columns[column].name),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fold_like_names_do() {
        let fits = |pattern: &str, schema: &str, name: &str| {
            NamePattern::parse(pattern).fits(&QualifiedName::new(schema, name))
        };
        assert!(fits("Orders", "public", "orders") && fits("orders", "other", "orders"));
        assert!(fits("\"Or.ders\"", "public", "Or.ders") && !fits("\"Orders\"", "public", "orders"));
        assert!(fits("public.o*", "public", "orders") && !fits("public.o*", "other", "orders"));
    }
}
