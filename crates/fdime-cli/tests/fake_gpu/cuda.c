// A CUDA driver without a GPU, for tests of what happens when a GPU fails. Memory and copies are
// real, kernels do nothing.
//   FAKE_GPU_MEMORY=BYTES    larger allocations fail, although more memory is reported as free
//   FAKE_GPU_LAUNCHES=COUNT  the GPU disappears after that many launches of graphs or kernels
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OUT_OF_MEMORY = 2, LAUNCH_FAILED = 719 };
static long launches;

static int status(void) {
    const char *limit = getenv("FAKE_GPU_LAUNCHES");
    return limit && launches > atol(limit) ? LAUNCH_FAILED : 0;
}
static int handle(void **out) {
    static char object;
    *out = &object;
    return status();
}
static int allocate(void **out, size_t bytes) {
    const char *limit = getenv("FAKE_GPU_MEMORY");
    if (limit && bytes > strtoull(limit, 0, 10)) return OUT_OF_MEMORY;
    *out = calloc(bytes ? bytes : 1, 1);
    return *out ? status() : OUT_OF_MEMORY;
}
static int copy(void *to, const void *from, size_t bytes) {
    if (status() == 0) memmove(to, from, bytes);
    return status();
}
static int launch(void) {
    __sync_fetch_and_add(&launches, 1);
    return status();
}

int cuInit(unsigned flags) { return 0; }
int cuDriverGetVersion(int *version) { return *version = 13000, 0; }
int cuDeviceGetCount(int *count) { return *count = 1, 0; }
int cuDeviceGet(int *device, int ordinal) { return *device = 0, 0; }
int cuDeviceGetName(char *name, int length, int device) { return snprintf(name, length, "fake GPU"), 0; }
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
// Only new memory is set, to zeros, which it has.
int cuMemsetD8Async(void *to, unsigned char value, size_t bytes, void *stream) { return status(); }
int cuStreamCreate(void **stream, unsigned flags) { return handle(stream); }
int cuStreamDestroy_v2(void *stream) { return 0; }
int cuStreamSynchronize(void *stream) { return status(); }
int cuStreamWaitEvent(void *stream, void *event, unsigned flags) { return status(); }
int cuStreamBeginCapture_v2(void *stream, int mode) { return status(); }
int cuStreamEndCapture(void *stream, void **graph) { return handle(graph); }
int cuGraphInstantiateWithFlags(void **executable, void *graph, unsigned long long flags) { return handle(executable); }
int cuGraphLaunch(void *executable, void *stream) { return launch(); }
int cuGraphDestroy(void *graph) { return 0; }
int cuGraphExecDestroy(void *executable) { return 0; }
int cuEventCreate(void **event, unsigned flags) { return handle(event); }
int cuEventRecord(void *event, void *stream) { return status(); }
int cuEventSynchronize(void *event) { return status(); }
int cuEventDestroy_v2(void *event) { return 0; }
int cuModuleLoadData(void **module, const void *image) { return handle(module); }
int cuModuleUnload(void *module) { return 0; }
int cuModuleGetFunction(void **function, void *module, const char *name) { return handle(function); }
int cuFuncSetAttribute(void *function, int attribute, int value) { return status(); }
int cuLaunchKernelEx(const void *config, void *function, void **arguments, void **extra) { return launch(); }
int cuGetErrorName(int error, const char **name) {
    *name = error == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_LAUNCH_FAILED";
    return 0;
}
int cuGetErrorString(int error, const char **text) {
    *text = error == OUT_OF_MEMORY ? "out of memory" : "unspecified launch failure";
    return 0;
}
