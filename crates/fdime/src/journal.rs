//! Journals of finished work on disk: one line of JSON for each entry, appended when it finishes.
//! If the process is killed, only unfinished work is lost, and finished work is not repeated.

use crate::error::{Result, data_error, not_writable, read_error, write_error};
use serde::{Serialize, de::DeserializeOwned};
use std::collections::HashMap;
use std::fs::{File, TryLockError};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// One line of a journal.
pub trait Entry: Serialize + DeserializeOwned {
    /// The key by which the entry is found, such as the plan of a run.
    type Key: Serialize;

    /// The text that every line starts with. An incomplete last line with this start was cut off
    /// when the process was killed.
    const LINE_START: &'static str;

    /// Returns the key of this entry.
    fn key(&self) -> &Self::Key;
}

/// The entries of a journal.
pub struct Entries<E> {
    by_key: HashMap<String, Vec<E>>,
    skipped: usize,
    /// The number of the first line that was skipped, counted from 1.
    first_skipped: usize,
}

impl<E> Default for Entries<E> {
    fn default() -> Self {
        Entries { by_key: HashMap::new(), skipped: 0, first_skipped: 0 }
    }
}

impl<E: Entry> Entries<E> {
    /// Reads a journal without a heading, and neither changes nor locks it: another process may be
    /// writing to it. A file that does not exist has no entries.
    ///
    /// # Errors
    /// If the file cannot be read, or no line of it is an entry.
    pub fn read(path: &Path) -> Result<Self> {
        Self::read_lines(path, None)
    }

    /// As [`read`](Self::read), for a journal whose first line is `heading`.
    ///
    /// # Errors
    /// If the file cannot be read, or starts with another heading.
    pub fn read_with_heading(path: &Path, heading: &impl Serialize) -> Result<Self> {
        Self::read_lines(path, Some(&heading_value(path, heading)?))
    }

    fn read_lines(path: &Path, heading: Option<&serde_json::Value>) -> Result<Self> {
        let name = path.display().to_string();
        if !may_be_regular(path) {
            return Err(data_error(&name, NOT_REGULAR));
        }
        let file = match File::open(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self::default());
            }
            opened => opened.map_err(|error| read_error(&name, error))?,
        };
        match Lines::read(file, heading) {
            Ok(lines) => Ok(lines.entries),
            Err(Refusal::System(error)) => Err(read_error(&name, error)),
            Err(Refusal::Content(reason)) => Err(data_error(&name, reason)),
        }
    }

    /// Returns the entries with this key, oldest first.
    pub fn find(&self, key: &E::Key) -> &[E] {
        self.by_key.get(&key_text(key)).map_or(&[], Vec::as_slice)
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.by_key.values().map(Vec::len).sum()
    }

    /// Returns whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// Returns a sentence about lines that are not entries; `None` if there are none.
    pub fn damage(&self) -> Option<String> {
        match (self.skipped, self.first_skipped) {
            (0, _) => None,
            (1, line) => {
                Some(format!("line {line} is damaged; it is skipped and left in the file"))
            }
            (count, line) => Some(format!(
                "{count} lines are damaged, the first is line {line}; they are skipped and left in \
                 the file"
            )),
        }
    }

    fn insert(&mut self, entry: E) {
        self.by_key.entry(key_text(entry.key())).or_default().push(entry);
    }

    fn skip(&mut self, line: usize) {
        self.skipped += 1;
        if self.skipped == 1 {
            self.first_skipped = line;
        }
    }
}

/// What was read from a file.
struct Lines<E> {
    entries: Entries<E>,
    /// The number of bytes of all lines but one that was cut off.
    length: u64,
    end: End,
}

/// How a file ends.
#[derive(Debug, PartialEq)]
enum End {
    /// After a complete line.
    Line,
    /// In the middle of an entry or of the heading, which the process was writing when it was killed.
    CutOff,
    /// Without the line break after the last line.
    NoLineBreak,
}

/// Why a file is not read.
enum Refusal {
    System(std::io::Error),
    Content(String),
}

