// The layers of a critic, forward and backward pass. Grid: x = tiles of rows, y = tiles of columns
// (or pieces of the depth), z = run and role: which of two networks, or of two halves of a layer,
// that are computed in the same way.

struct Grid {
    int roles;
    __device__ int run() const { return blockIdx.z / roles; }
    __device__ int role() const { return blockIdx.z % roles; }
};

// out = act(source W + b); the last hidden layer also computes parts of every row's score.
struct Layer {
    Buffer input;          // a stored input, or P for a layer over pairs
    Buffer q;
    Buffer weights, bias;  // bias may be null
    Buffer packed;         // a copy of the weights for wgmma.cuh
    Buffer output;
    Buffer score_weights;  // null: not the last hidden layer
    Buffer scores;         // tiles of columns x rows: parts of the scores
    Buffer on;             // instead of the output: a bit for each ReLU, whether it is positive
    Dropout dropout;
    int rows, inputs, outputs;
    int ld_input, ld_output;
    int activated;
};
struct LayerTask {
    Grid grid;
    Pairs pairs;
    Layer roles[2];
};

// FULL: all columns of the tile are columns of the layer.
template <class T, bool FULL, class Source>
__device__ void layer(const Source& source, const Layer& l, int run, int m0, int n0) {
    const float* bias = l.bias.of(run);
    int row = first_row<T>(), column = n0 + first_column<T>();
    Accumulators<T> acc;
    acc.clear();
    product_with_weights<T, true>(source, l.weights.of(run), l.packed.of(run), l.ld_output,
                                  m0, l.rows, n0, l.outputs, l.inputs, acc);

    if (bias) {
#pragma unroll
        for (int n = 0; n < T::NT; ++n) {
            float2 b = FULL || column + 8 * n < l.outputs ? load2(bias + column + 8 * n) : make_float2(0.f, 0.f);
#pragma unroll
            for (int m = 0; m < T::MT; ++m) {
                acc.c[m][n][0] += b.x;
                acc.c[m][n][2] += b.x;
                acc.c[m][n][1] += b.y;
                acc.c[m][n][3] += b.y;
            }
        }
    }
    float* output = l.output.of(run);
    if (l.activated) {
#pragma unroll
        for (int m = 0; m < T::MT; ++m)
#pragma unroll
            for (int n = 0; n < T::NT; ++n)
#pragma unroll
                for (int e = 0; e < 4; ++e) acc.c[m][n][e] = activate(acc.c[m][n][e]);
    }
    if (l.dropout.scale != 0.f) {
        Random4 key = l.dropout.key(run);
#pragma unroll
        for (int m = 0; m < T::MT; ++m)
#pragma unroll
            for (int n = 0; n < T::NT; ++n) {
                u32 bytes = Dropout::bytes(key, m0 + row + 16 * m, column + 8 * n);
#pragma unroll
                for (int e = 0; e < 4; ++e) acc.c[m][n][e] = l.dropout.apply(acc.c[m][n][e], bytes >> 8 * e);
            }
    }
    if (output) {
        for_each_pair<T>(acc, [&](int r, int c, float a, float b) {
            if (m0 + r < l.rows && (FULL || n0 + c < l.outputs))
                *reinterpret_cast<float2*>(output + (u64)(m0 + r) * l.ld_output + n0 + c) = make_float2(a, b);
        });
    }
    const float* score_weights = l.score_weights.of(run);
    if (!score_weights) return;

    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    u32* on = reinterpret_cast<u32*>(l.on.of(run));
    int words = (l.outputs + 31) / 32;
    float score[T::MT][2];
    u32 bits[T::MT][2];
#pragma unroll
    for (int m = 0; m < T::MT; ++m) score[m][0] = score[m][1] = 0.f, bits[m][0] = bits[m][1] = 0;
#pragma unroll
    for (int n = 0; n < T::NT; ++n) {
        int c = column + 8 * n;
        float2 w = FULL || c < l.outputs ? load2(score_weights + c) : make_float2(0.f, 0.f);
#pragma unroll
        for (int m = 0; m < T::MT; ++m)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                float a = acc.c[m][n][2 * half], b = acc.c[m][n][2 * half + 1];
                score[m][half] += a * w.x + b * w.y;
                // Four lanes hold the bits of a row; a word is complete after four values of n.
                bits[m][half] |= ((a > 0.f ? 1u : 0u) | (b > 0.f ? 2u : 0u)) << (8 * (n % 4));
                if (on && n % 4 == 3) {
                    u32 word = bits[m][half] << (2 * (lane & 3));
                    word |= __shfl_xor_sync(~0u, word, 1);
                    word |= __shfl_xor_sync(~0u, word, 2);
                    int r = m0 + row + 16 * m + half;
                    if ((lane & 3) == n / 4 % 4 && (FULL || (c & ~31) < l.outputs) && r < l.rows)
                        on[(u64)r * words + c / 32] = word;
                    bits[m][half] = 0;
                }
            }
    }
    float* shared = reinterpret_cast<float*>(dynamic_shared);
