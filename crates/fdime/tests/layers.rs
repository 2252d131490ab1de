//! No module imports from a later layer.

use std::fs;
use std::path::Path;

/// The modules of the library. Each imports from its own layer and those before it.
const LAYERS: [&[&str]; 8] = [
    &["error", "memory", "message", "nats", "numerics", "random"],
    &["chain", "channel", "link", "scores", "pairing", "divergence", "journal"],
    &["parallel", "nn", "objective", "critic"],
    &["data", "baseline", "scenario"],
    &["train"],
    &["engine"],
    &["estimate"],
    &["mutual_information", "names", "lib"],
];

fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|modules| modules.contains(&module))
}

fn check(path: &Path, module: &str, found: &mut Vec<String>) {
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            check(&entry.unwrap().path(), module, found);
        }
    } else if path.extension().is_some_and(|extension| extension == "rs") {
        let text = fs::read_to_string(path).unwrap();
        // Tests may use everything.
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        for line in code.lines().filter(|line| !line.trim_start().starts_with("//")) {
            for import in line.split("crate::").skip(1) {
                let name = import.split(|c: char| !c.is_ascii_lowercase() && c != '_').next();
                let above =
                    name.and_then(layer).is_some_and(|imported| Some(imported) > layer(module));
                if above {
                    found.push(format!("{}: {}", path.display(), line.trim()));
                }
            }
        }
    }
}

#[test]
fn no_module_imports_from_a_later_layer() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    for entry in fs::read_dir(source).unwrap() {
        let path = entry.unwrap().path();
        let module = path.file_stem().unwrap().to_string_lossy().into_owned();
        assert!(layer(&module).is_some(), "{module} has no layer");
        check(&path, &module, &mut found);
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}
