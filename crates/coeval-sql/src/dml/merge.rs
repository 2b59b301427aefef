// SPDX-License-Identifier: Apache-2.0
//! MERGE: rows of a source decide what becomes of the rows of a table that they match, and of themselves if they
//! match none.
//!
//! Two queries find what there is to do before anything is written: one joins the table with the source and gives, for
//! each pair, the first clause WHEN MATCHED that applies; the other gives, for each row of the source that matches
//! nothing, the first clause WHEN NOT MATCHED. Both give the values of the clauses, each computed for the rows alone
//! that the clause applies to.

use super::assignments::{self, SetColumn, SetValue};
use super::environment;
use super::generated::{Generator, generators};
use super::insert;
use super::rows::{FoundRow, found_pairs};
use super::selected::{self, source_type};
use super::target::Target;
use super::target_view::ViewChange;
use crate::cancel;
use crate::context::StatementContext;
use crate::error::{SqlError, SqlState};
use crate::failing_row::refused;
use crate::memory::ReturnedMemory;
use crate::names;
use crate::needs::{self, WrittenColumns};
use crate::parse::{MERGE_DEFAULTS, MERGE_NOTHING, given_to_column, is_default};
use crate::query;
use crate::result::{CommandTag, RowSet, StatementResult};
use crate::rights::Checks;
use crate::row_locking::strength_of_update;
use crate::select;
use crate::walk::each_expression;
use crate::writing::Writing;
use arrow::array::{Array, ArrayRef, AsArray, Int32Array, RecordBatch};
use arrow::datatypes::{DataType, Int32Type};
use coeval_store::{Privilege, TableDef, Value, ValueRef, value_at};
use coeval_txn::LockStrength;
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    AssignmentTarget, BinaryOperator, CaseWhen, Expr, Join, JoinConstraint, JoinOperator, Merge, MergeAction,
    MergeClause, MergeClauseKind, MergeInsertExpr, MergeInsertKind, ObjectName, Query, SelectItem,
    TableFactor, TableWithJoins, Value as AstValue, With,
};

/// A value of a clause.
enum NewValue {
    Generated(Generator),
    /// From this column of the query.
    Selected(usize, Box<Expr>),
}

/// What a clause does.
enum Action {
    Nothing,
    Delete,
    Update(Vec<(usize, NewValue)>),
    Insert(Vec<(usize, NewValue)>),
}

/// The clauses of one kind, and the query that says which of them applies to what.
struct Clauses {
    actions: Vec<Action>,
    found: RowSet,
    /// Where in the query's columns the number of the clause is.
    choice: usize,
}

/// Runs a MERGE.
///
/// # Errors
/// `21000` for a row that two rows of the source change; what the queries refuse; constraints.
pub(super) fn run(
    context: &mut StatementContext<'_>,
    merge: &Merge,
    with: Option<&With>,
) -> Result<StatementResult, SqlError> {
    if merge.output.is_some() {
        return Err(SqlError::unsupported("RETURNING in MERGE").with_hint(
            "Use INSERT ... ON CONFLICT ... RETURNING, or read the rows in the same transaction.",
        ));
    }
    let target = target_of(context, merge)?;
    let instead = "Append rows with INSERT or COPY.";
    super::bricks::refuse_rows(&target.def, "MERGE", instead)?;
    require(context, &target, merge)?;
    let matched = clauses(context, merge, &target, with, Matched::Yes)?;
    let unmatched = clauses(context, merge, &target, with, Matched::No)?;
    let mut count = 0;
    if let Some(matched) = &matched {
        count += change(context, &target, matched)?;
    }
    if let Some(unmatched) = &unmatched {
        count += add(context, &target, unmatched)?;
    }
    Ok(StatementResult::tagged(CommandTag::Merge(count)))
}

