// SPDX-License-Identifier: Apache-2.0
//! INSERT: rows from VALUES or a query, completed with defaults, written one by one or in bulk.

mod source;
mod upsert;
mod values;

use super::assignments::{self, always_generated};
use super::bricks::BrickRowsToInsert;
use super::check_options::CheckOptions;
use super::environment;
use super::expressions::Rows;
use super::generated::{Generator, generators};
use super::returning::{Done, Relation, Returning};
use super::rows::encoded;
use super::target::Target;
use super::target_view::ViewChange;
use crate::context::StatementContext;
use crate::error::{SqlError, SqlState};
use crate::failing_row::refused;
use crate::needs;
use crate::parse::{OVERRIDING, is_default};
use crate::result::{CommandTag, StatementResult};
use crate::select;
use crate::stored::updatable::calls_sets;
use crate::writing::Writing;
use coeval_store::{ColumnDef, Identity, Value};
use datafusion::sql::sqlparser::ast::{
    Expr, Insert, ObjectName, OnConflict, OnConflictAction, OnInsert, Query, SetExpr, TableObject, With,
};
use source::SelectedRows;
use upsert::{Upsert, Written};
use values::{GivenRows, given_rows};

/// Fewer rows go in one by one: sorting them for chunks would cost more than it saves.
const BULK_ROWS_MIN: usize = 4_096;

/// What OVERRIDING says about values for identity columns. The parser does not know the clause;
/// [`crate::parse`] turns it into this setting of the statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Overriding {
    Nothing,
    /// The user's values are taken, even for GENERATED ALWAYS.
    System,
    /// The user's values are ignored.
    User,
}

impl Overriding {
    fn of(insert: &Insert) -> Self {
        let mut settings = insert.settings.iter().flatten();
        match settings.find(|setting| setting.key.value == OVERRIDING) {
            None => Self::Nothing,
            Some(setting) if setting.value.to_string() == "user" => Self::User,
            Some(_) => Self::System,
        }
    }
}

/// Whether INSERT names the columns it gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ColumnList {
    /// `INSERT INTO t (a, b)`: exactly these are given.
    Given,
    /// `INSERT INTO t`: the first columns are given, as many as there are expressions.
    Implied,
}

/// The shape of the rows that an INSERT adds.
struct Shape {
    target: Target,
    /// The columns that the source gives values for, in its order.
    columns: Vec<usize>,
    /// Why it gives none for what would be the next column, one of a view.
    barred: Option<SqlError>,
    /// For all columns of the definition: where a value comes from that is not given.
    generators: Vec<Generator>,
    overriding: Overriding,
}

impl Shape {
    fn new(context: &StatementContext<'_>, insert: &Insert) -> Result<Self, SqlError> {
        let TableObject::TableName(name) = &insert.table else {
            return Err(SqlError::unsupported(format_args!("INSERT INTO {}", insert.table)));
        };
        let alias = insert.table_alias.as_ref().map(|alias| &alias.alias);
        let target = Target::resolve_changed(context, name, alias, ViewChange::Insert)?;
        let (columns, barred) = listed_columns(&target, &insert.columns)?;
        let generators = generators(context, &target.def)?;
        let shape = Self { target, columns, barred, generators, overriding: Overriding::of(insert) };
        // Such a column has its default from a view, where it counts as if the statement gave it.
        let is_generated = |column: &ColumnDef| column.identity.is_some() || column.generated.is_some();
        let given = shape.target.def.columns.iter().enumerate();
        for (column, _) in given.filter(|&(_, column)| column.default.is_some() && is_generated(column)) {
            shape.check_given(column)?;
        }
        Ok(shape)
    }

    /// Refuses the INSERT if the session lacks a privilege that it needs. Of DEFAULT VALUES no column is written.
    fn require(&self, context: &StatementContext<'_>, insert: &Insert) -> Result<(), SqlError> {
        let inserted = if insert.source.is_some() { self.columns.as_slice() } else { &[] };
        let updated: Vec<usize> = match &insert.on {
            Some(OnInsert::OnConflict(OnConflict { action: OnConflictAction::DoUpdate(update), .. })) => {
                let sets = assignments::resolve(&self.target, &update.assignments)?;
                sets.into_iter().map(|set| set.column).collect()
            }
            _ => Vec::new(),
        };
        let written = needs::WrittenColumns { inserted, updated: &updated };
        self.target.require_written(context, needs::needs_of_insert(insert), written)
    }

