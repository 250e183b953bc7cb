/* The C ABI between the backend and an engine plugin: hipDNN's engine plugin ABI, name for name.
 *
 * A plugin is a shared library that exports the functions below. Written for hipDNN it loads here,
 * written here it loads in hipDNN. Only <stddef.h> and <stdint.h> are needed; every pointer's owner
 * is stated. C++ authors get all of it from `raggeddnn/plugin/engine.hpp`.
 *
 * Thread safety: the backend uses a plugin handle from one thread at a time; an execution context
 * is immutable after creation and may be executed through several handles at once.
 */
#ifndef RAGGEDDNN_PLUGIN_ENGINE_PLUGIN_API_H
#define RAGGEDDNN_PLUGIN_ENGINE_PLUGIN_API_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define HIPDNN_PLUGIN_EXPORT __declspec(dllexport)
#else
#define HIPDNN_PLUGIN_EXPORT __attribute__((visibility("default")))
#endif

/* The newest plugin API that these headers describe; what each minor version added is listed in
 * `raggeddnn/plugin/api_version.hpp`. */
#define HIPDNN_ENGINE_API_VERSION_MAJOR 1
#define HIPDNN_ENGINE_API_VERSION_MINOR 4
#define HIPDNN_ENGINE_API_VERSION_PATCH 0
#define HIPDNN_ENGINE_API_VERSION "1.4.0"

/* Longest text, terminator included, that a plugin keeps for its last error. */
#define HIPDNN_PLUGIN_ERROR_STRING_MAX_LENGTH 2048

/* C++ may get numbers that no enumerator has, as C may: defined only for enums with a type. */
#ifndef HIPDNN_ENUM_INT
#ifdef __cplusplus
#define HIPDNN_ENUM_INT : int
#else
#define HIPDNN_ENUM_INT
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum HIPDNN_ENUM_INT {
    HIPDNN_PLUGIN_STATUS_SUCCESS = 0,
    HIPDNN_PLUGIN_STATUS_BAD_PARAM = 1,
    HIPDNN_PLUGIN_STATUS_INVALID_VALUE = 2,
    HIPDNN_PLUGIN_STATUS_INTERNAL_ERROR = 3,
    HIPDNN_PLUGIN_STATUS_ALLOC_FAILED = 4,
    HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE = 5,
    HIPDNN_PLUGIN_STATUS_NOT_INITIALIZED = 6
} hipdnnPluginStatus_t;

typedef enum HIPDNN_ENUM_INT {
    HIPDNN_PLUGIN_TYPE_UNSPECIFIED = 0,
    HIPDNN_PLUGIN_TYPE_ENGINE = 1,
    HIPDNN_PLUGIN_TYPE_HEURISTIC = 2
} hipdnnPluginType_t;

/* Bytes that somebody else owns. */
typedef struct {
    const void* ptr;
    size_t size;
} hipdnnPluginConstData_t;

/* One entry of a variant pack. `ptr` is device memory, or, for a tensor with
 * `is_runtime_pass_by_value`, host memory that holds the scalar. Valid during the call only. */
typedef struct {
    int64_t uid;
    void* ptr;
} hipdnnPluginDeviceBuffer_t;

typedef struct hipdnnEnginePluginHandle* hipdnnEnginePluginHandle_t;
typedef struct hipdnnEnginePluginExecutionContext* hipdnnEnginePluginExecutionContext_t;

/* hipStream_t or cudaStream_t; NULL on a CPU. */
typedef void* hipdnnPluginStream_t;

/* The C API's header declares these two as well, under the same guard. */
#ifndef HIPDNN_CALLBACK_TYPES_DEFINED
#define HIPDNN_CALLBACK_TYPES_DEFINED
typedef enum HIPDNN_ENUM_INT {
    HIPDNN_SEV_INFO = 0,
    HIPDNN_SEV_WARN = 1,
    HIPDNN_SEV_ERROR = 2,
    HIPDNN_SEV_FATAL = 3,
    HIPDNN_SEV_OFF = 4
} hipdnnSeverity_t;

