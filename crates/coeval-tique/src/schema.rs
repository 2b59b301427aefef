// SPDX-License-Identifier: Apache-2.0
//! The abstract schema: tables as the application defined them.

use crate::error::{Result, SqlState, TiqueError};
use crate::names::{folded, quoted};
use datafusion::sql::sqlparser::ast::{
    CharacterLength, CheckConstraint, ColumnDef, ColumnOption, ConstraintCharacteristics,
    ConstraintReferenceMatchKind as MatchKind, CreateTable, CreateTableOptions, DataType, DeferrableInitial,
    Expr, ForeignKeyConstraint, Ident, IndexColumn, NullsDistinctOption, ObjectName, ReferentialAction,
    SqlOption, TableConstraint, UniqueConstraint, Value,
};

/// What no name of the application may begin with.
pub(crate) const RESERVED: &str = "tique_";

/// A column of the application's.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) kind: DataType,
    pub(crate) nulls: Nulls,
    pub(crate) default: Option<Expr>,
}

/// Whether a column takes NULL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nulls {
    Allowed,
    Refused,
}

impl Column {
    /// What a value is cast to before it is checked: an engine could cut text that is too long.
    pub(crate) fn unchecked_kind(&self) -> &DataType {
        if self.characters_max().is_some() { &DataType::Text } else { &self.kind }
    }

    /// The characters that a text column takes at most.
    pub(crate) fn characters_max(&self) -> Option<u64> {
        match &self.kind {
            DataType::Varchar(length)
            | DataType::CharVarying(length)
            | DataType::CharacterVarying(length)
            | DataType::Char(length)
            | DataType::Character(length) => match length {
                Some(CharacterLength::IntegerLength { length, .. }) => Some(*length),
                Some(CharacterLength::Max) => None,
                None => self.is_padded().then_some(1),
            },
            _ => None,
        }
    }

    /// Whether blanks at the end of a text are not part of it: char(n).
    fn is_padded(&self) -> bool {
        matches!(self.kind, DataType::Char(_) | DataType::Character(_))
    }

    /// What the column keeps of a text: char(n) no blanks at its end, others none that would be too long.
    pub(crate) fn kept<'t>(&self, text: &'t str) -> &'t str {
        let without_blanks = text.trim_end_matches(' ');
        match self.characters_max() {
            Some(_) if self.is_padded() => without_blanks,
            Some(most) => {
                let place = usize::try_from(most).ok().and_then(|most| text.char_indices().nth(most));
                let fits = place.map_or(text.len(), |(place, _)| place);
                &text[..fits.max(without_blanks.len())]
            }
            None => text,
        }
    }
}

/// Columns whose values no two rows share.
#[derive(Clone, Debug)]
pub(crate) struct Unique {
    pub(crate) name: String,
    pub(crate) columns: Vec<usize>,
}

/// A condition that no row may fail.
#[derive(Clone, Debug)]
pub(crate) struct Check {
    pub(crate) name: String,
    pub(crate) condition: Expr,
}

/// Columns that name the key of a row of another table.
#[derive(Clone, Debug)]
pub(crate) struct ForeignKey {
    pub(crate) name: String,
    pub(crate) columns: Vec<usize>,
    pub(crate) parent: String,
    /// The columns there, if they were named: the primary key's, in its order.
    pub(crate) referred: Vec<Ident>,
}

/// How a table is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Storage and cache; takes part in transactions.
    Transactional,
    /// Storage alone: nothing is paid for it, and nothing promised but what the engine promises.
    Static,
}

/// How rows are found by their key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyColumns {
    /// By the columns themselves.
    Separate,
    /// By one more column that holds all of them as a text (3.2.5).
    Concatenated,
    /// By one more column that holds all of them as a number.
    Packed,
}

/// A table of the application's.
#[derive(Clone, Debug)]
pub(crate) struct Definition {
    pub(crate) name: String,
    pub(crate) columns: Vec<Column>,
    pub(crate) key: Vec<usize>,
    pub(crate) uniques: Vec<Unique>,
    pub(crate) checks: Vec<Check>,
    pub(crate) foreign_keys: Vec<ForeignKey>,
    pub(crate) kind: Kind,
    pub(crate) key_columns: KeyColumns,
}

/// The name of a table, without a schema that may only be `public`.
pub(crate) fn table_name(name: &ObjectName) -> Result<String> {
    let parts: Option<Vec<_>> = name.0.iter().map(|part| part.as_ident().map(folded)).collect();
    match parts.as_deref() {
        Some([table]) => Ok(table.clone()),
        Some([schema, table]) if schema == "public" => Ok(table.clone()),
        _ => Err(TiqueError::new(SqlState::UndefinedTable, format!("there is no table {name}"))),
    }
}

fn meaningless(message: impl Into<String>) -> TiqueError {
    TiqueError::new(SqlState::InvalidTableDefinition, message)
}

