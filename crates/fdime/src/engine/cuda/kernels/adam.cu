// Adam over the parameters of all runs, and the end of a step.

// A matrix of parameters with padded rows, and its gradient in pieces.
struct Section {
    u64 first;           // index of its first parameter, without padding
    u64 parameters;      // index of its first parameter, with padding
    Buffer gradient;     // pieces x rows x ld
    Buffer forward, backward;  // packed copies (wgmma.cuh); null: none
    int rows, columns, ld;
    int pieces;
    u64 piece_stride;

    __device__ void pack(int run, int row, int column, float value) const {
        if (!forward.data) return;
        store_packed(forward.of(run), column, row, (rows + 3) / 4 * 4, value);
        store_packed(backward.of(run), row, column, ld, value);
    }
};

const int MAX_SECTIONS = 36;

struct AdamTask {
    Buffer parameters, moments;
    u64 count;
    int sections;
    u32 step;            // index among the captured steps
    u64 bias_at;         // index of the score's bias, whose gradient the objective computes
    const u64* base;     // number of iterations before the captured ones
    float learning_rate;
    float total_steps, warm_up_steps;  // of the whole run; both 0 if the rate is constant
    float beta1, beta2, ln_beta1, ln_beta2, epsilon, decay;
    int has_score_bias;
    ObjectiveTask objective;
    Section table[MAX_SECTIONS];
};

__device__ inline const Section& section_of(const AdamTask& t, u64 p) {
    int s = 0;
    while (s + 1 < t.sections && p >= t.table[s + 1].first) ++s;
    return t.table[s];
}

// LearningRateSchedule::factor (train/training.rs)
__device__ inline float rate_factor(const AdamTask& t, float iteration) {
    if (t.total_steps == 0.f) return 1.f;
    if (iteration < t.warm_up_steps) return iteration / t.warm_up_steps;
    float decline = (iteration - t.warm_up_steps) / (t.total_steps - t.warm_up_steps);
    return 0.5f * (1.f + cospif(fminf(decline, 1.f)));
}

extern "C" __global__ void adam(const __grid_constant__ AdamTask t) {
    begin();
    int run = blockIdx.y;
    // Even and odd steps alternate: each writes the flag that the next one reads.
    u32* broken = t.objective.broken + 2 * run;
    u32 turn = (u32)(*t.base + t.step) & 1;
    if (blockIdx.x == gridDim.x - 1) {
        if (threadIdx.x < 32) record(t.objective, run, t.step, broken[turn] != 0);
        if (!t.has_score_bias) return;
    }
    // 1 - beta^t = -(e^{t ln beta} - 1)
    float iteration = (float)(*t.base + t.step + 1);
    float learning_rate = t.learning_rate * rate_factor(t, iteration);
    float rate = learning_rate / -expm1f(iteration * t.ln_beta1);
    float root_correction = rsqrtf(-expm1f(iteration * t.ln_beta2));
    u64 p = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    float gradient = 0.f;
    u64 at;
    const Section* section = nullptr;
    int row = 0, column = 0;
    if (blockIdx.x == gridDim.x - 1) {
        if (threadIdx.x != 0) return;
        p = t.count - 1;
        at = t.bias_at;
        gradient = (float)t.objective.bias_gradient[run];
    } else {
        if (p >= t.count - t.has_score_bias) return;
        section = &section_of(t, p);
        row = (int)(p - section->first) / section->columns;
        column = (int)(p - section->first) % section->columns;
        u64 offset = (u64)row * section->ld + column;
        at = section->parameters + offset;
        const float* pieces = section->gradient.of(run) + offset;
#pragma unroll 4
        for (int piece = 0; piece < section->pieces; ++piece) gradient += pieces[piece * section->piece_stride];
    }
    float* moments = t.moments.of(run) + 2 * p;
    float2 old = load2(moments);
    float m = t.beta1 * old.x + (1.f - t.beta1) * gradient;
    float v = t.beta2 * old.y + (1.f - t.beta2) * gradient * gradient;
    *reinterpret_cast<float2*>(moments) = make_float2(m, v);
    float* parameter = t.parameters.of(run) + at;
    float keep = 1.f - learning_rate * t.decay;
    float value = keep * *parameter + rate * m / (sqrtf(v) * root_correction + t.epsilon);
    *parameter = value;
    if (!isfinite(value)) broken[1 - turn] = 1;
    if (section) section->pack(run, row, column, value);
}

// Packs the initial parameters.
extern "C" __global__ void pack_parameters(const __grid_constant__ AdamTask t) {
    begin();
    int run = blockIdx.y;
    u64 p = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= t.count - t.has_score_bias) return;
    const Section& section = section_of(t, p);
    int row = (int)(p - section.first) / section.columns, column = (int)(p - section.first) % section.columns;
    section.pack(run, row, column, t.parameters.of(run)[section.parameters + (u64)row * section.ld + column]);
}

// Runs after the captured steps.
struct AdvanceTask { u64* base; u32 steps; };
extern "C" __global__ void advance(const __grid_constant__ AdvanceTask t) {
    begin();
    *t.base += t.steps;
}
