#include "fault_report.hpp"

#include <atomic>

#include "kernels.hpp"
#include "raggeddnn/plugin/ragged_blocks.hpp"

namespace raggeddnn::hip {

namespace {

// Throws what an engine on the host throws.
[[noreturn]] void refuse(const schema::SdpaProblem& p, const RaggedTensorOf& tensor_of,
                         const Fault& fault) {
    const int64_t batch = fault.batch;
    if (fault.kind == FaultKind::LENGTH) {
        const auto& lengths = fault.of == MetadataOf::LENGTHS_Q ? p.seq_len_q : p.seq_len_kv;
        plugin::refuse_length(p.op, *lengths, batch, fault.got, fault.other);
    }
    const schema::TensorGeometry& tensor = tensor_of(fault.of);
    const schema::IndexTensor& offsets = tensor.ragged->offsets;
    if (fault.kind == FaultKind::ROWS) {
        plugin::refuse_rows(p.op, offsets, batch, fault.got, fault.other);
    }
    if (batch == 0) plugin::check_first_offset(p.op, offsets, fault.other);
    plugin::rows_between(p.op, tensor, batch, fault.other, fault.got);
    // The block would do. It is too far on for the ones before it, and the first of those that do
    // not has been reported, unless it had not been bad when it was read.
    plugin::refuse_index(p.op, offsets, batch, fault.other,
                         "offsets that stay as they are while a plan runs");
}

}  // namespace

uint64_t new_record_owner() {
    static std::atomic<uint64_t> next{0x7261676765640000};  // "ragged": unlike what memory may hold
    return next.fetch_add(1);
}

const schema::TensorGeometry& operand_of(const schema::SdpaProblem& p, MetadataOf of) {
    switch (of) {
        case MetadataOf::Q: return p.q;
        case MetadataOf::O: return p.o;
        case MetadataOf::STATS: return *p.stats;
        case MetadataOf::K: return p.k;
        default: return p.v;
    }
}

std::optional<std::string> report_first_fault(const schema::SdpaProblem& problem,
                                              const RaggedTensorOf& tensor_of, uint64_t owner,
                                              const void* record, hipdnnPluginStream_t stream) {
    FaultRecord read{};
    if (const char* error = read_back(&read, record, sizeof(read), stream)) {
        fail(ErrorCode::EXECUTION_FAILED, "[", problem.op, "] reading the workspace: ", error);
    }
    if (read.owner != owner) {
        invalid("[", problem.op,
                "] the workspace holds no record of this plan's, expected that of its last "
                "execute, unused since");
    }
    if (read.first.batch == Fault::NO_BATCH) return std::nullopt;
    try {
        refuse(problem, tensor_of, read.first);
    } catch (const Exception& e) {
        return e.what();
    }
}

}  // namespace raggeddnn::hip
