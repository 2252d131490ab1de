// Rows of a table as the samples of a step, and scores of given pairs of rows.

// The numbers of rows and pairs of a run's table.
struct TableSpec {
    u32 train;         // rows for training; those that are held out follow
    u32 held_out;
    u32 listed;        // listed pairs, at least one; their positions are counted from row `train`
    u64 first_listed;  // where they begin in the list of all runs
};

// A row of the table has x, y, and the factors u and v of the reference log ratio u(x) . v(y).
struct TableTask {
    Pairs pairs;           // of a step
    Buffer table;
    Buffer inputs;         // x_i and y_j of a pair, side by side
    Buffer x, y, u, v;     // or the rows of a step one by one
    Buffer reference;      // the reference of every pair of a step, as a part of its score
    const TableSpec* tables;
    const ScenarioSpec* specs;
    const u64* base;
    const uint2* listed;   // pairs to score; runs may share them
    u32 step;
    int rows;              // rows of pairs, or rows of the table, that this kernel writes
    int first;             // the first listed pair or row of the table that it reads
    int x_dim, y_dim, width;
    int ld_table, ld_inputs, ld_x, ld_y, ld_reference;
    int padding;
};

// A random permutation of 0 .. n - 1 without a table: a Feistel network over a power of 4 that is at
// least n. Results beyond n are permuted again.
__device__ inline u32 permuted(u32 index, u32 n, const Random4& key) {
    int half = (33 - __clz(n - 1)) / 2;
    u32 mask = (1u << half) - 1;
    do {
        u32 left = index >> half, right = index & mask;
#pragma unroll
        for (int round = 0; round < 6; ++round) {
            u32 next = left ^ (mixed(right + key.v[round % 4] + 0x9E3779B9u * round) & mask);
            left = right;
            right = next;
        }
        index = left << half | right;
    } while (index >= n);
    return index;
}

// Row i of a step. Every training row is used once in an epoch; what is left over at its end is not
// used.
struct Epoch {
    Random4 key;
    u32 train, start;
    __device__ Epoch(const TableTask& t, int run, u32 later = 0) {
        u64 step = *t.base + t.step + later;
        train = t.tables[run].train;
        u32 steps = max(train / (u32)t.pairs.n, 1u);
        key = philox(t.specs[run].seed, FOR_EPOCH, (u32)(step / steps), 0, 0);
        start = (u32)(step % steps) * t.pairs.n;
    }
    __device__ u32 row(int i) const { return permuted(start + i, train, key); }
};

