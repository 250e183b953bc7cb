// What both plans of the engine share: which operands kernels can read, and where they are at an
// execute.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "attention/params.hpp"
#include "kernels.hpp"
#include "raggeddnn/plugin/engine.hpp"
#include "raggeddnn/schema/sdpa_problem.hpp"

namespace raggeddnn::hip {

// Null for types that no kernel reads.
std::optional<ElementKind> kind_of(DataType type);

// Throws INVALID_VALUE with the reason why no kernel reads the node: what
// plugin::check_kernel_operands, which says what `rows` and `stats` are, refuses, and extents of
// more than 32 bits.
void check_operands(const schema::SdpaProblem& problem,
                    std::initializer_list<const schema::TensorGeometry*> rows,
                    std::initializer_list<const schema::TensorGeometry*> stats);

// Where a tensor is. One of which no element is touched may come without memory.
RowTensor row_tensor(const schema::TensorGeometry& tensor, const plugin::Buffers& buffers,
                     bool is_touched = true);

// What of the output is to be cleared, by what the caller of an execute asks for. `word`: what four
// bytes of it become.
ClearedOutput cleared_output(const schema::TensorGeometry& tensor, const RowTensor& memory,
                             std::span<const raggeddnnClearedOutput_t> asked, uint32_t word = 0);

BiasTensor bias_tensor(const schema::TensorGeometry& bias, const plugin::Buffers& buffers,
                       bool is_touched = true);

// The scalars of a node and where its random numbers come from: made when the plan is built,
// resolved at each execute.
class RuntimeOperands {
public:
    RuntimeOperands(const plugin::GraphView& graph, const schema::SdpaProblem& problem);

    // All of a pass's parameters but the schedules.
    AttentionParams resolve(const schema::SdpaProblem& problem,
                            const plugin::Buffers& buffers) const;

private:
    std::optional<plugin::ScalarOperand> scale_;
    std::optional<int64_t> seed_;  // as the graph states it
    std::optional<int64_t> offset_;
};

// The kernel for a problem, and what keeps matrix kernels from it; empty: it is one of those.
template <class Kernel>
struct KernelChoice {
    const Kernel* kernel = nullptr;
    std::string why_plain;

    std::string explain() const {
        return message(", width up to ", kernel->width, " (", kernel->arch, "): ", kernel->reason,
                       why_plain.empty() ? "" : "; without matrix instructions, for ", why_plain);
    }
    std::string id() const {
        return message(", width ", kernel->width, kernel->is_plain ? ", plain" : "");
    }
};

// `why_plain`: a reason of the pass's own.
template <class Kernel>
KernelChoice<Kernel> choose_kernel(std::span<const Kernel> kernels, const schema::SdpaProblem& p,
                                   std::string why_plain = {}) {
    const ElementKind element = *kind_of(p.q.type);
    const int64_t width = std::max(p.head_dim(), p.value_dim());
    if (p.dropout) why_plain = "dropout";
    if (p.bias) why_plain = "a bias";
    if (p.q.type == DataType::FLOAT) why_plain = "operands of type FLOAT";
    if (why_plain.empty()) {
        if (const Kernel* kernel = find_kernel(kernels, false, element, width)) {
            return {kernel, {}};
        }
        why_plain = message("width ", width);
    }
    return {find_kernel(kernels, true, element, width), why_plain};
}

// Which schedules that an execute leaves in its workspace later ones may take.
class ScheduleReuse {
public:
    static constexpr plugin::KnobInfo KNOB{
        "reuse_schedule",
        "1: the order of work that an execute of the same graph, with this knob or without, has "
        "left in the workspace is taken as it is; nothing of the workspace, the offsets and the "
        "lengths has changed since",
        0};

    // `kernel`: what the schedule depends on of the kernel. `config`: null where the plan is not to
    // be executed. Throws INVALID_VALUE for a knob that is neither 0 nor 1.
    ScheduleReuse(const plugin::GraphView& graph, std::string_view kernel,
                  const plugin::EngineConfig* config);

    // An execute's schedules. `more`: tensors beside those of both passes.
    void name(std::initializer_list<Schedule*> schedules, const AttentionParams& params,
              std::initializer_list<const RowTensor*> more = {}) const;

private:
    uint64_t plan_;
    bool is_taken_ = false;
};

// Cuts the workspace into arrays; without memory it counts the bytes that they take.
class WorkspaceCutter {
public:
    explicit WorkspaceCutter(void* memory) : begin_(static_cast<unsigned char*>(memory)) {}
    // Of an execute: refuses memory that is not there or that wide loads cannot read.
    WorkspaceCutter(void* memory, const char* op) : WorkspaceCutter(memory) {
        if (!memory || reinterpret_cast<uintptr_t>(memory) % ALIGNMENT != 0) {
            invalid("[", op, "] the workspace is at address ", memory, ", expected a multiple of ",
                    ALIGNMENT);
        }
    }

    template <class T>
    T* take(size_t count) {
        T* array = begin_ ? reinterpret_cast<T*>(begin_ + used_) : nullptr;
        used_ += (count * sizeof(T) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        return array;
    }
    // Where it is to be found: at the workspace's beginning.
    FaultRecord* take_fault_record() { return take<FaultRecord>(1); }
    // Behind it, so that every execute says which two schedules the workspace has from then on.
    uint64_t* take_schedule_names() { return take<uint64_t>(2); }
    // Without a fault record. Of tiles of so many of at most `max_rows` rows.
    template <class Sequence>
    Schedule take_schedule(int64_t batches, int64_t max_rows, int64_t tile_rows) {
        const auto count = static_cast<size_t>(batches);
        const auto tiles = static_cast<size_t>((max_rows + tile_rows - 1) / tile_rows);
        Schedule schedule{};
        schedule.places = take<Place>(count);
        schedule.sequences = take<Sequence>(count);
        schedule.read = take<Sequence>(count);
        schedule.place_of_tile = take<int32_t>(count * tiles);
        schedule.tiles = take<int64_t>(1);
        schedule.next_work = take<unsigned long long>(2 * MOST_DIES);
        schedule.made_behind = take<uint64_t>(1);
        return schedule;
    }
    size_t used() const { return used_; }

private:
    static constexpr size_t ALIGNMENT = 16;

    unsigned char* begin_;
    size_t used_ = 0;
};

}  // namespace raggeddnn::hip
