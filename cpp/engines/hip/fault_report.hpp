// The record of bad offsets and lengths that an execute left on the device, in words.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "attention/faults.hpp"
#include "raggeddnn/plugin/engine.hpp"
#include "raggeddnn/schema/sdpa_problem.hpp"

namespace raggeddnn::hip {

// A number for the records of one plan, which no other plan of the process and hardly any other
// memory holds.
uint64_t new_record_owner();

using RaggedTensorOf = std::function<const schema::TensorGeometry&(MetadataOf)>;
// Of those that both passes read.
const schema::TensorGeometry& operand_of(const schema::SdpaProblem& problem, MetadataOf of);

// The sentence that an engine on the host refuses such metadata with; nothing when there was no
// fault. Waits for the stream. Throws INVALID_VALUE where `record`, in device memory, is not the
// owner's.
std::optional<std::string> report_first_fault(const schema::SdpaProblem& problem,
                                              const RaggedTensorOf& tensor_of, uint64_t owner,
                                              const void* record, hipdnnPluginStream_t stream);

}  // namespace raggeddnn::hip
