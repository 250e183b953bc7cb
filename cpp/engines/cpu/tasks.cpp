// How the work of a call is cut and dealt out.
#include "tasks.hpp"

#include <algorithm>

namespace raggeddnn::cpu {
namespace {

// Multiply-adds that take much longer than fetching a task: some ten microseconds.
constexpr double TASK_COST = 1e6;
// Below this, waking threads takes longer than the work.
constexpr double PARALLEL_COST = 4e6;

}  // namespace

int useful_threads(int limit, int64_t batches, int64_t units, int64_t chunks) {
    int64_t tasks = 1;
    for (const int64_t count : {batches, units, chunks}) {
        tasks *= std::clamp<int64_t>(count, 1, limit);
        tasks = std::min<int64_t>(tasks, limit);
    }
    return static_cast<int>(tasks);
}

Tasks::Tasks(std::span<SequenceWork> sequences) : sequences_(sequences) {
    std::sort(sequences_.begin(), sequences_.end(),
              [](const SequenceWork& a, const SequenceWork& b) {
                  return a.cost != b.cost ? a.cost > b.cost : a.batch < b.batch;
              });
    int64_t cut_units = 0;
    for (SequenceWork& s : sequences_) {
        if (s.chunks == 1) {
            const auto units = static_cast<double>(s.units);
            const double wanted = s.cost * units <= TASK_COST ? units : TASK_COST / s.cost;
            s.units_per_task = std::max<int64_t>(1, static_cast<int64_t>(wanted));
        }
        s.first_task = count_;
        s.first_cut_unit = cut_units;
        count_ += s.tasks();
        if (s.chunks > 1) cut_units += s.units;
        cost_ += s.cost * static_cast<double>(s.units);
    }
}

int Tasks::threads(int limit) const { return count_ > 1 && cost_ >= PARALLEL_COST ? limit : 1; }

bool Tasks::Cursor::next(Task& task) {
    const int64_t index = tasks_.next_.fetch_add(1, std::memory_order_relaxed);
    if (index >= tasks_.count_) return false;
    const std::span<SequenceWork> all = tasks_.sequences_;
    while (position_ + 1 < all.size() && all[position_ + 1].first_task <= index) ++position_;
    const SequenceWork& s = all[position_];
    const int64_t at = index - s.first_task;
    task.index = index;
    task.sequence = &s;
    task.first_unit = at / s.chunks * s.units_per_task;
    task.end_unit = std::min(s.units, task.first_unit + s.units_per_task);
    task.chunk = at % s.chunks;
    return true;
}

}  // namespace raggeddnn::cpu
