//! What features add: files for tasks, `Bytes`, statistics for a recorder.

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::{Buf, Bytes};
use metrics_exporter_prometheus::PrometheusBuilder;
use wharf_cache::{AsyncFile, PageCacheError, Storage, WaitingThreads};
use wharf_runtime::Seed;

use crate::{PAGE, create, fill, small};

/// Storage whose reads wait until they are let go.
struct Gated(Mutex<Receiver<()>>);

impl Storage for Gated {
    fn name(&self) -> String {
        "gated".into()
    }

    fn len(&self) -> io::Result<u64> {
        Ok(4 * PAGE as u64)
    }

    fn read_exact_at(&self, buf: &mut [u8], _: u64) -> io::Result<()> {
        let gate = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Long enough that it is never reached where tasks go on.
        let let_go = gate.recv_timeout(Duration::from_secs(60));
        let_go.map_err(|_| io::Error::from(ErrorKind::TimedOut))?;
        buf.fill(7);
        Ok(())
    }
}

/// On one thread: the task that lets a read go runs while another one waits for that read.
#[tokio::test(flavor = "current_thread")]
async fn a_task_that_waits_for_storage_holds_up_no_other() {
    let (let_go, gate): (Sender<()>, _) = channel();
    let cache = small(16);
    let file = cache.open_storage(Arc::new(Gated(gate.into())), 1).unwrap();
    let file = AsyncFile::new(file, &WaitingThreads::new(2).unwrap());
    let mut out = [0; 10];
    let read = file.read_exact_at(&mut out, 5);
    let release = async {
        // As many as reading ahead may need, too.
        (0..8).for_each(|_| let_go.send(()).unwrap());
    };
    let (read, ()) = tokio::join!(read, release);
    read.unwrap();
    assert_eq!(out, [7; 10]);
    let past = file.read_exact_at(&mut out, 4 * PAGE as u64 - 1).await;
    assert!(matches!(past, Err(PageCacheError::UnexpectedEof { .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_share_a_file_and_each_finds_what_it_wrote() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let cache = small(32);
    let threads = WaitingThreads::new(2).unwrap();
    let file = AsyncFile::new(create(&cache, &path), &threads);
    let part = 20 * PAGE as u64;
    let tasks: Vec<_> = (0..6)
        .map(|task| {
            let file = file.clone();
            tokio::spawn(async move {
                let (mut rng, first) = (Seed(9).index(task).rng(), task * part);
                let mut model = vec![0; part as usize];
                file.write_all_at(model.clone(), first).await.unwrap();
                for _ in 0..60 {
                    let at = rng.below(part - 9_000) as usize;
                    let mut data = vec![0; rng.below(9_000) as usize];
                    let offset = first + at as u64;
                    if rng.chance(1, 2) {
                        fill(&mut rng, &mut data);
                        model[at..at + data.len()].copy_from_slice(&data);
                        file.write_all_at(Bytes::from(data), offset).await.unwrap();
                    } else {
                        file.read_exact_at(&mut data, offset).await.unwrap();
                        assert!(data == model[at..at + data.len()], "task {task} at {at}");
                    }
                }
                model
            })
        })
        .collect();
    let mut models = Vec::new();
    for task in tasks {
        models.extend(task.await.unwrap());
    }
    let read = file.read_bytes_at(usize::MAX, 0).await.unwrap();
    assert!(read == models, "all of the file");
    file.set_len(5).await.unwrap();
    file.sync_data().await.unwrap();
    assert_eq!((file.len(), file.is_empty()), (5, false));
    file.close().await.unwrap();
    assert!(std::fs::read(&path).unwrap() == models[..5]);
}

#[test]
fn bytes_are_read_and_written_in_chunks() {
    let folder = tempfile::tempdir().unwrap();
    let cache = small(16);
    let file = create(&cache, &folder.path().join("file"));
    let mut chunks = Bytes::from_static(b"one, ").chain(Bytes::from_static(b"two"));
    file.write_buf_at(&mut chunks, 3).unwrap();
    assert_eq!(chunks.remaining(), 0);
    assert_eq!(file.read_bytes_at(usize::MAX, 3).unwrap(), "one, two");
    assert_eq!(file.read_bytes_at(3, 4).unwrap(), "ne,");
    assert!(file.read_bytes_at(5, u64::MAX).unwrap().is_empty());
    let mut beyond = Bytes::from_static(b"x");
    file.write_buf_at(&mut beyond, u64::MAX).unwrap_err();
    assert_eq!(beyond, "x");
}

#[test]
fn a_recorder_gets_what_the_cache_counted() {
    let folder = tempfile::tempdir().unwrap();
    // So many pages that two dirty ones are left alone.
    let cache = small(64);
    let file = create(&cache, &folder.path().join("file"));
    file.write_all_at(&[7; 2 * PAGE], 0).unwrap();
    file.read_exact_at(&mut [0; 100], 0).unwrap();
    let recorder = PrometheusBuilder::new().build_recorder();
    let page = recorder.handle();
    metrics::with_local_recorder(&recorder, || {
        cache.record_metrics("one");
        // Counters are what they are, and not added up.
        cache.record_metrics("one");
    });
    let page = page.render();
    for line in [
        "wharf_cache_reads_total{cache=\"one\"} 1",
        "wharf_cache_writes_total{cache=\"one\"} 1",
        "wharf_cache_pages_total{cache=\"one\"} 3",
        "wharf_cache_hits_total{cache=\"one\"} 1",
        "wharf_cache_dirty_pages{cache=\"one\"} 2",
        "# TYPE wharf_cache_evictions_total counter",
    ] {
        assert!(page.lines().any(|found| found == line), "{line} in {page}");
    }
}
