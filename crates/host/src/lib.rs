//! The host half: the driver and the cache designs.
