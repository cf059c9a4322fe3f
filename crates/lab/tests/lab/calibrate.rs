//! A calibration of this machine: every operation has a figure, and the table loads.

use wharf_lab::calibrate::{CalibrateError, Options, calibrate};
use wharf_lab::config::load_costs;
use wharf_runtime::Op;

#[test]
fn every_operation_is_timed_and_the_table_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options {
        quick: true,
        directory: folder.path().to_owned(),
    };
    let processors = std::thread::available_parallelism().unwrap().get();
    let calibration = match calibrate(&options, |_| ()) {
        Err(CalibrateError::OneProcessor) => return assert_eq!(processors, 1),
        Err(CalibrateError::TooBusy) => return println!("two threads hardly ever ran at once"),
        Err(CalibrateError::NoDirect) => return println!("no uncached reads in {folder:?}"),
        other => other.unwrap(),
    };
    // As a file, since a table on a busy machine has holes, which those of `default` fill.
    let kept = tempfile::tempdir().unwrap();
    let path = kept.path().join("here.toml");
    std::fs::write(&path, calibration.to_toml("here", "2026-01-02", "abc")).unwrap();
    let (table, _) = load_costs(path.to_str().unwrap()).unwrap();
    assert_eq!((&*table.name, &*table.date), ("here", "2026-01-02"));
    let cost_ns = |op: Op| table.cost_ns[op.key()];
    for op in Op::ALL {
        assert_eq!(calibration.costs.ops[op].how.lines().count(), 1, "{op:?}");
        assert!(cost_ns(*op) < 1e6, "{op:?} takes {} ns", cost_ns(*op));
    }
    // What cannot be otherwise on any machine.
    assert!(cost_ns(Op::LineTransfer) > cost_ns(Op::LineLocal));
    assert!(cost_ns(Op::CopyPage) > 10.0 && cost_ns(Op::ClientRequest) > 1.0);
    let path = |name| calibration.costs.find_path(name).unwrap().ns;
    assert!(path("pread_miss") > path("pread_hit") && path("pread_hit") > path("null_system_call"));
    let call = &calibration.costs.ops[&Op::SystemCall].sample;
    assert!(call.ns >= path("null_system_call"));
    assert_eq!(
        std::fs::read_dir(folder.path()).unwrap().count(),
        0,
        "nothing is left behind"
    );
}

#[test]
fn a_folder_that_cannot_be_used_is_named() {
    let options = Options {
        quick: true,
        directory: "/proc/no/such".into(),
    };
    // Found before anything is timed.
    let line = calibrate(&options, |step| panic!("timed {step}"))
        .unwrap_err()
        .to_string();
    assert!(
        line.contains("/proc/no/such") && line.contains("--dir"),
        "{line}"
    );
}
