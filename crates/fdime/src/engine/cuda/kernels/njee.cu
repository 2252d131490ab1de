// NJEE (train/learner/njee.rs): every run is one of its classifiers, which predicts the bin of a
// component of x. The bins of a batch are equiprobable.

struct ClassifierSpec {
    int component;
    float sign;        // of its log-likelihood in the estimate
    int adds_entropy;  // whether the entropy of its component is added to the estimate
    int padding;
};

struct ClassifierTask {
    Buffer x;          // all components, of which the inputs are a part
    Buffer labels;     // the bin of every row
    Buffer logits;     // rows x ld; replaced by their gradient
    const ClassifierSpec* specs;
    double* sums;      // as in ObjectiveTask
    int n, bins, ld_x, ld;
};

const int CLASSIFIER_THREADS = 256;

// One thread for each row: equal values share a bin.
extern "C" __global__ void cut_bins(const __grid_constant__ ClassifierTask t) {
    begin();
    __shared__ float others[CLASSIFIER_THREADS];
    int row = blockIdx.x * CLASSIFIER_THREADS + threadIdx.x, run = blockIdx.z;
    const float* x = t.x.of(run) + t.specs[run].component;
    float own = row < t.n ? x[(u64)row * t.ld_x] : 0.f;
    int smaller = 0;
    for (int first = 0; first < t.n; first += CLASSIFIER_THREADS) {
        int other = first + threadIdx.x;
        __syncthreads();
        if (other < t.n) others[threadIdx.x] = x[(u64)other * t.ld_x];
        __syncthreads();
        for (int k = 0; k < min(CLASSIFIER_THREADS, t.n - first); ++k) smaller += others[k] < own;
    }
    if (row < t.n) reinterpret_cast<u32*>(t.labels.of(run))[row] = (u32)((u64)smaller * t.bins / t.n);
}

__device__ inline float sum_of_warp(float v) {
    for (int step = 16; step > 0; step /= 2) v += __shfl_xor_sync(~0u, v, step);
    return v;
}

// One warp for each row: the mean log-likelihood, its gradient and the contribution to the estimate.
extern "C" __global__ void classify(const __grid_constant__ ClassifierTask t) {
    begin();
    const int WARPS = CLASSIFIER_THREADS / 32;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, run = blockIdx.z;
    ClassifierSpec spec = t.specs[run];
    const u32* labels = reinterpret_cast<const u32*>(t.labels.of(run));
    double likelihood = 0.0, entropy = 0.0;
    for (int row = blockIdx.x * WARPS + warp; row < t.n; row += gridDim.x * WARPS) {
        float* logits = t.logits.of(run) + (u64)row * t.ld;
        u32 label = labels[row];
        float at_label = logits[label], largest = -infinity(), total = 0.f;
        for (int k = lane; k < t.bins; k += 32) largest = fmaxf(largest, logits[k]);
        for (int step = 16; step > 0; step /= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, step));
        for (int k = lane; k < t.bins; k += 32) total += expf(logits[k] - largest);
        total = sum_of_warp(total);
        float weight = 1.f / t.n;
        for (int k = lane; k < t.ld; k += 32) {
            float probability = k < t.bins ? expf(logits[k] - largest) / total : 0.f;
            logits[k] = weight * ((k == label ? 1.f : 0.f) - probability);
        }
        likelihood += at_label - largest - logf(total);
        if (spec.adds_entropy) {
            // The plug-in entropy -1/n sum_r ln(c_r / n) with c_r rows in the bin of row r, and
            // (occupied bins - 1) / 2n, where the number of occupied bins is the sum of 1 / c_r.
            float equal = 0.f;
            for (int r = lane; r < t.n; r += 32) equal += labels[r] == label;
            float c = sum_of_warp(equal);
            entropy += 0.5 / c - log((double)c / t.n) - 0.5 / t.n;
        }
    }
    __shared__ double shared[2][WARPS];
    if (lane == 0) {
        shared[0][warp] = likelihood;
        shared[1][warp] = spec.sign * likelihood + entropy;
    }
    __syncthreads();
    if (threadIdx.x < 4) {
        // Value and estimate are the first and the third of four sums (objective.cu).
        double sum = 0.0;
        for (int w = 0; w < WARPS && threadIdx.x % 2 == 0; ++w) sum += shared[threadIdx.x / 2][w];
        t.sums[((u64)run * gridDim.x + blockIdx.x) * 4 + threadIdx.x] = sum;
    }
}
