/* Not a plugin: HIP's memory functions over host memory, loaded under the name of the real library.
 * "Device" pointers are offset by one page's worth, so that one that is read on the host is noticed
 * by what it holds. FAKE_GPU_FAILS names a function that reports failure. */
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define GAP 4096 /* bytes */

static int status_of(const char* name) {
    const char* failing = getenv("FAKE_GPU_FAILS");
    return failing && strcmp(failing, name) == 0 ? 2 : 0;
}

EXPORT int hipGetDeviceCount(int* count) {
    *count = getenv("FAKE_GPU_NONE") ? 0 : 1;
    return status_of("hipGetDeviceCount");
}

EXPORT int hipMalloc(void** memory, size_t bytes) {
    char* whole = status_of("hipMalloc") ? NULL : calloc(1, bytes + GAP);
    *memory = whole ? whole + GAP : NULL;
    return whole ? 0 : 2;
}

EXPORT int hipFree(void* memory) {
    free((char*)memory - GAP);
    return 0;
}

EXPORT int hipHostMalloc(void** memory, size_t bytes, unsigned flags) {
    (void)flags;
    *memory = status_of("hipHostMalloc") ? NULL : malloc(bytes);
    return *memory ? 0 : 2;
}

EXPORT int hipHostFree(void* memory) {
    free(memory);
    return 0;
}

EXPORT int hipMemcpy(void* to, const void* from, size_t bytes, int kind) {
    if ((kind != 1 && kind != 2) || status_of("hipMemcpy")) return 2;
    memcpy(to, from, bytes);
    return 0;
}

EXPORT const char* hipGetErrorString(int status) { return status ? "fake failure" : "success"; }
