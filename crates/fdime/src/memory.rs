//! The memory of this machine.

/// Returns a description of the shortage, "about 40.4 GB of memory, and 24.1 GB are free", if this
/// many bytes do not fit into the memory that is free; `None` if they do.
pub(crate) fn shortage(bytes: f64) -> Option<String> {
    let free = free() as f64;
    let text =
        || format!("about {:.1} GB of memory, and {:.1} GB are free", bytes / 1e9, free / 1e9);
    (bytes > free).then(text)
}

/// Returns the number of bytes that can still be allocated: what the system has, and what the limit
/// of a container leaves. Where neither is known, it is a terabyte.
pub(crate) fn free() -> u64 {
    const ASSUMED: u64 = 1_000_000_000_000;
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let number = |path: &str| read(path).and_then(|text| text.trim().parse::<u64>().ok());
    let available = read("/proc/meminfo").and_then(|text| available(&text));
    let container = number("/sys/fs/cgroup/memory.max")
        .zip(number("/sys/fs/cgroup/memory.current"))
        .map(|(limit, used)| limit.saturating_sub(used));
    available.into_iter().chain(container).min().unwrap_or(ASSUMED)
}

/// Returns what Linux says can be allocated without swapping.
fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shortage_is_described() {
        assert_eq!(shortage(1.0), None);
        assert!(shortage(1e18).unwrap().starts_with("about 1000000000.0 GB of memory, and "));
    }

    #[test]
    fn the_kernels_figure_is_read() {
        let text = "MemTotal:       16000 kB\nMemAvailable:    1234 kB\n";
        assert_eq!(available(text), Some(1234 * 1024));
        assert_eq!(available("MemTotal: 16000 kB\n"), None);
        assert!(free() > 1 << 20);
    }
}
