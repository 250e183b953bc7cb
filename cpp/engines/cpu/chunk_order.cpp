// The order in which chunks of keys add to the gradient of the same queries.
#include "chunk_order.hpp"

#include <sched.h>

#include <algorithm>
#include <new>

namespace raggeddnn::cpu {
namespace {

constexpr uint64_t ENDED = 0xffffffff;

uint64_t mark(int64_t task, uint64_t steps) {
    return static_cast<uint64_t>(task) << 32 | std::min(steps, ENDED);
}

template <class Condition>
void wait_until(Condition&& is_true) {
    constexpr int spins = 2000;  // a few microseconds
    for (int i = 0; !is_true(); ++i) {
        if (i >= spins) sched_yield();
    }
}

}  // namespace

ChunkOrder::ChunkOrder(std::span<TaskProgress> progress, std::span<SlotOwner> slots)
    : progress_(progress), slots_(slots) {
    const auto count = static_cast<int64_t>(progress_.size());
    for (int64_t i = 0; i < count; ++i) {
        new (&progress_[static_cast<size_t>(i)].value)
            std::atomic<uint64_t>(mark(i - count, ENDED));
    }
    for (size_t i = 0; i < slots_.size(); ++i) {
        new (&slots_[i].unit) std::atomic<int64_t>(static_cast<int64_t>(i));
    }
}

std::atomic<uint64_t>& ChunkOrder::of(int64_t task) const {
    return progress_[static_cast<size_t>(task) % progress_.size()].value;
}

void ChunkOrder::begin(int64_t task) const {
    // The place may still tell of an earlier task.
    const uint64_t before = mark(task - static_cast<int64_t>(progress_.size()), ENDED);
    wait_until([&] { return of(task).load(std::memory_order_acquire) == before; });
    of(task).store(mark(task, 0), std::memory_order_release);
}

void ChunkOrder::end(int64_t task) const {
    of(task).store(mark(task, ENDED), std::memory_order_release);
}

void ChunkOrder::advance(int64_t task, int64_t steps) const {
    of(task).store(mark(task, static_cast<uint64_t>(steps)), std::memory_order_release);
}

void ChunkOrder::follow(int64_t task, int64_t steps) const {
    const auto wanted = static_cast<uint32_t>(task - 1);
    wait_until([&] {
        const uint64_t value = of(task - 1).load(std::memory_order_acquire);
        const auto ahead = static_cast<int32_t>(static_cast<uint32_t>(value >> 32) - wanted);
        // The place is given on once its task has ended.
        return ahead > 0 || (ahead == 0 && (value & ENDED) >= static_cast<uint64_t>(steps));
    });
}

void ChunkOrder::take_slot(int64_t unit) const {
    const std::atomic<int64_t>& owner = slots_[static_cast<size_t>(slot(unit))].unit;
    wait_until([&] { return owner.load(std::memory_order_acquire) == unit; });
}

void ChunkOrder::give_slot(int64_t unit) const {
    slots_[static_cast<size_t>(slot(unit))].unit.store(unit + static_cast<int64_t>(slots_.size()),
                                                       std::memory_order_release);
}

}  // namespace raggeddnn::cpu
