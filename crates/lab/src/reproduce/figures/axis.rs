//! Values that a figure goes through: its points, series and panels, rows and columns.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::setting::Setting;
use crate::reproduce::metric::Metric;
use crate::reproduce::run::Workloads;
use crate::reproduce::variant::Variant;

/// Settings one after another: those of each list in the order of the fields.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Axis {
    /// Another axis, by its name among the file's axes, goes first.
    named: Option<String>,
    /// That axis.
    #[serde(skip)]
    first: Option<Box<Axis>>,
    /// Designs.
    design: Vec<Variant>,
    /// Workloads, `all` for the ten profiles; one trace takes the place of all of them.
    workload: Vec<String>,
    /// Metrics.
    metric: Vec<Metric>,
    /// Numbers of CPUs that make requests.
    clients: Vec<u32>,
    /// Numbers of CPUs in all.
    cpus: Vec<u32>,
    /// Numbers of drives.
    drives: Vec<u32>,
    /// KiB of a request.
    request_kib: Vec<u32>,
    /// KiB of a stripe.
    stripe_kib: Vec<u32>,
    /// Anything.
    each: Vec<Setting>,
}

impl Axis {
    /// A single setting of this name.
    pub fn single(name: &str) -> Axis {
        let only = Setting {
            name: Some(name.into()),
            ..Setting::default()
        };
        Axis {
            each: vec![only],
            ..Axis::default()
        }
    }

    /// Puts the axis that this one names into it.
    ///
    /// # Errors
    /// If there is none of that name.
    pub fn resolve(&mut self, known: &BTreeMap<String, Axis>) -> Result<(), String> {
        let Some(name) = &self.named else {
            return Ok(());
        };
        let named = known.get(name).ok_or_else(|| format!("no axis '{name}'"))?;
        if named.named.is_some() {
            return Err(format!("axis '{name}' names another one"));
        }
        self.first = Some(Box::new(named.clone()));
        Ok(())
    }

    /// It goes through workloads, of which a trace leaves one.
    pub fn is_of_workloads(&self) -> bool {
        let first = self.first.as_ref();
        !self.workload.is_empty() || first.is_some_and(|first| first.is_of_workloads())
    }

    /// Its settings with their names.
    pub fn settings(&self, workloads: &Workloads) -> Vec<Setting> {
        let designs = self.design.iter().map(|design| Setting {
            design: Some(*design),
            ..Setting::default()
        });
        let metrics = self.metric.iter().map(|metric| Setting {
            metric: Some(*metric),
            ..Setting::default()
        });
        let first = self.first.as_ref();
        let mut all = first.map_or(Vec::new(), |first| first.settings(workloads));
        all.extend(designs);
        all.extend(self.workloads(workloads));
        all.extend(metrics);
        all.extend(numbers(&self.clients, |of| &mut of.clients));
        all.extend(numbers(&self.cpus, |of| &mut of.cpus));
        all.extend(numbers(&self.drives, |of| &mut of.drives));
        all.extend(numbers(&self.request_kib, |of| &mut of.request_kib));
        all.extend(numbers(&self.stripe_kib, |of| &mut of.stripe_kib));
        all.extend(self.each.iter().cloned());
        all
    }

    fn workloads(&self, workloads: &Workloads) -> impl Iterator<Item = Setting> + use<> {
        let names: Vec<&str> = self.workload.iter().map(String::as_str).collect();
        let meant = match names[..] {
            [] => Vec::new(),
            ["all"] => workloads.all(),
            _ => workloads.pick(&names),
        };
        meant.into_iter().map(|name| Setting {
            name: Some(name.clone()),
            workload: Some(name),
            ..Setting::default()
        })
    }
}

/// A setting of one field for each number, which is its name too.
fn numbers(
    values: &[u32],
    field: impl Fn(&mut Setting) -> &mut Option<u32>,
) -> impl Iterator<Item = Setting> {
    values.iter().map(move |value| {
        let mut setting = Setting {
            name: Some(value.to_string()),
            ..Setting::default()
        };
        *field(&mut setting) = Some(*value);
        setting
    })
}
