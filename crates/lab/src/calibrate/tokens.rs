//! What a drive does to know who sent a command: 16 bytes compared, or the code of claims computed anew.

use std::hint::black_box;

use wharf_runtime::{Op, Rng, Seed};
use wharf_wire::file::{Claims, DriveKey, Token};

use super::costs::Costs;
use super::sample::Sampler;

/// Hosts of a drive.
const HOSTS: usize = 1024;

/// Commands of a round.
const BATCH: u64 = 1024;

/// Times both.
pub(super) fn measure(sampler: Sampler, costs: &mut Costs) {
    let mut rng = Seed(5).rng();
    let key = DriveKey::new(std::array::from_fn(|_| rng.below(256) as u8), 1);
    let hosts: Vec<(Claims, Token)> = (1..=HOSTS as u64)
        .map(|session| {
            let claims = Claims {
                session,
                expires_ns: u64::MAX,
                ..Claims::new()
            };
            (claims, key.token(&claims, &[]))
        })
        .collect();
    let senders = |rng: &mut Rng| -> Vec<(usize, Token)> {
        let host = |_| rng.below(HOSTS as u64) as usize;
        let sent = |host: usize| (host, hosts[host].1);
        (0..BATCH).map(host).map(sent).collect()
    };
    let compare = sampler.time(
        BATCH,
        || senders(&mut rng),
        |sent| {
            for (host, token) in sent.iter() {
                let (claims, own) = &hosts[*host];
                black_box(own.is(token) && (claims.not_before_ns..claims.expires_ns).contains(&7));
            }
        },
    );
    costs.set(
        Op::TokenCompare,
        compare,
        "the token of a random host of 1024, and when its claims hold",
    );
    let code = sampler.time(
        BATCH,
        || senders(&mut rng),
        |sent| {
            for (host, token) in sent.iter() {
                black_box(key.token(&hosts[*host].0, &[]).is(token));
            }
        },
    );
    costs.set(
        Op::TokenCode,
        code,
        "the code of such claims, without groups, by HMAC with SHA-256",
    );
}
