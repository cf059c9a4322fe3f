//! What is to be replayed: a trace or a generator, brought onto the drive and dealt out to clients.

mod files;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use serde::Serialize;
use wharf_workload::files::{FileGenerator, FileSpec, FileTraceReader};
use wharf_workload::fit::{Fit, FitMode};
use wharf_workload::footprint::Footprint;
use wharf_workload::generate::{Generator, Threads, ThreadsSpec};
use wharf_workload::layout::{Layout, StreamMap, StreamSurvey};
use wharf_workload::timing::Schedule;
use wharf_workload::{Op, PAGE_BYTES, ReadOptions, Request, TraceReader, Workload, WorkloadError};

pub use files::{FilePlan, FilesFrom};
pub use wharf_workload::named::Made;

use crate::checker::Checker;
use crate::result::Source;

/// A pause longer than this is cut in an open loop (10 s): traces have clocks that jump.
const GAP_NS_MAX: u64 = 10_000_000_000;

/// Where requests come from.
#[derive(Debug, Clone)]
pub enum Input {
    /// A trace.
    Trace {
        /// Where it is.
        from: TraceFrom,
        /// How to read it.
        options: ReadOptions,
        /// How its devices become one address space.
        layout: Layout,
    },
    /// A generator or a named profile, made whole beforehand.
    Generated {
        /// Its name.
        name: String,
        /// Its parameters, for the report.
        parameters: BTreeMap<String, serde_json::Value>,
        /// What to generate.
        spec: Box<Made>,
    },
    /// Threads of file operations that run for a time, each as fast as it can.
    Timed {
        /// What to call it.
        name: String,
        /// What they do.
        spec: FileSpec,
        /// For how long, in nanoseconds.
        run_ns: u64,
    },
    /// Operations on files, for clients that know files.
    Files {
        /// What to call them.
        name: String,
        /// Where they come from.
        from: FilesFrom,
        /// What sizes and offsets are to be multiples of: what the drives' media tell apart.
        unit_bytes: u64,
    },
    /// Threads with a file each.
    Threads {
        /// What to call it.
        name: String,
        /// What they do.
        spec: ThreadsSpec,
    },
}

impl Input {
    /// True for file operations, whose streams are threads.
    fn is_of_files(&self) -> bool {
        matches!(self, Input::Generated { spec, .. } if matches!(**spec, Made::Files(_)))
    }
}

/// Where a trace is.
#[derive(Debug, Clone)]
pub enum TraceFrom {
    /// In a file.
    File(PathBuf),
    /// In the program.
    BuiltIn {
        /// Its name.
        name: &'static str,
        /// Its bytes, plain or compressed.
        bytes: &'static [u8],
    },
    /// In memory: what came by standard input, so that it can be read more than once.
    Memory {
        /// What to call it.
        name: String,
        /// Its bytes, plain or compressed.
        bytes: Arc<[u8]>,
    },
}

impl TraceFrom {
    /// Opens it.
    ///
    /// # Errors
    /// It cannot be read, or its format cannot be settled.
    pub fn open(&self, options: &ReadOptions) -> Result<Workload, WorkloadError> {
        match self {
            TraceFrom::File(path) => Workload::open(path, options),
            TraceFrom::BuiltIn { name, bytes } => {
                TraceReader::from_bytes(name, bytes.to_vec(), options).map(Workload::from_stream)
            }
            TraceFrom::Memory { name, bytes } => {
                let reader = std::io::Cursor::new(bytes.clone());
                TraceReader::from_reader(name, reader, options).map(Workload::from_stream)
            }
        }
    }

    /// What to call it.
    pub fn name(&self) -> String {
        match self {
            TraceFrom::File(path) => {
                let name = path.file_name().unwrap_or(path.as_os_str());
                name.to_string_lossy().into_owned()
            }
            TraceFrom::BuiltIn { name, .. } => (*name).to_owned(),
            TraceFrom::Memory { name, .. } => name.clone(),
        }
    }

