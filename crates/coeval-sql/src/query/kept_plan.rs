// SPDX-License-Identifier: Apache-2.0
//! The optimized plan of a query, kept for its next execution.
//!
//! Most of the time that planning takes goes into the rules for logical plans. What they make is free of any snapshot: tables are found
//! in it when the physical plan is made. So it can be used again, as long as the rules would make the same of it:
//!
//! - definitions and rights are as they were ([`PlannedQuery::is_current`](super::plan::PlannedQuery::is_current));
//! - settings are as they were, since constants are folded by the zone and other settings;
//! - no constant was made of something that changes from one statement to the next under the same settings, as `now()` does;
//! - tables have about as many rows as they had: the order of joins was chosen by that. A plan for other sizes gives the same rows, later.
//!
//! As long holds what [samples of tables](Answers) told while it was made, and in its executions since: the physical plan of the next
//! execution takes no sample again. A query with parameters asks them for its values, so nothing of that is kept.
//!
//! A query with parameters has a plan for the values of each execution first, as in PostgreSQL. After [`CUSTOM_PLANS`] of them one is
//! made [for all values](super::generic_plan). It is kept if it has the shape of those before: values decide the order of joins, by
//! what is estimated for them, and may decide conditions. Where they decided neither so far, nothing is gained by looking at them
//! again. Where shapes differ, each execution goes on with a plan of its own. `plan_cache_mode` says otherwise.

use super::generic_plan::ForAllValues;
use super::kept_physical::KeptPhysical;
use super::plan_shape::Shape;
use super::typing::{EXTRACT, SERIES};
use crate::provider::{Answers, StatementSnapshot};
use crate::scalar::cast_function::{CAST, asks_for_time};
use crate::settings::Settings;
use crate::{functions, json};
use coeval_store::{SpaceId, TableDef};
use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan, ScalarUDF, Volatility};
use std::sync::Arc;

/// Below so many rows the order of joins matters little.
const FEW_ROWS: u64 = 10_000;

/// By what factor a table may grow or shrink before the order of joins is chosen anew.
const GROWTH_MAX: u64 = 2;

/// How many plans for the values of one execution come before one for all values: as many as in PostgreSQL.
const CUSTOM_PLANS: usize = 5;

/// What a plan was optimized for.
pub(super) struct Circumstances {
    /// The number of the settings.
    settings: u64,
    /// How many rows its tables had.
    rows: Vec<(SpaceId, u64)>,
}

impl Circumstances {
    /// Of a plan that is made in this snapshot of all its tables.
    pub(super) fn new(settings: &Settings, tables: &[Arc<TableDef>], snapshot: &StatementSnapshot) -> Self {
        let rows = tables.iter().filter_map(|def| Some((def.id, snapshot.rows(def.id)?))).collect();
        Self { settings: settings.revision(), rows }
    }

    /// Whether they are still so with these settings in this snapshot, but for small changes of the tables' sizes.
    fn are_there(&self, settings: &Settings, snapshot: &StatementSnapshot) -> bool {
        let is_like_before = |(table, before): &(SpaceId, u64)| {
            snapshot.rows(*table).is_some_and(|now| are_alike(*before, now))
        };
        self.settings == settings.revision() && self.rows.iter().all(is_like_before)
    }
}

/// See the module.
pub(super) struct KeptPlan {
    made_for: Circumstances,
    stage: Stage,
}

/// A plan that is used again.
#[derive(Clone)]
pub(super) struct Reused {
    pub(super) plan: Arc<LogicalPlan>,
    /// What samples have told of its tables; `None` if they are asked for the values of each execution.
    pub(super) answers: Option<Arc<Answers>>,
    /// What is known of its physical plans; `None` if values are put into it at each execution.
    pub(super) physical: Option<Arc<KeptPhysical>>,
}

/// How far a query is.
enum Stage {
    /// This plan is used again.
    Kept(Reused),
    /// So many plans for the values of one execution all had this shape.
    Alike { shape: Shape, plans: usize },
    /// It is optimized at each execution.
    Anew,
}

