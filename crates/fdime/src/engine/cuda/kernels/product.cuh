// Matrix products on the tensor cores. Operands are made on the way: read, put together from two
// halves of a layer, or derived from scores; so most of what a framework would write to memory
// and read again never exists.

// ---- one 16-deep multiply-add of a warp, in the precision asked for ----
// A lane holds four consecutive depths (k = 4 t .. 4 t + 3, t = lane % 4) of each row it owns. The
// instruction's own order of depths differs, but any order will do if both operands share it.

__device__ inline u32 tf32(float x) {
    u32 r;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(x));
    return r;
}
__device__ inline void mma_tf32(float (&c)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

#if PRECISION == 2
typedef uint2 Packed;
typedef uint2 Fragment;
__device__ inline u32 bf16_pair(float low, float high) {
    u32 r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
}
__device__ inline Packed pack(float a, float b, float c, float d) {
    return make_uint2(bf16_pair(a, b), bf16_pair(c, d));
}
__device__ inline Fragment fragment(Packed p) { return p; }
__device__ inline void multiply_add(float (&c)[4], Fragment a0, Fragment a1, Fragment b) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0.x), "r"(a1.x), "r"(a0.y), "r"(a1.y), "r"(b.x), "r"(b.y));
}
#elif PRECISION == 1
typedef uint4 Packed;
typedef uint4 Fragment;
__device__ inline Packed pack(float a, float b, float c, float d) {
    return make_uint4(tf32(a), tf32(b), tf32(c), tf32(d));
}
__device__ inline Fragment fragment(Packed p) { return p; }
__device__ inline void multiply_add(float (&c)[4], Fragment a0, Fragment a1, Fragment b) {
    mma_tf32(c, a0.x, a1.x, a0.y, a1.y, b.x, b.y);
    mma_tf32(c, a0.z, a1.z, a0.w, a1.w, b.z, b.w);
}
#else
// fp32 as two tf32 numbers, x = big + small to 2^-22: big big + big small + small big.
typedef uint4 Packed;
struct Fragment { uint4 big, small; };
__device__ inline Packed pack(float a, float b, float c, float d) {
    return make_uint4(__float_as_uint(a), __float_as_uint(b), __float_as_uint(c), __float_as_uint(d));
}
__device__ inline void split(u32 x, u32& big, u32& small) {
    big = tf32(__uint_as_float(x));
    small = tf32(__uint_as_float(x) - __uint_as_float(big));
}
__device__ inline Fragment fragment(Packed p) {
    Fragment f;
    split(p.x, f.big.x, f.small.x);
    split(p.y, f.big.y, f.small.y);
    split(p.z, f.big.z, f.small.z);
    split(p.w, f.big.w, f.small.w);
    return f;
}
__device__ inline void multiply_add_parts(float (&c)[4], uint4 a0, uint4 a1, uint4 b) {
    mma_tf32(c, a0.x, a1.x, a0.y, a1.y, b.x, b.y);
    mma_tf32(c, a0.z, a1.z, a0.w, a1.w, b.z, b.w);
}
__device__ inline void multiply_add(float (&c)[4], const Fragment& a0, const Fragment& a1, const Fragment& b) {
    multiply_add_parts(c, a0.small, a1.small, b.big);
    multiply_add_parts(c, a0.big, a1.big, b.small);
    multiply_add_parts(c, a0.big, a1.big, b.big);
}
#endif

// ---- tiles ----

// A block computes M x N numbers, each warp WM x WN of them, DEPTH x 16 deep at a time.
template <int WM_, int WN_, int ROWS_, int COLUMNS_, int DEPTH_> struct Tile {
    static const int WM = WM_, WN = WN_, ROWS = ROWS_, COLUMNS = COLUMNS_, DEPTH = DEPTH_;
    static const int M = WM * ROWS, N = WN * COLUMNS, K = 16 * DEPTH;
    static const int THREADS = 32 * ROWS * COLUMNS;
    static const int MT = WM / 16, NT = WN / 8;
    // 16 depths of a row are four packed numbers; an odd group between depths keeps stores of
    // neighbouring depths in different banks.
    static const int A_DEPTH = M * 4 + 4, B_DEPTH = N * 4 + 4;
    static const int STAGE = DEPTH * (A_DEPTH + B_DEPTH);
    static const int BYTES = 2 * STAGE * (int)sizeof(Packed);
};
#if PRECISION == 0
typedef Tile<64, 32, 2, 4, 1> Large;
#else
typedef Tile<64, 64, 2, 4, 1> Large;
#endif
typedef Tile<16, 32, 2, 2, 4> Small;