#pragma unroll
    for (int m = 0; m < T::MT; ++m)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float sum = score[m][half];
            sum += __shfl_xor_sync(~0u, sum, 1);
            sum += __shfl_xor_sync(~0u, sum, 2);
            if ((lane & 3) == 0) shared[(row + 16 * m + half) * T::COLUMNS + warp % T::COLUMNS] = sum;
        }
    __syncthreads();
    float* scores = l.scores.of(run) + (u64)blockIdx.y * l.rows;
    for (int r = threadIdx.x; r < T::M; r += T::THREADS) {
        float sum = 0.f;
#pragma unroll
        for (int c = 0; c < T::COLUMNS; ++c) sum += shared[r * T::COLUMNS + c];
        if (m0 + r < l.rows) scores[m0 + r] = sum;
    }
}

template <class T, class Source> __device__ void layer(const Source& source, const Layer& l, int run) {
    int m0 = blockIdx.x * T::M, n0 = blockIdx.y * T::N;
    if (m0 >= l.rows || n0 >= l.outputs) return;
    if (n0 + T::N <= l.outputs) layer<T, true>(source, l, run, m0, n0);
    else layer<T, false>(source, l, run, m0, n0);
}

__device__ inline const u32* partners(const Pairs& pairs, int run) {
    return pairs.partner ? pairs.partner + pairs.partner_stride * run : nullptr;
}

template <class T> __device__ void layer_of_matrix(const LayerTask& t) {
    const Layer& l = t.roles[t.grid.role()];
    int run = t.grid.run();
    Matrix input = {l.input.of(run), l.ld_input};
    layer<T>(input, l, run);
}
template <class T> __device__ void layer_of_pairs(const LayerTask& t) {
    const Layer& l = t.roles[0];
    int run = t.grid.run();
    PairSum input = {l.input.of(run), l.q.of(run), l.ld_input, t.pairs, partners(t.pairs, run)};
    layer<T>(input, l, run);
}

// dW = input^T G, in pieces of the depth, and db = column sums of G.
struct WeightGradient {
    Buffer input, q;         // the layer's input: stored, or P and Q
    Buffer gradient;         // G as a matrix or in parts, or dJ/ds
    Buffer score_weights, last_outputs;  // to derive G from dJ/ds: outputs or their bits
    Buffer weights, bias;    // of this layer, if only bits of its outputs are stored
    Buffer result;           // pieces x inputs x outputs
    Buffer bias_result;      // pieces x outputs; null: no bias
    Buffer score_result;     // pieces (x tiles of inputs) x outputs: gradient of the score weights
    int rows, inputs, outputs;
    int ld_input, ld_output;
    int pieces, parts;
    float scale;             // of dropout at the outputs
    u64 part_stride;
};
struct WeightGradientTask {
    Grid grid;
    Pairs pairs;
    WeightGradient roles[2];
};

