//! From the client's errors to the failures that a record names.
//!
//! The errors' own texts hold URLs and are never used: what happened is read off the types in
//! the chain.

use crate::resolver::ResolveError;
use posthorn_delivery::Failure;
use std::error::Error;
use std::io;
use std::time::Duration;

/// A connection that was closed under us says so at once; later it is the receiver that
/// failed while it worked on the request.
const STALE: Duration = Duration::from_millis(500);

/// Errors of this process or machine: no descriptor, no memory, no local port.
const LOCAL: [i32; 5] = [
    12,  // ENOMEM
    23,  // ENFILE
    24,  // EMFILE
    99,  // EADDRNOTAVAIL
    105, // ENOBUFS
];

/// What kept a request from being answered.
pub(crate) fn failure_of(error: reqwest::Error, after: Duration) -> Failure {
    let error = error.without_url();
    let chain = || links(&error);
    if let Some(resolve) = chain().find_map(|e| e.downcast_ref::<ResolveError>()) {
        return resolve.failure();
    }
    if chain()
        .filter_map(os_error)
        .any(|code| LOCAL.contains(&code))
    {
        return Failure::Local;
    }
    if chain().any(is_tls) {
        return Failure::Tls;
    }
    if error.is_timeout() {
        return Failure::Timeout;
    }
    if error.is_connect() {
        return Failure::Connect;
    }
    if let Some(h2) = chain().find_map(|e| e.downcast_ref::<h2::Error>()) {
        return http2_failure(h2);
    }
    chain()
        .find_map(|e| e.downcast_ref::<hyper::Error>())
        .map_or(Failure::Reset, |e| http1_failure(e, after))
}

fn links<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |link| {
        let link: &'a (dyn Error + 'static) = *link;
        link.source()
    })
}

fn http1_failure(error: &hyper::Error, after: Duration) -> Failure {
    if error.is_parse() || error.is_parse_status() || error.is_parse_too_large() {
        return Failure::MalformedResponse;
    }
    if after < STALE {
        return Failure::StaleConnection;
    }
    Failure::Reset
}

/// GOAWAY and a refused stream say that the request was not processed (RFC 9113, 6.8 and 8.7).
fn http2_failure(error: &h2::Error) -> Failure {
    let refused = error.reason() == Some(h2::Reason::REFUSED_STREAM);
    if error.is_go_away() || refused {
        return Failure::GoAway;
    }
    Failure::Reset
}

fn os_error(error: &(dyn Error + 'static)) -> Option<i32> {
    error.downcast_ref::<io::Error>()?.raw_os_error()
}

fn is_tls(error: &(dyn Error + 'static)) -> bool {
    let inside = || {
        error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref)
    };
    error.is::<rustls::Error>() || inside().is_some_and(|inner| inner.is::<rustls::Error>())
}
