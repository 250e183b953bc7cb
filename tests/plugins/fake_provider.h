/* A whole engine plugin over the bare C ABI, for tests of the backend. It is made of nothing but
 * `engine_plugin_api.h`, as a provider written for hipDNN would be, and reads the graph's bytes by
 * itself.
 *
 * Its one engine takes graphs of one forward attention whose name begins with "fake" (so that it
 * never runs anything else in the same process), and fills o, which must be FLOAT, with the
 * attention scale: the baked value of the scale tensor if it has one, else what the host pointer of
 * the pack holds, else attn_scale_value. If the node has a seed, the last element of o is the seed.
 * Of scalars of 16 bits in the pack it takes the bit pattern as the number.
 *
 * A source file defines FAKE_ENGINE, and what else it wants otherwise, then includes this file. */
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "raggeddnn/plugin/engine_plugin_api.h"

#ifndef FAKE_PLUGIN /* the plugin's name */
#define FAKE_PLUGIN "fake_plugin"
#endif
#ifndef FAKE_TYPE
#define FAKE_TYPE HIPDNN_PLUGIN_TYPE_ENGINE
#endif
#ifndef FAKE_ENGINE_COUNT /* what GetAllEngineIds reports */
#define FAKE_ENGINE_COUNT 1
#endif
#ifndef FAKE_APPLICABLE_COUNT /* what GetApplicableEngineIds reports for a graph it takes */
#define FAKE_APPLICABLE_COUNT 1
#endif
#ifndef FAKE_APPLICABLE_STATUS
#define FAKE_APPLICABLE_STATUS HIPDNN_PLUGIN_STATUS_SUCCESS
#endif
#ifndef FAKE_EXECUTE_STATUS
#define FAKE_EXECUTE_STATUS HIPDNN_PLUGIN_STATUS_SUCCESS
#endif
#ifndef FAKE_ERROR_TEXT /* goes with the two statuses above */
#define FAKE_ERROR_TEXT ""
#endif
#ifndef FAKE_ENGINE_ID
#define FAKE_ENGINE_ID fnv1a(FAKE_ENGINE)
#endif
/* Undefined, these leave the optional symbols out: FAKE_API_VERSION, FAKE_OVERRIDES, FAKE_SAVES,
 * FAKE_PRIORITY (with FAKE_DEVICE). FAKE_LACKS_SET_STREAM leaves a required one out. */
#ifndef FAKE_DEVICE
#define FAKE_DEVICE "cpu"
#endif

#ifdef __cplusplus
#define FAKE_EXTERN_C extern "C"
#else
#define FAKE_EXTERN_C
#endif
#define FAKE_API FAKE_EXTERN_C HIPDNN_PLUGIN_EXPORT

/* ---- the bytes of a graph ---- */

enum {
    TYPE_FLOAT = 1,
    TYPE_HALF = 2,
    TYPE_BFLOAT16 = 3,
    TYPE_DOUBLE = 4,
    TYPE_INT32 = 6,
    TYPE_INT64 = 15,
    TYPE_BOOLEAN = 16,
};

static inline int64_t fnv1a(const char* name) {
    uint64_t hash = 0xcbf29ce484222325ULL;
    for (; *name; ++name) hash = (hash ^ (unsigned char)*name) * 0x100000001b3ULL;
    return (int64_t)hash;
}

static uint32_t read_u32(const uint8_t* at) {
    uint32_t v;
    memcpy(&v, at, sizeof(v));
    return v;
}

static int64_t read_i64(const uint8_t* at) {
    int64_t v;
    memcpy(&v, at, sizeof(v));
    return v;
}

static const uint8_t* follow(const uint8_t* at) { return at ? at + read_u32(at) : NULL; }

/* The field in a slot of a table, or NULL where it is absent. */
static const uint8_t* field(const uint8_t* table, int slot) {
    const uint8_t* vtable = table - (int32_t)read_u32(table);
    uint16_t bytes, offset;
    memcpy(&bytes, vtable, 2);
    if (4 + 2 * slot + 2 > bytes) return NULL;
    memcpy(&offset, vtable + 4 + 2 * slot, 2);
    return offset ? table + offset : NULL;
}

