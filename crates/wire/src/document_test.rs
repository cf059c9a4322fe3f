//! Holds `docs/command-set.md` to the code, both ways.
//!
//! A comment `<!-- layout NAME BYTES -->`, `<!-- bits NAME -->` or `<!-- values NAME -->` in the
//! document announces a table. Here is the same list from the code, made so that the compiler
//! refuses a forgotten field; the two must be equal, table by table and row by row. Last, the
//! sources are searched for structures and enumerations that this list does not know.

use crate::bits::Bits;
use crate::{admin, command, completion, dsm, features, host_memory, identify, log_page};
use crate::{events, file, lba_status, opcode, pin, space, statistics, status, timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The rows of one table as they are compared, by the table's announcement.
type Tables = BTreeMap<String, Vec<String>>;

fn layout_row(offset: usize, size: usize, field: &str) -> String {
    // Reserved fields are numbered in the code, since names must differ there.
    let field = if field.starts_with("reserved") {
        "reserved"
    } else {
        field
    };
    format!("{offset} | {size} | {field}")
}

fn bits_row(field: &str, bits: &Bits) -> String {
    format!("{} | {}:{} | {field}", bits.dword, bits.high, bits.low)
}

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
        let rows = vec![$(layout_row(
            core::mem::offset_of!($module::$name, $field),
            field_bytes(|value: &$module::$name| &value.$field),
            stringify!($field),
        )),*];
        let bytes = size_of::<$module::$name>();
        $tables.insert(format!("layout {} {bytes}", stringify!($name)), rows);
    };
}

/// Adds the fields of each `bit_fields!` module.
macro_rules! bits {
    ($tables:ident, $($module:ident :: $name:ident),* $(,)?) => {
        $(
            let rows = $module::$name::ALL.iter().map(|(field, bits)| bits_row(field, bits));
            $tables.insert(format!("bits {}", stringify!($name)), rows.collect());
        )*
    };
}

/// Adds the values of each `wire_enum!`.
macro_rules! values {
    ($tables:ident, $($module:ident :: $name:ident),* $(,)?) => {
        $(
            let rows = $module::$name::ALL.iter().map(|v| format!("{:x} | {v:?}", v.raw()));
            $tables.insert(format!("values {}", stringify!($name)), rows.collect());
        )*
    };
}

fn tables_of_the_code() -> Tables {
    let mut tables = Tables::new();
    command_layouts(&mut tables);
    identify_layouts(&mut tables);
    log_page_layouts(&mut tables);
    file_layouts(&mut tables);
    bits!(
        tables,
        command::flags_byte,
        command::rw_fields,
        command::dsm_fields,
        completion::status_phase_word,
        completion::result_word,
        completion::level_word,
        pin::pin_fields,
        host_memory::host_memory_fields,
        status::status_field,
        admin::create_cq_fields,
        admin::create_sq_fields,
        admin::delete_queue_fields,
        admin::identify_fields,
        admin::get_log_page_fields,
        admin::get_features_fields,
        admin::set_features_fields,
        admin::format_fields,
        features::arbitration_fields,
        features::write_cache_fields,
        features::number_of_queues_fields,
        features::capability_fields,
        identify::flbas_byte,
        identify::dlfeat_byte,
        lba_status::lba_status_fields,
        events::event_fields,
        space::space_fields,
        file::file_fields,
        file::open_fields,
        file::write_file_fields,
        file::sync_file_fields,
        file::path_fields,
        file::handle_fields,
        file::attribute_fields,
        file::lease_fields,
        file::lock_fields,
        file::read_near_fields,
        file::write_near_fields,
        file::evict_near_fields,
        file::revoke_fields,
    );
    values!(
        tables,
        opcode::AdminOpcode,
        opcode::IoOpcode,
        status::StatusCode,
        admin::Cns,
        admin::FeatureSelect,
        admin::SecureErase,
        features::FeatureId,
        identify::OptionalAdminCommand,
        identify::OptionalIoCommand,
        identify::DriveFeature,
        log_page::LogPage,
        log_page::CriticalWarning,
        lba_status::StatusAction,
        lba_status::Completeness,
        events::EventType,
        space::SpaceLevel,
        file::PathRequest,
        file::PathChange,
        file::RenameMode,
        file::XattrMode,
        file::HandleOperation,
        file::Evict,
        file::VectorFunction,
        file::VectorCodec,
        file::PlaceKind,
        file::AttributeOperation,
        file::FileKind,
        file::FileSystemState,
        file::StartKind,
        file::LockOperation,
        file::LockState,
        file::Revoke,
    );
    tables
}

