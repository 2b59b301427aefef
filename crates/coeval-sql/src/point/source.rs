// SPDX-License-Identifier: Apache-2.0
//! The tables of a point statement, the conditions of their joins, and the compiler of its expressions.

use crate::context::StatementContext;
use crate::names;
use crate::parameters::ParameterTypes;
use crate::rights::{Object, Rights};
use crate::scalar::{Compiler, Refusal, Scalar, Scope, ScopeTable, SequenceNames, folded, parse_stored};
use coeval_store::{ColumnDef, ObjectRef, Privilege, TableDef};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Ident, JoinConstraint, JoinOperator, ObjectName, ObjectNamePart, TableAlias,
    TableFactor, TableWithJoins,
};
use std::borrow::Cow;
use std::sync::Arc;

/// The most tables of a statement with its subqueries, from the outermost to the innermost one.
const TABLES_MAX: usize = 16;

/// What a statement or a subquery reads from: one table or several joined.
#[derive(Debug)]
pub(super) struct Source {
    /// In the order of their numbers, which begin at the scope's first.
    pub(super) tables: Vec<Arc<TableDef>>,
    pub(super) scope: Scope,
    /// The tables that outer joins fill up with NULLs, a bit each by their numbers.
    pub(super) filled: u64,
}

/// One of the conditions that rows must satisfy.
#[derive(Clone, Debug)]
pub(super) struct Conjunct<'q> {
    pub(super) expression: Cow<'q, Expr>,
    /// The tables of its own source that it may name, a bit each.
    pub(super) sees: u64,
    /// The table that an outer join fills up with NULLs where no row of it satisfies this.
    pub(super) fills: Option<usize>,
}

impl<'q> Conjunct<'q> {
    /// The conditions that a WHERE is the AND of.
    pub(super) fn of_where(selection: &'q Expr) -> Vec<Self> {
        let conjunct = |expression| Self { expression, sees: u64::MAX, fills: None };
        borrowed(selection).map(conjunct).collect()
    }
}

fn borrowed(condition: &Expr) -> impl Iterator<Item = Cow<'_, Expr>> {
    let mut expressions = Vec::new();
    conjuncts(condition, &mut expressions);
    expressions.into_iter().map(Cow::Borrowed)
}

/// The numbers from one up to before another one, a bit each.
pub(super) const fn bits(first: usize, end: usize) -> u64 {
    (1 << end) - (1 << first)
}

impl Source {
    /// One table under its own name.
    pub(super) fn of_table(def: Arc<TableDef>, alias: Option<String>) -> Self {
        let table = ScopeTable::of_table(&def);
        let table = match alias {
            Some(alias) => table.with_alias(alias),
            None => table,
        };
        Self { tables: vec![def], scope: Scope::new(vec![table]), filled: 0 }
    }

    /// Its tables, a bit each.
    pub(super) fn bits(&self) -> u64 {
        bits(self.scope.first(), self.scope.end())
    }

    /// Its tables with their numbers.
    pub(super) fn numbered(&self) -> impl Iterator<Item = (usize, &Arc<TableDef>)> {
        (self.scope.first()..).zip(&self.tables)
    }
}

/// Compiles one statement: knows its names, and learns its parameters.
pub(super) struct Planner<'c> {
    context: &'c StatementContext<'c>,
    pub(super) parameters: ParameterTypes,
    sequences: Box<SequenceNames<'c>>,
    rights: Rights,
}

impl<'c> Planner<'c> {
    pub(super) fn new(context: &'c StatementContext<'c>, parameters: ParameterTypes) -> Self {
        let rights = context.rights();
        let own = rights.clone();
        let sequences = move |text: &str| {
            let name = match text.split_once('.') {
                Some((schema, name)) => {
                    names::resolve(Some(schema), name, context.settings, context.transaction)
                }
                None => names::resolve(None, text, context.settings, context.transaction),
            };
            match context.transaction.catalog().resolve(&name?)? {
                // If the role may not take its values, the general path reports the error.
                ObjectRef::Sequence(id) => {
                    let sequence = context.transaction.catalog().sequence(id).cloned();
                    sequence.filter(|sequence| own.may_take_values(sequence))
                }
                ObjectRef::Table(_) | ObjectRef::Index(..) | ObjectRef::View => None,
            }
        };
        Self { context, parameters, sequences: Box::new(sequences), rights }
    }

