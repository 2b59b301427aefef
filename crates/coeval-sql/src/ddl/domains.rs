// SPDX-License-Identifier: Apache-2.0
//! CREATE DOMAIN, ALTER DOMAIN and DROP DOMAIN.
//!
//! A column keeps its domain as that is, so a changed domain gives every table that uses it a new definition, after its rows were
//! looked at. What is stored does not change.

mod syntax;

pub(super) use syntax::{DomainChange, DomainStatement};

use super::changed_table::put as put_table;
use super::{enum_types, expressions, lookup, naming, ownership, validate};
use crate::cancel;
use crate::context::StatementContext;
use crate::error::{SqlError, SqlState};
use crate::names::fold;
use crate::parse::fix_in_definition;
use crate::query::refuse_collation;
use crate::result::StatementResult;
use crate::stored::parse_query;
use crate::stored::view_query::quoted;
use crate::types::{no_condition, second_digits, type_in_words};
use crate::user_types::{base_type, declared_domain, declared_type, with_value};
use crate::values;
use arrow::datatypes::DataType as ArrowType;
use coeval_store::{
    CatalogChange, CheckDef, ColumnDef, DomainDef, EnumDef, QualifiedName, TableDef, TypeDef, Validity,
};
use datafusion::sql::sqlparser::ast::{
    ColumnOption, ColumnOptionDef, DataType, Expr, Ident, ObjectName, Value as AstValue,
};
use std::sync::Arc;

/// Runs the statement.
///
/// # Errors
/// `42710` for a name that is taken, `42704` for one that is not there, `42809` for a type that is no domain, `42501` for others than
/// its owner; `23514` and `23502` if a value of a table does not satisfy what is new; what is wrong with an expression.
pub(super) fn execute(
    context: &mut StatementContext<'_>,
    statement: &DomainStatement,
) -> Result<StatementResult, SqlError> {
    match statement {
        DomainStatement::Create { name, data_type, options } => {
            create(context, name, data_type, options)?;
            Ok(StatementResult::plain("CREATE DOMAIN"))
        }
        DomainStatement::Alter { name, change } => {
            alter(context, name, change)?;
            Ok(StatementResult::plain("ALTER DOMAIN"))
        }
        DomainStatement::Drop { names, missing, behavior } => {
            for name in names {
                if let Some(def) = enum_types::owned(context, name)? {
                    domain_of(&def)?;
                }
            }
            enum_types::drop(context, names, *missing, *behavior)?;
            Ok(StatementResult::plain("DROP DOMAIN"))
        }
    }
}

fn create(
    context: &mut StatementContext<'_>,
    name: &ObjectName,
    data_type: &DataType,
    options: &[ColumnOptionDef],
) -> Result<(), SqlError> {
    let name = lookup::target(context, name)?;
    lookup::require_create(context, &name.schema)?;
    enum_types::refuse_taken(context, &name)?;
    if declared_domain(data_type, context.settings, context.transaction).is_some() {
        return Err(SqlError::unsupported("a domain over another domain")
            .with_hint("Make it over that one's type, with its checks."));
    }
    let ty = declared_type(data_type, context.settings, context.transaction)?;
    let store = context.engine.store();
    let (id, array_id) = (store.new_space_id(), store.new_space_id());
    let mut domain = DomainDef {
        id,
        name: name.clone(),
        ty,
        declared: data_type.to_string(),
        second_digits: second_digits(data_type),
        not_null: false,
        default: None,
        checks: Vec::new(),
    };
    read_options(context, &mut domain, options)?;
    let ty = enum_types::defined(EnumDef::new(id, array_id, name, std::iter::empty()))?;
    let def = TypeDef { ty, domain: Some(Box::new(domain)), access: lookup::own_access(context) };
    context.transaction.change_catalog(CatalogChange::PutType(def))?;
    Ok(())
}

fn read_options(
    context: &mut StatementContext<'_>,
    domain: &mut DomainDef,
    options: &[ColumnOptionDef],
) -> Result<(), SqlError> {
    let says_null = options.iter().any(|option| matches!(option.option, ColumnOption::Null));
    for option in options {
        match &option.option {
            ColumnOption::Null => {}
            ColumnOption::NotNull if says_null => {
                return Err(SqlError::syntax("conflicting NULL/NOT NULL constraints"));
            }
            ColumnOption::NotNull => domain.not_null = true,
            ColumnOption::Default(_) if domain.default.is_some() => {
                return Err(SqlError::syntax("multiple default expressions"));
            }
            ColumnOption::Default(expr) => domain.default = Some(default_text(context, domain, expr)?),
            ColumnOption::Check(check) => {
                let check = new_check(context, domain, option.name.as_ref(), &check.expr)?;
                push_check(domain, check);
            }
            ColumnOption::Collation(name) => refuse_collation(name)?,
            ColumnOption::Unique(_) | ColumnOption::PrimaryKey(_) | ColumnOption::ForeignKey(_) => {
                return Err(SqlError::syntax("only CHECK and NOT NULL constraints are possible for domains"));
            }
            other => return Err(SqlError::unsupported(format!("{other} in CREATE DOMAIN"))),
        }
    }
    Ok(())
}

