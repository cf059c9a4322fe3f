//! An image that is served to processes.

use std::path::PathBuf;

use wharf::files::{NewImage, Server, Serving, check, make};

/// See the module.
pub(crate) struct Served {
    pub(crate) place: tempfile::TempDir,
    pub(crate) server: Server,
}

impl Served {
    pub(crate) fn serving(how: &Serving) -> Served {
        let place = tempfile::tempdir().unwrap();
        let image = place.path().join("drive.img");
        make(&image, &NewImage::of_bytes(64 << 20)).unwrap();
        let server = Server::open_as(&image, place.path().join("s"), how).unwrap();
        Served { place, server }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.place.path().join("s")
    }

    pub(crate) fn image(&self) -> PathBuf {
        self.place.path().join("drive.img")
    }

    /// Ends; what is left is a sound file system.
    pub(crate) fn end(self) {
        let image = self.image();
        self.server.close().unwrap();
        assert!(check(&image).unwrap().is_sound());
    }
}
