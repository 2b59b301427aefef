// SPDX-License-Identifier: Apache-2.0
//! Walks over the syntax of statements, compiled once.
//!
//! The parser's own `visit` is compiled anew for each type of visitor, and for each closure: a copy of the whole walk over
//! hundreds of types each time, which was close to a half of this crate's code. Here one visitor does all walks and asks the one that is meant through a pointer.

use datafusion::sql::sqlparser::ast::{
    Expr, ObjectName, Query, Select, Statement, TableFactor, ValueWithSpan, Visit, VisitMut, Visitor,
    VisitorMut,
};
use std::ops::ControlFlow;

/// Writes each step of a walk: what it is about comes by `$reference`, and goes to the visitor that `step` gives.
macro_rules! steps {
    (@ $reference:tt $($pre:ident $post:ident $node:ty),*) => {
        $(steps!(# $reference $pre $node); steps!(# $reference $post $node);)*
    };
    (# [$($reference:tt)*] $step:ident $node:ty) => {
        fn $step(&mut self, node: $($reference)* $node) -> ControlFlow<()> {
            self.step(|visitor| visitor.$step(node))
        }
    };
    ($($reference:tt)*) => {
        steps!(@ [$($reference)*]
            pre_visit_query post_visit_query Query,
            pre_visit_select post_visit_select Select,
            pre_visit_relation post_visit_relation ObjectName,
            pre_visit_table_factor post_visit_table_factor TableFactor,
            pre_visit_expr post_visit_expr Expr,
            pre_visit_statement post_visit_statement Statement,
            pre_visit_value post_visit_value ValueWithSpan);
    };
}

/// A visitor that keeps what it breaks off with, so that all break off with the same.
struct Keeping<'v, V, B> {
    visitor: &'v mut V,
    broken: Option<B>,
}

impl<'v, V, B> Keeping<'v, V, B> {
    fn new(visitor: &'v mut V) -> Self {
        Self { visitor, broken: None }
    }

    fn step(&mut self, step: impl FnOnce(&mut V) -> ControlFlow<B>) -> ControlFlow<()> {
        step(self.visitor).map_break(|broken| self.broken = Some(broken))
    }

    fn outcome(self) -> ControlFlow<B> {
        self.broken.map_or(ControlFlow::Continue(()), ControlFlow::Break)
    }
}

impl<V: Visitor> Visitor for Keeping<'_, V, V::Break> {
    type Break = ();
    steps!(&);
}

impl<V: VisitorMut> VisitorMut for Keeping<'_, V, V::Break> {
    type Break = ();
    steps!(&mut);
}

/// The one visitor that walks.
struct Walker<'v>(&'v mut dyn Visitor<Break = ()>);

impl Walker<'_> {
    fn step(
        &mut self,
        step: impl FnOnce(&mut dyn Visitor<Break = ()>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        step(self.0)
    }
}

impl Visitor for Walker<'_> {
    type Break = ();
    steps!(&);
}

/// The one that walks and changes.
struct WalkerMut<'v>(&'v mut dyn VisitorMut<Break = ()>);

impl WalkerMut<'_> {
    fn step(
        &mut self,
        step: impl FnOnce(&mut dyn VisitorMut<Break = ()>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        step(self.0)
    }
}

impl VisitorMut for WalkerMut<'_> {
    type Break = ();
    steps!(&mut);
}

/// Syntax that is walked over.
pub(crate) trait Walk: Visit {
    /// As the parser's `visit`.
    fn walk<V: Visitor>(&self, visitor: &mut V) -> ControlFlow<V::Break> {
        let mut keeping = Keeping::new(visitor);
        // What it breaks off with is kept.
        let _ = self.visit(&mut Walker(&mut keeping));
        keeping.outcome()
    }

    /// The same, where whatever breaks off is an error.
    fn try_walk<V: Visitor>(&self, visitor: &mut V) -> Result<(), V::Break> {
        self.walk(visitor).break_value().map_or(Ok(()), Err)
    }
}

impl<T: Visit> Walk for T {}

/// Syntax that is walked over and changed.
pub(crate) trait WalkMut: VisitMut {
    /// As the parser's `visit`.
    fn walk_mut<V: VisitorMut>(&mut self, visitor: &mut V) -> ControlFlow<V::Break> {
        let mut keeping = Keeping::new(visitor);
        // What it breaks off with is kept.
        let _ = self.visit(&mut WalkerMut(&mut keeping));
        keeping.outcome()
    }

    /// The same, where whatever breaks off is an error.
    fn try_walk_mut<V: VisitorMut>(&mut self, visitor: &mut V) -> Result<(), V::Break> {
        self.walk_mut(visitor).break_value().map_or(Ok(()), Err)
    }
}

