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

struct AdamRates {
    float learning_rate;
    float total_steps, warm_up_steps;  // of the whole run; both 0 if the rate is constant
    float beta1, beta2, ln_beta1, ln_beta2, epsilon, decay;
    int padding;

    // LearningRateSchedule::factor (train/training.rs)
    __device__ float factor(float iteration) const {
        if (total_steps == 0.f) return 1.f;
        if (iteration < warm_up_steps) return iteration / warm_up_steps;
        float decline = (iteration - warm_up_steps) / (total_steps - warm_up_steps);
        return 0.5f * (1.f + cospif(fminf(decline, 1.f)));
    }
};

// The update of an iteration, counted from 1.
struct AdamStep {
    float beta1, beta2, rate, root_correction, epsilon, keep;
    __device__ AdamStep(const AdamRates& r, float iteration) : beta1(r.beta1), beta2(r.beta2), epsilon(r.epsilon) {
        float learning_rate = r.learning_rate * r.factor(iteration);
        // 1 - beta^t = -(e^{t ln beta} - 1)
        rate = learning_rate / -expm1f(iteration * r.ln_beta1);
        root_correction = rsqrtf(-expm1f(iteration * r.ln_beta2));
        keep = 1.f - learning_rate * r.decay;
    }
    // Returns the new value of a parameter and updates its moments.
    __device__ float updated(float value, float gradient, float2& moments) const {
        moments.x = beta1 * moments.x + (1.f - beta1) * gradient;
        moments.y = beta2 * moments.y + (1.f - beta2) * gradient * gradient;
        return keep * value + rate * moments.x / (sqrtf(moments.y) * root_correction + epsilon);
    }
};

struct AdamTask {
    Buffer parameters, moments;
    u64 count;
    int sections;
    u32 step;            // index among the captured steps
    u64 bias_at;         // index of the score's bias, whose gradient the objective computes
    const u64* base;     // number of iterations before the captured ones
    AdamRates rates;
    int has_score_bias, padding;
    ObjectiveTask objective;
    Section table[MAX_SECTIONS];
};

__device__ inline const Section& section_of(const AdamTask& t, u64 p) {
    int s = 0;
    while (s + 1 < t.sections && p >= t.table[s + 1].first) ++s;
    return t.table[s];
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
    AdamStep update(t.rates, (float)(*t.base + t.step + 1));
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
    float2 both = load2(moments);
    float* parameter = t.parameters.of(run) + at;
    float value = update.updated(*parameter, gradient, both);
    *reinterpret_cast<float2*>(moments) = both;
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
