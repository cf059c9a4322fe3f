//! Workloads by name: the generators, the workloads of file operations and the profiles, with their parameters.

use crate::error::WorkloadError;
use crate::files::{FileJob, FileSpec, Personality};
use crate::generate::{Generator, GeneratorSpec, Pattern, Sizes, bad};
use crate::nearest::nearest;
use crate::profiles::Profile;
use crate::stat_table::size;
use crate::workload::Workload;

/// Requests of a generator if nothing is said.
pub const REQUESTS_DEFAULT: u64 = 1_000_000;
/// Footprint of a generator if nothing is said.
pub const FOOTPRINT_BYTES_DEFAULT: u64 = 1 << 30;
/// Request size of a generator if nothing is said.
pub const REQUEST_BYTES_DEFAULT: u32 = 4096;
/// Share of reads of a generator if nothing is said.
pub const READ_SHARE_DEFAULT: f64 = 0.7;
/// Skew of `zipf` if nothing is said.
pub const THETA_DEFAULT: f64 = 0.99;

/// Parameters of a named workload; what is `None` takes its default.
#[derive(Debug, Clone, Default)]
pub struct NamedOptions {
    /// Number of requests. A profile's default is the paper's number.
    pub requests: Option<u64>,
    /// Address range in bytes. A profile's default follows from its number of requests.
    pub footprint_bytes: Option<u64>,
    /// Request sizes; not for profiles.
    pub sizes: Option<Sizes>,
    /// Share of reads; not for profiles.
    pub read_share: Option<f64>,
    /// Skew; for `zipf` only.
    pub theta: Option<f64>,
    /// Files; for workloads of file operations only.
    pub files: Option<u32>,
    /// Threads that make requests; for workloads of file operations only.
    pub threads: Option<u32>,
    /// Threads that only write, where the others only read; for jobs on files only.
    pub writers: Option<u32>,
    /// Writes of a thread after which it makes its file durable; for jobs on files only.
    pub fsync_every: Option<u32>,
    /// Seed.
    pub seed: u64,
}

/// All names, generators first.
pub fn names() -> impl Iterator<Item = &'static str> {
    Pattern::NAMES
        .into_iter()
        .chain(Personality::ALL.iter().map(|(name, _)| *name))
        .chain(Profile::ALL.iter().map(|profile| profile.table.name))
        .chain(Profile::FLASH.iter().map(|profile| profile.table.name))
}

/// What the workload of a name is, in a few words; nothing if there is none.
pub fn about(name: &str) -> Option<String> {
    let pattern = match name {
        "sequential" => Some("requests one after another"),
        "uniform" => Some("requests at random places"),
        "zipf" => Some("requests at random places, some far more often than others"),
        _ => None,
    };
    let of_pattern = pattern.map(String::from);
    let personality = || Personality::by_name(name).map(|own| own.about().into());
    of_pattern.or_else(personality).or_else(|| {
        let mut all = Profile::ALL.iter().chain(Profile::FLASH.iter());
        let table = &all.find(|profile| profile.table.name == name)?.table;
        Some(format!(
            "a profile fitted to a published trace: {} requests of {:.1} KiB in the mean",
            table.requests, table.mean_kib
        ))
    })
}

/// A named workload with its parameters settled: what requests are made from.
#[derive(Debug, Clone)]
pub enum Made {
    /// A pattern with sizes and a read share.
    Pattern(GeneratorSpec),
    /// File operations.
    Files(FileSpec),
    /// One of the profiles fitted to published workloads.
    Profile {
        /// The profile.
        profile: &'static Profile,
        /// Requests; the published number if not said.
        requests: Option<u64>,
        /// Address range in bytes; in proportion to the requests if not said.
        footprint_bytes: Option<u64>,
        /// The seed.
        seed: u64,
    },
}

