//! What the linker has to be told of the shared library.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libredlatch.so.0");
        // It has threads, thread-local values with destructors and an at-fork handler: unloading it would leave them
        // without their code.
        println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    }
}
