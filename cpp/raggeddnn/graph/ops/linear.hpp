// The options of matrix product and reduction nodes, by hipDNN's names.
#pragma once

#include "raggeddnn/graph/ops/op_attributes.hpp"

namespace raggeddnn {

class MatmulAttributes : public OpAttributes<MatmulAttributes, schema::MatmulAttributesT> {};

using ReductionMode = schema::ReductionMode;

class ReductionAttributes : public OpAttributes<ReductionAttributes, schema::ReductionAttributesT> {
public:
    ReductionAttributes& set_mode(ReductionMode mode) {
        table_.mode = mode;
        return *this;
    }
    // Asks for the same bits from the same inputs; a hint to engines that would not give them.
    ReductionAttributes& set_is_deterministic(bool value) {
        table_.is_deterministic = value;
        return *this;
    }
};

}  // namespace raggeddnn
