//! Figures 11, 12 and 13: bandwidth, mean latency and its tail, on all workloads (section 6.2).

use super::{by_workload, mean_over};
use crate::reproduce::figure::{Cell, Claim, Figure, Formula, Panel, Plot, Series, Term};
use crate::reproduce::figures::series_of;
use crate::reproduce::metric::Metric;
use crate::reproduce::run::{
    CLIENTS, CLOCK, HARDWARE, KERNEL, Run, SCALA, Start, TRI_2M, TRI_4M, TRI_6M, Variant, Workloads,
};

/// Host CPUs of Figures 11a and 12a: clients and managers together.
const CPUS: u32 = 8;

/// How many times longer the runs of Figure 13 are: a 99.99th percentile needs tens of thousands of
/// requests.
const TAIL_STRETCH: u32 = 8;

const ON_CLOCK: &str = "'clock' is not in the paper: a page cache under one lock, as a reference";

fn fixed_cpus(variant: Variant, workload: &str) -> Option<Run> {
    variant.cpus(workload, CPUS)
}

fn fixed_clients(variant: Variant, workload: &str) -> Option<Run> {
    Some(variant.clients(workload, CLIENTS))
}

pub(super) fn fig11a(workloads: &Workloads) -> Figure {
    let all = workloads.all();
    let variants = [KERNEL, HARDWARE, TRI_2M, TRI_4M, TRI_6M, SCALA, CLOCK];
    let cell = |variant, workload: &str| {
        let run = fixed_cpus(variant, workload)?;
        Some(Cell::plain(Metric::Bandwidth, run))
    };
    let mut panel = series_of(String::new(), &all, &variants, cell);
    for (series, variant) in panel.series.iter_mut().zip(variants) {
        if variant.managers > 0 {
            series.name = format!("{}{}C", variant.label, CPUS - variant.managers);
        }
    }
    let mean = |id, a, b| Claim::new(id, mean_over(Metric::Bandwidth, &all, fixed_cpus, a, b));
    let managers_help = workloads.pick(&["proj_1", "mds"]);
    let pair = |w: &String| {
        let (four, two) = (fixed_cpus(TRI_4M, w)?, fixed_cpus(TRI_2M, w)?);
        Some(Term::ratio(Metric::Bandwidth, four, two))
    };
    Figure {
        name: "fig11a",
        plot: Plot::Bars,
        points: "workload",
        axis: Metric::Bandwidth.axis().into(),
        panels: vec![panel],
        claims: vec![
            mean("tricache-over-kernel", TRI_2M, KERNEL),
            mean("scala-over-kernel", SCALA, KERNEL),
            mean("scala-over-hardware", SCALA, HARDWARE),
            mean("scala-over-2m6c", SCALA, TRI_2M),
            mean("scala-over-6m2c", SCALA, TRI_6M),
            Claim::new(
                "more-managers-help",
                Formula::Least(managers_help.iter().filter_map(pair).collect()),
            ),
            Claim::new("scala-first", against_all(&all)),
        ],
        notes: vec![
            "8 host CPUs for clients and managers together",
            "ratios are means of the workloads' ratios; the paper does not say which mean it takes",
            ON_CLOCK,
        ],
    }
}

/// ScalaCache's bandwidth by that of each other design of the paper, on each workload: the least.
fn against_all(workloads: &[String]) -> Formula {
    let others = [KERNEL, HARDWARE, TRI_2M, TRI_4M, TRI_6M];
    let terms = workloads.iter().flat_map(|workload| {
        others.iter().filter_map(move |other| {
            let (ours, theirs) = (fixed_cpus(SCALA, workload)?, fixed_cpus(*other, workload)?);
            Some(Term::ratio(Metric::Bandwidth, ours, theirs))
        })
    });
    Formula::Least(terms.collect())
}

pub(super) fn fig11b(workloads: &Workloads) -> Figure {
    let all = workloads.all();
    let mean = |id, a, b| Claim::new(id, mean_over(Metric::Bandwidth, &all, fixed_clients, a, b));
    Figure {
        name: "fig11b",
        plot: Plot::Bars,
        points: "workload",
        axis: Metric::Bandwidth.axis().into(),
        panels: vec![by_workload(
            Metric::Bandwidth,
            &all,
            &[TRI_2M, TRI_4M, TRI_6M, SCALA],
        )],
        claims: vec![
            mean("scala-over-2m8c", SCALA, TRI_2M),
            mean("scala-over-4m8c", SCALA, TRI_4M),
        ],
        notes: vec!["8 clients in every design; TriCache's managers have CPUs besides"],
    }
}