impl<E: Entry> Lines<E> {
    fn read(file: File, heading: Option<&serde_json::Value>) -> std::result::Result<Self, Refusal> {
        let mut lines = Lines { entries: Entries::default(), length: 0, end: End::Line };
        let mut reader = BufReader::new(file);
        let (mut line, mut number) = (Vec::new(), 0);
        let mut first_error = None;
        while reader.read_until(b'\n', &mut line).map_err(Refusal::System)? > 0 {
            number += 1;
            let complete = line.ends_with(b"\n");
            if let Some(heading) = heading.filter(|_| number == 1) {
                let cut_off = !complete && heading.to_string().as_bytes().starts_with(&line);
                let same = || serde_json::from_slice(&line).ok().as_ref() == Some(heading);
                if cut_off {
                    lines.end = End::CutOff;
                    break;
                } else if !complete || !same() {
                    return Err(Refusal::Content(OTHER_HEADING.into()));
                }
            } else {
                match serde_json::from_slice::<E>(&line) {
                    Ok(entry) => lines.entries.insert(entry),
                    Err(_) if !complete && starts_like::<E>(&line) => {
                        lines.end = End::CutOff;
                        break;
                    }
                    Err(error) => {
                        lines.entries.skip(number);
                        first_error.get_or_insert((number, error));
                    }
                }
            }
            lines.length += line.len() as u64;
            lines.end = if complete { End::Line } else { End::NoLineBreak };
            line.clear();
        }
        match first_error {
            Some((number, error)) if lines.entries.is_empty() && heading.is_none() => {
                let reason = format!(
                    "no line of it is an entry of a journal (line {number}: {error}); \
                     name another file"
                );
                Err(Refusal::Content(reason))
            }
            _ => Ok(lines),
        }
    }
}

/// Returns whether an incomplete line is the start of an entry.
fn starts_like<E: Entry>(line: &[u8]) -> bool {
    let start = E::LINE_START.as_bytes();
    line.starts_with(start) || start.starts_with(line)
}

/// An append-only file of entries, held by one process at a time. A process that is killed loses
/// none; a machine that loses power, at most those of the last second.
pub struct Journal<E> {
    path: PathBuf,
    file: File,
    /// When the file was last known to be on disk.
    synced: Instant,
    /// The number of bytes up to the end of the last complete line.
    length: u64,
    /// Whether the file may hold part of a line after `length`, because writing it failed.
    torn: bool,
    entries: Entries<E>,
}

impl<E: Entry> Journal<E> {
    /// Opens or creates a journal without a heading.
    ///
    /// # Errors
    /// If the file cannot be opened or locked, or no line of it is an entry. Single lines that are
    /// not entries are skipped: see [`Entries::damage`].
    pub fn open(path: &Path) -> Result<Self> {
        Self::open_lines(path, None)
    }

    /// Opens or creates a journal whose first line is `heading`.
    ///
    /// # Errors
    /// As for [`open`](Self::open), and if the file starts with another heading.
    pub fn open_with_heading(path: &Path, heading: &impl Serialize) -> Result<Self> {
        Self::open_lines(path, Some(heading_value(path, heading)?))
    }

    fn open_lines(path: &Path, heading: Option<serde_json::Value>) -> Result<Self> {
        let io = |error: std::io::Error| write_error(path, error);
        if !may_be_regular(path) {
            return Err(not_writable(path, NOT_REGULAR));
        }
        let file = File::options().read(true).append(true).create(true).open(path).map_err(io)?;
        file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => not_writable(path, IN_USE),
            TryLockError::Error(error) => write_error(path, error),
        })?;
        let lines = Lines::read(file.try_clone().map_err(io)?, heading.as_ref());
        let Lines { entries, length, end } = lines.map_err(|refusal| match refusal {
            Refusal::System(error) => write_error(path, error),
            Refusal::Content(reason) => data_error(&path.display().to_string(), reason),
        })?;
        let torn = end == End::CutOff;
        let (path, synced) = (path.to_path_buf(), Instant::now());
        let mut journal = Journal { path, file, synced, length, torn, entries };
        if end == End::NoLineBreak {
            journal.append_line("")?;
        }
        if let Some(heading) = heading.filter(|_| length == 0) {
            journal.append_line(&heading.to_string())?;
        }
        Ok(journal)
    }

    /// Returns all entries.
    pub fn entries(&self) -> &Entries<E> {
        &self.entries
    }

    /// Returns the entries with this key, oldest first.
    pub fn find(&self, key: &E::Key) -> &[E] {
        self.entries.find(key)
    }

    /// Appends an entry. If writing fails, the file is cut back to its last complete line, and a later
    /// entry can be appended.
    pub fn append(&mut self, entry: E) -> Result<()> {
        let line = serde_json::to_string(&entry)
            .map_err(|error| not_writable(&self.path, error.to_string()))?;
        self.append_line(&line)?;
        self.entries.insert(entry);
        Ok(())
    }

    fn append_line(&mut self, line: &str) -> Result<()> {
        let written = self.cut_back().and_then(|()| {
            // One write for one line, so that a kill leaves at most the last line incomplete.
            self.torn = true;
            self.file.write_all(format!("{line}\n").as_bytes())?;
            // Waiting for the disk takes longer than a small estimate.
            if self.synced.elapsed() >= SYNC_INTERVAL {
                self.file.sync_data()?;
                self.synced = Instant::now();
            }
            Ok(())
        });
        if let Err(error) = written {
            // If this fails too, the next entry tries again.
            let _ = self.cut_back();
            return Err(write_error(&self.path, error));
        }
        self.torn = false;
        self.length += line.len() as u64 + 1;
        Ok(())
    }

    /// Removes a part of a line at the end.
    fn cut_back(&mut self) -> std::io::Result<()> {
        if self.torn {
            self.file.set_len(self.length)?;
            self.torn = false;
        }
        Ok(())
    }
}