static int64_t field_i64(const uint8_t* table, int slot, int64_t otherwise) {
    const uint8_t* at = field(table, slot);
    return at ? read_i64(at) : otherwise;
}

static int field_i8(const uint8_t* table, int slot) {
    const uint8_t* at = field(table, slot);
    return at ? (int8_t)*at : 0;
}

static const uint8_t* find_tensor(const uint8_t* graph, int64_t uid) {
    const uint8_t* tensors = follow(field(graph, 4));
    for (uint32_t i = 0; tensors && i < read_u32(tensors); ++i) {
        const uint8_t* tensor = follow(tensors + 4 + 4 * i);
        if (field_i64(tensor, 0, 0) == uid) return tensor;
    }
    return NULL;
}

/* ---- what a plan keeps ---- */

typedef struct {
    int is_set;
    int is_baked;
    int type;
    int64_t uid;
    double value;
} FakeScalar;

struct hipdnnEnginePluginHandle {
    hipdnnPluginStream_t stream;
};

struct hipdnnEnginePluginExecutionContext {
    int64_t o_uid;
    int64_t elements; /* of a dense o */
    int64_t offsets_uid;
    int64_t multiplier;
    int64_t batches;
    int is_ragged;
    FakeScalar scale;
    FakeScalar seed;
};

#if defined(__cplusplus)
#define FAKE_THREAD_LOCAL thread_local
#else
#define FAKE_THREAD_LOCAL _Thread_local
#endif
static FAKE_THREAD_LOCAL char last_error[HIPDNN_PLUGIN_ERROR_STRING_MAX_LENGTH];
static uint32_t times_asked;

static hipdnnPluginStatus_t fail_with(hipdnnPluginStatus_t status, const char* text) {
    snprintf(last_error, sizeof(last_error), "%s", text);
    return status;
}

static double scalar_at(int type, const void* at) {
    switch (type) {
        case TYPE_DOUBLE: {
            double v;
            memcpy(&v, at, sizeof(v));
            return v;
        }
        case TYPE_INT64: return (double)read_i64((const uint8_t*)at);
        case TYPE_INT32: return (double)(int32_t)read_u32((const uint8_t*)at);
        case TYPE_BOOLEAN: return *(const uint8_t*)at;
        case TYPE_HALF:
        case TYPE_BFLOAT16: {
            uint16_t bits;
            memcpy(&bits, at, sizeof(bits));
            return bits;
        }
        default: {
            float v;
            memcpy(&v, at, sizeof(v));
            return v;
        }
    }
}

static FakeScalar read_scalar(const uint8_t* graph, const uint8_t* uid_field) {
    FakeScalar s;
    memset(&s, 0, sizeof(s));
    const uint8_t* tensor = uid_field ? find_tensor(graph, read_i64(uid_field)) : NULL;
    if (!tensor) return s;
    s.is_set = 1;
    s.uid = read_i64(uid_field);
    s.type = field_i8(tensor, 2);
    const int tag = field_i8(tensor, 6);
    s.is_baked = tag != 0;
    if (s.is_baked) {
        /* By the tag of TensorValue; 16-bit types are stored as float. */
        static const int stored[] = {0,          TYPE_FLOAT,  TYPE_FLOAT, TYPE_FLOAT,  TYPE_BOOLEAN,
                                     TYPE_INT32, TYPE_DOUBLE, TYPE_INT64, TYPE_BOOLEAN};
        s.value = scalar_at(stored[tag], follow(field(tensor, 7)));
    }
    return s;
}

static void* find_buffer(const hipdnnPluginDeviceBuffer_t* buffers, uint32_t count, int64_t uid) {
    for (uint32_t i = 0; i < count; ++i) {
        if (buffers[i].uid == uid) return buffers[i].ptr;
    }
    return NULL;
}

/* The variant pack's pointer of a tensor that is needed, or NULL with a text. */
static void* need_buffer(const hipdnnPluginDeviceBuffer_t* buffers, uint32_t count, int64_t uid,
                         const char* role) {
    void* ptr = find_buffer(buffers, count, uid);
    if (!ptr) {
        snprintf(last_error, sizeof(last_error), "%s: no buffer for %s (uid %lld), expected one",
                 FAKE_ENGINE, role, (long long)uid);
    }
    return ptr;
}