template <class G> __device__ constexpr bool masked() { return false; }
template <> __device__ constexpr bool masked<MaskGradient>() { return true; }

template <class T, class A, class G>
__device__ void weight_gradient(const A& input, const G& gradient, const WeightGradient& w, int run) {
    int column_tiles = (w.outputs + T::N - 1) / T::N;
    int m0 = blockIdx.x / column_tiles * T::M, n0 = blockIdx.x % column_tiles * T::N;
    int piece = blockIdx.y;
    if (m0 >= w.inputs || piece >= w.pieces) return;
    int steps = (w.rows + T::K - 1) / T::K;
    int from = (int)((long long)steps * piece / w.pieces) * T::K;
    int to = (int)((long long)steps * (piece + 1) / w.pieces) * T::K;
    // A unit of work is four columns and four depths (Operand, WideB).
    const int PIECES = T::N * T::DEPTH, UNITS = (PIECES + T::THREADS - 1) / T::THREADS;
    ColumnSums sums[UNITS];
#pragma unroll
    for (int unit = 0; unit < UNITS; ++unit) sums[unit].plain = sums[unit].weighted = zero4();
    Accumulators<T> acc;
    acc.clear();
    product<T, false, false, true>(input, gradient, m0, w.inputs, n0, w.outputs, from, to, w.rows, acc, sums, m0 == 0);

    float* result = w.result.of(run) + (u64)piece * w.inputs * w.ld_output;
    float* shared = reinterpret_cast<float*>(dynamic_shared);
    float4* shared4 = reinterpret_cast<float4*>(dynamic_shared);
    const int BLOCKS = T::N / 4;
    if constexpr (masked<G>()) {
        // Here G is without the factor of the score weights: multiply by them. Their own gradient
        // is the sum of dJ/ds a with a = input W + b where that is positive, so
        // sum_r dJ/ds a_c = sum_k W_kc U_kc + b_c u_c with this product U and its column sums u.
        const float *weights = w.weights.of(run), *scale = w.score_weights.of(run);
        int row = m0 + first_row<T>(), column = first_column<T>();
        float2 gathered[T::NT];
#pragma unroll
        for (int n = 0; n < T::NT; ++n) {
            int c = n0 + column + 8 * n;
            float2 s = c < w.outputs ? load2(scale + c) : make_float2(0.f, 0.f);
            gathered[n] = make_float2(0.f, 0.f);
#pragma unroll
            for (int m = 0; m < T::MT; ++m)
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    int r = row + 16 * m + half;
                    if (r >= w.inputs || c >= w.outputs) continue;
                    float a = acc.c[m][n][2 * half], b = acc.c[m][n][2 * half + 1];
                    float2 v = load2(at(weights, r, w.ld_output) + c);
                    gathered[n].x += v.x * a;
                    gathered[n].y += v.y * b;
                    *reinterpret_cast<float2*>(result + (u64)r * w.ld_output + c) = make_float2(a * s.x, b * s.y);
                }
        }
        float* to = shared + (threadIdx.x >> 5) / T::COLUMNS * T::N + column;
        sum_columns(gathered, [&](int c, float2 sum) {
            to[c] = sum.x;
            to[c + 1] = sum.y;
        });
        __syncthreads();
        float* out = w.score_result.of(run) + (u64)(piece * ((w.inputs + T::M - 1) / T::M) + m0 / T::M) * w.ld_output;
        for (int c = threadIdx.x; c < T::N && n0 + c < w.outputs; c += T::THREADS) {
            float sum = 0.f;
            for (int r = 0; r < T::ROWS; ++r) sum += shared[r * T::N + c];
            out[n0 + c] = sum;
        }
        __syncthreads();
    } else {
        for_each_pair<T>(acc, [&](int row, int column, float a, float b) {
            if (m0 + row < w.inputs && n0 + column < w.outputs)
                *reinterpret_cast<float2*>(result + (u64)(m0 + row) * w.ld_output + n0 + column) = make_float2(a, b);
        });
    }
    if (m0 != 0 || !(w.bias_result.data || w.score_result.data)) return;
    // The sums of a unit cover some of the depths: add those of lanes with the same columns, then
    // those of different depths.
