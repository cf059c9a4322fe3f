//! A design of one's own: a page cache with exact LRU that writes through (`docs/new-design.md`).

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use wharf_host::kit::outside::{
    Counters, Extent, Frame, IoError, Lock, Op, Span, Volume, Waits, check_request, spans,
};
use wharf_host::{Client, Design, DesignConfig, DesignError, Parts, Statistics, Touch};
use wharf_wire::dma::DmaSpace;

wharf_host::settings! {
    /// What `example-lru` is told.
    pub struct LruConfig {
        /// `true`: the page that came first leaves first, however often it was used since.
        pub fifo: bool = false;
    }
}

/// Which page is where, and which leaves next.
#[derive(Default)]
struct Pages {
    /// Of each page its age, and its frame unless a request has that.
    entries: BTreeMap<u64, (u64, Option<Frame>)>,
    /// The pages by age: the first leaves next.
    by_age: BTreeMap<u64, u64>,
    free: Vec<Frame>,
    clock: u64,
}

impl Pages {
    /// Takes the frame of `page` out, or one for it, and tells whether the page was there. None
    /// while another request has the page, or requests have all frames.
    fn take(&mut self, page: u64, fifo: bool) -> Option<(Frame, bool)> {
        let (frame, is_hit) = match self.entries.get_mut(&page) {
            Some((_, frame)) => (frame.take()?, true),
            None => (self.free.pop().or_else(|| self.evict())?, false),
        };
        if !(is_hit && fifo) {
            self.clock += 1;
            if let Some((age, _)) = self.entries.insert(page, (self.clock, None)) {
                self.by_age.remove(&age);
            }
            self.by_age.insert(self.clock, page);
        }
        Some((frame, is_hit))
    }

    /// The frame of the oldest page that no request has. What it holds is on the drive, too.
    fn evict(&mut self) -> Option<Frame> {
        let is_idle = |page: &u64| self.entries[page].1.is_some();
        let oldest = self.by_age.iter().find(|(_, page)| is_idle(page));
        let (age, page) = oldest.map(|(age, page)| (*age, *page))?;
        self.by_age.remove(&age);
        self.entries.remove(&page)?.1
    }

    /// Puts a page's frame back; a page whose frame was lost is forgotten.
    fn put(&mut self, page: u64, frame: Option<Frame>) {
        let (age, place) = self.entries.get_mut(&page).expect("it was taken");
        *place = frame;
        if place.is_none() {
            self.by_age.remove(age);
            self.entries.remove(&page);
        }
    }
}

/// What the clients share.
pub struct ExampleLru {
    pages: Lock<Pages>,
    waits: Waits,
    page_bytes: usize,
    fifo: bool,
}

impl Design for ExampleLru {
    const NAME: &'static str = "example-lru";
    const SUMMARY: &'static str = "a page cache with exact LRU that writes through: the example";
    type Config = LruConfig;
    type Client = LruClient;

    fn new(
        config: &DesignConfig,
        own: &LruConfig,
        space: &Arc<DmaSpace>,
    ) -> Result<ExampleLru, DesignError> {
        let (design, page_bytes) = (Self::NAME, space.page_bytes());
        let free = Frame::all(space, config.frames(design)?)
            .map_err(|source| DesignError::Memory { design, source })?;
        let pages = Pages {
            free,
            ..Pages::default()
        };
        Ok(ExampleLru {
            pages: Lock::new(pages),
            waits: Waits::new(config.clients),
            page_bytes,
            fifo: own.fifo,
        })
    }

    fn client(self: &Arc<Self>, parts: Parts) -> Result<LruClient, DesignError> {
        self.waits.serve(&parts.cpu, parts.index);
        Ok(LruClient {
            shared: self.clone(),
            volume: parts.cache(),
            counters: Counters::default(),
            parts,
        })
    }
}

/// One client.
pub struct LruClient {
    shared: Arc<ExampleLru>,
    volume: Rc<Volume>,
    counters: Counters,
    parts: Parts,
}