    /// Refuses numbers of sequences from now on. If the statement is left to the general path after all, each row would take one twice.
    pub(super) fn refuse_numbers(&mut self) {
        self.sequences = Box::new(|_: &str| None);
    }

    /// A compiler over these names.
    pub(super) fn compiler<'p>(&'p mut self, scope: &'p Scope) -> Compiler<'p> {
        Compiler::new(scope, &mut self.parameters).with_sequences(&*self.sequences)
    }

    /// What a column takes when nothing is given: the next value of its sequence, its default, or NULL.
    pub(super) fn default_of(&mut self, column: &ColumnDef) -> Result<Scalar, Refusal> {
        let scope = Scope::empty();
        if let Some(sequence) = column.sequence {
            let known = self.context.transaction.catalog().sequence(sequence).cloned();
            let known = known.ok_or_else(|| Refusal::unsupported("a sequence that is gone"))?;
            return Ok(Scalar::next_value(known, column.ty));
        }
        let Some(text) = &column.default else { return Ok(Scalar::null(column.ty)) };
        let expression = parse_stored(text)?;
        let functions = self.context.engine.template();
        self.compiler(&scope).with_fallback(functions).assignment(&expression, column)
    }

    /// The table of this name, on which the statement needs these privileges. If one is lacking, the general path reports the
    /// error.
    pub(super) fn table(&self, name: &ObjectName, needs: &[Privilege]) -> Result<Arc<TableDef>, Refusal> {
        let context = self.context;
        let def = names::table(name, context.settings, context.transaction)?;
        if def.bricks.is_some() {
            return Err(Refusal::unsupported("a brick table"));
        }
        if def.foreign.is_some() {
            return Err(Refusal::unsupported("a table of a server"));
        }
        for privilege in needs {
            self.rights.require(Object::Table(&def), *privilege)?;
        }
        Ok(def)
    }

    /// The tables of a FROM clause, each of which needs these privileges, and the conditions of its joins. `around` has the names of the
    /// query around, if it is one of a subquery.
    pub(super) fn source<'q>(
        &self,
        from: &'q [TableWithJoins],
        around: &Scope,
        conditions: &mut Vec<Conjunct<'q>>,
        needs: &[Privilege],
    ) -> Result<Source, Refusal> {
        let nothing = Source { tables: Vec::new(), scope: Scope::within(around), filled: 0 };
        self.with_tables(nothing, from, conditions, needs)
    }

    /// A table that is changed, and behind it those of the FROM or USING of the change, which are read.
    pub(super) fn target<'q>(
        &self,
        target: Source,
        from: &'q [TableWithJoins],
        conditions: &mut Vec<Conjunct<'q>>,
    ) -> Result<Source, Refusal> {
        self.with_tables(target, from, conditions, &[Privilege::Select])
    }

    fn with_tables<'q>(
        &self,
        mut source: Source,
        from: &'q [TableWithJoins],
        conditions: &mut Vec<Conjunct<'q>>,
        needs: &[Privilege],
    ) -> Result<Source, Refusal> {
        for item in from {
            let begin = source.scope.end();
            self.factor(&item.relation, &mut source, needs)?;
            for join in &item.joins {
                if join.global {
                    return Err(Refusal::unsupported("GLOBAL JOIN"));
                }
                self.factor(&join.relation, &mut source, needs)?;
                let end = source.scope.end();
                let Joined { constraint, fills } = joined(&join.join_operator, begin, end)?;
                let place = begin - source.scope.first();
                let expressions: Vec<Cow<'q, Expr>> = match constraint {
                    JoinConstraint::None => Vec::new(),
                    JoinConstraint::On(condition) => borrowed(condition).collect(),
                    JoinConstraint::Using(columns) => {
                        equal_columns(columns, &mut source.scope.tables_mut()[place..])?
                    }
                    JoinConstraint::Natural => return Err(Refusal::unsupported("NATURAL JOIN")),
                };
                source.filled |= fills.map_or(0, |table| 1 << table);
                let sees = bits(begin, end);
                conditions.extend(expressions.into_iter().map(|expression| Conjunct {
                    expression,
                    sees,
                    fills,
                }));
            }
        }
        Ok(source)
    }

    fn factor(&self, factor: &TableFactor, source: &mut Source, needs: &[Privilege]) -> Result<(), Refusal> {
        let (name, alias) = table_name(factor)?;
        let def = self.table(name, needs)?;
        let table = ScopeTable::of_table(&def);
        let table = match alias {
            Some(alias) => table.with_alias(alias),
            None => table,
        };
        if source.scope.tables().iter().any(|other| other.name() == table.name()) {
            return Err(Refusal::unsupported("a table name used twice"));
        }
        if source.scope.end() == TABLES_MAX {
            return Err(Refusal::unsupported("so many tables"));
        }
        source.scope.push(table);
        source.tables.push(def);
        Ok(())
    }
}