// Eight lanes work on a row.
const int LANES = 8;
__device__ inline int first_of_lanes() { return (blockIdx.x * blockDim.x + threadIdx.x) / LANES; }
__device__ inline float sum_over_lanes(float sum) {
    for (int step = LANES / 2; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    return sum;
}
// A listed pair. Beyond the last pair of a run, it is that one.
__device__ inline uint2 listed_pair(const TableTask& t, int run, int place) {
    const TableSpec& spec = t.tables[run];
    uint2 pair = t.listed[spec.first_listed + min((u32)place, spec.listed - 1)];
    return make_uint2(pair.x + spec.train, pair.y + spec.train);
}
__device__ inline const float* table_row(const TableTask& t, int run, u32 row) {
    return t.table.of(run) + (u64)row * t.ld_table;
}
// The part of u(x) . v(y) of a lane.
__device__ inline float reference_part(const TableTask& t, const float* x_row, const float* y_row) {
    float sum = 0.f;
    const float *u = x_row + t.x_dim + t.y_dim, *v = y_row + t.x_dim + t.y_dim + t.width;
    for (int k = threadIdx.x % LANES; k < t.width; k += LANES) sum += u[k] * v[k];
    return sum;
}
__device__ inline void write_pair(const TableTask& t, int run, int r, const float* x_row, const float* y_row) {
    float* to = t.inputs.of(run) + (u64)r * t.ld_inputs;
    for (int k = threadIdx.x % LANES; k < t.x_dim + t.y_dim; k += LANES) to[k] = k < t.x_dim ? x_row[k] : y_row[k];
}

// The pairs of a step: rows drawn from the table, each with its own y and with its partner's.
extern "C" __global__ void draw_pairs_of_table(const __grid_constant__ TableTask t) {
    begin();
    int r = first_of_lanes(), run = blockIdx.z;
    Pair pair = locate(t.pairs, partners(t.pairs, run), min(r, t.pairs.rows - 1));
    Epoch epoch(t, run);
    u32 x = epoch.row(pair.i);
    const float* x_row = table_row(t, run, x);
    const float* y_row = table_row(t, run, pair.joint ? x : epoch.row(pair.j));
    float reference = sum_over_lanes(reference_part(t, x_row, y_row));
    if (r >= t.pairs.rows) return;
    write_pair(t, run, r, x_row, y_row);
    if (t.width > 0 && threadIdx.x % LANES == 0) t.reference.of(run)[r] = reference;
}

// The pairs of a step from its samples.
extern "C" __global__ void pairs_of_samples(const __grid_constant__ TableTask t) {
    begin();
    int r = first_of_lanes(), run = blockIdx.z;
    if (r >= t.pairs.rows) return;
    Pair pair = locate(t.pairs, partners(t.pairs, run), r);
    const float *x = t.x.of(run) + (u64)pair.i * t.ld_x, *y = t.y.of(run) + (u64)pair.j * t.ld_y;
    write_pair(t, run, r, x, y - t.x_dim);
}

// Listed pairs.
extern "C" __global__ void read_pairs_of_table(const __grid_constant__ TableTask t) {
    begin();
    int r = first_of_lanes(), run = blockIdx.z;
    if (r >= t.rows) return;
    uint2 pair = listed_pair(t, run, t.first + r);
    write_pair(t, run, r, table_row(t, run, pair.x), table_row(t, run, pair.y));
}

__device__ inline void write_row(const TableTask& t, int run, int r, const float* from) {
    int lane = threadIdx.x % LANES;
    float *x = t.x.of(run) + (u64)r * t.ld_x, *y = t.y.of(run) + (u64)r * t.ld_y;
    for (int k = lane; k < t.x_dim; k += LANES) x[k] = from[k];
    for (int k = lane; k < t.y_dim; k += LANES) y[k] = from[t.x_dim + k];
    from += t.x_dim + t.y_dim;
    if (!t.u.data) return;
    float *u = t.u.of(run) + (u64)r * t.ld_reference, *v = t.v.of(run) + (u64)r * t.ld_reference;
    for (int k = lane; k < t.width; k += LANES) {
        u[k] = from[k];
        v[k] = from[t.width + k];
    }
}

// The rows of a step.
extern "C" __global__ void draw_rows_of_table(const __grid_constant__ TableTask t) {
    begin();
    int r = first_of_lanes(), run = blockIdx.z;
    if (r < t.pairs.n) write_row(t, run, r, table_row(t, run, Epoch(t, run).row(r)));
}

// Consecutive rows.
extern "C" __global__ void read_rows_of_table(const __grid_constant__ TableTask t) {
    begin();
    int r = first_of_lanes(), run = blockIdx.z;
    if (r < t.rows) write_row(t, run, r, table_row(t, run, t.first + r));
}

// The scores of listed pairs.
struct ListedScoresTask {
    TableTask table;
    Buffer parts;          // parts of the scores of these pairs; null for a separable critic
    Buffer g, h;           // or the embeddings of all rows
    Buffer bias;
    Buffer scores;
    int part_count, part_stride, embedding, padding;
};

extern "C" __global__ void listed_scores(const __grid_constant__ ListedScoresTask t) {
    begin();
    int r = first_of_lanes(), run = blockIdx.z, lane = threadIdx.x % LANES;
    int place = t.table.first + min(r, t.table.rows - 1);
    uint2 pair = listed_pair(t.table, run, place);
    float sum = reference_part(t.table, table_row(t.table, run, pair.x), table_row(t.table, run, pair.y));
    if (t.g.data) {
        const float *g = t.g.of(run) + (u64)pair.x * t.embedding, *h = t.h.of(run) + (u64)pair.y * t.embedding;
        for (int k = lane; k < t.embedding; k += LANES) sum += g[k] * h[k];
    }
    sum = sum_over_lanes(sum);
    if (lane != 0 || r >= t.table.rows) return;
    if (t.bias.data) sum += *t.bias.of(run);
    for (int part = 0; part < t.part_count; ++part) sum += t.parts.of(run)[(u64)part * t.part_stride + r];
    t.scores.of(run)[place] = sum;
}

// Symmetric InfoNCE (objective/symmetric_info_nce.rs) of a block of held-out rows, a thread for each
// row.
struct HeldOutTask {
    TableTask table;
    Buffer g, h;
    Buffer values;         // of every block: the sum over its rows, without ln of their number
    int embedding, padding;
};

const int HELD_OUT_BLOCK = 256;

extern "C" __global__ void held_out_blocks(const __grid_constant__ HeldOutTask t) {
    begin();
    int run = blockIdx.z, first = blockIdx.x * HELD_OUT_BLOCK;
    TableSpec spec = t.table.tables[run];
    int count = min((int)spec.held_out - first, HELD_OUT_BLOCK);
    if (count < 2) return;
    const float *g = t.g.of(run), *h = t.h.of(run);
    auto ratio = [&](int i, int j) {
        u64 x = spec.train + first + i, y = spec.train + first + j;
        const float *from = table_row(t.table, run, x) + t.table.x_dim + t.table.y_dim;
        const float *to = table_row(t.table, run, y) + t.table.x_dim + t.table.y_dim + t.table.width;
        float sum = 0.f;
        for (int k = 0; k < t.table.width; ++k) sum += from[k] * to[k];
        const float *a = g + x * t.embedding, *b = h + y * t.embedding;
        for (int k = 0; k < t.embedding; k += 4) {
            float4 p = load4(a + k), q = load4(b + k);
            sum += p.x * q.x + p.y * q.y + p.z * q.z + p.w * q.w;
        }
        return sum;
    };
    float value = 0.f;
    int i = threadIdx.x;
    if (i < count) {
        float largest[2] = {-infinity(), -infinity()}, sum[2] = {0.f, 0.f};
        for (int j = 0; j < count; ++j)
#pragma unroll
            for (int side = 0; side < 2; ++side) {
                float l = side == 0 ? ratio(i, j) : ratio(j, i);
                if (l > largest[side]) {
                    sum[side] *= expf(largest[side] - l);
                    largest[side] = l;
                }
                sum[side] += expf(l - largest[side]);
            }
        value = ratio(i, i) - 0.5f * (largest[0] + logf(sum[0]) + largest[1] + logf(sum[1]));
    }
    __shared__ float shared[HELD_OUT_BLOCK / 32];
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(~0u, value, step);
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
    __syncthreads();
    if (threadIdx.x != 0) return;
    for (int w = 1; w < HELD_OUT_BLOCK / 32; ++w) value += shared[w];
    t.values.of(run)[blockIdx.x] = value;
}

// Copies each run's parameters from the check that it selected.
struct SelectedTask {
    Buffer to;
    const float* checks;   // checks x runs x parameters
    const u32* selected;
    u64 check_stride;
};
extern "C" __global__ void selected_parameters(const __grid_constant__ SelectedTask t) {
    begin();
    int run = blockIdx.z;
    const float* from = t.checks + t.check_stride * t.selected[run] + t.to.stride * run;
    for (u64 k = blockIdx.x * blockDim.x + threadIdx.x; k < t.to.stride; k += (u64)gridDim.x * blockDim.x)
        t.to.of(run)[k] = from[k];
}
