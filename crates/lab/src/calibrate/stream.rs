//! Requests made for measuring: the same for every design, dealt out to the clients in turn.

use std::collections::BTreeMap;
use std::sync::Arc;

use wharf_workload::{Op, Request};

use crate::input::{ClientRule, Plan};
use crate::result::Source;

/// Bytes of a page.
const PAGE_BYTES: u64 = 4096;

/// A request of one page.
pub(super) fn page_request(op: Op, page: u64) -> Request {
    Request {
        time_ns: 0,
        ..Request::new(op, page * PAGE_BYTES, PAGE_BYTES as u32)
    }
}

/// A plan of these requests, of pages below `pages`, without the check of reads.
pub(super) fn unchecked_plan(requests: Vec<Request>, clients: u32, pages: u64) -> Arc<Plan> {
    let mut by_client = vec![Vec::new(); clients as usize];
    for index in 0..requests.len() {
        by_client[index % clients as usize].push(index as u32);
    }
    let reads = requests.iter().filter(|r| r.op == Op::Read).count();
    Arc::new(Plan {
        name: "measurement".into(),
        source: Source::Generator {
            generator: "measurement".into(),
            parameters: BTreeMap::new(),
        },
        by_client: by_client.into_iter().map(Arc::from).collect(),
        footprint_pages: pages,
        touched: vec![(0, pages)],
        read_share: reads as f64 / requests.len().max(1) as f64,
        fit: None,
        bad_lines: 0,
        notes: Vec::new(),
        checked: false,
        in_order: false,
        rule: ClientRule::RoundRobin,
        requests: requests.into(),
        timed: None,
        files: None,
    })
}
