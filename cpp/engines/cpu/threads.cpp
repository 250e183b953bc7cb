// The threads of a call: those of the OpenMP library in the process, or its own.
#include "threads.hpp"

#include <dlfcn.h>
#include <link.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace raggeddnn::cpu {
namespace {

// GNU's interface, which LLVM's and Intel's libraries offer as well.
struct OpenMp {
    void (*parallel)(void (*)(void*), void*, unsigned, unsigned) = nullptr;
    int (*max_threads)() = nullptr;
    int (*in_parallel)() = nullptr;
    int (*thread_number)() = nullptr;
    int (*team_size)() = nullptr;

    bool is_there() const {
        return parallel && max_threads && in_parallel && thread_number && team_size;
    }

    static OpenMp of(void* library) {
        OpenMp found;
        const auto find = [library](auto& function, const char* name) {
            function =
                reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
        };
        find(found.parallel, "GOMP_parallel");
        find(found.max_threads, "omp_get_max_threads");
        find(found.in_parallel, "omp_in_parallel");
        find(found.thread_number, "omp_get_thread_num");
        find(found.team_size, "omp_get_num_threads");
        return found;
    }
};

// Libraries loaded so far, as the loader counts them, and the OpenMP library among them. PyTorch's
// wheels may carry theirs under another name.
struct LoadedLibraries {
    unsigned long long count = 0;
    std::string open_mp;
};

int visit_library(dl_phdr_info* info, size_t, void* argument) {
    auto& loaded = *static_cast<LoadedLibraries*>(argument);
    loaded.count = info->dlpi_adds;
    const char* path = info->dlpi_name ? info->dlpi_name : "";
    const char* slash = std::strrchr(path, '/');
    const std::string name = slash ? slash + 1 : path;
    const bool is_open_mp =
        name.starts_with("libgomp") || name.starts_with("libomp") || name.starts_with("libiomp");
    if (is_open_mp && loaded.open_mp.empty()) loaded.open_mp = path;
    return 0;
}

int count_libraries(dl_phdr_info* info, size_t, void* argument) {
    *static_cast<unsigned long long*>(argument) = info->dlpi_adds;
    return 1;
}

class OpenMpFinder {
public:
    // Looks again whenever a library was loaded, until one with OpenMP is found in the process.
    OpenMp find() {
        const std::lock_guard lock(mutex_);
        if (is_settled_) return found_;
        unsigned long long count = 0;
        dl_iterate_phdr(count_libraries, &count);
        if (count == seen_) return found_;
        LoadedLibraries loaded;
        dl_iterate_phdr(visit_library, &loaded);
        void* library = nullptr;
        if (!loaded.open_mp.empty()) {
            library = dlopen(loaded.open_mp.c_str(), RTLD_LAZY | RTLD_NOLOAD);
        } else {
            // PyTorch, loaded later, takes this one too: the loader goes by its name.
            library = dlopen("libgomp.so.1", RTLD_LAZY | RTLD_LOCAL);
        }
        if (library) found_ = OpenMp::of(library);
        is_settled_ = found_.is_there();
        seen_ = count;
        return found_;
    }

private:
    std::mutex mutex_;
    OpenMp found_;
    bool is_settled_ = false;
    unsigned long long seen_ = std::numeric_limits<unsigned long long>::max();
};

// Whether this process is a fork that runs no program of its own: bit PF_FORKNOEXEC of the ninth
// field of its state, the seventh after the name in parentheses.
bool is_forked() {
    std::ifstream file("/proc/self/stat");
    std::string line;
    std::getline(file, line);
    const size_t name_end = line.rfind(')');
    if (name_end == std::string::npos) return false;
    std::istringstream fields(line.substr(name_end + 1));
    std::string skipped;
    for (int i = 0; i < 6; ++i) fields >> skipped;
    unsigned long flags = 0;
    fields >> flags;
    return (flags & 0x40) != 0;
}

// An OpenMP library that was there before the engine, in a forked process: its threads may be those
// of the parent.
bool is_open_mp_inherited() {
    LoadedLibraries loaded;
    dl_iterate_phdr(visit_library, &loaded);
    return !loaded.open_mp.empty() && is_forked();
}

// The process that loaded the engine; another one is a forked child.
const pid_t loader = getpid();
const bool is_inherited = is_open_mp_inherited();

OpenMp open_mp() {
    static OpenMpFinder finder;
    if (is_inherited || getpid() != loader) return {};
    return finder.find();
}

int count_processors() {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
    return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

// Processors that "quota period" allows; no limit for "max" and for text that is none.
int processors_in(const std::string& path) {
    constexpr int none = std::numeric_limits<int>::max();
    std::ifstream file(path);
    std::string quota;
    double period = 0;
    if (!(file >> quota >> period) || quota == "max" || period <= 0) return none;
    const double processors = std::ceil(std::atof(quota.c_str()) / period);
    return processors >= 1 && processors < none ? static_cast<int>(processors) : none;
}

// Of the process's own control group (version 2) and of those above it.
int control_group_limit() {
    std::ifstream file("/proc/self/cgroup");
    int limit = processors_in("/sys/fs/cgroup/cpu.max");
    for (std::string line; std::getline(file, line);) {
        if (!line.starts_with("0::")) continue;
        std::string group = line.substr(3);
        while (group.size() > 1) {
            limit = std::min(limit, processors_in("/sys/fs/cgroup" + group + "/cpu.max"));
            group.resize(group.find_last_of('/'));
        }
    }
    return limit;
}

int set_by_variable() {
    const char* text = std::getenv("OMP_NUM_THREADS");
    return text ? std::atoi(text) : 0;
}

int group_limit() {
    static const int limit = control_group_limit();
    return limit;
}

struct Team {
    void (*body)(void*, int);
    void* argument;
    OpenMp library;
    int count;
};

void run_member(void* data) {
    const Team& team = *static_cast<const Team*>(data);
    // The team may be larger, or smaller, than was asked for.
    const int step = team.library.team_size();
    for (int thread = team.library.thread_number(); thread < team.count; thread += step) {
        team.body(team.argument, thread);
    }
}

// A thread that cannot be started leaves its part to this one.
void run_on_own_threads(int count, void (*body)(void*, int), void* argument) {
    std::vector<std::thread> threads;
    int started = 1;
    try {
        threads.reserve(static_cast<size_t>(count - 1));
        for (; started < count; ++started) threads.emplace_back(body, argument, started);
    } catch (...) {
    }
    body(argument, 0);
    for (int thread = started; thread < count; ++thread) body(argument, thread);
    for (std::thread& thread : threads) thread.join();
}

}  // namespace

int thread_limit() {
    const OpenMp library = open_mp();
    int limit = 0;
    if (library.is_there()) {
        if (library.in_parallel()) return 1;
        limit = library.max_threads();
    } else {
        limit = set_by_variable();
        if (limit < 1) limit = count_processors();
    }
    return std::clamp(limit, 1, most_threads());
}

int most_threads() {
    static const int most = [] {
        const OpenMp library = open_mp();
        // It may have bound this thread to one processor, and has others.
        const int open_mp_threads = library.is_there() ? library.max_threads() : 1;
        const int most = std::max({count_processors(), set_by_variable(), open_mp_threads});
        return std::min(most, group_limit());
    }();
    return most;
}

void detail::run_on_threads(int count, void (*body)(void*, int), void* argument) {
    if (count <= 1) return body(argument, 0);
    const OpenMp library = open_mp();
    if (!library.is_there()) return run_on_own_threads(count, body, argument);
    // A team of its usual size: GNU's library ends the threads that a smaller one has no use for,
    // and starts them again for PyTorch's next call.
    constexpr unsigned usual = 0;
    Team team{body, argument, library, count};
    library.parallel(run_member, &team, usual, 0);
}

}  // namespace raggeddnn::cpu