/// The table that is changed.
pub(super) fn target_of(context: &StatementContext<'_>, merge: &Merge) -> Result<Target, SqlError> {
    let table = TableWithJoins { relation: merge.table.clone(), joins: Vec::new() };
    if let TableFactor::Table { name, .. } = &merge.table
        && let Some(found) = names::existing_name(name, context.settings, context.transaction)?
        && context.transaction.catalog().view(&found).is_some()
    {
        let message = format!("cannot execute MERGE on relation \"{}\"", found.name);
        return Err(SqlError::new(SqlState::FeatureNotSupported, message)
            .with_detail("This operation is not supported for views."));
    }
    Target::of_from(context, &table, ViewChange::Update)
}

/// Refuses the MERGE if the session lacks a privilege that it needs.
fn require(context: &mut StatementContext<'_>, target: &Target, merge: &Merge) -> Result<(), SqlError> {
    let (mut inserted, mut updated) = (Vec::new(), Vec::new());
    for clause in &merge.clauses {
        match &clause.action {
            action if is_nothing(action) => {}
            MergeAction::Insert(insert)
                if insert.columns.iter().any(|name| is_called(name, MERGE_DEFAULTS)) => {}
            MergeAction::Insert(insert) if insert.columns.is_empty() => {
                inserted.extend(target.def.live_columns().map(|(column, _)| column));
            }
            MergeAction::Insert(insert) => {
                for name in &insert.columns {
                    inserted.push(target.column_of_name(name)?);
                }
            }
            MergeAction::Update(update) => {
                let sets = assignments::resolve(target, &update.assignments)?;
                updated.extend(sets.into_iter().map(|set| set.column));
            }
            MergeAction::Delete { .. } => {}
        }
    }
    let written = WrittenColumns { inserted: &inserted, updated: &updated };
    needs::require_written(&context.rights(), &target.def, &needs_of(merge), written)?;
    context.checks = Checks::AllBut(target.def.id);
    Ok(())
}

fn needs_of(merge: &Merge) -> Vec<Privilege> {
    let mut needs = vec![Privilege::Select];
    needs.extend(merge.clauses.iter().filter_map(|clause| match &clause.action {
        action if is_nothing(action) => None,
        MergeAction::Insert(_) => Some(Privilege::Insert),
        MergeAction::Update(_) => Some(Privilege::Update),
        MergeAction::Delete { .. } => Some(Privilege::Delete),
    }));
    needs
}

fn is_nothing(action: &MergeAction) -> bool {
    match action {
        MergeAction::Insert(insert) => insert.columns.iter().any(|name| is_called(name, MERGE_NOTHING)),
        MergeAction::Update(update) => update.assignments.iter().any(|set| match &set.target {
            AssignmentTarget::ColumnName(name) => is_called(name, MERGE_NOTHING),
            AssignmentTarget::Tuple(_) => false,
        }),
        MergeAction::Delete { .. } => false,
    }
}

fn is_called(name: &ObjectName, wanted: &str) -> bool {
    name.0.iter().any(|part| part.as_ident().is_some_and(|ident| ident.value == wanted))
}

/// Whether a clause is about rows of the source that match one of the table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Matched {
    Yes,
    No,
}

fn kind_of(clause: &MergeClause) -> Result<Matched, SqlError> {
    match clause.clause_kind {
        MergeClauseKind::Matched => Ok(Matched::Yes),
        MergeClauseKind::NotMatched | MergeClauseKind::NotMatchedByTarget => Ok(Matched::No),
        MergeClauseKind::NotMatchedBySource => {
            Err(SqlError::unsupported("WHEN NOT MATCHED BY SOURCE").with_hint(
                "Delete or update those rows in a statement of its own, with NOT EXISTS, in the same transaction.",
            ))
        }
    }
}