#pragma unroll
    for (int unit = 0; unit < UNITS; ++unit) {
        float* values = &sums[unit].plain.x;
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            values[k] += __shfl_xor_sync(~0u, values[k], 1);
            values[k] += __shfl_xor_sync(~0u, values[k], 2);
        }
        int part = threadIdx.x + unit * T::THREADS;
        if (part < PIECES && part % 4 == 0) {
            int block = part / 4 % BLOCKS, deep = part / T::N;
            shared4[2 * (deep * BLOCKS + block)] = sums[unit].plain;
            shared4[2 * (deep * BLOCKS + block) + 1] = sums[unit].weighted;
        }
    }
    __syncthreads();
    for (int block = threadIdx.x; block < BLOCKS; block += T::THREADS) {
        float4 plain = zero4(), weighted = zero4();
        for (int deep = 0; deep < T::DEPTH; ++deep) {
            plain = plain + shared4[2 * (deep * BLOCKS + block)];
            weighted = weighted + shared4[2 * (deep * BLOCKS + block) + 1];
        }
        int column = n0 + 4 * block;
        if (column >= w.outputs) continue;
        u64 at = (u64)piece * w.ld_output + column;
        if constexpr (masked<G>()) {
            float4 bias = load4(w.bias.of(run) + column), s = load4(w.score_weights.of(run) + column);
            u64 tiles = (w.inputs + T::M - 1) / T::M;
            float4* out = reinterpret_cast<float4*>(w.score_result.of(run) + piece * tiles * w.ld_output + column);
            *out = *out + make_float4(bias.x * plain.x, bias.y * plain.y, bias.z * plain.z, bias.w * plain.w);
            plain = make_float4(plain.x * s.x, plain.y * s.y, plain.z * s.z, plain.w * s.w);
        } else if (w.score_result.data) {
            *reinterpret_cast<float4*>(w.score_result.of(run) + at) = weighted;
        }
        if (w.bias_result.data) *reinterpret_cast<float4*>(w.bias_result.of(run) + at) = plain;
    }
}

__device__ inline Matrix stored_input(const WeightGradient& w, int run) {
    Matrix m = {w.input.of(run), w.ld_input};
    return m;
}
__device__ inline PairSum pair_input(const WeightGradientTask& t, const WeightGradient& w, int run) {
    PairSum s = {w.input.of(run), w.q.of(run), w.ld_input, t.pairs, partners(t.pairs, run)};
    return s;
}
__device__ inline Matrix stored_gradient(const WeightGradient& w, int run) {
    Matrix m = {w.gradient.of(run), w.ld_output};
    return m;
}
__device__ inline LastGradient last_gradient(const float* gradient, const float* weights, const float* outputs, int ld, float scale) {
#if ACTIVATION == 0
    // dJ/ds includes the scale (ObjectiveTask).
    return {gradient, weights, reinterpret_cast<const u32*>(outputs), (ld + 31) / 32};
#else
    return {gradient, weights, outputs, ld, scale};
#endif
}
__device__ inline LastGradient score_gradient(const WeightGradient& w, int run) {
    return last_gradient(w.gradient.of(run), w.score_weights.of(run), w.last_outputs.of(run), w.ld_output, w.scale);
}