pub(super) fn fig12a(workloads: &Workloads) -> Figure {
    let all = workloads.all();
    let mean = |id, a, b| Claim::new(id, mean_over(Metric::MeanLatency, &all, fixed_cpus, a, b));
    let variants = [KERNEL, HARDWARE, SCALA, CLOCK];
    Figure {
        name: "fig12a",
        plot: Plot::Bars,
        points: "workload",
        axis: Metric::MeanLatency.axis().into(),
        panels: vec![by_workload(Metric::MeanLatency, &all, &variants)],
        claims: vec![
            mean("scala-below-kernel", SCALA, KERNEL),
            mean("scala-below-hardware", SCALA, HARDWARE),
        ],
        notes: vec![
            "8 host CPUs; TriCache is left out as in the paper: it has fewer clients, so less load",
            ON_CLOCK,
        ],
    }
}

pub(super) fn fig12b(workloads: &Workloads) -> Figure {
    let all = workloads.all();
    // "Up to" so much less: the workload on which the ratio is least.
    let best = |id, other: Variant| {
        let term = |w: &String| {
            let (ours, theirs) = (SCALA.clients(w, CLIENTS), other.clients(w, CLIENTS));
            Term::ratio(Metric::MeanLatency, ours, theirs)
        };
        Claim::new(id, Formula::Least(all.iter().map(term).collect()))
    };
    Figure {
        name: "fig12b",
        plot: Plot::Bars,
        points: "workload",
        axis: Metric::MeanLatency.axis().into(),
        panels: vec![by_workload(
            Metric::MeanLatency,
            &all,
            &[TRI_2M, TRI_4M, TRI_6M, SCALA],
        )],
        claims: vec![
            best("scala-below-2m8c", TRI_2M),
            best("scala-below-4m8c", TRI_4M),
            best("scala-below-6m8c", TRI_6M),
        ],
        notes: vec!["8 clients in every design; TriCache's managers have CPUs besides"],
    }
}

/// A run long enough for a tail, on drives that collect.
fn tail(variant: Variant, workload: &str) -> Run {
    Run {
        stretch: TAIL_STRETCH,
        start: Start::Filled,
        ..variant.clients(workload, CLIENTS)
    }
}

fn unaware(workload: &str) -> Run {
    Run {
        gc_aware: false,
        ..tail(SCALA, workload)
    }
}

pub(super) fn fig13a(workloads: &Workloads) -> Figure {
    let two = workloads.pick(&["T1205", "T2982"]);
    let panel = |metric: Metric| {
        let cell = |variant, w: &str| Some(Cell::plain(metric, tail(variant, w)));
        series_of(metric.axis().into(), &two, &[TRI_2M, SCALA], cell)
    };
    let pairs = two.iter().map(|w| (tail(SCALA, w), tail(TRI_2M, w)));
    Figure {
        name: "fig13a",
        plot: Plot::Bars,
        points: "workload",
        axis: "tail latency, µs".into(),
        panels: vec![
            panel(Metric::P999),
            panel(Metric::P9999),
            panel(Metric::GcAffected),
            panel(Metric::GcAffectedLatency),
            panel(Metric::GcAffectedP9999),
        ],
        claims: vec![
            Claim::new(
                "fewer-affected",
                Formula::mean_ratio(Metric::GcAffected, pairs.clone()),
            ),
            Claim::new("p9999", Formula::mean_ratio(Metric::P9999, pairs)),
        ],
        notes: vec![STRETCHED, FILLED, AFFECTED],
    }
}

const AFFECTED: &str = "affected by collection: not served by the cache alone, and a drive said in a completion during the request's life that it was collecting";

const STRETCHED: &str = "runs are 8 times as long as the scale gives, in the same range of addresses, for the tail's sake";

const FILLED: &str = "every page of the drives was written once, in order, before each run: the figure is of collection";

pub(super) fn fig13b(workloads: &Workloads) -> Figure {
    let two = workloads.pick(&["T1205", "T2982"]);
    let aware = |w: &str| tail(SCALA, w);
    let panel = |metric: Metric| {
        let series = |name: &str, run: &dyn Fn(&str) -> Run| Series {
            name: name.into(),
            cells: two
                .iter()
                .map(|w| Some(Cell::plain(metric, run(w))))
                .collect(),
        };
        Panel {
            title: metric.axis().into(),
            points: two.clone(),
            series: vec![series("GC-aware", &aware), series("not GC-aware", &unaware)],
        }
    };
    let claim = |id, metric, w: String| {
        Claim::new(id, Formula::mean_ratio(metric, [(aware(&w), unaware(&w))]))
    };
    Figure {
        name: "fig13b",
        plot: Plot::Bars,
        points: "workload",
        axis: "tail latency, µs".into(),
        panels: vec![panel(Metric::P999), panel(Metric::P9999)],
        claims: vec![
            claim("p999-t1205", Metric::P999, workloads.one("T1205")),
            claim("p9999-t2982", Metric::P9999, workloads.one("T2982")),
        ],
        notes: vec![STRETCHED, FILLED],
    }
}