    /// Whether the given value of a column is replaced by a generated one.
    fn ignores(&self, column: usize) -> bool {
        self.overriding == Overriding::User && self.target.def.columns[column].identity.is_some()
    }

    /// Whether rows that have values for these columns are given numbers of sequences in others.
    fn numbers_rows(&self, filled: &[usize]) -> bool {
        let is_given = |column| filled.contains(&column) && !self.ignores(column);
        let mut generators = self.generators.iter().enumerate();
        generators.any(|(column, generator)| !is_given(column) && generator.takes_numbers())
    }

    /// Refuses a value for a column that takes none.
    fn check_given(&self, column: usize) -> Result<(), SqlError> {
        let column = &self.target.def.columns[column];
        if column.generated.is_some() {
            let message = format!("cannot insert a non-DEFAULT value into column \"{}\"", column.name);
            return Err(SqlError::new(SqlState::GeneratedAlways, message)
                .with_detail(format!("Column \"{}\" is a generated column.", column.name)));
        }
        if column.identity != Some(Identity::Always) || self.overriding != Overriding::Nothing {
            return Ok(());
        }
        let message = format!("cannot insert a non-DEFAULT value into column \"{}\"", column.name);
        Err(SqlError::new(SqlState::GeneratedAlways, message)
            .with_detail(always_generated(&column.name))
            .with_hint("Use OVERRIDING SYSTEM VALUE to override."))
    }

    /// The columns that a source with this many columns fills.
    fn filled(&self, width: usize, list: ColumnList) -> Result<&[usize], SqlError> {
        if width > self.columns.len() {
            if let Some(barred) = &self.barred {
                return Err(barred.clone());
            }
            return Err(SqlError::syntax("INSERT has more expressions than target columns"));
        }
        if width < self.columns.len() && list == ColumnList::Given {
            return Err(SqlError::syntax("INSERT has more target columns than expressions"));
        }
        let filled = &self.columns[..width];
        let is_twice = |place: usize| filled[..place].contains(&filled[place]);
        if self.target.view().is_some()
            && let Some(twice) = (0..width).find(|&place| is_twice(place))
        {
            let name = &self.target.def.columns[filled[twice]].name;
            return Err(SqlError::syntax(format!("multiple assignments to same column \"{name}\"")));
        }
        Ok(filled)
    }
}

/// The columns of the list, or all live ones; those of a view up to one that takes no value, with the reason.
fn listed_columns(target: &Target, list: &[ObjectName]) -> Result<(Vec<usize>, Option<SqlError>), SqlError> {
    let mut columns = Vec::with_capacity(list.len());
    if list.is_empty() {
        for column in target.all_columns() {
            match column {
                Ok(column) => columns.push(column),
                Err(barred) => return Ok((columns, Some(barred))),
            }
        }
        return Ok((columns, None));
    }
    for name in list {
        let column = target.column_of_name(name)?;
        if columns.contains(&column) {
            let name = &target.def.columns[column].name;
            let message = format!("column \"{name}\" specified more than once");
            return Err(SqlError::new(SqlState::DuplicateColumn, message));
        }
        columns.push(column);
    }
    Ok((columns, None))
}