impl KeptPlan {
    /// Keeps the plan of a query without parameters, which was made in this snapshot, with the answers that it was made by.
    pub(super) fn new(plan: LogicalPlan, snapshot: &StatementSnapshot, made_for: Circumstances) -> Self {
        let physical = Some(Arc::new(KeptPhysical::begun(snapshot)));
        let answers = Some(Arc::clone(snapshot.answers()));
        let reused = Reused { plan: Arc::new(plan), answers, physical };
        Self { made_for, stage: Stage::Kept(reused) }
    }

    /// Keeps nothing of a query that is optimized at each execution.
    pub(super) fn never(made_for: Circumstances) -> Self {
        Self { made_for, stage: Stage::Anew }
    }

    /// Begins with the first plan for the values of one execution.
    pub(super) fn begun(custom: &LogicalPlan, for_all: ForAllValues, made_for: Circumstances) -> Self {
        let mut begun = Self { made_for, stage: Stage::Alike { shape: Shape::of(custom), plans: 0 } };
        begun.note(custom, for_all);
        begun
    }

    /// Notes one more plan for the values of one execution, and what came of comparing one for all values with it.
    pub(super) fn note(&mut self, custom: &LogicalPlan, for_all: ForAllValues) {
        let Stage::Alike { shape, plans } = &mut self.stage else { return };
        if *shape != Shape::of(custom) {
            self.stage = Stage::Anew;
            return;
        }
        *plans += 1;
        match for_all {
            ForAllValues::NotMade => {}
            ForAllValues::Worse => self.stage = Stage::Anew,
            ForAllValues::AsGood(plan) => {
                self.stage = Stage::Kept(Reused { plan, answers: None, physical: None });
            }
        }
    }

    /// Whether what is known here holds with these settings in this snapshot.
    pub(super) fn is_for(&self, settings: &Settings, snapshot: &StatementSnapshot) -> bool {
        self.made_for.are_there(settings, snapshot)
    }

    /// The plan, if one is kept that can be used again.
    pub(super) fn plan(&self) -> Option<&Reused> {
        match &self.stage {
            Stage::Kept(reused) => Some(reused),
            Stage::Alike { .. } | Stage::Anew => None,
        }
    }
}

/// Whether this execution of a query with parameters is to make a plan for all values beside its own. `kept` is what is known of the
/// query that holds now.
pub(super) fn is_due(kept: Option<&KeptPlan>, settings: &Settings) -> bool {
    let needed = match settings.get("plan_cache_mode") {
        Ok("force_custom_plan") => return false,
        Ok("force_generic_plan") => 0,
        _ => CUSTOM_PLANS,
    };
    match kept.map(|kept| &kept.stage) {
        None => needed == 0,
        Some(Stage::Alike { plans, .. }) => *plans >= needed,
        Some(Stage::Kept(_) | Stage::Anew) => false,
    }
}

/// Whether a plan for so many rows is one for that many.
fn are_alike(before: u64, now: u64) -> bool {
    let (few, many) = (before.min(now), before.max(now));
    many <= FEW_ROWS || many / GROWTH_MAX <= few
}

