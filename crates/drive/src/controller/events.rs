//! What the host is told of space without asking: levels in completions, and events.
//!
//! The level is that of the fullest core, by the thresholds that the host has set. It is looked at where
//! a command is completed, and only if the host has asked for either.

use wharf_wire::command::Command;
use wharf_wire::events::Event;
use wharf_wire::space::{SpaceLevel, SpacePage, SpaceThresholds};
use wharf_wire::status::{Status, StatusCode};

use super::state::Controller;
use crate::ftl::GRANULE_BYTES;

/// Async event requests that the controller holds.
pub(super) const REQUESTS_MAX: usize = 4;

impl Controller {
    /// Holds a request until there is an event.
    pub(super) fn async_event_request(&mut self, command: Command) -> Result<(), StatusCode> {
        if self.events.requests.len() == REQUESTS_MAX {
            return Err(StatusCode::AsyncEventLimitExceeded);
        }
        self.events.requests.push_back(command);
        self.tell_events();
        Ok(())
    }

    /// Sets when space counts as low, and how the host is told. A green level is nothing to tell at first.
    pub(super) fn set_space_thresholds(&mut self, thresholds: SpaceThresholds) {
        self.events.thresholds = thresholds;
        (self.events.told, self.events.is_masked) = (Some(SpaceLevel::Green), false);
        self.tell_events();
    }

    /// The host has read the log page: it may be told again.
    pub(super) fn unmask_events(&mut self) {
        self.events.is_masked = false;
        self.tell_events();
    }

    /// The level of the fullest core.
    pub(super) fn space_level(&self) -> SpaceLevel {
        let SpaceThresholds {
            yellow_percent,
            red_percent,
            ..
        } = self.events.thresholds;
        // A disk has a place for every sector that it shows.
        let levels = self.cores().filter_map(|core| {
            let used = core.with_flash(|ftl| ftl.used_granules())?;
            Some(self.plan.level_of(used, yellow_percent, red_percent))
        });
        levels.max().unwrap_or(SpaceLevel::Green)
    }

    /// Completes a request if the level has changed since the host was told.
    #[inline]
    pub(super) fn tell_events(&mut self) {
        if self.events.thresholds.as_events && !self.events.requests.is_empty() {
            self.tell_level();
        }
    }

    fn tell_level(&mut self) {
        let level = self.space_level();
        if self.events.is_masked || self.events.told == Some(level) {
            return;
        }
        (self.events.told, self.events.is_masked) = (Some(level), true);
        let request = self.events.requests.pop_front().expect("there is one");
        let result = Event::Space(level).to_result();
        self.finish(0, &request, Status::SUCCESS, result.into(), 0);
    }

    /// The log page of space. A disk counts none.
    pub(super) fn space_page(&self) -> SpacePage {
        let mut page = SpacePage::new(GRANULE_BYTES);
        page.level = self.space_level().raw();
        page.yellow_percent = self.events.thresholds.yellow_percent;
        page.red_percent = self.events.thresholds.red_percent;
        for core in self.cores() {
            let of_flash = core.with_flash(|ftl| (ftl.space(), ftl.mapped(), ftl.map_bytes()));
            let Some((space, mapped, map_bytes)) = of_flash else {
                continue;
            };
            page.capacity += space.capacity;
            page.used += space.used;
            page.metadata_reserve += space.reserved;
            page.garbage += space.garbage;
            page.allocated_pages += u64::from(mapped);
            page.map_bytes += map_bytes;
        }
        page
    }
}
