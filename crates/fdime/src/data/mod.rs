//! Tables on disk: written whole, and read column by column.

#[cfg(any(feature = "arrow", feature = "parquet"))]
mod arrow_column;
#[cfg(feature = "arrow")]
mod arrow_ipc;
mod csv;
mod frame;
mod guard;
mod idx;
mod npy;
mod open;
mod pairs;
#[cfg(feature = "parquet")]
mod parquet;
mod select;
mod source;

#[cfg(feature = "arrow")]
pub use arrow_column::read_batches;
pub use csv::write_csv;
pub use frame::{Column, Frame, MISSING, Values};
pub(crate) use guard::without_panic;
pub use idx::Images;
pub use npy::{write_npy, write_npz};
pub use open::{Opened, open};
pub use pairs::{
    ConstantColumns, MissingRows, PairTable, Reading, load_frame, load_named, load_pairs, pairs_of,
    scoring_pairs,
};
pub use select::{glob_matches, pair_columns, select};

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
/// the old file or the new one, never half of one. A link is followed; what is no ordinary file,
/// such as a pipe or a device, is written to as it is.
pub fn write_whole(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<&std::fs::File>) -> std::io::Result<()>,
) -> Result<()> {
    check_writable(path)?;
    let fail = |error: std::io::Error| Error::Write {
        path: path.display().to_string(),
        reason: error.to_string(),
    };
    let fill = |file: &std::fs::File| {
        let mut writer = BufWriter::new(file);
        write(&mut writer).and_then(|()| writer.flush())
    };
    let target = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    if target.exists() && !target.is_file() {
        let file = std::fs::OpenOptions::new().write(true).open(&target).map_err(fail)?;
        return fill(&file).map_err(fail);
    }
    let mut aside = tempfile::Builder::new();
    aside.prefix(".fdime-");
    // Temporary files are private by default; a result has the permissions of any new file.
    #[cfg(unix)]
    let aside = aside.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let file = aside.tempfile_in(folder_of(&target)).map_err(fail)?;
    fill(file.as_file()).map_err(fail)?;
    file.persist(&target).map_err(|error| fail(error.error))?;
    Ok(())
}

/// Refuses a path that could not be written, so that nobody computes for hours first.
pub fn check_writable(path: &Path) -> Result<()> {
    let fail = |reason: String| Error::Write { path: path.display().to_string(), reason };
    let folder = folder_of(path);
    if !folder.is_dir() {
        return Err(fail(format!("there is no folder {}", folder.display())));
    }
    if path.is_dir() {
        return Err(fail("it is a folder".into()));
    }
    Ok(())
}

fn folder_of(path: &Path) -> &Path {
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
    fn links_are_followed_and_devices_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        std::fs::write(&real, "old").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        write_whole(&link, |file| file.write_all(b"new")).unwrap();
        assert!(link.is_symlink());
        assert_eq!(std::fs::read(&real).unwrap(), b"new");
        write_whole(Path::new("/dev/null"), |file| file.write_all(b"gone")).unwrap();
        assert!(!Path::new("/dev/null").is_file());
    }

    #[test]
    fn a_missing_folder_is_named() {
        let error = write_whole(Path::new("no/such/folder/file"), |_| Ok(())).unwrap_err();
        assert!(error.to_string().contains("there is no folder no/such/folder"), "{error}");
    }
}
