// A kernel compiler that compiles for the processor, by the script that COMPILE names.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    char *source, *image, log[4000];
    size_t size;
} Program;

static FILE *open_file(const char *folder, const char *name, const char *mode) {
    char path[200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return fopen(path, mode);
}

int nvrtcVersion(int *major, int *minor) { return *major = 13, *minor = 0, 0; }
int nvrtcCreateProgram(Program **program, const char *source, const char *name, int count, const char *const *headers, const char *const *names) {
    *program = calloc(1, sizeof **program);
    (*program)->source = strdup(source);
    return 0;
}
int nvrtcCompileProgram(Program *program, int count, const char *const *options) {
    char folder[] = "/tmp/emulated-kernels-XXXXXX", command[8000];
    if (!mkdtemp(folder)) return 1;
    FILE *file = open_file(folder, "source.cu", "w");
    fputs(program->source, file);
    fclose(file);
    int length = snprintf(command, sizeof command, "'%s' %s", COMPILE, folder);
    for (int k = 0; k < count; ++k) length += snprintf(command + length, sizeof command - length, " '%s'", options[k]);
    snprintf(command + length, sizeof command - length, " 2> %s/log", folder);
    int failed = system(command);
    if (failed) {
        file = open_file(folder, "log", "r");
        program->log[fread(program->log, 1, sizeof program->log - 1, file)] = 0;
    } else {
        file = open_file(folder, "kernels.so", "r");
        fseek(file, 0, SEEK_END);
        program->size = ftell(file);
        rewind(file);
        program->image = malloc(program->size);
        failed = fread(program->image, 1, program->size, file) != program->size;
    }
    fclose(file);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    system(command);
    return failed ? 6 : 0;
}
int nvrtcGetCUBINSize(Program *program, size_t *size) { return *size = program->size, 0; }
int nvrtcGetCUBIN(Program *program, char *image) { return memcpy(image, program->image, program->size), 0; }
int nvrtcGetProgramLogSize(Program *program, size_t *size) { return *size = strlen(program->log) + 1, 0; }
int nvrtcGetProgramLog(Program *program, char *log) { return strcpy(log, program->log), 0; }
int nvrtcDestroyProgram(Program **program) {
    free((*program)->source);
    free((*program)->image);
    free(*program);
    return 0;
}
const char *nvrtcGetErrorString(int error) { return "the kernels do not compile"; }