// G_below = (G W^T) act'(a_below)
struct InputGradient {
    Buffer gradient, score_weights, outputs;  // G: stored, or derived from dJ/ds
    Buffer weights, packed;
    Buffer below, q;      // a_below stored, or P and Q
    Buffer result;        // stored, or the parts of dJ/dP
    Buffer q_result;      // the parts of dJ/dQ
    int rows, inputs, columns;
    int ld_input, ld_output;
    float scale;          // of dropout at the outputs and at the layer below
    u64 part_stride;
};
struct InputGradientTask {
    Grid grid;
    Pairs pairs;
    InputGradient roles[2];
};

template <class T, class G>
__device__ bool input_product(const G& gradient, const InputGradient& g, int run, Accumulators<T>& acc) {
    int m0 = blockIdx.x * T::M, n0 = blockIdx.y * T::N;
    if (m0 >= g.rows || n0 >= g.inputs) return false;
    acc.clear();
    product_with_weights<T, false>(gradient, g.weights.of(run), g.packed.of(run), g.ld_output,
                                   m0, g.rows, n0, g.inputs, g.columns, acc);
    return true;
}

template <class T> __device__ void store_input_gradient(const InputGradient& g, int run, const Accumulators<T>& acc) {
    int m0 = blockIdx.x * T::M, n0 = blockIdx.y * T::N;
    const float* below = g.below.of(run);
    float* result = g.result.of(run);
    for_each_pair<T>(acc, [&](int row, int column, float a, float b) {
        if (m0 + row >= g.rows || n0 + column >= g.inputs) return;
        u64 at = (u64)(m0 + row) * g.ld_input + n0 + column;
        float2 output = load2(below + at);
        *reinterpret_cast<float2*>(result + at) =
            make_float2(times_slope(a, output.x, g.scale), times_slope(b, output.y, g.scale));
    });
}

__device__ inline float2 times_pair_slope(float a, float b, float2 p, float2 q) {
#if ACTIVATION == 0
    return make_float2(p.x + q.x > 0.f ? a : 0.f, p.y + q.y > 0.f ? b : 0.f);
#endif
    return make_float2(times_slope(a, activate(p.x + q.x)), times_slope(b, activate(p.y + q.y)));
}

