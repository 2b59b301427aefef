// SPDX-License-Identifier: Apache-2.0
//! What a run found: one JSON object on one line.

use crate::machine::{CpuUsage, Machine, SyncTimes, commit};
use crate::options::{Api, Options, Population, UpdateReads, Workload, level_name};
use crate::system::System;
use coeval::{Durability, Isolation};
use serde_json::{Map, Value, json};

/// The middle one, or the mean of the middle two; 0 of nothing.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        count if count % 2 == 1 => values[count / 2],
        count => f64::midpoint(values[count / 2 - 1], values[count / 2]),
    }
}

/// The result of a run. Figures and checks keep the order in which they were added.
#[derive(Clone, Debug)]
pub struct Report {
    workload: Workload,
    isolation: Isolation,
    header: Map<String, Value>,
    figures: Map<String, Value>,
    checks: Map<String, Value>,
    violations: u64,
    environment: Map<String, Value>,
}

impl Report {
    /// An empty report on a run with these options; `scale` is the workload's own unit of size.
    #[must_use]
    pub fn new(workload: Workload, options: &Options, scale: impl Into<Value>) -> Self {
        let mut header = Map::new();
        header.insert("workload".into(), workload.name().into());
        header.insert("system".into(), concat!("coeval ", env!("CARGO_PKG_VERSION")).into());
        header.insert("isolation".into(), isolation_name(options.isolation).into());
        header.insert("durability".into(), durability_name(options.durability).into());
        header.insert("scale".into(), scale.into());
        header.insert("threads".into(), options.threads.into());
        header.insert("seconds".into(), options.seconds.into());
        header.insert("api".into(), options.api.name().into());
        header.insert("seed".into(), options.seed.into());
        if options.population == Population::Tiny {
            header.insert("population".into(), "tiny".into());
        }
        Self {
            workload,
            isolation: options.isolation,
            header,
            figures: Map::new(),
            checks: Map::new(),
            violations: 0,
            environment: Map::new(),
        }
    }

    /// Says that a system ran, whose commits wait for the disk or not, instead of the engine in this process.
    pub(crate) fn name_system(&mut self, system: System<'_>) {
        if let System::Server(server) = system {
            self.header.insert("system".into(), server.name().into());
            self.header.insert("durability".into(), server.durability().into());
            self.header.insert("isolation".into(), level_name(self.isolation).into());
            self.header.insert("api".into(), "wire".into());
        }
        if let System::Foreign(foreign) = system {
            self.header.insert("system".into(), foreign.name().into());
            self.header.insert("api".into(), "sql".into());
        }
    }

    /// Says that servers of this program ran, which were asked by statements.
    pub(crate) fn name_servers(&mut self) {
        self.header.insert("isolation".into(), level_name(self.isolation).into());
        self.header.insert("api".into(), "wire".into());
    }

    /// Says which statements TPC-C's terminals sent, if they did so by SQL, and how they went to a server, if one ran.
    pub(crate) fn name_statements(&mut self, system: System<'_>, options: &Options) {
        match system {
            System::Server(_) => {
                self.header.insert("update_reads".into(), options.update_reads.name().into());
                self.header.insert("sending".into(), options.sending.name().into());
            }
            System::Embedded(_) if options.api == Api::Sql => {
                self.header.insert("update_reads".into(), options.update_reads.name().into());
            }
            System::Embedded(_) => {}
            System::Foreign(_) => {
                self.header.insert("update_reads".into(), UpdateReads::Plain.name().into());
            }
        }
    }

    /// Adds what a run used of the processors, if a server took part in it.
    pub(crate) fn cpu(&mut self, usage: CpuUsage) {
        if let Some(server) = usage.server {
            self.figure("client_cores", usage.own);
            self.figure("server_cores", server);
        }
    }

    /// Adds a figure; its unit is the last word of the name. Kept to four significant digits or the whole
    /// number, whichever is longer: what lies behind is noise.
    pub fn figure(&mut self, name: impl Into<String>, value: f64) {
        self.figures.insert(name.into(), rounded(value));
    }

    /// Adds a count, exactly.
    pub fn count(&mut self, name: impl Into<String>, value: u64) {
        self.figures.insert(name.into(), value.into());
    }

    /// Adds a figure that is not a number.
    pub fn note(&mut self, name: impl Into<String>, value: impl Into<Value>) {
        self.figures.insert(name.into(), value.into());
    }

    /// Adds what a check found: how many rows violate it. None is a pass.
    pub fn check(&mut self, name: impl Into<String>, violations: u64) {
        self.violations += violations;
        self.checks.insert(name.into(), violations.into());
    }

