//! How many files this process may have open, and what follows from it.
//!
//! Every attempt needs a connection, and often a socket or two to ask for the name. A process
//! that starts more of them than it has descriptors for fails deliveries for want of its own
//! means, so it starts fewer.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Where the system names no limit.
const UNLIMITED: usize = 65_536;

/// A connection and two sockets for each attempt in flight, as many idle connections, and the
/// rest for the broker and for being watched.
const SHARES: usize = 5;

/// Takes what the system grants on request: the usual first limit of 1,024 is for programs that
/// cannot count further.
pub(crate) fn raise() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < hard
    {
        // Where it is refused, the first limit stays and is kept to.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

/// How many attempts may be in flight, and how many connections may lie idle.
pub(crate) fn share() -> usize {
    let soft = getrlimit(Resource::RLIMIT_NOFILE).map(|(soft, _)| soft);
    let limit = soft.ok().and_then(|soft| usize::try_from(soft).ok());
    (limit.unwrap_or(UNLIMITED).min(UNLIMITED) / SHARES).max(1)
}

/// As many attempts in flight as were `wanted` and can be afforded.
pub(crate) fn affordable(wanted: u32) -> usize {
    let (wanted, share) = (usize::try_from(wanted).unwrap_or(usize::MAX), share());
    if share < wanted {
        tracing::warn!(
            wanted,
            share,
            "fewer attempts in flight than configured: raise the limit of open files"
        );
    }
    wanted.min(share)
}
