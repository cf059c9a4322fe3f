fn main() {
    let f = std::env::args().nth(1).unwrap();
    let fmt = std::env::args().nth(2).map(|f| f.parse().unwrap());
    match wharf_workload::Workload::open(
        f.as_ref(),
        &wharf_workload::ReadOptions {
            format: fmt,
            ..Default::default()
        },
    )
    .and_then(|w| wharf_workload::WorkloadStat::of(w, true))
    {
        Ok(s) => println!("{s}"),
        Err(e) => println!("ERR {e}"),
    }
}