// Sums of a tile's gradients over ys (for P) and over xs (for Q). Each tile writes its own parts,
// which PartSum adds. Without atomics the order of additions is fixed and results are reproducible.
template <class T, bool FULL>
__device__ void reduce_pair_gradient(const InputGradient& g, const Pairs& pairs, int run, const Accumulators<T>& acc) {
    const float *p = g.below.of(run), *q = g.q.of(run);
    float *p_result = g.result.of(run), *q_result = g.q_result.of(run);
    int eighth = (threadIdx.x & 31) >> 2, warp_row = (threadIdx.x >> 5) / T::COLUMNS;
    int column = blockIdx.y * T::N + first_column<T>();
    u64 ld = g.ld_input;
    if (pairs.layout == PAIRED) {
        const u32* partner = partners(pairs, run);
#pragma unroll
        for (int m = 0; m < T::MT; ++m) {
            int i = (blockIdx.x * T::M + first_row<T>()) / 2 + 8 * m;
            if (i >= pairs.n) continue;
            int j = partner_of(pairs, partner, i);
            const float *px = p + i * ld + column, *q0 = q + i * ld + column, *q1 = q + j * ld + column;
            float *dp = p_result + i * ld + column, *dq0 = q_result + i * ld + column;
            float* dq1 = q_result + g.part_stride + j * ld + column;
#pragma unroll
            for (int n = 0; n < T::NT; ++n) {
                if (!FULL && column + 8 * n >= g.inputs) continue;
                float2 x = load2(px + 8 * n);
                float2 a = times_pair_slope(acc.c[m][n][0], acc.c[m][n][1], x, load2(q0 + 8 * n));
                float2 b = times_pair_slope(acc.c[m][n][2], acc.c[m][n][3], x, load2(q1 + 8 * n));
                *reinterpret_cast<float2*>(dp + 8 * n) = make_float2(a.x + b.x, a.y + b.y);
                *reinterpret_cast<float2*>(dq0 + 8 * n) = a;
                *reinterpret_cast<float2*>(dq1 + 8 * n) = b;
            }
        }
        return;
    }
    int tile = blockIdx.x, tile_i = divided_by_tiles(pairs, tile), tile_j = tile - tile_i * pairs.tiles;
    int j0 = tile_j * 16 + 2 * eighth, first_i = (tile_i << pairs.block_bits) + warp_row * T::MT;
    const float* q0 = q + (u64)min(j0, pairs.n - 1) * ld + column;
    const float* q1 = q + (u64)min(j0 + 1, pairs.n - 1) * ld + column;
    // All rows of warps have the same ys, and each has its own xs: warps x 16 ys x columns.
    float2* shared = reinterpret_cast<float2*>(dynamic_shared);
    const int ROW = T::N / 2;
    float2* mine = shared + (warp_row * 16 + 2 * eighth) * ROW + first_column<T>() / 2;
    float2 over_ys[T::MT][T::NT];
#pragma unroll
    for (int n = 0; n < T::NT; ++n) {
        bool inside = FULL || column + 8 * n < g.inputs;
        float2 y0 = inside ? load2(q0 + 8 * n) : make_float2(0.f, 0.f);
        float2 y1 = inside ? load2(q1 + 8 * n) : make_float2(0.f, 0.f);
        float2 sum0 = make_float2(0.f, 0.f), sum1 = sum0;
#pragma unroll
        for (int m = 0; m < T::MT; ++m) {
            float2 x = inside ? load2(p + (u64)min(first_i + m, pairs.n - 1) * ld + column + 8 * n) : make_float2(0.f, 0.f);
            float2 a = times_pair_slope(acc.c[m][n][0], acc.c[m][n][1], x, y0);
            float2 b = times_pair_slope(acc.c[m][n][2], acc.c[m][n][3], x, y1);
            sum0.x += a.x; sum0.y += a.y;
            sum1.x += b.x; sum1.y += b.y;
            over_ys[m][n] = make_float2(a.x + b.x, a.y + b.y);
        }
        mine[4 * n] = sum0;
        mine[4 * n + ROW] = sum1;
    }
    // Eight lanes hold the sums of a column, over two ys each.
#pragma unroll
    for (int m = 0; m < T::MT; ++m) {
        float* to = p_result + tile_j * g.part_stride + (first_i + m) * ld + column;
        sum_columns(over_ys[m], [&](int c, float2 sum) {
            if (first_i + m < pairs.n && (FULL || column + c < g.inputs)) *reinterpret_cast<float2*>(to + c) = sum;
        });
    }
    __syncthreads();
    for (int at = threadIdx.x; at < 16 * ROW; at += T::THREADS) {
        int j = tile_j * 16 + at / ROW, c = blockIdx.y * T::N + 2 * (at % ROW);
        float2 sum = make_float2(0.f, 0.f);
#pragma unroll
        for (int row = 0; row < T::ROWS; ++row) {
            float2 part = shared[row * 16 * ROW + at];
            sum.x += part.x;
            sum.y += part.y;
        }
        if (j < pairs.n && (FULL || c < g.inputs))
            *reinterpret_cast<float2*>(q_result + tile_i * g.part_stride + j * ld + c) = sum;
    }
}