impl<T: VisitMut> WalkMut for T {}

/// Visitors of one step, which is given to a function.
macro_rules! one_step {
    ($($visitor:ident $step:ident $node:ty),*) => {
        $(
            struct $visitor<F>(F);

            impl<E, F: FnMut(&$node) -> ControlFlow<E>> Visitor for $visitor<F> {
                type Break = E;

                fn $step(&mut self, node: &$node) -> ControlFlow<E> {
                    self.0(node)
                }
            }
        )*
    };
}

one_step!(
    Expressions pre_visit_expr Expr,
    Queries pre_visit_query Query,
    Relations pre_visit_relation ObjectName,
    Selects pre_visit_select Select
);

impl<E, F: FnMut(&mut Expr) -> ControlFlow<E>> VisitorMut for Expressions<F> {
    type Break = E;

    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<E> {
        self.0(expression)
    }
}

impl<F: FnMut(&mut Query)> VisitorMut for Queries<F> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.0(query);
        ControlFlow::Continue(())
    }
}

/// Expressions, with how many queries there are around each within what is walked over.
struct WithDepths<F> {
    visit: F,
    depth: usize,
}

impl<E, F: FnMut(&Expr, usize) -> ControlFlow<E>> Visitor for WithDepths<F> {
    type Break = E;

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<E> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<E> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<E> {
        (self.visit)(expression, self.depth)
    }
}

impl<E, F: FnMut(&mut Expr, usize) -> ControlFlow<E>> VisitorMut for WithDepths<F> {
    type Break = E;

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<E> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<E> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<E> {
        (self.visit)(expression, self.depth)
    }
}

/// Goes on unless it has failed.
pub(crate) fn step<E>(done: Result<(), E>) -> ControlFlow<E> {
    done.map_or_else(ControlFlow::Break, ControlFlow::Continue)
}

/// Goes on until something is found.
fn until<T>(found: Option<T>) -> ControlFlow<T> {
    found.map_or(ControlFlow::Continue(()), ControlFlow::Break)
}

/// What is found in the first expression that has it, those around it looked at before it.
pub(crate) fn find_expression<T>(syntax: &impl Visit, mut find: impl FnMut(&Expr) -> Option<T>) -> Option<T> {
    syntax.walk(&mut Expressions(|expression: &Expr| until(find(expression)))).break_value()
}

/// Whether an expression is like that.
pub(crate) fn any_expression(syntax: &impl Visit, mut is_so: impl FnMut(&Expr) -> bool) -> bool {
    find_expression(syntax, |expression| is_so(expression).then_some(())).is_some()
}

/// Each expression, before those within it.
pub(crate) fn each_expression(syntax: &impl Visit, mut visit: impl FnMut(&Expr)) {
    find_expression(syntax, |expression| {
        visit(expression);
        None::<()>
    });
}

/// What is found in the first query that has it, those around it looked at before it.
pub(crate) fn find_query<T>(syntax: &impl Visit, mut find: impl FnMut(&Query) -> Option<T>) -> Option<T> {
    syntax.walk(&mut Queries(|query: &Query| until(find(query)))).break_value()
}

/// Whether a query is like that.
pub(crate) fn any_query(syntax: &impl Visit, mut is_so: impl FnMut(&Query) -> bool) -> bool {
    find_query(syntax, |query| is_so(query).then_some(())).is_some()
}

/// Whether a SELECT is like that.
pub(crate) fn any_select(syntax: &impl Visit, mut is_so: impl FnMut(&Select) -> bool) -> bool {
    syntax.walk(&mut Selects(|select: &Select| until(is_so(select).then_some(())))).is_break()
}

/// What is found in the first name of a relation that has it.
pub(crate) fn find_relation<T>(
    syntax: &impl Visit,
    mut find: impl FnMut(&ObjectName) -> Option<T>,
) -> Option<T> {
    syntax.walk(&mut Relations(|name: &ObjectName| until(find(name)))).break_value()
}

/// Each name of a relation.
pub(crate) fn each_relation(syntax: &impl Visit, mut visit: impl FnMut(&ObjectName)) {
    find_relation(syntax, |name| {
        visit(name);
        None::<()>
    });
}

/// Changes each expression, behind those within it, up to the first that cannot be.
///
/// # Errors
/// Those of `change`.
pub(crate) fn try_change_expressions<E>(
    syntax: &mut impl VisitMut,
    mut change: impl FnMut(&mut Expr) -> Result<(), E>,
) -> Result<(), E> {
    syntax.try_walk_mut(&mut Expressions(|expression: &mut Expr| step(change(expression))))
}

