/* The C API of the backend: hipDNN's, name for name and number for number, so that a program
 * written for hipDNN links against libraggeddnn.so unchanged.
 *
 * Everything is a descriptor. Create one, set its attributes, finalize it, hand it to the next:
 *
 *   tensors -> operations -> operation graph -> engine heuristics -> engine configuration
 *           -> execution plan, which hipdnnBackendExecute runs with a variant pack
 *
 * Every function returns a status; hipdnnGetLastErrorString has the sentence behind the last
 * failure of the calling thread. Descriptors may be used from several threads, one thread at a time
 * each.
 *
 * Needs no GPU headers. Numbers marked "unverified" could not be checked against hipDNN's headers.
 */
#ifndef RAGGEDDNN_BACKEND_HIPDNN_BACKEND_H
#define RAGGEDDNN_BACKEND_HIPDNN_BACKEND_H

#include <stddef.h>
#include <stdint.h>

#include "raggeddnn/backend/hipdnn_backend_attributes.h"
#include "raggeddnn/backend/hipdnn_backend_types.h"

#if defined(_WIN32)
#define HIPDNN_BACKEND_EXPORT __declspec(dllimport)
#else
#define HIPDNN_BACKEND_EXPORT __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- handles ---- */

/* A handle's device is "cpu", unless the environment variable RAGGEDDNN_DEVICE says "hip" or
 * "cuda". Plugins are loaded at the latest here. A handle is used by one thread at a time. */
HIPDNN_BACKEND_EXPORT hipdnnStatus_t hipdnnCreate(hipdnnHandle_t* handle);
HIPDNN_BACKEND_EXPORT hipdnnStatus_t hipdnnDestroy(hipdnnHandle_t handle);
HIPDNN_BACKEND_EXPORT hipdnnStatus_t hipdnnSetStream(hipdnnHandle_t handle, hipStream_t stream);
HIPDNN_BACKEND_EXPORT hipdnnStatus_t hipdnnGetStream(hipdnnHandle_t handle, hipStream_t* stream);

/* ---- descriptors ---- */

/* NOT_SUPPORTED for a descriptor type that this library does not implement. */
HIPDNN_BACKEND_EXPORT hipdnnStatus_t hipdnnBackendCreateDescriptor(
    hipdnnBackendDescriptorType_t descriptor_type, hipdnnBackendDescriptor_t* descriptor);
/* Releases the caller's reference only: a tensor lives as long as an operation that names it. */
HIPDNN_BACKEND_EXPORT hipdnnStatus_t
hipdnnBackendDestroyDescriptor(hipdnnBackendDescriptor_t descriptor);
/* Checks the descriptor and freezes it. BAD_PARAM when something required is missing, when values
 * contradict each other, or when it is final already. */
HIPDNN_BACKEND_EXPORT hipdnnStatus_t hipdnnBackendFinalize(hipdnnBackendDescriptor_t descriptor);

/* Copies `element_count` elements in. NOT_INITIALIZED once final; NOT_SUPPORTED for an attribute
 * that the descriptor lacks or that is read-only; BAD_PARAM for a wrong type, count or value;
 * BAD_PARAM_NULL_POINTER; BAD_PARAM_NOT_FINALIZED for a descriptor that must be final first. */
HIPDNN_BACKEND_EXPORT hipdnnStatus_t hipdnnBackendSetAttribute(hipdnnBackendDescriptor_t descriptor,
                                                               hipdnnBackendAttributeName_t name,
                                                               hipdnnBackendAttributeType_t type,
                                                               int64_t element_count,
                                                               const void* elements);

/* Copies up to `requested_count` elements out and writes to `*element_count` how many. With
 * `requested_count` 0 or `elements` null it writes how many there are. `element_count` may be null
 * when elements are asked for. An optional attribute that is not set has 0 elements; a text counts
 * its terminator.
 *
 * Before finalization: BAD_PARAM_NOT_FINALIZED for engine heuristics, NOT_INITIALIZED for the
 * others, except operation graphs, which answer at any time.
 *
 * An element that is a descriptor is a new reference, which the caller destroys. The results of
 * engine heuristics are different: the caller passes engine configuration descriptors, which become
 * the results (still to be finalized); null elements are replaced by new ones. */
