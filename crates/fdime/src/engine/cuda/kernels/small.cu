// Whole trainings of small networks over pairs of rows of a table. A thread block executes the steps
// of a run: it keeps the weights in shared memory, works on a part of the batch at a time, and adds up
// the weight gradients in registers. So nothing but the table, the moments and a copy of the
// parameters is in global memory. The random numbers are those of the other kernels.

struct SmallTask {
    TableTask table;
    ObjectiveTask objective;
    Dropout dropout;
    Buffer parameters, moments;
    AdamRates rates;
    // Of weights and bias of every hidden layer, then of the score weights: the index of the first
    // parameter with and without padding.
    u64 parameters_at[8], moments_at[8];
    u64 bias_at, count;    // the score's bias, and the number of parameters
    u64 partner_step;      // the distance between the partners of one step and the next
    int steps, padding;
};

// LAYERS hidden layers of equal WIDTH, for at most INPUTS inputs. ROWS pairs are computed at a time,
// 16 of them by each warp, for a group of columns.
template <int LAYERS_, int WIDTH_, int INPUTS_, int ROWS_, int WARPS_> struct SmallNetwork {
    static const int LAYERS = LAYERS_, WIDTH = WIDTH_, INPUTS = INPUTS_, ROWS = ROWS_, WARPS = WARPS_;
    static const int THREADS = 32 * WARPS;
    static const int ROW_GROUPS = ROWS / 16, COLUMN_GROUPS = WARPS / ROW_GROUPS;
    static const int COLUMNS = WIDTH / COLUMN_GROUPS, NT = COLUMNS / 8;
    static_assert(COLUMNS % 16 == 0 && INPUTS % 16 == 0, "whole tiles");
    // Warps and their tiles in the gradient of the weights between hidden layers, and of the inputs.
    static const int GRADIENT_ROWS = WARPS / 4, MG = WIDTH / 16 / GRADIENT_ROWS, NG = WIDTH / 8 / 4;
    static const int MI = INPUTS / 16, NI = (WIDTH / 8 + WARPS - 1) / WARPS;
    // Rows are 4 numbers longer than a multiple of 16, so that no access below has bank conflicts.
    static const int LDX = INPUTS + 4, LDH = WIDTH + 4;
    // Positions in shared memory.
    static const int BIAS = (INPUTS + (LAYERS - 1) * WIDTH) * LDH, SCORE = BIAS + LAYERS * WIDTH;
    static const int X = SCORE + WIDTH, H = X + ROWS * LDX, PARTS = H + LAYERS * ROWS * LDH;
    static const int GRADIENT = PARTS + COLUMN_GROUPS * ROWS, REFERENCE = GRADIENT + ROWS;
    static const int PLACES = REFERENCE + ROWS;  // followed by 4 places for every row of a batch
    // Threads for each column when columns are summed.
    static const int SHARES = THREADS / WIDTH;
    // Eight lanes read a row.
    static const int PASSES = (ROWS * LANES + THREADS - 1) / THREADS;
    __device__ static int weights(int layer) { return layer == 0 ? 0 : (INPUTS + (layer - 1) * WIDTH) * LDH; }
};

__device__ inline float rounded(float x) { return __uint_as_float(tf32(x)); }
__device__ inline float2 rounded(float a, float b) { return make_float2(rounded(a), rounded(b)); }
__device__ inline u32 bits(float x) { return __float_as_uint(x); }

// As `activate`, for values that are rounded afterwards.
__device__ inline float activate_roughly(float z) {
#if ACTIVATION == 1
    return z < 0.f ? __expf(z) - 1.f : z;
#else
    return activate(z);
#endif
}
// As `times_slope` for outputs that were rounded, which moves zeros a little.
__device__ inline float times_slope_roughly(float v, float a, float scale, float inverse) {
    if (scale == 0.f) return times_slope(v, a);
    return fabsf(a) < 1e-30f ? 0.f : scale * times_slope(v, a * inverse);
}

// The rows of the table that a step uses: of x and y of every row of the batch, and of its partner's y.
template <class S> __device__ void look_up_rows(const SmallTask& t, int run, int step, uint2* places) {
    Epoch epoch(t.table, run, step);
    const u32* partner = partners(t.table.pairs, run);
    if (partner) partner += t.partner_step * step;
    for (int i = threadIdx.x; i < t.table.pairs.n; i += S::THREADS)
        places[i] = make_uint2(epoch.row(i), epoch.row(partner_of(t.table.pairs, partner, i)));
}

