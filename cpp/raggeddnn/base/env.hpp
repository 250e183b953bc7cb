// Environment variables, ignored when the process runs with raised privileges (setuid and the
// like).
#pragma once

#include <cstdlib>
#include <string>

namespace raggeddnn {

inline std::string read_env(const char* name) {
#if defined(__GLIBC__)
    const char* value = secure_getenv(name);
#else
    const char* value = std::getenv(name);
#endif
    return value ? value : "";
}

}  // namespace raggeddnn
