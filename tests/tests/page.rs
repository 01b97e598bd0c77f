//! The operator's page in a real browser, on the real binaries: every flow is clicked and typed,
//! and at its end the browser is asked whether it logged an error or called another host.
//!
//! Chromium and its driver are found in PATH, or where `POSTHORN_CHROMIUM` and
//! `POSTHORN_CHROMEDRIVER` say. `POSTHORN_BLESS=1` takes the pictures of `docs/screenshots` anew.
#![allow(clippy::unwrap_used, missing_docs)]

#[path = "page/axe.rs"]
mod axe;
#[path = "page/browser.rs"]
mod browser;
#[path = "page/driver.rs"]
mod driver;
#[path = "page/endpoints.rs"]
mod endpoints;
#[path = "page/letters.rs"]
mod letters;
#[path = "page/many.rs"]
mod many;
#[path = "page/pictures.rs"]
mod pictures;
#[path = "page/room.rs"]
mod room;
#[path = "page/signing_in.rs"]
mod signing_in;
