// The same products with Hopper's `wgmma` instruction. Four warps issue it together, and it runs
// while they prepare the next operands: A is computed in registers, B is in shared memory.
#if WGMMA

__device__ inline u64 describe(const char* shared) {
    u64 address = (u64)__cvta_generic_to_shared(shared);
    return (address & 0x3ffff) >> 4 | (u64)(B_COLUMN >> 4) << 16 | (u64)(128 >> 4) << 32;
}

__device__ inline void wgmma(Accumulators<Large>& acc, uint4 a, u64 b) {
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p, 1, 0;"
        "wgmma.mma_async.sync.aligned.m64n256k8.f32.tf32.tf32 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, {%128, %129, %130, %131}, %132, p, 1, 1;}"
        : "+f"(acc.c[0][0][0]), "+f"(acc.c[0][0][1]), "+f"(acc.c[0][0][2]), "+f"(acc.c[0][0][3]), "+f"(acc.c[0][1][0]), "+f"(acc.c[0][1][1]), "+f"(acc.c[0][1][2]), "+f"(acc.c[0][1][3]), "+f"(acc.c[0][2][0]), "+f"(acc.c[0][2][1]), "+f"(acc.c[0][2][2]), "+f"(acc.c[0][2][3]), "+f"(acc.c[0][3][0]), "+f"(acc.c[0][3][1]), "+f"(acc.c[0][3][2]), "+f"(acc.c[0][3][3]), "+f"(acc.c[0][4][0]), "+f"(acc.c[0][4][1]), "+f"(acc.c[0][4][2]), "+f"(acc.c[0][4][3]), "+f"(acc.c[0][5][0]), "+f"(acc.c[0][5][1]), "+f"(acc.c[0][5][2]), "+f"(acc.c[0][5][3]), "+f"(acc.c[0][6][0]), "+f"(acc.c[0][6][1]), "+f"(acc.c[0][6][2]), "+f"(acc.c[0][6][3]), "+f"(acc.c[0][7][0]), "+f"(acc.c[0][7][1]), "+f"(acc.c[0][7][2]), "+f"(acc.c[0][7][3]), "+f"(acc.c[0][8][0]), "+f"(acc.c[0][8][1]), "+f"(acc.c[0][8][2]), "+f"(acc.c[0][8][3]), "+f"(acc.c[0][9][0]), "+f"(acc.c[0][9][1]), "+f"(acc.c[0][9][2]), "+f"(acc.c[0][9][3]), "+f"(acc.c[0][10][0]), "+f"(acc.c[0][10][1]), "+f"(acc.c[0][10][2]), "+f"(acc.c[0][10][3]), "+f"(acc.c[0][11][0]), "+f"(acc.c[0][11][1]), "+f"(acc.c[0][11][2]), "+f"(acc.c[0][11][3]), "+f"(acc.c[0][12][0]), "+f"(acc.c[0][12][1]), "+f"(acc.c[0][12][2]), "+f"(acc.c[0][12][3]), "+f"(acc.c[0][13][0]), "+f"(acc.c[0][13][1]), "+f"(acc.c[0][13][2]), "+f"(acc.c[0][13][3]), "+f"(acc.c[0][14][0]), "+f"(acc.c[0][14][1]), "+f"(acc.c[0][14][2]), "+f"(acc.c[0][14][3]), "+f"(acc.c[0][15][0]), "+f"(acc.c[0][15][1]), "+f"(acc.c[0][15][2]), "+f"(acc.c[0][15][3]), "+f"(acc.c[0][16][0]), "+f"(acc.c[0][16][1]), "+f"(acc.c[0][16][2]), "+f"(acc.c[0][16][3]), "+f"(acc.c[0][17][0]), "+f"(acc.c[0][17][1]), "+f"(acc.c[0][17][2]), "+f"(acc.c[0][17][3]), "+f"(acc.c[0][18][0]), "+f"(acc.c[0][18][1]), "+f"(acc.c[0][18][2]), "+f"(acc.c[0][18][3]), "+f"(acc.c[0][19][0]), "+f"(acc.c[0][19][1]), "+f"(acc.c[0][19][2]), "+f"(acc.c[0][19][3]), "+f"(acc.c[0][20][0]), "+f"(acc.c[0][20][1]), "+f"(acc.c[0][20][2]), "+f"(acc.c[0][20][3]), "+f"(acc.c[0][21][0]), "+f"(acc.c[0][21][1]), "+f"(acc.c[0][21][2]), "+f"(acc.c[0][21][3]), "+f"(acc.c[0][22][0]), "+f"(acc.c[0][22][1]), "+f"(acc.c[0][22][2]), "+f"(acc.c[0][22][3]), "+f"(acc.c[0][23][0]), "+f"(acc.c[0][23][1]), "+f"(acc.c[0][23][2]), "+f"(acc.c[0][23][3]), "+f"(acc.c[0][24][0]), "+f"(acc.c[0][24][1]), "+f"(acc.c[0][24][2]), "+f"(acc.c[0][24][3]), "+f"(acc.c[0][25][0]), "+f"(acc.c[0][25][1]), "+f"(acc.c[0][25][2]), "+f"(acc.c[0][25][3]), "+f"(acc.c[0][26][0]), "+f"(acc.c[0][26][1]), "+f"(acc.c[0][26][2]), "+f"(acc.c[0][26][3]), "+f"(acc.c[0][27][0]), "+f"(acc.c[0][27][1]), "+f"(acc.c[0][27][2]), "+f"(acc.c[0][27][3]), "+f"(acc.c[0][28][0]), "+f"(acc.c[0][28][1]), "+f"(acc.c[0][28][2]), "+f"(acc.c[0][28][3]), "+f"(acc.c[0][29][0]), "+f"(acc.c[0][29][1]), "+f"(acc.c[0][29][2]), "+f"(acc.c[0][29][3]), "+f"(acc.c[0][30][0]), "+f"(acc.c[0][30][1]), "+f"(acc.c[0][30][2]), "+f"(acc.c[0][30][3]), "+f"(acc.c[0][31][0]), "+f"(acc.c[0][31][1]), "+f"(acc.c[0][31][2]), "+f"(acc.c[0][31][3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b));
}