// ---- operands ----
// A source is a matrix, rows x columns, zero outside its bounds. A row is looked up once; four
// consecutive columns of it are fetched, and finished later, when they have arrived.

struct Matrix {
    const float* data;
    int rows, columns, ld;
    typedef const float* Row;
    typedef float4 Raw;
    __device__ Row row(int r) const { return r < rows ? data + (u64)r * ld : nullptr; }
    __device__ void rows4(int r, Row (&out)[4]) const {
#pragma unroll
        for (int k = 0; k < 4; ++k) out[k] = row(r + k);
    }
    __device__ Raw fetch(const Row& row, int column) const {
        return row && column < columns ? load4(row + column) : zero4();
    }
    __device__ float4 finish(const Raw& raw) const { return raw; }
    __device__ float4 weighted(const Raw& raw) const { return zero4(); }
};

// The first layer of a network over pairs: act(P_i + Q_j), never stored.
struct PairSum {
    const float *p, *q;
    int columns, ld;
    Pairs pairs;
    const u32* partner;
    struct Row { const float *p, *q; };
    struct Raw { float4 p, q; };
    __device__ Row row(int r) const {
        Row row = {nullptr, nullptr};
        if (r < pairs.rows) {
            Pair pair = locate(pairs, partner, r);
            row.p = p + (u64)pair.i * ld;
            row.q = q + (u64)pair.j * ld;
        }
        return row;
    }
    __device__ void rows4(int r, Row (&out)[4]) const {
        if (pairs.layout == ALL_PAIRS) {
            // Four rows of a group have the same x and consecutive ys.
            out[0] = row(r);
            int j = r < pairs.rows ? (int)((out[0].q - q) / ld) : 0;
#pragma unroll
            for (int k = 1; k < 4; ++k) {
                out[k].p = out[0].p;
                out[k].q = out[0].q ? q + (u64)min(j + k, pairs.n - 1) * ld : nullptr;
            }
        } else {
#pragma unroll
            for (int k = 0; k < 4; ++k) out[k] = row(r + k);
        }
    }
    __device__ Raw fetch(const Row& row, int column) const {
        Raw raw = {zero4(), zero4()};
        if (row.p && column < columns) {
            raw.p = load4(row.p + column);
            raw.q = load4(row.q + column);
        }
        return raw;
    }
    __device__ float4 finish(const Raw& raw) const {
        float4 z = raw.p + raw.q;
        return make_float4(activate(z.x), activate(z.y), activate(z.z), activate(z.w));
    }
    __device__ float4 weighted(const Raw& raw) const { return zero4(); }
};

// The gradient at the last hidden layer: dJ/ds w act'(a).
struct ScoreGradient {
    const float *gradient, *weights, *outputs;
    int rows, columns, ld;
    struct Row { const float* a; float g; };
    struct Raw { float4 a, w; float g; };
    __device__ Row row(int r) const {
        Row row = {nullptr, 0.f};
        if (r < rows) {
            row.a = outputs + (u64)r * ld;
            row.g = gradient[r];
        }
        return row;
    }
    __device__ void rows4(int r, Row (&out)[4]) const {
#pragma unroll
        for (int k = 0; k < 4; ++k) out[k] = row(r + k);
    }
    __device__ Raw fetch(const Row& row, int column) const {
        Raw raw = {zero4(), zero4(), row.g};
        if (row.a && column < columns) {
            raw.a = load4(row.a + column);
            raw.w = load4(weights + column);
        }
        return raw;
    }
    __device__ float4 finish(const Raw& r) const {
        return make_float4(r.g * r.w.x * slope_at_output(r.a.x), r.g * r.w.y * slope_at_output(r.a.y),
                           r.g * r.w.z * slope_at_output(r.a.z), r.g * r.w.w * slope_at_output(r.a.w));
    }
    // What the last layer's weights gather: dJ/ds a.
    __device__ float4 weighted(const Raw& r) const {
        return make_float4(r.g * r.a.x, r.g * r.a.y, r.g * r.a.z, r.g * r.a.w);
    }
};

