use super::{Table, write_whole};
use crate::error::Result;
use std::io::Write;
use std::path::Path;

/// Writes a table as comma-separated values with a header. Numbers are written so that reading
/// them gives the same bits; column names must not need quoting.
pub fn write_csv(path: &Path, table: &Table) -> Result<()> {
    write_whole(path, |file| write_rows(file, table))
}

fn write_rows(file: &mut impl Write, table: &Table) -> std::io::Result<()> {
    writeln!(file, "{}", table.columns.join(","))?;
    for row in table.values.chunks_exact(table.columns.len().max(1)) {
        for (index, value) in row.iter().enumerate() {
            let separator = if index > 0 { "," } else { "" };
            write!(file, "{separator}{value}")?;
        }
        writeln!(file)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_exactly() {
        let columns = vec!["x".to_string(), "y".to_string()];
        let values = vec![0.1, -1.0 / 3.0, 1e-300, 2.0];
        let mut text = Vec::new();
        write_rows(&mut text, &Table { columns, values: values.clone() }).unwrap();
        let text = String::from_utf8(text).unwrap();
        let read: Vec<f64> = text
            .lines()
            .skip(1)
            .flat_map(|line| line.split(','))
            .map(|cell| cell.parse().unwrap())
            .collect();
        assert_eq!(read, values);
        assert!(text.starts_with("x,y\n"));
    }
}