impl Definition {
    /// The table that a CREATE TABLE describes.
    ///
    /// # Errors
    /// What is not supported, makes no sense, or collides with the physical schema. Nothing was changed.
    pub(crate) fn of(create: &CreateTable) -> Result<Self> {
        let name = table_name(&create.name)?;
        check_name(&name)?;
        if create.query.is_some() || create.temporary || create.like.is_some() {
            return Err(TiqueError::unsupported("CREATE TABLE other than with a list of columns"));
        }
        let mut definition = Self {
            name,
            columns: Vec::new(),
            key: Vec::new(),
            uniques: Vec::new(),
            checks: Vec::new(),
            foreign_keys: Vec::new(),
            kind: Kind::Transactional,
            key_columns: KeyColumns::Separate,
        };
        for column in &create.columns {
            definition.add_column(column)?;
        }
        for column in &create.columns {
            for option in &column.options {
                definition.add_column_option(column, option.name.as_ref(), &option.option)?;
            }
        }
        for constraint in &create.constraints {
            definition.add_constraint(constraint)?;
        }
        definition.add_options(&create.table_options)?;
        if definition.key.is_empty() && definition.kind == Kind::Transactional {
            let message = format!("table {} has no primary key", definition.name);
            let hint =
                "Versions of a row are told by its key: declare a PRIMARY KEY, or WITH (tique = 'static').";
            return Err(meaningless(message).hint(hint));
        }
        for &column in &definition.key {
            definition.columns[column].nulls = Nulls::Refused;
        }
        Ok(definition)
    }

    /// Whether the key's columns stand once more in one.
    pub(crate) fn has_key_column(&self) -> bool {
        self.key_columns != KeyColumns::Separate
    }

    /// The place of the column that a statement names.
    pub(crate) fn column(&self, ident: &Ident) -> Result<usize> {
        let name = folded(ident);
        self.columns.iter().position(|column| column.name == name).ok_or_else(|| {
            let message = format!("column \"{name}\" of relation \"{}\" does not exist", self.name);
            TiqueError::new(SqlState::UndefinedColumn, message).at(ident)
        })
    }

    /// The names of these columns, quoted.
    pub(crate) fn names(&self, columns: &[usize]) -> Vec<String> {
        columns.iter().map(|&column| quoted(&self.columns[column].name)).collect()
    }

    /// The names of all columns, quoted.
    pub(crate) fn all_names(&self) -> Vec<String> {
        self.columns.iter().map(|column| quoted(&column.name)).collect()
    }

    fn add_column(&mut self, column: &ColumnDef) -> Result<()> {
        let name = folded(&column.name);
        if name.starts_with(RESERVED) {
            return Err(reserved(&name));
        }
        if self.columns.iter().any(|other| other.name == name) {
            return Err(meaningless(format!("column {name} is there twice")));
        }
        self.columns.push(Column {
            name,
            kind: column.data_type.clone(),
            nulls: Nulls::Allowed,
            default: None,
        });
        Ok(())
    }

    fn add_column_option(
        &mut self,
        column: &ColumnDef,
        name: Option<&Ident>,
        option: &ColumnOption,
    ) -> Result<()> {
        let at = self.column(&column.name)?;
        match option {
            ColumnOption::Null => {}
            ColumnOption::NotNull => self.columns[at].nulls = Nulls::Refused,
            ColumnOption::Default(value) => self.columns[at].default = Some(value.clone()),
            ColumnOption::PrimaryKey(key) => {
                require_at_once(key.characteristics.as_ref())?;
                self.set_key(vec![at])?;
            }
            ColumnOption::Unique(unique) => self.add_unique(name, vec![at], unique)?,
            ColumnOption::Check(check) => self.add_check(name.or(check.name.as_ref()), check)?,
            ColumnOption::ForeignKey(foreign) => self.add_foreign_key(name, vec![at], foreign)?,
            other => return Err(TiqueError::unsupported(format!("column option {other}"))),
        }
        Ok(())
    }

    fn add_constraint(&mut self, constraint: &TableConstraint) -> Result<()> {
        match constraint {
            TableConstraint::PrimaryKey(key) => {
                require_at_once(key.characteristics.as_ref())?;
                let columns = self.places(&key.columns)?;
                self.set_key(columns)?;
            }
            TableConstraint::Unique(unique) => {
                let columns = self.places(&unique.columns)?;
                self.add_unique(unique.name.as_ref(), columns, unique)?;
            }
            TableConstraint::Check(check) => self.add_check(check.name.as_ref(), check)?,
            TableConstraint::ForeignKey(foreign) => {
                let columns: Result<Vec<_>> =
                    foreign.columns.iter().map(|column| self.column(column)).collect();
                self.add_foreign_key(foreign.name.as_ref(), columns?, foreign)?;
            }
            other => return Err(TiqueError::unsupported(format!("constraint {other}"))),
        }
        Ok(())
    }

