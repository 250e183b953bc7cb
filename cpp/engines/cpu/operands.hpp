// What both plans of the engine share: where operands are at an execute, how the workspace is cut,
// and what becomes of rows that hold nothing.
#pragma once

#include <cstdint>
#include <optional>

#include "kernels.hpp"
#include "raggeddnn/plugin/dropout_source.hpp"
#include "raggeddnn/plugin/engine.hpp"
#include "raggeddnn/plugin/sequences.hpp"
#include "raggeddnn/schema/sdpa_problem.hpp"

namespace raggeddnn::cpu {

Element element_of(DataType type);

// A tensor of rows in memory, which may be missing where no element of it is touched.
class RowTensor {
public:
    RowTensor() = default;
    RowTensor(const schema::TensorGeometry& tensor, const plugin::Buffers& buffers,
              bool is_touched);

    // Those of one head, in the sequence whose first element is `base`.
    Rows rows(int64_t base, int64_t head) const;
    // Rows of a sequence that has `rows` of them in ragged tensors.
    int64_t end(int64_t rows) const { return is_ragged_ ? rows : max_rows_; }
    // Writes zeros into rows [begin, end) of a head.
    void clear(int64_t base, int64_t head, int64_t begin, int64_t end) const;
    // Writes -inf into rows of statistics.
    void clear_stats(int64_t base, int64_t head, int64_t begin, int64_t end) const;

private:
    char* data_ = nullptr;
    Element element_ = Element::FLOAT32;
    int64_t head_stride_ = 0;
    int64_t row_stride_ = 0;
    int64_t width_ = 0;
    int64_t max_rows_ = 0;
    bool is_ragged_ = false;
};

// An output, of which sequences have at most `rows` rows; all rows of a dense one are written.
RowTensor written_tensor(const schema::TensorGeometry& tensor, const plugin::Buffers& buffers,
                         int64_t rows);

// The operands that both passes read and that a graph may leave to run time.
class RuntimeOperands {
public:
    RuntimeOperands(const plugin::GraphView& graph, const schema::SdpaProblem& problem);

    // Finds them for one execute; `has_scores`: some row has keys.
    struct Resolved {
        float scale = 1.0f;
        RowTensor q;
        RowTensor k;
        RowTensor v;
        const void* bias = nullptr;
        std::optional<plugin::Dropout> dropout;
    };
    Resolved resolve(const schema::SdpaProblem& problem, const plugin::Buffers& buffers,
                     bool has_scores) const;

private:
    std::optional<plugin::ScalarOperand> scale_;
    std::optional<plugin::DropoutSource> dropout_;
};

// One query head of a sequence, all but its results.
void describe_head(const schema::SdpaProblem& problem, const RuntimeOperands::Resolved& operands,
                   const plugin::Sequence& sequence, int64_t batch, int64_t head, Head& to);

// Visible pairs of one head, about: what its work is measured by.
double count_pairs(const schema::SdpaProblem& problem, const plugin::Sequence& sequence);

// Cuts the workspace into arrays; without memory it counts the bytes that they take, with room to
// align the first one.
class WorkspaceCutter {
public:
    // Refuses memory that is not there.
    WorkspaceCutter(void* memory, std::string_view op);
    WorkspaceCutter() = default;

    template <class T>
    T* take(int64_t count) {
        return take_each<T>(count, 1);
    }
    // `times` arrays after each other.
    template <class T>
    T* take_each(int64_t count, int64_t times) {
        return reinterpret_cast<T*>(take_bytes(count, times, sizeof(T)));
    }
    size_t used() const { return static_cast<size_t>(used_ + MEMORY_ALIGNMENT); }

private:
    // INVALID_VALUE where the sum is beyond 64 bits.
    char* take_bytes(int64_t count, int64_t times, int64_t size);

    char* begin_ = nullptr;
    int64_t used_ = 0;
};

}  // namespace raggeddnn::cpu
