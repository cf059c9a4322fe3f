//! Names the shared library by what programs need of it: while the version is 0.x, a minor version may change calls.

fn main() {
    let part = |name: &str| std::env::var(format!("CARGO_PKG_VERSION_{name}")).unwrap_or_default();
    let name = match part("MAJOR").as_str() {
        "0" => format!("libwharf_c.so.0.{}", part("MINOR")),
        major => format!("libwharf_c.so.{major}"),
    };
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,{name}");
    println!("cargo:rerun-if-changed=build.rs");
}