    fn places(&self, columns: &[IndexColumn]) -> Result<Vec<usize>> {
        let place = |column: &IndexColumn| match &column.column.expr {
            Expr::Identifier(ident) => self.column(ident),
            other => Err(TiqueError::unsupported(format!("a key over the expression {other}"))),
        };
        columns.iter().map(place).collect()
    }

    fn set_key(&mut self, columns: Vec<usize>) -> Result<()> {
        if !self.key.is_empty() {
            return Err(meaningless(format!("table {} has two primary keys", self.name)));
        }
        self.key = columns;
        Ok(())
    }

    fn add_unique(
        &mut self,
        name: Option<&Ident>,
        columns: Vec<usize>,
        unique: &UniqueConstraint,
    ) -> Result<()> {
        require_at_once(unique.characteristics.as_ref())?;
        if unique.nulls_distinct == NullsDistinctOption::NotDistinct {
            return Err(TiqueError::unsupported("NULLS NOT DISTINCT"));
        }
        let names: Vec<_> = columns.iter().map(|&column| self.columns[column].name.as_str()).collect();
        let name = name.map_or_else(|| format!("{}_{}_key", self.name, names.join("_")), folded);
        self.uniques.push(Unique { name, columns });
        Ok(())
    }

    fn add_check(&mut self, name: Option<&Ident>, check: &CheckConstraint) -> Result<()> {
        if check.enforced == Some(false) {
            return Err(TiqueError::unsupported("a constraint that is NOT ENFORCED"));
        }
        let name = name.map_or_else(|| format!("{}_check{}", self.name, self.checks.len()), folded);
        self.checks.push(Check { name, condition: (*check.expr).clone() });
        Ok(())
    }

    fn add_foreign_key(
        &mut self,
        name: Option<&Ident>,
        columns: Vec<usize>,
        foreign: &ForeignKeyConstraint,
    ) -> Result<()> {
        let is_plain = |action: &Option<ReferentialAction>| {
            matches!(action, None | Some(ReferentialAction::NoAction | ReferentialAction::Restrict))
        };
        if !is_plain(&foreign.on_delete) || !is_plain(&foreign.on_update) {
            return Err(TiqueError::unsupported(
                "a foreign key that changes rows (CASCADE, SET NULL, SET DEFAULT)",
            ));
        }
        require_at_once(foreign.characteristics.as_ref())?;
        if let Some(kind @ (MatchKind::Full | MatchKind::Partial)) = &foreign.match_kind {
            return Err(TiqueError::unsupported(format!("a foreign key with {kind}")));
        }
        let parent = table_name(&foreign.foreign_table)?;
        let name =
            name.map_or_else(|| format!("{}_{parent}_fkey{}", self.name, self.foreign_keys.len()), folded);
        let referred = foreign.referred_columns.clone();
        self.foreign_keys.push(ForeignKey { name, columns, parent, referred });
        Ok(())
    }

    fn add_options(&mut self, options: &CreateTableOptions) -> Result<()> {
        let options = match options {
            CreateTableOptions::None => return Ok(()),
            CreateTableOptions::With(options) => options,
            other => return Err(TiqueError::unsupported(other)),
        };
        for option in options {
            let SqlOption::KeyValue { key, value: Expr::Value(value) } = option else {
                return Err(TiqueError::unsupported(format!("table option {option}")));
            };
            match (folded(key).as_str(), &value.value) {
                ("tique", Value::SingleQuotedString(kind)) if kind == "static" => self.kind = Kind::Static,
                ("key", Value::SingleQuotedString(kind)) if kind == "concatenated" => {
                    self.key_columns = KeyColumns::Concatenated;
                }
                _ => {
                    let hint = "There are tique = 'static' and key = 'concatenated'.";
                    return Err(TiqueError::unsupported(format!("table option {option}")).hint(hint));
                }
            }
        }
        Ok(())
    }
}

/// Refuses constraints that wait for the end of the transaction, or that are not kept.
fn require_at_once(characteristics: Option<&ConstraintCharacteristics>) -> Result<()> {
    let Some(these) = characteristics else { return Ok(()) };
    let waits = these.deferrable == Some(true) || these.initially == Some(DeferrableInitial::Deferred);
    if waits || these.enforced == Some(false) {
        return Err(TiqueError::unsupported(format!("a constraint that is {these}")));
    }
    Ok(())
}

fn reserved(name: &str) -> TiqueError {
    let message = format!("the name {name} is needed by the physical schema");
    let hint = "Names do not begin with tique_, and names of tables do not end in _storage or _cache.";
    TiqueError::new(SqlState::ReservedName, message).hint(hint)
}

/// Whether a table or common table expression may be called so.
///
/// # Errors
/// A physical table could have that name.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let collides = name.starts_with(RESERVED) || name.ends_with("_storage") || name.ends_with("_cache");
    if collides { Err(reserved(name)) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