typedef void (*hipdnnCallback_t)(hipdnnSeverity_t severity, const char* text);
#endif

/* ---- every plugin ---- */

/* The strings returned live as long as the plugin is loaded. */
HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnPluginGetName(const char** name);
HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnPluginGetVersion(const char** version);
HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnPluginGetType(hipdnnPluginType_t* type);

/* Optional: "MAJOR.MINOR.PATCH" of the API it was built against; absent means "1.0.0". */
HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnPluginGetApiVersion(const char** version);

/* Why the last call on this thread failed, or why engines declined. Never NULL; owned by the
 * plugin, valid until its next call on this thread. */
HIPDNN_PLUGIN_EXPORT void hipdnnPluginGetLastErrorString(const char** text);

HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnPluginSetLoggingCallback(hipdnnCallback_t callback);

/* ---- engine plugins ---- */

/* Writes up to `max_ids` ids and the total number to `*count`; max_ids 0 asks for the number. An id
 * is the 64-bit FNV-1a hash of the engine's name. */
HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginGetAllEngineIds(int64_t* ids,
                                                                            uint32_t max_ids,
                                                                            uint32_t* count);

/* Optional: the name behind an id. NOT_APPLICABLE: no name for it. */
HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginGetEngineName(int64_t engine_id,
                                                                          const char** name);

HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t
hipdnnEnginePluginCreate(hipdnnEnginePluginHandle_t* handle);
HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t
hipdnnEnginePluginDestroy(hipdnnEnginePluginHandle_t handle);
HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t
hipdnnEnginePluginSetStream(hipdnnEnginePluginHandle_t handle, hipdnnPluginStream_t stream);

/* `graph`: a verified FlatBuffers Graph. Writes up to `max_ids` applicable ids, and the total to
 * `*count` even when that exceeds `max_ids`. Engines that decline may say why in the last-error
 * string, one line "ENGINE_NAME: reason" each. */
HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginGetApplicableEngineIds(
    hipdnnEnginePluginHandle_t handle, const hipdnnPluginConstData_t* graph, int64_t* ids,
    uint32_t max_ids, uint32_t* count);

/* `details`: a FlatBuffers EngineDetails owned by the plugin until DestroyEngineDetails. */
HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginGetEngineDetails(
    hipdnnEnginePluginHandle_t handle, int64_t engine_id, const hipdnnPluginConstData_t* graph,
    hipdnnPluginConstData_t* details);
HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginDestroyEngineDetails(
    hipdnnEnginePluginHandle_t handle, hipdnnPluginConstData_t* details);

/* `engine_config`: a FlatBuffers EngineConfig (engine id and knobs). Sizes are bytes. */
HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginGetWorkspaceSize(
    hipdnnEnginePluginHandle_t handle, const hipdnnPluginConstData_t* engine_config,
    const hipdnnPluginConstData_t* graph, size_t* workspace_size);
HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginCreateExecutionContext(
    hipdnnEnginePluginHandle_t handle, const hipdnnPluginConstData_t* engine_config,
    const hipdnnPluginConstData_t* graph, hipdnnEnginePluginExecutionContext_t* context);
HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginDestroyExecutionContext(
    hipdnnEnginePluginHandle_t handle, hipdnnEnginePluginExecutionContext_t context);
HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginGetWorkspaceSizeFromExecutionContext(
    hipdnnEnginePluginHandle_t handle, hipdnnEnginePluginExecutionContext_t context,
    size_t* workspace_size);

/* `workspace`: at least the stated bytes, or NULL where that is 0. Buffers are the caller's. */
HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginExecuteOpGraph(
    hipdnnEnginePluginHandle_t handle, hipdnnEnginePluginExecutionContext_t context,
    void* workspace, const hipdnnPluginDeviceBuffer_t* buffers, uint32_t buffer_count);

