//! The kernels' sources, compiled at run time for the GPU and cached on disk.

use super::abi;
use super::device::{Device, describe};
use super::device_error;
use crate::data::{without_panic, write_whole};
use crate::divergence::Divergence;
pub(super) use crate::engine::gpu::Precision;
use crate::error::Result;
use crate::nn::Activation;
use cudarc::driver::CudaModule;
use cudarc::nvrtc::{Ptx, result, sys};
use std::ffi::{CStr, CString};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The sources in the order of their dependencies, after `COMMON` and the custom divergence.
const SOURCES: [&str; 10] = [
    include_str!("kernels/product.cuh"),
    include_str!("kernels/wgmma.cuh"),
    include_str!("kernels/layers.cu"),
    include_str!("kernels/conv.cu"),
    include_str!("kernels/objective.cu"),
    include_str!("kernels/sample.cu"),
    include_str!("kernels/table.cu"),
    include_str!("kernels/njee.cu"),
    include_str!("kernels/adam.cu"),
    include_str!("kernels/small.cu"),
];

const COMMON: &str = include_str!("kernels/common.cuh");
const CUSTOM_DIVERGENCE: &str = include_str!("kernels/custom.cuh");
const NO_CUSTOM_DIVERGENCE: &str = "__device__ inline float4 custom_divergence(float) \
    { return make_float4(nanf(\"\"), nanf(\"\"), nanf(\"\"), nanf(\"\")); }\n";

/// What the kernels are compiled for, besides the GPU and the precision.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Variant {
    pub(super) activation: Activation,
    /// The function `custom_divergence`, if the trainings have one.
    pub(super) custom_divergence: Option<String>,
}

impl Variant {
    /// Returns all kernels as one source, with assertions that host and device agree on the layout
    /// of the structures they share.
    pub(super) fn source(&self) -> String {
        let custom_divergence = match &self.custom_divergence {
            Some(function) => [CUSTOM_DIVERGENCE, function].concat(),
            None => NO_CUSTOM_DIVERGENCE.to_string(),
        };
        [COMMON, &custom_divergence, &SOURCES.concat(), &abi::layout_checks()].concat()
    }
}

/// Compiles the kernels for an architecture such as 90 and returns the image. Needs no GPU. With a
/// divergence that is given by an expression, the kernels support that divergence, too.
pub fn compile_kernels(
    precision: Precision,
    activation: Activation,
    architecture: u32,
    divergence: Option<&Divergence>,
) -> Result<Vec<u8>> {
    let custom_divergence = match divergence {
        Some(Divergence::Custom(custom)) => custom.kernel_source(),
        _ => None,
    };
    Build::new(precision, &Variant { activation, custom_divergence }, architecture).image()
}

/// Returns whether large tiles use Hopper's `wgmma` instruction, which no other architecture runs.
pub(super) fn uses_wgmma(precision: Precision, architecture: u32) -> bool {
    precision == Precision::Tf32 && architecture == 90
}

fn options(precision: Precision, activation: Activation, architecture: u32) -> Vec<String> {
    let wgmma = uses_wgmma(precision, architecture);
    let precision = match precision {
        Precision::Fp32 => 0,
        Precision::Tf32 => 1,
        Precision::Bf16 => 2,
    };
    let activation = match activation {
        Activation::Relu => 0,
        Activation::Elu => 1,
        Activation::Softplus => 2,
    };
    vec![
        format!("--gpu-architecture=sm_{architecture}{}", if wgmma { "a" } else { "" }),
        format!("-DWGMMA={}", i32::from(wgmma)),
        "--std=c++17".into(),
        format!("-DPRECISION={precision}"),
        format!("-DACTIVATION={activation}"),
    ]
}

/// The input of the compiler.
struct Build {
    source: String,
    options: Vec<String>,
}

impl Build {
    fn new(precision: Precision, variant: &Variant, architecture: u32) -> Self {
        let options = options(precision, variant.activation, architecture);
        Build { source: variant.source(), options }
    }

    /// Returns the path of the compiled kernels in the cache, or `None` without a cache folder.
    fn cached(&self) -> Option<PathBuf> {
        let name = hash(format!("{:?} {}", self.options, self.source).as_bytes());
        cache_folder().map(|folder| folder.join(format!("{name:016x}.cubin")))
    }

    /// Compiles the kernels, in parallel if the compiler supports it, which halves the time.
    fn image(&self) -> Result<Vec<u8>> {
        find_compiler()?;
        let split = [&self.options[..], &["--split-compile=0".to_string()]].concat();
        compile(&self.source, &split).or_else(|_| compile(&self.source, &self.options))
    }
}