// The inputs of ROWS pairs on their way to shared memory.
template <class S> struct Gathered {
    float v[S::PASSES][S::INPUTS / LANES], u[S::PASSES], w[S::PASSES];

    __device__ void fetch(const TableTask& t, int run, int first, const uint2* places) {
        int lane = threadIdx.x % LANES, inputs = t.x_dim + t.y_dim;
#pragma unroll
        for (int pass = 0; pass < S::PASSES; ++pass) {
            int r = min(first + (int)(threadIdx.x + pass * S::THREADS) / LANES, 2 * t.pairs.n - 1);
            uint2 place = places[r / 2];
            const float* x = table_row(t, run, place.x);
            const float* y = table_row(t, run, r % 2 == 0 ? place.x : place.y);
#pragma unroll
            for (int k = 0; k < S::INPUTS / LANES; ++k) {
                int column = lane + LANES * k;
                v[pass][k] = column < inputs ? (column < t.x_dim ? x : y)[column] : 0.f;
            }
            u[pass] = lane < t.width ? x[inputs + lane] : 0.f;
            w[pass] = lane < t.width ? y[inputs + t.width + lane] : 0.f;
        }
    }

    __device__ void store(float* shared) const {
        int lane = threadIdx.x % LANES;
#pragma unroll
        for (int pass = 0; pass < S::PASSES; ++pass) {
            int r = (threadIdx.x + pass * S::THREADS) / LANES;
            float reference = sum_over_lanes(u[pass] * w[pass]);
            if (r >= S::ROWS) break;
#pragma unroll
            for (int k = 0; k < S::INPUTS / LANES; ++k)
                shared[S::X + r * S::LDX + lane + LANES * k] = rounded(v[pass][k]);
            if (lane == 0) shared[S::REFERENCE + r] = reference;
        }
    }
};

// A warp's 16 rows and COLUMNS columns. A lane has two adjacent rows, and two adjacent columns of
// every eight.
template <class S> struct Part {
    int row, column;
    __device__ Part() {
        int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        row = warp / S::COLUMN_GROUPS * 16 + 2 * (lane / 4);
        column = warp % S::COLUMN_GROUPS * S::COLUMNS;
    }
};

// c += A W, with A's rows of length LDA. In both operands a lane has the depths 2 t and 2 t + 1 of
// eight, t = lane % 4.
template <class S, int DEPTH, int LDA>
__device__ void multiply(const float* a, const float* w, const Part<S>& part, float (&c)[S::NT][4]) {
    int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    a += part.row * LDA + 2 * t;
    w += 2 * t * S::LDH + part.column + g;
#pragma unroll 4
    for (int k = 0; k < DEPTH; k += 8) {
        float2 even = load2(a + k), odd = load2(a + LDA + k);
        uint4 fragment = make_uint4(bits(even.x), bits(odd.x), bits(even.y), bits(odd.y));
        const float* from = w + k * S::LDH;
#pragma unroll
        for (int n = 0; n < S::NT; ++n) mma_tf32(c[n], fragment, bits(from[8 * n]), bits(from[S::LDH + 8 * n]));
    }
}

// c += G W^T. Two products of eight columns together have the columns 4 t .. 4 t + 3 of sixteen.
template <class S>
__device__ void multiply_transposed(const float* gradient, const float* w, const Part<S>& part, float (&c)[S::NT][4]) {
    int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    gradient += part.row * S::LDH + 2 * t;
    w += (part.column + 2 * g) * S::LDH + 2 * t;
#pragma unroll 4
    for (int k = 0; k < S::WIDTH; k += 8) {
        float2 even = load2(gradient + k), odd = load2(gradient + S::LDH + k);
        uint4 fragment = make_uint4(bits(even.x), bits(odd.x), bits(even.y), bits(odd.y));
#pragma unroll
        for (int n = 0; n < S::NT; ++n) {
            float2 b = load2(w + (8 * (n & ~1) + (n & 1)) * S::LDH + k);
            mma_tf32(c[n], fragment, bits(b.x), bits(b.y));
        }
    }
}

