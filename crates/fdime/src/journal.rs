//! Journals of finished work on disk: one line of JSON for each entry, appended when it finishes.
//! If the process is killed, only unfinished work is lost, and finished work is not repeated.

use crate::error::{Result, not_writable, write_error};
use serde::{Serialize, de::DeserializeOwned};
use std::collections::HashMap;
use std::fs::{File, TryLockError};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

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

/// An append-only file of entries, held by one process at a time.
pub struct Journal<E> {
    path: PathBuf,
    file: File,
    /// The number of bytes up to the end of the last complete line.
    length: u64,
    entries: HashMap<String, Vec<E>>,
}

impl<E: Entry> Journal<E> {
    /// Opens or creates a journal without a heading.
    ///
    /// # Errors
    /// If the file cannot be opened or locked, or holds a line that is not an entry.
    pub fn open(path: &Path) -> Result<Self> {
        Self::open_lines(path, None)
    }

    /// Opens or creates a journal whose first line is `heading`.
    ///
    /// # Errors
    /// As for [`open`](Self::open), and if the file starts with another heading.
    pub fn open_with_heading(path: &Path, heading: &impl Serialize) -> Result<Self> {
        let heading =
            serde_json::to_value(heading).map_err(|error| not_writable(path, error.to_string()))?;
        Self::open_lines(path, Some(heading))
    }

    fn open_lines(path: &Path, heading: Option<serde_json::Value>) -> Result<Self> {
        let io = |error: std::io::Error| write_error(path, error);
        let file = File::options().read(true).append(true).create(true).open(path).map_err(io)?;
        if !file.metadata().map_err(io)?.is_file() {
            return Err(not_writable(path, "it is not a regular file"));
        }
        file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => not_writable(path, "another process is writing to it"),
            TryLockError::Error(error) => write_error(path, error),
        })?;
        let mut journal = Journal { path: path.into(), file, length: 0, entries: HashMap::new() };
        journal.read(heading.as_ref())?;
        journal.file.set_len(journal.length).map_err(io)?;
        if let Some(heading) = heading.filter(|_| journal.length == 0) {
            journal.append_line(&heading.to_string())?;
        }
        Ok(journal)
    }

    /// Reads all complete lines and sets `length` to their end.
    fn read(&mut self, heading: Option<&serde_json::Value>) -> Result<()> {
        let path = self.path.clone();
        let file = self.file.try_clone().map_err(|error| write_error(&path, error))?;
        let mut reader = BufReader::new(file);
        let (mut line, mut number) = (String::new(), 0);
        while reader.read_line(&mut line).map_err(|error| write_error(&path, error))? > 0 {
            number += 1;
            let complete = line.ends_with('\n');
            if let Some(heading) = heading.filter(|_| number == 1) {
                if complete && serde_json::from_str(&line).ok().as_ref() == Some(heading) {
                    self.length = line.len() as u64;
                } else if complete || !heading.to_string().starts_with(&line) {
                    return Err(not_writable(&path, OTHER_HEADING));
                }
            } else {
                match serde_json::from_str::<E>(&line) {
                    Ok(entry) => {
                        self.insert(entry);
                        self.length += line.len() as u64;
                        if !complete {
                            return self.append_line("");
                        }
                    }
                    // The process was killed while it wrote the last line.
                    Err(_) if !complete && line.starts_with(E::LINE_START) => break,
                    Err(error) => {
                        let reason = format!("line {number} is not an entry of a journal: {error}");
                        return Err(not_writable(&path, reason));
                    }
                }
            }
            line.clear();
        }
        Ok(())
    }

    /// Returns the entries with this key, oldest first.
    pub fn find(&self, key: &E::Key) -> &[E] {
        self.entries.get(&key_text(key)).map_or(&[], Vec::as_slice)
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.entries.values().map(Vec::len).sum()
    }

    /// Returns whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Appends an entry and waits until it is on disk. If writing fails, the file is cut back to
    /// its last complete line.
    pub fn append(&mut self, entry: E) -> Result<()> {
        let line = serde_json::to_string(&entry)
            .map_err(|error| not_writable(&self.path, error.to_string()))?;
        self.append_line(&line)?;
        self.insert(entry);
        Ok(())
    }

    fn append_line(&mut self, line: &str) -> Result<()> {
        // One write for one line, so that a kill leaves at most the last line incomplete.
        let written = self
            .file
            .write_all(format!("{line}\n").as_bytes())
            .and_then(|()| self.file.sync_data());
        if let Err(error) = written {
            let _ = self.file.set_len(self.length);
            return Err(write_error(&self.path, error));
        }
        self.length += line.len() as u64 + 1;
        Ok(())
    }

    fn insert(&mut self, entry: E) {
        self.entries.entry(key_text(entry.key())).or_default().push(entry);
    }
}

const OTHER_HEADING: &str = "it belongs to other data, other settings or another version; \
                             delete it to start again";

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
        cut(&path, length + 10);

        let mut journal = Journal::<Square>::open(&path).unwrap();
        assert_eq!(journal.find(&2), [square(2)]);
        assert!(journal.find(&3).is_empty(), "the incomplete line does not count");
        journal.append(square(3)).unwrap();
        drop(journal);
        assert_eq!(Journal::<Square>::open(&path).unwrap().find(&3), [square(3)]);
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 2);
    }

    #[test]
    fn only_the_same_heading_is_continued() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let mut journal = Journal::open_with_heading(&path, &"first").unwrap();
        journal.append(square(2)).unwrap();
        drop(journal);
        assert_eq!(Journal::<Square>::open_with_heading(&path, &"first").unwrap().len(), 1);
        let error = Journal::<Square>::open_with_heading(&path, &"second").err().unwrap();
        assert!(error.to_string().contains("other settings"), "{error}");
        // The process was killed while it wrote the heading.
        cut(&path, 3);
        assert!(Journal::<Square>::open_with_heading(&path, &"first").unwrap().is_empty());
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
        for text in ["not an entry", "not an entry\n", "{\"root\":\"x\"}\n"] {
            std::fs::write(&path, text).unwrap();
            let error = Journal::<Square>::open(&path).err().unwrap().to_string();
            assert!(error.contains("line 1"), "{error}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
    }
}