HIPDNN_BACKEND_EXPORT hipdnnStatus_t hipdnnBackendGetAttribute(hipdnnBackendDescriptor_t descriptor,
                                                               hipdnnBackendAttributeName_t name,
                                                               hipdnnBackendAttributeType_t type,
                                                               int64_t requested_count,
                                                               int64_t* element_count,
                                                               void* elements);

/* Both descriptors must be final. Nothing is written when a check of the variant pack fails. */
HIPDNN_BACKEND_EXPORT hipdnnStatus_t hipdnnBackendExecute(hipdnnHandle_t handle,
                                                          hipdnnBackendDescriptor_t execution_plan,
                                                          hipdnnBackendDescriptor_t variant_pack);

/* ---- errors ---- */

/* A static text. */
HIPDNN_BACKEND_EXPORT const char* hipdnnGetErrorString(hipdnnStatus_t status);
/* The calling thread's last error, cut to `max_size` bytes with its terminator. The first clears
 * it. */
HIPDNN_BACKEND_EXPORT void hipdnnGetLastErrorString(char* message, size_t max_size);
HIPDNN_BACKEND_EXPORT void hipdnnPeekLastErrorString_ext(char* message, size_t max_size);

/* ---- serialization ----
 *
 * Every getter follows the two-call pattern: with a null buffer it only writes the size needed;
 * with a buffer that is too small it answers BAD_PARAM_SIZE_INSUFFICIENT. */

/* `bytes`: a graph, or a container that holds one. The graph is to be given a handle and finalized.
 */
HIPDNN_BACKEND_EXPORT hipdnnStatus_t hipdnnBackendCreateAndDeserializeGraph_ext(
    hipdnnBackendDescriptor_t* descriptor, const uint8_t* bytes, size_t byte_size);
/* Of an operation graph, final or not. */
HIPDNN_BACKEND_EXPORT hipdnnStatus_t hipdnnBackendGetSerializedBinaryGraph_ext(
    hipdnnBackendDescriptor_t descriptor, size_t capacity, size_t* byte_size, uint8_t* bytes);
/* The size includes the terminator. */
HIPDNN_BACKEND_EXPORT hipdnnStatus_t hipdnnBackendGetSerializedJsonGraph_ext(
    hipdnnBackendDescriptor_t descriptor, size_t capacity, size_t* byte_size, char* text);
/* `byte_size` may count a terminator or not. */
HIPDNN_BACKEND_EXPORT hipdnnStatus_t hipdnnBackendCreateAndDeserializeJsonGraph_ext(
    hipdnnBackendDescriptor_t* descriptor, const char* text, size_t byte_size);
/* Of a final plan. NOT_SUPPORTED when its engine cannot save plans. */
HIPDNN_BACKEND_EXPORT hipdnnStatus_t hipdnnBackendGetSerializedExecutionPlan_ext(
    hipdnnBackendDescriptor_t descriptor, size_t capacity, size_t* byte_size, uint8_t* bytes);
/* `bytes`: a plan, or a container that holds one (BAD_PARAM if it does not). The plan is final. */
HIPDNN_BACKEND_EXPORT hipdnnStatus_t hipdnnBackendCreateAndDeserializeExecutionPlan_ext(
    hipdnnHandle_t handle, hipdnnBackendDescriptor_t* descriptor, const uint8_t* bytes,
    size_t byte_size);
/* A container of both; `execution_plan` may be null. */
HIPDNN_BACKEND_EXPORT hipdnnStatus_t hipdnnBackendGetSerializedBinaryGraphAndPlan_ext(
    hipdnnBackendDescriptor_t graph, hipdnnBackendDescriptor_t execution_plan, size_t capacity,
    size_t* byte_size, uint8_t* bytes);
/* Which hipdnnSerializedContentFlags_t the bytes hold. What is neither a container nor a plan
 * counts as a graph: deserializing it tells. hipDNN says "graph" of a plan without its container as
 * well. */
HIPDNN_BACKEND_EXPORT hipdnnStatus_t hipdnnBackendGetSerializedBinaryContents_ext(
    const uint8_t* bytes, size_t byte_size, int* content_flags);

/* ---- plugins and engines ---- */

/* Before any handle exists, else NOT_SUPPORTED. Files or folders; a relative path starts at this
 * library's folder, and of a file the prefix `lib` and the ending `.so` may be left out. */
