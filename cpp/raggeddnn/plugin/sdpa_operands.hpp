// What engines with kernels of their own ask of an attention node: operands of one type, rows that
// lie side by side, nothing set that they do not read.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "raggeddnn/base/error.hpp"
#include "raggeddnn/schema/sdpa_problem.hpp"

namespace raggeddnn::plugin {

// Widest row that such kernels take (contract of ragged attention, rule 12).
inline constexpr int64_t MAX_ROW_WIDTH = 256;

inline bool is_kernel_type(DataType type) {
    return type == DataType::FLOAT || type == DataType::BFLOAT16 || type == DataType::HALF;
}

inline void check_kernel_type(const schema::SdpaProblem& p, const schema::TensorGeometry& t) {
    if (t.type != p.q.type) {
        invalid("[", p.op, "] ", t.label, " has data type ", to_string(t.type), ", expected ",
                to_string(p.q.type), " as ", p.q.label);
    }
    if (t.width() > MAX_ROW_WIDTH) {
        invalid("[", p.op, "] ", t.label, " has width ", t.width(), ", expected at most ",
                MAX_ROW_WIDTH);
    }
}

inline void check_kernel_rows(const schema::SdpaProblem& p, const schema::TensorGeometry& t) {
    check_kernel_type(p, t);
    if (t.width() > 1 && t.strides[schema::WIDTH_AXIS] != 1) {
        invalid("[", p.op, "] ", t.label, " has stride ", t.strides[schema::WIDTH_AXIS],
                " over its width, expected 1");
    }
}

// The type of a bias or of its gradient.
inline void check_kernel_bias(const schema::SdpaProblem& p, const schema::TensorGeometry& bias) {
    if (bias.type == DataType::FLOAT || bias.type == p.q.type) return;
    invalid("[", p.op, "] ", bias.label, " has data type ", to_string(bias.type),
            ", expected FLOAT or ", to_string(p.q.type), " as ", p.q.label);
}

// Throws INVALID_VALUE with the reason why no kernel reads the node. `rows`: its tensors of rows
// but q, all of q's type; `stats`: those of width 1, in float; null where there is none.
inline void check_kernel_operands(const schema::SdpaProblem& p,
                                  std::initializer_list<const schema::TensorGeometry*> rows,
                                  std::initializer_list<const schema::TensorGeometry*> stats) {
    if (const auto name = p.first_unread(true)) {
        invalid("[", p.op, "] attribute ", *name, " is set, expected unset");
    }
    if (!is_kernel_type(p.q.type)) {
        invalid("[", p.op, "] ", p.q.label, " has data type ", to_string(p.q.type),
                ", expected FLOAT, HALF or BFLOAT16");
    }
    check_kernel_rows(p, p.q);
    for (const schema::TensorGeometry* t : rows) check_kernel_rows(p, *t);
    for (const schema::TensorGeometry* t : stats) {
        if (!t || t->type == DataType::FLOAT) continue;
        invalid("[", p.op, "] ", t->label, " has data type ", to_string(t->type),
                ", expected FLOAT");
    }
    if (p.bias) check_kernel_bias(p, *p.bias);
}

}  // namespace raggeddnn::plugin
