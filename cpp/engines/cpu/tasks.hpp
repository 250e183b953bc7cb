// How the work of a call is cut and dealt out. A sequence has units, heads or groups of heads, and
// its rows, or its keys, are cut into chunks; both cuts depend on the sequence alone, so results do
// not depend on how many threads there are. Threads take tasks in one order: costly sequences
// first, and chunks of a unit next to each other, since they share its keys in the cache.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

namespace raggeddnn::cpu {

struct SequenceWork {
    int64_t batch = 0;
    int64_t units = 0;
    int64_t chunks = 0;          // at least 1
    double cost = 0;             // of a unit, in multiply-adds
    int64_t units_per_task = 1;  // more than 1 only where there is a single chunk
    int64_t first_task = 0;      // in the order that they are dealt out in
    int64_t first_cut_unit = 0;  // counting the units of several chunks

    int64_t tasks() const { return (units + units_per_task - 1) / units_per_task * chunks; }
};

struct Task {
    int64_t index = 0;
    const SequenceWork* sequence = nullptr;
    int64_t first_unit = 0;
    int64_t end_unit = 0;
    int64_t chunk = 0;

    // Of its only unit, among all of several chunks.
    int64_t cut_unit() const { return sequence->first_cut_unit + first_unit; }
};

// Of so many threads, those that tasks can be found for: each takes a chunk of a unit of a batch.
int useful_threads(int limit, int64_t batches, int64_t units, int64_t chunks);

class Tasks {
public:
    // `sequences`: batch, units, chunks and cost are set; the rest, and the order, are set here.
    explicit Tasks(std::span<SequenceWork> sequences);

    int64_t count() const { return count_; }
    double cost() const { return cost_; }
    // Threads worth starting, of so many.
    int threads(int limit) const;

    // One thread's way through the tasks.
    class Cursor {
    public:
        explicit Cursor(Tasks& tasks) : tasks_(tasks) {}
        // False where none is left.
        bool next(Task& task);

    private:
        Tasks& tasks_;
        size_t position_ = 0;
    };

private:
    std::span<SequenceWork> sequences_;
    int64_t count_ = 0;
    double cost_ = 0;
    std::atomic<int64_t> next_{0};
};

}  // namespace raggeddnn::cpu
