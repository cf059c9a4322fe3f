//! What `scala` promises beyond the data that requests see: whose frames are whose, guards, shares,
//! the choice of victims, and that everything is given back.

#[path = "../common/mod.rs"]
mod common;
mod guards;
mod keeping;
mod misses;

use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use common::pinning::PinState;
use common::{Rig, Shape, healthy};
use wharf_host::design::Amount;
use wharf_host::driver::DriverConfig;
use wharf_host::scala::client::ScalaClient;
use wharf_host::scala::guard::Intent;
use wharf_host::{
    Client, Design, DesignConfig, DesignError, Extent, IoError, Parts, Scala, ScalaConfig, Shares,
};
use wharf_runtime::{Cpu, Seed};
use wharf_wire::command::Command;
use wharf_wire::mock::Fate;
use wharf_wire::opcode::IoOpcode;
use wharf_wire::pin::Access;
use wharf_wire::status::StatusCode;

const PAGE: u64 = 4096;

fn shape(clients: u32, drives: u32, cores: u32) -> Shape {
    Shape {
        clients,
        drives,
        drive_pages: 5_000,
        pins: true,
        driver: DriverConfig {
            cores,
            core_stripe_pages: 2,
            ..DriverConfig::default()
        },
        ..Shape::default()
    }
}

fn rig(shape: Shape) -> Rig {
    Rig::new(shape, |drive| healthy(Seed(u64::from(drive)).rng()))
}

fn cache(pages: u64) -> DesignConfig {
    DesignConfig {
        cache_bytes: pages * PAGE,
        ..DesignConfig::default()
    }
}

/// Runs one client against a cache of `pages` pages.
fn alone<F: Future<Output = ()> + 'static>(
    pages: u64,
    run: impl FnOnce(Cpu, Rc<ScalaClient>) -> F + Send + 'static,
) -> Arc<PinState> {
    let mut rig = rig(shape(1, 1, 1));
    let design: Arc<Scala> = rig.design(cache(pages));
    rig.spawn_client(0, &design, run);
    rig.machine.run_virtual(Seed(1)).unwrap();
    rig.pinning[0].clone()
}

async fn read_page(client: &ScalaClient, page: u64) -> u8 {
    let mut out = [0; PAGE as usize];
    client
        .read(Extent::of_pages(page, 1), &mut out)
        .await
        .unwrap();
    out[17]
}

async fn write_page(client: &ScalaClient, page: u64, value: u8) {
    let data = [value; PAGE as usize];
    client
        .write(Extent::of_pages(page, 1), &data)
        .await
        .unwrap();
}
