//! Space: what is allocated, how full the drive is and how the host learns of it, and a drive that is full.

use wharf_drive::config::DriveConfig;
use wharf_wire::command::Command;
use wharf_wire::completion::Completion;
use wharf_wire::events::Event;
use wharf_wire::features::FeatureId;
use wharf_wire::lba_status::{RUNS_PER_PAGE, read_answer};
use wharf_wire::log_page::LogPage;
use wharf_wire::space::{SpaceLevel, SpacePage, SpaceThresholds};
use wharf_wire::status::StatusCode;

use crate::support::configs::{tiny, tiny_pair, tiny_timed};
use crate::support::host::{Host, code};
use crate::support::rig::Rig;

use StatusCode::{CapacityExceeded, Success};

/// Two cores that show a terabyte and hold a few dozen pages.
fn sparse() -> DriveConfig {
    let mut config = tiny_pair();
    config.ftl.volatile_write_cache = true;
    config.ftl.shown_bytes = 1 << 40;
    config
}

/// All runs of the drive, asked for `bytes` bytes at a time.
async fn allocated(host: &mut Host, first: u64, bytes: u32, by_admin: bool) -> Vec<(u64, u32)> {
    let (mut all, mut page) = (Vec::<(u64, u32)>::new(), first);
    loop {
        let to = host.whole.address(0);
        let status = match by_admin {
            true => {
                let command = Command::get_lba_status(1, page, 0, bytes).with_prp(to, 0);
                host.admin_status(command).await
            }
            false => {
                let command = Command::get_lba_status_by_io(1, page, 0, bytes).with_prp(to, 0);
                host.io(command).await
            }
        };
        assert_eq!(status, Success);
        let (runs, is_whole) = read_answer(host.whole_page(0)).expect("an answer");
        assert!(is_whole || !runs.is_empty(), "no progress");
        for run in runs {
            assert!(run.dslba >= page && run.nlb > 0);
            page = run.dslba + u64::from(run.nlb);
            match all.last_mut() {
                Some((at, count)) if *at + u64::from(*count) == run.dslba => *count += run.nlb,
                _ => all.push((run.dslba, run.nlb)),
            }
        }
        if is_whole {
            return all;
        }
    }
}

async fn space(host: &mut Host) -> SpacePage {
    host.log(LogPage::Space).await
}

#[test]
fn a_terabyte_is_shown_and_its_few_pages_are_found() {
    let mut rig = Rig::new(sparse());
    let far = (1 << 28) - 7;
    let runs = rig.run(move |mut host| async move {
        for lba in [3, 4, 5, 9, 1 << 20, far] {
            assert_eq!(host.write(lba, 1, 100 + lba).await, Success, "{lba}");
        }
        assert_eq!(host.io(Command::write_zeroes(1, 6, 3)).await, Success);
        let discard = Command::write_zeroes(1, 4, 1).with_deallocate();
        assert_eq!(host.io(discard).await, Success);
        assert_eq!(host.io(Command::flush(1)).await, Success);
        let page = space(&mut host).await;
        assert_eq!(page.used, 5 * 64);
        assert_eq!((page.allocated_pages, page.granule_bytes), (8, 64));
        assert!(page.map_bytes < 1 << 20, "{}", page.map_bytes);
        let whole = allocated(&mut host, 0, 4096, true).await;
        assert_eq!(whole, allocated(&mut host, 0, 24, false).await);
        assert_eq!(allocated(&mut host, 7, 40, false).await[0], (7, 3));
        whole
    });
    assert_eq!(runs, [(3, 1), (5, 5), (1 << 20, 1), (far, 1)]);
    rig.run(move |mut host| async move {
        assert_eq!(allocated(&mut host, 0, 4096, false).await, runs);
        assert_eq!(host.read(far).await, Ok(100 + far));
        assert_eq!(host.read(4).await, Ok(0));
    });
    rig.inspect(|_, _| {});
}

#[test]
fn an_answer_of_many_runs_comes_in_pages() {
    let mut config = tiny_pair();
    config.geometry.blocks_per_plane = 600;
    let pages = config.namespace_pages();
    Rig::new(config).run(move |mut host| async move {
        let runs = pages / 2;
        assert!(runs > 2 * RUNS_PER_PAGE as u64);
        for lba in (0..pages).step_by(2) {
            assert_eq!(host.io(Command::write_zeroes(1, lba, 1)).await, Success);
        }
        let found = allocated(&mut host, 0, 4096, true).await;
        assert!(found.iter().copied().eq((0..runs).map(|n| (2 * n, 1))));
    });
}

