//! Serves memory: `memory SOCKET BYTES [CERTIFICATES]`, until it is killed. What `compare` measures.

use std::sync::Arc;

use wharf_nbd::{Listener, MemoryExport, Server, ServerOptions};

fn main() -> Result<(), String> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, socket, bytes, rest @ ..] = arguments.as_slice() else {
        return Err("give a socket and a size in bytes".into());
    };
    let bytes = bytes.parse().map_err(|error| format!("{bytes}: {error}"))?;
    let listener = Listener::unix(socket.as_ref()).map_err(|error| error.to_string())?;
    let export = MemoryExport::new("", bytes, false)?;
    #[allow(unused_mut)] // without TLS
    let mut options = ServerOptions::new(vec![listener], Arc::new(export));
    #[cfg(feature = "tls")]
    if let [directory] = rest {
        let config = wharf_nbd::tls::TlsConfig::load(directory.as_ref())?;
        options.tls = Some((config, true));
    }
    if !cfg!(feature = "tls") && !rest.is_empty() {
        return Err("this was built without TLS".into());
    }
    let server = Server::start(options)?;
    println!("serving");
    loop {
        std::thread::park();
        let _ = &server;
    }
}
