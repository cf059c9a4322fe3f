//! The journal: its headers, and what is left in the ring.

use crate::pages::Pages;

use super::media::{JOURNAL_HEADER, PAGE, RECORD, u16_at, u64_at};
use super::walk::Walk;

impl<P: Pages> Walk<'_, P> {
    /// Looks where the journal begins, and that nothing waits there.
    pub async fn journal(&mut self) {
        let (first, ring) = (self.media.journal.first + 2, self.media.journal.pages - 2);
        let mut headers = Vec::new();
        for number in [first - 2, first - 1] {
            // What is wrong with it was said.
            if let Ok(page) = self.media.page(number, JOURNAL_HEADER).await {
                headers.push([24, 32, 40, 48].map(|at| u64_at(&page, at)));
            }
        }
        if let [[one, ..], [other, ..]] = headers[..]
            && one.abs_diff(other) != 1
        {
            self.wrong("the journal's headers were not written in turn");
        }
        let Some([_, group, at, transaction]) = headers.into_iter().max() else {
            return;
        };
        if at >= ring {
            self.wrong("the journal begins outside of its ring");
            return;
        }
        self.media.transaction_max = transaction;
        let mut waiting: u64 = 0;
        let mut page: Box<[u8]> = vec![0; PAGE].into();
        for number in first..first + ring {
            if self.media.raw(number, &mut page).await.is_err() {
                self.wrong(format!("page {number} of the journal cannot be read"));
                continue;
            }
            // The checksum last: most pages are none.
            let is_record = u16_at(&page, 4) == RECORD
                && u64_at(&page, 24) >= group
                && self.media.fault(&page, number, RECORD).is_none();
            waiting += u64::from(is_record);
        }
        if waiting > 0 {
            self.wrong(format!("{waiting} groups of the journal are not at home"));
        }
    }
}
