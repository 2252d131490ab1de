//! The memory that is free.

/// The bytes that count as free where the system does not report them.
const ASSUMED: f64 = 1e12;

/// Returns a description of the shortage, "about 40.4 GB of memory, and 24.1 GB are free", if this
/// many bytes do not fit into the memory that is free; `None` if they do.
pub(crate) fn shortage(bytes: f64) -> Option<String> {
    let free = available().unwrap_or(ASSUMED);
    let text =
        || format!("about {:.1} GB of memory, and {:.1} GB are free", bytes / 1e9, free / 1e9);
    (bytes > free).then(text)
}

/// Returns the bytes of memory that are free, or `None` where the system does not report it.
fn available() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("MemAvailable:"))?;
    line.split_whitespace().nth(1)?.parse::<f64>().ok().map(|kilobytes| kilobytes * 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shortage_is_described() {
        assert_eq!(shortage(1.0), None);
        assert!(shortage(1e18).unwrap().starts_with("about 1000000000.0 GB of memory, and "));
    }
}
