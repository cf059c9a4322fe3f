//! The status of a completed command.
//!
//! A status is a code (its type SCT and number SC, together a [`StatusCode`]) and two flags:
//! DNR, "do not retry", says that the same command would fail again; More says that the error
//! log holds an entry about it. The drive answers a code; [`Status::new`] sets DNR as the code
//! calls for.

use crate::bits::{bit_fields, wire_enum};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

bit_fields! {
    /// The 15-bit status field (bits 31:17 of dword 3 of a completion).
    mod status_field {
        SC = 0 [7:0];
        SCT = 0 [10:8];
        CRD = 0 [12:11];
        MORE = 0 [13:13];
        DNR = 0 [14:14];
    }
}

wire_enum! {
    /// Why a command failed, or that it did not: status code type (bits 10:8) and status code
    /// (bits 7:0) as one number.
    pub enum StatusCode: u16 {
        /// The command did what it says.
        Success = 0x000 => "success",
        /// The opcode is not in the command set of this queue.
        InvalidOpcode = 0x001 => "invalid opcode",
        /// A field of the command holds a value that is reserved or not supported.
        InvalidField = 0x002 => "invalid field in the command",
        /// A command with this identifier is in flight on the same submission queue.
        CommandIdConflict = 0x003 => "command identifier is already in use",
        /// Host memory could not be read or written.
        DataTransferError = 0x004 => "data transfer to or from host memory failed",
        /// Power failed while the command was in flight.
        AbortedPowerLoss = 0x005 => "aborted by loss of power",
        /// The drive failed for a reason of its own.
        InternalError = 0x006 => "internal error of the drive",
        /// The command was aborted because it was asked for.
        AbortRequested = 0x007 => "aborted on request",
        /// The command's submission queue was deleted.
        AbortedQueueDeleted = 0x008 => "aborted because its submission queue was deleted",
        /// There is no such namespace, or it has no such format.
        InvalidNamespace = 0x00b => "invalid namespace or format",
        /// Commands came in an order that is not allowed.
        CommandSequenceError = 0x00c => "command not allowed in the present state",
        /// A PRP entry or list pointer is not aligned as it must be.
        PrpOffsetInvalid = 0x013 => "a PRP entry is not aligned",
        /// The namespace takes no writes (a worn drive).
        NamespaceWriteProtected = 0x020 => "namespace is write protected",
        /// The drive stopped the command to do something else first.
        CommandInterrupted = 0x021 => "command interrupted by the drive",
        /// A page of the command lies beyond the end of the namespace.
        LbaOutOfRange = 0x080 => "LBA out of range",
        /// No free space is left to write to.
        CapacityExceeded = 0x081 => "capacity exceeded",
        /// The namespace is not ready (still opening, or held by a format).
        NamespaceNotReady = 0x082 => "namespace is not ready",
        /// The namespace is being formatted.
        FormatInProgress = 0x084 => "format in progress",

        /// The completion queue named does not exist.
        CompletionQueueInvalid = 0x100 => "no such completion queue",
        /// The queue identifier is 0, too large, in use (create) or not in use (delete).
        InvalidQueueId = 0x101 => "invalid queue identifier",
        /// The queue has fewer than two entries or more than the drive takes. (NVM Express 1.0
        /// called this code "maximum queue size exceeded".)
        InvalidQueueSize = 0x102 => "invalid queue size",
        /// More async event requests than the drive holds.
        AsyncEventLimitExceeded = 0x105 => "too many async event requests",
        /// The interrupt vector is beyond those there are.
        InvalidInterruptVector = 0x108 => "invalid interrupt vector",
        /// There is no such log page.
        InvalidLogPage = 0x109 => "invalid log page",
        /// The format asked for is not one of the namespace's.
        InvalidFormat = 0x10a => "invalid format",
        /// A completion queue cannot go before the submission queues that use it.
        InvalidQueueDeletion = 0x10c => "completion queue still has submission queues",
        /// The feature's value cannot be saved over a power cycle.
        FeatureNotSaveable = 0x10d => "feature cannot be saved",
        /// The feature's value cannot be changed (now, or at all).
        FeatureNotChangeable = 0x10e => "feature cannot be changed",
        /// The feature belongs to the controller, not to a namespace.
        FeatureNotNamespaceSpecific = 0x10f => "feature does not belong to a namespace",
        /// Attributes of the command contradict each other.
        ConflictingAttributes = 0x180 => "conflicting attributes",
        /// The pages addressed can only be read.
        ReadOnlyRange = 0x182 => "attempted write to a read-only range",
        /// The command asks for more than its size limits allow.
        CommandSizeLimitExceeded = 0x183 => "command size limit exceeded",

        /// The media did not take the data.
        WriteFault = 0x280 => "write fault",
        /// The data is lost or damaged; what is on the media is not returned.
        UnrecoveredReadError = 0x281 => "unrecovered read error",
        /// The data differs from what it was compared with.
        CompareFailure = 0x285 => "compare failure",
        /// Who sent the command may not do that.
        AccessDenied = 0x286 => "access denied",
        /// The page holds no data, and reading such pages is an error.
        DeallocatedBlock = 0x287 => "deallocated or unwritten block",

        /// The host has lent the drive no memory, or too little of it.
        NoHostMemory = 0x7c0 => "the drive has been hmb no memory",
        /// Every frame of a core is held.
        NoFreeFrame = 0x7c1 => "every frame is held",
        /// A page to unpin is not pinned.
        NotPinned = 0x7c2 => "the page is not pinned",
        /// A page is being written to by the host for too long.
        FrameBusy = 0x7c3 => "a pinned page is being written",
        /// Memory cannot be taken back while pages in it are pinned.
        FramesPinned = 0x7c4 => "pages are pinned in the memory",

        /// An operation on files failed: dword 0 of the completion is the number of the error.
        FileError = 0x7d0 => "operation on files failed",
        /// The token does not belong to the queue.
        TokenInvalid = 0x7d1 => "token is not valid",
        /// The token was valid once.
        TokenExpired = 0x7d2 => "token has expired",
        /// The token was taken back.
        TokenRevoked = 0x7d3 => "token was revoked",
        /// The handle is not an open file of this host.
        HandleInvalid = 0x7d4 => "no such open file",
        /// What the host was promised alone is promised to it no more.
        LeaseLost = 0x7d5 => "lease was lost",
        /// Somebody else has the lock, and the command does not wait.
        LockHeld = 0x7d6 => "lock is held",
    }
}

