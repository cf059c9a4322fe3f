//! The log of media that live in memory: a list of records under the same limit as a file's.

use super::{MediaError, log_record_bytes};

/// Records in memory; they survive a simulated power cut because the media object does.
#[derive(Debug)]
pub(super) struct MemoryLog {
    records: Vec<Vec<u8>>,
    len: u64,
    capacity: u64,
}

impl MemoryLog {
    pub fn new(capacity: u64) -> Self {
        Self {
            records: Vec::new(),
            len: 0,
            capacity,
        }
    }

    pub fn append(&mut self, record: &[u8]) -> Result<(), MediaError> {
        let wanted = log_record_bytes(record.len());
        if wanted > self.capacity - self.len {
            return Err(MediaError::LogFull {
                len: self.len,
                capacity: self.capacity,
                wanted,
            });
        }
        self.records.push(record.to_vec());
        self.len += wanted;
        Ok(())
    }

    pub fn replace(&mut self, records: &[&[u8]]) -> Result<(), MediaError> {
        let wanted = records
            .iter()
            .map(|record| log_record_bytes(record.len()))
            .sum();
        if wanted > self.capacity {
            return Err(MediaError::LogFull {
                len: 0,
                capacity: self.capacity,
                wanted,
            });
        }
        self.records = records.iter().map(|record| record.to_vec()).collect();
        self.len = wanted;
        Ok(())
    }

    pub fn read(&self) -> Vec<Vec<u8>> {
        self.records.clone()
    }

    pub fn len(&self) -> u64 {
        self.len
    }
}