/// Runs the query of the clauses of a kind; `None` if there are none.
fn clauses(
    context: &mut StatementContext<'_>,
    merge: &Merge,
    target: &Target,
    with: Option<&With>,
    kind: Matched,
) -> Result<Option<Clauses>, SqlError> {
    let mut of_kind = Vec::new();
    for clause in &merge.clauses {
        if kind_of(clause)? == kind {
            of_kind.push(clause);
        }
    }
    if of_kind.is_empty() {
        return Ok(None);
    }
    refuse_too_many(&of_kind)?;
    let mut items = if kind == Matched::Yes { target.key_items() } else { Vec::new() };
    let choice = items.len();
    items.push(select::item(chosen(&of_kind), "clause".to_owned()));
    let mut actions = Vec::with_capacity(of_kind.len());
    for (place, clause) in of_kind.iter().enumerate() {
        let before = &of_kind[..=place];
        actions.push(action(context, target, clause, |value| {
            items.push(select::item(only_for(before, value), format!("value {}", items.len())));
            items.len() - 1
        })?);
    }
    let query = match kind {
        Matched::Yes => of_pairs(merge, target, items, with),
        Matched::No => of_others(merge, target, items, with),
    };
    let found = query::collect_with_hidden(context, &query)?;
    check_types(&target.def, &actions, &found)?;
    Ok(Some(Clauses { actions, found, choice }))
}

/// `SELECT items FROM target JOIN source ON condition`.
fn of_pairs(merge: &Merge, target: &Target, items: Vec<SelectItem>, with: Option<&With>) -> Query {
    let mut from = target.from();
    let on = JoinOperator::Join(JoinConstraint::On((*merge.on).clone()));
    from.joins.push(Join { relation: merge.source.clone(), global: false, join_operator: on });
    select::query(with.cloned(), items, vec![from], None)
}

/// `SELECT items FROM source WHERE NOT EXISTS (SELECT 1 FROM target WHERE condition)`.
fn of_others(merge: &Merge, target: &Target, items: Vec<SelectItem>, with: Option<&With>) -> Query {
    let one = select::item(number(1), "one".to_owned());
    let same = select::query(None, vec![one], vec![target.from()], Some((*merge.on).clone()));
    let none = Expr::Exists { subquery: Box::new(same), negated: true };
    select::query(with.cloned(), items, vec![from_source(&merge.source)], Some(none))
}

fn from_source(source: &TableFactor) -> TableWithJoins {
    TableWithJoins { relation: source.clone(), joins: Vec::new() }
}

fn number(number: usize) -> Expr {
    Expr::Value(AstValue::Number(number.to_string(), false).into())
}

/// `CASE WHEN condition THEN result ... END`.
fn case(conditions: Vec<CaseWhen>) -> Expr {
    Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions,
        else_result: None,
    }
}

fn condition(clause: &MergeClause) -> Expr {
    clause.predicate.clone().unwrap_or_else(|| Expr::Value(AstValue::Boolean(true).into()))
}

/// The number of the first clause that applies.
fn chosen(clauses: &[&MergeClause]) -> Expr {
    let when = |(place, clause): (usize, &&MergeClause)| CaseWhen {
        condition: condition(clause),
        result: number(place),
    };
    case(clauses.iter().enumerate().map(when).collect())
}

/// The parts of the conditions of all values, at most. A value has those of its clause and of all before it, so what is made of a
/// statement would grow with the square of its text.
const CONDITION_PARTS_MAX: usize = 300_000;

/// `54001` for clauses whose values have too many conditions together.
fn refuse_too_many(clauses: &[&MergeClause]) -> Result<(), SqlError> {
    let (mut of_one, mut of_all) = (0_usize, 0_usize);
    for clause in clauses {
        cancel::check()?;
        each_expression(&clause.predicate, |_| of_one += 1);
        let values = match &clause.action {
            MergeAction::Update(update) => update.assignments.len(),
            MergeAction::Insert(insert) => match &insert.kind {
                MergeInsertKind::Values(values) => values.rows.iter().map(|row| row.content.len()).sum(),
                MergeInsertKind::Row => 0,
            },
            MergeAction::Delete { .. } => 0,
        };
        of_all = of_all.saturating_add(of_one.saturating_mul(values));
    }
    if of_all <= CONDITION_PARTS_MAX {
        return Ok(());
    }
    let message = "the clauses of MERGE have too many conditions";
    Err(SqlError::new(SqlState::StatementTooComplex, message)
        .with_hint("Divide it into several statements, or compute in the source what the conditions ask."))
}