// Starts 16 depths and waits for the previous 16.
__device__ inline void multiply_depths(Accumulators<Large>& acc, const uint4 (&a)[2], const char* b) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    wgmma(acc, a[0], describe(b));
    wgmma(acc, a[1], describe(b + 2 * B_COLUMN));
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
}
// Waits for all depths of all groups. The accumulators hold the product only after this.
__device__ inline void wait_for_products(Accumulators<Large>& acc) {
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
    for (int n = 0; n < 32; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) asm volatile("" : "+f"(acc.c[0][n][e])::"memory");
    __syncthreads();
}

// A lane's part of 16 depths of A: two rows, four depths.
template <class Source, bool ALONG> struct WideA;

template <class Source> struct WideA<Source, true> {
    typename Source::Row rows[2];
    typename Source::One raw[2];
    int column;
    __device__ void begin(const Source& source, int first, int limit) {
        int row = first + 2 * (threadIdx.x / 4);
        rows[0] = source.row(min(row, limit - 1));
        rows[1] = source.row(min(row + 1, limit - 1));
        column = 4 * (threadIdx.x % 4);
    }
    __device__ void fetch(const Source& source, int depth, int depth_limit) {
        int at = min(depth + column, depth_limit - 4);
        raw[0] = source.fetch(rows[0], at);
        raw[1] = source.fetch(rows[1], at);
    }
    __device__ void finish(const Source& source, uint4 (&a)[2]) const {
        float4 even = source.finish(raw[0]), odd = source.finish(raw[1]);
        a[0] = pack(even.x, odd.x, even.y, odd.y);
        a[1] = pack(even.z, odd.z, even.w, odd.w);
    }
};

template <class Source> struct WideA<Source, false> {
    typename Source::Columns raw;
    int column;
    __device__ void begin(const Source& source, int first, int limit) {
        column = min(first + 2 * (int)(threadIdx.x / 4), limit - 2);
    }
    __device__ void fetch(const Source& source, int depth, int depth_limit) {
        raw = source.fetch_columns(depth + 4 * (threadIdx.x % 4), column, depth_limit);
    }
    __device__ void finish(const Source& source, uint4 (&a)[2]) const {
        float2 v[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) v[k] = source.finish(raw, k);
        a[0] = pack(v[0].x, v[0].y, v[1].x, v[1].y);
        a[1] = pack(v[2].x, v[2].y, v[3].x, v[3].y);
    }
};

// A thread's part of 16 depths of B, which it moves into shared memory.
template <class Source, bool ALONG> struct WideB;

