//! A DNS server that says what a test wants, query by query.
//!
//! A resolver asks for the IPv4 and the IPv6 addresses of a name separately. Both queries of
//! one look-up get their part of the same answer, so a script is written in look-ups: the first
//! answer for the first, the second for the second, and the last one for all that follow.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use tokio::net::UdpSocket;
use tokio_util::task::AbortOnDropHandle;

const A: u16 = 1;
const AAAA: u16 = 28;
const SERVFAIL: u8 = 2;
const NXDOMAIN: u8 = 3;
const HEADER: usize = 12;

/// What is said about a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DnsAnswer {
    /// These addresses, with a lifetime of zero.
    Addresses(Vec<IpAddr>),
    /// There is no such name.
    NoName,
    /// The server has a problem.
    Failure,
    /// Nothing.
    Silence,
}

impl DnsAnswer {
    /// An answer with these addresses, written as text.
    ///
    /// # Panics
    /// When one is no address.
    #[must_use]
    pub fn of(addresses: &[&str]) -> Self {
        let parse = |text: &&str| text.parse().expect("tests name valid addresses");
        Self::Addresses(addresses.iter().map(parse).collect())
    }
}

/// A DNS server on 127.0.0.1.
#[derive(Debug)]
pub struct DnsServer {
    address: SocketAddr,
    names: Arc<Mutex<Names>>,
    _serving: AbortOnDropHandle<()>,
}

#[derive(Debug, Default)]
struct Names {
    scripts: HashMap<String, Vec<DnsAnswer>>,
    /// The answer for every name without a script.
    others: Option<DnsAnswer>,
    asked: HashMap<(String, u16), usize>,
}

