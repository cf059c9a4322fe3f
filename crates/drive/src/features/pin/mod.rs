//! Pinning pages in frames of memory that the host lends the drive (ScalaCache, sections 5.1, 5.2 and 5.4).
//!
//! | file | idea |
//! |---|---|
//! | `host_memory.rs` | the host lends memory, or takes it back |
//! | `check.rs` | the commands pin and unpin, checked whole and divided |
//! | `request.rs` | what a pin or unpin asks of a core |
//! | `serve.rs` | a core's share: unpins, admission, addresses |
//! | `state.rs`, `wanted.rs` | what pins keep, and the pages that one wants |
//! | `fetch.rs` | missing pages are brought into frames |
//! | `line.rs` | pins that wait for frames |
//! | `guests.rs` | what hosts in other processes hold |
//!
//! What the commands of others do to pages in frames is the core's own matter (`core/cache.rs`).

mod check;
mod fetch;
mod guests;
mod host_memory;
mod line;
mod request;
mod serve;
mod state;
mod wanted;

use std::any::Any;

use wharf_wire::command::Command;
use wharf_wire::features::FeatureId;
use wharf_wire::identify::{DriveFeature, IdentifyController};
use wharf_wire::opcode::IoOpcode;
use wharf_wire::queue::Guest;
use wharf_wire::status::StatusCode;

use crate::config::DriveConfig;
use crate::controller::{Controller, Feature, IoCommand, SetOutcome};
use crate::core::NextWaiter;

/// See the [module](self).
pub struct Pin;

impl Feature for Pin {
    fn is_on(&self, config: &DriveConfig) -> bool {
        config.host_memory.enabled
    }

    fn commands(&self) -> Vec<(u8, &'static dyn IoCommand)> {
        vec![
            (IoOpcode::Pin.raw(), &check::PIN),
            (IoOpcode::Unpin.raw(), &check::UNPIN),
        ]
    }

    fn on_controller(&self) -> Option<Box<dyn Any>> {
        Some(Box::new(host_memory::HostMemory::default()))
    }

    fn on_core(&self) -> Option<Box<dyn Any>> {
        Some(Box::new(state::Pins::default()))
    }

    fn waiter(&self) -> Option<NextWaiter> {
        Some(line::next)
    }

    fn identify(&self, controller: &Controller, identify: &mut IdentifyController) {
        (identify.hmpre, identify.hmmin) = host_memory::sizes(controller);
        identify.drive.features = identify
            .drive
            .features
            .with(DriveFeature::Pin)
            .with(DriveFeature::GcState);
    }

    fn value(&self, controller: &Controller, feature: FeatureId) -> Option<u32> {
        let frames = || controller.state::<host_memory::HostMemory>().frames.get();
        (feature == FeatureId::HostMemory).then(frames)
    }

    fn set_value(&self, controller: &mut Controller, command: &Command) -> Option<SetOutcome> {
        let is_meant = command.feature() == Some(FeatureId::HostMemory);
        is_meant.then(|| host_memory::set(controller, *command))
    }

    fn check_format(&self, controller: &Controller) -> Result<(), StatusCode> {
        if controller
            .state::<host_memory::HostMemory>()
            .is_changing
            .get()
        {
            return Err(StatusCode::CommandSequenceError);
        }
        host_memory::check_nothing_pinned(controller)
    }

    fn queue_closes(&self, controller: &mut Controller, qid: u16, command: &Command) {
        line::give_up(controller, qid, command);
    }

    fn guest_leaves(&self, controller: &mut Controller, guest: Guest, command: &Command) -> bool {
        let may_hold = guest.frames_max > 0;
        if may_hold {
            controller.broadcast(&guests::RELEASE, 0, *command, guest.number.into());
        }
        may_hold
    }
}