impl StatusCode {
    /// Whether the same command, sent again, may succeed: what stood in its way was not in the
    /// command or on the media.
    #[inline]
    pub const fn is_transient(self) -> bool {
        matches!(
            self,
            StatusCode::CommandIdConflict
                | StatusCode::DataTransferError
                | StatusCode::AbortedPowerLoss
                | StatusCode::InternalError
                | StatusCode::AbortRequested
                | StatusCode::AbortedQueueDeleted
                | StatusCode::CommandInterrupted
                | StatusCode::NamespaceNotReady
                | StatusCode::FormatInProgress
                | StatusCode::InvalidQueueDeletion
                | StatusCode::WriteFault
        )
    }
}

/// The status of a completion: code and flags, as they stand in its 15-bit status field
/// (without the phase bit). [`Status::default`] is success.
///
/// It is also an error: `status.into_result()?` hands a failure on.
#[derive(
    Clone, Copy, Default, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(transparent)]
pub struct Status(u16);

impl Status {
    /// The command did what it says.
    pub const SUCCESS: Status = Status(0);

    /// The status for `code`, with DNR set unless the code is transient (or success).
    #[inline]
    pub const fn new(code: StatusCode) -> Status {
        let dnr = !matches!(code, StatusCode::Success) && !code.is_transient();
        Status(code.raw() | (dnr as u16) << status_field::DNR.low)
    }

    /// The status in the low 15 bits of `bits`; bit 15 is ignored.
    #[inline]
    pub const fn from_bits(bits: u16) -> Status {
        Status(bits & 0x7fff)
    }

    /// The 15 bits of the status field.
    #[inline]
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// The same status with the More flag set: the error log holds an entry about it.
    #[must_use]
    #[inline]
    pub const fn with_more(self) -> Status {
        Status(self.0 | 1 << status_field::MORE.low)
    }

    /// The same status with DNR set or cleared.
    #[must_use]
    #[inline]
    pub const fn with_do_not_retry(self, do_not_retry: bool) -> Status {
        Status(status_field::DNR.put(self.0 as u32, do_not_retry as u32) as u16)
    }

    /// Status code type: 0 generic, 1 of the command, 2 of the media, 7 vendor.
    #[inline]
    pub const fn code_type(self) -> u8 {
        status_field::SCT.get(self.0 as u32) as u8
    }

    /// Status code within its type.
    #[inline]
    pub const fn code_number(self) -> u8 {
        status_field::SC.get(self.0 as u32) as u8
    }

