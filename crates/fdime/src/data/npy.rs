//! NumPy's formats: NPY (one array) and NPZ (a zip archive of them).

use super::write_whole;
use crate::error::Result;
use std::io::{Cursor, Write};
use std::path::Path;

/// Writes rows x columns doubles, row-major, as NPY version 1.0.
pub fn write_npy(path: &Path, values: &[f64], columns: usize) -> Result<()> {
    write_whole(path, |file| write_array(file, values, columns))
}

/// Writes named arrays, each with its number of columns, as NPZ.
pub fn write_npz(path: &Path, arrays: &[(&str, &[f64], usize)]) -> Result<()> {
    write_whole(path, |file| {
        let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
        let options = zip::write::SimpleFileOptions::default()
            .compression_method(zip::CompressionMethod::Stored);
        for (name, values, columns) in arrays {
            archive.start_file(format!("{name}.npy"), options).map_err(std::io::Error::other)?;
            write_array(&mut archive, values, *columns)?;
        }
        let bytes = archive.finish().map_err(std::io::Error::other)?.into_inner();
        file.write_all(&bytes)
    })
}

fn write_array(file: &mut impl Write, values: &[f64], columns: usize) -> std::io::Result<()> {
    let rows = values.len().checked_div(columns).unwrap_or(0);
    let mut header =
        format!("{{'descr': '<f8', 'fortran_order': False, 'shape': ({rows}, {columns}), }}");
    // Magic, version and length take 10 bytes; the data starts at a multiple of 64.
    let padding = 63 - (10 + header.len()) % 64;
    header.push_str(&" ".repeat(padding));
    header.push('\n');
    file.write_all(b"\x93NUMPY\x01\x00")?;
    file.write_all(&(header.len() as u16).to_le_bytes())?;
    file.write_all(header.as_bytes())?;
    for value in values {
        file.write_all(&value.to_le_bytes())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn the_header_is_aligned_and_the_data_follows() {
        let mut bytes = Vec::new();
        write_array(&mut bytes, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 3).unwrap();
        let length = u16::from_le_bytes([bytes[8], bytes[9]]) as usize;
        assert_eq!((10 + length) % 64, 0);
        let header = std::str::from_utf8(&bytes[10..10 + length]).unwrap();
        assert!(header.contains("'shape': (2, 3)") && header.ends_with('\n'));
        assert_eq!(bytes[10 + length..].len(), 48);
        assert_eq!(bytes[10 + length + 8..10 + length + 16], 2f64.to_le_bytes());
    }

    #[test]
    fn an_archive_holds_its_arrays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.npz");
        write_npz(&path, &[("x", &[1.0, 2.0], 1), ("y", &[3.0], 1)]).unwrap();
        let mut archive = zip::ZipArchive::new(std::fs::File::open(path).unwrap()).unwrap();
        let mut bytes = Vec::new();
        archive.by_name("y.npy").unwrap().read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes[bytes.len() - 8..], 3f64.to_le_bytes());
        assert_eq!(archive.len(), 2);
    }
}
