// What both plans of the engine share: which operands kernels can read, and where they are at an
// execute.
#pragma once

#include <initializer_list>
#include <optional>

#include "attention/params.hpp"
#include "kernels.hpp"
#include "raggeddnn/plugin/engine.hpp"
#include "raggeddnn/schema/sdpa_problem.hpp"

namespace raggeddnn::hip {

// Null for types that no kernel reads.
std::optional<ElementKind> kind_of(DataType type);

// Throws INVALID_VALUE with the reason why no kernel reads the node. `rows`: its tensors of rows
// but q, all of q's type; `stats`: those of width 1, in float; null where there is none.
void check_operands(const schema::SdpaProblem& problem,
                    std::initializer_list<const schema::TensorGeometry*> rows,
                    std::initializer_list<const schema::TensorGeometry*> stats);

// Where a tensor is. One of which no element is touched may come without memory.
RowTensor row_tensor(const schema::TensorGeometry& tensor, const plugin::Buffers& buffers,
                     bool is_touched = true);

// All but the schedules.
AttentionParams attention_params(const schema::SdpaProblem& problem, double scale,
                                 const plugin::Buffers& buffers);

// Cuts the workspace into arrays; without memory it counts the bytes that they take.
class WorkspaceCutter {
public:
    explicit WorkspaceCutter(void* memory) : begin_(static_cast<unsigned char*>(memory)) {}

    template <class T>
    T* take(size_t count) {
        T* array = begin_ ? reinterpret_cast<T*>(begin_ + used_) : nullptr;
        used_ += (count * sizeof(T) + 15) / 16 * 16;
        return array;
    }
    // Where it is to be found: at the workspace's beginning.
    FaultRecord* take_fault_record() { return take<FaultRecord>(1); }
    // Without a fault record. Of tiles of so many of at most `max_rows` rows.
    template <class Sequence>
    Schedule take_schedule(int64_t batches, int64_t max_rows, int64_t tile_rows) {
        const auto count = static_cast<size_t>(batches);
        const auto tiles = static_cast<size_t>((max_rows + tile_rows - 1) / tile_rows);
        Schedule schedule{};
        schedule.places = take<Place>(count);
        schedule.sequences = take<Sequence>(count);
        schedule.place_of_tile = take<int32_t>(count * tiles);
        schedule.tiles = take<int64_t>(1);
        schedule.next_work = take<unsigned long long>(2);
        return schedule;
    }
    size_t used() const { return used_; }

private:
    unsigned char* begin_;
    size_t used_ = 0;
};

}  // namespace raggeddnn::hip
