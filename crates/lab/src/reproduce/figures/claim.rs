//! Claims as data: how cells make the value of one.

use serde::Deserialize;

use super::axis::Axis;
use super::setting::Setting;
use crate::reproduce::figure::{Cell, Claim, Formula, Term};
use crate::reproduce::run::Workloads;
use crate::reproduce::subject::Subject;

/// How a claim's value comes from cells: `take` of `(of / by) / (against / against_by)`, for each setting that `across`,
/// `over` and `by_each` go through. What is not said is not divided by.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimData {
    /// Its name in the paper's data.
    id: String,
    /// The name of a second claim of the same value.
    also: Option<String>,
    /// Mean, greatest or least.
    #[serde(default)]
    take: Take,
    /// What the claim is of: settings upon the figure's.
    #[serde(default)]
    of: Setting,
    /// Another run, whose metric `of` is divided by: settings upon `of`.
    by: Option<Setting>,
    /// Further such runs, each in a term of its own.
    #[serde(default)]
    by_each: Axis,
    /// What the ratio is divided by: settings upon `of`.
    against: Option<Setting>,
    /// What `against` is divided by: settings upon `against` and `by`.
    against_by: Option<Setting>,
    /// Axes of the figure that the claim goes through.
    #[serde(default)]
    across: Vec<Across>,
    /// Settings that the claim goes through besides.
    #[serde(default)]
    over: Axis,
}

/// Which term, or their mean.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Take {
    #[default]
    Mean,
    Most,
    Least,
}

/// An axis of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Across {
    Points,
    Panels,
}

/// Claims about the cells of a table, row by row, each named `row.column`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableData {
    rows: Axis,
    columns: Axis,
    /// Settings upon the figure's.
    #[serde(default)]
    of: Setting,
    /// Why nothing is told of a row whose workload is not run.
    not_run: Option<String>,
}

/// What claims are made upon.
pub struct Scene<'a> {
    /// The paper.
    pub subject: Subject,
    /// The workloads at hand.
    pub workloads: &'a Workloads,
    /// What the figure says of all of its cells.
    pub run: &'a Setting,
    /// The figure's points.
    pub points: &'a [Setting],
    /// The figure's panels.
    pub panels: &'a [Setting],
}

impl Scene<'_> {
    fn cell(&self, setting: &Setting) -> Result<Option<Cell>, String> {
        setting.cell(self.subject, self.workloads)
    }

    /// A cell, divided by that of another run.
    fn ratio(&self, of: &Setting, by: Option<&Setting>) -> Result<Option<Cell>, String> {
        let Some(cell) = self.cell(of)? else {
            return Ok(None);
        };
        let Some(by) = by else {
            return match of.ideal {
                Some(_) => Err("'ideal' without 'by'".into()),
                None => Ok(Some(cell)),
            };
        };
        if by.metric != of.metric {
            return Err(
                "what is divided by has the same metric: 'against' may have another".into(),
            );
        }
        let by_run = by.run(self.subject, self.workloads)?;
        let share = match of.ideal {
            Some(parameter) => by.value_of(parameter)? / of.value_of(parameter)?,
            None => cell.factor,
        };
        Ok(by_run.map(|run| cell.to(run).times(share)))
    }
}

impl ClaimData {
    /// Its axes, which may name others.
    pub fn axes(&mut self) -> [&mut Axis; 2] {
        [&mut self.by_each, &mut self.over]
    }

    /// Its claims: one, or two of one value.
    ///
    /// # Errors
    /// The claim, and what is wrong with it.
    pub fn claims(&self, scene: &Scene) -> Result<Vec<Claim>, String> {
        let formula = self.formula(scene);
        let formula = formula.map_err(|cause| format!("claim '{}': {cause}", self.id))?;
        let ids = std::iter::once(&self.id).chain(&self.also);
        Ok(ids.map(|id| Claim::new(id, formula.clone())).collect())
    }