    /// All operations, or the first `most`, if it is a trace of operations on files.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn operations(&self, most: Option<u64>) -> Result<Option<FilesFrom>, WorkloadError> {
        let reader = match self {
            TraceFrom::File(path) => FileTraceReader::open(path)?,
            TraceFrom::BuiltIn { name, bytes } => {
                FileTraceReader::from_bytes(name, bytes.to_vec())?
            }
            TraceFrom::Memory { name, bytes } => FileTraceReader::from_bytes(name, bytes.to_vec())?,
        };
        let Some(mut reader) = reader else {
            return Ok(None);
        };
        let mut ops = Vec::new();
        let most = most.unwrap_or(u64::MAX);
        while (ops.len() as u64) < most
            && let Some(op) = reader.next_op()?
        {
            ops.push(op);
        }
        Ok(Some(FilesFrom::Listed {
            path: self.path(),
            names: reader.into_names(),
            ops: ops.into(),
        }))
    }

    fn path(&self) -> String {
        match self {
            TraceFrom::File(path) => path.display().to_string(),
            TraceFrom::BuiltIn { name, .. } => format!("{name} (built in)"),
            TraceFrom::Memory { name, .. } => name.clone(),
        }
    }
}

/// How requests go to clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClientRule {
    /// Request `i` goes to client `i mod N`.
    RoundRobin,
    /// All requests of a process, as the trace or the profile names it, go to client `process mod
    /// N`. In turn where no process is known.
    Process,
    /// All requests of a stream (device, volume, file) go to client `stream mod N`.
    Stream,
    /// All requests that begin in the same 128 KiB of the address space go to the same client.
    Address,
}

impl ClientRule {
    /// Names on the command line.
    pub const NAMES: [&str; 4] = ["round-robin", "process", "stream", "address"];

    /// The rule in a sentence, for reports.
    pub fn describe(self) -> &'static str {
        match self {
            ClientRule::RoundRobin => "request i goes to client i mod N",
            ClientRule::Process => "requests of process p go to client p mod N",
            ClientRule::Stream => "requests of stream s go to client s mod N",
            ClientRule::Address => "requests that begin in 128 KiB region r go to client r mod N",
        }
    }

    fn client_of(self, index: usize, request: &Request, clients: u32) -> u32 {
        let clients = u64::from(clients);
        let key = match self {
            ClientRule::RoundRobin => index as u64,
            ClientRule::Process => u64::from(request.process),
            ClientRule::Stream => u64::from(request.stream),
            ClientRule::Address => request.offset >> 17,
        };
        (key % clients) as u32
    }
}

impl FromStr for ClientRule {
    type Err = String;

    fn from_str(name: &str) -> Result<ClientRule, String> {
        match name {
            "round-robin" => Ok(ClientRule::RoundRobin),
            "process" => Ok(ClientRule::Process),
            "stream" => Ok(ClientRule::Stream),
            "address" => Ok(ClientRule::Address),
            _ => Err(format!(
                "no rule '{name}': use {}",
                ClientRule::NAMES.join(", ")
            )),
        }
    }
}

/// Requests ready to be replayed, the same for every design.
pub struct Plan {
    /// What the user called it.
    pub name: String,
    /// Where the requests come from.
    pub source: Source,
    /// All requests; `time_ns` is when to send each in an open loop, from 0. None if they are made when asked for.
    pub requests: Arc<[Request]>,
    /// Indices of each client's requests, in order.
    pub by_client: Vec<Arc<[u32]>>,
    /// Distinct 4 KiB pages touched.
    pub footprint_pages: u64,
    /// The touched pages as sorted, disjoint ranges (first, end).
    pub touched: Vec<(u64, u64)>,
    /// Share of reads; 0 where requests are made when asked for.
    pub read_share: f64,
    /// How addresses were brought onto the drive, if they had to be.
    pub fit: Option<String>,
    /// Lines that could not be read.
    pub bad_lines: u64,
    /// What a reader of the report has to know.
    pub notes: Vec<String>,
    /// Whether every read is checked against the last write: always, but where the time of the
    /// check itself would be measured.
    pub checked: bool,
    /// Whether each stream's requests are served one after another: they are one thread's, and what it reads
    /// it has written.
    pub in_order: bool,
    /// How requests go to clients.
    pub rule: ClientRule,
    /// What makes requests when clients ask for them, if a time bounds the run.
    pub timed: Option<Timed>,
    /// Operations on files, which then are all there is.
    pub files: Option<Arc<FilePlan>>,
}

/// Threads that make requests for a time.
pub struct Timed {
    /// What makes them, before the first one.
    pub generator: FileGenerator,
    /// Threads.
    pub threads: u32,
    /// How long they make requests, in nanoseconds.
    pub run_ns: u64,
}

impl Plan {
    /// Requests, if their number is known beforehand.
    pub fn request_count(&self) -> Option<u64> {
        let operations = self.files.as_ref().map_or(0, |files| files.ops.len());
        let count = (self.requests.len() + operations) as u64;
        self.timed.is_none().then_some(count)
    }
}