/// A question for all to the end of a full drive looked at all of it for a run that the host asked a
/// part of: whoever asked part by part waited longer and longer.
#[test]
fn a_question_about_a_full_drive_looked_at_all_of_it() {
    let mut config = tiny_pair();
    config.geometry.blocks_per_plane = 24_000;
    let pages = config.namespace_pages();
    Rig::new(config).run(move |mut host| async move {
        for lba in (0..pages).step_by(256) {
            let count = (pages - lba).min(256) as u32;
            assert_eq!(host.io(Command::write_zeroes(1, lba, count)).await, Success);
        }
        let to = host.whole.address(0);
        let asked = Command::get_lba_status_by_io(1, 5, 0, 4096).with_prp(to, 0);
        assert_eq!(host.io(asked).await, Success);
        let (runs, is_whole) = read_answer(host.whole_page(0)).expect("an answer");
        let found: Vec<_> = runs.iter().map(|run| (run.dslba, run.nlb)).collect();
        assert!(
            !is_whole && found.len() == 1 && found[0].0 == 5,
            "{found:?}"
        );
        let looked = u64::from(found[0].1);
        assert!(
            (pages / 100..pages / 2).contains(&looked),
            "{looked} of {pages}"
        );
        assert_eq!(
            allocated(&mut host, 5, 4096, false).await,
            [(5, pages as u32 - 5)]
        );
    });
}

#[test]
fn a_question_that_cannot_be_answered_is_refused() {
    use StatusCode::{DataTransferError, InvalidField, InvalidNamespace, LbaOutOfRange};
    let pages = tiny().namespace_pages();
    Rig::new(tiny()).run(move |mut host| async move {
        let to = host.whole.address(0);
        let ask =
            |lba, count, bytes| Command::get_lba_status_by_io(1, lba, count, bytes).with_prp(to, 0);
        assert_eq!(host.io(ask(pages, 0, 4096)).await, LbaOutOfRange);
        assert_eq!(host.io(ask(pages - 1, 2, 4096)).await, LbaOutOfRange);
        assert_eq!(host.io(ask(0, 0, 20)).await, InvalidField);
        assert_eq!(host.io(ask(0, 0, (1 << 20) + 4)).await, InvalidField);
        let mut other = ask(0, 0, 4096);
        other.cdw13 = 0x10 << 24;
        assert_eq!(host.io(other).await, InvalidField);
        let nowhere = ask(0, 0, 4096).with_prp(1 << 60, 0);
        assert_eq!(host.io(nowhere).await, DataTransferError);
        let mut admin = Command::get_lba_status(2, 0, 0, 4096).with_prp(to, 0);
        assert_eq!(host.admin_status(admin).await, InvalidNamespace);
        admin.nsid = 1;
        assert_eq!(host.admin_status(admin).await, Success);
    });
}

/// Sends an I/O command and gives its completion.
async fn complete(host: &mut Host, command: Command) -> Completion {
    host.send(0, command);
    host.next(0).await
}

#[test]
fn completions_carry_the_level_when_the_host_has_asked_for_it() {
    Rig::new(sparse()).run(|mut host| async move {
        let capacity = space(&mut host).await.capacity / 64;
        let write = |host: &Host, lba| host.aim(Command::write(1, lba, 1), 1, 0, 0);
        let mut levels = Vec::new();
        for lba in 0..capacity {
            if lba == 2 {
                let thresholds = SpaceThresholds {
                    yellow_percent: 50,
                    red_percent: 90,
                    in_completions: true,
                    as_events: false,
                };
                let set = Command::set_feature(FeatureId::SpaceThresholds, thresholds.to_value());
                assert_eq!(host.admin_status(set).await, Success);
            }
            host.fill(0, 5);
            let command = write(&host, lba);
            let found = complete(&mut host, command).await;
            assert_eq!(code(&found), Success);
            levels.push(found.space_level());
        }
        assert!(levels.is_sorted(), "{levels:?}");
        assert_eq!(levels[1], SpaceLevel::Green);
        assert!(levels.contains(&SpaceLevel::Yellow) && levels.contains(&SpaceLevel::Red));
        assert_eq!(*levels.last().unwrap(), SpaceLevel::Full);
        assert_eq!(space(&mut host).await.space_level(), SpaceLevel::Full);
        // A page more does not fit; one that is there can be written anew, and one given up makes room.
        let command = write(&host, 1 << 27);
        assert_eq!(code(&complete(&mut host, command).await), CapacityExceeded);
        assert_eq!(host.read(1 << 27).await, Ok(0));
        assert_eq!(host.write(0, 1, 8).await, Success);
        // Of both cores.
        assert_eq!(host.deallocate(&[(0, 16)]).await, Success);
        let command = write(&host, 17);
        assert!(complete(&mut host, command).await.space_level() < SpaceLevel::Full);
    });
}

