//! What happens when a GPU fails, with a driver that has no GPU (emulated_gpu/driver.c): `--device
//! auto` continues on the CPU with the same numbers, `--device cuda` is an error that says what is
//! wrong.
#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder with the libraries of an emulated GPU.
struct EmulatedGpu {
    folder: tempfile::TempDir,
}

/// The libraries of the driver and of the kernel compiler, and their sources.
const DRIVER: (&str, &str) = ("libcuda.so", "driver.c");
const COMPILER: (&str, &str) = ("libnvrtc.so", "no_compiler.c");

impl EmulatedGpu {
    /// Compiles the libraries, or returns `None` with a message without a C compiler.
    fn new(libraries: &[(&str, &str)]) -> Option<Self> {
        let gpu = EmulatedGpu { folder: tempfile::tempdir().unwrap() };
        for (library, source) in libraries {
            let tests = concat!(env!("CARGO_MANIFEST_DIR"), "/../fdime/tests/emulated_gpu");
            let source = format!("{tests}/{source}");
            let output = gpu.path(library);
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
        Some(gpu)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs the command with these libraries before all others.
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
    (("EMULATED_GPU_MEMORY", "100000"), "MB of memory left"),
    (("EMULATED_GPU_LAUNCHES", "0"), "launch failure"),
    (("EMULATED_GPU_LAUNCHES", "40"), "launch failure"),
];

const ESTIMATE: &str = "estimate examples/pairs.csv --effort quick";

#[test]
fn estimates_continue_on_the_cpu() {
    let Some(gpu) = EmulatedGpu::new(&[DRIVER, COMPILER]) else { return };
    let estimate = |output: &Output| -> serde_json::Value {
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        serde_json::json!([json["mi_nats"], json["ci_low"], json["p_value"]])
    };
    for (failure, reason) in FAILURES {
        let on_cpu = gpu.run(&format!("{ESTIMATE} --device cpu --json"), failure);
        let automatic = gpu.run(&format!("{ESTIMATE} --json"), failure);
        let messages = text(&automatic.stderr);
        assert!(automatic.status.success(), "{failure:?}: {messages}");
        assert!(messages.contains(reason), "{failure:?}: {messages}");
        assert!(messages.contains("continuing on the CPU"), "{failure:?}: {messages}");
        assert_eq!(estimate(&automatic), estimate(&on_cpu), "{failure:?}");

        let requested = gpu.run(&format!("{ESTIMATE} --device cuda --quiet"), failure);
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
    let Some(gpu) = EmulatedGpu::new(&[DRIVER, COMPILER]) else { return };
    let matrix = |name: &str, options: &str| {
        let out = gpu.path(name).display().to_string();
        format!("matrix examples/pairs.csv --columns x*,y1 --folds 2 -o {out} {options}")
    };
    let table = |name: &str| std::fs::read_to_string(gpu.path(name)).unwrap();
    assert!(gpu.run(&matrix("cpu.csv", "--device cpu"), FAILURES[0].0).status.success());
    for (failure, reason) in FAILURES {
        let automatic = gpu.run(&matrix("auto.csv", ""), failure);
        assert!(text(&automatic.stderr).contains("continuing on the CPU"), "{automatic:?}");
        assert_eq!(table("auto.csv"), table("cpu.csv"));

        let requested = gpu.run(&matrix("cuda.csv", "--device cuda"), failure);
        let error = text(&requested.stderr);
        assert_eq!(requested.status.code(), Some(1), "{error}");
        assert!(error.contains(reason) && !gpu.path("cuda.csv").exists(), "{error}");
        let continued = gpu.run(&matrix("cuda.csv", "--device cpu --resume"), failure);
        assert!(continued.status.success(), "{}", text(&continued.stderr));
        assert_eq!(table("cuda.csv"), table("cpu.csv"));
        std::fs::remove_file(gpu.path("cuda.csv")).unwrap();
    }
}

#[test]
fn staircases_continue_on_the_cpu() {
    let Some(gpu) = EmulatedGpu::new(&[DRIVER, COMPILER]) else { return };
    let run = "staircase --dim 2 --levels 1,2 --iterations 30 --hidden 8,8 --last 5 --json";
    let results = |output: &Output| -> serde_json::Value {
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()["results"].clone()
    };
    let failure = ("EMULATED_GPU_LAUNCHES", "0");
    let automatic = gpu.run(run, failure);
    assert!(text(&automatic.stderr).contains("continuing on the CPU"), "{automatic:?}");
    let on_cpu = gpu.run(&format!("{run} --device cpu"), failure);
    assert_eq!(results(&automatic), results(&on_cpu));
}

#[test]
fn a_missing_kernel_compiler_is_reported() {
    let Some(gpu) = EmulatedGpu::new(&[DRIVER]) else { return };
    let none = ("EMULATED_GPU_LAUNCHES", "0");
    let devices = text(&gpu.run("devices", none).stdout);
    if !devices.contains("NVRTC") {
        println!("SKIPPED: the kernel compiler is installed for all users: {devices}");
        return;
    }
    let automatic = gpu.run(ESTIMATE, none);
    let messages = text(&automatic.stderr);
    assert!(automatic.status.success());
    assert!(messages.contains("pip install nvidia-cuda-nvrtc"), "{messages}");
    assert!(messages.contains("running on the CPU"), "{messages}");
    let requested = gpu.run(&format!("{ESTIMATE} --device cuda"), none);
    assert_eq!(requested.status.code(), Some(1));
    assert!(text(&requested.stderr).contains("FDIME_NVRTC"));
}