impl LruClient {
    /// Serves a request page by page; `copy` moves the bytes of one.
    async fn serve(
        &self,
        extent: Extent,
        payload_bytes: usize,
        is_write: bool,
        mut copy: impl FnMut(&Span, &mut Frame),
    ) -> Result<Touch, IoError> {
        let (cpu, shared, volume) = (&self.parts.cpu, &self.shared, &self.volume);
        check_request(volume, shared.page_bytes, extent, payload_bytes)?;
        let mut touch = Touch::no_hits(extent.pages());
        for span in spans(extent, shared.page_bytes) {
            let (mut frame, is_hit) = self.take(span.page).await;
            let serving = async {
                if !(is_hit || (is_write && span.whole)) {
                    frame = frame.read(cpu, volume, span.page).await?;
                }
                cpu.work(Op::CopyPage, || copy(&span, &mut frame));
                match is_write {
                    true => frame.write(cpu, volume, span.page).await,
                    false => Ok(frame),
                }
            };
            let (frame, ended) = match serving.await {
                Ok(frame) => (Some(frame), Ok(())),
                Err(error) => (None, Err(error)),
            };
            shared.pages.with(cpu, |pages| pages.put(span.page, frame));
            shared.waits.wake_all(cpu, self.parts.index);
            ended?;
            touch.hits += u64::from(is_hit);
        }
        Ok(touch)
    }

    /// Takes a page's frame, and tells whether the page was in it.
    async fn take(&self, page: u64) -> (Frame, bool) {
        let (cpu, shared) = (&self.parts.cpu, &self.shared);
        loop {
            let woken = shared.waits.join(cpu, self.parts.index);
            let found = shared.pages.with(cpu, |pages| {
                cpu.work(Op::CacheLookup, || pages.take(page, shared.fifo))
            });
            match found {
                Some(found) => return found,
                None => woken.await,
            }
        }
    }
}

impl Client for LruClient {
    async fn read(&self, extent: Extent, out: &mut [u8]) -> Result<Touch, IoError> {
        self.counters.reads.add(1);
        let served = self.serve(extent, out.len(), false, |span, frame| {
            out[span.in_payload()].copy_from_slice(&frame.bytes()[span.in_page()]);
        });
        self.counters.end(served.await, |touch| *touch)
    }

    async fn write(&self, extent: Extent, data: &[u8]) -> Result<Touch, IoError> {
        self.counters.writes.add(1);
        let served = self.serve(extent, data.len(), true, |span, frame| {
            frame.bytes_mut()[span.in_page()].copy_from_slice(&data[span.in_payload()]);
        });
        self.counters.end(served.await, |touch| *touch)
    }

    async fn flush(&self) -> Result<(), IoError> {
        self.volume.flush(&self.parts.cpu).await
    }

    fn statistics(&self) -> Statistics {
        self.counters.statistics(&self.volume)
    }
}

// The design ends here; what follows runs it beside two that are built in:
// cargo run --release -p wharf-lab --example lru_design

use wharf_lab::compare::{Request, compare};
use wharf_lab::config::{Sets, load_costs, load_drive, load_host};
use wharf_lab::designs::{find, register};
use wharf_lab::input::{ClientRule, Input, Made, plan};
use wharf_lab::replay::Setup;
use wharf_lab::report;
use wharf_workload::fit::FitMode;
use wharf_workload::generate::{GeneratorSpec, Pattern, Sizes};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    register::<ExampleLru>();
    let sets = Sets::parse(&std::env::args().skip(1).collect::<Vec<_>>())?;
    let (drive, host) = (
        load_drive("scala", &sets)?.0,
        load_host("default", &sets)?.0,
    );
    let mut setup = Setup::new(drive, 1, host, load_costs("default")?.0);
    (setup.clients, setup.depth, setup.cache_bytes) = (4, 8, 48 << 20);
    let spec = GeneratorSpec {
        pattern: Pattern::Zipf { theta: 0.99 },
        requests: 100_000,
        footprint_bytes: 256 << 20,
        sizes: Sizes::fixed(4096)?,
        read_share: 0.7,
        seed: 1,
    };
    let input = Input::Generated {
        name: "zipf".into(),
        parameters: BTreeMap::new(),
        spec: Box::new(Made::Pattern(spec)),
    };
    let bytes = setup.volume_bytes();
    let plan = plan(&input, FitMode::Error, ClientRule::RoundRobin, 4, bytes)?;
    let names = ["direct", "clock", ExampleLru::NAME];
    let request = Request {
        setup,
        designs: names.into_iter().filter_map(find).collect(),
        plans: vec![Arc::new(plan)],
        cache_spec: "48MiB".into(),
        commit: "none".into(),
        jobs: 1,
    };
    let comparison = compare(&request, &Arc::default())?;
    print!("{}", report::table::render(&comparison, 100));
    Ok(())
}
