//! `wharf fs ls`: what a directory of an image has.

use std::path::PathBuf;

use serde_json::json;

use super::{Failure, close, input, open, print};
use crate::files::{Attributes, Kind, Mount};
use wharf_files::Special;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The image, which nobody else has open; or the socket of `wharf serve drive`.
    image: PathBuf,
    /// What to list; the root if left out.
    #[arg(default_value = "/")]
    path: String,
    /// With kind, permissions, names, owner and bytes.
    #[arg(short = 'l', long)]
    long: bool,
    /// As JSON, with everything that is known.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let mount = open(&args.image)?;
    let listed = entries(&mount, &args.path)
        .map_err(|error| input(format!("{}:{}: {error}", args.image.display(), args.path)));
    close(&args.image, mount)?;
    let listed = listed?;
    if args.json {
        let rows: Vec<_> = listed.iter().map(|(name, of)| row(name, of)).collect();
        print(&serde_json::to_string_pretty(&rows).expect("plain data"));
        return Ok(());
    }
    for (name, of) in &listed {
        let name = shown(name);
        match args.long {
            true => print(&format!(
                "{}{} {:>4} {:>6} {:>6} {:>12} {name}",
                letter(of.kind),
                permissions(of.mode),
                of.links,
                of.owner.uid,
                of.owner.gid,
                of.bytes
            )),
            false => print(&name),
        }
    }
    Ok(())
}

/// What is there, by name; of anything but a directory, itself.
fn entries(mount: &Mount, path: &str) -> std::io::Result<Vec<(Vec<u8>, Attributes)>> {
    let of = mount.stat(path, true)?;
    if !of.is_directory() {
        return Ok(vec![(path.into(), of)]);
    }
    let mut found = Vec::new();
    for entry in mount.list(path)? {
        let mut at = path.as_bytes().to_vec();
        at.push(b'/');
        at.extend_from_slice(&entry.name);
        found.push((entry.name.to_vec(), mount.stat(&at, false)?));
    }
    found.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(found)
}

/// A name on a terminal: what is no text, or would move the cursor, is escaped.
fn shown(name: &[u8]) -> String {
    let mut out = String::new();
    for chunk in name.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter.is_control() {
                true => out.extend(letter.escape_default()),
                false => out.push(letter),
            }
        }
        out.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
    }
    out
}

fn letter(kind: Kind) -> char {
    match kind {
        Kind::File => '-',
        Kind::Directory => 'd',
        Kind::Symlink => 'l',
        Kind::Special(Special::Fifo) => 'p',
        Kind::Special(Special::Socket) => 's',
        Kind::Special(Special::CharDevice) => 'c',
        Kind::Special(Special::BlockDevice) => 'b',
    }
}

/// Permission bits as `ls` shows them.
fn permissions(mode: u16) -> String {
    let mut text = String::new();
    for (class, special) in [(6, 's'), (3, 's'), (0, 't')] {
        let bits = mode >> class;
        let is_special = mode & 0o1000 << (class / 3) != 0;
        text.push(if bits & 4 != 0 { 'r' } else { '-' });
        text.push(if bits & 2 != 0 { 'w' } else { '-' });
        text.push(match (bits & 1 != 0, is_special) {
            (true, true) => special,
            (false, true) => special.to_ascii_uppercase(),
            (true, false) => 'x',
            (false, false) => '-',
        });
    }
    text
}

fn row(name: &[u8], of: &Attributes) -> serde_json::Value {
    json!({
        "name": String::from_utf8_lossy(name),
        "kind": letter(of.kind).to_string(),
        "mode": format!("{:04o}", of.mode),
        "links": of.links,
        "uid": of.owner.uid,
        "gid": of.owner.gid,
        "bytes": of.bytes,
        "stored_bytes": of.stored_bytes,
        "modified_ns": of.modified_ns,
        "changed_ns": of.changed_ns,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_read_as_those_of_ls() {
        for (mode, text) in [
            (0o755, "rwxr-xr-x"),
            (0o4755, "rwsr-xr-x"),
            (0o4644, "rwSr--r--"),
            (0o2755, "rwxr-sr-x"),
            (0o1777, "rwxrwxrwt"),
            (0o1000, "--------T"),
            (0, "---------"),
        ] {
            assert_eq!(permissions(mode), text, "{mode:o}");
        }
    }

    #[test]
    fn names_move_no_cursor() {
        assert_eq!(shown(b"a\x1b[2Jb"), "a\\u{1b}[2Jb");
        assert_eq!(shown("größe".as_bytes()), "größe");
        assert_eq!(shown(b"a\xffb\n"), "a\\xffb\\n");
    }
}
