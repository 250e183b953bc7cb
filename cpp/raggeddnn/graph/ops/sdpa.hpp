// The attributes of attention's forward and backward nodes.
#pragma once

#include "raggeddnn/graph/ops/sdpa_options.hpp"

namespace raggeddnn {

class SdpaAttributes : public SdpaOptions<SdpaAttributes, schema::SdpaAttributesT> {
public:
    SdpaAttributes& set_generate_stats(bool value) {
        table_.generate_stats = value;
        return *this;
    }
    bool generate_stats() const { return table_.generate_stats.value_or(false); }
};

class SdpaBackwardAttributes
    : public SdpaOptions<SdpaBackwardAttributes, schema::SdpaBackwardAttributesT> {
public:
    // The gradient of stats, with the dims of stats. An extension: only readers and engines that
    // know it take the graph.
    SdpaBackwardAttributes& set_dstats(TensorPtr t) {
        return set(&Table::dstats_tensor_uid, "dstats", std::move(t));
    }
    // Asks for the gradient of bias, summed over the axes along which bias is broadcast.
    SdpaBackwardAttributes& set_generate_dbias(bool value) {
        generates_dbias_ = value;
        return *this;
    }
    bool generate_dbias() const { return generates_dbias_; }

private:
    bool generates_dbias_ = false;
};

}  // namespace raggeddnn
