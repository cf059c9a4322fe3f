//! Preconditioning: bringing flash into the state of long use, in no simulated time.
//!
//! A new drive writes into free blocks and collects nothing; what is measured on it says nothing of
//! its later life. So the namespace is filled in order and then overwritten at random until the
//! write amplification stays what it is. Victims are chosen, moved and erased by the functions of
//! `collect.rs`, whose collector does the same beside the host's writes; here each operation ends
//! as soon as it is started.

use wharf_runtime::{Rng, Seed};

use super::{Batch, Ftl, NONE, Refusal, Urgency};

/// Pages whose map entries are fetched together: random entries each wait for memory.
const GROUP: usize = 64;

/// Parts of the namespace after each of which write amplification is looked at.
const PARTS: u32 = 8;

/// Two parts in a row differ by no more than this share in steady state.
const STEADY_SHARE: f64 = 0.02;

/// Steady state is looked for from the first number of overwritten namespaces on, and given up at
/// the second: the first garbage lies in blocks filled in order, and is cheap to collect.
const NAMESPACES: (u32, u32) = (1, 8);

/// How flash is brought into the state of long use.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Precondition {
    /// Share of the namespace that is filled, from its beginning: 0 to 1.
    pub fill_share: f64,
    /// How much of that is then overwritten at random.
    pub overwrite: Overwrite,
    /// Seed of the choice of pages.
    pub seed: Seed,
}

/// How much is overwritten at random, evenly over what was filled.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Overwrite {
    /// So many times what was filled: 1.5 writes half as many pages again as there are.
    Share(f64),
    /// Until write amplification over an eighth of what was filled is within 2 % of that over the
    /// eighth before; at least once over, at most eight times.
    UntilSteady,
}

/// What preconditioning came to.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Preconditioned {
    /// Pages that were overwritten.
    pub overwritten_pages: u64,
    /// Pages programmed in all.
    pub programs: u64,
    /// Pages programmed for each page overwritten, over the last eighth (or what there was of it).
    pub write_amplification: f64,
}

/// Why a drive cannot be preconditioned.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum PreconditionError {
    /// Not a share.
    #[error("precondition: {key} = {value} must be {rule}")]
    Range {
        /// The key.
        key: &'static str,
        /// Its value.
        value: f64,
        /// What is allowed.
        rule: &'static str,
    },
    /// The flash took no more.
    #[error(
        "precondition: page {page} of a core was refused ({refusal:?}): fill a smaller share, or raise \
         ftl.over_provisioning, ftl.capacity_share or ftl.endurance_cycles"
    )]
    Refused {
        /// The page, local to the core.
        page: u32,
        /// Why.
        refusal: Refusal,
    },
}

/// How far preconditioning has come.
#[derive(Default)]
struct At {
    /// When the flash is idle: each operation begins when the one before has ended.
    now_ns: u64,
    batch: Batch,
}

impl Precondition {
    /// Refuses shares out of their range.
    pub fn check(&self) -> Result<(), PreconditionError> {
        let check = |key, value, most, rule| match (0.0..=most).contains(&value) {
            true => Ok(()),
            false => Err(PreconditionError::Range { key, value, rule }),
        };
        check("fill_share", self.fill_share, 1.0, "0 to 1")?;
        match self.overwrite {
            Overwrite::Share(share) => check("overwrite", share, 1000.0, "0 to 1000"),
            Overwrite::UntilSteady => Ok(()),
        }
    }
}

impl Ftl {
    /// Fills and overwrites the namespace with zeros. Counters and planes are as new afterwards;
    /// erase counts stay. Static wear levelling does not run: even overwriting wears evenly.
    ///
    /// # Panics
    /// If operations are under way.
    pub fn precondition(
        &mut self,
        options: &Precondition,
    ) -> Result<Preconditioned, PreconditionError> {
        options.check()?;
        assert!(!self.is_busy(), "preconditioning is for a drive at rest");
        self.reset_counters();
        // Of a namespace that shows more than the flash holds, the first part; of one whose pages are
        // compressed it depends on them how much that is.
        let shown = match self.plan.is_sparse && !self.packs() {
            true => self.plan.capacity_pages,
            false => self.plan.logical_pages,
        };
        let pages = (f64::from(shown) * options.fill_share) as u32;
        let mut at = At::default();
        for lpn in 0..pages {
            self.write_zeros(lpn, &mut at)?;
        }
        let mut rng = options.seed.rng();
        let mut result = match options.overwrite {
            _ if pages == 0 => Preconditioned::default(),
            Overwrite::UntilSteady => self.overwrite_until_steady(pages, &mut rng, &mut at)?,
            Overwrite::Share(share) => {
                let count = (f64::from(pages) * share) as u64;
                let last = u64::from(pages / PARTS).min(count);
                self.overwrite(pages, count - last, &mut rng, &mut at)?;
                let write_amplification = self.overwrite(pages, last, &mut rng, &mut at)?;
                Preconditioned {
                    overwritten_pages: count,
                    write_amplification,
                    ..Preconditioned::default()
                }
            }
        };
        self.finish_all();
        result.programs = self.counters.programs;
        self.reset_counters();
        self.nand.reset();
        Ok(result)
    }

