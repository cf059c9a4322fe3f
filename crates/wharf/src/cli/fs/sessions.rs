//! `wharf fs sessions`: which processes use a drive that is served, and sending them away.

use std::path::PathBuf;

use serde_json::json;
use wharf_wire::file::{ACTS_FOR_OTHERS, READS_ONLY, Revoke};

use super::{Failure, input, print};
use crate::store::{SessionRow, new_key, now_ns, revoke, sessions};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The socket of `wharf serve drive`.
    socket: PathBuf,
    /// Takes this session back: what it has open is closed, and the drive does nothing for it any more.
    #[arg(long, value_name = "NUMBER", conflicts_with = "revoke_user")]
    revoke: Option<u64>,
    /// Takes back all sessions of this user. Who still gets at the socket may come again.
    #[arg(long, value_name = "UID")]
    revoke_user: Option<u32>,
    /// Gives the drive a new key. Sessions go on until their claims expire.
    #[arg(long)]
    new_key: bool,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let failed = |error: std::io::Error| input(format!("{}: {error}", args.socket.display()));
    if let Some(session) = args.revoke {
        revoke(&args.socket, Revoke::Session, session).map_err(failed)?;
    }
    if let Some(uid) = args.revoke_user {
        revoke(&args.socket, Revoke::User, uid.into()).map_err(failed)?;
    }
    if args.new_key {
        new_key(&args.socket).map_err(failed)?;
    }
    if args.revoke.is_some() || args.revoke_user.is_some() || args.new_key {
        return Ok(());
    }
    let rows = sessions(&args.socket).map_err(failed)?;
    match args.json {
        true => {
            let rows: Vec<_> = rows.iter().map(row).collect();
            print(&serde_json::to_string_pretty(&rows).expect("plain data"));
        }
        false => table(&rows),
    }
    Ok(())
}

fn table(rows: &[SessionRow]) {
    print(&format!(
        "{:>8} {:>8} {:>8} {:>8} {:>12}  rights",
        "session", "process", "user", "group", "expires in s"
    ));
    for row in rows {
        let left_s = row.expires_ns.saturating_sub(now_ns()) / 1_000_000_000;
        print(&format!(
            "{:>8} {:>8} {:>8} {:>8} {left_s:>12}  {}",
            row.session,
            row.process,
            row.uid,
            row.gid,
            rights(row.rights)
        ));
    }
}

fn row(row: &SessionRow) -> serde_json::Value {
    json!({
        "session": row.session,
        "process": row.process,
        "uid": row.uid,
        "gid": row.gid,
        "expires_ns": row.expires_ns,
        "acts_for_others": row.rights & ACTS_FOR_OTHERS != 0,
        "reads_only": row.rights & READS_ONLY != 0,
    })
}

fn rights(rights: u32) -> String {
    let who = match rights & ACTS_FOR_OTHERS {
        0 => "its own",
        _ => "any user's",
    };
    match rights & READS_ONLY {
        0 => who.into(),
        _ => format!("{who}, to read"),
    }
}
