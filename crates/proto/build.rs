//! Compiles the schemas with protox, so that a build needs no protoc.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = "../../proto";
    let files = [
        "api_key",
        "attempt",
        "audit",
        "breaker",
        "dead_letter",
        "delivery",
        "endpoint",
        "event",
        "lane",
        "replay",
    ]
    .map(|name| format!("{root}/posthorn/v1/{name}.proto"));
    println!("cargo:rerun-if-changed={root}");
    let descriptors = protox::compile(&files, [root])?;
    prost_build::Config::new()
        // Payloads are shared with the network buffer they came in, never copied.
        .bytes([".posthorn.v1"])
        .compile_fds(descriptors)?;
    Ok(())
}