template <class T, class G> __device__ void input_gradient_stored(const G& gradient, const InputGradient& g, int run) {
    Accumulators<T> acc;
    if (input_product<T>(gradient, g, run, acc)) store_input_gradient<T>(g, run, acc);
}
template <class T, class G>
__device__ void input_gradient_pairs(const G& gradient, const InputGradientTask& t, const InputGradient& g, int run) {
    Accumulators<T> acc;
    if (!input_product<T>(gradient, g, run, acc)) return;
    if ((blockIdx.y + 1) * T::N <= g.inputs) reduce_pair_gradient<T, true>(g, t.pairs, run, acc);
    else reduce_pair_gradient<T, false>(g, t.pairs, run, acc);
}
__device__ inline Matrix stored_gradient(const InputGradient& g, int run) {
    Matrix m = {g.gradient.of(run), g.ld_output};
    return m;
}
__device__ inline LastGradient score_gradient(const InputGradient& g, int run) {
    return last_gradient(g.gradient.of(run), g.score_weights.of(run), g.outputs.of(run), g.ld_output, g.scale);
}

// ---- the separable critic's inner products ----

// result = a b^T, with either operand transposed: scores = g(x) h(y)^T, dJ/dg = S h, dJ/dh = S^T g.
struct PlainProduct {
    Buffer a, b, result;
    int rows, columns, depth;
    int ld_a, ld_b, ld_result;
};
struct PlainTask {
    Grid grid;
    PlainProduct roles[2];
};
template <class T, bool A_ALONG, bool B_ALONG> __device__ void plain_product(const PlainTask& t) {
    const PlainProduct& p = t.roles[t.grid.role()];
    int run = t.grid.run();
    int m0 = blockIdx.x * T::M, n0 = blockIdx.y * T::N;
    if (m0 >= p.rows || n0 >= p.columns) return;
    Matrix a = {p.a.of(run), p.ld_a}, b = {p.b.of(run), p.ld_b};
    // Operands that are read across their columns are padded to a multiple of 4 columns.
    int m_limit = A_ALONG ? p.rows : (p.rows + 3) / 4 * 4;
    Accumulators<T> acc;
    acc.clear();
    product<T, A_ALONG, B_ALONG, false>(a, b, m0, m_limit, n0, p.columns, 0, p.depth, p.depth, acc, nullptr, false);
    float* result = p.result.of(run);
    for_each_pair<T>(acc, [&](int row, int column, float x, float y) {
        if (m0 + row < p.rows && n0 + column < p.ld_result)
            *reinterpret_cast<float2*>(result + (u64)(m0 + row) * p.ld_result + n0 + column) = make_float2(x, y);
    });
}

struct PairedEmbeddings {
    Pairs pairs;
    Buffer g, h, scores, gradient, g_result, h_result;
    int width, ld;
};

// One warp for each pair: score = g(x_i) . h(y_j).
extern "C" __global__ void paired_scores(const __grid_constant__ PairedEmbeddings e) {
    begin();
    int r = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32, run = blockIdx.z;
    if (r >= e.pairs.rows) return;
    Pair pair = locate(e.pairs, partners(e.pairs, run), r);
    const float* g = e.g.of(run) + (u64)pair.i * e.ld;
    const float* h = e.h.of(run) + (u64)pair.j * e.ld;
    float sum = 0.f;
    for (int k = lane; k < e.width; k += 32) sum += g[k] * h[k];
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    if (lane == 0) e.scores.of(run)[r] = sum;
}

// One warp for x_i and y_i, each of which is in two pairs. The inverse permutation, stored after
// the partners, gives the pair in which y_i is the partner.
extern "C" __global__ void paired_embedding_gradient(const __grid_constant__ PairedEmbeddings e) {
    begin();
    int i = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32, run = blockIdx.z;
    int n = e.pairs.n;
    if (i >= n) return;
    const u32* partner = partners(e.pairs, run);
    int to = partner_of(e.pairs, partner, i);
    int from = e.pairs.shift ? (i + n - 1) % n : (int)partner[n + i];
    const float *g = e.g.of(run), *h = e.h.of(run), *s = e.gradient.of(run);
    float joint = s[2 * i], out = s[2 * i + 1], in = s[2 * from + 1];
    u64 own = (u64)i * e.ld;
    for (int k = lane; k < e.width; k += 32) {
        e.g_result.of(run)[own + k] = joint * h[own + k] + out * h[(u64)to * e.ld + k];
        e.h_result.of(run)[own + k] = joint * g[own + k] + in * g[(u64)from * e.ld + k];
    }
}

