// A kernel compiler that compiles everything to nothing, for tests with driver.c that need no results.
#include <stddef.h>
#include <string.h>

int nvrtcVersion(int *major, int *minor) { return *major = 13, *minor = 0, 0; }
int nvrtcCreateProgram(void **program, const char *source, const char *name, int count, const char *const *headers, const char *const *names) {
    static char object;
    return *program = &object, 0;
}
int nvrtcCompileProgram(void *program, int count, const char *const *options) { return 0; }
int nvrtcGetCUBINSize(void *program, size_t *size) { return *size = 8, 0; }
int nvrtcGetCUBIN(void *program, char *image) { return memcpy(image, "nothing", 8), 0; }
int nvrtcGetProgramLogSize(void *program, size_t *size) { return *size = 1, 0; }
int nvrtcGetProgramLog(void *program, char *log) { return *log = 0, 0; }
int nvrtcDestroyProgram(void **program) { return 0; }
const char *nvrtcGetErrorString(int error) { return "error"; }
