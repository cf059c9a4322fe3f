//! How the devices of a trace become one address space.
//!
//! * **Concatenate**: each stream gets a region of its own, as long as the end of its last request
//!   rounded up to 1 MiB; the regions follow one another in the order of the streams' first requests.
//! * **Overlay**: addresses stay as they are; streams share them. Right for a single device, wrong for
//!   several, since different data then meet at one address.

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::error::WorkloadError;
use crate::request::{ADDRESS_BYTES_MAX, Request};

/// Bytes to whose multiple a region is rounded up.
pub const REGION_BYTES: u64 = 1 << 20;

/// The rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// One region after another.
    #[default]
    Concatenate,
    /// All addresses as they are.
    Overlay,
}

/// One stream of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct StreamExtent {
    /// Its number.
    pub stream: u32,
    /// Its requests.
    pub requests: u64,
    /// First byte that none of them reaches.
    pub end_bytes: u64,
}

/// The streams of a trace in the order of their first requests.
#[derive(Debug, Default)]
pub struct StreamSurvey {
    index: FxHashMap<u32, usize>,
    extents: Vec<StreamExtent>,
    last: usize,
}

impl StreamSurvey {
    /// Counts a request; returns the index of its stream.
    pub fn add(&mut self, request: &Request) -> usize {
        if self
            .extents
            .get(self.last)
            .is_none_or(|extent| extent.stream != request.stream)
        {
            let next = self.extents.len();
            self.last = *self.index.entry(request.stream).or_insert(next);
            if self.last == next {
                let stream = request.stream;
                self.extents.push(StreamExtent {
                    stream,
                    requests: 0,
                    end_bytes: 0,
                });
            }
        }
        let extent = &mut self.extents[self.last];
        extent.requests += 1;
        extent.end_bytes = extent.end_bytes.max(request.end());
        self.last
    }

    /// What was found.
    pub fn extents(&self) -> &[StreamExtent] {
        &self.extents
    }
}

/// Where each stream lies in the one address space.
#[derive(Debug)]
pub struct StreamMap {
    /// First byte of each region, for `Concatenate`.
    base: FxHashMap<u32, u64>,
    span_bytes: u64,
}

impl StreamMap {
    /// Lays out the streams of a survey.
    ///
    /// # Errors
    /// The regions together exceed the address space.
    pub fn new(layout: Layout, extents: &[StreamExtent]) -> Result<StreamMap, WorkloadError> {
        let mut base = FxHashMap::default();
        let mut span_bytes = 0u64;
        for extent in extents {
            match layout {
                Layout::Overlay => span_bytes = span_bytes.max(extent.end_bytes),
                Layout::Concatenate => {
                    base.insert(extent.stream, span_bytes);
                    span_bytes = extent
                        .end_bytes
                        .checked_next_multiple_of(REGION_BYTES)
                        .and_then(|region| region.checked_add(span_bytes))
                        .filter(|&span| span <= ADDRESS_BYTES_MAX)
                        .ok_or(WorkloadError::LayoutOverflow {
                            streams: extents.len(),
                        })?;
                }
            }
        }
        Ok(StreamMap { base, span_bytes })
    }

    /// Bytes of the one address space.
    pub fn span_bytes(&self) -> u64 {
        self.span_bytes
    }

    /// First byte of a stream's region; 0 of one that was not surveyed.
    pub fn base_bytes(&self, stream: u32) -> u64 {
        self.base.get(&stream).copied().unwrap_or(0)
    }

    /// The request at its place; the stream keeps its number. A stream that was not surveyed
    /// stays where it is.
    pub fn map(&self, request: Request) -> Request {
        Request {
            offset: request.offset + self.base_bytes(request.stream),
            ..request
        }
    }
}

/// Puts a whole workload into one address space, in place.
///
/// # Errors
/// The regions together exceed the address space; nothing is changed then.
pub fn place(requests: &mut [Request], layout: Layout) -> Result<StreamMap, WorkloadError> {
    let mut survey = StreamSurvey::default();
    for request in requests.iter() {
        survey.add(request);
    }
    let map = StreamMap::new(layout, survey.extents())?;
    requests
        .iter_mut()
        .for_each(|request| *request = map.map(*request));
    Ok(map)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Op;

    fn requests() -> Vec<Request> {
        let on = |stream, offset| Request {
            stream,
            ..Request::new(Op::Read, offset, 4096)
        };
        vec![on(9, 0), on(2, 8192), on(9, REGION_BYTES), on(2, 0)]
    }

    fn survey() -> StreamSurvey {
        let mut survey = StreamSurvey::default();
        let order: Vec<usize> = requests()
            .iter()
            .map(|request| survey.add(request))
            .collect();
        assert_eq!(order, [0, 1, 0, 1]);
        survey
    }

    #[test]
    fn regions_follow_in_order_of_first_appearance() {
        let survey = survey();
        let map = StreamMap::new(Layout::Concatenate, survey.extents()).unwrap();
        let offsets: Vec<u64> = requests().into_iter().map(|r| map.map(r).offset).collect();
        assert_eq!(
            offsets,
            [0, 2 * REGION_BYTES + 8192, REGION_BYTES, 2 * REGION_BYTES]
        );
        assert_eq!(map.span_bytes(), 3 * REGION_BYTES);
    }

    #[test]
    fn placing_in_place_does_the_same() {
        let mut all = requests();
        let map = place(&mut all, Layout::Concatenate).unwrap();
        let one_by_one: Vec<Request> = requests().into_iter().map(|r| map.map(r)).collect();
        assert_eq!(all, one_by_one);
    }

    #[test]
    fn overlay_changes_nothing() {
        let map = StreamMap::new(Layout::Overlay, survey().extents()).unwrap();
        assert!(
            requests()
                .into_iter()
                .all(|request| map.map(request) == request)
        );
        assert_eq!(map.span_bytes(), REGION_BYTES + 4096);
    }

    #[test]
    fn too_many_large_devices_are_an_error() {
        let extent = |stream| StreamExtent {
            stream,
            requests: 1,
            end_bytes: ADDRESS_BYTES_MAX,
        };
        let error = StreamMap::new(Layout::Concatenate, &[extent(0), extent(1)]).unwrap_err();
        assert!(matches!(
            error,
            WorkloadError::LayoutOverflow { streams: 2 }
        ));
    }
}
