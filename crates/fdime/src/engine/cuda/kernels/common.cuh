// Definitions for all kernels. Compiled at run time with
//   PRECISION   0: fp32, 1: tf32, 2: bf16
//   ACTIVATION  0: relu, 1: elu, 2: softplus
// abi.rs mirrors the structures that host and device share, field by field.

typedef unsigned int u32;
typedef unsigned long long u64;

// An array of numbers for every run, `stride` numbers apart.
struct Buffer {
    float* data;
    u64 stride;
    __device__ float* of(int run) const { return data ? data + stride * run : nullptr; }
};

// Every kernel begins with this. A kernel may start while the previous one still runs, so it waits
// for the end of that one before it reads or writes, and then lets the next kernel start.
__device__ inline void begin() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// ---- stable elementary functions (numerics.rs) ----

__device__ inline float softplus(float x) {
    float tail = log1pf(expf(-fabsf(x)));
    return x > 0.f ? x + tail : tail;
}
__device__ inline float sigmoid(float x) {
    float tail = expf(-fabsf(x));
    return (x > 0.f ? 1.f : tail) / (1.f + tail);
}
// ln softplus(x), which tends to x for x -> -inf
__device__ inline float ln_softplus(float x) {
    return x < -12.f ? x - 0.5f * expf(x) : logf(softplus(x));
}
__device__ inline float ln_softplus_slope(float x) {
    return x < -12.f ? 1.f - 0.5f * expf(x) : sigmoid(x) / softplus(x);
}
__device__ inline double log_add_exp(double x, double y) {
    double low = fmin(x, y), high = fmax(x, y);
    return isinf(low) ? high : high + log1p(exp(low - high));
}

// ---- activations; they keep NaN, so that a diverged run does not look like a result ----

__device__ inline float activate(float z) {
#if ACTIVATION == 0
    float a;
    asm("max.NaN.f32 %0, %1, 0f00000000;" : "=f"(a) : "f"(z));
    return a;
#elif ACTIVATION == 1
    return z < 0.f ? expm1f(z) : z;
#else
    return softplus(z);
#endif
}
// The slope as a function of the output.
__device__ inline float slope_at_output(float a) {
#if ACTIVATION == 0
    return a > 0.f ? 1.f : 0.f;
#elif ACTIVATION == 1
    return a < 0.f ? a + 1.f : 1.f;
#else
    return -expm1f(-a);
#endif
}

// v times the slope at output a.
__device__ inline float times_slope(float v, float a) {
#if ACTIVATION == 0
    return a > 0.f ? v : 0.f;
#else
    return v * slope_at_output(a);
#endif
}

// The same after dropout: kept outputs were multiplied by `scale` and all others are 0. A scale of
// 0 means no dropout.
__device__ inline float times_slope(float v, float a, float scale) {
    if (scale == 0.f) return times_slope(v, a);
    return a == 0.f ? 0.f : scale * times_slope(v, a / scale);
}