/// Finds a workload by its name and settles its parameters.
///
/// # Errors
/// No such name (the nearest is given), or a parameter that is not of this workload. Parameters out of
/// range show when requests are made.
pub fn resolve(name: &str, options: &NamedOptions) -> Result<Made, WorkloadError> {
    if let Some(personality) = Personality::by_name(name) {
        return of_files(personality, options).map(Made::Files);
    }
    no_job(name, options)?;
    if options.files.is_some() || options.threads.is_some() {
        let reason = format!("only workloads of file operations have any, {name} does not");
        return Err(bad("files, threads", reason));
    }
    let pattern = match name {
        "sequential" => Pattern::Sequential,
        "uniform" => Pattern::Uniform,
        "zipf" => Pattern::Zipf {
            theta: options.theta.unwrap_or(THETA_DEFAULT),
        },
        _ => match Profile::by_name(name) {
            Some(profile) => return of_profile(profile, options),
            None => {
                return Err(WorkloadError::UnknownWorkload {
                    given: name.to_owned(),
                    nearest: nearest(name, names()).to_owned(),
                    known: names().collect::<Vec<_>>().join(", "),
                });
            }
        },
    };
    if options.theta.is_some() && name != "zipf" {
        return Err(no_theta(name));
    }
    let sizes = match &options.sizes {
        Some(sizes) => sizes.clone(),
        None => Sizes::fixed(REQUEST_BYTES_DEFAULT)?,
    };
    Ok(Made::Pattern(GeneratorSpec {
        pattern,
        requests: options.requests.unwrap_or(REQUESTS_DEFAULT),
        footprint_bytes: options.footprint_bytes.unwrap_or(FOOTPRINT_BYTES_DEFAULT),
        sizes,
        read_share: options.read_share.unwrap_or(READ_SHARE_DEFAULT),
        seed: options.seed,
    }))
}

fn no_theta(name: &str) -> WorkloadError {
    bad("theta", format!("only zipf has one, {name} does not"))
}

/// What shapes a job alone is not given.
fn no_job(name: &str, options: &NamedOptions) -> Result<(), WorkloadError> {
    if options.writers.is_some() || options.fsync_every.is_some() {
        let reason = format!("only random-files and sequential-files have any, {name} does not");
        return Err(bad("writers, fsync every", reason));
    }
    Ok(())
}

/// File operations have their own skew and, but for jobs, their own mix.
fn of_files(personality: Personality, options: &NamedOptions) -> Result<FileSpec, WorkloadError> {
    let name = personality.name();
    if options.theta.is_some() {
        return Err(no_theta(name));
    }
    if !personality.is_job() {
        no_job(name, options)?;
        if options.read_share.is_some() {
            return Err(bad("read share", format!("{name} has its own mix")));
        }
    }
    if options.writers.is_some() && options.read_share.is_some() {
        let reason = "threads that only write leave no share of reads to choose";
        return Err(bad("writers", reason));
    }
    let job = FileJob {
        read_share: options.read_share.unwrap_or(READ_SHARE_DEFAULT),
        writers: options.writers,
        fsync_every: options.fsync_every.unwrap_or(0),
    };
    let request_bytes = match &options.sizes {
        None => personality.request_bytes_default(),
        Some(sizes) => sizes.bytes_max(),
    };
    Ok(FileSpec {
        personality,
        requests: options.requests.unwrap_or(REQUESTS_DEFAULT),
        files: options.files.unwrap_or(personality.files_default()),
        threads: options.threads.unwrap_or(personality.threads_default()),
        footprint_bytes: options.footprint_bytes,
        request_bytes,
        stride_bytes: None,
        job,
        seed: options.seed,
    })
}

/// A profile has its own sizes, mix and skew.
fn of_profile(profile: &'static Profile, options: &NamedOptions) -> Result<Made, WorkloadError> {
    let name = profile.table.name;
    if options.theta.is_some() {
        return Err(no_theta(name));
    }
    if options.sizes.is_some() {
        return Err(bad(
            "request size",
            format!("the profile {name} has its own sizes"),
        ));
    }
    if options.read_share.is_some() {
        return Err(bad(
            "read share",
            format!("the profile {name} has its own mix"),
        ));
    }
    Ok(Made::Profile {
        profile,
        requests: options.requests,
        footprint_bytes: options.footprint_bytes,
        seed: options.seed,
    })
}

/// The workload of this name.
///
/// # Errors
/// No such name (the nearest is given), or a parameter that is out of range or not of this workload.
pub fn named(name: &str, options: &NamedOptions) -> Result<Workload, WorkloadError> {
    match resolve(name, options)? {
        Made::Pattern(spec) => from_pattern(name, &spec),
        Made::Files(spec) => from_files(&spec),
        Made::Profile {
            profile,
            requests,
            footprint_bytes,
            seed,
        } => from_profile(profile, requests, footprint_bytes, seed),
    }
}

