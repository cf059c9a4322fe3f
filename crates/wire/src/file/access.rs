//! Who may speak to the drive for whom: keys, claims, and tokens.
//!
//! A *broker* is the process that has the drive's admin queue. It gives the drive a key ([`Command::set_key`]), learns who
//! each other process is, and hands it [`Claims`] with a *token*: the first 16 bytes of HMAC-SHA256 of the claims under the
//! key. The process shows both to the drive ([`Command::authenticate`]), once, and puts the token into every command
//! after that. Who does not have the key can make no token, and who changes a claim has another one.

#[cfg(feature = "tokens")]
use hmac::{Hmac, KeyInit, Mac};
#[cfg(feature = "tokens")]
use sha2::Sha256;
#[cfg(feature = "tokens")]
use subtle::ConstantTimeEq;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use super::command::{FileHandle, file_fields};
use crate::bits::{bit_fields, wire_enum};
use crate::command::Command;
use crate::dma::PAGE_BYTES;
use crate::opcode::{AdminOpcode, IoOpcode};

/// Most supplementary groups of claims: as many as fit a page behind them.
pub const CLAIM_GROUPS_MAX: usize = (PAGE_BYTES - size_of::<Claims>()) / 4;

/// What the code of claims begins with, so that no other message under the same key can be taken for one.
#[cfg(feature = "tokens")]
const DOMAIN: &[u8] = b"Wharf claims 1\0\0";

/// Of [`Claims::rights`]: requests may name any user, and not only that of the claims. For front ends that serve many users.
pub const ACTS_FOR_OTHERS: u32 = 1;

/// Of [`Claims::rights`]: nothing may be changed.
pub const READS_ONLY: u32 = 2;

/// A key of the drive.
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DriveKey {
    /// The bytes: random, and known to the broker and the drive alone.
    pub secret: [u8; 32],
    /// Which key it is: each is larger than the one before.
    pub epoch: u32,
    pub(crate) reserved: [u32; 7],
}

impl DriveKey {
    /// A key.
    pub fn new(secret: [u8; 32], epoch: u32) -> DriveKey {
        DriveKey {
            secret,
            epoch,
            reserved: [0; 7],
        }
    }

    /// The token of claims, with the groups behind them.
    #[cfg(feature = "tokens")]
    pub fn token(&self, claims: &Claims, groups: &[u32]) -> Token {
        let mut code = Hmac::<Sha256>::new_from_slice(&self.secret).expect("a key of any length");
        code.update(DOMAIN);
        code.update(claims.as_bytes());
        code.update(groups.as_bytes());
        let code = code.finalize().into_bytes();
        Token(std::array::from_fn(|at| code[at]))
    }
}

// A key does not show what it is.
impl std::fmt::Debug for DriveKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DriveKey")
            .field("epoch", &self.epoch)
            .finish_non_exhaustive()
    }
}

/// What proves who sends a command.
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(transparent)]
pub struct Token(pub [u8; 16]);

impl Token {
    /// That of commands where there are no sessions.
    pub const NONE: Token = Token([0; 16]);

    /// Whether it is the same. How long that takes tells nothing of where they differ.
    #[cfg(feature = "tokens")]
    #[inline]
    pub fn is(&self, other: &Token) -> bool {
        // As one number: byte by byte it takes six times as long.
        let number = |token: &Token| u128::from_le_bytes(token.0);
        number(self).ct_eq(&number(other)).into()
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(..)")
    }
}

/// Who a process is, as the broker says it. Behind them come the supplementary groups, 4 bytes each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Claims {
    /// Number of the session: larger than all before.
    pub session: u64,
    /// The guest whose queue pairs these claims are for, from 1; 0 for those of the drive's owner.
    pub guest: u32,
    /// The user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Its supplementary groups: 0 to 1000.
    pub group_count: u32,
    /// [`ACTS_FOR_OTHERS`], [`READS_ONLY`].
    pub rights: u32,
    /// Epoch of the key.
    pub epoch: u32,
    /// The first nanosecond since 1970, by the drive's clock, at which they hold.
    pub not_before_ns: u64,
    /// The first at which they hold no more.
    pub expires_ns: u64,
    /// A random number.
    pub nonce: [u64; 2],
    /// Reserved.
    pub reserved: [u64; 4],
}

const _: () = assert!(size_of::<Claims>() == 96 && CLAIM_GROUPS_MAX == 1000);

impl Claims {
    /// Of nobody.
    pub fn new() -> Claims {
        Claims::new_zeroed()
    }
}