/// Whether folding constants makes the same of the plan at each time under the same settings: no function of it is constant within a
/// statement only.
pub(super) fn is_timeless(plan: &LogicalPlan) -> bool {
    let mut is_timeless = true;
    let mut look = |part: &Expr| {
        let volatility = match part {
            Expr::ScalarFunction(_) if asks_for_time(part) => Volatility::Stable,
            Expr::ScalarFunction(function) if is_of_settings(&function.func) => Volatility::Immutable,
            Expr::ScalarFunction(function) => function.func.signature().volatility,
            Expr::AggregateFunction(function) => function.func.signature().volatility,
            Expr::WindowFunction(function) => function.fun.signature().volatility,
            _ => Volatility::Immutable,
        };
        is_timeless &= volatility != Volatility::Stable;
        Ok(if is_timeless { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    };
    let looked: Result<TreeNodeRecursion> =
        plan.apply_with_subqueries(|node| node.apply_expressions(|expression| expression.apply(&mut look)));
    looked.is_ok() && is_timeless
}

/// Functions that look at the session's settings, its time zone above all, and at nothing else that changes: a plan is for settings.
const OF_SETTINGS: [&str; 6] = [CAST, EXTRACT, SERIES, "date_part", "date_trunc", "timezone"];

/// Whether a function that is constant within a statement is so for as long as settings are the same.
fn is_of_settings(function: &ScalarUDF) -> bool {
    OF_SETTINGS.contains(&function.name())
        || functions::is_of_settings(function)
        || json::is_of_settings(function)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scalar::cast_function;
    use coeval_store::ColumnType;
    use datafusion::functions::datetime::now;
    use datafusion::logical_expr::{LogicalPlanBuilder, col, lit};

    fn plan(constant: i64) -> LogicalPlan {
        LogicalPlanBuilder::values(vec![vec![lit(constant)]]).unwrap().build().unwrap()
    }

    fn begun(for_all: ForAllValues) -> KeptPlan {
        KeptPlan::begun(&plan(1), for_all, Circumstances { settings: 0, rows: Vec::new() })
    }

    #[test]
    fn a_plan_for_all_values_is_due_after_five_for_values() {
        let settings = Settings::default();
        assert!(!is_due(None, &settings));
        let mut kept = begun(ForAllValues::NotMade);
        for value in 2..=5 {
            assert!(!is_due(Some(&kept), &settings), "before plan {value}");
            kept.note(&plan(value), ForAllValues::NotMade);
        }
        assert!(is_due(Some(&kept), &settings));
        assert!(kept.plan().is_none());
        kept.note(&plan(6), ForAllValues::AsGood(Arc::new(plan(0))));
        assert!(kept.plan().is_some());
        assert!(!is_due(Some(&kept), &settings));
    }

    #[test]
    fn where_values_decide_the_shape_each_execution_has_a_plan_of_its_own() {
        let mut kept = begun(ForAllValues::NotMade);
        let other = LogicalPlanBuilder::from(plan(1)).limit(0, Some(1)).unwrap().build().unwrap();
        kept.note(&other, ForAllValues::AsGood(Arc::new(plan(0))));
        assert!(kept.plan().is_none());
        kept.note(&plan(1), ForAllValues::AsGood(Arc::new(plan(0))));
        assert!(kept.plan().is_none());
        assert!(begun(ForAllValues::Worse).plan().is_none());
    }

    #[test]
    fn tables_may_grow_a_little() {
        for (before, now, expected) in [
            (0, 0, true),
            (0, FEW_ROWS, true),
            (1, FEW_ROWS + 1, false),
            (1_000_000, 2_000_000, true),
            (1_000_000, 2_100_000, false),
            (2_100_000, 1_000_000, false),
        ] {
            assert_eq!(are_alike(before, now), expected, "{before} and {now}");
        }
    }

    /// To break it: compare no settings. Only what was prepared comes here with other ones: a text is planned anew then.
    #[test]
    fn a_plan_is_for_the_settings_that_it_was_made_with() {
        let mut settings = Settings::default();
        let snapshot = StatementSnapshot::new([]);
        let kept = KeptPlan::new(plan(1), &snapshot, Circumstances::new(&settings, &[], &snapshot));
        assert!(kept.is_for(&settings, &snapshot));
        settings.set("TimeZone", "Asia/Tokyo").unwrap();
        assert!(!kept.is_for(&settings, &snapshot));
    }

    #[test]
    fn what_the_clock_says_is_found_wherever_it_stands() {
        let rows = || LogicalPlanBuilder::values(vec![vec![lit(1_i64)]]).unwrap();
        let time = || now(&datafusion::config::ConfigOptions::default()).call(Vec::new());
        assert!(is_timeless(&rows().project([col("column1") + lit(1_i64)]).unwrap().build().unwrap()));
        assert!(!is_timeless(&rows().project([col("column1"), time()]).unwrap().build().unwrap()));
        // The zone of the session is a setting.
        let zoned = cast_function::function();
        let ty = cast_function::description(ColumnType::TimestampTz).unwrap();
        let moment = || zoned.call(vec![lit("2024-03-31 02:30"), lit(ty.clone())]);
        assert!(is_timeless(&rows().project([col("column1"), moment()]).unwrap().build().unwrap()));
        let word = zoned.call(vec![lit("today"), lit(ty.clone())]);
        assert!(!is_timeless(&rows().project([col("column1"), word]).unwrap().build().unwrap()));
        let below = rows().project([time().alias("t")]).unwrap().project([lit(1_i64)]).unwrap();
        assert!(!is_timeless(&below.build().unwrap()));
    }
}
