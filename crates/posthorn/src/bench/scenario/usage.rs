//! What a process uses, as `/proc` tells it.

use crate::bench::cpu::seconds_of;

/// Bytes in a KiB, which is what `/proc` counts in.
const KIB: u64 = 1_024;

/// Processor time and memory of one process.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Usage {
    /// Processor seconds since its start.
    pub cpu: f64,
    /// Bytes in memory that are no file's: what it has allocated and touched.
    pub memory: u64,
}

impl Usage {
    /// Of these processes together; one that has ended counts nothing.
    pub fn of(pids: impl IntoIterator<Item = u32>) -> Usage {
        pids.into_iter().fold(Usage::default(), |sum, pid| Usage {
            cpu: sum.cpu + seconds_of(pid).unwrap_or(0.0),
            memory: sum.memory + memory_of(pid).unwrap_or(0),
        })
    }
}

fn memory_of(pid: u32) -> Option<u64> {
    parse(&std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?)
}

fn parse(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|l| l.strip_prefix("RssAnon:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib.saturating_mul(KIB))
}

/// The load average of the last minute, so that a reader knows what a figure is worth.
pub(crate) fn load_average() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    text.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_in_bytes() {
        let status = "Name:\tx\nVmRSS:\t 900 kB\nRssAnon:\t     12 kB\nRssFile:\t 8 kB\n";
        assert_eq!(parse(status), Some(12 * 1_024));
        assert_eq!(parse("Name:\tx\n"), None);
    }

    #[test]
    fn what_is_gone_counts_nothing() {
        assert_eq!(Usage::of([u32::MAX]), Usage::default());
    }
}