HIPDNN_BACKEND_EXPORT hipdnnStatus_t hipdnnSetEnginePluginPaths_ext(
    size_t path_count, const char* const* paths, hipdnnPluginLoadingMode_ext_t loading_mode);
/* Heuristic plugins are not loaded here: NOT_SUPPORTED unless the list is empty. */
HIPDNN_BACKEND_EXPORT hipdnnStatus_t hipdnnSetHeuristicPluginPaths_ext(
    size_t path_count, const char* const* paths, hipdnnPluginLoadingMode_ext_t loading_mode);
/* Plugins stay loaded until the process ends; EAGER is accepted and has no effect. */
HIPDNN_BACKEND_EXPORT hipdnnStatus_t
hipdnnSetPluginUnloadMode_ext(hipdnnPluginUnloadingMode_ext_t unloading_mode);
/* With `paths` null: the number, and the longest length with its terminator. Else `paths` holds
 * `*path_count` buffers of `*max_length` bytes each. */
HIPDNN_BACKEND_EXPORT hipdnnStatus_t hipdnnGetLoadedEnginePluginPaths_ext(hipdnnHandle_t handle,
                                                                          size_t* path_count,
                                                                          char** paths,
                                                                          size_t* max_length);
HIPDNN_BACKEND_EXPORT hipdnnStatus_t hipdnnGetEngineCount_ext(hipdnnHandle_t handle,
                                                              size_t* engine_count);
/* Engines are sorted by name. With any text buffer null, all lengths needed are written instead. */
HIPDNN_BACKEND_EXPORT hipdnnStatus_t hipdnnGetEngineInfo_ext(
    hipdnnHandle_t handle, size_t engine_index, int64_t* engine_id, char* engine_name,
    size_t* engine_name_length, char* plugin_name, size_t* plugin_name_length, char* version,
    size_t* version_length, char* type, size_t* type_length);
/* NOT_SUPPORTED for a name that no loaded engine has. */
HIPDNN_BACKEND_EXPORT hipdnnStatus_t hipdnnGetEngineIdByName_ext(hipdnnHandle_t handle,
                                                                 const char* engine_name,
                                                                 int64_t* engine_id);
/* One policy: preferred engine first, then the handle's device, then the engines' priority. */
HIPDNN_BACKEND_EXPORT hipdnnStatus_t hipdnnGetHeuristicPolicyCount_ext(hipdnnHandle_t handle,
                                                                       size_t* policy_count);
HIPDNN_BACKEND_EXPORT hipdnnStatus_t hipdnnGetHeuristicPolicyInfo_ext(
    hipdnnHandle_t handle, size_t policy_index, int64_t* policy_id, char* policy_name,
    size_t* policy_name_length, char* plugin_name, size_t* plugin_name_length, char* plugin_version,
    size_t* plugin_version_length, char* api_version, size_t* api_version_length);

/* ---- logging ---- */

/* Adds a line to the log. */
HIPDNN_BACKEND_EXPORT void hipdnnLoggingCallback_ext(hipdnnSeverity_t severity, const char* text);
/* Adds, changes, or (HIPDNN_SEV_OFF) removes the callback with this `user_handle`, which must not
 * be null. While callbacks exist, they take the lines instead of stderr. Both modes call on the
 * thread that logs. */
HIPDNN_BACKEND_EXPORT hipdnnStatus_t hipdnnSetUserLogCallback_ext(
    hipdnnUserLogCallback_t callback, hipdnnSeverity_t min_level, hipdnnLogCallbackMode_t mode,
    hipdnnUserLogCallbackHandle_t user_handle);
HIPDNN_BACKEND_EXPORT hipdnnStatus_t hipdnnBackendSetGlobalLogLevel_ext(hipdnnSeverity_t level);
HIPDNN_BACKEND_EXPORT hipdnnStatus_t hipdnnBackendGetGlobalLogLevel_ext(hipdnnSeverity_t* level);

/* ---- version ---- */

/* "MAJOR.MINOR.PATCH.TWEAK", static. The first is deprecated. */
HIPDNN_BACKEND_EXPORT hipdnnStatus_t hipdnnGetVersion_ext(const char** version);
HIPDNN_BACKEND_EXPORT const char* hipdnnVersionString_ext(void);

#ifdef __cplusplus
}
#endif

#endif