/// Loads the compiled kernels from the cache, or compiles and caches them.
pub(super) fn load(
    device: &Device,
    precision: Precision,
    variant: &Variant,
    notice: &dyn Fn(&str),
) -> Result<Arc<CudaModule>> {
    let build = Build::new(precision, variant, device.architecture);
    let cached = build.cached();
    let load = |image: Vec<u8>| device.context.load_module(Ptx::from_binary(image));
    let image = cached.as_ref().and_then(|path| unsealed(std::fs::read(path).ok()?));
    if let Some(module) = image.and_then(|image| load(image).ok()) {
        return Ok(module);
    }
    notice(&format!("compiling kernels for {}, once", device.name));
    let image = build.image()?;
    if let Some(path) = &cached {
        // If it cannot be written, the next start compiles again.
        let folder = path.parent().unwrap_or(Path::new("."));
        if std::fs::create_dir_all(folder).is_ok() {
            let _ = write_whole(path, |file| std::io::Write::write_all(file, &sealed(&image)));
        }
    }
    load(image).map_err(|error| {
        let reason = describe(error);
        device_error(format!(
            "the compiled kernels do not load; is NVRTC newer than the driver? {reason}"
        ))
    })
}

/// Appends the hash of an image. The driver trusts the sizes inside an image, so a damaged one must
/// not reach it.
fn sealed(image: &[u8]) -> Vec<u8> {
    [image, &hash(image).to_le_bytes()].concat()
}

/// Returns the image, or `None` if it does not match its hash.
fn unsealed(mut file: Vec<u8>) -> Option<Vec<u8>> {
    let seal = file.split_off(file.len().checked_sub(8)?);
    (seal == hash(&file).to_le_bytes()).then_some(file)
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

fn cache_folder() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let base = set("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| set("HOME").map(|home| PathBuf::from(home).join(".cache")))?;
    Some(base.join("fdime"))
}

fn compile(source: &str, options: &[String]) -> Result<Vec<u8>> {
    let source =
        CString::new(source).map_err(|_| device_error("a kernel source contains a zero byte"))?;
    let fail = |error| device_error(format!("the kernel compiler failed: {error}"));
    let program = result::create_program(&source, Some(c"fdime.cu")).map_err(fail)?;
    // SAFETY: the program was just created and is destroyed below; `source` outlives it. The two
    // calls for the image are given the size the first one reports.
    unsafe {
        let compiled = result::compile_program(program, options);
        let image = compiled.and_then(|()| {
            let mut size = 0;
            sys::nvrtcGetCUBINSize(program, &mut size).result()?;
            let mut image = vec![0u8; size];
            sys::nvrtcGetCUBIN(program, image.as_mut_ptr().cast()).result()?;
            Ok(image)
        });
        let log = result::get_program_log(program);
        let _ = result::destroy_program(program);
        image.map_err(|error| {
            let log = log.map_or(String::new(), |log| {
                CStr::from_ptr(log.as_ptr()).to_string_lossy().into_owned()
            });
            device_error(format!("the kernels do not compile: {error}\n{log}"))
        })
    }
}

/// Loads the kernel compiler NVRTC from the folder that FDIME_NVRTC names, from the library path,
/// or from the folder of CUDA. Returns an error if it is in none of them.
pub(super) fn find_compiler() -> Result<()> {
    // SAFETY: loading NVRTC runs its initialisers, as its first use would.
    let present = || without_panic(|| unsafe { sys::is_culib_present() }).unwrap_or(false);
    let set = |name: &str| std::env::var_os(name).map(PathBuf::from);
    if let Some(folder) = set("FDIME_NVRTC") {
        load_compiler(&folder);
    }
    if present() {
        return Ok(());
    }
    for root in [set("CUDA_HOME"), set("CUDA_PATH"), Some("/usr/local/cuda".into())] {
        for folder in root.iter().flat_map(|root| [root.join("lib64"), root.join("lib")]) {
            load_compiler(&folder);
            if present() {
                return Ok(());
            }
        }
    }
    Err(device_error(
        "the kernel compiler NVRTC is not found; install CUDA's libraries, or 'pip install \
         nvidia-cuda-nvrtc' and name its folder (.../nvidia/cu13/lib) in FDIME_NVRTC",
    ))
}

/// Loads the compiler if it is in the folder. Once a library is loaded, the loader finds it by its
/// file name alone, as cudarc looks for it.
fn load_compiler(folder: &Path) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let mut found: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    found.retain(|path| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with("libnvrtc") && name.contains(".so.") && !name.contains(".alt.")
    });
    // In this order, -builtins comes before the compiler, which depends on it.
    found.sort();
    for path in &found {
        // SAFETY: loading NVRTC runs its initialisers, as its first use would. It stays loaded.
        if let Ok(library) = unsafe { libloading::Library::new(path) } {
            std::mem::forget(library);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_images_are_rejected() {
        let file = sealed(b"an image");
        assert_eq!(unsealed(file.clone()).unwrap(), b"an image");
        assert!(unsealed(file[..file.len() - 1].to_vec()).is_none());
        assert!(unsealed(file[1..].to_vec()).is_none());
        assert!(unsealed(Vec::new()).is_none());
    }
}