/// Runs an INSERT. The source is read to its end before the first row is written.
///
/// # Errors
/// What the source refuses; `428C9`, `42601`, `42804`; constraints.
pub(super) fn run(
    context: &mut StatementContext<'_>,
    insert: &Insert,
    with: Option<&With>,
) -> Result<StatementResult, SqlError> {
    refuse_clauses(insert)?;
    let shape = Shape::new(context, insert)?;
    shape.target.refuse_inner_names(insert, with)?;
    shape.require(context, insert)?;
    let options = CheckOptions::compile(context, &shape.target)?;
    let list = if insert.columns.is_empty() { ColumnList::Implied } else { ColumnList::Given };
    if insert.on.is_some() {
        let instead = "Rows of brick tables have no unique keys: append without ON CONFLICT.";
        super::bricks::refuse_rows(&shape.target.def, "ON CONFLICT", instead)?;
    }
    let upsert = match &insert.on {
        None => None,
        Some(OnInsert::OnConflict(clause)) => Some(Upsert::compile(context, &shape.target, clause)?),
        Some(other) => return Err(SqlError::unsupported(other.to_string().trim())),
    };
    let relations = [Relation::of_inserted(&shape.target)];
    let returning = Returning::compile(context, insert.returning.as_deref(), &relations)?;
    let mut given: Vec<usize> = Vec::new();
    let spread = insert.source.as_deref().map(with_sets_spread).transpose()?.flatten();
    let rows = match spread.as_ref().or(insert.source.as_deref()) {
        None => RowsToInsert::Given(GivenRows::new(Vec::new(), vec![Vec::new()])),
        Some(query) => match query.body.as_ref() {
            SetExpr::Values(values) if query.order_by.is_none() && query.limit_clause.is_none() => {
                let with = query.with.as_ref().or(with);
                let rows = given_rows(context, &shape, values, list, with)?;
                given.extend_from_slice(rows.columns());
                RowsToInsert::Given(rows)
            }
            _ => {
                let rows = SelectedRows::collect(context, &shape, query, list, with)?;
                given.extend_from_slice(rows.columns());
                RowsToInsert::Selected(rows)
            }
        },
    };
    if let RowsToInsert::Selected(rows) = &rows
        && rows.count() >= BULK_ROWS_MIN
        && upsert.is_none()
        && returning.is_none()
        && context.parts.is_none()
        && options.is_empty()
    {
        let inserted = rows.insert_in_bulk(context, &shape)?;
        return Ok(StatementResult::tagged(CommandTag::Insert(inserted)));
    }
    write_rows(context, &shape, rows, &options.of_given(given), upsert, returning)
}

/// `VALUES (unnest(x))` as `SELECT unnest(x)`, which gives a row for each member; `None` if no value is a set.
///
/// # Errors
/// `0A000` for a set in one of several rows, or beside DEFAULT.
fn with_sets_spread(query: &Query) -> Result<Option<Query>, SqlError> {
    let SetExpr::Values(values) = query.body.as_ref() else { return Ok(None) };
    if query.order_by.is_some() || query.limit_clause.is_some() {
        return Ok(None);
    }
    let is_set = |value: &Expr| !matches!(value, Expr::Value(_)) && calls_sets(value);
    if !values.rows.iter().flat_map(|row| &row.content).any(is_set) {
        return Ok(None);
    }
    let [row] = values.rows.as_slice() else {
        let message = "set-returning functions are not allowed in VALUES";
        return Err(SqlError::new(SqlState::FeatureNotSupported, message));
    };
    if row.content.iter().any(is_default) {
        return Err(SqlError::unsupported("DEFAULT beside a set in VALUES"));
    }
    let named = |(place, value): (usize, &Expr)| select::item(value.clone(), format!("column{}", place + 1));
    let outputs = row.content.iter().enumerate().map(named).collect();
    Ok(Some(select::query(query.with.clone(), outputs, Vec::new(), None)))
}

/// The columns of a target that a list of values fills, with the values: all those of `columns`, or the first ones
/// if none are named.
///
/// # Errors
/// `42601` for too many or too few values, `42703`, `428C9`.
pub(super) fn given_columns(
    context: &StatementContext<'_>,
    target: &Target,
    columns: &[ObjectName],
    values: &[Expr],
) -> Result<Vec<(usize, Expr)>, SqlError> {
    let (listed, barred) = listed_columns(target, columns)?;
    let shape = Shape {
        columns: listed,
        barred,
        generators: generators(context, &target.def)?,
        target: target.clone(),
        overriding: Overriding::Nothing,
    };
    let list = if columns.is_empty() { ColumnList::Implied } else { ColumnList::Given };
    let filled = shape.filled(values.len(), list)?;
    for (column, value) in filled.iter().zip(values) {
        if !is_default(value) {
            shape.check_given(*column)?;
        }
    }
    Ok(filled.iter().copied().zip(values.iter().cloned()).collect())
}

/// Adds rows, given by column of the definition, `None` for what is to be generated; how many.
///
/// # Errors
/// Constraints; what the defaults refuse.
pub(super) fn add_rows(
    context: &mut StatementContext<'_>,
    target: &Target,
    rows: Vec<Vec<Option<Value>>>,
) -> Result<u64, SqlError> {
    let generators = generators(context, &target.def)?;
    let overriding = Overriding::Nothing;
    let options = CheckOptions::compile(context, target)?;
    let shape = Shape { target: target.clone(), columns: Vec::new(), barred: None, generators, overriding };
    let rows = RowsToInsert::Given(GivenRows::new((0..target.def.columns.len()).collect(), rows));
    let written = write_rows(context, &shape, rows, &options, None, None)?;
    Ok(written.tag.rows().unwrap_or(0))
}

