//! The handshake: bytes in, bytes out, and in the end what was agreed on.
//!
//! Nothing here does I/O. The caller feeds what the client sent and sends what is in the output:
//!
//! 1. [`Negotiation::greeting`] is what the server says first.
//! 2. [`Negotiation::advance`] takes as many whole options as the input has, and answers each.
//! 3. It stops with a [`Step`] when the handshake has ended, well or not, or when encryption is to begin.
//!
//! What was agreed on before encryption counts for nothing afterwards, and bytes that came before it
//! in clear are refused: an attacker in between could have put them there.

use zerocopy::byteorder::network_endian::{U16, U32, U64};
use zerocopy::{FromBytes, IntoBytes};

use crate::export::ExportInfo;
use crate::limits::{OPTION_BYTES_MAX, OPTION_SKIP_BYTES_MAX, OPTIONS_MAX, REQUEST_BYTES_MAX};
use crate::proto::{
    BASE_ALLOCATION, BASE_ALLOCATION_ID, EXPORT_NAME_PADDING, FIXED_NEWSTYLE, GREETING_MAGIC,
    Greeting, NO_ZEROES, OPTION_MAGIC, OPTION_REPLY_MAGIC, OptionHeader, OptionReply,
    STRING_BYTES_MAX, export_flag, info, option, option_reply,
};

/// Whether connections are encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tls {
    /// Never.
    #[default]
    Off,
    /// If the client asks for it.
    Offered,
    /// Nothing is told without.
    Required,
}

/// What client and server agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Agreed {
    /// Replies come in chunks.
    pub structured: bool,
    /// Requests and chunks have 64-bit lengths; implies `structured`.
    pub extended: bool,
    /// The client wants to know where there is data.
    pub allocation: bool,
}

/// Why a connection ends in the handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The client's flags are not known.
    #[error("unknown client flags")]
    Flags,
    /// Not what an option begins with.
    #[error("wrong magic of an option")]
    Magic,
    /// Far too long an option.
    #[error("an option is too long")]
    TooLong,
    /// Too many options.
    #[error("too many options")]
    TooMany,
    /// `EXPORT_NAME` of an export that is not there, which has no error reply.
    #[error("no such export")]
    NoExport,
    /// An option without the fixed protocol, which alone has error replies.
    #[error("an option that an old client cannot get a reply to")]
    OldClient,
    /// Bytes in clear after encryption was asked for.
    #[error("bytes in clear before encryption")]
    Injection,
}

/// Where the handshake stands when [`Negotiation::advance`] returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// It wants more bytes.
    More,
    /// Encryption begins, after the output was sent.
    StartTls,
    /// It has ended with the export; what follows in the input are requests.
    Transmission(Agreed),
    /// The client went, politely; the output is still to be sent.
    Abort,
    /// The connection is closed.
    Refused(Refusal),
}

/// See the module.
#[derive(Debug)]
pub struct Negotiation<'a> {
    export: &'a ExportInfo,
    tls: Tls,
    encrypted: bool,
    /// The client's flags, once they are there.
    client: Option<u16>,
    agreed: Agreed,
    /// Whose contexts were chosen.
    context_of: Option<Vec<u8>>,
    options: u32,
    /// Bytes of an option that are dropped, and what is answered then.
    skip: Option<(u64, u32)>,
}

