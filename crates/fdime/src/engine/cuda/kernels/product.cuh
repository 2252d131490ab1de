// Matrix products on the tensor cores. Operands are computed while they are loaded: read as they
// are, added from two halves of a layer, or derived from scores. So most intermediate results that
// a framework would write to memory and read again are never stored.

// ---- one 16-deep multiply-add of a warp, in the selected precision ----
// A lane holds four consecutive depths (k = 4 t .. 4 t + 3, t = lane % 4) of two adjacent rows of A
// and one row of B. The instruction numbers depths and rows in another order, but any order is
// correct as long as both operands and the use of the result agree on it.

__device__ inline void mma_tf32(float (&c)[4], uint4 a, u32 b0, u32 b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}

// In shared memory, A has the layout of the instruction: STEPS x 32 lanes of 16 bytes for 16 rows.
// B consists of rows of four packed numbers.
#if PRECISION == 2
const int STEPS = 1;
typedef uint2 Packed;
__device__ inline u32 bf16_pair(float low, float high) {
    u32 r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
}
__device__ inline Packed pack(float a, float b, float c, float d) {
    return make_uint2(bf16_pair(a, b), bf16_pair(c, d));
}
__device__ inline void store_a(uint4* to, float4 even, float4 odd) {
    to[0] = make_uint4(bf16_pair(even.x, even.y), bf16_pair(odd.x, odd.y),
                       bf16_pair(even.z, even.w), bf16_pair(odd.z, odd.w));
}
struct FragmentA { uint4 a; };
typedef Packed FragmentB;
__device__ inline FragmentA fragment_a(const uint4* from) { return {from[0]}; }
__device__ inline FragmentB fragment_b(Packed p) { return p; }
__device__ inline void multiply_add(float (&c)[4], const FragmentA& a, const FragmentB& b) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a.a.x), "r"(a.a.y), "r"(a.a.z), "r"(a.a.w), "r"(b.x), "r"(b.y));
}
#else
const int STEPS = 2;
typedef uint4 Packed;
#if PRECISION == 1
__device__ inline u32 number(float x) { return tf32(x); }
#else
__device__ inline u32 number(float x) { return __float_as_uint(x); }
#endif
__device__ inline Packed pack(float a, float b, float c, float d) {
    return make_uint4(number(a), number(b), number(c), number(d));
}
__device__ inline void store_a(uint4* to, float4 even, float4 odd) {
    to[0] = pack(even.x, odd.x, even.y, odd.y);
    to[32] = pack(even.z, odd.z, even.w, odd.w);
}
#if PRECISION == 1
struct FragmentA { uint4 step[2]; };
typedef Packed FragmentB;
__device__ inline FragmentA fragment_a(const uint4* from) { return {{from[0], from[32]}}; }
__device__ inline FragmentB fragment_b(Packed p) { return p; }
__device__ inline void multiply_add(float (&c)[4], const FragmentA& a, const FragmentB& b) {
    mma_tf32(c, a.step[0], b.x, b.y);
    mma_tf32(c, a.step[1], b.z, b.w);
}
#else
// fp32 as two tf32 numbers, x = big + small to 2^-22: big big + big small + small big.
struct Split { uint4 big, small; };
__device__ inline void split(u32 x, u32& big, u32& small) {
    big = tf32(__uint_as_float(x)) & 0xffffe000u;
    small = tf32(__uint_as_float(x) - __uint_as_float(big));
}
__device__ inline Split split(uint4 p) {
    Split f;
    split(p.x, f.big.x, f.small.x);
    split(p.y, f.big.y, f.small.y);
    split(p.z, f.big.z, f.small.z);
    split(p.w, f.big.w, f.small.w);
    return f;
}
struct FragmentA { Split step[2]; };
typedef Split FragmentB;
__device__ inline FragmentA fragment_a(const uint4* from) { return {{split(from[0]), split(from[32])}}; }
__device__ inline FragmentB fragment_b(Packed p) { return split(p); }
// The tensor cores truncate when they add, and over thousands of depths the error would grow. So
// they add 16 depths at a time, and ordinary additions, which round to nearest, add these sums.
__device__ inline void multiply_add(float (&c)[4], const FragmentA& a, const FragmentB& b) {
    float sum[4] = {0.f, 0.f, 0.f, 0.f};
    mma_tf32(sum, a.step[0].small, b.big.x, b.big.y);
    mma_tf32(sum, a.step[1].small, b.big.z, b.big.w);
    mma_tf32(sum, a.step[0].big, b.small.x, b.small.y);
    mma_tf32(sum, a.step[1].big, b.small.z, b.small.w);
    mma_tf32(sum, a.step[0].big, b.big.x, b.big.y);
    mma_tf32(sum, a.step[1].big, b.big.z, b.big.w);
#pragma unroll
    for (int e = 0; e < 4; ++e) c[e] += sum[e];
}
#endif
#endif

