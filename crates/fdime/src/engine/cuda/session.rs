//! A program in the device's memory, and its way through the staircase.

use super::abi;
use super::device::{Device, describe, guarded};
use super::failure;
use super::program::{Block, Launch, Program};
use super::run::Run;
use crate::divergence::Divergence;
use crate::error::Result;
use crate::link::Link;
use crate::objective::{Cost, Readout};
use crate::scenario::{Generator, Map, Scenario};
use cudarc::driver::sys::CUfunction_attribute_enum as Attribute;
use cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use cudarc::driver::{
    CudaEvent, CudaFunction, CudaGraph, CudaModule, CudaSlice, DevicePtr, DriverError, result, sys,
};
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::Arc;

/// A program with its memory on the device.
pub(super) struct Session<'a> {
    device: &'a Device,
    program: Program,
    functions: HashMap<String, CudaFunction>,
    module: Arc<CudaModule>,
    /// Everything the program uses; alive as long as anything may run.
    _memory: CudaSlice<u8>,
}

/// Allocates zeros, and the program with its memory there.
pub(super) fn allocate(
    device: &Device,
    size: u64,
    program: impl FnOnce(u64) -> Program,
) -> Result<(CudaSlice<u8>, Program)> {
    let memory = guarded(|| device.stream.alloc_zeros::<u8>(size as usize)).map_err(|error| {
        failure(format!("{:.1} GB of {}'s memory: {error}", size as f64 / 1e9, device.name))
    })?;
    let (start, _) = memory.device_ptr(&device.stream);
    let program = program(start);
    Ok((memory, program))
}

impl<'a> Session<'a> {
    pub(super) fn new(
        device: &'a Device,
        module: Arc<CudaModule>,
        (memory, program): (CudaSlice<u8>, Program),
    ) -> Self {
        Session { device, program, functions: HashMap::new(), module, _memory: memory }
    }

    pub(super) fn program(&self) -> &Program {
        &self.program
    }

    /// Copies numbers to the device.
    pub(super) fn write<T: Copy>(&self, at: u64, values: &[T]) -> Result<()> {
        // SAFETY: `at` and the length lie within the program's memory, as the callers of this
        // module lay it out; T is plain data. The copy is over before this returns.
        guarded(|| unsafe {
            result::memcpy_htod_async(at, values, self.device.stream.cu_stream())?;
            self.device.stream.synchronize()
        })
    }

    /// Copies numbers from the device, once all that was begun is done.
    pub(super) fn read<T: Copy + Default>(&self, at: u64, count: usize) -> Result<Vec<T>> {
        let mut values = vec![T::default(); count];
        // SAFETY: as in `write`.
        guarded(|| unsafe {
            result::memcpy_dtoh_async(&mut values, at, self.device.stream.cu_stream())?;
            self.device.stream.synchronize()
        })?;
        Ok(values)
    }

    /// Seeds, scenarios, objectives and initial parameters of the runs.
    pub(super) fn load_plans(&mut self, plans: &[&Run], parameters: &[Vec<f32>]) -> Result<()> {
        let mut levels = Vec::new();
        let mut scenarios = Vec::new();
        for plan in plans {
            let mut spec = abi::ScenarioSpec::default();
            for level in &plan.schedule.levels {
                let scenario = plan.scenario.at(*level)?;
                levels.push(level_parameters(&scenario));
                spec = scenario_spec(&scenario, plan.seed);
            }
            scenarios.push(spec);
        }
        let objectives: Vec<abi::ObjectiveSpec> =
            plans.iter().map(|plan| objective_spec(plan)).collect();
        self.write(self.program.scenario_specs, &scenarios)?;
        self.write(self.program.levels, &levels)?;
        self.write(self.program.objective_specs, &objectives)?;
        self.write(self.program.average, &vec![f64::NAN; plans.len()])?;
        for (run, flat) in parameters.iter().enumerate() {
            let stride = self.program.parameters.stride;
            let mut padded = vec![0f32; stride as usize];
            let mut rest = &flat[..];
            for Block { rows, columns, ld, at, .. } in self.program.blocks() {
                let (block, after) = rest.split_at(rows * columns);
                for (row, values) in block.chunks_exact(columns).enumerate() {
                    padded[at + row * ld..][..columns].copy_from_slice(values);
                }
                rest = after;
            }
            if let (Some(at), [bias]) = (self.program.score_bias(), rest) {
                padded[at] = *bias;
            }
            self.write(self.program.parameters.data + 4 * stride * run as u64, &padded)?;
        }
        let pack = self.program.pack();
        self.launch(&pack)
    }

