// Failures at the C boundary: every function of the C API runs inside `guarded`, which turns what
// is thrown into a status and keeps the sentence for the calling thread.
#pragma once

#include <exception>
#include <string>
#include <utility>

#include "raggeddnn/backend/hipdnn_backend.h"
#include "raggeddnn/base/error.hpp"

namespace raggeddnn::c_api {

// A failure with a status of its own; other exceptions get theirs from `status_of`.
class StatusError : public std::exception {
public:
    StatusError(hipdnnStatus_t status, std::string text)
        : status_(status), text_(std::move(text)) {}
    const char* what() const noexcept override { return text_.c_str(); }
    hipdnnStatus_t status() const { return status_; }

private:
    hipdnnStatus_t status_;
    std::string text_;
};

template <class... Parts>
[[noreturn]] void refuse(hipdnnStatus_t status, const Parts&... parts) {
    throw StatusError(status, message(parts...));
}

template <class... Parts>
[[noreturn]] void bad_param(const Parts&... parts) {
    refuse(HIPDNN_STATUS_BAD_PARAM, parts...);
}

template <class T>
T* not_null(T* pointer, const char* what) {
    if (!pointer) {
        refuse(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, what, " is null, expected a pointer");
    }
    return pointer;
}

const char* status_name(hipdnnStatus_t status);
hipdnnStatus_t status_of(ErrorCode code);

// Keeps the text of the exception being handled and returns its status; call it in a handler.
hipdnnStatus_t keep_current_exception(const char* function) noexcept;

// The calling thread's last error, cut to the buffer.
void copy_last_error(char* buffer, size_t size, bool clear) noexcept;

template <class Body>
hipdnnStatus_t guarded(const char* function, Body&& body) noexcept {
    try {
        body();
        return HIPDNN_STATUS_SUCCESS;
    } catch (...) {
        return keep_current_exception(function);
    }
}

}  // namespace raggeddnn::c_api