// ---- tiles ----

// A thread block computes M x N numbers, each warp WM x WN of them, in steps of 16 DEPTH depths.
template <int WM_, int WN_, int ROWS_, int COLUMNS_, int DEPTH_> struct Tile {
    static const int WM = WM_, WN = WN_, ROWS = ROWS_, COLUMNS = COLUMNS_, DEPTH = DEPTH_;
    static const int M = WM * ROWS, N = WN * COLUMNS, K = 16 * DEPTH;
    static const int THREADS = 32 * ROWS * COLUMNS;
    static const int MT = WM / 16, NT = WN / 8;
    // Bytes of 16 depths; 64 more keep stores of adjacent depths in different banks.
    static const int A_DEPTH = M * 32 * STEPS + 64, B_DEPTH = N * 32 * STEPS + 64;
    static const int STAGE = DEPTH * (A_DEPTH + B_DEPTH);
};
#if PRECISION == 0
typedef Tile<64, 32, 2, 4, 1> Large;
#elif WGMMA
// Two groups of four warps, each 64 rows of all columns (wgmma.cuh).
typedef Tile<16, 256, 8, 1, 1> Large;
#else
typedef Tile<64, 64, 2, 4, 1> Large;
#endif
typedef Tile<16, 32, 2, 2, 4> Small;

// ---- operands ----
// A source is a matrix. `fetch` starts to load four consecutive columns, of a single row that was
// looked up before or of four rows STRIDE apart, or two columns of four consecutive rows; `finish`
// computes the values after they have arrived. ZERO: rows from `limit` on are zero; otherwise they
// are any finite numbers.

__device__ inline const float* at(const float* data, int row, int ld) {
    return (const float*)((const char*)data + (u64)(u32)row * (u32)(4 * ld));
}

struct Matrix {
    const float* data;
    int ld;
    typedef const float* Row;
    typedef float4 One;
    struct Four { float4 v[4]; };
    __device__ Row row(int r) const { return at(data, r, ld); }
    __device__ One fetch(const Row& row, int column) const { return load4(row + column); }
    __device__ float4 finish(const One& one) const { return one; }
    template <bool ZERO, int STRIDE> __device__ Four fetch4(int r, int column, int limit) const {
        Four four;
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            int row = r + STRIDE * k;
            if (ZERO) four.v[k] = row < limit ? load4(at(data, row, ld) + column) : zero4();
            else four.v[k] = load4(at(data, min(row, limit - 1), ld) + column);
        }
        return four;
    }
    __device__ float4 finish(const Four& four, int k) const { return four.v[k]; }
    __device__ float4 weighted(const Four& four, int k) const { return zero4(); }
    struct Columns { float2 v[4]; };
    __device__ Columns fetch_columns(int r, int column, int limit) const {
        Columns columns;
#pragma unroll
        for (int k = 0; k < 4; ++k) columns.v[k] = load2(at(data, min(r + k, limit - 1), ld) + column);
        return columns;
    }
    __device__ float2 finish(const Columns& columns, int k) const { return columns.v[k]; }
};

