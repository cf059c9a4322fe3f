//! When requests are sent, and by whom: open loops keep time or say by how much they do not, and
//! every request belongs to one client.

use std::collections::BTreeMap;

use wharf_host::Direct;
use wharf_lab::input::{ClientRule, Input};
use wharf_lab::result::Drift;
use wharf_runtime::Seed;
use wharf_workload::named::resolve;
use wharf_workload::{NamedOptions, Op, Request};

use crate::support::{listed, planned, planned_by, run, setup, small};

/// Reads of one page each, `gap_ns` apart.
fn reads(count: u64, gap_ns: u64) -> Vec<Request> {
    let one = |i: u64| Request {
        time_ns: i * gap_ns,
        ..Request::new(Op::Read, i * 37 % 2_000 * 4096, 4096)
    };
    (0..count).map(one).collect()
}

fn drift(speed: f64, gap_ns: u64) -> (Drift, f64) {
    let mut setup = setup(small());
    (setup.clients, setup.depth, setup.speed) = (2, 8, Some(speed));
    let row = run::<Direct>(&setup, &planned(&listed(&reads(2_000, gap_ns)), &setup));
    (row.drift_us.expect("an open loop"), row.elapsed_seconds)
}

#[test]
fn a_drive_with_time_to_spare_keeps_to_the_timestamps() {
    // A read takes some 20 µs; 4 dies serve one every 100 µs with ease.
    let (drift, elapsed) = drift(1.0, 100_000);
    assert!(drift.mean < 1.0 && drift.max < 50.0, "{drift:?}");
    assert!((0.1999..0.201).contains(&elapsed), "{elapsed}");
}

#[test]
fn the_speed_factor_shortens_the_run() {
    let (drift, elapsed) = drift(2.0, 100_000);
    assert!(drift.max < 50.0, "{drift:?}");
    assert!((0.0999..0.101).contains(&elapsed), "{elapsed}");
}

#[test]
fn a_drive_that_cannot_follow_says_how_late_it_is() {
    // A request every 100 ns is far beyond four dies: the last is late by nearly the whole run.
    let (drift, elapsed) = drift(1_000.0, 100_000);
    assert!(drift.max > drift.mean && drift.mean > 1_000.0, "{drift:?}");
    assert!(
        drift.max <= elapsed * 1e6,
        "no request is later than the end of the run"
    );
    assert!(drift.max > 0.9 * elapsed * 1e6, "{drift:?} in {elapsed} s");
}

#[test]
fn a_closed_loop_has_no_drift() {
    let setup = setup(small());
    let row = run::<Direct>(&setup, &planned(&listed(&reads(100, 1_000)), &setup));
    assert_eq!(row.drift_us, None);
}

#[test]
fn each_rule_deals_every_request_once_and_in_order() {
    let mut rng = Seed(3).child("rules").rng();
    let requests: Vec<Request> = (0..3_000)
        .map(|i| Request {
            stream: rng.below(5) as u32,
            process: 100 + rng.below(9) as u32,
            time_ns: i,
            ..Request::new(Op::Read, rng.below(64) * 4096, 4096)
        })
        .collect();
    for rule in ClientRule::NAMES {
        for clients in [1, 2, 7, 16] {
            let mut setup = setup(small());
            setup.clients = clients;
            let rule: ClientRule = rule.parse().expect("a name");
            let plan = planned_by(&listed(&requests), &setup, rule);
            assert_eq!(plan.by_client.len(), clients as usize);
            assert!(plan.by_client.iter().all(|list| list.is_sorted()));
            let mut dealt: Vec<u32> = plan
                .by_client
                .iter()
                .flat_map(|list| list.iter().copied())
                .collect();
            dealt.sort_unstable();
            assert!(
                dealt.into_iter().eq(0..3_000),
                "{rule:?} for {clients} clients"
            );
            check_rule(rule, &plan.by_client, &plan.requests, clients);
        }
    }
}

/// Each client has what its rule says.
fn check_rule(
    rule: ClientRule,
    by_client: &[std::sync::Arc<[u32]>],
    requests: &[Request],
    clients: u32,
) {
    for (client, list) in (0u64..).zip(by_client) {
        for &index in list.iter() {
            let request = requests[index as usize];
            let key = match rule {
                ClientRule::RoundRobin => u64::from(index),
                ClientRule::Process => u64::from(request.process),
                ClientRule::Stream => u64::from(request.stream),
                ClientRule::Address => request.offset / (128 << 10),
            };
            assert_eq!(key % u64::from(clients), client, "{rule:?}: {request:?}");
        }
    }
}

#[test]
fn requests_without_a_process_are_dealt_in_turn_and_the_plan_says_so() {
    let mut setup = setup(small());
    setup.clients = 3;
    let plan = planned_by(&listed(&reads(30, 1)), &setup, ClientRule::Process);
    assert_eq!(plan.rule, ClientRule::RoundRobin);
    assert!(plan.by_client.iter().all(|list| list.len() == 10));
    assert!(plan.notes.iter().any(|note| note.starts_with("no process")));
}

/// A profile's runs stay whole: who begins one goes on with it, and a page of the hot set is one
/// client's.
#[test]
fn a_profile_deals_its_runs_to_processes() {
    let mut setup = setup(small());
    setup.clients = 8;
    let profile = resolve(
        "webmail",
        &NamedOptions {
            requests: Some(40_000),
            seed: 5,
            ..NamedOptions::default()
        },
    );
    let input = Input::Generated {
        name: "webmail".into(),
        parameters: BTreeMap::new(),
        spec: Box::new(profile.expect("a profile")),
    };
    let plan = planned_by(&input, &setup, ClientRule::Process);
    assert_eq!(plan.rule, ClientRule::Process);
    // A process has some extents by lot, and extents are not equally popular.
    for list in &plan.by_client {
        assert!((2_500..7_500).contains(&list.len()), "{}", list.len());
    }
    let runs = plan.requests.windows(2);
    let goes_on = |pair: &&[Request]| pair[0].end() == pair[1].offset;
    let (own, all) = runs.filter(goes_on).fold((0, 0), |(own, all), pair| {
        (own + u32::from(pair[0].process == pair[1].process), all + 1)
    });
    // 78 % of the requests go on; of new runs one in ten thousand begins just there.
    assert!(all > 30_000 && own * 1000 > all * 999, "{own} of {all}");
}
