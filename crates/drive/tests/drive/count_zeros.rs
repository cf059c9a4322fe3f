//! A feature that a drive is given from outside: a command that counts the pages of a range that hold nothing
//! but zeros, so that the host need not read them. `docs/new-drive-feature.md` explains it line by line.

use std::any::Any;
use std::cell::Cell;

use wharf_drive::DriveConfig;
use wharf_drive::controller::{Controller, Feature, Handler, IoCommand};
use wharf_drive::core::{Core, Outcome, Serve, Share, Step, Waiting};
use wharf_wire::command::Command;
use wharf_wire::status::StatusCode;

use crate::support::configs::{tiny, tiny_pair, tiny_timed};
use crate::support::host::{Host, code};
use crate::support::rig::Rig;

/// The first vendor opcode that moves no data and that no other feature has.
const COUNT_ZEROS: u8 = 0x84;

/// Pages between which other work has a turn.
const STEP: u32 = 16;

/// The feature.
struct Zeros;

impl Feature for Zeros {
    fn is_on(&self, _: &DriveConfig) -> bool {
        true
    }

    fn commands(&self) -> Vec<(u8, &'static dyn IoCommand)> {
        vec![(COUNT_ZEROS, &CountZeros)]
    }

    fn on_core(&self) -> Option<Box<dyn Any>> {
        Some(Box::new(Looked::default()))
    }
}

/// What the feature keeps on each core: pages that it has looked at.
#[derive(Default)]
struct Looked(Cell<u64>);

/// The command: first page and number of pages as in a read, the count as its result.
struct CountZeros;

impl IoCommand for CountZeros {
    fn start(
        &'static self,
        controller: &mut Controller,
        qid: u16,
        command: Command,
    ) -> Result<(), StatusCode> {
        command.check_lba_range(controller.namespace_pages())?;
        let range = (command.slba(), command.pages());
        controller.start_ranges(self, qid, command, std::iter::once(range));
        Ok(())
    }
}

impl Serve for CountZeros {
    fn serve(&self, _: &Core, _: u32) -> Step {
        Step::Waits
    }

    fn wait<'a>(&'a self, core: &'a Core, job: u32) -> Waiting<'a> {
        Box::pin(count(core, core.job(job).share.get()))
    }
}

impl Handler for CountZeros {}

async fn count(core: &Core, share: Share) -> Outcome {
    let mut page = vec![0; core.dma().page_bytes()];
    let mut zeros = 0;
    for index in 0..share.count {
        core.read_page(share.first + index, &mut page).await?;
        zeros += u64::from(page.iter().all(|byte| *byte == 0));
        if index % STEP == STEP - 1 {
            core.cpu.yield_now().await;
        }
    }
    let looked = core.state::<Looked>();
    looked.0.set(looked.0.get() + u64::from(share.count));
    core.slots.borrow_mut().get_mut(share.slot).result += zeros;
    Ok(())
}

async fn count_of(host: &mut Host, first: u64, pages: u32) -> Result<u64, StatusCode> {
    let mut command = Command::verify(1, first, pages);
    command.opcode = COUNT_ZEROS;
    host.send(0, command);
    let found = host.next(0).await;
    match code(&found) {
        StatusCode::Success => Ok(found.wide_result()),
        failure => Err(failure),
    }
}

#[test]
fn zeros_are_counted_over_all_cores_beside_writes() {
    for config in [tiny(), tiny_timed(), tiny_pair()] {
        let mut rig = Rig::new(config);
        rig.give_feature(&Zeros);
        let pages = rig.config().namespace_pages();
        rig.run(move |mut host| async move {
            assert_eq!(count_of(&mut host, 0, pages as u32).await, Ok(pages));
            for lba in [0, 3, 9] {
                assert_eq!(host.write(lba, 1, 7).await, StatusCode::Success);
            }
            assert_eq!(count_of(&mut host, 0, 10).await, Ok(7));
            assert_eq!(count_of(&mut host, 3, 1).await, Ok(0));
            assert_eq!(host.write(3, 1, 0).await, StatusCode::Success);
            assert_eq!(count_of(&mut host, 3, 1).await, Ok(1));
            let beyond = count_of(&mut host, pages, 1).await;
            assert_eq!(beyond, Err(StatusCode::LbaOutOfRange));
        });
    }
}

#[test]
fn a_drive_without_the_feature_has_no_such_command() {
    let mut rig = Rig::new(tiny());
    rig.run(|mut host| async move {
        let refused = count_of(&mut host, 0, 1).await;
        assert_eq!(refused, Err(StatusCode::InvalidOpcode));
    });
}

/// Every block of code in the document is here, word for word.
#[test]
fn the_document_quotes_this_file() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let read = |path: &str| std::fs::read_to_string(format!("{root}/{path}")).expect(path);
    let document = read("docs/new-drive-feature.md");
    let source = read("crates/drive/tests/drive/count_zeros.rs");
    let blocks: Vec<&str> = document.split("```rust\n").skip(1).collect();
    assert!(blocks.len() >= 4, "it has code");
    for block in blocks {
        let block = block.split("```").next().expect("a block ends");
        assert!(source.contains(block), "not in the source:\n{block}");
    }
}
