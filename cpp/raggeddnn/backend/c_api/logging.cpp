// The exported functions about the log.
#include <algorithm>
#include <atomic>
#include <functional>
#include <mutex>
#include <vector>

#include "raggeddnn/backend/c_api/status.hpp"
#include "raggeddnn/base/log.hpp"

namespace raggeddnn::c_api {

namespace {

struct Callback {
    hipdnnUserLogCallback_t function;
    hipdnnSeverity_t min_level;
    hipdnnUserLogCallbackHandle_t user_handle;
};

struct Callbacks {
    std::mutex mutex;
    std::vector<Callback> list;
};

Callbacks& callbacks() {
    static Callbacks* instance = new Callbacks;
    return *instance;
}

// FATAL and ERROR are one level inside; what was asked for is remembered here.
std::atomic<int> level_asked_for{-1};

LogLevel to_level(hipdnnSeverity_t severity) {
    switch (static_cast<int>(severity)) {
        case HIPDNN_SEV_INFO: return LogLevel::INFO;
        case HIPDNN_SEV_WARN: return LogLevel::WARN;
        case HIPDNN_SEV_ERROR: return LogLevel::ERROR;
        case HIPDNN_SEV_FATAL: return LogLevel::ERROR;
        case HIPDNN_SEV_OFF: return LogLevel::OFF;
        default:
            bad_param("severity is ", static_cast<int>(severity), ", expected 0 (INFO) to 4 (OFF)");
    }
}

hipdnnSeverity_t to_severity(LogLevel level) {
    switch (level) {
        case LogLevel::INFO: return HIPDNN_SEV_INFO;
        case LogLevel::WARN: return HIPDNN_SEV_WARN;
        case LogLevel::ERROR: return HIPDNN_SEV_ERROR;
        case LogLevel::OFF: return HIPDNN_SEV_OFF;
    }
    return HIPDNN_SEV_OFF;
}

void deliver(LogLevel level, const std::string& text) {
    std::vector<Callback> list;
    {
        const std::lock_guard lock(callbacks().mutex);
        list = callbacks().list;
    }
    const hipdnnSeverity_t severity = to_severity(level);
    for (const Callback& callback : list) {
        if (severity >= callback.min_level) {
            callback.function(callback.user_handle, severity, text.c_str());
        }
    }
}

void set_callback(const Callback& callback, int mode) {
    if (!callback.function) bad_param("callback is null, expected a function");
    if (!callback.user_handle) bad_param("user_handle is null, expected a pointer");
    if (mode != HIPDNN_LOG_CALLBACK_SYNC && mode != HIPDNN_LOG_CALLBACK_ASYNC) {
        bad_param("mode is ", mode, ", expected 0 (SYNC) or 1 (ASYNC)");
    }
    to_level(callback.min_level);
    bool is_empty = false;
    {
        const std::lock_guard lock(callbacks().mutex);
        std::vector<Callback>& list = callbacks().list;
        const auto found = std::find_if(list.begin(), list.end(), [&](const Callback& other) {
            return other.function == callback.function && other.user_handle == callback.user_handle;
        });
        if (callback.min_level == HIPDNN_SEV_OFF) {
            if (found == list.end()) bad_param("the callback to remove is not registered");
            list.erase(found);
        } else if (found != list.end()) {
            *found = callback;
        } else {
            list.push_back(callback);
        }
        is_empty = list.empty();
    }
    set_log_sink(is_empty ? std::function<void(LogLevel, const std::string&)>() : deliver);
}

}  // namespace

}  // namespace raggeddnn::c_api

using namespace raggeddnn::c_api;

extern "C" {

void hipdnnLoggingCallback_ext(hipdnnSeverity_t severity, const char* text) {
    guarded(__func__, [&] {
        const raggeddnn::LogLevel level = to_level(severity);
        if (level != raggeddnn::LogLevel::OFF) raggeddnn::log(level, text ? text : "");
    });
}

hipdnnStatus_t hipdnnSetUserLogCallback_ext(hipdnnUserLogCallback_t callback,
                                            hipdnnSeverity_t min_level,
                                            hipdnnLogCallbackMode_t mode,
                                            hipdnnUserLogCallbackHandle_t user_handle) {
    return guarded(__func__, [&] { set_callback({callback, min_level, user_handle}, mode); });
}

hipdnnStatus_t hipdnnBackendSetGlobalLogLevel_ext(hipdnnSeverity_t level) {
    return guarded(__func__, [&] {
        raggeddnn::set_log_level(to_level(level));
        level_asked_for = level;
    });
}

hipdnnStatus_t hipdnnBackendGetGlobalLogLevel_ext(hipdnnSeverity_t* level) {
    return guarded(__func__, [&] {
        if (!level) bad_param("level is null, expected a pointer");
        *level = to_severity(raggeddnn::log_level());
        const int asked = level_asked_for;
        if (asked == HIPDNN_SEV_FATAL && *level == HIPDNN_SEV_ERROR) *level = HIPDNN_SEV_FATAL;
    });
}

}  // extern "C"
