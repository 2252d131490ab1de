//! Tables on disk.

mod csv;
mod npy;

pub use csv::write_csv;
pub use npy::{write_npy, write_npz};

use crate::error::{Error, Result};
use std::io::{BufWriter, Write};
use std::path::Path;

/// A numeric table, row-major.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// One name for every column.
    pub columns: Vec<String>,
    /// Row after row.
    pub values: Vec<f64>,
}

impl Table {
    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.values.len().checked_div(self.columns.len()).unwrap_or(0)
    }
}

/// Writes a file aside and renames it into place when it is whole: whoever looks at `path` sees
/// the old file or the new one, never half of one.
pub fn write_whole(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<&std::fs::File>) -> std::io::Result<()>,
) -> Result<()> {
    let fail = |reason: String| Error::Write { path: path.display().to_string(), reason };
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    if !folder.is_dir() {
        return Err(fail(format!("there is no folder {}", folder.display())));
    }
    let file = tempfile::Builder::new()
        .prefix(".fdime-")
        .tempfile_in(folder)
        .map_err(|e| fail(e.to_string()))?;
    let mut writer = BufWriter::new(file.as_file());
    write(&mut writer).and_then(|()| writer.flush()).map_err(|e| fail(e.to_string()))?;
    drop(writer);
    readable_by_all(file.as_file()).map_err(|e| fail(e.to_string()))?;
    file.persist(path).map_err(|e| fail(e.error.to_string()))?;
    Ok(())
}

/// Temporary files are private; a result should have the permissions of an ordinary new file.
#[cfg(unix)]
fn readable_by_all(file: &std::fs::File) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    file.set_permissions(std::fs::Permissions::from_mode(0o644))
}

#[cfg(not(unix))]
fn readable_by_all(_file: &std::fs::File) -> std::io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_leaves_the_old_file_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.txt");
        write_whole(&path, |file| file.write_all(b"old")).unwrap();
        let error = write_whole(&path, |file| {
            file.write_all(b"new")?;
            Err(std::io::Error::other("disk full"))
        });
        assert!(error.unwrap_err().to_string().contains("disk full"));
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_missing_folder_is_named() {
        let error = write_whole(Path::new("no/such/folder/file"), |_| Ok(())).unwrap_err();
        assert!(error.to_string().contains("there is no folder no/such/folder"), "{error}");
    }
}