impl Default for Claims {
    fn default() -> Claims {
        Claims::new()
    }
}

wire_enum! {
    /// Which sessions are revoked.
    pub enum Revoke: u32 {
        /// That of this number.
        Session = 0 => "session",
        /// All that a user has, and claims of it that were made until now.
        User = 1 => "user",
        /// All under keys up to this epoch.
        Epoch = 2 => "epoch",
    }
}

bit_fields! {
    /// Revoke.
    mod revoke_fields {
        KIND = 10 [31:0];
        LOW = 11 [31:0];
        HIGH = 12 [31:0];
    }
}

impl Command {
    /// Gives the drive a key, which is at the beginning of a page. It is the only one from then on.
    pub fn set_key(page: u64) -> Command {
        Command::admin(AdminOpcode::SetKey, 0).with_prp(page, 0)
    }

    /// Takes sessions back: what they have open is closed, and their tokens are none any more.
    pub fn revoke(kind: Revoke, which: u64) -> Command {
        Command::admin(AdminOpcode::Revoke, 0)
            .with(revoke_fields::KIND, kind.raw())
            .with(revoke_fields::LOW, which as u32)
            .with(revoke_fields::HIGH, (which >> 32) as u32)
    }

    /// What a revoke command is about.
    pub fn revokes(&self) -> Option<(Revoke, u64)> {
        let (low, high) = (
            self.field(revoke_fields::LOW),
            self.field(revoke_fields::HIGH),
        );
        let kind = Revoke::from_raw(self.field(revoke_fields::KIND))?;
        Some((kind, u64::from(high) << 32 | u64::from(low)))
    }

    /// Shows the drive claims, which are in a buffer of `bytes` bytes, with their groups; the token goes with it as with every
    /// command after it.
    pub fn authenticate(nsid: u32, bytes: u32) -> Command {
        Command::file(IoOpcode::Authenticate, nsid, FileHandle::default())
            .with(file_fields::LENGTH, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims() -> Claims {
        Claims {
            session: 5,
            guest: 2,
            uid: 1000,
            gid: 100,
            group_count: 2,
            epoch: 1,
            expires_ns: 9,
            ..Claims::new()
        }
    }

    #[test]
    fn a_token_is_the_code_that_others_compute() {
        // By Python: hmac.new(bytes(range(32)), b"Wharf claims 1\0\0" + bytes(96), "sha256").hexdigest()[:32]
        let key = DriveKey::new(std::array::from_fn(|at| at as u8), 1);
        let token = key.token(&Claims::new(), &[]);
        let hex: String = token.0.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "62a66ddaf0dfaa4be8989b9cd300ce5b");
    }

    #[test]
    fn every_bit_of_claims_groups_and_key_is_in_the_token() {
        let (key, groups) = (DriveKey::new([7; 32], 1), [4, 5]);
        let token = key.token(&claims(), &groups);
        assert!(token.is(&key.token(&claims(), &groups)));
        for bit in 0..size_of::<Claims>() * 8 {
            let mut other = claims();
            other.as_mut_bytes()[bit / 8] ^= 1 << (bit % 8);
            assert!(!token.is(&key.token(&other, &groups)), "bit {bit}");
        }
        for bit in 0..64 {
            let mut other = groups;
            other.as_mut_bytes()[bit / 8] ^= 1 << (bit % 8);
            assert!(!token.is(&key.token(&claims(), &other)), "bit {bit}");
        }
        for bit in 0..256 {
            let mut other = key;
            other.secret[bit / 8] ^= 1 << (bit % 8);
            assert!(!token.is(&other.token(&claims(), &groups)), "bit {bit}");
        }
        assert!(!token.is(&key.token(&claims(), &groups[..1])));
    }

    #[test]
    fn keys_and_tokens_are_not_shown() {
        let shown = format!("{:?} {:?}", DriveKey::new([0xab; 32], 3), Token([0xab; 16]));
        assert!(!shown.contains("ab") && !shown.contains("171"), "{shown}");
    }

    #[test]
    fn what_is_revoked_comes_back() {
        for kind in Revoke::ALL {
            let command = Command::revoke(*kind, 0x1234_5678_9abc_def0);
            assert_eq!(command.revokes(), Some((*kind, 0x1234_5678_9abc_def0)));
        }
        let mut unknown = Command::revoke(Revoke::Session, 0);
        unknown.cdw10 = 3;
        assert_eq!(unknown.revokes(), None);
    }
}