/* Optional, since 1.1.0: the same with other shapes and strides for `override_count` tensors; entry
 * i has `lengths[i]` dims. */
HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginExecuteOpGraphWithOverrides(
    hipdnnEnginePluginHandle_t handle, hipdnnEnginePluginExecutionContext_t context,
    void* workspace, const hipdnnPluginDeviceBuffer_t* buffers, uint32_t buffer_count,
    uint32_t override_count, const int64_t* uids, const uint32_t* lengths,
    const int64_t* const* shapes, const int64_t* const* strides);

/* Optional, all three or none: a context as bytes. `data` is the plugin's until Destroy. */
HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginSerializeExecutionContextWithEngineId(
    hipdnnEnginePluginHandle_t handle, int64_t engine_id,
    hipdnnEnginePluginExecutionContext_t context, hipdnnPluginConstData_t* data);
HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginDestroySerializedExecutionContext(
    hipdnnEnginePluginHandle_t handle, hipdnnPluginConstData_t* data);
HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t hipdnnEnginePluginCreateExecutionContextFromSerialized(
    hipdnnEnginePluginHandle_t handle, const hipdnnPluginConstData_t* data,
    hipdnnEnginePluginExecutionContext_t* context);

/* ---- optional symbols of ours ---- */

/* What hipDNN's ABI does not say of an engine. Strings live as long as the plugin is loaded. */
typedef struct {
    size_t struct_size;       /* sizeof as the backend knows it; write no further */
    const char* device;       /* "cpu", "hip" or "cuda": where its buffers live; NULL: unstated */
    int32_t priority;         /* the higher is preferred among applicable engines; default 0 */
    uint32_t extension_count; /* extensions of the wire format that it understands, by name */
    const char* const* extensions; /* e.g. "dstats", "runtime_default_override" */
} raggeddnnEngineTraits_t;

HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t
raggeddnnEnginePluginGetEngineTraits(int64_t engine_id, raggeddnnEngineTraits_t* traits);

/* Why the engine can run nothing in this process as things are, a missing device for one. Asked
 * when somebody wants to know, not at loading: it may start a GPU's runtime. `*text` is one
 * sentence, the plugin's until its next call on this thread, or NULL: the engine can run. */
HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t raggeddnnEnginePluginWhyUnavailable(int64_t engine_id,
                                                                              const char** text);

/* Which kernels a context runs, their tile sizes, and why these; for people. `text` lives as long
 * as the context. */
HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t
raggeddnnEnginePluginExplainKernel(hipdnnEnginePluginHandle_t handle,
                                   hipdnnEnginePluginExecutionContext_t context, const char** text);

/* What was wrong with the offsets and lengths of the last execute of the context with that
 * workspace, whose content must be as the execute left it. Waits for the handle's stream. `*text`
 * is one sentence, the plugin's until its next call on this thread, or NULL: nothing was, or the
 * engine refuses such an execute. */
HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t raggeddnnEnginePluginReportFaults(
    hipdnnEnginePluginHandle_t handle, hipdnnEnginePluginExecutionContext_t context,
    const void* workspace, const char** text);

/* An output, and how many bytes its memory holds. */
typedef struct {
    int64_t uid;
    int64_t bytes;
} raggeddnnClearedOutput_t;

/* Executes, and clears of these outputs, where they are ragged, what no block of their offsets
 * covers: to 0, stats to -inf. NOT_APPLICABLE, and nothing done, where the plan does not clear;
 * `buffers` NULL asks whether it does. */
HIPDNN_PLUGIN_EXPORT hipdnnPluginStatus_t raggeddnnEnginePluginExecuteAndClear(
    hipdnnEnginePluginHandle_t handle, hipdnnEnginePluginExecutionContext_t context,
    void* workspace, const hipdnnPluginDeviceBuffer_t* buffers, uint32_t buffer_count,
    const raggeddnnClearedOutput_t* outputs, uint32_t output_count);

#ifdef __cplusplus
}
#endif

#endif