template <class Source> struct WideB<Source, true> {
    typename Source::Row rows[4];
    typename Source::One raw[4];
    __device__ void begin(const Source& source, int first, int limit) {
#pragma unroll
        for (int k = 0; k < 4; ++k) rows[k] = source.row(min(first + (int)(threadIdx.x / 4) + 64 * k, limit - 1));
    }
    __device__ void fetch(const Source& source, int first, int limit, int depth, int depth_limit) {
        int column = min(depth + 4 * (int)(threadIdx.x % 4), depth_limit - 4);
#pragma unroll
        for (int k = 0; k < 4; ++k) raw[k] = source.fetch(rows[k], column);
    }
    template <bool SUMS>
    __device__ void store(const Source& source, char* shared, int depth, int depth_limit, ColumnSums* sums, bool summing) {
        int quarter = threadIdx.x % 4;
        bool inside = depth + 4 * quarter < depth_limit;
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            float4 v = inside ? source.finish(raw[k]) : zero4();
            u32* to = reinterpret_cast<u32*>(shared + (threadIdx.x / 4 + 64 * k) * 16 + 4 * quarter);
            to[0] = tf32(v.x);
            to[B_COLUMN / 4] = tf32(v.y);
            to[2 * B_COLUMN / 4] = tf32(v.z);
            to[3 * B_COLUMN / 4] = tf32(v.w);
        }
    }
};

template <class Source> struct WideB<Source, false> {
    typename Source::Four raw;
    __device__ void begin(const Source& source, int first, int limit) {}
    __device__ void fetch(const Source& source, int first, int limit, int depth, int depth_limit) {
        int column = min(first + 4 * (int)(threadIdx.x / 4), limit - 4);
        raw = source.template fetch4<true, 4>(depth + threadIdx.x % 4, column, depth_limit);
    }
    template <bool SUMS>
    __device__ void store(const Source& source, char* shared, int depth, int depth_limit, ColumnSums* sums, bool summing) {
        uint4 v[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            v[k] = rounded(source, raw, k);
            if (SUMS && summing) {
                sums->plain = sums->plain + source.finish(raw, k);
                sums->weighted = sums->weighted + source.weighted(raw, k);
            }
        }
        uint4 x = make_uint4(v[0].x, v[1].x, v[2].x, v[3].x), y = make_uint4(v[0].y, v[1].y, v[2].y, v[3].y);
        uint4 z = make_uint4(v[0].z, v[1].z, v[2].z, v[3].z), w = make_uint4(v[0].w, v[1].w, v[2].w, v[3].w);
        // Odd blocks store their rows in another order, to spread over the banks.
        int block = threadIdx.x / 4;
        bool odd = block & 1;
        Packed* to = reinterpret_cast<Packed*>(shared + (threadIdx.x % 4) * B_COLUMN) + 4 * block;
        to[odd] = odd ? y : x;
        to[1 - odd] = odd ? x : y;
        to[2 + odd] = odd ? w : z;
        to[3 - odd] = odd ? z : w;
    }
};

template <bool A_ALONG, bool B_ALONG, bool SUMS, class A, class B>
__device__ void product_by_groups(const A& a, const B& b, int m0, int m_limit, int n0, int n_limit,
                                  int from, int to, int depth_limit, Accumulators<Large>& acc, ColumnSums* sums, bool summing) {
    char* shared = reinterpret_cast<char*>(dynamic_shared);
    // Fetched two steps ahead, since a step takes about as long as a load from memory.
    WideA<A, A_ALONG> next_a[2];
    WideB<B, B_ALONG> next_b[2];
    uint4 fragments[2][2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        next_a[half].begin(a, m0, m_limit);
        next_b[half].begin(b, n0, n_limit);
        next_a[half].fetch(a, from + 16 * half, depth_limit);
        next_b[half].fetch(b, n0, n_limit, from + 16 * half, depth_limit);
    }
    next_a[0].finish(a, fragments[0]);
    next_b[0].template store<SUMS>(b, shared, from, depth_limit, sums, summing);
    next_a[0].fetch(a, from + 32, depth_limit);
    next_b[0].fetch(b, n0, n_limit, from + 32, depth_limit);
    int stage = 0;
    // A stage is overwritten two steps after it was read. By then every group has passed a barrier
    // that comes after its last read of the stage.
    for (int depth = from; depth < to; depth += 32) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            int here = depth + 16 * half;
            if (here >= to) break;
            asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
            __syncthreads();
            multiply_depths(acc, fragments[half], shared + stage * B_STAGE);
            stage = stage == 2 ? 0 : stage + 1;
            if (here + 16 < to) {
                const int other = 1 - half;
                next_a[other].finish(a, fragments[other]);
                next_b[other].template store<SUMS>(b, shared + stage * B_STAGE, here + 16, depth_limit, sums, summing);
                next_a[other].fetch(a, here + 48, depth_limit);
                next_b[other].fetch(b, n0, n_limit, here + 48, depth_limit);
            }
        }
    }
    wait_for_products(acc);
}

