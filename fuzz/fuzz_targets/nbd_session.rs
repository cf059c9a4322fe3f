//! Any bytes as requests: each is done, refused or waited for, within the export; and each reply is as long as it says.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wharf_nbd::negotiate::Agreed;
use wharf_nbd::session::{Kind, Parsed, Session};
use wharf_nbd::{Can, Errno, ExportInfo, Extent};

const SIZE: u64 = 1 << 20;

/// The length that a reply's chunks say they have.
fn replies(agreed: Agreed, mut out: &[u8]) -> usize {
    let mut count = 0;
    while !out.is_empty() {
        let magic = u32::from_be_bytes(out[..4].try_into().expect("4 bytes"));
        let len = match (magic, agreed.extended) {
            (0x6744_6698, false) => 16,
            (0x668e_33ef, false) => {
                20 + u32::from_be_bytes(out[16..20].try_into().expect("4 bytes")) as usize
            }
            (0x6e8a_278c, true) => {
                32 + u64::from_be_bytes(out[24..32].try_into().expect("8 bytes")) as usize
            }
            other => panic!("no reply begins so: {other:x?}"),
        };
        out = &out[len..];
        count += 1;
    }
    count
}

fuzz_target!(|data: &[u8]| {
    let [choice, rest @ ..] = data else { return };
    let bit = |n: u8| choice >> n & 1 == 1;
    let info = ExportInfo {
        name: String::new(),
        description: String::new(),
        size_bytes: SIZE,
        block_bytes_min: if bit(0) { 512 } else { 1 },
        block_bytes_preferred: 4096,
        can: Can {
            write: bit(1),
            flush: bit(2),
            trim: bit(3),
            zero: bit(3),
            fast_zero: bit(4),
            cache: bit(4),
            status: true,
            multi_conn: true,
        },
    };
    let agreed = Agreed {
        structured: bit(5) || bit(6),
        extended: bit(6),
        allocation: bit(7) && (bit(5) || bit(6)),
    };
    let session = Session::new(&info, agreed);
    let mut input = rest;
    // Most bytes have no magic.
    let magic: u32 = if agreed.extended {
        0x21e4_1c71
    } else {
        0x2560_9513
    };
    while !input.is_empty() {
        let bytes = [&magic.to_be_bytes(), input].concat();
        let (taken, parsed) = session.parse(&bytes);
        let mut out = Vec::new();
        match parsed {
            Parsed::More | Parsed::Broken(_) | Parsed::Disconnect => return,
            Parsed::Refused(request, errno, payload) => {
                assert!(payload <= 64 << 20);
                session.reply_error(&mut out, &request, errno);
            }
            Parsed::Request(request) => {
                if request.kind != Kind::Flush {
                    assert!(request.offset + request.len <= SIZE);
                    assert_eq!(
                        (request.offset | request.len) % u64::from(info.block_bytes_min),
                        0
                    );
                }
                assert!(
                    info.can.write
                        || matches!(
                            request.kind,
                            Kind::Read | Kind::Flush | Kind::Cache | Kind::Status
                        )
                );
                match request.kind {
                    Kind::Status => {
                        session.reply_extents(&mut out, &request, &[Extent::hole(request.len)])
                    }
                    Kind::Read => session.reply_error(&mut out, &request, Errno::Io),
                    _ => session.reply_done(&mut out, &request),
                }
            }
        }
        assert_eq!(replies(agreed, &out), 1);
        input = &input[(taken - 4).min(input.len())..];
    }
});
