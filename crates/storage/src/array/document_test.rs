//! `docs/arrays.md` has the format of a member; here its tables are held to the code.

use crate::array::{journal, superblock};

/// Name, offset and size of fields of a structure.
macro_rules! fields_of {
    ($raw:ty: $($field:ident),+) => {{
        fn size<T>(_: fn(&$raw) -> &T) -> usize {
            size_of::<T>()
        }
        vec![$((
            stringify!($field),
            std::mem::offset_of!($raw, $field),
            size(|raw: &$raw| &raw.$field),
        )),+]
    }};
}
pub(super) use fields_of;

/// The rows of the table that follows `heading`: third, first and second column.
fn table(heading: &str) -> Vec<(String, usize, usize)> {
    let document = include_str!("../../../../docs/arrays.md");
    let (_, after) = document.split_once(heading).expect("the heading is there");
    let rows = after.lines().skip_while(|line| !line.starts_with("| 0 "));
    let rows = rows.take_while(|line| line.starts_with("| "));
    let parse = |line: &str| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let number = |cell: &str| cell.parse().expect("a number");
        (
            cells[3].trim_matches('`').to_string(),
            number(cells[1]),
            number(cells[2]),
        )
    };
    rows.map(parse).collect()
}

fn owned(fields: Vec<(&'static str, usize, usize)>) -> Vec<(String, usize, usize)> {
    fields
        .into_iter()
        .map(|(name, at, size)| (name.to_string(), at, size))
        .collect()
}

#[test]
fn the_document_has_every_field_in_its_place() {
    assert_eq!(table("Superblock, 212 bytes:"), owned(superblock::fields()));
    assert_eq!(
        table("Header of a journal record, 72 bytes"),
        owned(journal::fields())
    );
}
