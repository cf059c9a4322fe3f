//! The requests that `wharf compare` replays: a trace, or what a generator, file operations or a profile make.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::json;
use wharf_lab::input::{FilesFrom, Input, Made, TraceFrom};
use wharf_workload::generate::{GeneratorSpec, Pattern, Sizes};
use wharf_workload::layout::Layout;
use wharf_workload::named::resolve;
use wharf_workload::{NamedOptions, ReadOptions, WorkloadError};

use super::{Args, View};
use crate::cli::trace::{from_stdin, unreadable};
use crate::cli::{Failure, input, room, values};

/// The sample trace: SQLite at work, recorded by `traces/record.py`.
const SAMPLE: TraceFrom = TraceFrom::BuiltIn {
    name: "sqlite-bank",
    bytes: include_bytes!("../../../../../traces/sqlite-bank.trace.gz"),
};

/// Requests of a generator when none are said.
const REQUESTS: u64 = 200_000;
/// Memory for a request in bytes: itself, and its place with its client.
const REQUEST_BYTES: u64 = 64;

/// Requests of a trace that memory has room for: how many it has shows when it has been read.
pub(in crate::cli) fn requests_room() -> u64 {
    room::room_bytes() / REQUEST_BYTES
}

/// The workload by its name: a file if there is one, else a generator or a profile.
pub(super) fn workload(args: &Args, seed: u64, unit_bytes: u64) -> Result<Input, Failure> {
    let options = ReadOptions {
        requests_max: args.requests,
        requests_room: Some(requests_room()),
        ..args.reading.options()?
    };
    let layout = if args.overlay {
        Layout::Overlay
    } else {
        Layout::Concatenate
    };
    let from = match args.workload.as_deref() {
        None => SAMPLE,
        Some("-") => from_stdin()?,
        Some(name) if Path::new(name).exists() => TraceFrom::File(name.into()),
        Some(name) => return generated(args, name, seed, unit_bytes),
    };
    no_generator(args)?;
    if let Some(operations) = from.operations(args.requests).map_err(unreadable)? {
        return Ok(Input::Files {
            name: from.name(),
            from: operations,
            unit_bytes,
        });
    }
    if args.view == View::Files {
        return Err(input(format!(
            "--view files: {} is a trace of blocks, which names no files",
            from.name()
        )));
    }
    Ok(Input::Trace {
        from,
        options,
        layout,
    })
}

/// A trace is as it is: what shapes a generator's requests would be ignored.
fn no_generator(args: &Args) -> Result<(), Failure> {
    let given = [
        ("--footprint", args.footprint.is_some()),
        ("--bs", args.bs.is_some()),
        ("--read-share", args.read_share.is_some()),
        ("--theta", args.theta.is_some()),
        ("--files", args.files.is_some()),
        ("--loops", args.loops.is_some()),
        ("--writers", args.writers.is_some()),
        ("--fsync-every", args.fsync_every.is_some()),
    ];
    match given.into_iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => {
            let trace = args.workload.as_deref().unwrap_or("the sample trace");
            Err(input(format!(
                "{option} is for generators, and {trace} is a trace: leave it out, or name a generator such as uniform"
            )))
        }
        None => Ok(()),
    }
}

/// What says how a trace is read would be ignored of a workload that is made.
fn no_trace(args: &Args, name: &str) -> Result<(), Failure> {
    let overlay = args.overlay.then_some("--overlay");
    match args.reading.given().or(overlay) {
        Some(option) => Err(input(format!(
            "{option} is for traces, and {name} is a workload that is made: leave it out"
        ))),
        None => Ok(()),
    }
}

/// Where a file was meant no workload is suggested.
pub(in crate::cli) fn unknown(name: &str, error: &WorkloadError) -> Failure {
    match values::is_path(name) {
        true => input(format!(
            "no file '{name}': name a trace, or a workload (`wharf workloads` lists them)"
        )),
        false => input(format!("no file '{name}', and {error}")),
    }
}

/// A generator or a profile, as the library resolves it.
fn generated(args: &Args, name: &str, seed: u64, unit_bytes: u64) -> Result<Input, Failure> {
    if !values::is_path(name) {
        no_trace(args, name)?;
    }
    let sizes = match args.bs {
        None => None,
        Some(bytes) => {
            let bytes =
                u32::try_from(bytes).map_err(|_| input(format!("--bs {bytes}: at most 1 GiB")))?;
            Some(Sizes::fixed(bytes).map_err(input)?)
        }
    };
    let requests = args.requests.unwrap_or(REQUESTS);
    room::check_memory(
        &format!("a workload of {requests} requests"),
        requests.saturating_mul(REQUEST_BYTES),
        "give fewer --requests",
    )?;
    let options = NamedOptions {
        requests: Some(requests),
        footprint_bytes: args.footprint,
        sizes,
        read_share: args.read_share,
        theta: args.theta,
        files: args.files,
        threads: args.loops,
        writers: args.writers,
        fsync_every: args.fsync_every,
        seed,
    };
    let made = resolve(name, &options).map_err(|error| match error {
        WorkloadError::UnknownWorkload { .. } => unknown(name, &error),
        other => input(other),
    })?;
    let parameters = parameters(&made);
    match (args.view, made) {
        (View::Blocks, made) => Ok(Input::Generated {
            name: name.into(),
            parameters,
            spec: Box::new(made),
        }),
        (View::Files, Made::Files(spec)) => Ok(Input::Files {
            name: name.into(),
            from: FilesFrom::Made { spec, parameters },
            unit_bytes,
        }),
        (View::Files, _) => Err(input(format!(
            "--view files: {name} has no files: name file operations such as varmail"
        ))),
    }
}

/// What shapes the workload, for the report.
fn parameters(made: &Made) -> BTreeMap<String, serde_json::Value> {
    let mut pairs = match made {
        Made::Pattern(spec) => vec![
            ("requests", json!(spec.requests)),
            ("footprint_bytes", json!(spec.footprint_bytes)),
            ("request_bytes", json!(spec.sizes.mean_bytes() as u64)),
            ("read_share", json!(spec.read_share)),
        ],
        Made::Files(spec) => vec![
            ("requests", json!(spec.requests)),
            ("footprint_bytes", json!(spec.footprint_bytes())),
            ("request_bytes", json!(spec.request_bytes)),
            ("files", json!(spec.files)),
            ("threads", json!(spec.threads)),
        ],
        Made::Profile {
            profile,
            requests,
            footprint_bytes,
            ..
        } => vec![
            ("requests", json!(requests)),
            ("footprint_bytes", json!(footprint_bytes)),
            ("published_requests", json!(profile.table.requests)),
        ],
    };
    if let Made::Pattern(GeneratorSpec {
        pattern: Pattern::Zipf { theta },
        ..
    }) = made
    {
        pairs.push(("theta", json!(theta)));
    }
    if let Made::Files(spec) = made
        && spec.personality.is_job()
    {
        match spec.job.writers {
            Some(writers) => pairs.push(("writers", json!(writers))),
            None => pairs.push(("read_share", json!(spec.job.read_share))),
        }
        pairs.push(("fsync_every", json!(spec.job.fsync_every)));
    }
    let pairs = pairs.into_iter();
    pairs.map(|(key, value)| (key.into(), value)).collect()
}
