// A CUDA driver without a GPU. Memory is that of the host. Kernels that compiler.c compiled run on
// the processor; others do nothing, which is enough for tests of what happens when a GPU fails.
//   EMULATED_GPU_MEMORY=BYTES    larger allocations fail, although more memory is reported as free
//   EMULATED_GPU_LAUNCHES=COUNT  the GPU disappears after that many launches of graphs or kernels
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OUT_OF_MEMORY = 2, LAUNCH_FAILED = 719 };
static long launches;

static int status(void) {
    const char *limit = getenv("EMULATED_GPU_LAUNCHES");
    return limit && launches > atol(limit) ? LAUNCH_FAILED : 0;
}
static int handle(void **out) {
    static char object;
    *out = &object;
    return status();
}
static int allocate(void **out, size_t bytes) {
    const char *limit = getenv("EMULATED_GPU_MEMORY");
    if (limit && bytes > strtoull(limit, 0, 10)) return OUT_OF_MEMORY;
    *out = calloc(bytes ? bytes : 1, 1);
    return *out ? status() : OUT_OF_MEMORY;
}
static int copy(void *to, const void *from, size_t bytes) {
    if (status() == 0) memmove(to, from, bytes);
    return status();
}

// ---- kernels ----

typedef void Kernel(const void *task, const unsigned *grid, unsigned threads);
typedef struct {
    Kernel *run;  // null: does nothing
    unsigned long task_size;
} Function;
typedef struct Launch {
    Function *function;
    void *task;
    unsigned grid[3], threads;
    struct Launch *next;
} Launch;
typedef struct {
    Launch *first, **end;
} Graph;
typedef struct {
    Graph *capturing;
} Stream;
// The beginning of CUlaunchConfig.
typedef struct {
    unsigned grid[3], block[3], shared;
    Stream *stream;
} Config;

// Kernels use static memory, so one runs at a time.
static pthread_mutex_t running = PTHREAD_MUTEX_INITIALIZER;

static int execute(const Launch *launch) {
    if (status() == 0 && launch->function->run) {
        pthread_mutex_lock(&running);
        launch->function->run(launch->task, launch->grid, launch->threads);
        pthread_mutex_unlock(&running);
    }
    return status();
}
static void *zeros(size_t size) { return calloc(1, size); }

static char nothing;

int cuModuleLoadData(void **module, const char *image) {
    if (memcmp(image, "\x7f" "ELF", 4)) return *module = &nothing, status();
    // The end of the image is that of its table of sections.
    uint64_t sections = *(uint64_t *)(image + 40), size = sections + *(uint16_t *)(image + 58) * *(uint16_t *)(image + 60);
    char path[] = "/tmp/emulated-kernels-XXXXXX";
    int file = mkstemp(path);
    if (file < 0 || write(file, image, size) != size) return 1;
    close(file);
    *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!*module) fprintf(stderr, "%s\n", dlerror());
    unlink(path);
    return *module ? status() : 1;
}
int cuModuleUnload(void *module) { return 0; }
int cuModuleGetFunction(Function **function, void *module, const char *name) {
    char size[200];
    snprintf(size, sizeof size, "size_of_%s", name);
    *function = zeros(sizeof **function);
    unsigned long *task_size = module == &nothing ? 0 : dlsym(module, size);
    if (task_size) (*function)->task_size = *task_size, (*function)->run = (Kernel *)dlsym(module, name);
    return status();
}
int cuFuncSetAttribute(void *function, int attribute, int value) { return status(); }
int cuLaunchKernelEx(const Config *config, Function *function, void **arguments, void **extra) {
    Launch launch = {function, arguments[0], {config->grid[0], config->grid[1], config->grid[2]}, config->block[0]};
    Graph *graph = config->stream->capturing;
    if (graph) {
        Launch *kept = zeros(sizeof *kept);
        *kept = launch;
        kept->task = memcpy(zeros(function->task_size + 1), launch.task, function->task_size);
        *graph->end = kept;
        graph->end = &kept->next;
        return status();
    }
    __sync_fetch_and_add(&launches, 1);
    return execute(&launch);
}
int cuStreamBeginCapture_v2(Stream *stream, int mode) {
    stream->capturing = zeros(sizeof *stream->capturing);
    stream->capturing->end = &stream->capturing->first;
    return status();
}
int cuStreamEndCapture(Stream *stream, Graph **graph) {
    *graph = stream->capturing;
    stream->capturing = 0;
    return status();
}
// A graph is its own executable, and is not freed.
int cuGraphInstantiateWithFlags(Graph **executable, Graph *graph, unsigned long long flags) { return *executable = graph, status(); }
int cuGraphLaunch(Graph *graph, void *stream) {
    __sync_fetch_and_add(&launches, 1);
    for (Launch *launch = graph->first; launch; launch = launch->next)
        if (execute(launch)) break;
    return status();
}
int cuGraphDestroy(void *graph) { return 0; }
int cuGraphExecDestroy(void *executable) { return 0; }

