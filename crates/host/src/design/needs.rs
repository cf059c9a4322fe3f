//! What a design needs of the machine, and what it then gets: volumes by role, and on whose behalf
//! a client works.

use std::fmt;
use std::rc::Rc;

use wharf_runtime::Cpu;
use wharf_wire::identify::DriveFeature;

use crate::driver::Driver;
use crate::volume::Volume;

/// What drives are for, in the eyes of a design. Drives of different kinds may stand behind
/// different roles.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The drives on or before which data is cached. Where there are no others, they hold all of
    /// it.
    Cache,
    /// The drives that hold all data, where a design keeps a part of it on the drives of
    /// [`Role::Cache`].
    Backing,
}

impl Role {
    /// All roles, in the order in which drives are numbered.
    pub const ALL: [Role; 2] = [Role::Cache, Role::Backing];

    /// Its name in configurations and reports.
    pub fn name(self) -> &'static str {
        match self {
            Role::Cache => "cache",
            Role::Backing => "backing",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What a design needs, by its configuration alone: whoever builds the machine asks before there is
/// anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needs {
    /// The roles whose volumes it uses; each is there in [`Devices`].
    pub roles: &'static [Role],
    /// What the drives of [`Role::Cache`] must be able to do.
    pub features: &'static [DriveFeature],
    /// CPUs of the host that work for all clients, besides the clients' own: managers of a cache, a
    /// flusher. Each has its own queue pairs.
    pub services: u32,
    /// Pages of 4096 bytes that a client in another process needs of its own, in designs that can
    /// be [shared](crate::guest).
    pub attached_pages: usize,
    /// Bytes that it keeps for each cached page besides the page, at most, as address space.
    pub bytes_per_page: u64,
    /// Whether each client has a queue pair for each firmware core of the one drive, which runs a file system
    /// ([`Devices::bunch`]), in the place of a volume.
    pub bunch: bool,
    /// Bytes of the cache that are in the memory of that drive.
    pub near_bytes: u64,
    /// Whether it is in the operating system, and so reaches drives through what that puts before
    /// them.
    pub in_kernel: bool,
}

impl Default for Needs {
    /// Ordinary drives behind the role `cache`, and nothing else.
    fn default() -> Needs {
        Needs {
            roles: &[Role::Cache],
            features: &[],
            services: 0,
            attached_pages: 0,
            bytes_per_page: 0,
            bunch: false,
            near_bytes: 0,
            in_kernel: false,
        }
    }
}

/// The volumes that a client or a service uses, by role, over queue pairs of its own.
#[derive(Clone)]
pub struct Devices {
    volumes: Vec<(Role, Rc<Volume>)>,
    bunch: Vec<Rc<Driver>>,
}

impl Devices {
    /// These volumes, each role once.
    ///
    /// # Panics
    /// If a role is there twice.
    pub fn new(volumes: Vec<(Role, Rc<Volume>)>) -> Devices {
        for (at, (role, _)) in volumes.iter().enumerate() {
            let again = volumes[..at].iter().any(|(before, _)| before == role);
            assert!(!again, "one volume for the role {role}");
        }
        Devices {
            volumes,
            bunch: Vec::new(),
        }
    }

    /// Queue pairs of one drive, one for each of its cores in order, and no volume.
    pub fn of_bunch(bunch: Vec<Rc<Driver>>) -> Devices {
        Devices {
            volumes: Vec::new(),
            bunch,
        }
    }

    /// The queue pairs of a design that needs a [bunch](Needs::bunch).
    pub fn bunch(&self) -> &[Rc<Driver>] {
        &self.bunch
    }

    /// One volume, for the role `cache`.
    pub fn cache(volume: Rc<Volume>) -> Devices {
        Devices::new(vec![(Role::Cache, volume)])
    }

    /// The volume behind `role`.
    ///
    /// # Panics
    /// If there is none: a design has the roles that its [`Needs`] name.
    pub fn volume(&self, role: Role) -> Rc<Volume> {
        let found = self.volumes.iter().find(|(of, _)| *of == role);
        let found = found.unwrap_or_else(|| panic!("no volume for the role {role}"));
        found.1.clone()
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = (Role, &Rc<Volume>)> {
        self.volumes.iter().map(|(role, volume)| (*role, volume))
    }
}

/// On whose behalf a client works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Principal {
    /// Number of the process: 0 owns the drives, others have attached to it.
    pub process: u32,
}

impl Principal {
    /// The process that owns the drives.
    pub const OWNER: Principal = Principal { process: 0 };

    /// Whether it is the owner of the drives.
    pub fn is_owner(self) -> bool {
        self == Principal::OWNER
    }
}

/// What a client or a service of a design is made of.
pub struct Parts {
    /// The CPU that it has to itself.
    pub cpu: Cpu,
    /// The volumes of the roles that the design needs.
    pub devices: Devices,
    /// Its number, below that of all clients, or of all services. Each is made once.
    pub index: u32,
    /// On whose behalf it works; services work for the owner.
    pub principal: Principal,
}

impl Parts {
    /// Those of number `index`, which works for the owner over one volume.
    pub fn new(cpu: &Cpu, volume: Rc<Volume>, index: u32) -> Parts {
        Parts {
            cpu: cpu.clone(),
            devices: Devices::cache(volume),
            index,
            principal: Principal::OWNER,
        }
    }

    /// The volume behind the role `cache`.
    pub fn cache(&self) -> Rc<Volume> {
        self.devices.volume(Role::Cache)
    }
}