// ---- entry points for both tile sizes ----

#define ENTRY(name, Size, Args) \
    extern "C" __global__ void __launch_bounds__(Size::THREADS) name(const __grid_constant__ Args t)
#define KERNELS(Size, suffix) \
    ENTRY(layer_of_matrix_##suffix, Size, LayerTask) { begin(); layer_of_matrix<Size>(t); } \
    ENTRY(layer_of_pairs_##suffix, Size, LayerTask) { begin(); layer_of_pairs<Size>(t); } \
    ENTRY(weights_matrix_matrix_##suffix, Size, WeightGradientTask) { begin(); \
        const WeightGradient& w = t.roles[t.grid.role()]; \
        weight_gradient<Size>(stored_input(w, t.grid.run()), stored_gradient(w, t.grid.run()), w, t.grid.run()); \
    } \
    ENTRY(weights_matrix_scores_##suffix, Size, WeightGradientTask) { begin(); \
        const WeightGradient& w = t.roles[0]; \
        weight_gradient<Size>(stored_input(w, t.grid.run()), score_gradient(w, t.grid.run()), w, t.grid.run()); \
    } \
    ENTRY(weights_pairs_matrix_##suffix, Size, WeightGradientTask) { begin(); \
        const WeightGradient& w = t.roles[0]; \
        weight_gradient<Size>(pair_input(t, w, t.grid.run()), stored_gradient(w, t.grid.run()), w, t.grid.run()); \
    } \
    ENTRY(weights_pairs_scores_##suffix, Size, WeightGradientTask) { begin(); \
        const WeightGradient& w = t.roles[0]; \
        weight_gradient<Size>(pair_input(t, w, t.grid.run()), score_gradient(w, t.grid.run()), w, t.grid.run()); \
    } \
    ENTRY(inputs_matrix_stored_##suffix, Size, InputGradientTask) { begin(); \
        const InputGradient& g = t.roles[t.grid.role()]; \
        input_gradient_stored<Size>(stored_gradient(g, t.grid.run()), g, t.grid.run()); \
    } \
    ENTRY(inputs_scores_stored_##suffix, Size, InputGradientTask) { begin(); \
        const InputGradient& g = t.roles[0]; \
        input_gradient_stored<Size>(score_gradient(g, t.grid.run()), g, t.grid.run()); \
    } \
    ENTRY(inputs_matrix_pairs_##suffix, Size, InputGradientTask) { begin(); \
        const InputGradient& g = t.roles[0]; \
        input_gradient_pairs<Size>(stored_gradient(g, t.grid.run()), t, g, t.grid.run()); \
    } \
    ENTRY(inputs_scores_pairs_##suffix, Size, InputGradientTask) { begin(); \
        const InputGradient& g = t.roles[0]; \
        input_gradient_pairs<Size>(score_gradient(g, t.grid.run()), t, g, t.grid.run()); \
    } \
    ENTRY(product_along_along_##suffix, Size, PlainTask) { begin(); plain_product<Size, true, true>(t); } \
    ENTRY(product_along_across_##suffix, Size, PlainTask) { begin(); plain_product<Size, true, false>(t); } \
    ENTRY(product_across_across_##suffix, Size, PlainTask) { begin(); plain_product<Size, false, false>(t); }

KERNELS(Large, large)
KERNELS(Small, small)

ENTRY(weights_matrix_parts_small, Small, WeightGradientTask) {
    begin();
    const WeightGradient& w = t.roles[t.grid.role()];
    int run = t.grid.run();
    PartSum parts = {w.gradient.of(run), w.ld_output, w.parts, w.part_stride};
    weight_gradient<Small>(stored_input(w, run), parts, w, run);
}
