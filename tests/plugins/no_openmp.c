/* Preloaded, this keeps a program from opening GNU's OpenMP library, as if there were none. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

__attribute__((visibility("default"))) void* dlopen(const char* name, int flags) {
    void* (*next)(const char*, int) = NULL;
    *(void**)&next = dlsym(RTLD_NEXT, "dlopen");
    return name && strstr(name, "libgomp") ? NULL : next(name, flags);
}