/// Sends an async event request, and does not wait.
fn request(host: &mut Host, cid: u16) {
    let queue = host.admin.as_mut().expect("the admin queue");
    queue
        .submit(&host.cpu, Command::async_event_request().with_cid(cid))
        .expect("room");
    queue.ring_doorbell(&host.cpu);
}

/// What the admin queue has, if anything has come after a while.
async fn told(host: &mut Host) -> Option<Completion> {
    let cpu = host.cpu.clone();
    cpu.sleep_until(cpu.now() + 100_000).await;
    host.admin.as_mut().expect("the admin queue").poll(&cpu)
}

#[test]
fn a_change_of_level_is_an_event_once_until_the_page_is_read() {
    Rig::new(sparse()).run(|mut host| async move {
        let capacity = space(&mut host).await.capacity / 64;
        let thresholds = SpaceThresholds {
            yellow_percent: 50,
            red_percent: 0,
            in_completions: false,
            as_events: true,
        };
        let set = Command::set_feature(FeatureId::SpaceThresholds, thresholds.to_value());
        assert_eq!(host.admin_status(set).await, Success);
        request(&mut host, 9001);
        request(&mut host, 9002);
        assert!(told(&mut host).await.is_none());
        for lba in 0..capacity {
            assert_eq!(host.write(lba, 1, 5).await, Success);
        }
        let first = told(&mut host).await.expect("an event");
        assert_eq!(
            (first.cid, Event::from_result(first.dw0)),
            (9001, Some(Event::Space(SpaceLevel::Yellow)))
        );
        // It is full by now, but the page was not read.
        assert!(told(&mut host).await.is_none());
        request(&mut host, 9003);
        assert!(told(&mut host).await.is_none());
        let read = Command::get_log_page(LogPage::Space, 0, 128).with_prp(host.whole.address(0), 0);
        host.admin
            .as_mut()
            .unwrap()
            .submit(&host.cpu, read.with_cid(77))
            .expect("room");
        let cpu = host.cpu.clone();
        host.admin.as_mut().unwrap().ring_doorbell(&cpu);
        let mut seen = [
            told(&mut host).await.unwrap(),
            told(&mut host).await.unwrap(),
        ];
        seen.sort_by_key(|completion| completion.cid);
        assert_eq!((seen[0].cid, seen[1].cid), (77, 9002));
        assert_eq!(
            Event::from_result(seen[1].dw0),
            Some(Event::Space(SpaceLevel::Full))
        );
        // One request waits; the drive holds three more, and no fifth.
        for cid in 9004..=9006 {
            request(&mut host, cid);
        }
        assert!(told(&mut host).await.is_none());
        request(&mut host, 9007);
        let refused = told(&mut host).await.expect("an answer");
        assert_eq!(
            (refused.cid, code(&refused)),
            (9007, StatusCode::AsyncEventLimitExceeded)
        );
        request(&mut host, 9003);
        let refused = told(&mut host).await.expect("an answer");
        assert_eq!(code(&refused), StatusCode::CommandIdConflict);
    });
}