    /// The code, or `None` if this command set does not use it.
    #[inline]
    pub const fn code(self) -> Option<StatusCode> {
        StatusCode::from_raw(self.0 & 0x7ff)
    }

    /// Which of three retry delays to wait, or 0 for none. This command set always sends 0.
    #[inline]
    pub const fn retry_delay(self) -> u8 {
        status_field::CRD.get(self.0 as u32) as u8
    }

    /// Whether the error log holds an entry about this failure.
    #[inline]
    pub const fn more(self) -> bool {
        status_field::MORE.get(self.0 as u32) != 0
    }

    /// Whether the same command would fail again.
    #[inline]
    pub const fn do_not_retry(self) -> bool {
        status_field::DNR.get(self.0 as u32) != 0
    }

    /// Whether the command succeeded. The flags do not matter.
    #[inline]
    pub const fn is_success(self) -> bool {
        self.0 & 0x7ff == 0
    }

    /// Whether the command failed and may succeed when sent again (DNR is clear).
    #[inline]
    pub const fn is_retryable(self) -> bool {
        !self.is_success() && !self.do_not_retry()
    }

    /// Success as `Ok`, everything else as the error that it is.
    #[inline]
    pub const fn into_result(self) -> Result<(), Status> {
        if self.is_success() { Ok(()) } else { Err(self) }
    }
}

impl From<StatusCode> for Status {
    #[inline]
    fn from(code: StatusCode) -> Status {
        Status::new(code)
    }
}

impl core::error::Error for Status {}

impl core::fmt::Display for Status {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.code() {
            Some(code) => f.write_str(code.text())?,
            None => f.write_str("unknown status")?,
        }
        if self.is_success() {
            return Ok(());
        }
        write!(
            f,
            " (status {:x}h/{:02x}h",
            self.code_type(),
            self.code_number()
        )?;
        f.write_str(if self.do_not_retry() {
            ", a retry will not help"
        } else {
            ", may be retried"
        })?;
        f.write_str(if self.more() {
            ", see the error log)"
        } else {
            ")"
        })
    }
}

impl core::fmt::Debug for Status {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Status({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_survives_the_wire_with_its_flags() {
        for &code in StatusCode::ALL {
            for status in [
                Status::new(code),
                Status::new(code).with_more(),
                Status::new(code).with_do_not_retry(true),
                Status::new(code).with_do_not_retry(false),
            ] {
                let back = Status::from_bits(status.bits());
                assert_eq!(back, status);
                assert_eq!(back.code(), Some(code));
                assert_eq!(
                    u16::from(back.code_type()) << 8 | u16::from(back.code_number()),
                    code.raw()
                );
                assert_eq!(back.retry_delay(), 0);
            }
        }
    }

    #[test]
    fn success_is_success_whatever_its_flags() {
        assert_eq!(Status::default(), Status::new(StatusCode::Success));
        assert!(Status::SUCCESS.is_success() && !Status::SUCCESS.is_retryable());
        assert!(Status::SUCCESS.with_more().is_success());
        assert_eq!(Status::SUCCESS.into_result(), Ok(()));
        assert_eq!(Status::SUCCESS.to_string(), "success");
    }

    #[test]
    fn retry_follows_the_dnr_flag_not_the_code() {
        let field = Status::new(StatusCode::InvalidField);
        assert!(field.do_not_retry() && !field.is_retryable());
        assert!(field.with_do_not_retry(false).is_retryable());
        let busy = Status::new(StatusCode::NamespaceNotReady);
        assert!(!busy.do_not_retry() && busy.is_retryable());
        assert!(!busy.with_do_not_retry(true).is_retryable());
        assert_eq!(busy.into_result(), Err(busy));
    }

    #[test]
    fn the_bits_are_where_nvm_express_has_them() {
        let status = Status::new(StatusCode::UnrecoveredReadError).with_more();
        assert_eq!(status.bits(), 0x4000 | 0x2000 | 0x0281);
        assert_eq!((status.code_type(), status.code_number()), (2, 0x81));
        assert_eq!(Status::from_bits(0x1800).retry_delay(), 3);
        assert_eq!(Status::from_bits(0x8000), Status::SUCCESS);
    }

    #[test]
    fn a_status_reads_as_one_clear_line() {
        assert_eq!(
            Status::new(StatusCode::LbaOutOfRange).to_string(),
            "LBA out of range (status 0h/80h, a retry will not help)"
        );
        assert_eq!(
            Status::from_bits(0x2712).to_string(),
            "unknown status (status 7h/12h, may be retried, see the error log)"
        );
        assert_eq!(Status::from_bits(0x2712).code(), None);
    }
}