/// Reads or makes all requests and prepares them for a device of `device_bytes`. Threads of file
/// operations go to clients by stream, whatever `rule` says, and their files where the device,
/// divided into as many, has them. Requests that no process is known of go to clients in turn where
/// they were to go by process; the plan says so.
///
/// # Errors
/// The trace cannot be read, or does not fit the device and `fit` says that this is an error.
pub fn plan(
    input: &Input,
    fit: FitMode,
    rule: ClientRule,
    clients: u32,
    device_bytes: u64,
) -> Result<Plan, WorkloadError> {
    if let Input::Timed { name, spec, run_ns } = input {
        return timed(name, spec, *run_ns, clients, device_bytes);
    }
    if let Input::Files {
        name,
        from,
        unit_bytes,
    } = input
    {
        return files::plan(name, from, *unit_bytes, clients, device_bytes);
    }
    let mut notes = Vec::new();
    let in_order = input.is_of_files();
    let rule = if in_order { ClientRule::Stream } else { rule };
    let (name, source, mut requests, bad_lines) = match input {
        Input::Trace {
            from,
            options,
            layout,
        } => {
            let (requests, info) = from.open(options)?.materialise()?;
            notes.extend(info.notes.iter().cloned());
            notes.extend(
                info.first_bad_lines
                    .iter()
                    .map(|bad| format!("left out: {bad}")),
            );
            let requests = lay_out(requests, *layout, &mut notes)?;
            let source = Source::File {
                path: from.path(),
                format: info.format,
            };
            (info.name, source, requests, info.bad_lines)
        }
        Input::Generated {
            name,
            parameters,
            spec,
        } => {
            let requests = match &**spec {
                Made::Pattern(spec) => Generator::new(spec)?.collect(),
                Made::Files(spec) => spec.on_volume(device_bytes).generator()?.collect(),
                Made::Profile {
                    profile,
                    requests,
                    footprint_bytes,
                    seed,
                } => profile
                    .generator(*requests, *footprint_bytes, *seed)?
                    .collect(),
            };
            let (generator, parameters) = (name.clone(), parameters.clone());
            (
                name.clone(),
                Source::Generator {
                    generator,
                    parameters,
                },
                requests,
                0,
            )
        }
        Input::Threads { name, spec } => {
            let requests = Threads::new(spec.clone())?.collect();
            (name.clone(), made_by(name), requests, 0)
        }
        Input::Timed { .. } | Input::Files { .. } => unreachable!("they have no such requests"),
    };
    if requests.is_empty() {
        return Err(WorkloadError::BadParameter {
            parameter: "workload",
            reason: format!("'{name}' has no requests"),
        });
    }
    let rule = known_rule(rule, &requests, &mut notes);
    align(&mut requests, &mut notes);
    let fit = fit_to_device(&mut requests, fit, device_bytes)?;
    schedule(&mut requests, &mut notes);
    let (footprint_pages, touched) = footprint(&requests);
    let reads = requests.iter().filter(|r| r.op == Op::Read).count();
    Ok(Plan {
        name,
        source,
        by_client: deal(&requests, rule, clients),
        footprint_pages,
        touched,
        read_share: reads as f64 / requests.len() as f64,
        fit,
        bad_lines,
        notes,
        checked: true,
        in_order,
        rule,
        requests: requests.into(),
        timed: None,
        files: None,
    })
}

/// A plan of threads that make their requests when the run has come to them. What they touch is all of their files.
fn timed(
    name: &str,
    spec: &FileSpec,
    run_ns: u64,
    clients: u32,
    device_bytes: u64,
) -> Result<Plan, WorkloadError> {
    let spec = spec.on_volume(device_bytes);
    let generator = spec.generator()?;
    let touched: Vec<(u64, u64)> = spec
        .regions()
        .map(|(first, end)| (first / PAGE_BYTES, end / PAGE_BYTES))
        .collect();
    Ok(Plan {
        name: name.into(),
        source: made_by(name),
        requests: Arc::new([]),
        by_client: (0..clients).map(|_| Arc::from([])).collect(),
        footprint_pages: touched.iter().map(|(first, end)| end - first).sum(),
        touched: joined(touched),
        read_share: 0.0,
        fit: None,
        bad_lines: 0,
        notes: Vec::new(),
        checked: true,
        in_order: true,
        rule: ClientRule::Stream,
        timed: Some(Timed {
            generator,
            threads: spec.threads,
            run_ns,
        }),
        files: None,
    })
}