impl<E> Drop for Journal<E> {
    fn drop(&mut self) {
        // If this fails, the system still writes the file later.
        let _ = self.file.sync_data();
    }
}

/// The time after which an entry waits until the file is on disk.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);

fn heading_value(path: &Path, heading: &impl Serialize) -> Result<serde_json::Value> {
    serde_json::to_value(heading).map_err(|error| not_writable(path, error.to_string()))
}

const OTHER_HEADING: &str = "it belongs to other data, other settings or another version; \
                             delete it to start again";
const NOT_REGULAR: &str = "it is not a regular file; name another file";
const IN_USE: &str = "another process is writing to it; wait until it ends, or name another file";

/// Returns false for folders, pipes and devices, which are not even opened: opening a pipe waits
/// for its other end.
fn may_be_regular(path: &Path) -> bool {
    std::fs::metadata(path).map_or(true, |metadata| metadata.is_file())
}

/// Returns the key as JSON. Keys are plain data, which can always be written.
fn key_text(key: &impl Serialize) -> String {
    serde_json::to_string(key).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct Square {
        root: u32,
        square: u32,
    }

    impl Entry for Square {
        type Key = u32;
        const LINE_START: &'static str = "{\"root\":";

        fn key(&self) -> &u32 {
            &self.root
        }
    }

    fn square(root: u32) -> Square {
        Square { root, square: root * root }
    }

    fn cut(path: &Path, length: u64) {
        File::options().write(true).open(path).unwrap().set_len(length).unwrap();
    }

    #[test]
    fn entries_survive_a_kill_in_the_middle_of_a_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let mut journal = Journal::open(&path).unwrap();
        journal.append(square(2)).unwrap();
        let length = std::fs::metadata(&path).unwrap().len();
        journal.append(square(3)).unwrap();
        drop(journal);
        for kept in [10, 3] {
            cut(&path, length + kept);
            let mut journal = Journal::<Square>::open(&path).unwrap();
            assert_eq!(journal.find(&2), [square(2)]);
            assert!(journal.find(&3).is_empty(), "the incomplete line does not count");
            assert_eq!(journal.entries().damage(), None);
            journal.append(square(3)).unwrap();
            drop(journal);
            assert_eq!(Journal::<Square>::open(&path).unwrap().find(&3), [square(3)]);
            assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 2);
        }
    }

    #[test]
    fn only_the_same_heading_is_continued() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let mut journal = Journal::open_with_heading(&path, &"first").unwrap();
        journal.append(square(2)).unwrap();
        drop(journal);
        let journal = Journal::<Square>::open_with_heading(&path, &"first").unwrap();
        assert_eq!(journal.entries().len(), 1);
        drop(journal);
        let error = Journal::<Square>::open_with_heading(&path, &"second").err().unwrap();
        assert!(error.to_string().contains("other settings"), "{error}");
        // The process was killed while it wrote the heading.
        cut(&path, 3);
        let journal = Journal::<Square>::open_with_heading(&path, &"first").unwrap();
        assert!(journal.entries().is_empty());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "\"first\"\n");
    }

    #[test]
    fn a_journal_has_one_writer() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let _first = Journal::<Square>::open(&path).unwrap();
        let error = Journal::<Square>::open(&path).err().unwrap().to_string();
        assert!(error.contains("another process is writing to it"), "{error}");
    }

    #[test]
    fn other_files_are_refused_and_not_changed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes.txt");
        for text in [&b"not an entry"[..], b"not\nan entry\n", b"{\"root\":\"x\"}\n", b"\xff\n"] {
            std::fs::write(&path, text).unwrap();
            let opened = Journal::<Square>::open(&path).err().unwrap();
            let read = Entries::<Square>::read(&path).err().unwrap();
            for error in [opened.to_string(), read.to_string()] {
                assert!(
                    error.contains("no line of it is an entry of a journal (line 1"),
                    "{error}"
                );
            }
            assert_eq!(std::fs::read(&path).unwrap(), text);
        }
    }

    #[test]
    fn damaged_lines_are_skipped_and_left_in_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let [two, three] = [2, 3].map(|root| serde_json::to_string(&square(root)).unwrap());
        let damaged = [two.as_bytes(), b"\n\0\0\xff\n{\"root\":3,\"squ\n", three.as_bytes()];
        // The first text has no line break at its end, the second a text that is not an entry.
        for text in [damaged.concat(), [&damaged.concat()[..], b"\na note"].concat()] {
            std::fs::write(&path, &text).unwrap();
            let mut journal = Journal::<Square>::open(&path).unwrap();
            let damage = journal.entries().damage().unwrap();
            assert!(damage.contains("lines are damaged, the first is line 2"), "{damage}");
            assert_eq!((journal.find(&2), journal.find(&3)), (&[square(2)][..], &[square(3)][..]));
            journal.append(square(4)).unwrap();
            assert_eq!(Entries::<Square>::read(&path).unwrap().find(&4), [square(4)]);
            let line = serde_json::to_string(&square(4)).unwrap();
            let expected = [&text[..], b"\n", line.as_bytes(), b"\n"].concat();
            assert_eq!(std::fs::read(&path).unwrap(), expected);
        }
    }

    #[test]
    fn readers_neither_change_the_file_nor_keep_a_writer_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        assert!(Entries::<Square>::read(&path).unwrap().is_empty());
        assert!(!path.exists());
        let mut journal = Journal::open(&path).unwrap();
        journal.append(square(2)).unwrap();
        // The writer is in the middle of a line.
        journal.file.write_all(b"{\"root\":3,").unwrap();
        let before = std::fs::read(&path).unwrap();
        let entries = Entries::<Square>::read(&path).unwrap();
        assert_eq!((entries.len(), entries.damage()), (1, None));
        assert_eq!(std::fs::read(&path).unwrap(), before);
        journal.file.write_all(b"\"square\":9}\n").unwrap();
        assert_eq!(Entries::<Square>::read(&path).unwrap().find(&3), [square(3)]);
    }

    #[test]
    fn a_failed_append_leaves_whole_lines_and_later_ones_work() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let mut journal = Journal::open(&path).unwrap();
        journal.append(square(2)).unwrap();
        // While the disk is full, half a line is written and cannot be removed.
        let writable = std::mem::replace(&mut journal.file, File::open(&path).unwrap());
        (&writable).write_all(b"{\"root\":3").unwrap();
        assert!(journal.append(square(3)).is_err());
        assert!(journal.find(&3).is_empty());
        journal.file = writable;
        journal.append(square(4)).unwrap();
        drop(journal);
        let entries = Entries::<Square>::read(&path).unwrap();
        assert_eq!((entries.len(), entries.damage()), (2, None));
        assert_eq!(entries.find(&4), [square(4)]);
    }

    #[cfg(unix)]
    #[test]
    fn only_regular_files_are_opened() {
        let folder = tempfile::tempdir().unwrap();
        for path in [folder.path(), Path::new("/dev/null")] {
            let opened = Journal::<Square>::open(path).err().unwrap().to_string();
            let read = Entries::<Square>::read(path).err().unwrap().to_string();
            assert!(opened.contains("not a regular file"), "{opened}");
            assert!(read.contains("not a regular file"), "{read}");
        }
    }
}