/// The value for rows to which the last of the clauses applies and none before it.
fn only_for(clauses: &[&MergeClause], value: Expr) -> Expr {
    let [before @ .., last] = clauses else { return value };
    if before.is_empty() && last.predicate.is_none() {
        return value;
    }
    let mut applies = condition(last);
    for clause in before {
        let other = Expr::IsNotTrue(Box::new(Expr::Nested(Box::new(condition(clause)))));
        applies = Expr::BinaryOp {
            left: Box::new(Expr::Nested(Box::new(applies))),
            op: BinaryOperator::And,
            right: Box::new(other),
        };
    }
    case(vec![CaseWhen { condition: applies, result: value }])
}

fn action(
    context: &StatementContext<'_>,
    target: &Target,
    clause: &MergeClause,
    mut select: impl FnMut(Expr) -> usize,
) -> Result<Action, SqlError> {
    if is_nothing(&clause.action) {
        return Ok(Action::Nothing);
    }
    match &clause.action {
        MergeAction::Delete { .. } => Ok(Action::Delete),
        MergeAction::Update(update) => {
            if update.update_predicate.is_some() || update.delete_predicate.is_some() {
                return Err(SqlError::syntax("WHERE does not belong into MERGE: use WHEN MATCHED AND ..."));
            }
            let sets = assignments::resolve(target, &update.assignments)?;
            values(context, target, sets, select).map(Action::Update)
        }
        MergeAction::Insert(insert) => {
            let given = given_of(context, target, insert)?;
            let mut new = Vec::with_capacity(given.len());
            for (column, value) in given {
                if !is_default(&value) {
                    let value = given_to_column(&value, target.def.columns[column].ty).into_owned();
                    let place = select(value.clone());
                    new.push((column, NewValue::Selected(place, Box::new(value))));
                }
            }
            Ok(Action::Insert(new))
        }
    }
}

fn values(
    context: &StatementContext<'_>,
    target: &Target,
    sets: Vec<SetColumn>,
    mut select: impl FnMut(Expr) -> usize,
) -> Result<Vec<(usize, NewValue)>, SqlError> {
    let generators = generators(context, &target.def)?;
    let value = |set: SetColumn| {
        let value = match set.value {
            SetValue::Default => NewValue::Generated(generators[set.column].clone()),
            SetValue::Expression(expression) => {
                let ty = target.def.columns[set.column].ty;
                let given = given_to_column(&expression, ty).into_owned();
                NewValue::Selected(select(given.clone()), Box::new(given))
            }
        };
        (set.column, value)
    };
    Ok(sets.into_iter().map(value).collect())
}

/// The columns that an INSERT gives, with their values.
fn given_of(
    context: &StatementContext<'_>,
    target: &Target,
    clause: &MergeInsertExpr,
) -> Result<Vec<(usize, Expr)>, SqlError> {
    if clause.columns.iter().any(|name| is_called(name, MERGE_DEFAULTS)) {
        return Ok(Vec::new());
    }
    let MergeInsertKind::Values(values) = &clause.kind else {
        return Err(SqlError::unsupported("INSERT ROW"));
    };
    let [row] = values.rows.as_slice() else {
        return Err(SqlError::syntax("INSERT in MERGE takes one row of VALUES"));
    };
    insert::given_columns(context, target, &clause.columns, &row.content)
}

/// A query with the conditions of the statement, which PostgreSQL reads before what its clauses assign.
pub(super) fn conditions(target: &Target, merge: &Merge, with: Option<&With>) -> Query {
    let conditions = merge.clauses.iter().filter_map(|clause| clause.predicate.clone()).enumerate();
    let mut items: Vec<SelectItem> =
        conditions.map(|(place, value)| select::item(value, format!("condition {place}"))).collect();
    items.push(select::item(number(1), "one".to_owned()));
    of_pairs(merge, target, items, with)
}

