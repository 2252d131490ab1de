// Value, estimate and dJ/ds of a batch (objective/ and divergence/rows.rs), in terms of the log
// ratio l.

enum { F_DIVERGENCE = 0, MOVING_AVERAGE = 1, CLIPPED = 2, INFO_NCE = 3, SYMMETRIC_INFO_NCE = 4 };
enum { PLAIN = 0, NWJ = 1, PARTITION = 2, ROWS_READOUT = 3 };

struct ObjectiveSpec {
    int cost, divergence, link, readout;
    float alpha, tau, readout_tau;
    int padding;
};

__device__ inline float log_ratio(int link, float s) {
    return link == 0 ? s : (link == 1 ? 1.f : -2.f) * ln_softplus(s);
}
__device__ inline float link_slope(int link, float s) {
    return link == 0 ? 1.f : (link == 1 ? 1.f : -2.f) * ln_softplus_slope(s);
}

// (e^{c l} - 1) / c
__device__ inline float power_minus_one_over(float c, float l) {
    return c == 0.f ? l : expm1f(c * l) / c;
}

// A row of the table of divergences: a, b and their slopes at l.
__device__ inline float4 divergence_row(int divergence, float alpha, float l) {
    const float ln2 = 0.6931472f;
    switch (divergence) {
        case 0: return make_float4(l + 1.f, expf(l), 1.f, expf(l));
        case 1: return make_float4(-softplus(-l), softplus(l) - 2.f * ln2, sigmoid(-l), sigmoid(l));
        case 2: return make_float4(-expm1f(-0.5f * l), expm1f(0.5f * l), 0.5f * expf(-0.5f * l), 0.5f * expf(0.5f * l));
        case 3: return make_float4(-expf(-l), l - 1.f, expf(-l), 1.f);
        case 4: return make_float4(0.5f * (ln2 - softplus(-l)), 0.5f * (softplus(l) - ln2), 0.5f * sigmoid(-l), 0.5f * sigmoid(l));
        case 5: return make_float4(2.f * expm1f(l), expm1f(2.f * l), 2.f * expf(l), 2.f * expf(2.f * l));
        case 6: return make_float4(-expm1f(-2.f * l), -2.f * expm1f(-l), 2.f * expf(-2.f * l), 2.f * expf(-l));
        case 7: return make_float4(l - expm1f(-l), l + expm1f(l), 1.f + expf(-l), 1.f + expf(l));
        case 8: return make_float4(power_minus_one_over(alpha - 1.f, l), power_minus_one_over(alpha, l), expf((alpha - 1.f) * l), expf(alpha * l));
        case 9: return make_float4(-sigmoid(-l), softplus(l) - sigmoid(l) - ln2, sigmoid(l) * sigmoid(-l), sigmoid(l) * sigmoid(l));
        case 10: return custom_divergence(l);
        default: return make_float4(nanf(""), nanf(""), nanf(""), nanf(""));
    }
}

struct ObjectiveTask {
    Pairs pairs;
    Buffer scores;       // parts x rows
    Buffer score_bias;   // null: no bias
    Buffer gradient;     // dJ/ds, by row
    Buffer row_log_sums;    // ln sum_j e^{l_ij} of every x
    Buffer column_log_sums; // ln sum_i e^{l_ij} of every y
    const ObjectiveSpec* specs;
    double* partition;   // runs x blocks x 4: largest l and sum of e^(l - largest), for each tau
    double* sums;        // runs x blocks x 4: joint value, marginal value, joint l, dJ/ds
    double* average;     // runs: MINE's moving average as ln Z; NaN before the first step
    u32* broken;         // runs x 2: whether a parameter was not finite after an even or odd step
    double* bias_gradient;
    double* trace;       // steps x runs x 2: value, estimate
    int score_parts, blocks;
    float gradient_scale;  // of dropout at the last layer, for networks of ReLUs; else 1
    int padding;
};

