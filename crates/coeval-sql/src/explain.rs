// SPDX-License-Identifier: Apache-2.0
//! EXPLAIN and EXPLAIN ANALYZE: which path runs a statement, and what it reads.

use crate::context::StatementContext;
use crate::error::SqlError;
use crate::point::PointPlan;
use crate::query;
use crate::result::{CommandTag, RowSet, StatementResult};
use crate::settings::PointPath;
use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::physical_plan::display::DisplayableExecutionPlan;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::sql::sqlparser::ast::{AnalyzeFormatKind, Expr, Query, Statement, UtilityOption, Value};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What EXPLAIN is asked for.
struct Request<'a> {
    statement: &'a Statement,
    analyze: bool,
    verbose: bool,
}

/// Runs EXPLAIN. With ANALYZE the statement itself runs too, and its effects stay.
///
/// # Errors
/// As the statement; `0A000` for formats other than text.
pub(crate) fn execute(
    context: &mut StatementContext<'_>,
    statement: &Statement,
) -> Result<StatementResult, SqlError> {
    let request = request(statement)?;
    let started = Instant::now();
    let mut lines = Vec::new();
    let point = if context.settings.point_path() == PointPath::On {
        PointPlan::compile(context, request.statement, &[])?
    } else {
        None
    };
    match (point, request.statement) {
        (Some(plan), _) => {
            lines.extend(plan.explain());
            if request.analyze {
                let planned = started.elapsed();
                let result = match plan.execute(context)? {
                    Some(result) => result,
                    None => {
                        lines.push("More rows than the point path is for: the general path ran".to_owned());
                        crate::statement::execute(context, request.statement)?
                    }
                };
                push_times(&mut lines, planned, started.elapsed(), result.tag);
            }
        }
        (None, Statement::Query(body)) if crate::dml::is_plain_query(body) => {
            explain_query(context, &request, body, &mut lines)?
        }
        (None, other) => {
            lines.push(format!("General path: {}", crate::statement::statement_name(other)));
            if request.analyze {
                let planned = started.elapsed();
                let result = crate::statement::execute(context, other)?;
                push_times(&mut lines, planned, started.elapsed(), result.tag);
            }
        }
    }
    rows(&lines)
}

fn explain_query(
    context: &mut StatementContext<'_>,
    request: &Request<'_>,
    body: &Query,
    lines: &mut Vec<String>,
) -> Result<(), SqlError> {
    let started = Instant::now();
    let types: Vec<_> = context.parameter_types.iter().copied().map(Some).collect();
    let planned = query::plan(context, body, &types)?;
    let (physical, task) = query::optimized_physical_plan(context, &planned)?;
    let planning = started.elapsed();
    lines.push("DataFusion path:".to_owned());
    if !request.analyze {
        push_plan(&DisplayableExecutionPlan::new(physical.as_ref()), request, lines);
        return Ok(());
    }
    let batches = context.engine.runtime().block_on(collect(Arc::clone(&physical), task))?;
    let rows = batches.iter().map(|batch| batch.num_rows() as u64).sum();
    push_plan(
        &DisplayableExecutionPlan::with_metrics(physical.as_ref() as &dyn ExecutionPlan),
        request,
        lines,
    );
    push_times(lines, planning, started.elapsed(), CommandTag::Select(rows));
    Ok(())
}

fn push_plan(plan: &DisplayableExecutionPlan<'_>, request: &Request<'_>, lines: &mut Vec<String>) {
    let text = plan.indent(request.verbose).to_string();
    lines.extend(text.lines().map(|line| format!("  {line}")));
}

fn push_times(lines: &mut Vec<String>, planning: Duration, total: Duration, tag: CommandTag) {
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    lines.push(format!("Planning time: {:.3} ms", ms(planning)));
    lines.push(format!("Execution time: {:.3} ms", ms(total.saturating_sub(planning))));
    lines.push(format!("Result: {tag}"));
}

fn request(statement: &Statement) -> Result<Request<'_>, SqlError> {
    let Statement::Explain { analyze, verbose, statement, format, options, query_plan, estimate, .. } =
        statement
    else {
        return Err(SqlError::internal("EXPLAIN was expected"));
    };
    let mut request = Request { statement, analyze: *analyze, verbose: *verbose };
    if *query_plan || *estimate {
        return Err(SqlError::unsupported("this form of EXPLAIN"));
    }
    match format {
        None | Some(AnalyzeFormatKind::Keyword(_) | AnalyzeFormatKind::Assignment(_))
            if is_text(format.as_ref()) => {}
        _ => return Err(SqlError::unsupported("EXPLAIN in a format other than text")),
    }
    for option in options.iter().flatten() {
        apply(option, &mut request)?;
    }
    Ok(request)
}

fn is_text(format: Option<&AnalyzeFormatKind>) -> bool {
    format.is_none_or(|format| format.to_string().to_uppercase().contains("TEXT"))
}

fn apply(option: &UtilityOption, request: &mut Request<'_>) -> Result<(), SqlError> {
    let on = match &option.arg {
        None => true,
        Some(Expr::Value(value)) => match &value.value {
            Value::Boolean(on) => *on,
            other => !matches!(other.to_string().to_lowercase().as_str(), "0" | "'off'" | "'false'"),
        },
        Some(other) => !matches!(other.to_string().to_lowercase().as_str(), "off" | "false"),
    };
    match option.name.value.to_lowercase().as_str() {
        "analyze" => request.analyze = on,
        "verbose" => request.verbose = on,
        "costs" | "timing" | "summary" | "buffers" => {}
        "format" if option.arg.as_ref().is_some_and(|arg| arg.to_string().eq_ignore_ascii_case("text")) => {}
        other => return Err(SqlError::unsupported(format_args!("EXPLAIN option {other}"))),
    }
    Ok(())
}

fn rows(lines: &[String]) -> Result<StatementResult, SqlError> {
    let schema = Arc::new(Schema::new(vec![Field::new("QUERY PLAN", DataType::Utf8, false)]));
    let column: ArrayRef = Arc::new(lines.iter().map(Some).collect::<StringArray>());
    let batch = RecordBatch::try_new(schema.clone(), vec![column])?;
    let rows = RowSet { schema, batches: vec![batch] };
    Ok(StatementResult { tag: CommandTag::Plain("EXPLAIN"), rows: Some(rows) })
}
