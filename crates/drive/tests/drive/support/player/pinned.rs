//! Pins, and pages used in place: what a player does with memory that it lends.

use wharf_wire::command::Command;
use wharf_wire::pin::{Access, Unpin, split_address};

use super::{Flight, Player};
use crate::support::ops::Op;

/// Whole pages before those for the lists of pins.
const PIN_LISTS: usize = 20;

/// The pages that a mask names.
fn masked(lba: u64, mask: u32) -> Vec<u64> {
    (0..32)
        .filter(|bit| mask >> bit & 1 == 1)
        .map(|bit| lba + bit)
        .collect()
}

impl Player {
    /// Lends what the world says, at the start of a run.
    pub(super) async fn lend(&mut self) {
        let sizes = self.world().to_lend.clone();
        if !sizes.is_empty() && self.host.admin.is_some() {
            let lending = self.host.lend(&sizes).await;
            self.world().lending = Some(lending);
        }
    }

    /// The command of a pin, which takes along what is no longer used.
    pub(super) fn pin_command(&mut self, op: &Op, slot: usize) -> Command {
        let Op::Pin {
            lba,
            mask,
            access,
            may_wait,
            ..
        } = *op
        else {
            unreachable!("no pin: {op:?}")
        };
        let (wanted, list) = (masked(lba, mask), PIN_LISTS + slot);
        let unpins = std::mem::take(&mut self.to_unpin);
        let command = match (&wanted[..], &unpins[..]) {
            ([page], []) => Command::pin(1, *page, access),
            ([page], [unpin]) => Command::pin(1, *page, access).with_unpin(*unpin),
            _ => {
                self.host.fill_list(list, lba, &wanted, &unpins);
                let pages = u32::BITS - mask.leading_zeros();
                let command = Command::pin_window(1, lba, pages, access);
                self.host
                    .listed(command.with_unpin_list(unpins.len() as u32), list)
            }
        };
        match may_wait {
            true => command,
            false => command.without_waiting(),
        }
    }

    /// Gives back what is no longer used, in a command of its own.
    pub(super) fn unpin_rest(&mut self) {
        let Some(slot) = (!self.to_unpin.is_empty())
            .then(|| self.slots.pop())
            .flatten()
        else {
            return;
        };
        let unpins = std::mem::take(&mut self.to_unpin);
        let list = PIN_LISTS + slot;
        self.host.fill_list(list, 0, &[], &unpins);
        let command = match &unpins[..] {
            [unpin] => Command::unpin(1, *unpin),
            _ => self
                .host
                .listed(Command::unpin_list(1, unpins.len() as u32), list),
        };
        let begun = self.world().model.tick();
        let cid = self.host.send(0, command);
        self.flights.push(Flight {
            cid,
            op: Op::Drain,
            slot,
            begun,
            changes: Vec::new(),
            has_list: command.has_list(),
            result: 0,
        });
    }

    /// Reads or writes pages that were pinned, in place.
    pub(super) async fn use_pinned(&mut self, flight: &Flight) {
        let Op::Pin {
            lba,
            mask,
            access,
            write_ns,
            ..
        } = flight.op
        else {
            return;
        };
        let wanted = masked(lba, mask);
        let addresses = match &wanted[..] {
            [_] if !flight.has_list => vec![flight.single()],
            _ => self.host.addresses(PIN_LISTS + flight.slot, wanted.len()),
        };
        for (page, address) in wanted.into_iter().zip(addresses) {
            let Some(address) = address else {
                continue;
            };
            let is_written = match access {
                Access::Read => {
                    self.read_in_place(page, address);
                    false
                }
                _ => self.write_in_place(page, address, write_ns).await,
            };
            self.to_unpin.push(Unpin {
                lba: page,
                is_dirty: page % 2 == 0 && is_written,
            });
        }
    }

    fn read_in_place(&self, page: u64, address: u64) {
        let mut world = self.world();
        let lending = world.lending.as_ref().expect("it was hmb");
        if lending.is_locked(address) {
            return;
        }
        let value = lending.value(address);
        // A page that another pin is going to overwrite shows zeros until then.
        if value != 0 {
            let begun = world.model.tick();
            let checked = world.model.check_read(page, begun, value);
            checked.unwrap_or_else(|wrong| panic!("in place: {wrong}"));
        }
    }

    /// False if the other client is writing the page.
    async fn write_in_place(&self, page: u64, address: u64, write_ns: u64) -> bool {
        let (value, change) = {
            let mut world = self.world();
            let lending = world.lending.as_ref().expect("it was hmb");
            if !lending.try_begin(address) {
                return false;
            }
            let value = world.new_value(page);
            let change = world.model.begin(page, value);
            world
                .lending
                .as_ref()
                .expect("it was hmb")
                .write_half(address, value);
            (value, change)
        };
        if write_ns > 0 {
            self.host
                .cpu
                .sleep_until(self.host.cpu.now() + write_ns)
                .await;
        }
        let mut world = self.world();
        world
            .lending
            .as_ref()
            .expect("it was hmb")
            .end(address, value);
        world.model.end_in_place(change);
        true
    }
}

impl Flight {
    /// The address that a pin without a list got.
    fn single(&self) -> Option<u64> {
        let (address, _) = split_address(self.result);
        (address & 0xfff == 0).then_some(address)
    }
}