// c += A^T G over all rows, for 16 M columns of A from `m` on and each of N eights of columns of G,
// STEP apart.
template <class S, int LDA, int M, int N>
__device__ void add_weight_gradient(const float* a, const float* gradient, int m, int n, int step, float (&c)[M][N][4]) {
    int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    a += 2 * t * LDA + m + g;
    gradient += 2 * t * S::LDH + n + g;
#pragma unroll 2
    for (int r = 0; r < S::ROWS; r += 8) {
        u32 b[N][2];
#pragma unroll
        for (int k = 0; k < N; ++k) {
            bool inside = n + step * k < S::WIDTH;
            b[k][0] = inside ? bits(gradient[r * S::LDH + step * k]) : 0;
            b[k][1] = inside ? bits(gradient[(r + 1) * S::LDH + step * k]) : 0;
        }
#pragma unroll
        for (int k = 0; k < M; ++k) {
            const float* from = a + r * LDA + 16 * k;
            uint4 fragment = make_uint4(bits(from[0]), bits(from[8]), bits(from[LDA]), bits(from[LDA + 8]));
#pragma unroll
            for (int l = 0; l < N; ++l) mma_tf32(c[k][l], fragment, b[l][0], b[l][1]);
        }
    }
}

// The update of parameters: a single one, two adjacent ones, or a matrix of weights.
struct SmallUpdate {
    const SmallTask& t;
    AdamStep adam;
    float *parameters, *moments;
    bool broken;

    __device__ SmallUpdate(const SmallTask& task, int run, float iteration)
        : t(task), adam(task.rates, iteration), parameters(task.parameters.of(run)),
          moments(task.moments.of(run)), broken(false) {}

    __device__ float one(u64 at, u64 moment, float gradient) {
        float2 old = load2(moments + 2 * moment);
        float value = adam.updated(parameters[at], gradient, old);
        *reinterpret_cast<float2*>(moments + 2 * moment) = old;
        parameters[at] = value;
        broken |= !isfinite(value);
        return value;
    }
    __device__ float2 two(u64 at, u64 moment, float first, float second) {
        float4 old = load4(moments + 2 * moment);
        float2 value = load2(parameters + at), m = make_float2(old.x, old.y), n = make_float2(old.z, old.w);
        value.x = adam.updated(value.x, first, m);
        value.y = adam.updated(value.y, second, n);
        *reinterpret_cast<float4*>(moments + 2 * moment) = make_float4(m.x, m.y, n.x, n.y);
        *reinterpret_cast<float2*>(parameters + at) = value;
        broken |= !(isfinite(value.x) && isfinite(value.y));
        return rounded(value.x, value.y);
    }
    // A matrix of weights with `rows` rows, whose gradient is in the tiles of `add_weight_gradient`.
    template <class S, int M, int N>
    __device__ void matrix(int section, int rows, float* shared, int m, int n, int step, const float (&c)[M][N][4]) {
        int g = threadIdx.x % 32 / 4, column = 2 * (threadIdx.x % 4);
#pragma unroll
        for (int k = 0; k < M; ++k)
#pragma unroll
            for (int l = 0; l < N; ++l)
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    int row = m + 16 * k + g + 8 * half, at = n + step * l + column;
                    if (row >= rows || at >= S::WIDTH) continue;
                    int place = row * S::WIDTH + at;
                    *reinterpret_cast<float2*>(shared + row * S::LDH + at) =
                        two(t.parameters_at[section] + place, t.moments_at[section] + place, c[k][l][2 * half], c[k][l][2 * half + 1]);
                }
    }
};

