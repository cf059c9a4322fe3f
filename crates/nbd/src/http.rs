//! Metrics over HTTP: a page of text for whoever asks for `/metrics`.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use wharf_runtime::sync::{AtomicBool, Ordering};
use wharf_runtime::worker::Worker;

use crate::metrics::Metrics;
use crate::wait::{Bell, Interest, wait};

/// Longest request that is read, in bytes.
const REQUEST_BYTES_MAX: usize = 4096;
/// How long who asks may take to ask, and to take the answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// A thread that answers. Dropping it ends it.
pub struct MetricsServer {
    stop: Arc<(AtomicBool, Bell)>,
    address: String,
    _thread: Option<Worker>,
}

impl MetricsServer {
    /// Answers at an address, `HOST:PORT`.
    ///
    /// # Errors
    /// If the address cannot be had.
    pub fn start(address: &str, metrics: Arc<Metrics>) -> io::Result<MetricsServer> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?.to_string();
        let stop = Arc::new((AtomicBool::new(false), Bell::new()?));
        let of_thread = stop.clone();
        let body = move || serve(&listener, &metrics, &of_thread);
        Ok(MetricsServer {
            stop,
            address,
            _thread: Some(Worker::spawn("metrics", body)?),
        })
    }

    /// Where it answers.
    pub fn address(&self) -> &str {
        &self.address
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        self.stop.0.store(true, Ordering::Release);
        self.stop.1.ring();
    }
}

fn serve(listener: &TcpListener, metrics: &Metrics, stop: &(AtomicBool, Bell)) {
    while !stop.0.load(Ordering::Acquire) {
        let mut set = [
            Interest::Read.on(listener.as_raw_fd()),
            Interest::Read.on(stop.1.descriptor()),
        ];
        wait(&mut set, None).expect("a listener can be waited for");
        if let Ok((stream, _)) = listener.accept() {
            // Who asks and goes has no answer.
            let _ = answer(stream, metrics);
        }
    }
}

fn answer(mut stream: TcpStream, metrics: &Metrics) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut request = Vec::new();
    let mut part = [0; 1024];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < REQUEST_BYTES_MAX {
        match stream.read(&mut part)? {
            0 => break,
            count => request.extend_from_slice(&part[..count]),
        }
    }
    let (status, body) = match request.starts_with(b"GET /metrics ") {
        true => ("200 OK", metrics.text()),
        false => ("404 Not Found", "ask for /metrics\n".to_string()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
}