/// A query with all expressions of the statement, to infer types from.
pub(super) fn underlying(target: &Target, merge: &Merge, with: Option<&With>) -> Query {
    let mut values = Vec::new();
    for clause in &merge.clauses {
        values.extend(clause.predicate.clone());
        match &clause.action {
            action if is_nothing(action) => {}
            MergeAction::Update(update) => {
                values.extend(update.assignments.iter().map(|set| set.value.clone()));
            }
            MergeAction::Insert(MergeInsertExpr { kind: MergeInsertKind::Values(rows), .. }) => {
                values.extend(rows.rows.iter().flat_map(|row| row.content.iter().cloned()));
            }
            MergeAction::Insert(_) | MergeAction::Delete { .. } => {}
        }
    }
    let values = values.into_iter().filter(|value| !is_default(value) && !matches!(value, Expr::Tuple(_)));
    let mut items: Vec<SelectItem> =
        values.enumerate().map(|(place, value)| select::item(value, format!("value {place}"))).collect();
    items.push(select::item(number(1), "one".to_owned()));
    of_pairs(merge, target, items, with)
}

fn check_types(def: &TableDef, actions: &[Action], found: &RowSet) -> Result<(), SqlError> {
    for action in actions {
        let (Action::Update(values) | Action::Insert(values)) = action else { continue };
        for (column, value) in values {
            if let NewValue::Selected(place, expression) = value {
                let from = found.schema.field(*place).data_type();
                selected::check(from, source_type(expression), &def.columns[*column])?;
            }
        }
    }
    Ok(())
}

impl Clauses {
    /// By batch: which clause applies to each row.
    fn choices(&self) -> Result<Vec<Int32Array>, SqlError> {
        let choice = |batch: &RecordBatch| -> Result<Int32Array, SqlError> {
            let numbers = arrow::compute::cast(batch.column(self.choice), &DataType::Int32)?;
            Ok(numbers.as_primitive::<Int32Type>().clone())
        };
        self.found.batches.iter().map(choice).collect()
    }

    /// By batch, clause and value: the columns of the query as the table's types; only those of rows to which the
    /// clause applies are looked at.
    fn arrays(
        &self,
        context: &StatementContext<'_>,
        def: &TableDef,
    ) -> Result<Vec<Vec<Vec<Option<ArrayRef>>>>, SqlError> {
        let zone = context.settings.zone();
        let batches = self.found.batches.iter().map(|batch| {
            let of_action = |action: &Action| match action {
                Action::Nothing | Action::Delete => Ok(Vec::new()),
                Action::Update(values) | Action::Insert(values) => {
                    let array = |(column, value): &(usize, NewValue)| match value {
                        NewValue::Generated(_) => Ok(None),
                        NewValue::Selected(place, _) => {
                            selected::assigned(batch.column(*place), &def.columns[*column], zone).map(Some)
                        }
                    };
                    values.iter().map(array).collect::<Result<Vec<_>, SqlError>>()
                }
            };
            self.actions.iter().map(of_action).collect::<Result<Vec<_>, SqlError>>()
        });
        batches.collect()
    }
}

fn action_of<'c>(
    clauses: &'c Clauses,
    choices: &[Int32Array],
    batch: usize,
    row: usize,
) -> Option<(usize, &'c Action)> {
    let choices = &choices[batch];
    if choices.is_null(row) {
        return None;
    }
    let place = usize::try_from(choices.value(row)).ok()?;
    clauses.actions.get(place).map(|action| (place, action))
}

