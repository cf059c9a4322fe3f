//! Functions of the shared object call each other, not those of a program that has one of the same name (`patch` has its own
//! `renameat2`).

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic-functions");
}