/// What a join adds to the tables before it.
struct Joined<'q> {
    constraint: &'q JoinConstraint,
    /// The table that it fills up.
    fills: Option<usize>,
}

/// What a join does whose left side begins at a table with this number, and whose right side is the table before `end`.
fn joined(operator: &JoinOperator, begin: usize, end: usize) -> Result<Joined<'_>, Refusal> {
    let (constraint, fills) = match operator {
        JoinOperator::CrossJoin(constraint @ JoinConstraint::None) => (constraint, None),
        JoinOperator::Join(constraint) | JoinOperator::Inner(constraint) if has_condition(constraint) => {
            (constraint, None)
        }
        JoinOperator::Left(constraint) | JoinOperator::LeftOuter(constraint) if has_condition(constraint) => {
            (constraint, Some(end - 1))
        }
        // Of several tables on its left it fills up all at once, and its columns by USING are those of the right side.
        JoinOperator::Right(constraint @ JoinConstraint::On(_))
        | JoinOperator::RightOuter(constraint @ JoinConstraint::On(_))
            if end - begin == 2 =>
        {
            (constraint, Some(begin))
        }
        _ => return Err(Refusal::unsupported("this join")),
    };
    Ok(Joined { constraint, fills })
}

fn has_condition(constraint: &JoinConstraint) -> bool {
    matches!(constraint, JoinConstraint::On(_) | JoinConstraint::Using(_))
}

/// That the last of these tables has the same as those before it in the columns of `USING`. They stand for the columns of the last one from
/// now on, which are of the same types.
fn equal_columns<'q>(
    columns: &[ObjectName],
    tables: &mut [ScopeTable],
) -> Result<Vec<Cow<'q, Expr>>, Refusal> {
    let Some((right, left)) = tables.split_last_mut() else { return Ok(Vec::new()) };
    let quoted = |name: &str| Ident::with_quote('"', name);
    let mut equal = Vec::with_capacity(columns.len());
    for column in columns {
        let [ObjectNamePart::Identifier(column)] = column.0.as_slice() else {
            return Err(Refusal::unsupported(column));
        };
        let column = folded(column);
        let mut owners = left.iter().filter_map(|table| Some((table.name(), table.find_bare(&column)?.1)));
        let (Some((owner, ty)), None) = (owners.next(), owners.next()) else {
            return Err(Refusal::unsupported("a column of USING that is not one of the left side"));
        };
        if right.merge(&column) != Some(ty) {
            return Err(Refusal::unsupported("a column of USING of another type"));
        }
        let of = |table: &str| Box::new(Expr::CompoundIdentifier(vec![quoted(table), quoted(&column)]));
        let (left, op, right) = (of(owner), BinaryOperator::Eq, of(right.name()));
        equal.push(Cow::Owned(Expr::BinaryOp { left, op, right }));
    }
    Ok(equal)
}

/// Name and alias of a plain table.
pub(super) fn table_name(factor: &TableFactor) -> Result<(&ObjectName, Option<String>), Refusal> {
    match factor {
        TableFactor::Table {
            name,
            alias,
            args: None,
            with_hints,
            version: None,
            with_ordinality: false,
            partitions,
            json_path: None,
            sample: None,
            index_hints,
        } if with_hints.is_empty() && partitions.is_empty() && index_hints.is_empty() => {
            Ok((name, alias.as_ref().map(alias_name).transpose()?))
        }
        _ => Err(Refusal::unsupported("this item of FROM")),
    }
}

fn alias_name(alias: &TableAlias) -> Result<String, Refusal> {
    if alias.columns.is_empty() && alias.at.is_none() {
        Ok(folded(&alias.name))
    } else {
        Err(Refusal::unsupported("column aliases"))
    }
}

/// The conditions that a condition is the AND of.
pub(crate) fn conjuncts<'q>(expression: &'q Expr, out: &mut Vec<&'q Expr>) {
    match expression {
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            conjuncts(left, out);
            conjuncts(right, out);
        }
        Expr::Nested(inner) => conjuncts(inner, out),
        other => out.push(other),
    }
}
