// The words for failure, shared by every layer.
//
// Inside the library a failure is an exception that carries a code and one sentence. Public C++
// methods of Graph and TensorAttributes turn it into an `Error` value (as cuDNN-frontend and hipDNN
// do), the C ABI into a status and a thread-local string, Python into an exception.
#pragma once

#include <exception>
#include <new>
#include <sstream>
#include <string>
#include <utility>

#include "raggeddnn/base/api.hpp"

namespace raggeddnn {

enum class ErrorCode {
    OK,
    INVALID_VALUE,      // the caller's input is wrong; the message names it, what was got, expected
    ATTRIBUTE_NOT_SET,  // something required was left out
    NOT_SUPPORTED,      // valid, but nothing here can do it
    PLUGIN_ERROR,       // a plugin failed or misbehaved
    EXECUTION_FAILED,   // the device or engine failed while running
    ALLOC_FAILED,       // out of memory
    INTERNAL_ERROR,     // a fault of this library
};

inline const char* to_string(ErrorCode code) {
    switch (code) {
        case ErrorCode::OK: return "OK";
        case ErrorCode::INVALID_VALUE: return "INVALID_VALUE";
        case ErrorCode::ATTRIBUTE_NOT_SET: return "ATTRIBUTE_NOT_SET";
        case ErrorCode::NOT_SUPPORTED: return "NOT_SUPPORTED";
        case ErrorCode::PLUGIN_ERROR: return "PLUGIN_ERROR";
        case ErrorCode::EXECUTION_FAILED: return "EXECUTION_FAILED";
        case ErrorCode::ALLOC_FAILED: return "ALLOC_FAILED";
        case ErrorCode::INTERNAL_ERROR: return "INTERNAL_ERROR";
    }
    return "UNKNOWN";
}

// The value that public C++ methods return.
struct [[nodiscard]] Error {
    ErrorCode code = ErrorCode::OK;
    std::string err_msg;

    bool is_good() const { return code == ErrorCode::OK; }
    bool is_bad() const { return !is_good(); }
    ErrorCode get_code() const { return code; }
    const std::string& get_message() const { return err_msg; }
};

// What the library throws inside; never crosses a C ABI.
class RAGGEDDNN_API Exception : public std::exception {
public:
    Exception(ErrorCode code, std::string message) : code_(code), message_(std::move(message)) {}
    const char* what() const noexcept override { return message_.c_str(); }
    ErrorCode code() const { return code_; }

private:
    ErrorCode code_;
    std::string message_;
};

// Joins its arguments into one sentence: message("[sdpa] k has head_dim ", 64, ", q has ", 128).
template <class... Parts>
std::string message(const Parts&... parts) {
    std::ostringstream out;
    (out << ... << parts);
    return out.str();
}

template <class... Parts>
[[noreturn]] void fail(ErrorCode code, const Parts&... parts) {
    throw Exception(code, message(parts...));
}

template <class... Parts>
[[noreturn]] void invalid(const Parts&... parts) {
    throw Exception(ErrorCode::INVALID_VALUE, message(parts...));
}

// Runs `body` and turns what it throws into an Error value.
template <class Body>
Error as_error(Body&& body) {
    try {
        body();
        return {};
    } catch (const Exception& e) {
        return {e.code(), e.what()};
    } catch (const std::bad_alloc&) {
        return {ErrorCode::ALLOC_FAILED, "out of memory"};
    } catch (const std::exception& e) {
        return {ErrorCode::INTERNAL_ERROR, e.what()};
    }
}

}  // namespace raggeddnn