__device__ inline float score_of(const ObjectiveTask& t, const float* scores, float bias, int r) {
    float s = bias;
    for (int part = 0; part < t.score_parts; ++part) s += scores[(u64)part * t.pairs.rows + r];
    return s;
}
__device__ inline float bias_of(const ObjectiveTask& t, int run) {
    return t.score_bias.data ? *t.score_bias.of(run) : 0.f;
}
// Keeps NaN, unlike fminf and fmaxf.
__device__ inline float clip(float l, float tau) { return l > tau ? tau : (l < -tau ? -tau : l); }

// A sum of e^l as e^largest * sum; keeps NaN.
struct LogSum { double largest, sum; };
__device__ inline LogSum combine(LogSum a, LogSum b) {
    if (a.sum == 0.0) return b;
    if (b.sum == 0.0) return a;
    double largest = a.largest > b.largest ? a.largest : b.largest;
    LogSum c = {largest, a.sum * exp(a.largest - largest) + b.sum * exp(b.largest - largest)};
    return c;
}
__device__ inline LogSum combine_warp(LogSum a) {
    for (int step = 16; step > 0; step /= 2) {
        LogSum other = {__shfl_xor_sync(~0u, a.largest, step), __shfl_xor_sync(~0u, a.sum, step)};
        a = combine(a, other);
    }
    return a;
}
// Adds e^l, computed in single precision.
__device__ inline void add(LogSum& a, float l) {
    if (a.sum == 0.0) {
        a.largest = l;
        a.sum = isnan(l) ? l : 1.0;
    } else if (l > a.largest) {
        a.sum = a.sum * (double)expf((float)(a.largest - l)) + 1.0;
        a.largest = l;
    } else {
        a.sum += (double)expf((float)(l - a.largest));
    }
}

const int OBJECTIVE_THREADS = 256;

// The partition functions over the whole batch, for costs and readouts that need them.
extern "C" __global__ void observe_partition(const __grid_constant__ ObjectiveTask t) {
    begin();
    int run = blockIdx.z;
    ObjectiveSpec spec = t.specs[run];
    const float* scores = t.scores.of(run);
    float bias = bias_of(t, run);
    const u32* partner = partners(t.pairs, run);
    LogSum cost = {0.0, 0.0}, readout = {0.0, 0.0};
    for (int r = blockIdx.x * blockDim.x + threadIdx.x; r < t.pairs.rows; r += gridDim.x * blockDim.x) {
        Pair pair = locate(t.pairs, partner, r);
        if (!pair.valid || pair.joint) continue;
        float l = log_ratio(spec.link, score_of(t, scores, bias, r));
        add(cost, clip(l, spec.tau));
        add(readout, clip(l, spec.readout_tau));
    }
    __shared__ LogSum shared[2][OBJECTIVE_THREADS / 32];
    cost = combine_warp(cost);
    readout = combine_warp(readout);
    if (threadIdx.x % 32 == 0) {
        shared[0][threadIdx.x / 32] = cost;
        shared[1][threadIdx.x / 32] = readout;
    }
    __syncthreads();
    if (threadIdx.x < 2) {
        LogSum all = shared[threadIdx.x][0];
        for (int w = 1; w < OBJECTIVE_THREADS / 32; ++w) all = combine(all, shared[threadIdx.x][w]);
        double* out = t.partition + ((u64)run * t.blocks + blockIdx.x) * 4 + 2 * threadIdx.x;
        out[0] = all.largest;
        out[1] = all.sum;
    }
}

// One warp for each x: ln sum_j e^{l_ij}, including the joint pair.
extern "C" __global__ void observe_rows(const __grid_constant__ ObjectiveTask t) {
    begin();
    int i = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32, run = blockIdx.z;
    if (i >= t.pairs.n) return;
    ObjectiveSpec spec = t.specs[run];
    const float* scores = t.scores.of(run);
    float bias = bias_of(t, run);
    LogSum all = {0.0, 0.0};
    for (int j = lane; j < t.pairs.n; j += 32) {
        add(all, log_ratio(spec.link, score_of(t, scores, bias, place_of(t.pairs, i, j))));
    }
    all = combine_warp(all);
    if (lane == 0) t.row_log_sums.of(run)[i] = (float)(all.largest + log(all.sum));
}

