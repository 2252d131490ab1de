//! What happens when a GPU fails, with a driver that has no GPU (fake_gpu/cuda.c): `--device auto`
//! continues on the CPU with the same numbers, `--device cuda` is an error that says what is wrong.
#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder with the fake libraries.
struct FakeGpu {
    folder: tempfile::TempDir,
}

impl FakeGpu {
    /// Compiles the libraries, or returns `None` with a message without a C compiler.
    fn new(libraries: &[&str]) -> Option<Self> {
        let fake = FakeGpu { folder: tempfile::tempdir().unwrap() };
        for library in libraries {
            let source = format!("{}/tests/fake_gpu/{library}.c", env!("CARGO_MANIFEST_DIR"));
            let output = fake.folder.path().join(format!("lib{library}.so"));
            let mut compiler = Command::new("cc");
            compiler.args(["-w", "-shared", "-fPIC", "-o"]).arg(output).arg(source);
            match compiler.status() {
                Ok(status) => assert!(status.success()),
                Err(error) => {
                    println!("SKIPPED: there is no C compiler 'cc': {error}");
                    return None;
                }
            }
        }
        Some(fake)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs the command with the fake libraries before all others.
    fn run(&self, arguments: &str, failure: (&str, &str)) -> Output {
        Command::new(env!("CARGO_BIN_EXE_fdime"))
            .args(arguments.split_whitespace())
            .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
            .env("LD_LIBRARY_PATH", self.folder.path())
            .env("XDG_CACHE_HOME", self.folder.path())
            .env_remove("FDIME_NVRTC")
            .env_remove("CUDA_HOME")
            .env_remove("CUDA_PATH")
            .env(failure.0, failure.1)
            .output()
            .unwrap()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The ways in which a GPU fails, and what the message says. The GPU disappears before it has
/// computed anything, or in the middle of a training.
const FAILURES: [((&str, &str), &str); 3] = [
    (("FAKE_GPU_MEMORY", "100000"), "MB of memory left"),
    (("FAKE_GPU_LAUNCHES", "0"), "launch failure"),
    (("FAKE_GPU_LAUNCHES", "40"), "launch failure"),
];

const ESTIMATE: &str = "estimate examples/pairs.csv --effort quick";

#[test]
fn estimates_continue_on_the_cpu() {
    let Some(fake) = FakeGpu::new(&["cuda", "nvrtc"]) else { return };
    let estimate = |output: &Output| -> serde_json::Value {
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        serde_json::json!([json["mi_nats"], json["ci_low"], json["p_value"]])
    };
    for (failure, reason) in FAILURES {
        let on_cpu = fake.run(&format!("{ESTIMATE} --device cpu --json"), failure);
        let automatic = fake.run(&format!("{ESTIMATE} --json"), failure);
        let messages = text(&automatic.stderr);
        assert!(automatic.status.success(), "{failure:?}: {messages}");
        assert!(messages.contains(reason), "{failure:?}: {messages}");
        assert!(messages.contains("continuing on the CPU"), "{failure:?}: {messages}");
        assert_eq!(estimate(&automatic), estimate(&on_cpu), "{failure:?}");

        let requested = fake.run(&format!("{ESTIMATE} --device cuda --quiet"), failure);
        let error = text(&requested.stderr);
        assert_eq!(requested.status.code(), Some(1), "{error}");
        assert!(error.starts_with("error: cuda: ") && error.contains(reason), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

/// A matrix has the numbers of the CPU if the GPU fails. With `--device cuda` it ends, keeps its
/// journal, and can be continued on the CPU.
#[test]
fn matrices_continue_on_the_cpu() {
    let Some(fake) = FakeGpu::new(&["cuda", "nvrtc"]) else { return };
    let matrix = |name: &str, options: &str| {
        let out = fake.path(name).display().to_string();
        format!("matrix examples/pairs.csv --columns x*,y1 -o {out} {options}")
    };
    let table = |name: &str| std::fs::read_to_string(fake.path(name)).unwrap();
    for (failure, reason) in FAILURES {
        assert!(fake.run(&matrix("cpu.csv", "--device cpu"), failure).status.success());
        let automatic = fake.run(&matrix("auto.csv", ""), failure);
        assert!(text(&automatic.stderr).contains("continuing on the CPU"), "{automatic:?}");
        assert_eq!(table("auto.csv"), table("cpu.csv"));

        let requested = fake.run(&matrix("cuda.csv", "--device cuda"), failure);
        let error = text(&requested.stderr);
        assert_eq!(requested.status.code(), Some(1), "{error}");
        assert!(error.contains(reason) && !fake.path("cuda.csv").exists(), "{error}");
        let continued = fake.run(&matrix("cuda.csv", "--device cpu --resume"), failure);
        assert!(continued.status.success(), "{}", text(&continued.stderr));
        assert_eq!(table("cuda.csv"), table("cpu.csv"));
        std::fs::remove_file(fake.path("cuda.csv")).unwrap();
    }
}

#[test]
fn staircases_continue_on_the_cpu() {
    let Some(fake) = FakeGpu::new(&["cuda", "nvrtc"]) else { return };
    let run = "staircase --dim 2 --levels 1,2 --iterations 30 --hidden 8,8 --last 5 --json";
    let results = |output: &Output| -> serde_json::Value {
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()["results"].clone()
    };
    let failure = ("FAKE_GPU_LAUNCHES", "0");
    let automatic = fake.run(run, failure);
    assert!(text(&automatic.stderr).contains("continuing on the CPU"), "{automatic:?}");
    let on_cpu = fake.run(&format!("{run} --device cpu"), failure);
    assert_eq!(results(&automatic), results(&on_cpu));
}

#[test]
fn a_missing_kernel_compiler_is_reported() {
    let Some(fake) = FakeGpu::new(&["cuda"]) else { return };
    let none = ("FAKE_GPU_LAUNCHES", "0");
    let devices = text(&fake.run("devices", none).stdout);
    if !devices.contains("NVRTC") {
        println!("SKIPPED: the kernel compiler is installed for all users: {devices}");
        return;
    }
    let automatic = fake.run(ESTIMATE, none);
    let messages = text(&automatic.stderr);
    assert!(automatic.status.success());
    assert!(messages.contains("pip install nvidia-cuda-nvrtc"), "{messages}");
    assert!(messages.contains("running on the CPU"), "{messages}");
    let requested = fake.run(&format!("{ESTIMATE} --device cuda"), none);
    assert_eq!(requested.status.code(), Some(1));
    assert!(text(&requested.stderr).contains("FDIME_NVRTC"));
}
