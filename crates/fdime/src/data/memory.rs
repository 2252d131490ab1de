//! The memory of this machine.

/// Returns the number of bytes that can still be allocated: what the system has, and what the limit
/// of a container leaves. Where neither is known, there is no limit.
pub(super) fn free_memory() -> u64 {
    #[cfg(target_os = "linux")]
    {
        let read = |path: &str| std::fs::read_to_string(path).ok();
        let number = |path: &str| read(path).and_then(|text| text.trim().parse::<u64>().ok());
        let available = read("/proc/meminfo").and_then(|text| available_memory(&text));
        let container = number("/sys/fs/cgroup/memory.max")
            .zip(number("/sys/fs/cgroup/memory.current"))
            .map(|(limit, used)| limit.saturating_sub(used));
        available.into_iter().chain(container).min().unwrap_or(u64::MAX)
    }
    #[cfg(not(target_os = "linux"))]
    u64::MAX
}

/// Returns what the kernel says can be allocated without swapping.
#[cfg(target_os = "linux")]
fn available_memory(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_figure_is_read() {
        let text = "MemTotal:       16000 kB\nMemAvailable:    1234 kB\n";
        assert_eq!(available_memory(text), Some(1234 * 1024));
        assert_eq!(available_memory("MemTotal: 16000 kB\n"), None);
        assert!(free_memory() > 1 << 20);
    }
}
