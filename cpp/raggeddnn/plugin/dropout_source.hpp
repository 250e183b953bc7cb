// The seed and the offset of dropout, as a plan keeps them and as one execute finds them.
#pragma once

#include <optional>
#include <string>

#include "raggeddnn/plugin/buffers.hpp"
#include "raggeddnn/plugin/philox.hpp"
#include "raggeddnn/schema/sdpa_problem.hpp"

namespace raggeddnn::plugin {

class DropoutSource {
public:
    DropoutSource(const schema::GraphView& graph, const schema::SdpaDropout& dropout)
        : dropout_(dropout),
          seed_(baked_integer(graph.tensor(dropout.seed.uid), dropout.seed.label)),
          offset_(baked_integer(graph.tensor(dropout.offset.uid), dropout.offset.label)) {}

    Dropout resolve(const Buffers& buffers) const {
        return Dropout::make(dropout_.probability, read(seed_, dropout_.seed, buffers),
                             read(offset_, dropout_.offset, buffers));
    }

private:
    // A baked value wins over the pack; a scalar and a tensor of one element are read alike.
    static int64_t read(const std::optional<int64_t>& value, const schema::RandomInput& input,
                        const Buffers& buffers) {
        if (value) return *value;
        return read_integer(input.type, buffers.find_device_buffer(input.uid, input.label));
    }

    schema::SdpaDropout dropout_;
    std::optional<int64_t> seed_;
    std::optional<int64_t> offset_;
};

}  // namespace raggeddnn::plugin