#[rustfmt::skip] // a name per line would hide the list
fn command_layouts(tables: &mut Tables) {
    layout!(tables, command::Command {
        opcode, flags, cid, nsid, cdw2, cdw3, mptr, prp1, prp2,
        cdw10, cdw11, cdw12, cdw13, cdw14, cdw15,
    });
    layout!(tables, completion::Completion { dw0, dw1, sqhd, sqid, cid, status_phase });
    layout!(tables, dsm::DsmRange { attributes, pages, slba });
    layout!(tables, lba_status::LbaStatusHead { nlsd, cmpc, reserved });
    layout!(tables, lba_status::LbaStatusRun { dslba, nlb, reserved1, status, reserved2 });
    layout!(tables, space::SpacePage {
        version, granule_bytes, level, yellow_percent, red_percent, reserved1, capacity, used,
        metadata_reserve, garbage, allocated_pages, map_bytes, reserved2,
    });
    layout!(tables, timestamp::Timestamp { milliseconds, attributes, reserved });
    layout!(tables, host_memory::HostMemoryDescriptor { badd, bsize, reserved, vadd, table });
}

#[rustfmt::skip] // a name per line would hide the list
fn identify_layouts(tables: &mut Tables) {
    layout!(tables, identify::IdentifyController {
        vid, ssvid, sn, mn, fr, rab, ieee, cmic, mdts, cntlid, ver, reserved_84, oaes,
        reserved_96, cntrltype, reserved_112, oacs, acl, aerl, frmw, lpa, elpe, npss,
        reserved_264, wctemp, cctemp, reserved_270, hmpre, hmmin, tnvmcap, unvmcap, reserved_312, sqes, cqes,
        maxcmd, nn, oncs, fuses, fna, vwc, awun, awupf, reserved_530, sgls, reserved_540, subnqn,
        reserved_1024, drive,
    });
    layout!(tables, identify::DriveInfo {
        signature, version, firmware_cores, stripe_pages, features, queue_entries_max, channels,
        dies, block_pages, reserved_36, physical_pages, file_systems, file_handles_max, reserved_60,
    });
    layout!(tables, identify::IdentifyNamespace {
        nsze, ncap, nuse, nsfeat, nlbaf, flbas, mc, dpc, dps, nmic, rescap, fpi, dlfeat, nawun,
        nawupf, reserved_38, noiob, nvmcap, npwg, npwa, npdg, npda, nows, reserved_74, nsattr,
        reserved_100, eui64, lbaf, reserved_384,
    });
    layout!(tables, identify::LbaFormat { ms, lbads, rp });
}

#[rustfmt::skip] // a name per line would hide the list
fn log_page_layouts(tables: &mut Tables) {
    layout!(tables, log_page::ErrorLogEntry {
        error_count, sqid, cid, status_phase, parameter_error_location, lba, nsid,
        vendor_log_page, trtype, reserved_30, command_specific, transport_specific, reserved_42,
    });
    layout!(tables, log_page::SmartHealth {
        critical_warning, composite_temperature, available_spare, available_spare_threshold,
        percentage_used, endurance_group_critical_warning, reserved_7, data_units_read,
        data_units_written, host_read_commands, host_write_commands, controller_busy_time,
        power_cycles, power_on_hours, unsafe_shutdowns, media_errors, error_log_entries,
        warning_temperature_time, critical_temperature_time, temperature_sensors,
        thermal_transitions_1, thermal_transitions_2, thermal_time_1, thermal_time_2,
        reserved_232,
    });
    layout!(tables, statistics::DriveStatistics {
        version, core, host_read_commands, host_read_pages, host_write_commands,
        host_write_pages, flush_commands, trimmed_pages, zeroed_pages, media_reads,
        media_programs, media_erases, gc_moved_pages, gc_runs_foreground, gc_runs_background,
        wear_moved_pages, wear_runs, metadata_pages, write_amplification_programmed_pages,
        write_amplification_host_pages, gc_busy_ns, die_busy_ns, erase_count_min,
        erase_count_max, erase_count_sum, blocks, free_blocks, retired_blocks, mapped_pages,
        unrecovered_reads, rot_found, pin_commands, unpin_commands, pinned_pages, pin_hits,
        frame_evictions, frame_write_backs, pin_waits, frames, frames_held, service_ns,
        pin_fills, used_granules, capacity_granules,
        host_granules, moved_granules, unit_programs, unfilled_granules, padding_granules,
        compressed_pages, expanded_pages, seeks, positioning_ns, read_seeks,
        map_bytes, link_to_host_bytes, link_from_host_bytes, reserved,
    });
}

