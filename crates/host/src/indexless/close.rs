//! The end of a cache: what is to be known when it is opened again.

use super::heat::PARTS_AT_END;
use super::keeper::Keeper;
use super::label::Label;
use crate::backing::Sectors;
use crate::error::IoError;

impl<S: Sectors + 'static> Keeper<S> {
    /// Notes what is to be known when the cache is opened again: nobody uses it any more.
    pub(super) async fn close(&self) -> Result<(), IoError> {
        self.flush_disk().await?;
        self.snapshot_from.set(0);
        self.snapshot(PARTS_AT_END).await;
        self.write_label(true).await
    }

    /// Writes the superblock: is the cache closed?
    pub(super) async fn write_label(&self, is_clean: bool) -> Result<(), IoError> {
        let held = self.known.bitmap.totals().cached + self.shared.room.unlearned();
        let label = Label {
            is_clean,
            cached_max: match is_clean {
                true => held,
                false => self.shared.room.limit.max(self.shared.room.unlearned()),
            },
            ..self.label.get()
        };
        if label == self.label.get() {
            return Ok(());
        }
        label.write(&self.own).await.map_err(IoError::from)?;
        self.label.set(label);
        Ok(())
    }
}