// The first layer of a network over pairs: act(P_i + Q_j), never stored.
struct PairSum {
    const float *p, *q;
    int ld;
    Pairs pairs;
    const u32* partner;
    struct Row { const float *p, *q; };
    struct One { float4 p, q; };
    __device__ static float4 activated(float4 p, float4 q) {
        float4 z = p + q;
        return make_float4(activate(z.x), activate(z.y), activate(z.z), activate(z.w));
    }
    __device__ Row row(int r) const {
        Pair pair = locate(pairs, partner, r);
        return {at(p, pair.i, ld), at(q, pair.j, ld)};
    }
    __device__ One fetch(const Row& row, int column) const {
        return {load4(row.p + column), load4(row.q + column)};
    }
    __device__ float4 finish(const One& one) const { return activated(one.p, one.q); }
    // The xs and ys of four consecutive rows, the first of which is a multiple of 4: one x with
    // consecutive ys (all pairs), or two xs with two ys each.
    struct Places { int i[2], j[4]; };
    __device__ Places places(int r) const {
        Pair first = locate(pairs, partner, min(r, pairs.rows - 4));
        int last = pairs.n - 1;
        if (pairs.layout == ALL_PAIRS)
            return {{first.i, first.i}, {first.j, min(first.j + 1, last), min(first.j + 2, last), min(first.j + 3, last)}};
        int next = min(first.i + 1, last);
        return {{first.i, next}, {first.i, partner_of(pairs, partner, first.i), next, partner_of(pairs, partner, next)}};
    }
    // Vectors V of P's and Q's rows.
    template <class V> struct Rows { V p[2], q[4]; };
    typedef Rows<float4> Four;
    typedef Rows<float2> Columns;
    // Rows beyond the last are clamped to it.
    template <class V> __device__ Rows<V> fetch_rows(int r, int column) const {
        Places place = places(r);
        Rows<V> rows;
        rows.p[0] = load<V>(at(p, place.i[0], ld) + column);
        rows.p[1] = place.i[1] == place.i[0] ? rows.p[0] : load<V>(at(p, place.i[1], ld) + column);
#pragma unroll
        for (int k = 0; k < 4; ++k) rows.q[k] = load<V>(at(q, place.j[k], ld) + column);
        return rows;
    }
    template <bool ZERO, int STRIDE> __device__ Four fetch4(int r, int column, int limit) const {
        static_assert(STRIDE == 1, "consecutive rows");
        return fetch_rows<float4>(r, column);
    }
    __device__ float4 finish(const Four& four, int k) const { return activated(four.p[k / 2], four.q[k]); }
    __device__ float4 weighted(const Four& four, int k) const { return zero4(); }
    __device__ Columns fetch_columns(int r, int column, int limit) const { return fetch_rows<float2>(r, column); }
    __device__ float2 finish(const Columns& c, int k) const {
        return make_float2(activate(c.p[k / 2].x + c.q[k].x), activate(c.p[k / 2].y + c.q[k].y));
    }
};

// The gradient at the last hidden layer, dJ/ds w act'(a). Its rows are padded to a multiple of 16.
struct ScoreGradient {
    const float *gradient, *weights, *outputs;
    int ld;
    float scale;  // of dropout
    struct Row { const float* a; float g; };
    struct One { float4 a, w; float g; };
    struct Four { float4 a[4], w, g; };
    __device__ float4 product(float g, float4 w, float4 a) const {
        return make_float4(times_slope(g * w.x, a.x, scale), times_slope(g * w.y, a.y, scale),
                           times_slope(g * w.z, a.z, scale), times_slope(g * w.w, a.w, scale));
    }
    __device__ static float component(float4 v, int k) { return k == 0 ? v.x : k == 1 ? v.y : k == 2 ? v.z : v.w; }
    __device__ Row row(int r) const { return {at(outputs, r, ld), gradient[r]}; }
    __device__ One fetch(const Row& row, int column) const {
        return {load4(row.a + column), load4(weights + column), row.g};
    }
    __device__ float4 finish(const One& one) const { return product(one.g, one.w, one.a); }
    template <bool ZERO, int STRIDE> __device__ Four fetch4(int r, int column, int limit) const {
        bool inside = r < limit;
        int row = inside ? r : 0;
        const float* g = gradient + row;
        Four four;
        if (STRIDE == 1) four.g = load4(g);
        else four.g = make_float4(g[0], g[STRIDE], g[2 * STRIDE], g[3 * STRIDE]);
        if (!inside) four.g = zero4();
        four.w = load4(weights + column);
#pragma unroll
        for (int k = 0; k < 4; ++k) four.a[k] = load4(at(outputs, row + STRIDE * k, ld) + column);
        return four;
    }
    __device__ float4 finish(const Four& four, int k) const { return product(component(four.g, k), four.w, four.a[k]); }
    // The terms of the score weights' gradient: dJ/ds a.
    __device__ float4 weighted(const Four& four, int k) const {
        float g = component(four.g, k);
        float4 a = four.a[k];
        return make_float4(g * a.x, g * a.y, g * a.z, g * a.w);
    }
};

