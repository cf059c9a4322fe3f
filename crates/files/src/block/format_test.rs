//! Holds `docs/file-format.md` to the code, both ways.
//!
//! A comment `<!-- layout NAME BYTES -->` or `<!-- values NAME -->` in the document announces a
//! table. Here is the same from the code, made so that the compiler refuses a forgotten field.
//! Last, the sources are searched for structures that this list does not know.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::{groups, journal, layout, links, node, page, records, xattrs};

/// The rows of each table, by what announces it.
type Tables = BTreeMap<String, Vec<String>>;

/// The bytes of a field, from a function that takes its address.
fn field_bytes<T, F>(_: fn(&T) -> &F) -> usize {
    size_of::<F>()
}

/// Adds the layout of a structure. All its fields must be named: the pattern has no `..`.
macro_rules! layout {
    ($tables:ident, $module:ident :: $name:ident { $($field:ident),* $(,)? }) => {
        let _all_fields_are_named = |value: &$module::$name| {
            let $module::$name { $($field: _),* } = value;
        };
        let rows = vec![$(format!(
            "{} | {} | {}",
            core::mem::offset_of!($module::$name, $field),
            field_bytes(|value: &$module::$name| &value.$field),
            stringify!($field),
        )),*];
        let bytes = size_of::<$module::$name>();
        $tables.insert(format!("layout {} {bytes}", stringify!($name)), rows);
    };
}

fn tables_of_the_code() -> Tables {
    let mut tables = Tables::new();
    layout!(
        tables,
        page::Header {
            crc,
            kind,
            reserved,
            number,
            file_system,
            generation
        }
    );
    layout!(
        tables,
        layout::Superblock {
            header,
            magic,
            version,
            page_bytes,
            pages,
            journal_first,
            journal_pages,
            groups_first,
            groups,
            group_pages,
            inode_bytes,
            hash_key,
            made_ns,
        }
    );
    layout!(
        tables,
        layout::State {
            header,
            orphan_first
        }
    );
    layout!(
        tables,
        groups::Bitmap {
            header,
            group,
            pages_free,
            inodes_free,
            tables_ready,
            reserved,
            inodes,
            pages,
        }
    );
    layout!(tables, node::Table { header, inodes });
    layout!(
        tables,
        node::RawInode {
            kind,
            mode,
            links,
            generation,
            uid,
            gid,
            front,
            back,
            size,
            pages,
            accessed_ns,
            modified_ns,
            changed_ns,
            parent,
            orphan_previous,
            orphan_next,
            xattr_page,
            is_orphan,
            is_tree,
            device,
            area,
        }
    );
    layout!(
        tables,
        records::NodeHead {
            header,
            owner,
            level,
            records,
            reserved
        }
    );
    layout!(
        tables,
        links::LinkHead {
            header,
            owner,
            bytes,
            reserved
        }
    );
    layout!(
        tables,
        xattrs::XattrHead {
            header,
            owner,
            bytes,
            reserved
        }
    );
    layout!(
        tables,
        journal::JournalHeader {
            header,
            group,
            at,
            transaction
        }
    );
    layout!(
        tables,
        journal::Descriptor {
            header,
            group,
            section,
            images,
            given_back,
            entries
        }
    );
    layout!(
        tables,
        journal::Record {
            header,
            group,
            pages,
            transaction,
            crc,
            reserved
        }
    );
    let kinds = page::Kind::ALL.iter();
    let kinds = kinds.map(|kind| format!("{} | {kind:?}", kind.raw()));
    tables.insert("values PageKind".into(), kinds.collect());
    let kinds = node::Kind::ALL.iter();
    let kinds = kinds.map(|kind| format!("{} | {kind:?}", kind.raw()));
    tables.insert("values InodeKind".into(), kinds.collect());
    tables
}

/// A row of the document as it is compared: without what explains it.
fn document_row(columns: usize, line: &str) -> String {
    let cells = line.trim_matches('|').split('|').map(str::trim);
    let cells = cells.take(columns).map(|cell| cell.trim_matches('`'));
    cells.collect::<Vec<_>>().join(" | ")
}

fn tables_of_the_document() -> Tables {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/file-format.md");
    let document = std::fs::read_to_string(&path).expect("the document is there");
    let mut tables = Tables::new();
    let mut lines = document.lines();
    while let Some(line) = lines.next() {
        let Some(name) = line
            .strip_prefix("<!-- ")
            .and_then(|l| l.strip_suffix(" -->"))
        else {
            continue;
        };
        let columns = if name.starts_with("layout") { 3 } else { 2 };
        assert_eq!(lines.next(), Some(""), "{name}");
        let rows = lines.by_ref().take_while(|line| line.starts_with('|'));
        let rows = rows.skip(2).map(|line| document_row(columns, line));
        let rows = rows.collect();
        assert!(
            tables.insert(name.into(), rows).is_none(),
            "{name} stands twice"
        );
    }
    tables
}

#[test]
fn the_document_and_the_code_say_the_same() {
    let (code, document) = (tables_of_the_code(), tables_of_the_document());
    let names = |tables: &Tables| tables.keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(
        names(&document),
        names(&code),
        "document (left), code (right)"
    );
    for (name, rows) in &code {
        assert_eq!(
            &document[name], rows,
            "{name}: document (left), code (right)"
        );
    }
}

#[test]
fn structures_have_no_gaps() {
    for (name, rows) in tables_of_the_code() {
        let Some(structure) = name.strip_prefix("layout ") else {
            continue;
        };
        let bytes: usize = structure.split_once(' ').unwrap().1.parse().unwrap();
        let mut end = 0;
        for row in rows {
            let mut numbers = row.split(" | ").map(|n| n.parse::<usize>());
            let (at, size) = (numbers.next().unwrap(), numbers.next().unwrap());
            assert_eq!(at, Ok(end), "{name}: {row}");
            end += size.unwrap();
        }
        assert_eq!(end, bytes, "{name}");
    }
}

#[test]
fn all_structures_of_the_media_are_described() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/block");
    let described = tables_of_the_code();
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let source = std::fs::read_to_string(&path).unwrap();
        let structures = source.split("Unaligned)]\n#[repr(C)]\npub struct ").skip(1);
        for structure in structures {
            let name = structure.split_whitespace().next().unwrap();
            let is_described = described
                .keys()
                .any(|key| key.starts_with(&format!("layout {name} ")));
            assert!(is_described, "{name} of {}", path.display());
        }
    }
}
