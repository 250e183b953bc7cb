// The threads of a call. They are those of the OpenMP library that the process already has, so that
// they and PyTorch's do not keep each other from the cores: two pools, each spinning for work, cost
// a small call many times its own time. The library is looked up, never linked; without one, and in
// a forked child, whose copy of it would hang, a call starts threads of its own.
#pragma once

#include <memory>
#include <type_traits>

namespace raggeddnn::cpu {

// How many threads one call may use: what OpenMP would give it (OMP_NUM_THREADS, or what the
// program set), else as many as the process has processors; never more than its control group has
// time for, and 1 inside of a parallel region.
int thread_limit();

// The most that `thread_limit` may come to be in this process.
int most_threads();

namespace detail {
void run_on_threads(int count, void (*body)(void*, int), void* argument);
}

// Calls body(thread) for each thread in [0, count), at the same time where it can; returns when all
// have ended. The body must not throw.
template <class Body>
void on_threads(int count, Body&& body) {
    using Type = std::remove_reference_t<Body>;
    detail::run_on_threads(
        count, [](void* argument, int thread) { (*static_cast<Type*>(argument))(thread); },
        const_cast<void*>(static_cast<const void*>(std::addressof(body))));
}

}  // namespace raggeddnn::cpu