// The same for ReLUs, of which only a bit is stored: whether the output is positive, 32 columns in
// a word. Loaded along its columns it is dJ/ds w or 0. Loaded across them it is dJ/ds or 0, and the
// user of the sum over all rows multiplies by w.
struct MaskGradient {
    const float *gradient, *weights;
    const u32* on;
    int words;
    struct Row { const u32* on; float g; };
    struct One { float4 w; u32 bits; float g; };
    struct Four { float g[4]; u32 bits[4]; };
    __device__ static float4 chosen(u32 bits, float4 v) {
        return make_float4(bits & 1 ? v.x : 0.f, bits & 2 ? v.y : 0.f, bits & 4 ? v.z : 0.f, bits & 8 ? v.w : 0.f);
    }
    __device__ Row row(int r) const { return {on + (u64)r * words, gradient[r]}; }
    __device__ One fetch(const Row& row, int column) const {
        return {load4(weights + column), row.on[column >> 5] >> (column & 31), row.g};
    }
    __device__ float4 finish(const One& one) const {
        float4 w = one.w;
        return chosen(one.bits, make_float4(one.g * w.x, one.g * w.y, one.g * w.z, one.g * w.w));
    }
    template <bool ZERO, int STRIDE> __device__ Four fetch4(int r, int column, int limit) const {
        bool inside = r < limit;
        int row = inside ? r : 0;
        const u32* first = on + (u64)row * words + (column >> 5);
        Four four;
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            four.g[k] = gradient[row + STRIDE * k];
            four.bits[k] = inside ? first[STRIDE * k * words] >> (column & 31) : 0;
        }
        return four;
    }
    __device__ float4 finish(const Four& four, int k) const {
        float g = four.g[k];
        return chosen(four.bits[k], make_float4(g, g, g, g));
    }
    __device__ float4 weighted(const Four& four, int k) const { return zero4(); }
};
#if ACTIVATION == 0
typedef MaskGradient LastGradient;
#else
typedef ScoreGradient LastGradient;
#endif

// A sum of equally shaped matrices.
struct PartSum {
    const float* data;
    int ld, parts;
    u64 stride;
    // `finish` adds the first two parts, after they have arrived.
    struct Four { float4 first[4], second[4]; };
    template <bool ZERO, int STRIDE> __device__ Four fetch4(int r, int column, int limit) const {
        static_assert(STRIDE == 1, "consecutive rows");
        Four four;
        const float* from = data + column;
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            bool inside = r + k < limit;
            four.first[k] = inside ? load4(at(from, r + k, ld)) : zero4();
            four.second[k] = inside && parts > 1 ? load4(at(from + stride, r + k, ld)) : zero4();
        }
#pragma unroll 4
        for (int part = 2; part < parts; ++part) {
#pragma unroll
            for (int k = 0; k < 4; ++k)
                if (r + k < limit) four.first[k] = four.first[k] + load4(at(from + part * stride, r + k, ld));
        }
        return four;
    }
    __device__ float4 finish(const Four& four, int k) const { return four.first[k] + four.second[k]; }
    __device__ float4 weighted(const Four& four, int k) const { return zero4(); }
};

// Four columns of a row, rounded.
template <class Source> __device__ inline uint4 rounded(const Source& source, const typename Source::Four& four, int k) {
    float4 v = source.finish(four, k);
    return make_uint4(tf32(v.x), tf32(v.y), tf32(v.z), tf32(v.w));
}
// Rounds once, then selects by the bits.
__device__ inline uint4 rounded(const MaskGradient& source, const MaskGradient::Four& four, int k) {
    u32 g = tf32(four.g[k]), bits = four.bits[k];
    return make_uint4(bits & 1 ? g : 0, bits & 2 ? g : 0, bits & 4 ? g : 0, bits & 8 ? g : 0);
}

// Sums of the loaded values over the depth, for the bias gradients.
struct ColumnSums { float4 plain, weighted; };