/// Where the rows come from.
enum RowsToInsert {
    Given(GivenRows),
    Selected(SelectedRows),
}

impl RowsToInsert {
    fn count(&self) -> usize {
        match self {
            Self::Given(rows) => rows.count(),
            Self::Selected(rows) => rows.count(),
        }
    }
}

/// Rows of an INSERT ... ON CONFLICT up to which what they are going to write is locked before. One with more is a load:
/// if it loses, it fails and runs again.
const LOCKED_AHEAD_MAX: usize = 1_000;

/// Writes the rows, which satisfy these options.
fn write_rows(
    context: &mut StatementContext<'_>,
    shape: &Shape,
    rows: RowsToInsert,
    options: &CheckOptions,
    mut upsert: Option<Upsert>,
    mut returning: Option<Returning>,
) -> Result<StatementResult, SqlError> {
    let target = &shape.target;
    let (environment, transaction) = environment::split(context);
    let count = rows.count();
    let rows: Box<dyn Iterator<Item = Vec<Option<Value>>>> = match rows {
        RowsToInsert::Given(rows) => Box::new(rows.into_rows(target.def.columns.len())),
        RowsToInsert::Selected(rows) => Box::new(rows.into_rows(target.def.columns.len())),
    };
    let writing = Writing::begin(count as u64);
    let mut rows = rows.map(|given| -> Result<Vec<Value>, SqlError> {
        writing.row()?;
        let generated = given.into_iter().zip(&shape.generators);
        generated.map(|(value, generator)| value.map_or_else(|| generator.value(&environment), Ok)).collect()
    });
    let mut ahead = Vec::new();
    if let Some(upsert) = upsert.as_ref().filter(|_| count <= LOCKED_AHEAD_MAX && transaction.locks_ahead()) {
        ahead = rows.by_ref().collect::<Result<Vec<_>, _>>()?;
        upsert.lock_ahead(transaction, target, &ahead)?;
    }
    let mut inserted = 0;
    let mut bricks = target.def.bricks.as_ref().map(|_| BrickRowsToInsert::new(&target.def));
    for values in ahead.into_iter().map(Ok).chain(rows) {
        let values = values?;
        let written = match (&mut bricks, &mut upsert) {
            (Some(bricks), _) => {
                bricks.push(&values);
                Written::Row(Done::Inserted, values)
            }
            (None, Some(upsert)) => {
                upsert.write(transaction, &environment, target, options.given(), values)?
            }
            (None, None) => {
                let (row, values) = encoded(transaction, &target.def, values)?;
                transaction.insert(target.id(), row).map_err(|error| {
                    let value = |column: usize| values[column].borrow();
                    refused(error, &target.def, options.given(), value, environment.zone)
                })?;
                Written::Row(Done::Inserted, values)
            }
        };
        if let Written::Row(done, values) = written {
            inserted += 1;
            options.hold_for(&values, &environment)?;
            if let Some(returning) = &mut returning {
                returning.note(done);
                returning.push(&Rows(&[&values]), &environment)?;
            }
        }
    }
    if let Some(bricks) = bricks {
        bricks.append(context)?;
    }
    let rows = returning.map(Returning::finish).transpose()?;
    Ok(StatementResult { tag: CommandTag::Insert(inserted), rows })
}

fn refuse_clauses(insert: &Insert) -> Result<(), SqlError> {
    let refused = [
        (insert.or.is_some(), "INSERT OR"),
        (insert.ignore, "INSERT IGNORE"),
        (insert.overwrite, "INSERT OVERWRITE"),
        (insert.replace_into, "REPLACE"),
        (!insert.assignments.is_empty(), "INSERT ... SET"),
        (insert.partitioned.is_some() || !insert.after_columns.is_empty(), "PARTITION in INSERT"),
        (insert.output.is_some(), "OUTPUT"),
        (insert.format_clause.is_some(), "FORMAT in INSERT"),
    ];
    super::refuse_any(&refused)
}