template <class S> __device__ void train_small(const SmallTask& t) {
    begin();
    float* shared = reinterpret_cast<float*>(dynamic_shared);
    __shared__ u32 keys[S::LAYERS][2];
    __shared__ double sums_of_warps[S::WARPS][4];
    __shared__ float score_bias;
    __shared__ int is_broken;
    const int last = S::LAYERS - 1;
    int run = blockIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int n = t.table.pairs.n, inputs = t.table.x_dim + t.table.y_dim;
    uint2* places = reinterpret_cast<uint2*>(shared + S::PLACES);
    ObjectiveSpec spec = t.objective.specs[run];
    const float* parameters = t.parameters.of(run);
    Part<S> part;
    float scale = t.dropout.scale, inverse = scale == 0.f ? 1.f : 1.f / scale;

#pragma unroll
    for (int layer = 0; layer < S::LAYERS; ++layer) {
        const float *weights = parameters + t.parameters_at[2 * layer], *bias = parameters + t.parameters_at[2 * layer + 1];
        int rows = layer == 0 ? S::INPUTS : S::WIDTH;
        for (int k = threadIdx.x; k < rows * S::WIDTH; k += S::THREADS) {
            int row = k / S::WIDTH;
            shared[S::weights(layer) + row * S::LDH + k % S::WIDTH] = layer > 0 || row < inputs ? rounded(weights[k]) : 0.f;
        }
        for (int k = threadIdx.x; k < S::WIDTH; k += S::THREADS) shared[S::BIAS + layer * S::WIDTH + k] = bias[k];
    }
    for (int k = threadIdx.x; k < S::WIDTH; k += S::THREADS) shared[S::SCORE + k] = parameters[t.parameters_at[2 * S::LAYERS] + k];
    if (threadIdx.x == 0) {
        score_bias = parameters[t.bias_at];
        is_broken = t.objective.broken[2 * run] | t.objective.broken[2 * run + 1];
    }
    look_up_rows<S>(t, run, 0, places);
    __syncthreads();
    Gathered<S> next;
    next.fetch(t.table, run, 0, places);

    for (int step = 0; step < t.steps; ++step) {
        if (threadIdx.x < S::LAYERS && scale != 0.f) {
            Dropout dropout = t.dropout;
            dropout.step += step;
            dropout.layer = threadIdx.x;
            Random4 key = dropout.key(run);
            keys[threadIdx.x][0] = key.v[0];
            keys[threadIdx.x][1] = key.v[1];
        }
        uint2 *current = places + step % 2 * n, *later = places + (step + 1) % 2 * n;
        if (step + 1 < t.steps) look_up_rows<S>(t, run, step + 1, later);

        float input_gradient[S::MI][S::NI][4] = {}, gradients[last][S::MG][S::NG][4] = {};
        float4 bias_sums[last][S::NT / 2] = {};
        float last_bias_sum = 0.f, score_sum = 0.f;
        double sums[4] = {0.0, 0.0, 0.0, 0.0};
        for (int first = 0; first < 2 * n; first += S::ROWS) {
            next.store(shared);
            __syncthreads();
            bool ends = first + S::ROWS >= 2 * n;
            if (!ends || step + 1 < t.steps) next.fetch(t.table, run, ends ? 0 : first + S::ROWS, ends ? later : current);

            // ---- forward ----
#pragma unroll
            for (int layer = 0; layer < S::LAYERS; ++layer) {
                float c[S::NT][4] = {};
                if (layer == 0) multiply<S, S::INPUTS, S::LDX>(shared + S::X, shared, part, c);
                else multiply<S, S::WIDTH, S::LDH>(shared + S::H + (layer - 1) * S::ROWS * S::LDH, shared + S::weights(layer), part, c);
                float* output = shared + S::H + layer * S::ROWS * S::LDH + part.row * S::LDH;
                Random4 key = {{keys[layer][0], keys[layer][1], 0, 0}};
                float score[2] = {0.f, 0.f};
#pragma unroll
                for (int k = 0; k < S::NT; ++k) {
                    int column = part.column + 8 * k + 2 * (lane % 4);
                    float2 bias = load2(shared + S::BIAS + layer * S::WIDTH + column);
                    u32 bytes = scale == 0.f ? 0 : Dropout::bytes(key, first + part.row, column);
#pragma unroll
                    for (int e = 0; e < 4; ++e) {
                        float a = activate_roughly(c[k][e] + (e % 2 == 0 ? bias.x : bias.y));
                        c[k][e] = scale == 0.f ? a : t.dropout.apply(a, bytes >> 8 * e);
                    }
                    *reinterpret_cast<float2*>(output + column) = rounded(c[k][0], c[k][1]);
                    *reinterpret_cast<float2*>(output + S::LDH + column) = rounded(c[k][2], c[k][3]);
                    if (layer == last) {
                        float2 w = load2(shared + S::SCORE + column);
                        score[0] += c[k][0] * w.x + c[k][1] * w.y;
                        score[1] += c[k][2] * w.x + c[k][3] * w.y;
                    }
                }
                if (layer == last) {
#pragma unroll
                    for (int half = 0; half < 2; ++half) {
                        score[half] += __shfl_xor_sync(~0u, score[half], 1);
                        score[half] += __shfl_xor_sync(~0u, score[half], 2);
                        if (lane % 4 == 0) shared[S::PARTS + warp % S::COLUMN_GROUPS * S::ROWS + part.row + half] = score[half];
                    }
                }
                __syncthreads();
            }

            // ---- objective ----
            if (threadIdx.x < S::ROWS) {
                int r = first + threadIdx.x;
                float s = score_bias + shared[S::REFERENCE + threadIdx.x], g = 0.f;
                for (int k = 0; k < S::COLUMN_GROUPS; ++k) s += shared[S::PARTS + k * S::ROWS + threadIdx.x];
                if (r < 2 * n) {
                    float l = log_ratio(spec.link, s), slope = link_slope(spec.link, s);
                    float4 row = divergence_row(spec.divergence, spec.alpha, l);
                    if (r % 2 == 0) {
                        sums[0] += row.x;
                        sums[2] += l;
                        g = row.z * slope / n;
                    } else {
                        sums[1] += row.y;
                        g = -row.w * slope / n;
                    }
                    sums[3] += g;
                }
                shared[S::GRADIENT + threadIdx.x] = g;
            }
            __syncthreads();

            // ---- backward ----
            float* outputs = shared + S::H + last * S::ROWS * S::LDH;
            if (threadIdx.x < S::SHARES * S::WIDTH) {
                int column = threadIdx.x % S::WIDTH, share = threadIdx.x / S::WIDTH;
                float w = shared[S::SCORE + column];
#pragma unroll 4
                for (int r = share; r < S::ROWS; r += S::SHARES) {
                    float g = shared[S::GRADIENT + r], a = outputs[r * S::LDH + column];
                    float d = times_slope_roughly(g * w, a, scale, inverse);
                    score_sum += g * a;
                    last_bias_sum += d;
                    outputs[r * S::LDH + column] = rounded(d);
                }
            }
            __syncthreads();
#pragma unroll
            for (int layer = last; layer > 0; --layer) {
                const float* gradient = shared + S::H + layer * S::ROWS * S::LDH;
                float* below = shared + S::H + (layer - 1) * S::ROWS * S::LDH;
                add_weight_gradient<S, S::LDH>(below, gradient, warp / 4 * S::MG * 16, warp % 4 * S::NG * 8, 8, gradients[layer - 1]);
                float c[S::NT][4] = {};
                multiply_transposed<S>(gradient, shared + S::weights(layer), part, c);
                __syncthreads();
#pragma unroll
                for (int k = 0; k < S::NT / 2; ++k)
#pragma unroll
                    for (int half = 0; half < 2; ++half) {
                        float4* to = reinterpret_cast<float4*>(below + (part.row + half) * S::LDH + part.column + 16 * k + 4 * (lane % 4));
                        float4 a = *to;
                        float4 d = make_float4(
                            times_slope_roughly(c[2 * k][2 * half], a.x, scale, inverse),
                            times_slope_roughly(c[2 * k + 1][2 * half], a.y, scale, inverse),
                            times_slope_roughly(c[2 * k][2 * half + 1], a.z, scale, inverse),
                            times_slope_roughly(c[2 * k + 1][2 * half + 1], a.w, scale, inverse));
                        bias_sums[layer - 1][k] = bias_sums[layer - 1][k] + d;
                        *to = make_float4(rounded(d.x), rounded(d.y), rounded(d.z), rounded(d.w));
                    }
                __syncthreads();
            }
            add_weight_gradient<S, S::LDX>(shared + S::X, shared + S::H, 0, 8 * warp, 8 * S::WARPS, input_gradient);
            __syncthreads();
        }

        // ---- update ----
        // The sums over rows of bias gradients, of every group of rows.
        float* scratch = shared + S::X;
#pragma unroll
        for (int layer = 0; layer < last; ++layer)
#pragma unroll
            for (int k = 0; k < S::NT / 2; ++k) {
                float4 sum = bias_sums[layer][k];
                for (int distance = 4; distance < 32; distance *= 2) {
                    sum.x += __shfl_xor_sync(~0u, sum.x, distance);
                    sum.y += __shfl_xor_sync(~0u, sum.y, distance);
                    sum.z += __shfl_xor_sync(~0u, sum.z, distance);
                    sum.w += __shfl_xor_sync(~0u, sum.w, distance);
                }
                int column = part.column + 16 * k + 4 * (lane % 4), group = layer * S::ROW_GROUPS + warp / S::COLUMN_GROUPS;
                if (lane < 4) *reinterpret_cast<float4*>(scratch + group * S::WIDTH + column) = sum;
            }
        float* last_sums = scratch + last * S::ROW_GROUPS * S::WIDTH;
        if (threadIdx.x < S::SHARES * S::WIDTH) {
            last_sums[threadIdx.x] = last_bias_sum;
            last_sums[S::SHARES * S::WIDTH + threadIdx.x] = score_sum;
        }
        for (int k = 0; k < 4; ++k) {
            for (int distance = 16; distance > 0; distance /= 2) sums[k] += __shfl_xor_sync(~0u, sums[k], distance);
            if (lane == 0) sums_of_warps[warp][k] = sums[k];
        }
        __syncthreads();
        SmallUpdate update(t, run, (float)(*t.table.base + t.table.step + step + 1));
        update.matrix<S>(0, inputs, shared, 0, 8 * warp, 8 * S::WARPS, input_gradient);
#pragma unroll
        for (int layer = 1; layer < S::LAYERS; ++layer)
            update.matrix<S>(2 * layer, S::WIDTH, shared + S::weights(layer), warp / 4 * S::MG * 16, warp % 4 * S::NG * 8, 8, gradients[layer - 1]);
        for (int k = threadIdx.x; k < (S::LAYERS + 1) * S::WIDTH; k += S::THREADS) {
            int layer = k / S::WIDTH, column = k % S::WIDTH;
            int groups = layer < last ? S::ROW_GROUPS : S::SHARES;
            const float* from = layer < last ? scratch + layer * S::ROW_GROUPS * S::WIDTH : last_sums + (layer - last) * S::SHARES * S::WIDTH;
            float gradient = 0.f;
            for (int group = 0; group < groups; ++group) gradient += from[group * S::WIDTH + column];
            int section = layer < S::LAYERS ? 2 * layer + 1 : 2 * S::LAYERS;
            shared[S::BIAS + k] = update.one(t.parameters_at[section] + column, t.moments_at[section] + column, gradient);
        }
        if (threadIdx.x == 0) {
            double total[4] = {0.0, 0.0, 0.0, 0.0};
            for (int w = 0; w < S::WARPS; ++w)
                for (int k = 0; k < 4; ++k) total[k] += sums_of_warps[w][k];
            double value = (total[0] - total[1]) / n, estimate = total[2] / n;
            // Rounding may turn a NaN among the weights into a number, so it is reported here.
            if (is_broken) value = estimate = __longlong_as_double(0x7ff8000000000000ll);
            double* out = t.objective.trace + 2 * ((u64)step * gridDim.x + run);
            out[0] = value;
            out[1] = estimate;
            score_bias = update.one(t.bias_at, t.count - 1, (float)total[3]);
        }
        __syncthreads();
        if (update.broken) is_broken = 1;
        __syncthreads();
    }
    if (threadIdx.x == 0 && is_broken) t.objective.broken[2 * run] = t.objective.broken[2 * run + 1] = 1;
}

typedef SmallNetwork<2, 96, 16, 64, 8> Two16;
typedef SmallNetwork<2, 96, 48, 64, 8> Two48;
typedef SmallNetwork<3, 96, 16, 64, 8> Narrow16;
typedef SmallNetwork<3, 96, 48, 64, 8> Narrow48;
typedef SmallNetwork<3, 128, 16, 32, 16> Three16;
typedef SmallNetwork<3, 128, 48, 32, 16> Three48;
#define SMALL(name, Size, BLOCKS) \
    extern "C" __global__ void __launch_bounds__(Size::THREADS, BLOCKS) train_small_##name(const __grid_constant__ SmallTask t) { \
        train_small<Size>(t); \
    }
#if PRECISION == 1
SMALL(2x96_16, Two16, 2)
SMALL(2x96_48, Two48, 1)
SMALL(3x96_16, Narrow16, 1)
SMALL(3x96_48, Narrow48, 1)
SMALL(3x128_16, Three16, 1)
SMALL(3x128_48, Three48, 1)
#endif