// A sum of equally shaped matrices.
struct PartSum {
    const float* data;
    int rows, columns, ld, parts;
    u64 stride;
    typedef const float* Row;
    typedef float4 Raw;
    __device__ Row row(int r) const { return r < rows ? data + (u64)r * ld : nullptr; }
    __device__ void rows4(int r, Row (&out)[4]) const {
#pragma unroll
        for (int k = 0; k < 4; ++k) out[k] = row(r + k);
    }
    __device__ Raw fetch(const Row& row, int column) const {
        float4 sum = zero4();
        if (row && column < columns) {
#pragma unroll 4
            for (int part = 0; part < parts; ++part) sum = sum + load4(row + column + part * stride);
        }
        return sum;
    }
    __device__ float4 finish(const Raw& raw) const { return raw; }
    __device__ float4 weighted(const Raw& raw) const { return zero4(); }
};

// Sums over the depth of what passes through: bias gradients come from them.
struct ColumnSums { float4 plain, weighted; };

// A source on its way into shared memory as one operand of a tile. ALONG: its columns are the
// product's depth. Otherwise its rows are, and blocks of 4 x 4 are turned on the way.
template <class T, class Source, bool ALONG, int ROWS, int DEPTH_STRIDE> struct Operand {
    static const int PIECES = ALONG ? ROWS * 4 * T::DEPTH : ROWS * T::DEPTH;
    static const int UNITS = (PIECES + T::THREADS - 1) / T::THREADS;
    static const int EACH = ALONG ? 1 : 4;
    typename Source::Raw raw[UNITS * EACH];
    typename Source::Row rows[ALONG ? UNITS : 1];

    // Looks up the rows that stay the same over the whole depth.
    __device__ void begin(const Source& source, int first) {
        if constexpr (ALONG) {
#pragma unroll
            for (int unit = 0; unit < UNITS; ++unit) {
                int piece = threadIdx.x + unit * T::THREADS;
                if (PIECES % T::THREADS != 0 && piece >= PIECES) break;
                rows[unit] = source.row(first + piece / (4 * T::DEPTH));
            }
        }
    }

    __device__ void fetch(const Source& source, int first, int depth) {
#pragma unroll
        for (int unit = 0; unit < UNITS; ++unit) {
            int piece = threadIdx.x + unit * T::THREADS;
            if (PIECES % T::THREADS != 0 && piece >= PIECES) break;
            if constexpr (ALONG) {
                raw[unit] = source.fetch(rows[unit], depth + 4 * (piece % (4 * T::DEPTH)));
            } else {
                int quarter = piece % 4, block = piece / 4 % (ROWS / 4), deep = piece / ROWS;
                typename Source::Row four[4];
                source.rows4(depth + 16 * deep + 4 * quarter, four);
#pragma unroll
                for (int k = 0; k < 4; ++k) raw[unit * 4 + k] = source.fetch(four[k], first + 4 * block);
            }
        }
    }

    template <bool SUMS> __device__ void store(const Source& source, Packed* shared, ColumnSums* sums) {
#pragma unroll
        for (int unit = 0; unit < UNITS; ++unit) {
            int piece = threadIdx.x + unit * T::THREADS;
            if (PIECES % T::THREADS != 0 && piece >= PIECES) break;
            if constexpr (ALONG) {
                int quarter = piece % 4, deep = piece / 4 % T::DEPTH, row = piece / (4 * T::DEPTH);
                float4 v = source.finish(raw[unit]);
                shared[deep * DEPTH_STRIDE + row * 4 + quarter] = pack(v.x, v.y, v.z, v.w);
            } else {
                int quarter = piece % 4, block = piece / 4 % (ROWS / 4), deep = piece / ROWS;
                // Odd blocks store their rows in another order: together with an even one they
                // then fill all banks.
                bool odd = block & 1;
                float4 v[4];
#pragma unroll
                for (int k = 0; k < 4; ++k) {
                    float4 f = source.finish(raw[unit * 4 + k]);
                    if constexpr (SUMS) {
                        sums[unit].plain = sums[unit].plain + f;
                        sums[unit].weighted = sums[unit].weighted + source.weighted(raw[unit * 4 + k]);
                    }
                    v[k] = odd ? make_float4(f.y, f.x, f.w, f.z) : f;
                }
                Packed* to = shared + deep * DEPTH_STRIDE + block * 16 + quarter;
                int turn = odd ? 4 : 0;
                to[0 ^ turn] = pack(v[0].x, v[1].x, v[2].x, v[3].x);
                to[4 ^ turn] = pack(v[0].y, v[1].y, v[2].y, v[3].y);
                to[8 + (0 ^ turn)] = pack(v[0].z, v[1].z, v[2].z, v[3].z);
                to[8 + (4 ^ turn)] = pack(v[0].w, v[1].w, v[2].w, v[3].w);
            }
        }
    }
};

