//! The operator's page: served from here, talking to here, holding nothing.
//!
//! It is plain modules of the browser's own language, built by nobody, embedded in the binary. It
//! shows what the REST calls of this service answer and does what they do, under the key that was
//! typed in and with its scopes. It loads nothing from elsewhere and asks nobody else: what
//! belongs to the public API is handed on by [`ingest`].

mod assets;
pub mod ingest;
pub mod session;

use crate::app::App;
use axum::Router;
use axum::routing::get;

pub use ingest::{Ingest, IngestUrl};

/// The page's own addresses. Each is the same document; what it shows is decided in the browser.
const VIEWS: [&str; 8] = [
    "/",
    "/sign-in",
    "/endpoints",
    "/endpoints/{id}",
    "/dead-letters",
    "/dead-letters/{id}",
    "/jobs",
    "/events",
];

/// The document at each of its addresses, and the files that it is made of.
pub fn router() -> Router<App> {
    let views = VIEWS.into_iter().fold(Router::new(), |router, view| {
        router.route(view, get(assets::document))
    });
    views.route("/assets/{*path}", get(assets::file))
}