// Moves a source into shared memory as one operand of a tile: A (IS_A) or B. ALONG: the source's
// columns are the depth of the product. Otherwise its rows are, and blocks of 4 x 4 are transposed.
// Beyond the last depth, B is zero and A is arbitrary; beyond the last row, both are arbitrary.
template <class T, class Source, bool IS_A, bool ALONG> struct Operand;

template <class T, class Source, bool IS_A> struct Operand<T, Source, IS_A, true> {
    static const int ROWS = IS_A ? T::M : T::N;
    static const int EACH = IS_A ? 2 : 1;
    static const int PIECES = ROWS * 4 * T::DEPTH / EACH;
    static const int UNITS = (PIECES + T::THREADS - 1) / T::THREADS;
    static_assert(PIECES % T::THREADS == 0, "no thread without work");
    typename Source::One raw[UNITS * EACH];
    typename Source::Row rows[UNITS * EACH];

    // Looks up the rows, which are the same for all depths.
    __device__ void begin(const Source& source, int first, int limit) {
#pragma unroll
        for (int unit = 0; unit < UNITS; ++unit) {
            int piece = threadIdx.x + unit * T::THREADS;
#pragma unroll
            for (int e = 0; e < EACH; ++e)
                rows[unit * EACH + e] = source.row(min(first + piece / (4 * T::DEPTH) * EACH + e, limit - 1));
        }
    }

    __device__ void fetch(const Source& source, int first, int limit, int depth, int depth_limit) {
        // `store` replaces B's numbers beyond the last depth by zeros.
        int column = min(depth + 4 * (int)(threadIdx.x % (4 * T::DEPTH)), depth_limit - 4);
#pragma unroll
        for (int k = 0; k < UNITS * EACH; ++k) raw[k] = source.fetch(rows[k], column);
    }

    template <bool SUMS>
    __device__ void store(const Source& source, char* shared, int depth, int depth_limit, ColumnSums* sums, bool summing) {
        int quarter = threadIdx.x % 4, deep = threadIdx.x / 4 % T::DEPTH;
        bool inside = IS_A || depth + 16 * deep + 4 * quarter < depth_limit;
#pragma unroll
        for (int unit = 0; unit < UNITS; ++unit) {
            int row = (threadIdx.x + unit * T::THREADS) / (4 * T::DEPTH);
            if constexpr (IS_A) {
                uint4* tile = reinterpret_cast<uint4*>(shared + deep * T::A_DEPTH) + (row / 8) * 32 * STEPS;
                store_a(tile + row % 8 * 4 + quarter, source.finish(raw[unit * 2]), source.finish(raw[unit * 2 + 1]));
            } else {
                float4 v = inside ? source.finish(raw[unit]) : zero4();
                reinterpret_cast<Packed*>(shared + deep * T::B_DEPTH)[row * 4 + quarter] = pack(v.x, v.y, v.z, v.w);
            }
        }
    }
};

