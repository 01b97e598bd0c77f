//! `cargo xtask <command>`: the checks that people and CI run alike.
//!
//! A rule of this repository that a tool can hold is held here, not in a page that people forget.
//! The program depends on none of the product's crates, so it also runs while they do not compile.
#![allow(
    clippy::print_stdout,
    reason = "a command line program reports on its standard output"
)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod ci;
mod deny;
mod finding;
mod fuzz;
mod metadata;
mod repository;
mod rules;
mod source;
mod structure;

use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask <command>

  structure   dependency edges, sizes, clocks and randomness, forbidden words, no ring
  deny        licences, bans and sources of what we depend on, and advisories where they are known
  fuzz        [SECONDS [TARGET]]: feeds what reads foreign bytes, 10 s each where nothing is said
  ci          everything the gate runs: format, structure, clippy, docs, deny, model, tests, fuzz";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let command: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match command.as_slice() {
        ["structure"] => structure::run(),
        ["deny"] => deny::run(),
        ["fuzz", rest @ ..] => fuzz::run(rest),
        ["ci"] => ci::run(),
        _ => {
            println!("{USAGE}");
            return ExitCode::from(64);
        }
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("xtask: {error:#}");
            ExitCode::from(70)
        }
    }
}
