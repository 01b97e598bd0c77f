//! Processor time of this process and of the broker's.

/// Clock ticks a second in `/proc`: 100 on every Linux.
const TICKS: f64 = 100.0;

/// Processor seconds of two processes so far; `None` where the system does not tell.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cpu(Option<(f64, f64)>);

/// Processor seconds of a while.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub(crate) struct CpuSeconds {
    /// This process: services, load generator and receiver.
    pub process: Option<f64>,
    /// nats-server.
    pub nats_server: Option<f64>,
}

impl Cpu {
    /// Now, of this process and of `nats_server`.
    pub fn now(nats_server: u32) -> Cpu {
        let own = seconds_of(std::process::id());
        Cpu(own.zip(seconds_of(nats_server)))
    }

    /// What was used between `since` and this, for each 10,000 of `deliveries`.
    pub fn per_ten_thousand(self, since: Cpu, deliveries: u64) -> CpuSeconds {
        let (Some(now), Some(then)) = (self.0, since.0) else {
            return CpuSeconds::default();
        };
        let scale = 10_000.0 / super::report::to_f64(deliveries).max(1.0);
        CpuSeconds {
            process: Some((now.0 - then.0) * scale),
            nats_server: Some((now.1 - then.1) * scale),
        }
    }
}

/// Processor seconds of a process since its start; `None` where the system does not tell.
pub(crate) fn seconds_of(pid: u32) -> Option<f64> {
    parse(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Fields 14 and 15; the second may hold spaces and ends with the last parenthesis.
fn parse(stat: &str) -> Option<f64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / TICKS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_are_found_behind_any_name() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 1 0 0 0 250 50 0 0 20 0 3 0 1 2 3";
        assert_eq!(parse(stat), Some(3.0));
        assert_eq!(parse("7"), None);
    }

    #[test]
    fn a_while_is_scaled_to_ten_thousand_deliveries() {
        let (then, now) = (Cpu(Some((1.0, 2.0))), Cpu(Some((3.0, 2.5))));
        let used = now.per_ten_thousand(then, 20_000);
        assert_eq!((used.process, used.nats_server), (Some(1.0), Some(0.25)));
        let unknown = now.per_ten_thousand(Cpu(None), 1);
        assert!(unknown.process.is_none());
    }
}