static int resolve(FakeScalar* s, const hipdnnPluginDeviceBuffer_t* buffers, uint32_t count,
                   const char* role) {
    if (!s->is_set || s->is_baked) return 1;
    const void* ptr = need_buffer(buffers, count, s->uid, role);
    if (ptr) s->value = scalar_at(s->type, ptr);
    return ptr != NULL;
}

/* ---- the ABI ---- */

/* Not of the ABI: how often GetApplicableEngineIds was called. */
FAKE_API uint32_t fake_times_asked(void) { return times_asked; }

FAKE_API hipdnnPluginStatus_t hipdnnPluginGetName(const char** name) {
    *name = FAKE_PLUGIN;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

FAKE_API hipdnnPluginStatus_t hipdnnPluginGetVersion(const char** version) {
    *version = "9.8.7";
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

FAKE_API hipdnnPluginStatus_t hipdnnPluginGetType(hipdnnPluginType_t* type) {
    *type = FAKE_TYPE;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

#ifdef FAKE_API_VERSION
FAKE_API hipdnnPluginStatus_t hipdnnPluginGetApiVersion(const char** version) {
    *version = FAKE_API_VERSION;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}
#endif

/* As hipDNN's providers do it, the text stays until the next one. */
FAKE_API void hipdnnPluginGetLastErrorString(const char** text) { *text = last_error; }

FAKE_API hipdnnPluginStatus_t hipdnnPluginSetLoggingCallback(hipdnnCallback_t callback) {
    (void)callback;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

FAKE_API hipdnnPluginStatus_t hipdnnEnginePluginGetAllEngineIds(int64_t* ids, uint32_t max_ids,
                                                                uint32_t* count) {
    *count = FAKE_ENGINE_COUNT;
    if (max_ids > 0) ids[0] = FAKE_ENGINE_ID;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

FAKE_API hipdnnPluginStatus_t hipdnnEnginePluginGetEngineName(int64_t engine_id,
                                                              const char** name) {
    if (engine_id != FAKE_ENGINE_ID) return HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE;
    *name = FAKE_ENGINE;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

FAKE_API hipdnnPluginStatus_t hipdnnEnginePluginCreate(hipdnnEnginePluginHandle_t* handle) {
    *handle = (hipdnnEnginePluginHandle_t)calloc(1, sizeof(**handle));
    return *handle ? HIPDNN_PLUGIN_STATUS_SUCCESS : HIPDNN_PLUGIN_STATUS_ALLOC_FAILED;
}

FAKE_API hipdnnPluginStatus_t hipdnnEnginePluginDestroy(hipdnnEnginePluginHandle_t handle) {
    free(handle);
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

#ifndef FAKE_LACKS_SET_STREAM
FAKE_API hipdnnPluginStatus_t hipdnnEnginePluginSetStream(hipdnnEnginePluginHandle_t handle,
                                                          hipdnnPluginStream_t stream) {
    handle->stream = stream;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}
#endif

FAKE_API hipdnnPluginStatus_t hipdnnEnginePluginGetApplicableEngineIds(
    hipdnnEnginePluginHandle_t handle, const hipdnnPluginConstData_t* graph, int64_t* ids,
    uint32_t max_ids, uint32_t* count) {
    (void)handle;
    ++times_asked;
    const uint8_t* root = follow((const uint8_t*)graph->ptr);
    const uint8_t* name = follow(field(root, 0));
    *count = 0;
    if (!name || strncmp((const char*)name + 4, "fake", 4) != 0) {
        return fail_with(HIPDNN_PLUGIN_STATUS_SUCCESS,
                         FAKE_ENGINE ": the graph's name does not begin with 'fake'");
    }
    if (FAKE_APPLICABLE_STATUS != HIPDNN_PLUGIN_STATUS_SUCCESS) {
        return fail_with(FAKE_APPLICABLE_STATUS, FAKE_ERROR_TEXT);
    }
#ifdef FAKE_THROWS
    FAKE_THROWS;
#endif
    *count = FAKE_APPLICABLE_COUNT;
    if (max_ids > 0) ids[0] = FAKE_ENGINE_ID;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

FAKE_API hipdnnPluginStatus_t hipdnnEnginePluginGetEngineDetails(
    hipdnnEnginePluginHandle_t handle, int64_t engine_id, const hipdnnPluginConstData_t* graph,
    hipdnnPluginConstData_t* details) {
    (void)handle, (void)engine_id, (void)graph, (void)details;
    return fail_with(HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE, "no details");
}

FAKE_API hipdnnPluginStatus_t hipdnnEnginePluginDestroyEngineDetails(
    hipdnnEnginePluginHandle_t handle, hipdnnPluginConstData_t* details) {
    (void)handle, (void)details;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

FAKE_API hipdnnPluginStatus_t hipdnnEnginePluginGetWorkspaceSize(
    hipdnnEnginePluginHandle_t handle, const hipdnnPluginConstData_t* engine_config,
    const hipdnnPluginConstData_t* graph, size_t* workspace_size) {
    (void)handle, (void)engine_config, (void)graph;
    *workspace_size = 0;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

FAKE_API hipdnnPluginStatus_t hipdnnEnginePluginCreateExecutionContext(
    hipdnnEnginePluginHandle_t handle, const hipdnnPluginConstData_t* engine_config,
    const hipdnnPluginConstData_t* graph, hipdnnEnginePluginExecutionContext_t* context) {
    (void)handle, (void)engine_config;
    const uint8_t* root = follow((const uint8_t*)graph->ptr);
    const uint8_t* nodes = follow(field(root, 5));
    const uint8_t* sdpa = follow(field(follow(nodes + 4), 3));
    const int64_t o_uid = field_i64(sdpa, 3, 0);
    const uint8_t* o = find_tensor(root, o_uid);
    const uint8_t* dims = follow(field(o, 4));
    hipdnnEnginePluginExecutionContext_t c =
        (hipdnnEnginePluginExecutionContext_t)calloc(1, sizeof(**context));
    if (!c) return HIPDNN_PLUGIN_STATUS_ALLOC_FAILED;
    c->o_uid = o_uid;
    c->elements = 1;
    for (uint32_t i = 0; i < read_u32(dims); ++i) c->elements *= read_i64(dims + 4 + 8 * i);
    c->batches = read_i64(dims + 4);
    c->is_ragged = field(o, 9) != NULL;
    c->offsets_uid = field_i64(o, 9, 0);
    c->multiplier = field_i64(o, 11, 1);
    c->scale = read_scalar(root, field(sdpa, 5));
    c->seed = read_scalar(root, field(sdpa, 8));
    const uint8_t* number = field(sdpa, 34);
    if (!c->scale.is_set && number) c->scale.value = scalar_at(TYPE_FLOAT, number);
    *context = c;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

FAKE_API hipdnnPluginStatus_t hipdnnEnginePluginDestroyExecutionContext(
    hipdnnEnginePluginHandle_t handle, hipdnnEnginePluginExecutionContext_t context) {
    (void)handle;
    free(context);
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

FAKE_API hipdnnPluginStatus_t hipdnnEnginePluginGetWorkspaceSizeFromExecutionContext(
    hipdnnEnginePluginHandle_t handle, hipdnnEnginePluginExecutionContext_t context,
    size_t* workspace_size) {
    (void)handle, (void)context;
    *workspace_size = 0;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

FAKE_API hipdnnPluginStatus_t hipdnnEnginePluginExecuteOpGraph(
    hipdnnEnginePluginHandle_t handle, hipdnnEnginePluginExecutionContext_t context,
    void* workspace, const hipdnnPluginDeviceBuffer_t* buffers, uint32_t buffer_count) {
    (void)handle, (void)workspace;
    if (FAKE_EXECUTE_STATUS != HIPDNN_PLUGIN_STATUS_SUCCESS) {
        return fail_with(FAKE_EXECUTE_STATUS, FAKE_ERROR_TEXT);
    }
    FakeScalar scale = context->scale; /* copies: a context is shared by threads */
    FakeScalar seed = context->seed;
    float* o = (float*)need_buffer(buffers, buffer_count, context->o_uid, "o");
    if (!o || !resolve(&scale, buffers, buffer_count, "scale") ||
        !resolve(&seed, buffers, buffer_count, "seed")) {
        return HIPDNN_PLUGIN_STATUS_INVALID_VALUE;
    }
    int64_t elements = context->elements;
    if (context->is_ragged) {
        const uint8_t* offsets =
            (const uint8_t*)need_buffer(buffers, buffer_count, context->offsets_uid, "offsets");
        if (!offsets) return HIPDNN_PLUGIN_STATUS_INVALID_VALUE;
        elements = (int32_t)read_u32(offsets + 4 * context->batches) * context->multiplier;
    }
    for (int64_t i = 0; i < elements; ++i) o[i] = (float)scale.value;
    if (seed.is_set && elements > 0) o[elements - 1] = (float)seed.value;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

#ifdef FAKE_OVERRIDES
FAKE_API hipdnnPluginStatus_t hipdnnEnginePluginExecuteOpGraphWithOverrides(
    hipdnnEnginePluginHandle_t handle, hipdnnEnginePluginExecutionContext_t context,
    void* workspace, const hipdnnPluginDeviceBuffer_t* buffers, uint32_t buffer_count,
    uint32_t override_count, const int64_t* uids, const uint32_t* lengths,
    const int64_t* const* shapes, const int64_t* const* strides) {
    (void)override_count, (void)uids, (void)lengths, (void)shapes, (void)strides;
    return hipdnnEnginePluginExecuteOpGraph(handle, context, workspace, buffers, buffer_count);
}
#endif

#ifdef FAKE_SAVES
/* The payload: its version, then the context, in which the runtime scalars are known. */
enum { PAYLOAD_VERSION = 1 };

FAKE_API hipdnnPluginStatus_t hipdnnEnginePluginSerializeExecutionContextWithEngineId(
    hipdnnEnginePluginHandle_t handle, int64_t engine_id,
    hipdnnEnginePluginExecutionContext_t context, hipdnnPluginConstData_t* data) {
    (void)handle, (void)engine_id;
    const uint32_t version = PAYLOAD_VERSION;
    uint8_t* bytes = (uint8_t*)malloc(sizeof(version) + sizeof(*context));
    if (!bytes) return HIPDNN_PLUGIN_STATUS_ALLOC_FAILED;
    memcpy(bytes, &version, sizeof(version));
    memcpy(bytes + sizeof(version), context, sizeof(*context));
    data->ptr = bytes;
    data->size = sizeof(version) + sizeof(*context);
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

FAKE_API hipdnnPluginStatus_t hipdnnEnginePluginDestroySerializedExecutionContext(
    hipdnnEnginePluginHandle_t handle, hipdnnPluginConstData_t* data) {
    (void)handle;
    free((void*)data->ptr);
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}

FAKE_API hipdnnPluginStatus_t hipdnnEnginePluginCreateExecutionContextFromSerialized(
    hipdnnEnginePluginHandle_t handle, const hipdnnPluginConstData_t* data,
    hipdnnEnginePluginExecutionContext_t* context) {
    (void)handle;
    if (data->size != sizeof(uint32_t) + sizeof(**context) ||
        read_u32((const uint8_t*)data->ptr) != PAYLOAD_VERSION) {
        return fail_with(HIPDNN_PLUGIN_STATUS_INVALID_VALUE,
                         FAKE_ENGINE ": the payload is not of version 1");
    }
    *context = (hipdnnEnginePluginExecutionContext_t)malloc(sizeof(**context));
    if (!*context) return HIPDNN_PLUGIN_STATUS_ALLOC_FAILED;
    memcpy(*context, (const uint8_t*)data->ptr + sizeof(uint32_t), sizeof(**context));
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}
#endif

#ifdef FAKE_PRIORITY
FAKE_API hipdnnPluginStatus_t
raggeddnnEnginePluginGetEngineTraits(int64_t engine_id, raggeddnnEngineTraits_t* traits) {
    if (engine_id != FAKE_ENGINE_ID) return HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE;
    traits->device = FAKE_DEVICE;
    traits->priority = FAKE_PRIORITY;
    return HIPDNN_PLUGIN_STATUS_SUCCESS;
}
#endif
