// links: raggeddnn_cpu_objects
// The CPU engine with several threads: the same bits as with one, forward and backward, for calls
// that follow each other and for calls at once. First in a forked child, on threads of the engine's
// own, then on those of an OpenMP library: the one that the argument names, or GNU's.
//
// Under ThreadSanitizer only a library that it understands is of use: LLVM's, as an argument, with
// OMP_TOOL_LIBRARIES naming its libarcher.so. Without an argument the second part is left out.
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "sdpa_fixture.hpp"

using namespace check;

namespace {

constexpr int THREADS = 4;

#if defined(__SANITIZE_THREAD__)
constexpr bool IS_THREAD_SANITIZER = true;
#elif defined(__has_feature)
constexpr bool IS_THREAD_SANITIZER = __has_feature(thread_sanitizer);
#else
constexpr bool IS_THREAD_SANITIZER = false;
#endif

enum GradientUid : int64_t { D_O = EXTRA + 1, D_Q, D_K, D_V };

// The backward node of a forward problem, whose results it takes as they are.
void make_backward(Problem& p) {
    const rs::SdpaAttributesT& forward = sdpa_of(p.graph);
    rs::SdpaBackwardAttributesT a;
    a.q_tensor_uid = Q;
    a.k_tensor_uid = K;
    a.v_tensor_uid = V;
    a.o_tensor_uid = O;
    a.stats_tensor_uid = STATS;
    a.do_tensor_uid = D_O;
    a.dq_tensor_uid = D_Q;
    a.dk_tensor_uid = D_K;
    a.dv_tensor_uid = D_V;
    a.right_bound = forward.right_bound;
    a.diagonal_alignment = forward.diagonal_alignment;
    const std::pair<int64_t, int64_t> like[] = {{D_O, O}, {D_Q, Q}, {D_K, K}, {D_V, V}};
    for (const auto& [uid, from] : like) {
        auto t = std::make_unique<rs::TensorAttributesT>(by_uid(p.graph, from));
        t->uid = uid;
        t->name = "gradient of " + t->name;
        p.graph.tensors.push_back(std::move(t));
        p.memory[uid] = p.memory[from];
    }
    p.graph.nodes[0]->attributes.Set(std::move(a));
}

std::vector<Spec> specs() {
    Spec grouped;  // several chunks of keys, and sequences of one
    grouped.rows_q = {700, 0, 3, 90, 64};
    grouped.rows_kv = {1300, 600, 600, 90, 0};
    grouped.heads = 6;
    grouped.k_heads = 3;
    grouped.v_heads = 2;
    grouped.dim = 24;
    grouped.value_dim = 17;
    Spec many;  // more heads of several chunks than threads
    many.rows_q = {130, 600};
    many.rows_kv = {1100, 600};
    many.heads = many.k_heads = many.v_heads = 4;
    many.dim = many.value_dim = 16;
    many.right = 0;
    many.is_bottom_right = true;
    std::vector<Spec> all;
    for (const DataType type : {DataType::FLOAT, DataType::BFLOAT16, DataType::HALF}) {
        for (Spec spec : {grouped, many}) {
            spec.type = type;
            all.push_back(spec);
        }
    }
    return all;
}

// Forward, then backward; everything in memory afterwards.
std::map<int64_t, Array> run_both(const Driver& driver, const Spec& spec) {
    Problem p = make_problem(spec, 0.5);
    std::string error = driver.run(pack(p.graph), p.buffers());
    expect(error.empty(), "forward: " + error);
    make_backward(p);
    error = driver.run(pack(p.graph), p.buffers());
    expect(error.empty(), "backward: " + error);
    return p.memory;
}

void expect_same(const std::map<int64_t, Array>& got, const std::map<int64_t, Array>& want,
                 const std::string& what) {
    for (const auto& [uid, array] : want) {
        expect(got.at(uid) == array,
               what + ": tensor " + std::to_string(uid) + " has other bits than with one thread");
    }
}

size_t threads_now() {
    namespace fs = std::filesystem;
    return static_cast<size_t>(
        std::distance(fs::directory_iterator("/proc/self/task"), fs::directory_iterator()));
}

// The most threads at a time while `body` runs.
template <class Body>
size_t most_threads_while(Body&& body) {
    std::atomic<bool> is_running{true};
    size_t most = 0;
    std::thread watcher([&] {
        while (is_running) {
            most = std::max(most, threads_now());
            std::this_thread::sleep_for(std::chrono::microseconds(200));
        }
    });
    body();
    is_running = false;
    watcher.join();
    return most;
}

void check_threads(const std::string& name, void (*set_threads)(int)) {
    const Driver driver;
    // The first plan settles how many threads the process may ever use.
    expect(driver.why_not(pack(make_problem(specs()[0], 0.0).graph)).empty(), "a plan is made");
    std::vector<std::map<int64_t, Array>> serial;
    set_threads(1);
    for (const Spec& spec : specs()) serial.push_back(run_both(driver, spec));
    set_threads(THREADS);
    const size_t seen = most_threads_while([&] {
        for (size_t i = 0; i < serial.size(); ++i) {
            expect_same(run_both(driver, specs()[i]), serial[i], name);
        }
    });
    expect(seen > THREADS, name + ": " + std::to_string(seen) +
                               " threads were seen, expected the watcher and at least " +
                               std::to_string(THREADS));
    std::vector<std::map<int64_t, Array>> at_once(serial.size());
    std::vector<std::thread> callers;
    for (size_t i = 0; i < serial.size(); ++i) {
        callers.emplace_back([&, i] { at_once[i] = run_both(driver, specs()[i]); });
    }
    for (std::thread& caller : callers) caller.join();
    for (size_t i = 0; i < serial.size(); ++i) {
        expect_same(at_once[i], serial[i], name + ", calls at once");
    }
    std::printf("%s: %zu threads\n", name.c_str(), seen - 1);
    std::fflush(stdout);
}

void set_variable(int count) { setenv("OMP_NUM_THREADS", std::to_string(count).c_str(), 1); }

void check_own_threads() {
    const pid_t child = fork();
    if (child == 0) {
        check_threads("own threads", set_variable);
        _exit(failures == 0 ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child on its own threads");
}

void check_open_mp(const char* path) {
    void* library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (!library) return expect(false, std::string("OpenMP library: ") + dlerror());
    auto* const set_open_mp =
        reinterpret_cast<void (*)(int)>(dlsym(library, "omp_set_num_threads"));
    if (!set_open_mp) return expect(false, std::string(path) + " has no omp_set_num_threads");
    check_threads(path, set_open_mp);
}

}  // namespace

int main(int count, char** arguments) {
    set_variable(THREADS);
    check_own_threads();
    if (count > 1) {
        check_open_mp(arguments[1]);
    } else if (!IS_THREAD_SANITIZER) {
        check_open_mp("libgomp.so.1");
    }
    return failures == 0 ? 0 : 1;
}