/// Fills the drive until it refuses, in several ways at once; then everything that must go on at full does.
fn at_full(config: DriveConfig) {
    let pages = config.namespace_pages();
    let metadata = config.ftl.metadata_bytes / 4096;
    let mut rig = Rig::new(config);
    rig.run(move |mut host| async move {
        let (mut written, mut refused) = (Vec::new(), 0);
        for lba in (0..pages - metadata).rev() {
            match host.write(lba, 1, 1000 + lba).await {
                Success => written.push(lba),
                status => {
                    assert_eq!(status, CapacityExceeded, "{lba}");
                    refused += 1;
                    if refused > 20 {
                        break;
                    }
                }
            }
        }
        assert!(refused > 0 && written.len() > 8, "{written:?}");
        // Flush, reads, overwrites for much longer than the flash has erased pages: collection goes on.
        assert_eq!(host.io(Command::flush(1)).await, Success);
        for round in 0..6 {
            for lba in &written {
                assert_eq!(
                    host.write(*lba, 1, 1000 + lba + round).await,
                    Success,
                    "{round}"
                );
            }
        }
        assert_eq!(host.read(written[0]).await, Ok(1000 + written[0] + 5));
        // Zeros take no space.
        assert_eq!(host.io(Command::write_zeroes(1, 0, 4)).await, Success);
        // Metadata have a reserve; at its end they are refused too, and rewritten all the same.
        let mut reserve = 0;
        for lba in pages - metadata..pages {
            match host.write(lba, 1, 7).await {
                Success => reserve += 1,
                status => assert_eq!(status, CapacityExceeded),
            }
        }
        assert_eq!(reserve > 0, metadata > 0, "{reserve}");
        // Giving up pages makes room for others.
        assert_eq!(host.write(4, 1, 9).await, CapacityExceeded);
        for lba in written.drain(1..) {
            assert_eq!(host.deallocate(&[(lba, 1)]).await, Success);
        }
        assert_eq!(host.write(4, 1, 9).await, Success);
        assert_eq!(host.io(Command::flush(1)).await, Success);
    });
    rig.inspect(|_, _| {});
}

#[test]
fn at_full_everything_but_growing_goes_on() {
    for base in [tiny(), tiny_timed(), tiny_pair()] {
        for cached in [false, true] {
            for checkpoint_pages in [0, 9] {
                let mut config = base.clone();
                config.ftl.volatile_write_cache = cached;
                config.ftl.checkpoint_pages = checkpoint_pages;
                config.ftl.shown_bytes = config.namespace_pages() * 4096 * 3;
                at_full(config.clone());
                config.ftl.metadata_bytes = 16 * 4096;
                config.ftl.metadata_reserve_share = 0.1;
                at_full(config);
            }
        }
    }
}

/// One deallocation of all of a namespace of 2 TiB, as mkfs makes it: other commands go on meanwhile.
#[test]
fn a_deallocation_of_everything_does_not_hold_up_others() {
    let mut config = tiny_pair();
    config.geometry.blocks_per_plane = 3000;
    config.ftl.shown_bytes = 2 << 40;
    Rig::new(config).run(|mut host| async move {
        let pages = 1u64 << 29;
        for number in 0..9_000 {
            let lba = number * (pages / 9_000) + number % 64;
            assert_eq!(host.write(lba, 1, 5).await, Success, "{number}");
        }
        let trim = host.deallocate_command(&[(0, pages as u32)], 1);
        let trimmed = host.send(0, trim);
        let mut reads = 0;
        loop {
            let read = host.aim(Command::read(1, 77, 1), 1, 0, 0);
            let read = host.send(0, read);
            let mut ended = false;
            loop {
                let found = host.next(0).await;
                assert_eq!(code(&found), Success);
                ended |= found.cid == trimmed;
                if found.cid == read {
                    break;
                }
            }
            if ended {
                break;
            }
            reads += 1;
        }
        assert!(reads >= 3, "{reads} reads ended while the deallocation ran");
        let page = space(&mut host).await;
        assert_eq!((page.used, page.allocated_pages), (0, 0));
        assert!(page.garbage > 0);
    });
}

/// Pages that the host writes with zeros take no flash, and are there after a cut if they are durable.
#[test]
fn written_zeros_take_no_flash_and_stay_allocated() {
    for cached in [false, true] {
        let mut config = sparse();
        config.ftl.elide_zeros = true;
        config.ftl.volatile_write_cache = cached;
        let mut rig = Rig::new(config);
        rig.run(move |mut host| async move {
            assert_eq!(host.write(10, 3, 70).await, Success);
            for page in 0..4 {
                host.fill(page, 0);
            }
            let write = host.aim(Command::write(1, 11, 4), 4, 0, 0);
            let write = if cached { write.with_fua() } else { write };
            assert_eq!(host.io(write).await, Success);
            let page = space(&mut host).await;
            assert_eq!((page.used, page.allocated_pages), (64, 5));
        });
        // The end of the run was a power cut.
        rig.run(move |mut host| async move {
            assert_eq!(host.read(11).await, Ok(0));
            let runs = allocated(&mut host, 0, 4096, true).await;
            let zeros = (11u64..15).all(|page| {
                runs.iter()
                    .any(|(at, n)| (*at..*at + u64::from(*n)).contains(&page))
            });
            assert!(zeros, "{runs:?}");
        });
    }
}