    /// Adds what the machine and its other users did to the run.
    ///
    /// Without `foreign_cores` nobody knows what others did, and the run does not count.
    pub fn environment(&mut self, foreign_cores: Option<f64>, sync: SyncTimes) {
        self.environment.insert("foreign_cpu".into(), json!(foreign_cores));
        self.environment.insert("fdatasync_p50_us".into(), rounded(sync.p50_us));
        self.environment.insert("fdatasync_p90_us".into(), rounded(sync.p90_us));
        self.environment.insert("fdatasync_mean_us".into(), rounded(sync.mean_us));
    }

    /// Which workload ran.
    #[must_use]
    pub fn workload(&self) -> Workload {
        self.workload
    }

    /// What ran where, for a table on a screen: the system, the level, durability, sizes and the machine.
    pub fn about(&self) -> impl Iterator<Item = (String, String)> {
        let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let machine = Machine::here();
        let described = format!(
            "{}, {} cores, {} GiB, {}",
            machine.cpu, machine.cores, machine.memory_gib, machine.kernel
        );
        let header: Vec<_> = self.header.iter().map(|(name, value)| (name.clone(), plain(value))).collect();
        header.into_iter().chain([("machine".to_owned(), described), ("commit".to_owned(), commit())])
    }

    /// The figures in order, for a table on a screen.
    pub fn figures(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.figures.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// The value of one figure, if it is there and a number.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<f64> {
        self.figures.get(name).and_then(Value::as_f64)
    }

    /// The checks in order, each with the number of rows that violate it.
    pub fn checks(&self) -> impl Iterator<Item = (&str, u64)> {
        self.checks.iter().map(|(name, value)| (name.as_str(), value.as_u64().unwrap_or(0)))
    }

    /// Rows that violate a check, over all checks. A run with any is a failed run.
    #[must_use]
    pub fn violations(&self) -> u64 {
        self.violations
    }

    /// The report as one line of JSON without a line end.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut line = self.header.clone();
        line.insert("figures".into(), Value::Object(self.figures.clone()));
        line.insert("checks".into(), Value::Object(self.checks.clone()));
        line.extend(self.environment.clone());
        let machine = Machine::here();
        line.insert("machine".into(), serde_json::to_value(machine).unwrap_or(Value::Null));
        line.insert("commit".into(), commit().into());
        Value::Object(line).to_string()
    }
}

/// The level as SQL and the reports call it.
fn isolation_name(isolation: Isolation) -> &'static str {
    match isolation {
        Isolation::ReadCommitted => "read committed",
        Isolation::Snapshot => "snapshot",
        Isolation::Serializable => "serializable",
    }
}

fn durability_name(durability: Durability) -> &'static str {
    match durability {
        Durability::Fsync => "fsync",
        Durability::None => "none",
    }
}

/// Whole from 1,000 on, else four significant digits.
fn rounded(value: f64) -> Value {
    if value == 0.0 || !value.is_finite() {
        return json!(0.0);
    }
    let digits = 3 - value.abs().log10().floor() as i32;
    let factor = 10f64.powi(digits.max(0));
    json!((value * factor).round() / factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&mut [4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(&mut []), 0.0);
    }

    #[test]
    fn the_line_has_the_agreed_keys_in_order() {
        let mut report = Report::new(Workload::Tpcc, &Options::default(), 4);
        report.figure("transactions_per_s", 12_345.678);
        report.check("condition_1", 0);
        report.environment(Some(0.03), SyncTimes { p50_us: 90.0, p90_us: 4_000.0, mean_us: 500.0 });
        let line = report.to_json();
        assert!(!line.contains('\n'));
        let parsed: Map<String, Value> = serde_json::from_str(&line).unwrap();
        let keys: Vec<&str> = parsed.keys().map(String::as_str).collect();
        let agreed = ["workload", "system", "isolation", "durability", "scale", "threads", "seconds"];
        assert_eq!(keys[..agreed.len()], agreed);
        for key in
            ["figures", "checks", "foreign_cpu", "fdatasync_p50_us", "fdatasync_p90_us", "machine", "commit"]
        {
            assert!(parsed.contains_key(key), "{key} is missing");
        }
        assert_eq!(parsed["figures"]["transactions_per_s"], json!(12_346.0));
    }

    #[test]
    fn violations_add_up_and_a_clean_report_has_none() {
        let mut report = Report::new(Workload::Chbench, &Options::default(), 1);
        report.check("condition_1", 0);
        assert_eq!(report.violations(), 0);
        report.check("condition_2", 3);
        report.check("condition_3", 1);
        assert_eq!(report.violations(), 4);
        assert_eq!(report.checks().collect::<Vec<_>>()[1], ("condition_2", 3));
    }

    #[test]
    fn figures_keep_four_digits() {
        assert_eq!(rounded(0.012_345_6), json!(0.01235));
        assert_eq!(rounded(12.345_6), json!(12.35));
        assert_eq!(rounded(123_456.7), json!(123_457.0));
        assert_eq!(rounded(f64::NAN), json!(0.0));
    }
}