    fn overwrite_until_steady(
        &mut self,
        pages: u32,
        rng: &mut Rng,
        at: &mut At,
    ) -> Result<Preconditioned, PreconditionError> {
        let part = u64::from(pages.div_ceil(PARTS));
        let (mut parts, mut before) = (0, 0.0);
        loop {
            let latest = self.overwrite(pages, part, rng, at)?;
            parts += 1;
            let steady = f64::abs(latest - before) <= STEADY_SHARE * latest;
            let (least, most) = (NAMESPACES.0 * PARTS, NAMESPACES.1 * PARTS);
            if (steady && parts >= least) || parts == most {
                return Ok(Preconditioned {
                    overwritten_pages: u64::from(parts) * part,
                    write_amplification: latest,
                    ..Preconditioned::default()
                });
            }
            before = latest;
        }
    }

    /// Overwrites `count` random pages; returns the write amplification of that.
    fn overwrite(
        &mut self,
        pages: u32,
        count: u64,
        rng: &mut Rng,
        at: &mut At,
    ) -> Result<f64, PreconditionError> {
        let programs = self.counters.programs;
        let mut group = [0; GROUP];
        let mut left = count;
        while left > 0 {
            let group = &mut group[..left.min(GROUP as u64) as usize];
            for lpn in &mut *group {
                *lpn = rng.below(u64::from(pages)) as u32;
                self.prefetch(*lpn);
            }
            for lpn in &*group {
                self.write_zeros(*lpn, at)?;
            }
            left -= group.len() as u64;
        }
        Ok((self.counters.programs - programs) as f64 / count.max(1) as f64)
    }

    fn write_zeros(&mut self, lpn: u32, at: &mut At) -> Result<(), PreconditionError> {
        loop {
            match self.stage_zeros(at.now_ns, lpn) {
                Ok(_) => {
                    self.finish_all_at(at);
                    self.collect_as_needed(at);
                    return Ok(());
                }
                Err(Refusal::NoSpace) if self.collect_one(Urgency::Foreground, at) => {}
                Err(refusal) => return Err(PreconditionError::Refused { page: lpn, refusal }),
            }
        }
    }

    /// Stages zeros: where pages are compressed they take the room that other pages would.
    pub fn stage_zeros(&mut self, now_ns: u64, lpn: u32) -> Result<u64, Refusal> {
        match self.packs() {
            true => self.stage_filler(
                now_ns,
                lpn,
                u64::from(lpn) << 32 | (self.seq() & 0xffff_ffff),
            ),
            false => self.stage(now_ns, lpn, NONE, |page| page.fill(0)),
        }
    }

    /// Collects what leaves as many blocks free as collection beside writes that never cease does. With
    /// more of them free at the end, the writes of a run would have them first, and so less
    /// amplification than they can have for long.
    fn collect_as_needed(&mut self, at: &mut At) {
        while let Some(urgency) = self.need_beside_writes() {
            if !self.collect_one(urgency, at) {
                return;
            }
        }
    }

    /// Collects a block, if one is worth it; returns whether one was.
    fn collect_one(&mut self, urgency: Urgency, at: &mut At) -> bool {
        let Some(victim) = self.take_victim(urgency) else {
            return false;
        };
        at.batch.spoiled = false;
        let mut page = 0;
        while page < self.plan.extents_per_block {
            let from = page;
            page = self.read_batch(at.now_ns, victim, page, &mut at.batch);
            if page == from {
                // Every frame of collection is in its open unit.
                self.close_gc_units(at.now_ns);
            }
            self.finish_all_at(at);
            while let Some(moving) = at.batch.moves.pop() {
                if self.stage_move(at.now_ns, moving, urgency).is_err() {
                    // So many blocks are worn out that even the reserve is used up.
                    self.give_up_writing();
                    return false;
                }
            }
            self.finish_all_at(at);
        }
        if !self.is_empty(victim) && self.close_gc_units(at.now_ns) {
            self.finish_all_at(at);
        }
        if !self.is_empty(victim) {
            // The host has overwritten what is left, in units that are open.
            self.close_units(at.now_ns);
            self.finish_all_at(at);
        }
        if self.is_empty(victim) {
            self.start_erase(at.now_ns, victim);
        } else {
            assert!(at.batch.spoiled, "all readable pages have moved");
            self.set_spoiled(victim);
        }
        self.finish_all_at(at);
        true
    }

    /// Ends all operations under way, and goes on from there.
    fn finish_all_at(&mut self, at: &mut At) {
        self.finish_under_way();
        at.now_ns = self.nand.idle_from_ns();
    }
}