#[rustfmt::skip] // a name per line would hide the list
fn file_layouts(tables: &mut Tables) {
    layout!(tables, file::RequestHead {
        version, group_count, uid, gid, mode, special, start, start2, start_kind, start2_kind,
        path_bytes, path2_bytes, path_flags, value_bytes, device, set_uid, set_gid, accessed_ns,
        modified_ns, size, file_bytes_max, reserved_88, groups,
    });
    layout!(tables, file::FileAttributes {
        number, bytes, stored_bytes, accessed_ns, modified_ns, changed_ns, kind, mode, links, uid,
        gid, device, reserved,
    });
    layout!(tables, file::OpenAnswer { attributes, handle, is_new, reserved });
    layout!(tables, file::FileSystemLog {
        version, state, kind, errno, replayed_groups, replayed_pages, mended, orphans, reserved, text,
    });
    layout!(tables, file::DeviceCacheLog {
        version, is_protected, pages, host_pages, used_pages, dirty_pages, reads, writes, hits, brought_pages,
        written_pages, evicted_pages, taken_pages, displaced_pages, no_room, restored_pages, lost_pages,
    });
    layout!(tables, file::FileSystemStatus {
        pages, pages_free, files, files_free, file_bytes_max, id, links_max, reserved,
    });
    layout!(tables, file::DriveKey { secret, epoch, reserved });
    layout!(tables, file::Claims {
        session, guest, uid, gid, group_count, rights, epoch, not_before_ns, expires_ns, nonce, reserved,
    });
    layout!(tables, file::VectorHead {
        version, steps, buffer_bytes, waited_ns, computed_ns, moved_ns, queued, reserved,
    });
    layout!(tables, file::VectorPlace { name, offset, bytes });
    layout!(tables, file::VectorStep {
        function, from_kind, to_kind, flags, count, argument_offset, argument_bytes, from, to,
    });
    layout!(tables, file::StepOutcome { errno, kept, value, taken, made, offset });
    layout!(tables, file::FileLock { first, last, owner, session, state, is_own });
    layout!(tables, file::DirectoryHead { entries, is_end, bytes, reserved });
    layout!(tables, file::DirectoryRow { cookie, number, kind, name_bytes, reserved });
}

/// The cells of a row, without the backquotes around names.
fn cells(line: &str) -> Vec<&str> {
    let inner = line.trim_start_matches('|').trim_end_matches('|');
    inner
        .split('|')
        .map(|cell| cell.trim().trim_matches('`'))
        .collect()
}

/// One row of a table of `kind`, in the form of the rows from the code.
fn document_row(kind: &str, line: &str) -> String {
    let cells = cells(line);
    if kind == "values" {
        let &[value, name, meaning] = cells.as_slice() else {
            panic!("not 3 columns: {line}")
        };
        let value = u64::from_str_radix(value.strip_suffix('h').unwrap_or("not hex"), 16);
        let value = value.unwrap_or_else(|error| panic!("value of {line}: {error}"));
        assert!(!meaning.is_empty(), "no meaning: {line}");
        return format!("{value:x} | {name}");
    }
    let &[first, second, name, meaning] = cells.as_slice() else {
        panic!("not 4 columns: {line}")
    };
    assert!(
        name == "reserved" || !meaning.is_empty(),
        "no meaning: {line}"
    );
    format!("{first} | {second} | {name}")
}

fn header(kind: &str) -> [&'static str; 2] {
    match kind {
        "layout" => ["| Offset | Size | Field | Meaning |", "|---:|---:|---|---|"],
        "bits" => ["| Dword | Bits | Field | Meaning |", "|---:|---:|---|---|"],
        "values" => ["| Value | Name | Meaning |", "|---:|---|---|"],
        _ => panic!("no such kind of table: {kind}"),
    }
}

