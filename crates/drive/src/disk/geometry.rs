//! Where sectors lie on the platters, and when which of them is below a head.
//!
//! Sectors go round a track, then on the next head of the cylinder, then on the next cylinder inwards.
//! Each track is skewed against the one before it by the time to get there, so that reading on
//! loses that time and no whole turn. A zone has equally long tracks.

use crate::config::DiskConfig;

/// A zone: cylinders with equally long tracks.
#[derive(Debug, Clone)]
struct Zone {
    first_sector: u64,
    first_cylinder: u32,
    track_sectors: u32,
    /// Sectors of skew from head to head, and from cylinder to cylinder.
    head_skew: u32,
    cylinder_skew: u32,
}

/// The place of a sector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Cylinder, counted from the outside.
    pub cylinder: u32,
    /// Head.
    pub head: u32,
    /// Sectors of its track.
    pub track_sectors: u32,
    /// Sectors of the track before it, the skew left out.
    pub index: u32,
    /// Slots of the track before it, from the mark of the spindle.
    slot: u32,
}

/// The shape of a disk with its times.
#[derive(Debug, Clone)]
pub struct DiskGeometry {
    config: DiskConfig,
    zones: Vec<Zone>,
    zone_cylinders: u32,
    turn_ns: u64,
}

impl DiskGeometry {
    /// The shape that a checked configuration describes.
    pub fn new(config: &DiskConfig) -> DiskGeometry {
        let heads = u64::from(config.heads);
        let round: u64 = (0..config.zones)
            .map(|zone| heads * u64::from(config.track_sectors(zone)))
            .sum();
        let zone_cylinders = config.sectors().div_ceil(round).max(1) as u32;
        let mut geometry = DiskGeometry {
            config: config.clone(),
            zones: Vec::new(),
            zone_cylinders,
            turn_ns: config.turn_ns(),
        };
        let step_ns = geometry.seek_ns(1);
        let mut first_sector = 0;
        for zone in 0..config.zones {
            let track_sectors = config.track_sectors(zone);
            let skew = |ns: u64| {
                (u128::from(ns) * u128::from(track_sectors)).div_ceil(geometry.turn_ns.into())
                    % u128::from(track_sectors)
            };
            geometry.zones.push(Zone {
                first_sector,
                first_cylinder: zone * zone_cylinders,
                track_sectors,
                head_skew: skew(config.head_switch_ns) as u32,
                cylinder_skew: skew(step_ns) as u32,
            });
            first_sector += heads * u64::from(track_sectors) * u64::from(zone_cylinders);
        }
        geometry
    }

    /// Cylinders of the disk.
    pub fn cylinders(&self) -> u32 {
        self.zone_cylinders * self.config.zones
    }

    /// Nanoseconds of a turn.
    pub fn turn_ns(&self) -> u64 {
        self.turn_ns
    }

    /// First sector of each zone, in order.
    pub fn zone_starts(&self) -> impl Iterator<Item = u64> {
        self.zones.iter().map(|zone| zone.first_sector)
    }

    /// Where a sector is.
    pub fn place(&self, sector: u32) -> Place {
        let sector = u64::from(sector);
        let at = self
            .zones
            .partition_point(|zone| zone.first_sector <= sector)
            - 1;
        let zone = &self.zones[at];
        let within = sector - zone.first_sector;
        let (track, index) = (
            within / u64::from(zone.track_sectors),
            (within % u64::from(zone.track_sectors)) as u32,
        );
        let heads = u64::from(self.config.heads);
        let (cylinder, head) = (track / heads, track % heads);
        let changes = cylinder * (heads - 1) + head;
        let skew = changes * u64::from(zone.head_skew) + cylinder * u64::from(zone.cylinder_skew);
        let slot = (u64::from(index) + skew) % u64::from(zone.track_sectors);
        Place {
            cylinder: zone.first_cylinder + cylinder as u32,
            head: head as u32,
            track_sectors: zone.track_sectors,
            index,
            slot: slot as u32,
        }
    }

    /// A seek over `distance` cylinders with its settling, in nanoseconds.
    pub fn seek_ns(&self, distance: u32) -> u64 {
        if distance == 0 {
            return 0;
        }
        let config = &self.config;
        let stroke = (self.cylinders().max(2) - 1) as f64;
        let share = f64::from(distance) / stroke;
        let arm_ns = match share < config.seek_linear_share {
            true => config.seek_a_ns as f64 + config.seek_b_ns as f64 * share.sqrt(),
            false => config.seek_c_ns as f64 + config.seek_e_ns as f64 * share,
        };
        arm_ns.round() as u64 + config.settle_ns
    }

    /// From being over the track of `from` to being over that of `to`, ready to read or to write.
    pub fn move_ns(&self, from: (u32, u32), to: &Place, writes: bool) -> u64 {
        let distance = from.0.abs_diff(to.cylinder);
        let moved_ns = match distance {
            0 if from.1 == to.head => return 0,
            0 => self.config.head_switch_ns,
            _ => self.seek_ns(distance),
        };
        moved_ns
            + if writes {
                self.config.write_settle_ns
            } else {
                0
            }
    }

    /// From `now_ns` until the beginning of a sector is below its head.
    pub fn rotation_ns(&self, now_ns: u64, place: &Place) -> u64 {
        let start_ns = self.slot_ns(place, place.slot);
        let phase_ns = now_ns % self.turn_ns;
        (start_ns + self.turn_ns - phase_ns) % self.turn_ns
    }

    fn slot_ns(&self, place: &Place, slots: u32) -> u64 {
        let turn_ns = u128::from(self.turn_ns);
        (turn_ns * u128::from(slots) / u128::from(place.track_sectors)) as u64
    }

    /// Transfers `count` sectors from `first` on, whose head is there and whose turn has come at
    /// `start_ns`; gives the end. Changes of tracks wait for the skew.
    pub fn stream(&self, start_ns: u64, first: u32, count: u32) -> u64 {
        let (mut now_ns, mut sector, mut left) = (start_ns, first, count);
        while left > 0 {
            let place = self.place(sector);
            if sector != first {
                let before = self.place(sector - 1);
                now_ns += self.move_ns((before.cylinder, before.head), &place, false);
                now_ns += self.rotation_ns(now_ns, &place);
            }
            let run = left.min(place.track_sectors - place.index);
            now_ns += self.slot_ns(&place, run);
            (sector, left) = (sector.saturating_add(run), left - run);
        }
        now_ns
    }

    /// As [`DiskGeometry::stream`], until `until_ns` or `most` sectors: how many were transferred, and
    /// when the last of them was.
    pub fn stream_until(&self, start_ns: u64, first: u32, most: u32, until_ns: u64) -> (u32, u64) {
        let (mut done, mut end_ns) = (0, start_ns);
        while done < most {
            let place = self.place(first + done);
            let track = (place.track_sectors - place.index).min(most - done);
            let track_end_ns = self.stream(start_ns, first, done + track);
            if track_end_ns <= until_ns {
                (done, end_ns) = (done + track, track_end_ns);
                continue;
            }
            // The last track, of which a part is done.
            let (mut low, mut high) = (0, track);
            while low + 1 < high {
                let middle = (low + high) / 2;
                match self.stream(start_ns, first, done + middle) <= until_ns {
                    true => low = middle,
                    false => high = middle,
                }
            }
            if low > 0 {
                end_ns = self.stream(start_ns, first, done + low);
            }
            return (done + low, end_ns);
        }
        (done, end_ns)
    }
}