template <class T, class Source, bool IS_A> struct Operand<T, Source, IS_A, false> {
    static const int ROWS = IS_A ? T::M : T::N;
    static const int PIECES = ROWS * T::DEPTH;
    static const int UNITS = (PIECES + T::THREADS - 1) / T::THREADS;
    typename Source::Four raw[UNITS];

    __device__ static bool none(int piece) { return PIECES % T::THREADS != 0 && piece >= PIECES; }

    __device__ void begin(const Source& source, int first, int limit) {}

    __device__ void fetch(const Source& source, int first, int limit, int depth, int depth_limit) {
#pragma unroll
        for (int unit = 0; unit < UNITS; ++unit) {
            int piece = threadIdx.x + unit * T::THREADS;
            if (none(piece)) break;
            int quarter = piece % 4, block = piece / 4 % (ROWS / 4), deep = piece / ROWS;
            int row = depth + 16 * deep + 4 * quarter, column = min(first + 4 * block, limit - 4);
            raw[unit] = source.template fetch4<!IS_A, 1>(row, column, depth_limit);
        }
    }

    template <bool SUMS>
    __device__ void store(const Source& source, char* shared, int depth, int depth_limit, ColumnSums* sums, bool summing) {
#pragma unroll
        for (int unit = 0; unit < UNITS; ++unit) {
            int piece = threadIdx.x + unit * T::THREADS;
            if (none(piece)) break;
            int quarter = piece % 4, block = piece / 4 % (ROWS / 4), deep = piece / ROWS;
            // Odd blocks store their rows in another order, so that an odd and an even block
            // together use all banks.
            bool odd = block & 1;
            float4 v[4];
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                v[k] = source.finish(raw[unit], k);
                if (SUMS && summing) {
                    sums[unit].plain = sums[unit].plain + v[k];
                    sums[unit].weighted = sums[unit].weighted + source.weighted(raw[unit], k);
                }
            }
            if constexpr (IS_A) {
                uint4* tile = reinterpret_cast<uint4*>(shared + deep * T::A_DEPTH) + (block / 4) * 32 * STEPS + block % 4 * 8 + quarter;
                float4 low_even = make_float4(v[0].x, v[1].x, v[2].x, v[3].x), low_odd = make_float4(v[0].y, v[1].y, v[2].y, v[3].y);
                float4 high_even = make_float4(v[0].z, v[1].z, v[2].z, v[3].z), high_odd = make_float4(v[0].w, v[1].w, v[2].w, v[3].w);
                store_a(tile + (odd ? 4 : 0), odd ? high_even : low_even, odd ? high_odd : low_odd);
                store_a(tile + (odd ? 0 : 4), odd ? low_even : high_even, odd ? low_odd : high_odd);
            } else {
                Packed* to = reinterpret_cast<Packed*>(shared + deep * T::B_DEPTH) + block * 16 + quarter;
                Packed x = pack(v[0].x, v[1].x, v[2].x, v[3].x), y = pack(v[0].y, v[1].y, v[2].y, v[3].y);
                Packed z = pack(v[0].z, v[1].z, v[2].z, v[3].z), w = pack(v[0].w, v[1].w, v[2].w, v[3].w);
                int turn = odd ? 4 : 0;
                to[turn] = odd ? y : x;
                to[4 - turn] = odd ? x : y;
                to[8 + turn] = odd ? w : z;
                to[12 - turn] = odd ? z : w;
            }
        }
    }
};

template <class T> struct Accumulators {
    float c[T::MT][T::NT][4];
    __device__ void clear() {
#pragma unroll
        for (int m = 0; m < T::MT; ++m)
#pragma unroll
            for (int n = 0; n < T::NT; ++n)
#pragma unroll
                for (int e = 0; e < 4; ++e) c[m][n][e] = 0.f;
    }
};

extern __shared__ uint4 dynamic_shared[];

// c += A B^T over depths from..to, for A's rows from m0 on and B's rows from n0 on. Limits that
// count columns of a source are multiples of 4.
template <class T, bool A_ALONG, bool B_ALONG, bool SUMS, class A, class B>
__device__ void product_by_warps(const A& a, const B& b, int m0, int m_limit, int n0, int n_limit,
                        int from, int to, int depth_limit, Accumulators<T>& acc, ColumnSums* sums, bool summing) {
    char* shared = reinterpret_cast<char*>(dynamic_shared);
    Operand<T, A, true, A_ALONG> next_a;
    Operand<T, B, false, B_ALONG> next_b;
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const int B_AT = T::DEPTH * T::A_DEPTH;
    int a_at = (warp / T::COLUMNS) * T::MT * 32 * STEPS + lane;
    int b_at = ((warp % T::COLUMNS) * T::WN + (lane >> 2)) * 4 + (lane & 3);
    next_a.begin(a, m0, m_limit);
    next_b.begin(b, n0, n_limit);
    next_a.fetch(a, m0, m_limit, from, depth_limit);
    next_b.fetch(b, n0, n_limit, from, depth_limit);
    next_a.template store<false>(a, shared, from, depth_limit, nullptr, false);
    next_b.template store<SUMS>(b, shared + B_AT, from, depth_limit, sums, summing);
    __syncthreads();
    int stage = 0;
    for (int depth = from; depth < to; depth += T::K) {
        bool more = depth + T::K < to;
        if (more) {
            next_a.fetch(a, m0, m_limit, depth + T::K, depth_limit);
            next_b.fetch(b, n0, n_limit, depth + T::K, depth_limit);
        }
        const char* tile = shared + stage * T::STAGE;
#pragma unroll
        for (int deep = 0; deep < T::DEPTH; ++deep) {
            const uint4* tile_a = reinterpret_cast<const uint4*>(tile + deep * T::A_DEPTH) + a_at;
            const Packed* tile_b = reinterpret_cast<const Packed*>(tile + B_AT + deep * T::B_DEPTH) + b_at;
            FragmentA fa[T::MT];
#pragma unroll
            for (int m = 0; m < T::MT; ++m) fa[m] = fragment_a(tile_a + m * 32 * STEPS);
#pragma unroll
            for (int n = 0; n < T::NT; ++n) {
                FragmentB fb = fragment_b(tile_b[n * 32]);
#pragma unroll
                for (int m = 0; m < T::MT; ++m) multiply_add(acc.c[m][n], fa[m], fb);
            }
        }
        if (more) {
            stage ^= 1;
            char* next = shared + stage * T::STAGE;
            next_a.template store<false>(a, next, depth + T::K, depth_limit, nullptr, false);
            next_b.template store<SUMS>(b, next + B_AT, depth + T::K, depth_limit, sums, summing);
        }
        __syncthreads();
    }
}

