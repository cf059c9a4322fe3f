//! Requests beyond the end of the device: refused, wrapped or scaled, and counted.
//!
//! * **Error**: the first request beyond the device stops the run.
//! * **Wrap**: the offset is taken modulo the device. Reuse within a region is kept; regions a device apart
//!   fall on one another. A request that would then cross the end is moved back to end there.
//! * **Scale**: page numbers are multiplied by device / span, the place within the page kept. The order of
//!   addresses is kept; neighbouring pages fall together and sequential requests overlap.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::WorkloadError;
use crate::nearest::nearest;
use crate::request::{Op, PAGE_BYTES, Request};

/// What to do with requests beyond the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FitMode {
    /// Refuse the workload.
    #[default]
    Error,
    /// Offset modulo device.
    Wrap,
    /// Page number times device / span; every request if the span exceeds the device, else none.
    Scale,
}

impl FromStr for FitMode {
    type Err = WorkloadError;

    fn from_str(name: &str) -> Result<FitMode, WorkloadError> {
        match name {
            "error" => Ok(FitMode::Error),
            "wrap" => Ok(FitMode::Wrap),
            "scale" => Ok(FitMode::Scale),
            _ => Err(WorkloadError::BadParameter {
                parameter: "fit",
                reason: format!(
                    "no mode \"{name}\"; nearest is \"{}\" (error, wrap, scale)",
                    nearest(name, ["error", "wrap", "scale"].into_iter())
                ),
            }),
        }
    }
}

/// Maps requests onto a device and counts those it moved.
#[derive(Debug, Clone)]
pub struct Fit {
    mode: FitMode,
    device_bytes: u64,
    /// Pages of the device and of the workload's address space, where scaling is needed.
    scale: Option<(u64, u64)>,
    seen: u64,
    moved: u64,
}

impl Fit {
    /// `span_bytes`: the end of the workload's address space (only `Scale` needs it; a request beyond
    /// it is an error).
    ///
    /// # Errors
    /// The device is smaller than a page.
    pub fn new(mode: FitMode, device_bytes: u64, span_bytes: u64) -> Result<Fit, WorkloadError> {
        let device_pages = device_bytes / PAGE_BYTES;
        if device_pages == 0 {
            return Err(WorkloadError::BadParameter {
                parameter: "device size",
                reason: format!("{device_bytes} bytes is less than a page of {PAGE_BYTES}"),
            });
        }
        let needed = mode == FitMode::Scale && span_bytes > device_bytes;
        let scale = needed.then(|| (device_pages, span_bytes.div_ceil(PAGE_BYTES)));
        // A page cut off at the end of the device is not used.
        let device_bytes = device_pages * PAGE_BYTES;
        Ok(Fit {
            mode,
            device_bytes,
            scale,
            seen: 0,
            moved: 0,
        })
    }

    /// The request within the device.
    ///
    /// # Errors
    /// It is beyond the device and the mode is `Error`; or it is larger than the whole device. (A discard is cut to
    /// that instead.)
    pub fn map(&mut self, mut request: Request) -> Result<Request, WorkloadError> {
        let index = self.seen;
        self.seen += 1;
        if self.mode != FitMode::Error && request.op == Op::Discard {
            // That of a larger device as a whole is that of this one.
            let most = u32::try_from(self.device_bytes).unwrap_or(u32::MAX);
            request.bytes = request.bytes.min(most);
        }
        let bytes = u64::from(request.bytes);
        let inside = request.end() <= self.device_bytes;
        if inside && self.scale.is_none() {
            return Ok(request);
        }
        let device_bytes = self.device_bytes;
        if bytes > device_bytes {
            let bytes = request.bytes;
            return Err(WorkloadError::LargerThanDevice {
                index,
                bytes,
                device_bytes,
            });
        }
        let beyond = WorkloadError::BeyondDevice {
            index,
            end: request.end(),
            device_bytes,
        };
        let offset = match (self.mode, self.scale) {
            (FitMode::Wrap, _) => request.offset % device_bytes,
            (FitMode::Scale, Some((device_pages, span_pages)))
                if request.offset / PAGE_BYTES < span_pages =>
            {
                let page = u128::from(request.offset / PAGE_BYTES) * u128::from(device_pages);
                (page / u128::from(span_pages)) as u64 * PAGE_BYTES + request.offset % PAGE_BYTES
            }
            _ => return Err(beyond),
        };
        let offset = offset.min(device_bytes - bytes);
        self.moved += u64::from(offset != request.offset);
        Ok(Request { offset, ..request })
    }

    /// Requests seen so far.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// Requests that now lie elsewhere than the workload says.
    pub fn moved(&self) -> u64 {
        self.moved
    }

    /// One line for the report; `None` if nothing was moved.
    pub fn summary(&self) -> Option<String> {
        let how = match self.mode {
            FitMode::Error => return None,
            FitMode::Wrap => "wrapped onto",
            FitMode::Scale => "scaled to",
        };
        (self.moved > 0).then(|| {
            format!(
                "{} of {} requests {how} the device of {} bytes",
                self.moved, self.seen, self.device_bytes
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEVICE: u64 = 100 * PAGE_BYTES;

    fn at(offset: u64, bytes: u32) -> Request {
        Request::new(Op::Read, offset, bytes)
    }

    #[test]
    fn error_names_the_request() {
        let mut fit = Fit::new(FitMode::Error, DEVICE, 0).unwrap();
        assert!(fit.map(at(DEVICE - 4096, 4096)).is_ok());
        let error = fit.map(at(DEVICE - 4095, 4096)).unwrap_err();
        assert!(
            matches!(error, WorkloadError::BeyondDevice { index: 1, .. }),
            "{error}"
        );
        assert_eq!((fit.seen(), fit.moved(), fit.summary()), (2, 0, None));
    }

    #[test]
    fn wrap_keeps_what_fits_and_moves_the_rest() {
        let mut fit = Fit::new(FitMode::Wrap, DEVICE + 100, 0).unwrap();
        let mut map = |offset, bytes| fit.map(at(offset, bytes)).unwrap().offset;
        assert_eq!(map(4096, 512), 4096);
        assert_eq!(map(7 * DEVICE + 512, 512), 512);
        assert_eq!(map(2 * DEVICE - 4096, 8192), DEVICE - 8192);
        assert!(matches!(
            fit.map(at(0, 1 << 20)),
            Err(WorkloadError::LargerThanDevice { .. })
        ));
        // A discard of a larger device is one of all of this.
        let all = fit.map(Request::new(Op::Discard, 5 * DEVICE, 1 << 30));
        let all = all.unwrap();
        assert_eq!((all.offset, u64::from(all.bytes)), (0, DEVICE));
        assert_eq!(fit.moved(), 3);
        assert!(
            fit.summary()
                .unwrap()
                .starts_with("3 of 5 requests wrapped")
        );
    }

    #[test]
    fn scale_keeps_order_and_alignment_and_leaves_a_small_workload_alone() {
        let mut fit = Fit::new(FitMode::Scale, DEVICE, 10 * DEVICE).unwrap();
        let mut map = |offset| fit.map(at(offset, 4096)).unwrap().offset;
        assert_eq!(map(0), 0);
        assert_eq!(map(5 * DEVICE + 512), DEVICE / 2 + 512);
        assert_eq!(map(10 * DEVICE - 4096), DEVICE - 4096);
        assert!(fit.map(at(10 * DEVICE, 4096)).is_err());
        let mut fit = Fit::new(FitMode::Scale, DEVICE, DEVICE).unwrap();
        assert_eq!(fit.map(at(4096, 4096)).unwrap(), at(4096, 4096));
    }
}
