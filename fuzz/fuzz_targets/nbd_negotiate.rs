//! Any bytes as a handshake: whole and cut in two the same, never a panic, and what is answered is well formed.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wharf_nbd::negotiate::{Negotiation, Step, Tls};
use wharf_nbd::{Can, ExportInfo};

fn info() -> ExportInfo {
    ExportInfo {
        name: "disk".into(),
        description: "text".into(),
        size_bytes: 1 << 20,
        block_bytes_min: 512,
        block_bytes_preferred: 4096,
        can: Can {
            write: true,
            status: true,
            ..Can::default()
        },
    }
}

/// Feeds the bytes in two parts; gives the output and how it ended.
fn run(bytes: &[u8], cut: usize, tls: Tls) -> (Vec<u8>, Step) {
    let export = info();
    let mut negotiation = Negotiation::new(&export, tls);
    let (mut out, mut input) = (Vec::new(), Vec::new());
    for part in [&bytes[..cut], &bytes[cut..]] {
        input.extend_from_slice(part);
        let (taken, step) = negotiation.advance(&input, &mut out);
        assert!(taken <= input.len());
        input.drain(..taken);
        if step != Step::More {
            return (out, step);
        }
    }
    (out, Step::More)
}

/// Every reply has its magic, and as many bytes as it says.
fn check(mut out: &[u8], ended: Step) {
    while !out.is_empty() {
        if matches!(ended, Step::Transmission(_))
            && !out.starts_with(&0x3e889045565a9u64.to_be_bytes())
        {
            // The reply to EXPORT_NAME, which is the last.
            assert!([10, 134].contains(&out.len()));
            return;
        }
        assert!(out.starts_with(&0x3e889045565a9u64.to_be_bytes()));
        let len = u32::from_be_bytes(out[16..20].try_into().expect("4 bytes")) as usize;
        out = &out[20 + len..];
    }
}

fuzz_target!(|data: &[u8]| {
    let [cut, tls, rest @ ..] = data else { return };
    let tls = [Tls::Off, Tls::Offered, Tls::Required][usize::from(*tls) % 3];
    // Most bytes have no flags.
    let bytes = [&[0, 0, 0, 3], rest].concat();
    let whole = run(&bytes, bytes.len(), tls);
    check(&whole.0, whole.1);
    // What came before encryption together with what follows is refused, cut or not; all else is the same.
    let cut = run(&bytes, usize::from(*cut).min(bytes.len()), tls);
    if whole.1 != Step::StartTls && cut.1 != Step::StartTls {
        assert_eq!(whole, cut);
    }
    let _ = run(rest, rest.len(), tls);
});