__device__ inline float infinity() { return __int_as_float(0x7f800000); }
__device__ inline float4 zero4() { return make_float4(0.f, 0.f, 0.f, 0.f); }
template <class V> __device__ inline V load(const float* p) { return *reinterpret_cast<const V*>(p); }
__device__ inline float4 load4(const float* p) { return load<float4>(p); }
__device__ inline float2 load2(const float* p) { return load<float2>(p); }
__device__ inline float4 operator+(float4 a, float4 b) {
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

// ---- random numbers: Philox 4x32-10, a function of key and counter ----

struct Random4 { u32 v[4]; };

__device__ inline Random4 philox(u64 seed, u32 purpose, u32 step, u32 index, u32 sub) {
    u32 k0 = (u32)seed, k1 = (u32)(seed >> 32);
    u32 c0 = index, c1 = sub, c2 = step, c3 = purpose;
#pragma unroll
    for (int round = 0; round < 10; ++round) {
        u32 h0 = __umulhi(0xD2511F53u, c0), l0 = 0xD2511F53u * c0;
        u32 h1 = __umulhi(0xCD9E8D57u, c2), l1 = 0xCD9E8D57u * c2;
        c0 = h1 ^ c1 ^ k0;
        c1 = l1;
        c2 = h0 ^ c3 ^ k1;
        c3 = l0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    Random4 r = {{c0, c1, c2, c3}};
    return r;
}
// Mixes the bits of a number.
__device__ inline u32 mixed(u32 v) {
    v ^= v >> 16;
    v *= 0x7feb352du;
    v ^= v >> 15;
    v *= 0x846ca68bu;
    return v ^ v >> 16;
}
// Uniform in (0, 1), never 0 or 1.
__device__ inline float open_unit(u32 v) { return ((v >> 8) + 0.5f) * 5.9604645e-8f; }
// Two normals by Box-Muller; the radius keeps all 32 bits, so that tails reach 6.6.
__device__ inline float2 normals(u32 a, u32 b) {
    float radius = sqrtf(-2.f * logf(((float)a + 0.5f) * 2.3283064e-10f));
    float s, c;
    sincospif(2.f * open_unit(b), &s, &c);
    return make_float2(radius * c, radius * s);
}

// What a number is drawn for.
enum { FOR_DATA = 1, FOR_PAIRING = 2, FOR_ROW = 3, FOR_EPOCH = 4, FOR_DROPOUT = 5 };

const int MAX_MAPS = 8;

// The scenario of a run, if it has one, and its seed.
struct ScenarioSpec {
    u64 seed;
    int base, dim;
    int pairs;              // correlated components (Gaussian)
    int x_maps, y_maps;
    int x_map[MAX_MAPS], y_map[MAX_MAPS];
    int padding;
};

// Sets a share of a layer's outputs to zero and multiplies the others by `scale`.
struct Dropout {
    const ScenarioSpec* specs;
    const u64* base;
    u32 step, layer;
    u32 dropped;  // of 256 outputs
    float scale;  // 0: no dropout

    __device__ Random4 key(int run) const { return philox(specs[run].seed, FOR_DROPOUT, (u32)(*base + step), layer, 0); }
    // Four random bytes for a block of 2 x 2 outputs.
    __device__ static u32 bytes(const Random4& key, u32 row, u32 column) {
        return mixed(mixed(row / 2 ^ key.v[0]) + (column / 2 ^ key.v[1]));
    }
    __device__ float apply(float a, u32 byte) const { return (byte & 0xff) < dropped ? 0.f : a * scale; }
};

// ---- pairs of an x and a y ----

enum { ALL_PAIRS = 0, PAIRED = 1, MATRIX = 2 };

// Rows of pairs form groups of 16. All pairs: a group is one x with 16 ys, and a tile of
// 2^block_bits groups is a block of xs with the same 16 ys, so that one thread block computes both
// sums over a tile: over ys for each x and over xs for each y. Paired: a group is 8 xs, each with
// its own y and then with its partner's. Matrix: one row of all ys for each x.
struct Pairs {
    int layout;
    int n;
    int block_bits;  // a tile has 2^block_bits groups
    int tiles;   // tiles of ys (all pairs); padded row length (matrix)
    int rows;    // number of pairs, including padding
    u32 magic;   // 2^32 / tiles, rounded up, to divide by tiles
    int shift;   // 1: partner(i) = i + 1 mod n, without a table
    const u32* partner;  // partners of this step in all runs; null: no table
    u64 partner_stride;
};

struct Pair { int i, j; bool joint, valid; };

__device__ inline int divided_by_tiles(const Pairs& p, int v) {
    int q = p.tiles == 1 ? v : (int)__umulhi((u32)v, p.magic);
    return q * p.tiles > v ? q - 1 : q;
}
__device__ inline int partner_of(const Pairs& p, const u32* partner, int i) {
    return p.shift ? (i + 1 == p.n ? 0 : i + 1) : (int)partner[i];
}

__device__ inline Pair locate(const Pairs& p, const u32* partner, int r) {
    Pair pair;
    if (p.layout == ALL_PAIRS) {
        int group = r >> 4, tile = group >> p.block_bits;
        int i_tile = divided_by_tiles(p, tile);
        pair.i = (i_tile << p.block_bits) + (group & ((1 << p.block_bits) - 1));
        pair.j = (tile - i_tile * p.tiles) * 16 + (r & 15);
        pair.joint = pair.i == pair.j;
        pair.valid = pair.i < p.n && pair.j < p.n;
    } else if (p.layout == PAIRED) {
        pair.i = r >> 1;
        pair.valid = pair.i < p.n;
        pair.joint = (r & 1) == 0;
        pair.j = pair.joint || !pair.valid ? pair.i : partner_of(p, partner, pair.i);
    } else {
        pair.i = divided_by_tiles(p, r);
        pair.j = r - pair.i * p.tiles;
        pair.joint = pair.i == pair.j;
        pair.valid = pair.i < p.n && pair.j < p.n;
    }
    if (!pair.valid) {
        pair.i = min(pair.i, p.n - 1);
        pair.j = min(pair.j, p.n - 1);
    }
    return pair;
}

// The place of x_i and y_j among all pairs.
__device__ inline int place_of(const Pairs& p, int i, int j) {
    if (p.layout != ALL_PAIRS) return i * p.tiles + j;
    int tile = (i >> p.block_bits) * p.tiles + (j >> 4);
    return (((tile << p.block_bits) + (i & ((1 << p.block_bits) - 1))) << 4) + (j & 15);
}

// ---- weights in the layout of wgmma.cuh ----

// A stage is 16 depths of 256 rows of an operand. For each c, the depths 4 p + c (p = 0..3) of all
// rows are adjacent; they form a column of the instruction's matrices of 8 x 16 bytes. 32 bytes
// between the columns spread them over the banks. With this layout, a lane holds four consecutive
// depths of the other operand.
const int B_COLUMN = 256 * 16 + 32;
const int B_STAGE = 4 * B_COLUMN;

// Rounds to the 11 bits that the tensor cores use: they truncate, so half a unit is added.
__device__ inline u32 tf32(float x) { return __float_as_uint(x) + 0x1000u; }

// Stores the number at row n and depth k of `depths`.
__device__ inline void store_packed(float* packed, int n, int k, int depths, float value) {
    u64 block = (u64)(n / 256) * ((depths + 15) / 16) + k / 16;
    char* at = reinterpret_cast<char*>(packed) + block * B_STAGE + (k % 4) * B_COLUMN + (n % 256) * 16 + k % 16 / 4 * 4;
    *reinterpret_cast<u32*>(at) = tf32(value);
}
