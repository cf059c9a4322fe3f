//! Compressing a page on its way in and expanding it on its way out.
//!
//! Of whole pages the codec says what they take. A stamp has no bytes to compress: its size is a
//! pure function of it ([`Sizes`]), and the stamp itself is kept. What would not become a granule
//! shorter is kept as it is.

use std::cell::RefCell;

use wharf_codec::{Codec, Compressor, Sizes, TableError};

use crate::config::{CompressionConfig, DriveConfig};
use crate::media::packed::unit::{Content, Form, PACKED_BYTES_MAX};
use crate::media::{PAGE_BYTES, STAMP_BYTES};

/// One core's way of compressing.
pub(super) struct Squeezer {
    codec: Codec,
    /// Borrowed for a call at a time: reads expand while the rest only looks.
    compressor: RefCell<Compressor>,
    sizes: Sizes,
    /// A page that is to be written.
    page: Vec<u8>,
    /// What it has become.
    out: Vec<u8>,
    /// What an extent that is read has kept.
    kept: RefCell<Vec<u8>>,
}

impl Squeezer {
    /// As the configuration says.
    ///
    /// # Errors
    /// A table of sizes that cannot be read.
    ///
    /// # Panics
    /// If the configuration was not checked.
    pub fn new(config: &DriveConfig) -> Result<Squeezer, TableError> {
        let compression: &CompressionConfig = &config.compression;
        let compressor = Compressor::new(compression.codec, compression.level());
        Ok(Squeezer {
            codec: compression.codec,
            compressor: RefCell::new(compressor.expect("the plan checks the codec")),
            sizes: Sizes::new(&compression.sizes.load()?, compression.sizes_seed),
            page: vec![0; config.page_bytes()],
            out: vec![0; PACKED_BYTES_MAX as usize],
            kept: RefCell::new(vec![0; PAGE_BYTES as usize]),
        })
    }

    /// The page that is to be squeezed, to fill.
    pub fn page_mut(&mut self) -> &mut [u8] {
        &mut self.page
    }

    /// True if the page that is to be squeezed holds nothing but zeros.
    pub fn is_zeros(&self) -> bool {
        self.page.iter().all(|byte| *byte == 0)
    }

    /// Compresses the page.
    pub fn squeeze(&mut self) -> Content {
        if self.codec == Codec::None {
            return Content::RAW;
        }
        let bytes = match <[u8; STAMP_BYTES as usize]>::try_from(self.page.as_slice()) {
            Ok(stamp) => Some(self.sizes.page_bytes(u64::from_le_bytes(stamp)) as usize),
            Err(_) => {
                let compressor = self.compressor.get_mut();
                compressor.compress(&self.page, &mut self.out)
            }
        };
        match bytes {
            Some(bytes) if bytes <= PACKED_BYTES_MAX as usize => Content {
                // Of zeros, which are nothing to the model, something must be kept.
                bytes: bytes.max(1) as u16,
                form: Form::Packed,
            },
            _ => Content::RAW,
        }
    }

    /// What is to be kept of the page that was squeezed.
    pub fn squeezed(&self, content: Content) -> &[u8] {
        let bytes = content.stored_bytes(self.page.len());
        match content.form {
            Form::Packed if self.page.len() > STAMP_BYTES as usize => &self.out[..bytes],
            _ => &self.page[..bytes],
        }
    }

    /// How a page of zeros is kept that stands for another: as long as that of this name would be.
    pub fn filler(&self, name: u64) -> Content {
        let bytes = match self.codec {
            Codec::None => PAGE_BYTES,
            _ => self.sizes.page_bytes(name.max(1)),
        };
        Content {
            bytes: bytes.clamp(1, PAGE_BYTES) as u16,
            form: Form::Filler,
        }
    }

    /// Makes a page of what is kept of it; false if that is no page.
    pub fn expand(&self, content: Content, kept: &[u8], out: &mut [u8]) -> bool {
        match content.form {
            Form::Filler => out.fill(0),
            Form::Packed if out.len() > STAMP_BYTES as usize => {
                let mut compressor = self.compressor.borrow_mut();
                return compressor.decompress(kept, out).is_ok();
            }
            Form::Raw | Form::Packed => out.copy_from_slice(kept),
        }
        true
    }

    /// Room for what is kept of an extent.
    pub fn kept(&self) -> std::cell::RefMut<'_, Vec<u8>> {
        self.kept.borrow_mut()
    }
}