// One warp for 32 ys, a lane for each: ln sum_i e^{l_ij}, including the joint pair.
extern "C" __global__ void observe_columns(const __grid_constant__ ObjectiveTask t) {
    begin();
    const int WARPS = OBJECTIVE_THREADS / 32;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, j = 32 * blockIdx.x + lane, run = blockIdx.z;
    ObjectiveSpec spec = t.specs[run];
    const float* scores = t.scores.of(run);
    float bias = bias_of(t, run);
    // The warps share the xs.
    float largest = -infinity(), sum = 0.f;
    if (j < t.pairs.n) {
        for (int i = warp; i < t.pairs.n; i += WARPS) {
            float l = log_ratio(spec.link, score_of(t, scores, bias, place_of(t.pairs, i, j)));
            if (l > largest) {
                sum *= expf(largest - l);
                largest = l;
            }
            sum += expf(l - largest);
        }
    }
    __shared__ float shared[2][WARPS][32];
    shared[0][warp][lane] = largest;
    shared[1][warp][lane] = sum;
    __syncthreads();
    if (warp != 0 || j >= t.pairs.n) return;
    for (int w = 1; w < WARPS; ++w) largest = fmaxf(largest, shared[0][w][lane]);
    sum = 0.f;
    for (int w = 0; w < WARPS; ++w) sum += shared[1][w][lane] * expf(shared[0][w][lane] - largest);
    t.column_log_sums.of(run)[j] = largest + logf(sum);
}

// ln E_marginal[e^l] from the parts of all blocks. `which`: 0 for the cost, 1 for the readout.
__device__ inline double log_partition(const ObjectiveTask& t, int run, int which) {
    LogSum all = {0.0, 0.0};
    for (int b = 0; b < t.blocks; ++b) {
        const double* part = t.partition + ((u64)run * t.blocks + b) * 4 + 2 * which;
        LogSum next = {part[0], part[1]};
        all = combine(all, next);
    }
    double n = t.pairs.n;
    return all.largest + log(all.sum / (t.pairs.layout == PAIRED ? n : n * (n - 1)));
}
// The logarithm of MINE's moving average of Z, updated with this batch.
__device__ inline double moved_average(double average, double log_partition) {
    const double rate = 0.01;
    return isnan(average) ? log_partition : log_add_exp(log1p(-rate) + average, log(rate) + log_partition);
}

