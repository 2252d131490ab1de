// What CUDA gives to kernels, for a processor: the threads of a block are coroutines of one thread,
// which yield where they wait for each other. The script `compile` puts this file before the kernels.
#include <cmath>
#include <csetjmp>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ucontext.h>
#include <vector>

#define __device__
#define __shared__ static
#define __noinline__ __attribute__((noinline))

// ---- vectors ----

struct float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

// ---- threads ----

namespace emulator {

struct Index { unsigned x, y, z; };

// A group of threads that wait for each other. A wait ends when all threads that still run have come.
struct Group {
    int running, waiting;
    unsigned turn;
    void arrive() { ++waiting; release(); }
    void leave() { --running; release(); }
    void release() {
        if (waiting == running) waiting = 0, ++turn;
    }
};

struct Warp {
    Group group;
    // What the lanes exchange, for two turns: a lane may begin the next before others have read this one.
    uint32_t sent[2][32][8];
};

struct Thread {
    Index index;
    Warp* warp;
    int lane;
    unsigned turn;         // of exchanges within the warp
    Group* waits_for;      // null: can run
    unsigned waited_turn;
    bool has_begun, has_ended;
    ucontext_t start;
    jmp_buf place;

    bool can_run() const { return !has_ended && (!waits_for || waits_for->turn != waited_turn); }
};

static Thread* current;
static Index current_block, block_size, grid_size;
static Group whole_block;
static jmp_buf scheduler;
static void (*body)(const void*);
static const void* arguments;


// The compiler must not keep `current` in a register over a switch, so this is a call.
__attribute__((noinline)) static void wait_for(Group& group) {
    Thread* self = current;
    self->waits_for = &group;
    self->waited_turn = group.turn;
    group.arrive();
    if (self->can_run()) return;
    if (!_setjmp(self->place)) _longjmp(scheduler, 1);
}

static void run_thread() {
    body(arguments);
    current->has_ended = true;
    current->warp->group.leave();
    whole_block.leave();
    _longjmp(scheduler, 1);
}

// Continues a thread until it waits or ends.
__attribute__((noinline)) static void resume(Thread& thread) {
    current = &thread;
    if (_setjmp(scheduler)) return;
    if (thread.has_begun) _longjmp(thread.place, 1);
    thread.has_begun = true;
    setcontext(&thread.start);
}

static void run_block(std::vector<Thread>& threads, std::vector<Warp>& warps, const std::vector<char*>& stacks, size_t stack) {
    int count = (int)threads.size();
    whole_block = {count, 0, 0};
    for (size_t w = 0; w < warps.size(); ++w) warps[w].group = {(int)w * 32 + 32 <= count ? 32 : count % 32, 0, 0};
    for (int k = 0; k < count; ++k) {
        Thread& thread = threads[k];
        thread.index = {(unsigned)k, 0, 0};
        thread.warp = &warps[k / 32];
        thread.lane = k % 32;
        thread.turn = 0;
        thread.waits_for = nullptr;
        thread.has_begun = thread.has_ended = false;
        getcontext(&thread.start);
        thread.start.uc_stack.ss_sp = stacks[k];
        thread.start.uc_stack.ss_size = stack;
        thread.start.uc_link = nullptr;
        makecontext(&thread.start, run_thread, 0);
    }
    for (bool progress = true; progress;) {
        progress = false;
        for (int first = 0; first < count; first += 32)
            for (bool again = true; again;) {
                again = false;
                for (int k = first; k < first + 32 && k < count; ++k)
                    if (threads[k].can_run()) resume(threads[k]), again = progress = true;
            }
    }
    for (Thread& thread : threads)
        if (!thread.has_ended) abort();  // threads wait for each other for ever
}

// Runs all blocks of a kernel, one after the other.
static void run_blocks(void (*kernel)(const void*), const void* task, const unsigned* grid, unsigned block_threads) {
    const size_t STACK = 1 << 18;
    static std::vector<char*> stacks;
    while (stacks.size() < block_threads) stacks.push_back((char*)malloc(STACK));
    std::vector<Thread> threads(block_threads);
    std::vector<Warp> warps((block_threads + 31) / 32);
    body = kernel;
    arguments = task;
    grid_size = {grid[0], grid[1], grid[2]};
    block_size = {block_threads, 1, 1};
    for (unsigned z = 0; z < grid[2]; ++z)
        for (unsigned y = 0; y < grid[1]; ++y)
            for (unsigned x = 0; x < grid[0]; ++x) {
                current_block = {x, y, z};
                run_block(threads, warps, stacks, STACK);
            }
}

}  // namespace emulator