/// An error that an option is answered with.
type Failed = (u32, &'static str);

impl<'a> Negotiation<'a> {
    /// A handshake about one export.
    pub fn new(export: &'a ExportInfo, tls: Tls) -> Negotiation<'a> {
        Negotiation {
            export,
            tls,
            encrypted: false,
            client: None,
            agreed: Agreed::default(),
            context_of: None,
            options: 0,
            skip: None,
        }
    }

    /// What the server says first.
    pub fn greeting(out: &mut Vec<u8>) {
        let greeting = Greeting {
            magic: U64::new(GREETING_MAGIC),
            option_magic: U64::new(OPTION_MAGIC),
            flags: U16::new(FIXED_NEWSTYLE | NO_ZEROES),
        };
        out.extend_from_slice(greeting.as_bytes());
    }

    /// Says that the connection is encrypted from now on: whatever was agreed on counts no more.
    pub fn encrypted(&mut self) {
        self.encrypted = true;
        self.agreed = Agreed::default();
        self.context_of = None;
    }

    /// Takes options from `input` and writes their replies to `out`. Gives how many bytes it took.
    pub fn advance(&mut self, input: &[u8], out: &mut Vec<u8>) -> (usize, Step) {
        let mut taken = 0;
        loop {
            let (count, step) = self.take(&input[taken..], out);
            taken += count;
            match step {
                Some(Step::StartTls) if taken < input.len() => {
                    return (taken, Step::Refused(Refusal::Injection));
                }
                Some(step) => return (taken, step),
                None if count == 0 => return (taken, Step::More),
                None => {}
            }
        }
    }

    /// One step: how many bytes it took, and whether that ends it.
    fn take(&mut self, input: &[u8], out: &mut Vec<u8>) -> (usize, Option<Step>) {
        let refused = |why| (0, Some(Step::Refused(why)));
        if let Some((left, option)) = &mut self.skip {
            let count = (input.len() as u64).min(*left);
            *left -= count;
            if *left == 0 {
                reply(
                    out,
                    *option,
                    option_reply::ERR_TOO_BIG,
                    b"the option is too long",
                );
                self.skip = None;
            }
            return (count as usize, None);
        }
        let Some(client) = self.client else {
            let Ok((flags, _)) = U32::read_from_prefix(input) else {
                return (0, None);
            };
            let known = u32::from(FIXED_NEWSTYLE | NO_ZEROES);
            if flags.get() & !known != 0 {
                return refused(Refusal::Flags);
            }
            self.client = Some(flags.get() as u16);
            return (4, None);
        };
        let Ok((header, rest)) = OptionHeader::read_from_prefix(input) else {
            return (0, None);
        };
        if header.magic.get() != OPTION_MAGIC {
            return refused(Refusal::Magic);
        }
        let (number, len) = (header.option.get(), header.len.get() as usize);
        if client & FIXED_NEWSTYLE == 0 && number != option::EXPORT_NAME {
            return refused(Refusal::OldClient);
        }
        if len > OPTION_BYTES_MAX {
            if number == option::EXPORT_NAME || len as u64 > OPTION_SKIP_BYTES_MAX {
                return refused(Refusal::TooLong);
            }
            self.skip = Some((len as u64, number));
            return (size_of::<OptionHeader>(), None);
        }
        let Some(data) = rest.get(..len) else {
            return (0, None);
        };
        self.options += 1;
        if self.options > OPTIONS_MAX {
            return refused(Refusal::TooMany);
        }
        (
            size_of::<OptionHeader>() + len,
            self.option(number, data, out),
        )
    }

    /// Answers one option.
    fn option(&mut self, number: u32, data: &[u8], out: &mut Vec<u8>) -> Option<Step> {
        if number == option::ABORT {
            reply(out, number, option_reply::ACK, b"");
            return Some(Step::Abort);
        }
        if self.tls == Tls::Required && !self.encrypted && number != option::STARTTLS {
            if number == option::EXPORT_NAME {
                return Some(Step::Refused(Refusal::NoExport));
            }
            let text = b"this server wants TLS first";
            reply(out, number, option_reply::ERR_TLS_REQD, text);
            return None;
        }
        let done = match number {
            option::EXPORT_NAME => return Some(self.export_name(data, out)),
            option::LIST => self.list(data, out),
            option::STARTTLS => self.start_tls(data),
            option::INFO | option::GO => self.info(number, data, out),
            option::STRUCTURED_REPLY => self.structured(data),
            option::EXTENDED_HEADERS => self.extended(data),
            option::LIST_META_CONTEXT => list_contexts(self, data, out),
            option::SET_META_CONTEXT => self.set_contexts(data, out),
            _ => Err((
                option_reply::ERR_UNSUP,
                "this server does not know the option",
            )),
        };
        match done {
            Ok(()) => reply(out, number, option_reply::ACK, b""),
            Err((kind, text)) => {
                reply(out, number, kind, text.as_bytes());
                return None;
            }
        }
        match number {
            option::STARTTLS => Some(Step::StartTls),
            option::GO => Some(Step::Transmission(self.agreed)),
            _ => None,
        }
    }

    /// Whether the export has this name, or the client gave none.
    fn is_named(&self, name: &[u8]) -> bool {
        name.is_empty() || name == self.export.name.as_bytes()
    }

    /// The flags of the export as this client may use them.
    fn flags(&self) -> u16 {
        export_flags(self.export, self.agreed)
    }

    fn export_name(&mut self, name: &[u8], out: &mut Vec<u8>) -> Step {
        if !self.is_named(name) {
            return Step::Refused(Refusal::NoExport);
        }
        self.forget_contexts_of_others(name);
        out.extend_from_slice(&self.export.size_bytes.to_be_bytes());
        out.extend_from_slice(&self.flags().to_be_bytes());
        if self.client.is_some_and(|flags| flags & NO_ZEROES == 0) {
            out.resize(out.len() + EXPORT_NAME_PADDING, 0);
        }
        Step::Transmission(self.agreed)
    }

    fn list(&self, data: &[u8], out: &mut Vec<u8>) -> Result<(), Failed> {
        no_data(data)?;
        let name = self.export.name.as_bytes();
        let mut entry = (name.len() as u32).to_be_bytes().to_vec();
        entry.extend_from_slice(name);
        entry.extend_from_slice(self.export.description.as_bytes());
        reply(out, option::LIST, option_reply::SERVER, &entry);
        Ok(())
    }

    fn start_tls(&self, data: &[u8]) -> Result<(), Failed> {
        no_data(data)?;
        match self.tls {
            Tls::Off => Err((option_reply::ERR_UNSUP, "this server has no TLS")),
            _ if self.encrypted => Err((option_reply::ERR_INVALID, "TLS is on already")),
            _ => Ok(()),
        }
    }

    fn structured(&mut self, data: &[u8]) -> Result<(), Failed> {
        no_data(data)?;
        if self.agreed.extended {
            return Err((
                option_reply::ERR_EXT_HEADER_REQD,
                "extended headers are on already",
            ));
        }
        self.agreed.structured = true;
        Ok(())
    }

    fn extended(&mut self, data: &[u8]) -> Result<(), Failed> {
        no_data(data)?;
        if self.agreed.extended {
            return Err((option_reply::ERR_INVALID, "extended headers are on already"));
        }
        (self.agreed.extended, self.agreed.structured) = (true, true);
        Ok(())
    }

    fn info(&mut self, number: u32, data: &[u8], out: &mut Vec<u8>) -> Result<(), Failed> {
        let mut fields = Fields(data);
        let name = fields.string()?;
        let count = fields.u16()?;
        let asked = fields.0;
        if asked.len() != 2 * usize::from(count) {
            return Err(MALFORMED);
        }
        if !self.is_named(name) {
            return Err((option_reply::ERR_UNKNOWN, "there is no such export"));
        }
        if number == option::GO {
            self.forget_contexts_of_others(name);
        }
        let mut fact = info::EXPORT.to_be_bytes().to_vec();
        fact.extend_from_slice(&self.export.size_bytes.to_be_bytes());
        fact.extend_from_slice(&self.flags().to_be_bytes());
        reply(out, number, option_reply::INFO, &fact);
        let mut blocks = info::BLOCK_SIZE.to_be_bytes().to_vec();
        for bytes in [
            self.export.block_bytes_min,
            self.export.block_bytes_preferred,
            REQUEST_BYTES_MAX,
        ] {
            blocks.extend_from_slice(&bytes.to_be_bytes());
        }
        reply(out, number, option_reply::INFO, &blocks);
        for (kind, text) in [
            (info::NAME, &self.export.name),
            (info::DESCRIPTION, &self.export.description),
        ] {
            if asked.chunks_exact(2).any(|one| one == kind.to_be_bytes()) && !text.is_empty() {
                let fact = [&kind.to_be_bytes(), text.as_bytes()].concat();
                reply(out, number, option_reply::INFO, &fact);
            }
        }
        Ok(())
    }

    fn set_contexts(&mut self, data: &[u8], out: &mut Vec<u8>) -> Result<(), Failed> {
        (self.agreed.allocation, self.context_of) = (false, None);
        let (name, queries) = self.queries(data)?;
        if queries.contains(&BASE_ALLOCATION.as_bytes()) && self.export.can.status {
            context(out, option::SET_META_CONTEXT, BASE_ALLOCATION_ID);
            self.agreed.allocation = true;
            self.context_of = Some(name.to_vec());
        }
        Ok(())
    }

    /// Name and queries of an option about metadata contexts.
    fn queries<'d>(&self, data: &'d [u8]) -> Result<(&'d [u8], Vec<&'d [u8]>), Failed> {
        if !self.agreed.structured {
            let text = "structured replies come first";
            return Err((option_reply::ERR_INVALID, text));
        }
        let mut fields = Fields(data);
        let name = fields.string()?;
        let count = fields.u32()?;
        // Each takes 4 bytes at least, so that the data bounds the work.
        let mut queries = Vec::new();
        for _ in 0..count {
            queries.push(fields.string()?);
        }
        if !fields.0.is_empty() {
            return Err(MALFORMED);
        }
        if !self.is_named(name) {
            return Err((option_reply::ERR_UNKNOWN, "there is no such export"));
        }
        Ok((name, queries))
    }

    /// Contexts count for the export by whose name they were chosen.
    fn forget_contexts_of_others(&mut self, name: &[u8]) {
        if self.context_of.as_deref() != Some(name) {
            self.agreed.allocation = false;
        }
    }
}

/// The flags of an export for a client that agreed on this.
pub fn export_flags(export: &ExportInfo, agreed: Agreed) -> u16 {
    let can = export.can;
    let mut flags = export_flag::HAS_FLAGS;
    for (set, flag) in [
        (!can.write, export_flag::READ_ONLY),
        (can.flush, export_flag::SEND_FLUSH | export_flag::SEND_FUA),
        (can.trim && can.write, export_flag::SEND_TRIM),
        (can.zero && can.write, export_flag::SEND_WRITE_ZEROES),
        (
            can.fast_zero && can.zero && can.write,
            export_flag::SEND_FAST_ZERO,
        ),
        (can.cache, export_flag::SEND_CACHE),
        (can.multi_conn, export_flag::CAN_MULTI_CONN),
        (agreed.structured, export_flag::SEND_DF),
    ] {
        if set {
            flags |= flag;
        }
    }
    flags
}

fn list_contexts(by: &Negotiation<'_>, data: &[u8], out: &mut Vec<u8>) -> Result<(), Failed> {
    let (_, queries) = by.queries(data)?;
    let asked = |query: &&[u8]| [b"base:", BASE_ALLOCATION.as_bytes()].contains(query);
    if by.export.can.status && (queries.is_empty() || queries.iter().any(asked)) {
        context(out, option::LIST_META_CONTEXT, 0);
    }
    Ok(())
}

/// Names the one context.
fn context(out: &mut Vec<u8>, number: u32, id: u32) {
    let data = [&id.to_be_bytes(), BASE_ALLOCATION.as_bytes()].concat();
    reply(out, number, option_reply::META_CONTEXT, &data);
}

fn reply(out: &mut Vec<u8>, option: u32, kind: u32, data: &[u8]) {
    let header = OptionReply {
        magic: U64::new(OPTION_REPLY_MAGIC),
        option: U32::new(option),
        kind: U32::new(kind),
        len: U32::new(data.len() as u32),
    };
    out.extend_from_slice(header.as_bytes());
    out.extend_from_slice(data);
}

const MALFORMED: Failed = (option_reply::ERR_INVALID, "the option's data is malformed");

fn no_data(data: &[u8]) -> Result<(), Failed> {
    match data {
        [] => Ok(()),
        _ => Err((option_reply::ERR_INVALID, "the option has no data")),
    }
}

/// The rest of an option's data.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn u16(&mut self) -> Result<u16, Failed> {
        let (number, rest) = U16::read_from_prefix(self.0).map_err(|_| MALFORMED)?;
        self.0 = rest;
        Ok(number.get())
    }

    fn u32(&mut self) -> Result<u32, Failed> {
        let (number, rest) = U32::read_from_prefix(self.0).map_err(|_| MALFORMED)?;
        self.0 = rest;
        Ok(number.get())
    }

    fn string(&mut self) -> Result<&'a [u8], Failed> {
        let len = self.u32()? as usize;
        let (string, rest) = self.0.split_at_checked(len).ok_or(MALFORMED)?;
        if len > STRING_BYTES_MAX {
            return Err((option_reply::ERR_TOO_BIG, "a name has at most 4096 bytes"));
        }
        self.0 = rest;
        Ok(string)
    }
}
