//! Commands that the fuzzing host makes of its input: as they come, likely ones, and the lists they name.

use wharf_wire::command::Command;
use wharf_wire::opcode::{AdminOpcode, IoOpcode};
use wharf_wire::prp::prp_for;

use super::{DATA_PAGES, DEPTH, Host, NOWHERE, WHOLE_PAGES, address_of};
use crate::input::Input;

const ADMIN_OPCODES: [AdminOpcode; 11] = [
    AdminOpcode::DeleteSubmissionQueue,
    AdminOpcode::CreateSubmissionQueue,
    AdminOpcode::DeleteCompletionQueue,
    AdminOpcode::CreateCompletionQueue,
    AdminOpcode::GetLogPage,
    AdminOpcode::Identify,
    AdminOpcode::SetFeatures,
    AdminOpcode::GetFeatures,
    AdminOpcode::FormatNvm,
    AdminOpcode::GetLbaStatus,
    AdminOpcode::AsyncEventRequest,
];

const IO_OPCODES: [IoOpcode; 9] = [
    IoOpcode::Write,
    IoOpcode::Write,
    IoOpcode::Read,
    IoOpcode::Flush,
    IoOpcode::WriteZeroes,
    IoOpcode::DatasetManagement,
    IoOpcode::DatasetManagement,
    IoOpcode::Verify,
    IoOpcode::GetLbaStatus,
];

impl Host {
    /// 64 bytes as they come.
    pub(super) fn raw_command(&mut self, input: &mut Input) {
        let queue = self.any_queue(input);
        let mut bytes = [0; 64];
        let taken = input.take(64);
        bytes[..taken.len()].copy_from_slice(taken);
        let command = zerocopy::transmute!(bytes);
        if queue > 0
            && let Some(lending) = &mut self.lending
        {
            lending.doubt(&command);
        }
        self.submit(queue, command);
    }

    pub(super) fn admin_command(&mut self, input: &mut Input) {
        let mut command = self.fields(input);
        command.opcode = input.one_of(&ADMIN_OPCODES) as u8;
        if command.opcode <= AdminOpcode::CreateCompletionQueue as u8 {
            // Queues are named by small numbers, and their memory by its address.
            command.cdw10 = (input.number(1) as u32 % 6) | ((DEPTH - 1) << 16);
            command.prp1 = if input.number(1).is_multiple_of(8) {
                command.prp1
            } else {
                address_of(input.number(1) as u16 % 5)
            };
        }
        self.submit(0, command);
    }

    pub(super) fn io_command(&mut self, input: &mut Input) {
        let queue = self.any_queue(input);
        let mut command = self.fields(input);
        command.opcode = input.one_of(&IO_OPCODES) as u8;
        if !input.number(1).is_multiple_of(8) {
            let pages = 1 + input.number(1) as u32 % 20;
            let lba = input.number(1);
            (command.cdw10, command.cdw11) = (lba as u32, 0);
            command.cdw12 = command.cdw12 & 0xffff_0000 | (pages - 1);
            command = self.aim(command, pages, input.number(1) as usize);
        }
        self.submit(queue, command);
    }

    /// Data pointers as a right host makes them.
    pub(super) fn aim(&self, command: Command, pages: u32, first: usize) -> Command {
        let data: Vec<u64> = (0..pages as usize)
            .map(|page| self.data.address((first + page) % DATA_PAGES))
            .collect();
        let lists: Vec<u64> = (0..WHOLE_PAGES)
            .map(|page| self.whole.address(page))
            .collect();
        // SAFETY: the drive runs only while this task waits, and takes lists whole at the fetch.
        let write = |at: u64, value: u64| {
            unsafe { self.dma.write_bytes(at, &value.to_le_bytes()) }.expect("a list")
        };
        let (prp1, prp2) = prp_for(&data, &lists, write).expect("few pages");
        command.with_prp(prp1, prp2)
    }

    /// The fields of a command, each either of the likely kind or anything.
    fn fields(&mut self, input: &mut Input) -> Command {
        let wild = input.number(1);
        let small = |input: &mut Input, bit: u64| {
            if wild >> bit & 1 == 1 {
                input.number(4) as u32
            } else {
                input.number(1) as u32 & 0x1f
            }
        };
        Command {
            flags: if wild & 0x80 != 0 {
                input.number(1) as u8
            } else {
                0
            },
            nsid: input.one_of(&[1, 1, 1, 0, 2, u32::MAX]),
            prp1: self.address(input),
            prp2: self.address(input),
            cdw10: small(input, 0),
            cdw11: small(input, 1),
            cdw12: small(input, 2),
            cdw13: small(input, 3),
            cdw14: small(input, 4),
            cdw15: small(input, 5),
            ..Command::default()
        }
    }

    fn address(&self, input: &mut Input) -> u64 {
        let (kind, page) = (input.number(1), input.number(1) as usize);
        match kind % 8 {
            0 | 1 => self.data.address(page % DATA_PAGES),
            2..5 => self.whole.address(page % WHOLE_PAGES),
            5 => self.whole.address(page % WHOLE_PAGES) + (page as u64 & 0xff) * 16,
            6 => NOWHERE,
            _ => input.number(8),
        }
    }

    /// Writes a word into a page that lists, ranges and log pages lie in.
    pub(super) fn poke(&mut self, input: &mut Input) {
        let at = self.whole.address(input.number(1) as usize % WHOLE_PAGES) + input.number(1) * 8;
        let value = if input.number(1) & 1 == 0 {
            self.address(input)
        } else {
            input.number(2) << 32 | input.number(1)
        };
        // SAFETY: the drive runs only while this task waits; what it makes of a list that changes
        // under it is what is tested.
        unsafe { self.dma.write_bytes(at, &value.to_le_bytes()) }.expect("a whole page");
    }

    /// Any queue, living or not.
    fn any_queue(&self, input: &mut Input) -> usize {
        input.number(1) as usize % self.queues.len()
    }
}
