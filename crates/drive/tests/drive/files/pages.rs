//! Cores that ask each other for pages: with one job each, from more file tasks than there are, beside collection and
//! flushes. None waits for ever, and pages are what was written.

use wharf_drive::PowerSwitch;
use wharf_drive::features::files::At;
use wharf_files::pages::{PAGE_BYTES, Pages, Run};
use wharf_runtime::{Rng, Seed};

use super::support::{Programs, command, config, new_rig, pages_of, run};
use crate::support::host::code;
use crate::support::rig::{Rig, Script};
use wharf_wire::status::StatusCode;

/// Pages that a task has to itself.
const OWN: u64 = 12;

/// Pages at the beginning that the file system was made in.
const FIRST: u64 = 300;

/// Writes, reads, discards and flushes the pages that task `nth` has.
async fn use_pages(at: At<'_>, nth: u64, mut rng: Rng, rounds: u32) {
    let fs = at.file_system().await.unwrap();
    let (pages, first) = (pages_of(&fs), FIRST + nth * OWN);
    let mut held = [0u8; OWN as usize];
    for round in 0..rounds {
        let from = rng.below(OWN);
        let run = Run::new(first + from, 1 + rng.below(OWN - from));
        let own = from as usize..(from + run.pages) as usize;
        let mut bytes = vec![0; run.pages as usize * PAGE_BYTES];
        match rng.below(8) {
            0 => pages.flush().await.unwrap(),
            1 => {
                pages.discard(&[run]).await.unwrap();
                held[own].fill(0);
            }
            2..5 => {
                let stamp = 1 + (round % 250) as u8;
                bytes.fill(stamp);
                pages.write(&[run], &bytes).await.unwrap();
                held[own].fill(stamp);
            }
            _ => {
                pages.read(&[run], &mut bytes).await.unwrap();
                for (page, stamp) in bytes.chunks(PAGE_BYTES).zip(&held[own]) {
                    assert!(page.iter().all(|byte| byte == stamp), "task {nth}, {round}");
                }
            }
        }
    }
}

/// Many tasks at a time, on all cores.
fn script(cores: u32, tasks: u64, rounds: u32) -> Script {
    Box::new(move |mut host| {
        Box::pin(async move {
            for nth in 0..tasks {
                let rng = Seed(7).child(&format!("task {nth}")).rng();
                let on = (nth % u64::from(cores)) as u32;
                let command = command(on, move |at| Box::pin(use_pages(at, nth, rng, rounds)));
                host.send(0, command);
            }
            for _ in 0..tasks {
                let found = host.next(0).await;
                assert_eq!(code(&found), StatusCode::Success);
            }
        })
    })
}

fn one_job_each(cores: u32) -> Rig {
    let mut config = config(cores, 1_600);
    config.firmware.parts_max = 1;
    config.firmware.commands_max = 128;
    config.ftl.write_buffer_pages = 16;
    config.memory.transfer_bytes = 256 << 10;
    let mut rig = new_rig(config);
    rig.depth = 100;
    rig
}

#[test]
fn cores_with_one_job_each_serve_more_tasks_than_there_are() {
    for cores in [1, 2, 4] {
        let mut rig = one_job_each(cores);
        let power = PowerSwitch::on();
        rig.give_feature(&Programs);
        rig.run_clients(&power, vec![script(cores, 80, 60)]);
        let erased: u32 = rig.erase_counts().into_iter().sum();
        assert!(erased > 40, "there was collection: {erased}");
    }
}

#[test]
fn the_power_goes_while_cores_ask_each_other() {
    for cut in [4_000, 4_700, 5_311] {
        let mut rig = one_job_each(2);
        let power = PowerSwitch::cut_after(cut);
        rig.give_feature(&Programs);
        rig.run_clients(&power, vec![script(2, 80, 60)]);
        assert!(power.is_cut());
        rig.inspect(|_, _| ());
        run(&mut rig, |mut host| async move {
            assert_eq!(host.flush().await, StatusCode::Success);
        });
    }
}
