//! Tables on disk, which are read column by column and replaced only by complete files.

#[cfg(any(feature = "arrow", feature = "parquet"))]
mod arrow_column;
#[cfg(feature = "arrow")]
mod arrow_ipc;
mod csv;
mod dates;
mod frame;
mod guard;
mod integers;
mod json_lines;
mod npy;
mod open;
mod pairs;
#[cfg(feature = "parquet")]
mod parquet;
mod reading;
mod select;
mod source;
mod text;
#[cfg(feature = "excel")]
mod workbook;

#[cfg(feature = "arrow")]
pub use arrow_column::read_batches;
pub use csv::write_csv;
pub use dates::parse_times;
pub use frame::{Column, Frame, MISSING, Values};
pub use guard::panic_is_caught;
pub(crate) use guard::without_panic;
pub use npy::{write_npy, write_npz};
pub use open::{Opened, open};
pub use pairs::{
    LoadedFrame, PairTable, load_frame, load_named, load_pairs, load_triples, load_two_files,
    pairs_of, scoring_pairs,
};
pub use reading::{ConstantColumns, Delimiter, MissingRows, Reading, TextFormat};
pub use select::{glob_matches, pair_columns, select};

use crate::error::{Result, not_writable, write_error};
use std::io::{BufWriter, Write};
use std::path::Path;

/// A numeric table, row-major.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// The names of the columns.
    pub columns: Vec<String>,
    /// The values, row by row.
    pub values: Vec<f64>,
}

impl Table {
    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.values.len().checked_div(self.columns.len()).unwrap_or(0)
    }
}

/// Writes a temporary file and renames it to `path` when it is complete, so that `path` is always
/// the old file or the new one. Links are followed; pipes and devices are written to directly.
pub fn write_whole(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<&std::fs::File>) -> std::io::Result<()>,
) -> Result<()> {
    check_writable(path)?;
    let fail = |error: std::io::Error| write_error(path, error);
    let fill = |file: &std::fs::File| {
        let mut writer = BufWriter::new(file);
        write(&mut writer).and_then(|()| writer.flush())
    };
    let target = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    if target.exists() && !target.is_file() {
        let file = std::fs::OpenOptions::new().write(true).open(&target).map_err(fail)?;
        return fill(&file).map_err(fail);
    }
    let mut temporary = tempfile::Builder::new();
    temporary.prefix(".fdime-");
    // Temporary files are private by default; a result has the permissions of any new file.
    #[cfg(unix)]
    let temporary = temporary.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let file = temporary.tempfile_in(parent_folder(&target)).map_err(fail)?;
    fill(file.as_file()).map_err(fail)?;
    file.persist(&target).map_err(|error| fail(error.error))?;
    Ok(())
}

/// Returns an error if `path` cannot be written, so that long work can be refused before it starts.
pub fn check_writable(path: &Path) -> Result<()> {
    let folder = parent_folder(path);
    if !folder.is_dir() {
        return Err(not_writable(path, format!("there is no folder {}", folder.display())));
    }
    if path.is_dir() {
        return Err(not_writable(path, "it is a folder"));
    }
    if path.exists() && !path.is_file() {
        return Ok(());
    }
    let target = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let probe = tempfile::Builder::new().prefix(".fdime-").tempfile_in(parent_folder(&target));
    probe.map(|_| ()).map_err(|error| write_error(path, error))
}

fn parent_folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
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

    #[cfg(unix)]
    #[test]
    fn links_are_followed_and_devices_are_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        std::fs::write(&real, "old").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        write_whole(&link, |file| file.write_all(b"new")).unwrap();
        assert!(link.is_symlink());
        assert_eq!(std::fs::read(&real).unwrap(), b"new");
        write_whole(Path::new("/dev/null"), |file| file.write_all(b"discarded")).unwrap();
        assert!(!Path::new("/dev/null").is_file());
    }

    #[test]
    fn a_missing_folder_is_named() {
        let error = write_whole(Path::new("no/such/folder/file"), |_| Ok(())).unwrap_err();
        assert!(error.to_string().contains("there is no folder no/such/folder"), "{error}");
    }
}