fn from_pattern(name: &str, spec: &GeneratorSpec) -> Result<Workload, WorkloadError> {
    let theta = match spec.pattern {
        Pattern::Zipf { theta } => format!(" theta={theta}"),
        _ => String::new(),
    };
    let title = format!(
        "{name}{theta} requests={} footprint={} bs={} read-share={} seed={}",
        spec.requests,
        size(spec.footprint_bytes as f64),
        size(spec.sizes.mean_bytes()),
        spec.read_share,
        spec.seed
    );
    Ok(Workload::from_requests_iter(
        title,
        Generator::new(spec)?,
        Some(spec.requests),
    ))
}

fn from_files(spec: &FileSpec) -> Result<Workload, WorkloadError> {
    let job = match (spec.personality.is_job(), spec.job.writers) {
        (false, _) => String::new(),
        (true, Some(writers)) => format!(" writers={writers}"),
        (true, None) => format!(" read-share={}", spec.job.read_share),
    };
    let title = format!(
        "{} requests={} footprint={} files={} threads={} bs={}{job} seed={}",
        spec.personality.name(),
        spec.requests,
        size(spec.footprint_bytes() as f64),
        spec.files,
        spec.threads,
        size(spec.request_bytes.into()),
        spec.seed
    );
    let generator = spec.generator()?;
    let requests = Some(spec.requests);
    Ok(Workload::from_requests_iter(title, generator, requests))
}

fn from_profile(
    profile: &Profile,
    requests: Option<u64>,
    footprint_bytes: Option<u64>,
    seed: u64,
) -> Result<Workload, WorkloadError> {
    let generator = profile.generator(requests, footprint_bytes, seed)?;
    let requests = requests.unwrap_or(profile.table.requests);
    let footprint = size(generator.footprint_bytes() as f64);
    let title = format!(
        "{} requests={requests} footprint={footprint} seed={seed}",
        profile.table.name
    );
    Ok(Workload::from_requests_iter(
        title,
        generator,
        Some(requests),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stat::WorkloadStat;

    fn small() -> NamedOptions {
        NamedOptions {
            requests: Some(20_000),
            seed: 9,
            ..NamedOptions::default()
        }
    }

    #[test]
    fn every_name_gives_its_requests_within_its_footprint() {
        for name in names() {
            let workload = named(name, &small()).unwrap();
            assert_eq!(workload.info().requests_expected, Some(20_000));
            let (requests, info) = workload.materialise().unwrap();
            assert_eq!((requests.len(), info.requests), (20_000, 20_000), "{name}");
            assert!(info.name.starts_with(name));
            let again = named(name, &small()).unwrap().materialise().unwrap().0;
            assert!(requests == again, "{name} is the same from the same seed");
        }
    }

    #[test]
    fn options_shape_the_workload() {
        let options = NamedOptions {
            footprint_bytes: Some(64 << 20),
            sizes: Some("4k:1,16k:1".parse().unwrap()),
            read_share: Some(0.25),
            ..small()
        };
        let stat = WorkloadStat::of(named("uniform", &options).unwrap(), false).unwrap();
        assert!((stat.read_share() - 0.25).abs() < 0.02);
        assert!((stat.all().mean_bytes() - 10_240.0).abs() < 200.0);
        assert!(stat.streams[0].end_bytes <= 64 << 20);
        let stat = WorkloadStat::of(named("sequential", &options).unwrap(), false).unwrap();
        assert!(stat.randomness() < 0.001);
    }

    #[test]
    fn a_mistake_is_named() {
        let error = |name: &str, options: NamedOptions| {
            named(name, &options)
                .err()
                .map(|error| error.to_string())
                .unwrap_or_default()
        };
        assert!(error("webmial", small()).contains("nearest is \"webmail\""));
        let theta = NamedOptions {
            theta: Some(1.0),
            ..small()
        };
        assert!(error("uniform", theta.clone()).contains("only zipf"));
        assert!(error("mds", theta.clone()).contains("only zipf"));
        assert!(error("zpif", theta).contains("nearest is \"zipf\""));
        let share = NamedOptions {
            read_share: Some(1.5),
            ..small()
        };
        assert!(error("zipf", share.clone()).contains("not between 0 and 1"));
        assert!(error("mds", share).contains("own mix"));
        let none = NamedOptions {
            requests: Some(0),
            ..small()
        };
        assert!(error("mds", none.clone()).contains("0 requests"));
        assert!(error("zipf", none).contains("0 requests"));
        let tiny = NamedOptions {
            footprint_bytes: Some(100),
            ..small()
        };
        assert!(error("mds", tiny.clone()).contains("footprint"));
        assert!(error("zipf", tiny).contains("footprint"));
    }
}
