//! Any bytes as what a host puts on the queues of a tiny drive, in virtual time: the drive never
//! panics and never hangs, every command on a living queue gets exactly one completion, pages that the
//! host has pinned stay where they are, and afterwards its flash is sound.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wharf_drive::ftl::Ftl;
use wharf_drive::{Drive, DriveConfig, PowerSwitch};
use wharf_fuzz::host::{Host, IDLE_POLLS_MAX};
use wharf_fuzz::input::Input;
use wharf_fuzz::lending::Lending;
use wharf_runtime::{CostTable, Machine, Seed, Side};
use wharf_wire::dma::DmaSpace;

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let config = wharf_fuzz::any_tiny(&mut input);
    let dma = DmaSpace::new(config.page_bytes());
    let mut machine = Machine::new(CostTable::free(), false);
    let drive = Drive::new(config.clone()).unwrap_or_else(|error| panic!("{error}"));
    let handle = drive.power_on(&mut machine, "drive", &dma, &PowerSwitch::on());
    let mut handle = handle.unwrap_or_else(|error| panic!("{error}"));
    let queues = wharf_fuzz::host::queues(&mut handle, &dma);
    let cpu = machine.add_cpu("host", Side::Host, 1.0);
    let (seed, bytes) = (Seed(input.number(1)), input.rest().to_vec());
    let config_of_host = config.clone();
    machine.spawn_main(cpu, "host", move |cpu| async move {
        let lending = Lending::new(&dma, &config_of_host);
        Host::new(cpu, dma, queues, Some(lending))
            .play(&mut Input::new(&bytes))
            .await;
    });
    let run = machine.run_virtual_bounded(seed, IDLE_POLLS_MAX);
    run.unwrap_or_else(|stall| panic!("the drive hangs: {stall}"));
    verify(&config, handle.power_off());
});

/// Opens the flash as the firmware does at power-on, and checks all of it.
fn verify(config: &DriveConfig, drive: Drive) {
    let plan = config.plan().expect("it was built");
    for media in drive.into_media() {
        let ftl = Ftl::open(config, plan.clone(), media, PowerSwitch::on());
        ftl.unwrap_or_else(|error| panic!("{error}")).verify();
    }
}