extern "C" __global__ void score_gradients(const __grid_constant__ ObjectiveTask t) {
    begin();
    int run = blockIdx.z;
    ObjectiveSpec spec = t.specs[run];
    const float* scores = t.scores.of(run);
    float* gradient = t.gradient.of(run);
    float bias = bias_of(t, run);
    const u32* partner = partners(t.pairs, run);
    float n = t.pairs.n;
    float joint_weight = 1.f / n;
    float marginal_weight = t.pairs.layout == PAIRED ? 1.f / n : 1.f / (n * (n - 1.f));
    __shared__ double shared_partition;
    if (spec.cost == MOVING_AVERAGE || spec.cost == CLIPPED) {
        if (threadIdx.x == 0) {
            double z = log_partition(t, run, 0);
            shared_partition = spec.cost == MOVING_AVERAGE ? moved_average(t.average[run], z) : z;
        }
        __syncthreads();
    }
    double sums[4] = {0.0, 0.0, 0.0, 0.0};
    for (int r = blockIdx.x * blockDim.x + threadIdx.x; r < t.pairs.rows; r += gridDim.x * blockDim.x) {
        Pair pair = locate(t.pairs, partner, r);
        if (!pair.valid) {
            gradient[r] = 0.f;
            continue;
        }
        float s = score_of(t, scores, bias, r);
        float l = log_ratio(spec.link, s), slope = link_slope(spec.link, s), g;
        if (pair.joint) sums[2] += l;
        if (spec.cost == F_DIVERGENCE) {
            float4 row = divergence_row(spec.divergence, spec.alpha, l);
            if (pair.joint) {
                sums[0] += row.x;
                g = joint_weight * row.z * slope;
            } else {
                sums[1] += row.y;
                g = -marginal_weight * row.w * slope;
            }
        } else if (spec.cost == INFO_NCE) {
            float log_probability = l - t.row_log_sums.of(run)[pair.i];
            if (pair.joint) sums[0] += log_probability;
            g = joint_weight * slope * (pair.joint ? -expm1f(log_probability) : -expf(log_probability));
        } else if (spec.cost == SYMMETRIC_INFO_NCE) {
            float by_row = l - t.row_log_sums.of(run)[pair.i], by_column = l - t.column_log_sums.of(run)[pair.j];
            if (pair.joint) sums[0] += 0.5f * (by_row + by_column);
            g = -0.5f * joint_weight * slope
                * (pair.joint ? expm1f(by_row) + expm1f(by_column) : expf(by_row) + expf(by_column));
        } else if (pair.joint) {
            g = joint_weight * slope;
        } else {
            g = -marginal_weight * expf(l - (float)shared_partition) * slope;
            if (fabsf(l) > spec.tau) g = 0.f;
        }
        gradient[r] = g * t.gradient_scale;
        sums[3] += g;
    }
    __shared__ double shared[4][OBJECTIVE_THREADS / 32];
    for (int k = 0; k < 4; ++k) {
        for (int step = 16; step > 0; step /= 2) sums[k] += __shfl_xor_sync(~0u, sums[k], step);
        if (threadIdx.x % 32 == 0) shared[k][threadIdx.x / 32] = sums[k];
    }
    __syncthreads();
    if (threadIdx.x < 4) {
        double sum = 0.0;
        for (int w = 0; w < OBJECTIVE_THREADS / 32; ++w) sum += shared[threadIdx.x][w];
        t.sums[((u64)run * t.blocks + blockIdx.x) * 4 + threadIdx.x] = sum;
    }
}

// One warp for each run: writes value and estimate to the trace and updates MINE's average.
__device__ inline void record(const ObjectiveTask& t, int run, u32 step, bool broken) {
    int lane = threadIdx.x;
    double sums[4];
    for (int k = 0; k < 4; ++k) {
        sums[k] = 0.0;
        for (int b = lane; b < t.blocks; b += 32) sums[k] += t.sums[((u64)run * t.blocks + b) * 4 + k];
        for (int offset = 16; offset > 0; offset /= 2) sums[k] += __shfl_xor_sync(~0u, sums[k], offset);
    }
    ObjectiveSpec spec = t.specs[run];
    double n = t.pairs.n, marginal = t.pairs.layout == PAIRED ? n : n * (n - 1.0);
    double rows = 0.0;
    if (spec.readout == ROWS_READOUT) {
        for (int i = lane; i < t.pairs.n; i += 32) rows += t.row_log_sums.of(run)[i];
        for (int offset = 16; offset > 0; offset /= 2) rows += __shfl_xor_sync(~0u, rows, offset);
    }
    if (lane != 0) return;
    double value, estimate = sums[2] / n;
    if (spec.cost == F_DIVERGENCE) {
        value = sums[0] / n - sums[1] / marginal;
    } else if (spec.cost == INFO_NCE || spec.cost == SYMMETRIC_INFO_NCE) {
        value = sums[0] / n + log(n);
    } else {
        double z = log_partition(t, run, 0);
        value = sums[2] / n - z;
        if (spec.cost == MOVING_AVERAGE) t.average[run] = moved_average(t.average[run], z);
    }
    if (spec.readout == NWJ) estimate += 1.0 - exp(log_partition(t, run, 1));
    if (spec.readout == PARTITION) estimate -= log_partition(t, run, 1);
    if (spec.readout == ROWS_READOUT) estimate += log(n) - rows / n;
    // Rounding to tf32 may turn a NaN among the weights into a number, so it is reported here.
    if (broken) value = estimate = __longlong_as_double(0x7ff8000000000000ll);
    double* out = t.trace + 2 * ((u64)step * gridDim.y + run);
    out[0] = value;
    out[1] = estimate;
    t.bias_gradient[run] = sums[3];
}
