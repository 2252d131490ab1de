//! The files that a command writes: checked before any work, and written before results are printed.

use crate::console::note;
use crate::failure::{Failure, Outcome};
use fdime::data::{check_writable, write_whole};
use std::io::Write;
use std::path::{Path, PathBuf};

/// A file of a command with its name in messages, such as `--svg`.
pub type NamedFile<'a> = (&'a str, &'a Path);

/// Returns an error if an output cannot be written, or is the same file as an input or another
/// output.
pub fn check(inputs: &[NamedFile], outputs: &[NamedFile]) -> Outcome {
    let mut taken: Vec<(&str, PathBuf)> = Vec::new();
    taken.extend(inputs.iter().map(|(name, path)| (*name, resolved(path))));
    for (name, path) in outputs {
        let refused = |reason: &dyn std::fmt::Display| {
            Failure::Usage(format!("{name} {}: {reason}", path.display()))
        };
        check_writable(path).map_err(|error| Failure::Usage(format!("{name}: {error}")))?;
        // Devices such as /dev/null can take several outputs.
        if path.exists() && !path.is_file() {
            continue;
        }
        let file = resolved(path);
        if let Some((other, _)) = taken.iter().find(|(_, known)| *known == file) {
            return Err(refused(&format!("this is also the file of {other}; name another file")));
        }
        taken.push((name, file));
    }
    Ok(())
}

/// Returns the absolute path without links; of a file that does not exist yet, that of its folder.
fn resolved(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new(".")).canonicalize();
        match (folder, path.file_name()) {
            (Ok(folder), Some(name)) => folder.join(name),
            _ => path.to_path_buf(),
        }
    })
}

/// Returns an error unless the name of an output ends in one of these extensions. Pipes and devices
/// can have any name.
pub fn check_extension(flag: &str, path: Option<&PathBuf>, extensions: &[&str]) -> Outcome {
    let Some(path) = path.filter(|path| !path.exists() || path.is_file()) else { return Ok(()) };
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    if extensions.iter().any(|known| extension.eq_ignore_ascii_case(known)) {
        return Ok(());
    }
    let known: Vec<String> = extensions.iter().map(|known| format!(".{known}")).collect();
    let (path, known) = (path.display(), known.join(" or "));
    Err(Failure::Usage(format!("{flag} {path}: the name must end in {known}")))
}

/// Writes results to a .csv file, or to a .json file.
pub fn write_table(
    path: &Path,
    results: &impl serde::Serialize,
    write_csv: impl FnOnce(&mut csv::Writer<&mut dyn Write>) -> csv::Result<()>,
) -> Outcome {
    if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json")) {
        let text = serde_json::to_string_pretty(results)
            .map_err(|error| Failure::Run(format!("cannot write JSON: {error}")))?;
        return Ok(write_whole(path, |file| writeln!(file, "{text}"))?);
    }
    Ok(write_whole(path, |file| {
        let mut table = csv::Writer::from_writer(file as &mut dyn Write);
        write_csv(&mut table)?;
        table.flush()
    })?)
}

/// Returns a text that a spreadsheet does not take for a formula.
pub fn spreadsheet_text(text: &str) -> String {
    match text.starts_with(['=', '+', '-', '@']) {
        true => format!("'{text}"),
        false => text.to_string(),
    }
}

/// Shows a page in the browser.
pub fn open_in_browser(page: &Path) -> Outcome {
    open::that(page).map_err(|error| {
        let page = page.display();
        Failure::Run(format!("--open: no browser could be started ({error}); open {page} yourself"))
    })
}

/// Outputs that are written before results are printed. If one fails, the others are still written
/// and the results still printed.
#[derive(Default)]
pub struct Outputs {
    /// The first failure.
    pub failure: Option<Failure>,
}

impl Outputs {
    /// Writes an output that was asked for.
    pub fn write(&mut self, path: Option<&PathBuf>, write: impl FnOnce(&Path) -> Outcome) {
        let Some(path) = path else { return };
        match write(path) {
            Ok(()) => note(&format!("wrote {}", path.display())),
            Err(failure) => {
                self.failure.get_or_insert(failure);
            }
        }
    }

    /// Writes an output that is text.
    pub fn write_text(&mut self, path: Option<&PathBuf>, text: impl FnOnce() -> String) {
        self.write(path, |path| Ok(write_whole(path, |file| file.write_all(text().as_bytes()))?));
    }

    /// Writes a page. Returns its path if it should be shown; one that is only to be shown is written
    /// to the folder of temporary files.
    pub fn write_page(
        &mut self,
        path: Option<&PathBuf>,
        is_shown: bool,
        text: impl FnOnce() -> String,
    ) -> Option<PathBuf> {
        let temporary = || std::env::temp_dir().join(format!("fdime-{}.html", std::process::id()));
        let path = path.cloned().or_else(|| is_shown.then(temporary));
        self.write_text(path.as_ref(), text);
        path.filter(|_| is_shown)
    }

    /// Prints results; returns the failure of an output, if there was one.
    pub fn finish(self, print: impl FnOnce() -> Outcome) -> Outcome {
        let printed = print();
        self.failure.map_or(printed, Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_one_purpose_however_it_is_spelled() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("plan.json"), "{}").unwrap();
        std::fs::create_dir(at("sub")).unwrap();
        let refusal = |inputs: &[NamedFile], outputs: &[NamedFile]| match check(inputs, outputs) {
            Err(Failure::Usage(message)) => message,
            other => panic!("{other:?}"),
        };
        let (plan, svg) = (at("sub/../plan.json"), at("new.svg"));
        let message = refusal(&[("--plan", &at("plan.json"))], &[("--svg", &plan)]);
        assert!(message.contains("--svg") && message.contains("the file of --plan"), "{message}");
        let message = refusal(&[], &[("--svg", &svg), ("--log", &at("sub/../new.svg"))]);
        assert!(message.contains("--log") && message.contains("the file of --svg"), "{message}");
        assert!(refusal(&[], &[("--svg", &at("none/a.svg"))]).contains("there is no folder"));
        assert!(check(&[("--plan", &at("plan.json"))], &[("--svg", &svg)]).is_ok());
    }

    #[test]
    fn spreadsheets_are_not_given_formulas() {
        assert_eq!(spreadsheet_text("=HYPERLINK(\"x\")"), "'=HYPERLINK(\"x\")");
        assert_eq!(spreadsheet_text("@a"), "'@a");
        assert_eq!(spreadsheet_text("price"), "price");
    }

    #[cfg(unix)]
    #[test]
    fn links_are_followed_and_devices_may_be_shared() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("a"), folder.path().join("b"));
        std::fs::write(&file, "").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert!(check(&[("--plan", &file)], &[("--svg", &link)]).is_err());
        let null = Path::new("/dev/null");
        assert!(check(&[], &[("--svg", null), ("--log", null)]).is_ok());
    }
}
