/* What the C programs share: checks that say what failed, and short forms of the API's long calls.
 *
 * A program runs all its checks, prints each failure with its line, and exits with 1 if there was
 * one. Only the public header is used. */
#ifndef RAGGEDDNN_TESTS_C_CHECK_H
#define RAGGEDDNN_TESTS_C_CHECK_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "raggeddnn/backend/hipdnn_backend.h"

static int failures = 0;

#define CHECK(condition) check_((condition) != 0, __FILE__, __LINE__, #condition)
#define EXPECT(status, call) expect_((status), (call), __FILE__, __LINE__, #call)
#define OK(call) EXPECT(HIPDNN_STATUS_SUCCESS, call)
/* The last error is there, names `part`, and is cleared. */
#define ERROR_NAMES(part) error_names_((part), __FILE__, __LINE__)

static inline void check_(int holds, const char* file, int line, const char* text) {
    if (holds) return;
    ++failures;
    printf("%s:%d: failed: %s\n", file, line, text);
}

static inline int expect_(hipdnnStatus_t expected, hipdnnStatus_t got, const char* file, int line,
                          const char* text) {
    char error[512];
    if (got == expected) return 1;
    ++failures;
    hipdnnGetLastErrorString(error, sizeof(error));
    printf("%s:%d: %s\n  got %s, expected %s\n  last error: %s\n", file, line, text,
           hipdnnGetErrorString(got), hipdnnGetErrorString(expected), error);
    return 0;
}

static inline void error_names_(const char* part, const char* file, int line) {
    char peeked[512];
    char got[512];
    char cleared[8];
    hipdnnPeekLastErrorString_ext(peeked, sizeof(peeked));
    hipdnnGetLastErrorString(got, sizeof(got));
    hipdnnPeekLastErrorString_ext(cleared, sizeof(cleared));
    if (strcmp(peeked, got) == 0 && strstr(got, part) && cleared[0] == '\0') return;
    ++failures;
    printf("%s:%d: the last error is '%s' (peeked '%s', then '%s'), expected to contain '%s'\n",
           file, line, got, peeked, cleared, part);
}

static inline int report(const char* program) {
    printf("%s: %d failures\n", program, failures);
    return failures == 0 ? 0 : 1;
}

typedef hipdnnBackendDescriptor_t descriptor_t;

static inline descriptor_t create(hipdnnBackendDescriptorType_t type) {
    descriptor_t descriptor = NULL;
    OK(hipdnnBackendCreateDescriptor(type, &descriptor));
    return descriptor;
}

static inline hipdnnStatus_t set(descriptor_t descriptor, int name,
                                 hipdnnBackendAttributeType_t type, int64_t count,
                                 const void* elements) {
    return hipdnnBackendSetAttribute(descriptor, (hipdnnBackendAttributeName_t)name, type, count,
                                     elements);
}

static inline hipdnnStatus_t get(descriptor_t descriptor, int name,
                                 hipdnnBackendAttributeType_t type, int64_t requested,
                                 int64_t* count, void* elements) {
    return hipdnnBackendGetAttribute(descriptor, (hipdnnBackendAttributeName_t)name, type,
                                     requested, count, elements);
}

static inline void set_int64(descriptor_t descriptor, int name, int64_t value) {
    OK(set(descriptor, name, HIPDNN_TYPE_INT64, 1, &value));
}

static inline void set_bool(descriptor_t descriptor, int name, bool value) {
    OK(set(descriptor, name, HIPDNN_TYPE_BOOLEAN, 1, &value));
}

static inline void set_data_type(descriptor_t descriptor, int name, hipdnnDataType_t value) {
    OK(set(descriptor, name, HIPDNN_TYPE_DATA_TYPE, 1, &value));
}

static inline void set_text(descriptor_t descriptor, int name, const char* text) {
    OK(set(descriptor, name, HIPDNN_TYPE_CHAR, (int64_t)strlen(text), text));
}

static inline void set_descriptor(descriptor_t descriptor, int name, descriptor_t value) {
    OK(set(descriptor, name, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value));
}

static inline int64_t get_int64(descriptor_t descriptor, int name) {
    int64_t value = -1;
    OK(get(descriptor, name, HIPDNN_TYPE_INT64, 1, NULL, &value));
    return value;
}

static inline bool get_bool(descriptor_t descriptor, int name) {
    bool value = false;
    OK(get(descriptor, name, HIPDNN_TYPE_BOOLEAN, 1, NULL, &value));
    return value;
}

/* Without what belongs to one kind of tensor; not final yet. */
static inline descriptor_t new_tensor(int64_t uid, hipdnnDataType_t type, int64_t rank,
                                      const int64_t* dims, const int64_t* strides) {
    descriptor_t tensor = create(HIPDNN_BACKEND_TENSOR_DESCRIPTOR);
    set_int64(tensor, HIPDNN_ATTR_TENSOR_UNIQUE_ID, uid);
    set_data_type(tensor, HIPDNN_ATTR_TENSOR_DATA_TYPE, type);
    OK(set(tensor, HIPDNN_ATTR_TENSOR_DIMENSIONS, HIPDNN_TYPE_INT64, rank, dims));
    OK(set(tensor, HIPDNN_ATTR_TENSOR_STRIDES, HIPDNN_TYPE_INT64, rank, strides));
    return tensor;
}

static inline descriptor_t new_scalar(int64_t uid, hipdnnDataType_t type) {
    const int64_t one = 1;
    return new_tensor(uid, type, 1, &one, &one);
}

static inline descriptor_t final(descriptor_t descriptor) {
    OK(hipdnnBackendFinalize(descriptor));
    return descriptor;
}

static inline void destroy(descriptor_t descriptor) {
    OK(hipdnnBackendDestroyDescriptor(descriptor));
}

#endif