#define threadIdx (emulator::current->index)
#define blockIdx emulator::current_block
#define blockDim emulator::block_size
#define gridDim emulator::grid_size

inline void __syncthreads() { emulator::wait_for(emulator::whole_block); }
inline void __syncwarp() { emulator::wait_for(emulator::current->warp->group); }

// Sends `words` to the warp and returns what all lanes have sent.
inline const uint32_t (*exchange(const uint32_t* words, int count))[8] {
    uint32_t (*sent)[8] = emulator::current->warp->sent[emulator::current->turn++ % 2];
    memcpy(sent[emulator::current->lane], words, 4 * count);
    __syncwarp();
    return sent;
}
template <class V> inline V value_of_lane(V value, int lane) {
    uint32_t words[2] = {0, 0};
    memcpy(words, &value, sizeof value);
    V received;
    memcpy(&received, exchange(words, 2)[lane], sizeof received);
    return received;
}
template <class V> inline V __shfl_sync(unsigned, V value, int lane) { return value_of_lane(value, lane); }
template <class V> inline V __shfl_xor_sync(unsigned, V value, int mask) { return value_of_lane(value, emulator::current->lane ^ mask); }

// ---- products of a warp on the tensor cores ----

inline float float_of(uint32_t bits) { float f; memcpy(&f, &bits, 4); return f; }

// c += A B for 16 x 8 and 8 x 8 numbers, of which the tensor cores use the upper 19 bits.
inline void emulated_mma_tf32(float (&c)[4], uint4 a, unsigned b0, unsigned b1) {
    uint32_t words[6] = {a.x, a.y, a.z, a.w, b0, b1};
    const uint32_t (*lanes)[8] = exchange(words, 6);
    int row = emulator::current->lane / 4, column = emulator::current->lane % 4 * 2;
    auto number = [&](int lane, int word) { return float_of(lanes[lane][word] & 0xffffe000u); };
    for (int k = 0; k < 8; ++k)
        for (int e = 0; e < 4; ++e)
            c[e] += number(row * 4 + k % 4, e / 2 + k / 4 * 2) * number((column + e % 2) * 4 + k % 4, 4 + k / 4);
}
// The same for 16 x 16 and 16 x 8 numbers in bf16, two in a word.
inline void emulated_mma_bf16(float (&c)[4], uint4 a, unsigned b0, unsigned b1) {
    uint32_t words[6] = {a.x, a.y, a.z, a.w, b0, b1};
    const uint32_t (*lanes)[8] = exchange(words, 6);
    int row = emulator::current->lane / 4, column = emulator::current->lane % 4 * 2;
    auto number = [&](int lane, int word, int half) { return float_of(lanes[lane][word] << (half ? 0 : 16) & 0xffff0000u); };
    for (int k = 0; k < 16; ++k)
        for (int e = 0; e < 4; ++e)
            c[e] += number(row * 4 + k % 8 / 2, e / 2 + k / 8 * 2, k % 2) * number((column + e % 2) * 4 + k % 8 / 2, 4 + k / 8, k % 2);
}
inline uint32_t rounded_to_bf16(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    if (x != x) return bits >> 16 | 0x40;
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
inline unsigned emulated_bf16_pair(float low, float high) { return rounded_to_bf16(low) | rounded_to_bf16(high) << 16; }

// ---- functions ----

inline unsigned __float_as_uint(float x) { unsigned bits; memcpy(&bits, &x, 4); return bits; }
inline float __uint_as_float(unsigned x) { return float_of(x); }
inline float __int_as_float(int x) { return float_of((unsigned)x); }
inline double __longlong_as_double(long long x) { double d; memcpy(&d, &x, 8); return d; }
inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }
inline float __expf(float x) { return expf(x); }
inline float rsqrtf(float x) { return 1.f / sqrtf(x); }
inline float cospif(float x) { return (float)cos(M_PI * (double)x); }
inline void sincospif(float x, float* s, float* c) { *s = (float)sin(M_PI * (double)x); *c = (float)cos(M_PI * (double)x); }
inline float maximum_or_nan(float a) { return a != a ? a : (a > 0.f ? a : 0.f); }
inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a > b ? a : b; }
using std::isfinite;
using std::isinf;
using std::isnan;