/// A default as the text that is kept.
fn default_text(
    context: &mut StatementContext<'_>,
    domain: &DomainDef,
    expr: &Expr,
) -> Result<String, SqlError> {
    let bound = expressions::with_bound_sequences(context, expr)?;
    let kept = expressions::with_fixed_instant(context, bound, domain.ty);
    values::validate_default(context, &ColumnDef::new("value", domain.ty), &kept)?;
    Ok(kept.to_string())
}

/// A check as it is kept, with a name.
///
/// # Errors
/// `42710` for a name that another has, `42804` if it is no condition, and what else is wrong with it.
fn new_check(
    context: &mut StatementContext<'_>,
    domain: &DomainDef,
    name: Option<&Ident>,
    condition: &Expr,
) -> Result<CheckDef, SqlError> {
    expressions::refuse_subquery(condition, "check constraint")?;
    expressions::refuse_aggregates(context, condition)?;
    let is_taken = |name: &str| domain.checks.iter().any(|check| check.name == name);
    let name = match name.map(fold) {
        Some(name) if is_taken(&name) => {
            let message = format!("constraint \"{name}\" for domain \"{}\" already exists", domain.name.name);
            return Err(SqlError::new(SqlState::DuplicateObject, message));
        }
        Some(name) => name,
        None => naming::choose(&domain.name.name, &[], "check", is_taken),
    };
    let mut condition = condition;
    while let Expr::Nested(inner) = condition {
        condition = inner;
    }
    let mut condition = condition.clone();
    fix_in_definition(&mut condition, context.clock, context.settings.zone());
    let nothing = crate::select::cast(Expr::Value(AstValue::Null.into()), base_type(domain));
    let tried = with_value(condition.clone(), &nothing);
    let schema = values::schema_of_definition(context, &*parse_query(&format!("SELECT ({tried})"))?)?;
    match schema.field(0).data_type() {
        ArrowType::Boolean | ArrowType::Null => {}
        other => return Err(no_condition("CHECK", &type_in_words(other))),
    }
    Ok(CheckDef { name, expression: condition.to_string(), validity: Validity::Valid })
}

/// Puts a check among the others, which are tried in the order of their names, as in PostgreSQL.
fn push_check(domain: &mut DomainDef, check: CheckDef) {
    domain.checks.push(check);
    domain.checks.sort_by(|a, b| a.name.cmp(&b.name));
}

fn alter(
    context: &mut StatementContext<'_>,
    name: &ObjectName,
    change: &DomainChange,
) -> Result<(), SqlError> {
    let old = enum_types::owned(context, name)?.ok_or_else(|| enum_types::unknown(name))?;
    let mut changed = domain_of(&old)?.clone();
    match change {
        DomainChange::SetDefault(expr) => changed.default = Some(default_text(context, &changed, expr)?),
        DomainChange::DropDefault => changed.default = None,
        DomainChange::SetNotNull => {
            check_values(context, &old, None)?;
            changed.not_null = true;
        }
        DomainChange::DropNotNull => changed.not_null = false,
        DomainChange::AddCheck { name, condition, validity } => {
            let mut check = new_check(context, &changed, name.as_ref(), condition)?;
            if validity.is_valid() {
                check_values(context, &old, Some(&check))?;
            }
            check.validity = *validity;
            push_check(&mut changed, check);
        }
        DomainChange::DropConstraint(name, missing) => {
            let Some(place) = changed.checks.iter().position(|check| check.name == fold(name)) else {
                return no_constraint(context, &changed, name, *missing);
            };
            changed.checks.remove(place);
        }
        DomainChange::RenameConstraint { from, to } => {
            let place = constraint(&changed, from)?;
            let mut check = changed.checks.remove(place);
            check.name = fold(to);
            push_check(&mut changed, check);
        }
        DomainChange::Validate(name) => {
            let place = constraint(&changed, name)?;
            check_values(context, &old, Some(&changed.checks[place]))?;
            changed.checks[place].validity = Validity::Valid;
        }
        DomainChange::Rename(new) => {
            let name = QualifiedName::new(&changed.name.schema, fold(new));
            return enum_types::move_to(context, &old, name);
        }
        DomainChange::Owner(owner) => return ownership::of_type(context, &old, owner),
        DomainChange::Schema(schema) => return enum_types::set_schema(context, name, schema),
    }
    put(context, &old, changed)
}

