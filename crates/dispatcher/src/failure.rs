//! From the client's errors to the failures that a record names.
//!
//! The errors' own texts are never used: what happened is read off the types in the chain.

use crate::resolver::ResolveError;
use crate::socket::Used;
use hyper_util::client::legacy;
use posthorn_delivery::Failure;
use std::error::Error;
use std::io;
use std::time::Duration;

/// Why a request was not answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failed {
    pub failure: Failure,
    /// The rule that kept it from being made; empty where that is no rule's doing.
    pub detail: String,
}

impl Failed {
    /// A rule of the operator's forbids it.
    pub fn denied(rule: &impl ToString) -> Failed {
        Failed {
            failure: Failure::EgressDenied,
            detail: rule.to_string(),
        }
    }
}

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Failed {
        Failed {
            failure,
            detail: String::new(),
        }
    }
}

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

/// What kept a request from being answered, `after` it was begun.
pub(crate) fn failure_of(error: &legacy::Error, after: Duration) -> Failed {
    let resolve = links(error).find_map(|e| e.downcast_ref::<ResolveError>());
    resolve.map_or_else(|| sent_in_vain(error, after).into(), ResolveError::failed)
}

fn sent_in_vain(error: &legacy::Error, after: Duration) -> Failure {
    let chain = || links(error);
    if chain().filter_map(|e| e.downcast_ref()).any(is_local) {
        return Failure::Local;
    }
    if chain().any(|e| e.is::<rustls::Error>()) {
        return Failure::Tls;
    }
    if error.is_connect() {
        return Failure::Connect;
    }
    if let Some(h2) = chain().find_map(|e| e.downcast_ref::<h2::Error>())
        && let Some(failure) = of_http2(h2)
    {
        return failure;
    }
    let http = chain().find_map(|e| e.downcast_ref::<hyper::Error>());
    if http.is_some_and(is_malformed) {
        return Failure::MalformedResponse;
    }
    let connection = Connection::of(error);
    if connection.used && (after < STALE || connection.http2) {
        return Failure::StaleConnection;
    }
    Failure::Reset
}

/// Whether an error is this machine's and not the peer's.
pub(crate) fn is_local(error: &io::Error) -> bool {
    error
        .raw_os_error()
        .is_some_and(|code| LOCAL.contains(&code))
}

/// An error and all that it is made of. What an I/O error wraps is not its source but part of
/// itself, so it is looked into.
fn links<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |link| {
        let link: &'a (dyn Error + 'static) = *link;
        let inside = link
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref)
            .map(|inner| inner as &(dyn Error + 'static));
        inside.or_else(|| link.source())
    })
}

/// The connection that an error came from.
#[derive(Default)]
struct Connection {
    /// It had answered before: only then can it have gone stale while it waited.
    used: bool,
    /// It carried many requests. One that ends under all of them at once was shut down, as load
    /// balancers do, and says nothing of the one request, however long that had been open.
    http2: bool,
}

impl Connection {
    fn of(error: &legacy::Error) -> Connection {
        let Some(connected) = error.connect_info() else {
            return Connection::default();
        };
        let mut extensions = http::Extensions::new();
        connected.get_extras(&mut extensions);
        Connection {
            used: extensions.get::<Used>().is_some_and(Used::get),
            http2: connected.is_negotiated_h2(),
        }
    }
}

fn is_malformed(error: &hyper::Error) -> bool {
    error.is_parse() || error.is_parse_status() || error.is_parse_too_large()
}

/// What HTTP/2 itself says of a request; `None` where only its connection ended.
///
/// A GOAWAY and a refused stream say that it was not processed (RFC 9113, 6.8 and 8.7). That is
/// for the receiver to say: where it is this side that ends a connection, the receiver broke the
/// protocol. Any other reset is of this one stream, however the connection had done before.
fn of_http2(error: &h2::Error) -> Option<Failure> {
    if error.is_library() {
        return Some(Failure::MalformedResponse);
    }
    if error.is_go_away() || error.reason() == Some(h2::Reason::REFUSED_STREAM) {
        return Some(Failure::GoAway);
    }
    error.is_reset().then_some(Failure::Reset)
}
