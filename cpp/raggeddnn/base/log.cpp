#include "raggeddnn/base/log.hpp"

#include <atomic>
#include <cstdio>
#include <mutex>
#include <string>

#include "raggeddnn/base/env.hpp"

namespace raggeddnn {

namespace {

LogLevel level_from_environment() {
    std::string text = read_env("RAGGEDDNN_LOG");
    if (text.empty()) text = read_env("HIPDNN_LOG_LEVEL");
    if (text == "info" || text == "1") return LogLevel::INFO;
    if (text == "warn") return LogLevel::WARN;
    if (text == "error" || text == "fatal") return LogLevel::ERROR;
    return LogLevel::OFF;
}

std::atomic<LogLevel>& level() {
    static std::atomic<LogLevel> value{level_from_environment()};
    return value;
}

std::mutex sink_mutex;

std::function<void(LogLevel, const std::string&)>& sink() {
    static std::function<void(LogLevel, const std::string&)> value;
    return value;
}

const char* name_of(LogLevel l) {
    switch (l) {
        case LogLevel::ERROR: return "error";
        case LogLevel::WARN: return "warn";
        default: return "info";
    }
}

}  // namespace

LogLevel log_level() { return level(); }
void set_log_level(LogLevel l) { level() = l; }

void set_log_sink(std::function<void(LogLevel, const std::string&)> value) {
    const std::lock_guard lock(sink_mutex);
    sink() = std::move(value);
}

void write_log(LogLevel l, const std::string& text) {
    // Called without the lock: a sink may log, or be replaced, itself.
    std::function<void(LogLevel, const std::string&)> current;
    {
        const std::lock_guard lock(sink_mutex);
        current = sink();
    }
    if (current) {
        current(l, text);
    } else {
        std::fprintf(stderr, "[raggeddnn %s] %s\n", name_of(l), text.c_str());
    }
}

}  // namespace raggeddnn