fn made_by(name: &str) -> Source {
    Source::Generator {
        generator: name.into(),
        parameters: BTreeMap::new(),
    }
}

/// Dealing by process needs processes.
fn known_rule(rule: ClientRule, requests: &[Request], notes: &mut Vec<String>) -> ClientRule {
    if rule != ClientRule::Process || requests.iter().any(Request::has_process) {
        return rule;
    }
    notes.push("no process is known of any request: they go to clients in turn".into());
    ClientRule::RoundRobin
}

fn lay_out(
    mut requests: Vec<Request>,
    layout: Layout,
    notes: &mut Vec<String>,
) -> Result<Vec<Request>, WorkloadError> {
    let mut survey = StreamSurvey::default();
    for request in &requests {
        survey.add(request);
    }
    let streams = survey.extents().len();
    if streams > 1 {
        let how = match layout {
            Layout::Concatenate => "laid one after another",
            Layout::Overlay => "laid over one another",
        };
        notes.push(format!("{streams} devices of the trace {how}"));
    }
    let map = StreamMap::new(layout, survey.extents())?;
    requests
        .iter_mut()
        .for_each(|request| *request = map.map(*request));
    Ok(requests)
}

/// Widens requests to whole sectors; discards are narrowed, as what lies beside them stays.
fn align(requests: &mut Vec<Request>, notes: &mut Vec<String>) {
    let sector = Checker::ALIGNMENT;
    let (mut widened, before) = (0u64, requests.len());
    requests.retain_mut(|request| {
        if request.op != Op::Discard {
            return true;
        }
        let first = request.offset.next_multiple_of(sector);
        let end = request.end() / sector * sector;
        (request.offset, request.bytes) = (first, end.saturating_sub(first) as u32);
        request.bytes > 0
    });
    if requests.len() < before {
        let left_out = before - requests.len();
        notes.push(format!(
            "{left_out} discards of less than a sector left out"
        ));
    }
    for request in requests {
        let first = request.offset / sector * sector;
        let end = request.end().next_multiple_of(sector);
        if first != request.offset || end != request.end() {
            widened += 1;
            (request.offset, request.bytes) = (first, (end - first) as u32);
        }
    }
    if widened > 0 {
        notes.push(format!(
            "{widened} requests widened to whole {sector}-byte sectors"
        ));
    }
}

fn fit_to_device(
    requests: &mut [Request],
    mode: FitMode,
    device_bytes: u64,
) -> Result<Option<String>, WorkloadError> {
    let span_bytes = requests.iter().map(Request::end).max().unwrap_or(0);
    let mut fit = Fit::new(mode, device_bytes, span_bytes)?;
    for request in requests.iter_mut() {
        *request = fit.map(*request)?;
    }
    // Scaling can leave offsets between sectors.
    let sector = Checker::ALIGNMENT;
    requests
        .iter_mut()
        .for_each(|r| r.offset = r.offset / sector * sector);
    Ok(fit.summary())
}

fn schedule(requests: &mut [Request], notes: &mut Vec<String>) {
    let mut schedule = Schedule::new(Some(GAP_NS_MAX));
    for request in requests.iter_mut() {
        request.time_ns = schedule.issue_ns(request);
    }
    if schedule.cut > 0 {
        notes.push(format!(
            "{} pauses of the trace's clock longer than 10 s were cut",
            schedule.cut
        ));
    }
}

fn footprint(requests: &[Request]) -> (u64, Vec<(u64, u64)>) {
    let mut pages = Footprint::default();
    let mut ranges: Vec<(u64, u64)> = Vec::with_capacity(requests.len());
    for request in requests.iter().filter(|request| request.op.moves_data()) {
        let range = request.pages();
        ranges.push((range.start, range.end));
        pages.insert(0, range);
    }
    (pages.unique_pages(), joined(ranges))
}

/// Ranges, each from its first to before its end, in order; those that overlap or touch are one.
pub(crate) fn joined(mut ranges: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    ranges.sort_unstable();
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (first, end) in ranges {
        match joined.last_mut() {
            Some(last) if first <= last.1 => last.1 = last.1.max(end),
            _ => joined.push((first, end)),
        }
    }
    joined
}

fn deal(requests: &[Request], rule: ClientRule, clients: u32) -> Vec<Arc<[u32]>> {
    let mut lists = vec![Vec::new(); clients as usize];
    for (index, request) in requests.iter().enumerate() {
        lists[rule.client_of(index, request, clients) as usize].push(index as u32);
    }
    lists.into_iter().map(Arc::from).collect()
}