// ---- B as weights that are stored in the layout of the instruction (store_packed) ----

__device__ inline u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }

// Starts to copy 16 depths of B and signals `barrier` when they have arrived.
__device__ inline void begin_copy(char* to, const char* from, u64* barrier) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(B_STAGE) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 ::"r"(shared_address(to)), "l"(from), "r"(B_STAGE), "r"(shared_address(barrier)) : "memory");
}
__device__ inline void wait_for(u64* barrier, u32 parity) {
    asm volatile(
        "{.reg .pred done;\n"
        "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;}" ::"r"(shared_address(barrier)), "r"(parity) : "memory");
}

// c += A W for packed weights W.
template <class A>
__device__ void product_by_packed(const A& a, const char* packed, int m0, int m_limit, int depth_limit, Accumulators<Large>& acc) {
    const int STAGES = 4;
    char* shared = reinterpret_cast<char*>(dynamic_shared);
    __shared__ u64 arrived[STAGES];
    int blocks = (depth_limit + 15) / 16;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s)
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&arrived[s])) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        for (int block = 0; block < min(blocks, STAGES - 1); ++block)
            begin_copy(shared + block * B_STAGE, packed + (u64)block * B_STAGE, &arrived[block]);
    }
    // Fetched two steps ahead, since a step takes about as long as a load from memory.
    WideA<A, true> next[2];
    uint4 fragments[2][2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        next[half].begin(a, m0, m_limit);
        next[half].fetch(a, 16 * half, depth_limit);
    }
    next[0].finish(a, fragments[0]);
    next[0].fetch(a, 32, depth_limit);
    __syncthreads();
    for (int pair = 0; pair < blocks; pair += 2) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            int block = pair + half, stage = block % STAGES;
            if (block >= blocks) break;
            wait_for(&arrived[stage], block / STAGES & 1);
            multiply_depths(acc, fragments[half], shared + stage * B_STAGE);
            const int other = 1 - half;
            if (block + 1 < blocks) {
                next[other].finish(a, fragments[other]);
                next[other].fetch(a, 16 * (block + 3), depth_limit);
            }
            // After the barrier no thread reads the previous stage any more.
            __syncthreads();
            int ahead = block + STAGES - 1;
            if (threadIdx.x == 0 && ahead < blocks)
                begin_copy(shared + ahead % STAGES * B_STAGE, packed + (u64)ahead * B_STAGE, &arrived[ahead % STAGES]);
        }
    }
    wait_for_products(acc);
}
#endif

template <class T, bool A_ALONG, bool B_ALONG, bool SUMS, class A, class B>
__device__ void product(const A& a, const B& b, int m0, int m_limit, int n0, int n_limit,
                        int from, int to, int depth_limit, Accumulators<T>& acc, ColumnSums* sums, bool summing) {
#if WGMMA
    if constexpr (T::WN == 256) {
        product_by_groups<A_ALONG, B_ALONG, SUMS>(a, b, m0, m_limit, n0, n_limit, from, to, depth_limit, acc, sums, summing);
        return;
    } else
#endif
    product_by_warps<T, A_ALONG, B_ALONG, SUMS>(a, b, m0, m_limit, n0, n_limit, from, to, depth_limit, acc, sums, summing);
}

// c += A W (FORWARD) or c += A W^T for the weights W of a layer.
template <class T, bool FORWARD, class A>
__device__ void product_with_weights(const A& a, const float* weights, const float* packed, int ld,
                                     int m0, int m_limit, int n0, int n_limit, int depth, Accumulators<T>& acc) {
#if WGMMA
    if constexpr (T::WN == 256) {
        product_by_packed(a, reinterpret_cast<const char*>(packed) + (u64)(n0 / 256) * ((depth + 15) / 16) * B_STAGE, m0, m_limit, depth, acc);
        return;
    } else
#endif
    product<T, true, !FORWARD, false>(a, Matrix{weights, ld}, m0, m_limit, n0, n_limit, 0, depth, depth, acc, nullptr, false);
}
