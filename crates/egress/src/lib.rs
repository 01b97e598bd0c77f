//! Which URLs and which addresses a delivery may reach.
//!
//! Customers choose the URLs, and the dispatcher stands inside the operator's network: without a
//! rule here any customer could have it call the operator's database or the cloud's metadata
//! service. The rule is pure and asked at every point where an address turns up: when an
//! endpoint is created ([`TargetUrl::parse`]), and for every answer of DNS at every attempt
//! ([`EgressPolicy::check_answer`]), because a name that was harmless yesterday may point inside
//! today. Nothing here resolves a name; whoever does must dial the address that was checked.
//!
//! Whatever is not known to be globally reachable is refused. An operator opens what is needed by
//! an allow list of networks and hosts, and a deny list wins over that. `http` without TLS and ports
//! that belong to other protocols are refused too, until an operator says otherwise.
//!
//! ```
//! use posthorn_egress::{EgressList, EgressPolicy, TargetUrl};
//!
//! let policy = EgressPolicy::new(EgressList::parse("10.1.0.0/16")?, EgressList::default());
//! assert!(TargetUrl::parse("https://10.1.0.5/hooks", &policy).is_ok());
//! let error = TargetUrl::parse("http://[::ffff:10.0.0.5]/", &policy).unwrap_err();
//! assert_eq!(error.to_string(), "address 10.0.0.5 is private-use (10.0.0.0/8)");
//! # Ok::<(), posthorn_egress::ListError>(())
//! ```
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod address;
mod cidr;
mod embedding;
mod host;
mod list;
mod name;
mod policy;
mod ports;
mod range;
mod target;

pub use address::{AddressClass, classify};
pub use cidr::{CidrError, parse_cidrs};
pub use host::HostPattern;
pub use list::{EgressList, ListError};
pub use name::NameRule;
pub use policy::{EgressDenied, EgressPolicy, EgressRules, PlainHttp, RulesError};
pub use ports::{PortList, PortsError};
pub use range::Range;
pub use target::{MAX_URL_BYTES, TargetUrl, UrlError};
