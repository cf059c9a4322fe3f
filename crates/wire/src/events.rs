//! Asynchronous events: what a drive tells without being asked at the time.
//!
//! A host sends async event requests in advance; each is answered when something has happened. Dword 0 of
//! the completion says what, and which log page tells more. No further event of the kind comes until the
//! host has read that page.

use crate::bits::{bit_fields, wire_enum};
use crate::command::Command;
use crate::log_page::LogPage;
use crate::opcode::AdminOpcode;
use crate::space::SpaceLevel;

bit_fields! {
    /// Dword 0 of the completion of an async event request.
    mod event_fields {
        TYPE = 0 [2:0];
        INFO = 0 [15:8];
        LID = 0 [23:16];
    }
}

wire_enum! {
    /// Kinds of events.
    pub enum EventType: u8 {
        /// The level of space has changed: the information is the level, log page C2h tells more.
        Space = 7 => "space",
    }
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The level of space is now this.
    Space(SpaceLevel),
}

impl Event {
    /// The result of the completion that tells it.
    pub const fn to_result(self) -> u32 {
        let Event::Space(level) = self;
        let result = event_fields::TYPE.put(0, EventType::Space.raw() as u32);
        let result = event_fields::INFO.put(result, level.raw() as u32);
        event_fields::LID.put(result, LogPage::Space.raw() as u32)
    }

    /// Reads the result of a completion; `None` if it tells of something else.
    pub const fn from_result(result: u32) -> Option<Event> {
        let kind = EventType::from_raw(event_fields::TYPE.get(result) as u8);
        let level = SpaceLevel::from_raw(event_fields::INFO.get(result) as u8);
        match (kind, level) {
            (Some(EventType::Space), Some(level)) => Some(Event::Space(level)),
            _ => None,
        }
    }
}

impl Command {
    /// Asks to be told of an event.
    pub const fn async_event_request() -> Command {
        Command::blank(AdminOpcode::AsyncEventRequest.raw(), 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_comes_back_from_its_result() {
        for level in SpaceLevel::ALL {
            let event = Event::Space(*level);
            assert_eq!(Event::from_result(event.to_result()), Some(event));
        }
        assert_eq!(Event::Space(SpaceLevel::Red).to_result(), 0x00c2_0207);
        assert_eq!(Event::from_result(0), None);
        assert_eq!(Event::from_result(7 | 9 << 8), None);
    }
}
