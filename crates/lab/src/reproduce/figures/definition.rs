//! A figure as data, and how it is made for some workloads.

use serde::Deserialize;

use super::axis::Axis;
use super::claim::{ClaimData, Scene, TableData};
use super::setting::Setting;
use crate::reproduce::figure::{Cell, Claim, Figure, Panel, Plot, Series};
use crate::reproduce::metric::Metric;
use crate::reproduce::run::Workloads;
use crate::reproduce::subject::Subject;

/// A figure of a paper's file. A cell has what `run` says, upon it the panel, the point and the series.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FigureData {
    /// Its name in the paper's data.
    pub name: String,
    /// How it is drawn.
    plot: Plot,
    /// What the points stand for.
    x: String,
    /// What the values are, if it is not the metric that `run` says.
    y: Option<String>,
    /// What a reader has to know; `@name` is a note of the file's.
    #[serde(default)]
    pub notes: Vec<String>,
    /// What all cells have.
    #[serde(default)]
    pub run: Setting,
    /// The points, where panels have none of their own.
    #[serde(default)]
    points: Axis,
    /// The series, likewise; one named `here` if nobody says any.
    series: Option<Axis>,
    /// The panels; one without a title if none is said.
    panels: Option<Axis>,
    /// Panels with points or series of their own.
    #[serde(default)]
    panel: Vec<PanelData>,
    /// What it tests.
    #[serde(default)]
    claims: Vec<ClaimData>,
    /// A table, all of whose cells are claims.
    table: Option<TableData>,
}

/// A panel with axes of its own.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct PanelData {
    /// What it is of, if not the metric.
    title: Option<String>,
    /// What is read off its runs, where points and series do not say it.
    metric: Option<Metric>,
    /// The workload of its runs, likewise.
    workload: Option<String>,
    /// The data of its runs does not compress.
    is_incompressible: Option<bool>,
    /// Its points, if not the figure's.
    points: Option<Axis>,
    /// Its series, if not the figure's.
    series: Option<Axis>,
}

impl PanelData {
    fn setting(&self) -> Setting {
        Setting {
            name: self.title.clone(),
            metric: self.metric,
            workload: self.workload.clone(),
            is_incompressible: self.is_incompressible,
            ..Setting::default()
        }
    }
}

impl FigureData {
    /// The figure for some workloads.
    ///
    /// # Errors
    /// The figure, and what is wrong with it.
    pub fn make(&self, subject: Subject, workloads: &Workloads) -> Result<Figure, String> {
        let made = self.figure(subject, workloads);
        made.map_err(|cause| format!("figure '{}': {cause}", self.name))
    }

    fn figure(&self, subject: Subject, workloads: &Workloads) -> Result<Figure, String> {
        let panels = self.panels.as_ref().map(|axis| axis.settings(workloads));
        let (points, panels) = (
            self.points.settings(workloads),
            panels.unwrap_or_else(|| vec![Setting::default()]),
        );
        let scene = Scene {
            subject,
            workloads,
            run: &self.run,
            points: &points,
            panels: &panels,
        };
        let y = self.y.clone();
        let y = y.or_else(|| Some(self.run.metric?.axis().into()));
        Ok(Figure {
            name: self.name.clone(),
            plot: self.plot,
            points: self.x.clone(),
            axis: y.ok_or("no 'y', and no 'metric' in 'run'")?,
            panels: self.all_panels(&scene)?,
            claims: self.all_claims(&scene)?,
            notes: self.notes.clone(),
        })
    }

    fn all_panels(&self, scene: &Scene) -> Result<Vec<Panel>, String> {
        let series = self.series.as_ref();
        if self.panel.is_empty() {
            let panel = |setting| panel(scene, setting, &self.points, series);
            return scene.panels.iter().map(panel).collect();
        }
        if self.panels.is_some() {
            return Err("both 'panel' and 'panels'".into());
        }
        let panel = |own: &PanelData| {
            let points = own.points.as_ref().unwrap_or(&self.points);
            panel(
                scene,
                &own.setting(),
                points,
                own.series.as_ref().or(series),
            )
        };
        self.panel.iter().map(panel).collect()
    }

    fn all_claims(&self, scene: &Scene) -> Result<Vec<Claim>, String> {
        let mut claims = Vec::new();
        for claim in &self.claims {
            claims.extend(claim.claims(scene)?);
        }
        if let Some(table) = &self.table {
            claims.extend(table.claims(scene)?);
        }
        Ok(claims)
    }

    /// Every axis that may name another one.
    pub fn axes(&mut self) -> impl Iterator<Item = &mut Axis> {
        let panels = self.panel.iter_mut();
        let own = panels.flat_map(|panel| panel.points.iter_mut().chain(&mut panel.series));
        let all = self.series.iter_mut().chain(&mut self.panels).chain(own);
        let claimed = self.claims.iter_mut().flat_map(ClaimData::axes);
        let told = self.table.iter_mut().flat_map(TableData::axes);
        let points = std::iter::once(&mut self.points);
        points.chain(all).chain(claimed).chain(told)
    }
}

/// A panel: a cell for each series and point.
fn panel(
    scene: &Scene,
    setting: &Setting,
    points: &Axis,
    series: Option<&Axis>,
) -> Result<Panel, String> {
    let points = points.settings(scene.workloads);
    let here = Axis::single("here");
    let series = series.unwrap_or(&here).settings(scene.workloads);
    let upon = scene.run.with(setting);
    let each = |series: &Setting| {
        let cells = points
            .iter()
            .map(|point| cell(scene, &upon, &points[0], point, series));
        let cells: Result<Vec<Option<Cell>>, String> = cells.collect();
        let name = series.title();
        let cells = cells.map_err(|cause| format!("series '{name}': {cause}"))?;
        Ok(Series { name, cells })
    };
    let series: Result<Vec<Series>, String> = series.iter().map(each).collect();
    Ok(Panel {
        title: setting.title(),
        points: points.iter().map(Setting::title).collect(),
        series: series?,
    })
}

/// A series' cell at a point: of the first point, if the series is of perfect scaling from there.
fn cell(
    scene: &Scene,
    upon: &Setting,
    first: &Setting,
    point: &Setting,
    series: &Setting,
) -> Result<Option<Cell>, String> {
    let at = |point: &Setting| upon.with(point).with(series);
    let Some(parameter) = series.ideal else {
        return at(point).cell(scene.subject, scene.workloads);
    };
    let times = at(point).value_of(parameter)? / at(first).value_of(parameter)?;
    let cell = at(first).cell(scene.subject, scene.workloads)?;
    Ok(cell.map(|cell| cell.times(times)))
}