// The position of a lane's results in the tile: rows first_row() + 16 m and the next one, columns
// first_column() + 8 n and the next one.
template <class T> __device__ int first_row() {
    return (threadIdx.x >> 5) / T::COLUMNS * T::WM + 2 * ((threadIdx.x & 31) >> 2);
}
template <class T> __device__ int first_column() {
    return (threadIdx.x >> 5) % T::COLUMNS * T::WN + 2 * (threadIdx.x & 3);
}

// Calls f(row, column, c0, c1) for each two adjacent columns of a row, counted from the tile's
// corner.
template <class T, class F> __device__ void for_each_pair(const Accumulators<T>& acc, F f) {
    int row = first_row<T>(), column = first_column<T>();
#pragma unroll
    for (int m = 0; m < T::MT; ++m)
#pragma unroll
        for (int n = 0; n < T::NT; ++n) {
            f(row + 16 * m, column + 8 * n, acc.c[m][n][0], acc.c[m][n][1]);
            f(row + 16 * m + 1, column + 8 * n, acc.c[m][n][2], acc.c[m][n][3]);
        }
}

__device__ inline float2 received(float2 v, int step) {
    return make_float2(__shfl_xor_sync(~0u, v.x, step), __shfl_xor_sync(~0u, v.y, step));
}

// Adds the values of the eight lanes of a column. As long as a lane has several values, it sends
// half of them to its partner and keeps the other half: in the end lane e of the eight has the sums
// from e N / 8 on, or 8 / N lanes have the same sum.
template <int N, int LEFT = N, int STEP = 16> __device__ inline void add_over_lanes(float2 (&v)[N]) {
    if constexpr (STEP >= 4) {
        const int HALF = LEFT / 2;
        if constexpr (LEFT > 1) {
            bool upper = threadIdx.x & STEP;
#pragma unroll
            for (int k = 0; k < HALF; ++k) {
                float2 other = received(upper ? v[k] : v[k + HALF], STEP), own = upper ? v[k + HALF] : v[k];
                v[k] = make_float2(own.x + other.x, own.y + other.y);
            }
            add_over_lanes<N, HALF, STEP / 2>(v);
        } else {
            float2 other = received(v[0], STEP);
            v[0] = make_float2(v[0].x + other.x, v[0].y + other.y);
            add_over_lanes<N, 1, STEP / 2>(v);
        }
    }
}

// Adds the values v[n] of columns 8 n and 8 n + 1 over the eight lanes that share these columns,
// and calls f(8 n, sum) on one of the lanes.
template <int N, class F> __device__ void sum_columns(float2 (&v)[N], F f) {
    const int EACH = N >= 8 ? N / 8 : 1, SHARE = N >= 8 ? 1 : 8 / N;
    int eighth = (threadIdx.x & 31) >> 2;
    add_over_lanes(v);
#pragma unroll
    for (int k = 0; k < EACH; ++k)
        if (eighth % SHARE == 0) f(8 * (eighth / SHARE * EACH + k), v[k]);
}