/// Changes each expression, behind those within it.
pub(crate) fn change_expressions(syntax: &mut impl VisitMut, mut change: impl FnMut(&mut Expr)) {
    // Nothing breaks off the visit.
    let _ = syntax.walk_mut(&mut Expressions(|expression: &mut Expr| {
        change(expression);
        ControlFlow::<()>::Continue(())
    }));
}

/// Changes each query, before those within it.
pub(crate) fn change_queries(syntax: &mut impl VisitMut, change: impl FnMut(&mut Query)) {
    // Nothing breaks off the visit.
    let _ = syntax.walk_mut(&mut Queries(change));
}

/// What is found in the first expression that has it. With each goes how many queries there are around it.
pub(crate) fn find_at_depth<T>(
    syntax: &impl Visit,
    mut find: impl FnMut(&Expr, usize) -> Option<T>,
) -> Option<T> {
    let visit = |expression: &Expr, depth: usize| until(find(expression, depth));
    syntax.walk(&mut WithDepths { visit, depth: 0 }).break_value()
}

/// What is found in the first expression that has it, those in subqueries aside.
pub(crate) fn find_outside_queries<T>(
    syntax: &impl Visit,
    mut find: impl FnMut(&Expr) -> Option<T>,
) -> Option<T> {
    find_at_depth(syntax, |expression, depth| if depth == 0 { find(expression) } else { None })
}

/// Whether an expression is like that, those in subqueries aside.
pub(crate) fn any_outside_queries(syntax: &impl Visit, mut is_so: impl FnMut(&Expr) -> bool) -> bool {
    find_outside_queries(syntax, |expression| is_so(expression).then_some(())).is_some()
}

/// Changes each expression, before those within it, but none in a subquery, up to the first that cannot be.
///
/// # Errors
/// Those of `change`.
pub(crate) fn try_change_outside_queries<E>(
    syntax: &mut impl VisitMut,
    mut change: impl FnMut(&mut Expr) -> Result<(), E>,
) -> Result<(), E> {
    let visit = |expression: &mut Expr, depth: usize| {
        if depth == 0 { step(change(expression)) } else { ControlFlow::Continue(()) }
    };
    syntax.try_walk_mut(&mut WithDepths { visit, depth: 0 })
}

/// Changes each expression, before those within it, but none in a subquery.
pub(crate) fn change_outside_queries(syntax: &mut impl VisitMut, mut change: impl FnMut(&mut Expr)) {
    // Nothing breaks off the visit.
    let _ = try_change_outside_queries(syntax, |expression| -> Result<(), ()> {
        change(expression);
        Ok(())
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    /// Notes each step, and breaks off at a value.
    #[derive(Default)]
    struct Noting(Vec<String>);

    macro_rules! noting {
        ($($reference:tt)*) => {
            type Break = String;

            fn pre_visit_expr(&mut self, node: $($reference)* Expr) -> ControlFlow<String> {
                self.0.push(format!("before {node}"));
                ControlFlow::Continue(())
            }

            fn post_visit_expr(&mut self, node: $($reference)* Expr) -> ControlFlow<String> {
                self.0.push(format!("behind {node}"));
                ControlFlow::Continue(())
            }

            fn pre_visit_relation(&mut self, node: $($reference)* ObjectName) -> ControlFlow<String> {
                self.0.push(format!("relation {node}"));
                ControlFlow::Continue(())
            }

            fn pre_visit_value(&mut self, node: $($reference)* ValueWithSpan) -> ControlFlow<String> {
                match node.to_string() {
                    end if end == "'end'" => ControlFlow::Break(end),
                    _ => ControlFlow::Continue(()),
                }
            }
        };
    }

    impl Visitor for Noting {
        noting!(&);
    }

    impl VisitorMut for Noting {
        noting!(&mut);
    }

    #[test]
    fn a_walk_goes_as_the_parsers_own_and_breaks_off_with_the_same() {
        for sql in [
            "SELECT a + 1, (SELECT max(b) FROM u WHERE u.a = t.a) FROM t WHERE a IN (1, 2) ORDER BY a",
            "INSERT INTO t SELECT 'end', a FROM t",
            "UPDATE t SET a = CASE WHEN a > 0 THEN a ELSE 'end' END WHERE b = 1",
        ] {
            let mut statements = Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap();
            let (mut own, mut ours) = (Noting::default(), Noting::default());
            assert_eq!(statements.visit(&mut own), statements.walk(&mut ours), "{sql}");
            assert_eq!(own.0, ours.0, "{sql}");
            assert!(!own.0.is_empty(), "{sql}");
            let (mut own, mut ours) = (Noting::default(), Noting::default());
            let left = VisitMut::visit(&mut statements, &mut own);
            assert_eq!(left, statements.walk_mut(&mut ours), "{sql}");
            assert_eq!(own.0, ours.0, "{sql}");
        }
    }
}
