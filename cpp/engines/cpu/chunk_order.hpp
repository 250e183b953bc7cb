// The order in which chunks of keys add to the gradient of the same queries. A chunk follows the
// one before it, step by step, whichever threads run them: sums are made in one order, so they have
// the same bits for any number of threads. Since tasks are taken in order, whoever waits does so
// for a task that is running.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

namespace raggeddnn::cpu {

// How far a task is.
struct alignas(64) TaskProgress {
    std::atomic<uint64_t> value;  // task in the upper half, steps in the lower one
};

// Which unit may use a slot of memory next.
struct alignas(64) SlotOwner {
    std::atomic<int64_t> unit;
};

class ChunkOrder {
public:
    // Room for `threads` at once in memory of the workspace; sets it up.
    ChunkOrder(std::span<TaskProgress> progress, std::span<SlotOwner> slots);

    static int64_t progress_count(int threads) { return int64_t{4} * threads; }

    // Of a task's beginning and end; all tasks say so.
    void begin(int64_t task) const;
    void end(int64_t task) const;
    // After `steps` steps.
    void advance(int64_t task, int64_t steps) const;
    // Until the task before is `steps` steps on.
    void follow(int64_t task, int64_t steps) const;

    // The slot of a unit of several chunks: taken by its first one, given back by its last one.
    int64_t slot(int64_t unit) const { return unit % static_cast<int64_t>(slots_.size()); }
    void take_slot(int64_t unit) const;
    void give_slot(int64_t unit) const;

private:
    std::atomic<uint64_t>& of(int64_t task) const;

    std::span<TaskProgress> progress_;
    std::span<SlotOwner> slots_;
};

}  // namespace raggeddnn::cpu