    /// The gradient of a run after a step, in the order of the critic's flat buffer.
    pub(super) fn gradient(&self, run: usize) -> Result<Vec<f32>> {
        let mut flat = Vec::with_capacity(self.program.parameter_count());
        for block in self.program.blocks() {
            let start = block.gradient.data + 4 * block.gradient.stride * run as u64;
            let pieces: Vec<f32> = self.read(start, block.pieces * block.piece_stride)?;
            for row in 0..block.rows {
                for column in 0..block.columns {
                    let at = row * block.ld + column;
                    flat.push(pieces.iter().skip(at).step_by(block.piece_stride).sum());
                }
            }
        }
        if self.program.score_bias().is_some() {
            let bias: Vec<f64> = self.read(self.program.bias_gradient + 8 * run as u64, 1)?;
            flat.extend(bias.iter().map(|bias| *bias as f32));
        }
        Ok(flat)
    }

    /// Value and estimate of every run at every captured step.
    pub(super) fn trace(&self) -> Result<Vec<f64>> {
        let cut = &self.program.cut;
        self.read(self.program.trace, 2 * cut.steps * cut.runs)
    }

    /// Begins one kernel.
    pub(super) fn launch(&mut self, launch: &Launch) -> Result<()> {
        if !self.functions.contains_key(&launch.kernel) {
            let name = &launch.kernel;
            let function = guarded(|| self.module.load_function(name))
                .map_err(|error| failure(format!("kernel {name}: {error}")))?;
            let shared = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            guarded(|| function.set_attribute(shared, launch.shared as i32))?;
            self.functions.insert(name.clone(), function);
        }
        let function = &self.functions[&launch.kernel];
        let (x, y, z) = launch.grid;
        let mut arguments = [launch.arguments.as_ptr().cast_mut().cast::<c_void>()];
        // Hopper and newer get a kernel ready while the one before it still runs; it waits for its
        // end before it does anything (begin() in common.cuh).
        let mut early = sys::CUlaunchAttribute {
            id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
            pad: [0; 4],
            value: sys::CUlaunchAttributeValue { programmaticStreamSerializationAllowed: 1 },
        };
        let config = sys::CUlaunchConfig {
            gridDimX: x as u32,
            gridDimY: y as u32,
            gridDimZ: z as u32,
            blockDimX: launch.threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: launch.shared,
            hStream: self.device.stream.cu_stream(),
            attrs: &mut early,
            numAttrs: u32::from(self.device.architecture >= 90),
        };
        let none = std::ptr::null_mut();
        // SAFETY: the kernel takes one structure by value, which the arguments hold and which is
        // copied before the call returns (a compiled check compares their sizes); all addresses in
        // it lie within the program's memory, which outlives the stream's work (see Drop).
        unsafe {
            sys::cuLaunchKernelEx(&config, function.cu_function(), arguments.as_mut_ptr(), none)
        }
        .result()
        .map_err(|error| failure(format!("kernel {}: {}", launch.kernel, describe(error))))
    }

    /// The captured steps as one graph.
    pub(super) fn capture(&mut self) -> Result<CudaGraph> {
        let mut launches: Vec<Launch> = self.program.draw_partners().into_iter().collect();
        for step in 0..self.program.cut.steps {
            launches.push(self.program.draw_data(step));
            launches.extend(self.program.train(step));
        }
        launches.push(self.program.advance());
        let stream = Arc::clone(&self.device.stream);
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        guarded(|| stream.begin_capture(mode))?;
        let begun = launches.iter().try_for_each(|launch| self.launch(launch));
        let graph = guarded(|| stream.end_capture(CUgraphInstantiate_flags(0)));
        begun?;
        graph?.ok_or_else(|| failure("nothing was captured"))
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        // Nothing may still run when the memory goes; an error has been, or will be, reported by
        // the next call.
        let _ = self.device.stream.synchronize();
    }
}

/// Replays a graph; the trace of each replay is copied to the host while the next one runs.
pub(super) struct Replay<'a, 'b> {
    session: &'b Session<'a>,
    graph: CudaGraph,
    slots: [Slot; 2],
    begun: usize,
}

struct Slot {
    trace: cudarc::driver::PinnedHostSlice<f64>,
    done: CudaEvent,
}

impl<'a, 'b> Replay<'a, 'b> {
    pub(super) fn new(session: &'b Session<'a>, graph: CudaGraph) -> Result<Self> {
        let cut = &session.program.cut;
        let slot = || -> std::result::Result<Slot, DriverError> {
            let context = &session.device.context;
            // SAFETY: plain numbers, which are written before they are read.
            let trace =
                unsafe { context.alloc_pinned_with_flags::<f64>(2 * cut.steps * cut.runs, 0)? };
            Ok(Slot { trace, done: context.new_event(None)? })
        };
        let slots = guarded(|| Ok([slot()?, slot()?]))?;
        Ok(Replay { session, graph, slots, begun: 0 })
    }