    fn formula(&self, scene: &Scene) -> Result<Formula, String> {
        let mut terms = Vec::new();
        for base in self.bases(scene) {
            let of = base.with(&self.of);
            for by in self.bys(scene) {
                terms.extend(self.term(scene, &of, by.as_ref())?);
            }
        }
        Ok(match self.take {
            Take::Mean => Formula::Mean(terms),
            Take::Most => Formula::Most(terms),
            Take::Least => Formula::Least(terms),
        })
    }

    /// The settings that all else of a term is upon.
    fn bases(&self, scene: &Scene) -> Vec<Setting> {
        let mut bases = vec![scene.run.clone()];
        for across in &self.across {
            let axis = match across {
                Across::Points => scene.points,
                Across::Panels => scene.panels,
            };
            bases = product(&bases, axis);
        }
        match &self.over.settings(scene.workloads)[..] {
            [] => bases,
            over => product(&bases, over),
        }
    }

    /// What `of` is divided by, each in a term of its own.
    fn bys(&self, scene: &Scene) -> Vec<Option<Setting>> {
        let each = self.by_each.settings(scene.workloads);
        let mut bys: Vec<Option<Setting>> = each.into_iter().map(Some).collect();
        if self.by.is_some() || bys.is_empty() {
            bys.insert(0, self.by.clone());
        }
        bys
    }

    /// A term; `None` where a run of it cannot be.
    fn term(
        &self,
        scene: &Scene,
        of: &Setting,
        by: Option<&Setting>,
    ) -> Result<Option<Term>, String> {
        let Some(over) = scene.ratio(of, by.map(|by| of.with(by)).as_ref())? else {
            return Ok(None);
        };
        let Some(against) = &self.against else {
            return match self.against_by {
                Some(_) => Err("'against_by' without 'against'".into()),
                None => Ok(Some(Term::of(over))),
            };
        };
        let against = of.with(against);
        let by = by.map(|by| against.with(by));
        let by = match &self.against_by {
            Some(more) => Some(by.unwrap_or_else(|| against.clone()).with(more)),
            None => by,
        };
        let under = scene.ratio(&against, by.as_ref())?;
        Ok(under.map(|under| Term {
            over: vec![over],
            under: vec![under],
        }))
    }
}

impl TableData {
    /// Its axes, which may name others.
    pub fn axes(&mut self) -> [&mut Axis; 2] {
        [&mut self.rows, &mut self.columns]
    }

    /// A claim for each of its cells.
    ///
    /// # Errors
    /// The cell, and what is wrong with it.
    pub fn claims(&self, scene: &Scene) -> Result<Vec<Claim>, String> {
        if self.rows.is_of_workloads() && self.not_run.is_none() {
            return Err("a table with rows of workloads, and no 'not_run'".into());
        }
        let run = titles(&self.rows.settings(scene.workloads));
        // The paper's rows are those of its own workloads, whatever is run here.
        let rows = self.rows.settings(&Workloads::own());
        let mut claims = Vec::new();
        for row in &rows {
            for column in &self.columns.settings(scene.workloads) {
                let id = format!("{}.{}", row.title(), column.title());
                let cell = scene.run.with(&self.of).with(row).with(column);
                let formula = self.formula(scene, &cell, run.contains(&row.title()));
                let formula = formula.map_err(|cause| format!("cell '{id}': {cause}"))?;
                claims.push(Claim::new(id, formula));
            }
        }
        Ok(claims)
    }

    fn formula(&self, scene: &Scene, cell: &Setting, is_run: bool) -> Result<Formula, String> {
        let why = match is_run {
            true => &cell.untested,
            false => &self.not_run,
        };
        if let Some(why) = why {
            return Ok(Formula::Untested(why.clone()));
        }
        let cell = scene.cell(cell)?;
        Ok(Formula::Mean(cell.into_iter().map(Term::of).collect()))
    }
}

/// Every setting of an axis upon every base.
fn product(bases: &[Setting], axis: &[Setting]) -> Vec<Setting> {
    let upon = |base: &Setting| axis.iter().map(|more| base.with(more)).collect();
    bases.iter().flat_map::<Vec<Setting>, _>(upon).collect()
}

fn titles(settings: &[Setting]) -> Vec<String> {
    settings.iter().map(Setting::title).collect()
}
