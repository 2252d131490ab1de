// Data and partners of a step, drawn on the device (scenario/, pairing.rs).

enum { GAUSSIAN = 0, UNIFORM = 1, STUDENT = 2, DENSE = 3 };
struct SampleTask {
    Buffer x, y;
    const ScenarioSpec* specs;
    const float4* levels;   // runs x levels: the distribution's parameters
    const u64* base;
    u32 step;
    int n, ld_x, ld_y, level_count, per_level;
};

__device__ inline double normal_cdf(double v) { return 0.5 * erfc(-v * 0.70710678118654752); }

// The Phi(v)-quantile of a mixture of two unit normals, by bisection.
__device__ inline double mixture_quantile(double v, double w0, double m0, double w1, double m1) {
    double side = v > 0.0 ? -1.0 : 1.0, wanted = normal_cdf(side * v);
    double low = v + fmin(m0, m1), high = v + fmax(m0, m1);
    for (int k = 0; k < 60; ++k) {
        double middle = 0.5 * (low + high);
        double below = w0 * normal_cdf(side * (middle - m0)) + w1 * normal_cdf(side * (middle - m1));
        if ((below < wanted) == (side > 0.0)) low = middle; else high = middle;
    }
    return 0.5 * (low + high);
}

__device__ inline float mapped(int map, float v) {
    switch (map) {
        case 0: return v * v * v;
        case 1: return v * sqrtf(fabsf(v));
        case 2: return asinhf(v);
        case 3: return (float)normal_cdf(v);
        case 5: return v + 0.4f * sinf(v) + 0.2f * sinf(1.7f * v + 1.f) + 0.03f * sinf(3.3f * v - 2.5f);
        case 6: return v - 0.4f * sinf(0.4f * v) + 0.17f * sinf(1.3f * v + 3.5f) + 0.02f * sinf(4.3f * v - 2.5f);
        case 7: return (float)mixture_quantile(v, 0.3, 0.0, 0.7, 5.0);
        case 8: return (float)mixture_quantile(v, 0.5, -1.0, 0.5, 3.0);
        default: return nanf("");
    }
}

// A warp applies the maps to a row in memory.
__device__ inline void apply_maps(const int* maps, int count, float* row, int dim) {
    int lane = threadIdx.x % 32;
    for (int m = 0; m < count; ++m) {
        int map = maps[m];
        if (map == 4) {  // swiss roll: from a line to a plane
            if (lane == 0) {
                float turn = 1.5f * (1.f + 2.f * row[0]), t = 3.14159265f * turn, s, c;
                sincospif(turn, &s, &c);
                row[0] = t * c / 21.f;
                row[1] = t * s / 21.f;
            }
            dim = 2;
        } else if (map == 9 || map == 10) {  // spiral: rotates two components by |v|^2 / d
            float square = 0.f;
            for (int k = lane; k < dim; k += 32) square += row[k] * row[k];
            for (int step = 16; step > 0; step /= 2) square += __shfl_xor_sync(~0u, square, step);
            if (lane == 0) {
                float *a = row + (map - 9), *b = a + 1, s, c;
                sincosf(square / dim, &s, &c);
                float x = *a, y = *b;
                *a = c * x - s * y;
                *b = s * x + c * y;
            }
        } else {
            for (int k = lane; k < dim; k += 32) row[k] = mapped(map, row[k]);
        }
        __syncwarp();
    }
}

// Gamma(shape) by the method of Marsaglia and Tsang, with random numbers of the row.
__device__ inline float gamma(float shape, u64 seed, u32 step, u32 row) {
    float boost = 1.f;
    u32 draw = 0;
    if (shape < 1.f) {
        Random4 r = philox(seed, FOR_ROW, step, row, draw++);
        boost = powf(open_unit(r.v[0]), 1.f / shape);
        shape += 1.f;
    }
    float d = shape - 1.f / 3.f, c = rsqrtf(9.f * d);
    for (;; ++draw) {
        Random4 r = philox(seed, FOR_ROW, step, row, draw);
        float z = normals(r.v[0], r.v[1]).x, v = 1.f + c * z;
        if (v <= 0.f) continue;
        v = v * v * v;
        float u = open_unit(r.v[2]);
        if (logf(u) < 0.5f * z * z + d - d * v + d * logf(v)) return boost * d * v;
    }
}

// One warp for each row.
extern "C" __global__ void sample(const __grid_constant__ SampleTask t) {
    begin();
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32, run = blockIdx.z;
    if (row >= t.n) return;
    const ScenarioSpec& spec = t.specs[run];
    u64 iteration = *t.base + t.step;
    u32 step = (u32)iteration;
    int level = min((int)(iteration / t.per_level), t.level_count - 1);
    float4 p = t.levels[run * t.level_count + level];
    float* x = t.x.of(run) + (u64)row * t.ld_x;
    float* y = t.y.of(run) + (u64)row * t.ld_y;
    float common = 0.f;
    if (spec.base == STUDENT) {
        if (lane == 0) common = rsqrtf(2.f * gamma(0.5f * p.x, spec.seed, step, row) / p.x);
        common = __shfl_sync(~0u, common, 0);
    } else if (spec.base == DENSE) {
        Random4 r = philox(spec.seed, FOR_ROW, step, row, 0);
        common = normals(r.v[0], r.v[1]).x;
    }
    for (int k = lane; k < spec.dim; k += 32) {
        Random4 r = philox(spec.seed, FOR_DATA, step, row, k);
        float a, b;
        if (spec.base == UNIFORM) {
            a = open_unit(r.v[0]);
            b = a + p.x * (2.f * open_unit(r.v[1]) - 1.f);
        } else {
            float2 z = normals(r.v[0], r.v[1]);
            a = z.x;
            b = z.y;
            if (spec.base == GAUSSIAN && k < spec.pairs) b = p.z * (p.x * a + p.y * b);
            if (spec.base == STUDENT) { a *= common; b *= common; }
            if (spec.base == DENSE) { a = p.x * common + p.y * a; b = p.x * common + p.y * b; }
        }
        x[k] = a;
        y[k] = b;
    }
    __syncwarp();
    apply_maps(spec.x_map, spec.x_maps, x, spec.dim);
    apply_maps(spec.y_map, spec.y_maps, y, spec.dim);
}