impl DnsServer {
    /// Starts a server on a free port. It knows no name until told.
    ///
    /// # Errors
    /// When no port is to be had.
    pub async fn start() -> Result<Self> {
        let socket = UdpSocket::bind("127.0.0.1:0")
            .await
            .context("the DNS server needs a port")?;
        let address = socket.local_addr().context("the DNS server's address")?;
        let names = Arc::new(Mutex::new(Names::default()));
        let serving = tokio::spawn(serve(socket, Arc::clone(&names)));
        Ok(Self {
            address,
            names,
            _serving: AbortOnDropHandle::new(serving),
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it says about `name`, look-up by look-up; the last answer stays. Counts from the
    /// beginning again.
    pub fn script(&self, name: &str, answers: impl IntoIterator<Item = DnsAnswer>) {
        let mut names = lock(&self.names);
        names.asked.retain(|(asked, _), _| asked != name);
        names
            .scripts
            .insert(name.to_owned(), answers.into_iter().collect());
    }

    /// What it says about every name that has no script.
    pub fn answer_others(&self, answer: DnsAnswer) {
        lock(&self.names).others = Some(answer);
    }

    /// How often the IPv4 addresses of `name` were asked for.
    #[must_use]
    pub fn lookups(&self, name: &str) -> usize {
        let names = lock(&self.names);
        names
            .asked
            .get(&(name.to_owned(), A))
            .copied()
            .unwrap_or_default()
    }
}

impl Names {
    fn answer(&mut self, name: &str, kind: u16) -> DnsAnswer {
        let asked = self.asked.entry((name.to_owned(), kind)).or_default();
        let turn = *asked;
        *asked += 1;
        let script = self.scripts.get(name);
        let scripted = script.and_then(|script| script.get(turn).or(script.last()));
        scripted
            .or(self.others.as_ref())
            .cloned()
            .unwrap_or(DnsAnswer::NoName)
    }
}

fn lock(names: &Mutex<Names>) -> std::sync::MutexGuard<'_, Names> {
    names.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn serve(socket: UdpSocket, names: Arc<Mutex<Names>>) {
    let mut buffer = [0; 1_500];
    loop {
        let Ok((length, from)) = socket.recv_from(&mut buffer).await else {
            continue;
        };
        let Some(query) = Query::parse(&buffer[..length]) else {
            continue;
        };
        let answer = lock(&names).answer(&query.name, query.kind);
        if let Some(response) = query.respond(&answer) {
            // A resolver that has gone away is its own affair.
            let _ = socket.send_to(&response, from).await;
        }
    }
}

/// One question.
struct Query<'a> {
    id: &'a [u8],
    /// The question as it was written, to be repeated.
    question: &'a [u8],
    name: String,
    kind: u16,
}

impl<'a> Query<'a> {
    fn parse(bytes: &'a [u8]) -> Option<Self> {
        let mut at = HEADER;
        let mut labels = Vec::new();
        loop {
            let length = usize::from(*bytes.get(at)?);
            at += 1;
            if length == 0 {
                break;
            }
            let label = bytes.get(at..at + length)?;
            labels.push(String::from_utf8_lossy(label).to_ascii_lowercase());
            at += length;
        }
        let end = at + 4;
        let kind = u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?);
        Some(Self {
            id: &bytes[..2],
            question: bytes.get(HEADER..end)?,
            name: labels.join("."),
            kind,
        })
    }

    fn respond(&self, answer: &DnsAnswer) -> Option<Vec<u8>> {
        let (code, addresses) = match answer {
            DnsAnswer::Silence => return None,
            DnsAnswer::Failure => (SERVFAIL, &[][..]),
            DnsAnswer::NoName => (NXDOMAIN, &[][..]),
            DnsAnswer::Addresses(addresses) => (0, &addresses[..]),
        };
        let records: Vec<_> = addresses
            .iter()
            .filter_map(|ip| record(*ip, self.kind))
            .collect();
        let count = u16::try_from(records.len()).ok()?.to_be_bytes();
        // A response, recursion desired and available.
        let flags = [0x81, 0x80 | code];
        let counts = [0, 1, count[0], count[1], 0, 0, 0, 0];
        let mut response = [self.id, &flags, &counts, self.question].concat();
        response.extend(records.concat());
        Some(response)
    }
}

/// The record of an address, where it is of the kind that was asked for.
fn record(ip: IpAddr, kind: u16) -> Option<Vec<u8>> {
    let data = match (ip, kind) {
        (IpAddr::V4(v4), A) => v4.octets().to_vec(),
        (IpAddr::V6(v6), AAAA) => v6.octets().to_vec(),
        _ => return None,
    };
    // The name is the question's, class IN, a lifetime of zero.
    let mut record = vec![0xc0, 0x0c];
    record.extend(kind.to_be_bytes());
    record.extend([0, 1, 0, 0, 0, 0, 0]);
    record.push(u8::try_from(data.len()).ok()?);
    record.extend(data);
    Some(record)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A query for the name `a.b`.
    fn query(kind: u16) -> Vec<u8> {
        let mut bytes = vec![7, 9, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        bytes.extend(b"\x01A\x01b\x00");
        bytes.extend(kind.to_be_bytes());
        bytes.extend([0, 1]);
        bytes
    }

    #[test]
    fn a_response_repeats_the_question_and_holds_the_kind_that_was_asked_for() {
        let answer = DnsAnswer::of(&["10.0.0.1", "::1", "10.0.0.2"]);
        let bytes = query(A);
        let parsed = Query::parse(&bytes).unwrap();
        assert_eq!((parsed.name.as_str(), parsed.kind), ("a.b", A));
        let response = parsed.respond(&answer).unwrap();
        assert_eq!(response[..2], [7, 9]);
        assert_eq!(response[6..8], [0, 2]);
        assert!(response.ends_with(&[0, 4, 10, 0, 0, 2]));
        let bytes = query(AAAA);
        let response = Query::parse(&bytes).unwrap().respond(&answer).unwrap();
        assert_eq!(response[6..8], [0, 1]);
    }

    #[test]
    fn each_lookup_has_its_answer_and_the_last_one_stays() {
        let mut names = Names::default();
        let (first, second) = (DnsAnswer::of(&["10.0.0.1"]), DnsAnswer::Failure);
        let script = vec![first.clone(), second.clone()];
        names.scripts.insert("a".to_owned(), script);
        assert_eq!(names.answer("a", A), first);
        assert_eq!(names.answer("a", AAAA), first);
        assert_eq!(names.answer("a", A), second);
        assert_eq!(names.answer("a", A), second);
        assert_eq!(names.answer("b", A), DnsAnswer::NoName);
    }

    #[test]
    fn what_is_no_query_is_ignored() {
        let whole = query(A);
        for length in 0..whole.len() {
            assert!(Query::parse(&whole[..length]).is_none(), "{length}");
        }
    }
}