// ---- device, memory, streams and events ----

int cuInit(unsigned flags) { return 0; }
int cuDriverGetVersion(int *version) { return *version = 13000, 0; }
int cuDeviceGetCount(int *count) { return *count = 1, 0; }
int cuDeviceGet(int *device, int ordinal) { return *device = 0, 0; }
int cuDeviceGetName(char *name, int length, int device) { return snprintf(name, length, "emulated GPU"), 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    switch (attribute) {
        case 16: *value = 108; break;     // multiprocessors
        case 75: *value = 8; break;       // compute capability
        case 76: *value = 0; break;
        case 97: *value = 166912; break;  // shared memory of a block
        default: *value = 0;
    }
    return 0;
}
int cuDevicePrimaryCtxRetain(void **context, int device) { return handle(context); }
int cuDevicePrimaryCtxRelease_v2(int device) { return 0; }
int cuDevicePrimaryCtxSetFlags_v2(int device, unsigned flags) { return 0; }
int cuCtxSetCurrent(void *context) { return 0; }
int cuCtxGetCurrent(void **context) { return handle(context), 0; }
int cuCtxSetFlags(unsigned flags) { return 0; }
int cuCtxSynchronize(void) { return status(); }
int cuMemGetInfo_v2(size_t *free, size_t *total) {
    *free = *total = 80000000000;
    return status();
}
int cuMemAlloc_v2(void **out, size_t bytes) { return allocate(out, bytes); }
int cuMemAllocAsync(void **out, size_t bytes, void *stream) { return allocate(out, bytes); }
int cuMemFree_v2(void *memory) { return free(memory), 0; }
int cuMemFreeAsync(void *memory, void *stream) { return free(memory), 0; }
int cuMemHostAlloc(void **out, size_t bytes, unsigned flags) { return (*out = calloc(bytes, 1)) ? status() : OUT_OF_MEMORY; }
int cuMemFreeHost(void *memory) { return free(memory), 0; }
int cuMemcpyHtoDAsync_v2(void *to, const void *from, size_t bytes, void *stream) { return copy(to, from, bytes); }
int cuMemcpyDtoHAsync_v2(void *to, const void *from, size_t bytes, void *stream) { return copy(to, from, bytes); }
int cuMemcpyDtoDAsync_v2(void *to, const void *from, size_t bytes, void *stream) { return copy(to, from, bytes); }
int cuMemsetD8Async(void *to, unsigned char value, size_t bytes, void *stream) { return memset(to, value, bytes), status(); }
int cuStreamCreate(Stream **stream, unsigned flags) { return *stream = zeros(sizeof **stream), status(); }
int cuStreamDestroy_v2(void *stream) { return 0; }
int cuStreamSynchronize(void *stream) { return status(); }
int cuStreamWaitEvent(void *stream, void *event, unsigned flags) { return status(); }
int cuEventCreate(void **event, unsigned flags) { return handle(event); }
int cuEventRecord(void *event, void *stream) { return status(); }
int cuEventSynchronize(void *event) { return status(); }
int cuEventDestroy_v2(void *event) { return 0; }
int cuGetErrorName(int error, const char **name) {
    *name = error == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_LAUNCH_FAILED";
    return 0;
}
int cuGetErrorString(int error, const char **text) {
    *text = error == OUT_OF_MEMORY ? "out of memory" : "unspecified launch failure";
    return 0;
}