fn tables_of_the_document(text: &str) -> Tables {
    let mut tables = Tables::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        assert!(
            !line.starts_with('|'),
            "a table without announcement: {line}"
        );
        let Some(name) = line
            .strip_prefix("<!-- ")
            .and_then(|l| l.strip_suffix(" -->"))
        else {
            continue;
        };
        let (kind, _) = name.split_once(' ').unwrap_or((name, ""));
        let top = [lines.next(), lines.next(), lines.next()];
        let [head, rule] = header(kind);
        assert_eq!(
            top,
            [Some(""), Some(head), Some(rule)],
            "the head of table {name}"
        );
        let rows = lines.by_ref().take_while(|line| line.starts_with('|'));
        let rows = rows.map(|line| document_row(kind, line)).collect();
        assert!(
            tables.insert(name.to_owned(), rows).is_none(),
            "table {name} stands twice"
        );
    }
    tables
}

fn document() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/command-set.md");
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn the_document_and_the_code_say_the_same() {
    let code = tables_of_the_code();
    let document = tables_of_the_document(&document());
    let names = |tables: &Tables| tables.keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(
        names(&document),
        names(&code),
        "tables of the document (left), of the code (right)"
    );
    for (name, rows) in &code {
        assert_eq!(
            &document[name], rows,
            "table {name}: document (left), code (right)"
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
            let numbers: Vec<_> = row
                .split(" | ")
                .take(2)
                .map(|n| n.parse::<usize>().unwrap())
                .collect();
            assert_eq!(numbers[0], end, "{name}: {row}");
            end += numbers[1];
        }
        assert_eq!(end, bytes, "{name}");
    }
}

#[test]
fn bit_fields_of_one_structure_do_not_overlap() {
    for (name, rows) in tables_of_the_code() {
        if !name.starts_with("bits ") {
            continue;
        }
        let mut taken = BTreeSet::new();
        for row in rows {
            let (dword, rest) = row.split_once(" | ").unwrap();
            let (high, low) = rest.split_once(" | ").unwrap().0.split_once(':').unwrap();
            let (high, low): (u8, u8) = (high.parse().unwrap(), low.parse().unwrap());
            assert!(
                (low..=high).all(|bit| taken.insert((dword.to_owned(), bit))),
                "{name}: {row}"
            );
        }
    }
}

/// The names that follow `opening` (up to the first character that is not part of a name), in
/// the lines that come right after one that contains `announcement` or its attributes.
fn declared(source: &str, announcement: &str, opening: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut lines = source.lines().map(str::trim);
    while let Some(line) = lines.next() {
        if line != announcement {
            continue;
        }
        let declaration = lines
            .by_ref()
            .find(|l| !l.starts_with('#') && !l.starts_with("//"));
        if let Some(rest) = declaration.and_then(|l| l.strip_prefix(opening)) {
            let end = rest
                .find(|c: char| !c.is_alphanumeric() && c != '_')
                .unwrap_or(rest.len());
            names.push(rest[..end].to_owned());
        }
    }
    names
}

fn sources(folder: &Path, all: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, all);
        } else if path.extension().is_some_and(|e| e == "rs") && !path.ends_with("bits.rs") {
            all.push_str(&std::fs::read_to_string(&path).unwrap());
        }
    }
}

#[test]
fn nothing_on_the_wire_is_missing_from_the_list() {
    let mut source = String::new();
    sources(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
        &mut source,
    );
    let tables = tables_of_the_code();
    let known = |kind: &str, name: &str| {
        tables.keys().any(|table| {
            let mut words = table.split(' ');
            words.next() == Some(kind) && words.next() == Some(name)
        })
    };
    let mut found = 0;
    let declarations = [
        ("layout", "#[repr(C)]", "pub struct "),
        ("bits", "bit_fields! {", "mod "),
        ("values", "wire_enum! {", "pub enum "),
    ];
    for (kind, announcement, opening) in declarations {
        for name in declared(&source, announcement, opening) {
            assert!(
                known(kind, &name),
                "{kind} {name} is not in document_test.rs"
            );
            found += 1;
        }
    }
    assert_eq!(found, tables.len());
}

#[test]
fn a_wrong_table_is_noticed() {
    let text =
        "<!-- values Cns -->\n\n| Value | Name | Meaning |\n|---:|---|---|\n| 0Ah | `X` | y |\n";
    let tables = tables_of_the_document(text);
    assert_eq!(tables["values Cns"], ["a | X"]);
    let code = tables_of_the_code();
    let whole = document();
    let changed = whole.replace("| 12 | 2 | `cid` |", "| 12 | 1 | `cid` |");
    assert_ne!(changed, whole);
    let changed = tables_of_the_document(&changed);
    assert_ne!(
        changed["layout Completion 16"],
        code["layout Completion 16"]
    );
}