template <class T> struct Accumulators { float c[T::MT][T::NT][4]; };

extern __shared__ uint4 dynamic_shared[];

// c = A B^T over depths from..to, with A's rows from m0 and B's from n0 on.
template <class T, bool A_ALONG, bool B_ALONG, bool SUMS, class A, class B>
__device__ void product(const A& a, const B& b, int m0, int n0, int from, int to,
                        Accumulators<T>& acc, ColumnSums* sums) {
    typedef Operand<T, A, A_ALONG, T::M, T::A_DEPTH> OperandA;
    typedef Operand<T, B, B_ALONG, T::N, T::B_DEPTH> OperandB;
    Packed* shared = reinterpret_cast<Packed*>(dynamic_shared);
    OperandA next_a;
    OperandB next_b;
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    int g = lane >> 2, t = lane & 3;
    int warp_row = (warp / T::COLUMNS) * T::WM, warp_column = (warp % T::COLUMNS) * T::WN;
#pragma unroll
    for (int m = 0; m < T::MT; ++m)
#pragma unroll
        for (int n = 0; n < T::NT; ++n)
#pragma unroll
            for (int e = 0; e < 4; ++e) acc.c[m][n][e] = 0.f;

    next_a.begin(a, m0);
    next_b.begin(b, n0);
    next_a.fetch(a, m0, from);
    next_b.fetch(b, n0, from);
    next_a.template store<false>(a, shared, nullptr);
    next_b.template store<SUMS>(b, shared + T::DEPTH * T::A_DEPTH, sums);
    __syncthreads();
    int stage = 0;
    for (int depth = from; depth < to; depth += T::K) {
        bool more = depth + T::K < to;
        if (more) {
            next_a.fetch(a, m0, depth + T::K);
            next_b.fetch(b, n0, depth + T::K);
        }
        const Packed* tile_a = shared + stage * T::STAGE;
        const Packed* tile_b = tile_a + T::DEPTH * T::A_DEPTH;
#pragma unroll
        for (int deep = 0; deep < T::DEPTH; ++deep) {
            Fragment fa[T::MT][2];
#pragma unroll
            for (int m = 0; m < T::MT; ++m) {
                const Packed* row = tile_a + deep * T::A_DEPTH + (warp_row + m * 16 + g) * 4 + t;
                fa[m][0] = fragment(row[0]);
                fa[m][1] = fragment(row[32]);
            }
#pragma unroll
            for (int n = 0; n < T::NT; ++n) {
                Fragment fb = fragment(tile_b[deep * T::B_DEPTH + (warp_column + n * 8 + g) * 4 + t]);
#pragma unroll
                for (int m = 0; m < T::MT; ++m) multiply_add(acc.c[m][n], fa[m][0], fa[m][1], fb);
            }
        }
        if (more) {
            stage ^= 1;
            next_a.template store<false>(a, shared + stage * T::STAGE, nullptr);
            next_b.template store<SUMS>(b, shared + stage * T::STAGE + T::DEPTH * T::A_DEPTH, sums);
        }
        __syncthreads();
    }
}

// Calls f(row, column, c0, c1): two neighbouring columns of a row of the tile, counted from its
// corner.
template <class T, class F> __device__ void for_each_pair(const Accumulators<T>& acc, F f) {
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    int row = (warp / T::COLUMNS) * T::WM + (lane >> 2);
    int column = (warp % T::COLUMNS) * T::WN + 2 * (lane & 3);
#pragma unroll
    for (int m = 0; m < T::MT; ++m)
#pragma unroll
        for (int n = 0; n < T::NT; ++n) {
            f(row + 16 * m, column + 8 * n, acc.c[m][n][0], acc.c[m][n][1]);
            f(row + 16 * m + 8, column + 8 * n, acc.c[m][n][2], acc.c[m][n][3]);
        }
}