/// Updates and deletes the rows that match; how many.
fn change(context: &mut StatementContext<'_>, target: &Target, clauses: &Clauses) -> Result<u64, SqlError> {
    let choices = clauses.choices()?;
    let arrays = clauses.arrays(context, &target.def)?;
    let applies = |row: &FoundRow| match action_of(clauses, &choices, row.batch, row.row) {
        None | Some((_, Action::Nothing)) => None,
        Some(found) => Some(found),
    };
    let mut rows = found_pairs(&target.def, &clauses.found.batches)?;
    rows.retain(|row| applies(row).is_some());
    refuse_twice(&rows)?;
    let parts = context.parts.clone();
    let (environment, transaction) = environment::split(context);
    rows.retain(|row| !crate::context::has_written(parts.as_deref(), transaction, target.id(), &row.key));
    let set = clauses.actions.iter().flat_map(|action| match action {
        Action::Update(values) => values.iter().map(|(column, _)| *column).collect(),
        Action::Nothing | Action::Delete | Action::Insert(_) => Vec::new(),
    });
    let deletes = clauses.actions.iter().any(|action| matches!(action, Action::Delete));
    let strength = if deletes { LockStrength::Update } else { strength_of_update(&target.def, set) };
    transaction.lock_found(target.id(), rows.iter().map(|row| &row.key), strength)?;
    let mut count = 0;
    let writing = Writing::begin(rows.len() as u64);
    for row in &rows {
        writing.row()?;
        let Some((place, action)) = applies(row) else { continue };
        let Action::Update(values) = action else {
            count += u64::from(transaction.delete(target.id(), &row.key)?);
            continue;
        };
        let Some(old) = transaction.get(target.id(), &row.key)? else { continue };
        let mut new = Vec::with_capacity(values.len());
        for (position, (column, value)) in values.iter().enumerate() {
            let value = match value {
                NewValue::Generated(generator) => generator.value(&environment)?,
                NewValue::Selected(..) => {
                    let array = arrays[row.batch][place][position].as_ref();
                    array.map_or(Value::Null, |array| value_at(array, row.row).to_owned())
                }
            };
            new.push((*column, value));
        }
        let new = old.with(&new);
        transaction.update(target.id(), &row.key, new.clone()).map_err(|error| {
            let given: Vec<usize> = values.iter().map(|(column, _)| *column).collect();
            let value = |column| new.get(target.def.layout(), column).unwrap_or(ValueRef::Null);
            refused(error, &target.def, &given, value, environment.zone)
        })?;
        count += 1;
    }
    Ok(count)
}

/// `21000` if a row is found twice. They are in the order of their keys.
fn refuse_twice(rows: &[FoundRow]) -> Result<(), SqlError> {
    if rows.iter().zip(rows.iter().skip(1)).all(|(row, next)| row.key != next.key) {
        return Ok(());
    }
    let message = "MERGE command cannot affect row a second time";
    Err(SqlError::new(SqlState::CardinalityViolation, message)
        .with_hint("Ensure that not more than one source row matches any one target row."))
}

/// Inserts what the clauses say for rows that match nothing; how many.
fn add(context: &mut StatementContext<'_>, target: &Target, clauses: &Clauses) -> Result<u64, SqlError> {
    let choices = clauses.choices()?;
    let arrays = clauses.arrays(context, &target.def)?;
    let (mut rows, mut memory) = (Vec::new(), ReturnedMemory::default());
    for (batch, of_batch) in clauses.found.batches.iter().enumerate() {
        for row in 0..of_batch.num_rows() {
            let Some((place, Action::Insert(values))) = action_of(clauses, &choices, batch, row) else {
                continue;
            };
            cancel::check()?;
            let mut given = vec![None; target.def.columns.len()];
            for ((column, _), array) in values.iter().zip(&arrays[batch][place]) {
                given[*column] = array.as_ref().map(|array| value_at(array, row).to_owned());
            }
            for value in &given {
                let kept = value.as_ref().map_or(ValueRef::Null, Value::borrow);
                memory.add(kept, &context.engine.queries)?;
            }
            rows.push(given);
        }
    }
    // Their memory is given back behind this.
    let added = insert::add_rows(context, target, rows);
    drop(memory);
    added
}
