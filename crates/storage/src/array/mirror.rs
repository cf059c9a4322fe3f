//! RAID-10, and RAID-0: a pair of mirrors, or one member, for each chunk.
//!
//! A write locks its window, marks it in the write-intent map, and goes to both mirrors; one that fails it is left
//! out. A read takes the mirror with less to do, and the other if that fails. RAID-0 has no other.

use std::rc::Rc;

use rustix::io::Errno;

use crate::array::member_channels::{MemberChannels, failures};
use crate::io::{IoError, Op, Segment};

/// Reads a piece of one chunk of a pair.
pub(super) async fn read(
    member_channels: Rc<MemberChannels>,
    window: u64,
    k: u32,
    begin: u64,
    segments: Vec<Segment>,
) -> Result<(), IoError> {
    let first = member_channels.shared.shape.data_member(window, k);
    let mut pair = [first, first + 1];
    // Equal loads take turns by place, so that a long read keeps to one of them.
    pair.sort_by_key(|m| (member_channels.load(*m), (u64::from(*m) ^ (window / 8)) & 1));
    let Err(error) = member_channels
        .read(pair[0], window, begin, &segments)
        .await
    else {
        return Ok(());
    };
    let other = member_channels
        .read(pair[1], window, begin, &segments)
        .await;
    // One that is not there says nothing of what went wrong.
    other.map_err(|other| match other.errno {
        Errno::NODEV => error,
        _ => other,
    })
}

/// Writes a piece within one window to a pair.
pub(super) async fn write(
    member_channels: Rc<MemberChannels>,
    window: u64,
    k: u32,
    begin: u64,
    segments: Vec<Segment>,
) -> Result<(), IoError> {
    let shape = member_channels.shared.shape;
    let _guard = member_channels.lock(window).await;
    member_channels.shared.check_intact(Op::Write)?;
    member_channels.shared.intend(window)?;
    let first = shape.data_member(window, k);
    let offset = shape.window_offset(window) + begin;
    let mut tickets = Vec::new();
    for member in [first, first + 1] {
        if member_channels.shared.usable(member, window) {
            let ticket = member_channels.start(member, Op::Write, offset, segments.clone());
            tickets.push((member, ticket));
        }
    }
    for (member, error) in failures(tickets).await {
        member_channels.shared.fail(member, error)?;
    }
    Ok(())
}

/// Reads or writes a piece of one chunk of RAID-0.
pub(super) async fn single(
    member_channels: Rc<MemberChannels>,
    op: Op,
    member: u32,
    offset: u64,
    segments: Vec<Segment>,
) -> Result<(), IoError> {
    member_channels.start(member, op, offset, segments).await
}

/// Makes what all members hold durable.
pub(super) async fn flush(member_channels: Rc<MemberChannels>) -> Result<(), IoError> {
    let shared = member_channels.shared.clone();
    shared.check_intact(Op::Flush)?;
    let there = |m: &u32| shared.state(*m) != crate::array::MemberState::Failed;
    let members = (0..shared.shape.members).filter(there);
    let tickets = members.map(|m| (m, member_channels.start(m, Op::Flush, 0, Vec::new())));
    let tickets = tickets.collect();
    for (member, error) in failures(tickets).await {
        shared.fail(member, error)?;
    }
    // Where another flush or write broke the array meanwhile, this one may have been told less than all.
    shared.check_intact(Op::Flush)
}