    /// Begins the captured steps once more.
    pub(super) fn begin(&mut self) -> Result<()> {
        let slot = &mut self.slots[self.begun % 2];
        let stream = &self.session.device.stream;
        guarded(|| {
            self.graph.launch()?;
            let trace = slot.trace.as_mut_slice()?;
            // SAFETY: the trace is that large, and the slot is not read before `done`.
            unsafe {
                let from = self.session.program.trace;
                result::memcpy_dtoh_async(trace, from, stream.cu_stream())?;
            }
            slot.done.record(stream)
        })?;
        self.begun += 1;
        Ok(())
    }

    /// Waits for the replay with that number, counted from 0, and returns its trace.
    pub(super) fn finish(&mut self, number: usize) -> Result<&[f64]> {
        let slot = &self.slots[number % 2];
        guarded(|| {
            slot.done.synchronize()?;
            slot.trace.as_slice()
        })
    }
}

impl Drop for Replay<'_, '_> {
    fn drop(&mut self) {
        // A replay may still write into the slots; an error has been, or will be, reported elsewhere.
        let _ = self.session.device.stream.synchronize();
    }
}

/// A divergence's case in `divergence_row` (objective.cu), if it has one.
pub(super) fn divergence_number(divergence: &Divergence) -> Option<i32> {
    Some(match divergence {
        Divergence::Kl => 0,
        Divergence::Gan => 1,
        Divergence::Hellinger => 2,
        Divergence::ReverseKl => 3,
        Divergence::JensenShannon => 4,
        Divergence::Pearson => 5,
        Divergence::Neyman => 6,
        Divergence::Jeffreys => 7,
        Divergence::Alpha(_) => 8,
        Divergence::ShiftedLog => 9,
        Divergence::Custom(_) => return None,
    })
}

/// A map's case in `apply_maps` and `mapped` (sample.cu).
fn map_number(map: Map) -> i32 {
    match map {
        Map::Cube => 0,
        Map::HalfCube => 1,
        Map::Asinh => 2,
        Map::NormalCdf => 3,
        Map::SwissRoll => 4,
        Map::Wiggle1 => 5,
        Map::Wiggle2 => 6,
        Map::Bimodal1 => 7,
        Map::Bimodal2 => 8,
        Map::Spiral12 => 9,
        Map::Spiral23 => 10,
    }
}

fn objective_spec(plan: &Run) -> abi::ObjectiveSpec {
    let estimator = &plan.estimator;
    let mut spec = abi::ObjectiveSpec {
        link: match estimator.link() {
            Link::Identity => 0,
            Link::LogSoftplus => 1,
            Link::InverseSquareSoftplus => 2,
        },
        tau: f32::INFINITY,
        readout_tau: f32::INFINITY,
        ..Default::default()
    };
    match estimator.cost() {
        Cost::FDivergence(divergence) => {
            // Those without a kernel do not come here.
            spec.divergence = divergence_number(divergence).unwrap_or_default();
            if let Divergence::Alpha(alpha) = divergence {
                spec.alpha = *alpha as f32;
            }
        }
        Cost::MovingAverage => spec.cost = 1,
        Cost::Clipped { tau } => (spec.cost, spec.tau) = (2, *tau as f32),
        // Classifiers do not come here.
        Cost::InfoNce => spec.cost = 3,
    }
    match estimator.readout() {
        Readout::Plain => {}
        Readout::Nwj => spec.readout = 1,
        Readout::DonskerVaradhan => spec.readout = 2,
        Readout::Clipped { tau } => (spec.readout, spec.readout_tau) = (2, tau as f32),
        Readout::InfoNce => spec.readout = 3,
    }
    spec
}

fn scenario_spec(scenario: &Scenario, seed: u64) -> abi::ScenarioSpec {
    let (generator, dim, x_maps, y_maps) = scenario.generator();
    let codes = |maps: &[Map]| {
        let mut codes = [0; abi::MOST_MAPS];
        codes.iter_mut().zip(maps).for_each(|(code, map)| *code = map_number(*map));
        codes
    };
    let (base, pairs) = match generator {
        Generator::Gaussian { pairs, .. } => (0, pairs),
        Generator::Uniform { .. } => (1, 0),
        Generator::Student { .. } => (2, 0),
        Generator::Dense { .. } => (3, 0),
    };
    abi::ScenarioSpec {
        seed,
        base,
        dim: dim as i32,
        pairs: pairs as i32,
        x_maps: x_maps.len() as i32,
        y_maps: y_maps.len() as i32,
        x_map: codes(x_maps),
        y_map: codes(y_maps),
        unused: 0,
    }
}

fn level_parameters(scenario: &Scenario) -> [f32; 4] {
    let parameters = match scenario.generator().0 {
        Generator::Gaussian { rho, noise, scale, .. } => [rho, noise, scale, 0.0],
        Generator::Uniform { epsilon } => [epsilon, 0.0, 0.0, 0.0],
        Generator::Student { df } => [df, 0.0, 0.0, 0.0],
        Generator::Dense { rho } => [rho.sqrt(), (1.0 - rho).sqrt(), 0.0, 0.0],
    };
    parameters.map(|parameter| parameter as f32)
}
