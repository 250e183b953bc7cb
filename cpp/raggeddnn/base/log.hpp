// Tracing. RAGGEDDNN_LOG (or hipDNN's HIPDNN_LOG_LEVEL) names the least severity that is printed to
// stderr: off (default), error, warn, info. A caller may take the lines instead.
#pragma once

#include <functional>
#include <string>

#include "raggeddnn/base/api.hpp"
#include "raggeddnn/base/error.hpp"

namespace raggeddnn {

enum class LogLevel { OFF = 0, ERROR = 1, WARN = 2, INFO = 3 };

RAGGEDDNN_API LogLevel log_level();
RAGGEDDNN_API void set_log_level(LogLevel level);
// Where lines go; an empty function restores stderr.
RAGGEDDNN_API void set_log_sink(std::function<void(LogLevel, const std::string&)> sink);
RAGGEDDNN_API void write_log(LogLevel level, const std::string& text);

template <class... Parts>
void log(LogLevel level, const Parts&... parts) {
    if (level <= log_level()) write_log(level, message(parts...));
}

}  // namespace raggeddnn