// A warp writes a row of x and y: the value of each of the run's columns, and 0 where there is none.
template <class Task, class Value>
__device__ inline void select_row(const Task& t, int row, int run, Value value) {
    float* x = t.x.of(run) + (u64)row * t.ld_x;
    float* y = t.y.of(run) + (u64)row * t.ld_y;
    const int* columns = t.columns + (u64)run * (t.x_dim + t.y_dim);
    for (int k = threadIdx.x % 32; k < t.x_dim + t.y_dim; k += 32) {
        float selected = columns[k] < 0 ? 0.f : value(columns[k]);
        if (k < t.x_dim) x[k] = selected; else y[k - t.x_dim] = selected;
    }
}

// The inputs of a chain's term: columns of the samples, and zeros up to the program's dimensions.
struct SelectTask {
    Buffer all_x, all_y, x, y;
    const int* columns;     // runs x (x_dim + y_dim): columns of x and then y; -1 for a zero
    int n, all_x_dim, all_ld_x, all_ld_y, x_dim, y_dim, ld_x, ld_y;
};

// One warp for each row.
extern "C" __global__ void select_columns(const __grid_constant__ SelectTask t) {
    begin();
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, run = blockIdx.z;
    if (row >= t.n) return;
    const float* all_x = t.all_x.of(run) + (u64)row * t.all_ld_x;
    const float* all_y = t.all_y.of(run) + (u64)row * t.all_ld_y;
    select_row(t, row, run, [&](int column) {
        return column < t.all_x_dim ? all_x[column] : all_y[column - t.all_x_dim];
    });
}

// Pixels of images that are drawn at random.
struct ImageTask {
    Buffer x, y;
    const ScenarioSpec* specs;
    const u64* base;
    const unsigned char* images;  // 255 stands for 1
    const int* columns;  // runs x (x_dim + y_dim): pixels of the first and second image; -1 for a zero
    u32 step;
    int n, count, pixels, x_dim, y_dim, ld_x, ld_y;
};

// One warp for each row.
extern "C" __global__ void draw_images(const __grid_constant__ ImageTask t) {
    begin();
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, run = blockIdx.z;
    if (row >= t.n) return;
    Random4 r = philox(t.specs[run].seed, FOR_DATA, (u32)(*t.base + t.step), row, 0);
    const unsigned char* first = t.images + ((u64)r.v[0] * t.count >> 32) * t.pixels;
    const unsigned char* second = t.images + ((u64)r.v[1] * t.count >> 32) * t.pixels;
    select_row(t, row, run, [&](int column) {
        return (column < t.pixels ? first[column] : second[column - t.pixels]) / 255.f;
    });
}

struct PartnerTask {
    u32* partner;           // steps x runs x 2 n: partners, then the inverse permutation
    const ScenarioSpec* specs;
    const u64* base;
    int n, runs, deranged, in_shared;
};

// One warp shuffles for one step of one run: Fisher-Yates from the back. For derangements it starts
// again at the first fixed point, which keeps them uniform. One launch covers all captured steps.
extern "C" __global__ void partners_of_steps(const __grid_constant__ PartnerTask t) {
    begin();
    u32* out = t.partner + (u64)blockIdx.x * 2 * t.n;
    int run = blockIdx.x % t.runs, lane = threadIdx.x;
    u32 step = (u32)(*t.base + blockIdx.x / t.runs);
    u64 seed = t.specs[run].seed;
    u32* table = t.in_shared ? reinterpret_cast<u32*>(dynamic_shared) : out;
    for (u32 attempt = 0;; ++attempt) {
        for (int i = lane; i < t.n; i += 32) table[i] = i;
        __syncwarp();
        bool fixed = false;
        for (int top = t.n - 1; top >= 0 && !fixed; top -= 32) {
            u32 i = top - lane;
            u32 random = philox(seed, FOR_PAIRING, step, i, attempt).v[0];
            u32 choice = top >= lane ? (u32)(((u64)random * (i + 1)) >> 32) : 0;
            for (int k = 0; k < 32 && top - k >= 0 && !fixed; ++k) {
                u32 at = top - k, j = __shfl_sync(~0u, choice, k);
                u32 a = table[at], b = table[j];
                __syncwarp();
                if (lane == 0) {
                    table[j] = a;
                    table[at] = b;
                }
                __syncwarp();
                fixed = t.deranged && b == at;
            }
        }
        if (!fixed) break;
        __syncwarp();
    }
    __syncwarp();
    for (int i = lane; i < t.n; i += 32) {
        u32 j = table[i];
        out[i] = j;
        out[t.n + j] = i;
    }
}
