//! Finding and opening GPUs. CUDA is not linked: its libraries are loaded at run time.

use super::device_error;
use crate::data::without_panic;
use crate::engine::gpu::DeviceInfo;
use crate::error::Result;
use bytemuck::Pod;
use cudarc::driver::sys::CUdevice_attribute_enum as Attribute;
use cudarc::driver::{CudaContext, CudaStream, PinnedHostSlice, sys};
use std::sync::{Arc, LazyLock, Mutex};

/// The oldest architecture whose tensor cores support tf32.
const MIN_ARCHITECTURE: u32 = 80;

/// A GPU in use.
pub(super) struct Device {
    pub(super) context: Arc<CudaContext>,
    pub(super) stream: Arc<CudaStream>,
    pub(super) name: String,
    /// Compute capability times 10.
    pub(super) architecture: u32,
    pub(super) multiprocessors: u32,
    /// The maximum size of a thread block's shared memory, in bytes.
    pub(super) shared_limit: u32,
    pub(super) staging: Staging,
}

/// Memory of the host that is copied to and from the device without the driver's own copy. It grows
/// as needed and is used again.
#[derive(Default)]
pub(super) struct Staging(Mutex<Option<PinnedHostSlice<u64>>>);

impl Staging {
    /// Calls `f` with memory for `length` values; what is in it is arbitrary.
    pub(super) fn with<T: Pod, R>(
        &self,
        context: &Arc<CudaContext>,
        length: usize,
        f: impl FnOnce(&mut [T]) -> Result<R>,
    ) -> Result<R> {
        let mut memory = self.0.lock().unwrap_or_else(|error| error.into_inner());
        let words = (length * size_of::<T>()).div_ceil(size_of::<u64>());
        if memory.as_ref().is_none_or(|memory| memory.len() < words) {
            *memory = None;
            let wanted = words.next_power_of_two();
            // SAFETY: any bytes are valid numbers.
            let pinned = guarded(|| unsafe { context.alloc_pinned_with_flags::<u64>(wanted, 0) })?;
            *memory = Some(pinned);
        }
        match memory.as_mut() {
            Some(memory) => {
                let words_of_memory = guarded(|| memory.as_mut_slice())?;
                f(&mut bytemuck::cast_slice_mut(words_of_memory)[..length])
            }
            None => Err(device_error("no memory of the host")),
        }
    }
}

/// Returns all GPUs, or an error if the driver cannot be used.
pub fn cuda_devices() -> Result<Vec<DeviceInfo>> {
    let count = guarded(CudaContext::device_count)?;
    let describe = |ordinal: usize| -> Result<DeviceInfo> {
        let device = Device::open_any(ordinal)?;
        let (free, memory) = guarded(|| device.context.mem_get_info())?;
        Ok(DeviceInfo {
            ordinal,
            problem: device.problem(),
            name: device.name,
            architecture: device.architecture,
            memory,
            free,
        })
    };
    // A GPU that cannot be opened is listed with the reason.
    let unknown = |ordinal, problem: crate::Error| DeviceInfo {
        ordinal,
        name: "unknown GPU".into(),
        architecture: 0,
        memory: 0,
        free: 0,
        problem: Some(problem.to_string()),
    };
    let ordinals = 0..usize::try_from(count).unwrap_or(0);
    Ok(ordinals.map(|k| describe(k).unwrap_or_else(|error| unknown(k, error))).collect())
}

impl Device {
    /// Opens the first GPU.
    pub(super) fn open() -> Result<Self> {
        if guarded(CudaContext::device_count)? == 0 {
            return Err(device_error("no GPU found"));
        }
        let device = Device::open_any(0)?;
        match device.problem() {
            Some(problem) => Err(device_error(problem)),
            None => Ok(device),
        }
    }

    fn open_any(ordinal: usize) -> Result<Self> {
        guarded(|| {
            let context = CudaContext::new(ordinal)?;
            // SAFETY: every buffer is used on one stream only, so no events are needed.
            unsafe { context.disable_event_tracking() };
            // Threads that wait for the GPU leave the cores to others.
            context.set_blocking_synchronize()?;
            let (major, minor) = context.compute_capability()?;
            let multiprocessors =
                context.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
            let shared_limit = context
                .attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?;
            Ok(Device {
                shared_limit: shared_limit.unsigned_abs(),
                stream: context.new_stream()?,
                name: context.name()?,
                architecture: (10 * major + minor).unsigned_abs(),
                multiprocessors: multiprocessors.unsigned_abs(),
                staging: Staging::default(),
                context,
            })
        })
    }

    fn problem(&self) -> Option<String> {
        (self.architecture < MIN_ARCHITECTURE).then(|| {
            let (major, minor) = (self.architecture / 10, self.architecture % 10);
            format!(
                "{} has compute capability {major}.{minor}; 8.0 or newer is needed (A100, RTX 30)",
                self.name
            )
        })
    }

    /// Returns the number of bytes that can be allocated, and of all memory.
    pub(super) fn memory(&self) -> Result<(u64, u64)> {
        // Memory is freed in the order of the stream, so wait for pending work first.
        guarded(|| {
            self.stream.synchronize()?;
            self.context.mem_get_info()
        })
        .map(|(free, total)| (free as u64, total as u64))
    }
}

/// Calls the driver. Turns a missing driver, its errors and panics of the binding into errors.
pub(super) fn guarded<T>(
    call: impl FnOnce() -> std::result::Result<T, cudarc::driver::DriverError>,
) -> Result<T> {
    // The search tries many names of the library, so it is made once.
    // SAFETY: loading the driver runs its initialisers, as its first use would.
    static IS_PRESENT: LazyLock<bool> = LazyLock::new(|| unsafe { sys::is_culib_present() });
    without_panic(|| {
        if !*IS_PRESENT {
            return Err(device_error("no NVIDIA driver found (libcuda is missing)"));
        }
        call().map_err(|error| device_error(describe(error)))
    })
    .unwrap_or_else(|panic| Err(device_error(panic)))
}

/// Returns the driver's description of an error.
pub(super) fn describe(error: cudarc::driver::DriverError) -> String {
    match error.error_string() {
        Ok(text) => text.to_string_lossy().into_owned(),
        Err(_) => format!("{:?}", error.0),
    }
}
