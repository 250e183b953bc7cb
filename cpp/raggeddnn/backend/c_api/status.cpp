#include "raggeddnn/backend/c_api/status.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>

namespace raggeddnn::c_api {

namespace {

// A plain array: keeping a text must not fail when memory has run out.
thread_local char last_error[HIPDNN_ERROR_STRING_MAX_LENGTH] = "";

hipdnnStatus_t keep(const char* function, const char* text, hipdnnStatus_t status) noexcept {
    std::snprintf(last_error, sizeof(last_error), "%s: %s", function, text);
    return status;
}

}  // namespace

const char* status_name(hipdnnStatus_t status) {
    switch (status) {
        case HIPDNN_STATUS_SUCCESS: return "HIPDNN_STATUS_SUCCESS";
        case HIPDNN_STATUS_NOT_INITIALIZED: return "HIPDNN_STATUS_NOT_INITIALIZED";
        case HIPDNN_STATUS_BAD_PARAM: return "HIPDNN_STATUS_BAD_PARAM";
        case HIPDNN_STATUS_BAD_PARAM_NULL_POINTER: return "HIPDNN_STATUS_BAD_PARAM_NULL_POINTER";
        case HIPDNN_STATUS_BAD_PARAM_NOT_FINALIZED: return "HIPDNN_STATUS_BAD_PARAM_NOT_FINALIZED";
        case HIPDNN_STATUS_BAD_PARAM_OUT_OF_BOUND: return "HIPDNN_STATUS_BAD_PARAM_OUT_OF_BOUND";
        case HIPDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT:
            return "HIPDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT";
        case HIPDNN_STATUS_BAD_PARAM_STREAM_MISMATCH:
            return "HIPDNN_STATUS_BAD_PARAM_STREAM_MISMATCH";
        case HIPDNN_STATUS_NOT_SUPPORTED: return "HIPDNN_STATUS_NOT_SUPPORTED";
        case HIPDNN_STATUS_INTERNAL_ERROR: return "HIPDNN_STATUS_INTERNAL_ERROR";
        case HIPDNN_STATUS_ALLOC_FAILED: return "HIPDNN_STATUS_ALLOC_FAILED";
        case HIPDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED:
            return "HIPDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED";
        case HIPDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED:
            return "HIPDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED";
        case HIPDNN_STATUS_EXECUTION_FAILED: return "HIPDNN_STATUS_EXECUTION_FAILED";
        case HIPDNN_STATUS_PLUGIN_ERROR: return "HIPDNN_STATUS_PLUGIN_ERROR";
    }
    return "HIPDNN_STATUS_UNKNOWN";
}

hipdnnStatus_t status_of(ErrorCode code) {
    switch (code) {
        case ErrorCode::OK: return HIPDNN_STATUS_SUCCESS;
        case ErrorCode::INVALID_VALUE: return HIPDNN_STATUS_BAD_PARAM;
        case ErrorCode::ATTRIBUTE_NOT_SET: return HIPDNN_STATUS_BAD_PARAM;
        case ErrorCode::NOT_SUPPORTED: return HIPDNN_STATUS_NOT_SUPPORTED;
        case ErrorCode::PLUGIN_ERROR: return HIPDNN_STATUS_PLUGIN_ERROR;
        case ErrorCode::EXECUTION_FAILED: return HIPDNN_STATUS_EXECUTION_FAILED;
        case ErrorCode::ALLOC_FAILED: return HIPDNN_STATUS_ALLOC_FAILED;
        case ErrorCode::INTERNAL_ERROR: return HIPDNN_STATUS_INTERNAL_ERROR;
    }
    return HIPDNN_STATUS_INTERNAL_ERROR;
}

hipdnnStatus_t keep_current_exception(const char* function) noexcept {
    try {
        throw;
    } catch (const StatusError& e) {
        return keep(function, e.what(), e.status());
    } catch (const Exception& e) {
        return keep(function, e.what(), status_of(e.code()));
    } catch (const std::bad_alloc&) {
        return keep(function, "out of memory", HIPDNN_STATUS_ALLOC_FAILED);
    } catch (const std::exception& e) {
        return keep(function, e.what(), HIPDNN_STATUS_INTERNAL_ERROR);
    } catch (...) {
        return keep(function, "unknown exception", HIPDNN_STATUS_INTERNAL_ERROR);
    }
}

void copy_last_error(char* buffer, size_t size, bool clear) noexcept {
    if (!buffer || size == 0) return;
    const size_t length = std::min(std::strlen(last_error), size - 1);
    std::memcpy(buffer, last_error, length);
    buffer[length] = '\0';
    if (clear) last_error[0] = '\0';
}

}  // namespace raggeddnn::c_api