/// The domain that a type is.
///
/// # Errors
/// `42809` if it is none.
fn domain_of(def: &TypeDef) -> Result<&DomainDef, SqlError> {
    def.domain.as_deref().ok_or_else(|| {
        SqlError::new(SqlState::WrongObjectType, format!("\"{}\" is not a domain", def.name().name))
    })
}

/// The place of a constraint of this name.
fn constraint(domain: &DomainDef, name: &Ident) -> Result<usize, SqlError> {
    let place = domain.checks.iter().position(|check| check.name == fold(name));
    place.ok_or_else(|| unknown_constraint(domain, name))
}

fn unknown_constraint(domain: &DomainDef, name: &Ident) -> SqlError {
    let message = format!("constraint \"{}\" of domain \"{}\" does not exist", fold(name), domain.name.name);
    SqlError::new(SqlState::UndefinedObject, message)
}

fn no_constraint(
    context: &mut StatementContext<'_>,
    domain: &DomainDef,
    name: &Ident,
    missing: super::existence::Missing,
) -> Result<(), SqlError> {
    let error = unknown_constraint(domain, name);
    if missing == super::existence::Missing::Refuse {
        return Err(error);
    }
    context.notice(SqlState::SuccessfulCompletion, format!("{}, skipping", error.message));
    Ok(())
}

/// Looks whether all values of a domain satisfy a check, or are not NULL without one.
///
/// # Errors
/// `23514` and `23502`, naming the column.
fn check_values(
    context: &mut StatementContext<'_>,
    def: &TypeDef,
    check: Option<&CheckDef>,
) -> Result<(), SqlError> {
    for table in enum_types::tables_with(context, def.id()) {
        let columns = table.live_columns().filter(|(_, column)| is_of(column, def));
        let names: Vec<String> = columns.map(|(_, column)| column.name.clone()).collect();
        for name in names {
            cancel::check()?;
            let value = Expr::Identifier(Ident::with_quote('"', &name));
            let refused = match check {
                Some(check) => {
                    format!("NOT ({})", with_value(expressions::parse(&check.expression)?, &value))
                }
                None => format!("{} IS NULL", quoted(&name)),
            };
            let sql = format!("SELECT 1 FROM {} WHERE {refused} LIMIT 1", validate::relation(&table));
            if values::collect_unchecked(context, &sql)?.rows() == 0 {
                continue;
            }
            let place = format!("column \"{name}\" of table \"{}\"", table.name.name);
            return Err(match check {
                Some(_) => SqlError::new(
                    SqlState::CheckViolation,
                    format!("{place} contains values that violate the new constraint"),
                ),
                None => SqlError::new(SqlState::NotNullViolation, format!("{place} contains null values")),
            });
        }
    }
    Ok(())
}

fn is_of(column: &ColumnDef, def: &TypeDef) -> bool {
    column.domain.as_ref().is_some_and(|domain| domain.id == def.id())
}

/// Gives a domain its new definition, and with it the columns that are of it. Those that had its default have the new one.
///
/// # Errors
/// `53200` if the process has kept too many definitions of types.
pub(super) fn put(context: &mut StatementContext<'_>, old: &TypeDef, new: DomainDef) -> Result<(), SqlError> {
    let ty = enum_types::defined(EnumDef { name: new.name.clone(), ..old.ty.def().clone() })?;
    let (domain, access) = (Some(Box::new(new)), old.access.clone());
    let before = old.domain.as_ref().and_then(|domain| domain.default.clone());
    let default = domain.as_ref().and_then(|domain| domain.default.clone());
    context.transaction.change_catalog(CatalogChange::PutType(TypeDef {
        ty,
        domain: domain.clone(),
        access,
    }))?;
    let tables: Vec<Arc<TableDef>> = enum_types::tables_with(context, old.id());
    for table in tables {
        let mut changed = TableDef::clone(&table);
        for column in changed.columns.iter_mut().filter(|column| is_of(column, old)) {
            let is_filled =
                column.identity.is_some() || column.sequence.is_some() || column.generated.is_some();
            if !is_filled && column.default == before {
                column.default.clone_from(&default);
            }
            column.domain.clone_from(&domain);
        }
        put_table(context, changed)?;
    }
    Ok(())
}
