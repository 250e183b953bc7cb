// Matrix product and reduction nodes as plain data.
#pragma once

#include <string>
#include <vector>

#include "raggeddnn/schema/operand.hpp"

namespace raggeddnn::schema {

// C = A B. Batch axes of A and B are viewed as those of C, broadcast ones with stride 0. The rows
// of a ragged A are those of C, which then is ragged; the sum goes over the rows that each batch of
// a ragged B has, beside as many columns of A.
struct MatmulProblem {
    Operand a;  // [batch..., M, K]
    Operand b;  // [batch..., K, N]
    Operand c;  // [batch..., M, N]

    bool is_ragged() const { return a.ragged || b.ragged; }
};

// Over every axis in which `out` has size 1. Of a ragged x: over the rows that the batches have,
// unless `out` is ragged and keeps them.
struct ReductionProblem {
    ReductionMode mode = ReductionMode::NOT_SET;
    Operand x;
    Operand out;                   // viewed in the dims of x, with stride 0 where reduced
    std::vector<bool> is_reduced;  // per axis
};

namespace detail {

inline void check_matmul_raggedness(const NodeReader& reader, const MatmulProblem& p) {
    for (const Operand* operand : {&p.a, &p.b}) {
        if (!operand->ragged || p.c.rank() == operand->rank()) continue;
        reader.refuse(p.c.label, " has rank ", p.c.rank(), ", expected ", operand->rank(), ": ",
                      operand->label, " is ragged");
    }
    reader.check_raggedness(p.c, p.a);
}

inline void check_reduction_raggedness(const NodeReader& reader, const ReductionProblem& p) {
    if (p.x.ragged && !p.out.ragged && p.out.dims[SEQUENCE_AXIS] == 1) return;  // none kept
    for (const size_t axis : {BATCH_AXIS, SEQUENCE_AXIS}) {
        if (!p.x.ragged || p.out.dims[axis] == p.x.dims[axis]) continue;
        reader.refuse(p.out.label, " has dims ", list_of(p.out.dims), ", expected ", p.x.dims[axis],
                      " over axis ", axis, " as ", p.x.label,
                      ": rows that are kept stay in their batch");
    }
    reader.check_raggedness(p.out, p.x);
}

}  // namespace detail

// `umd_flops` and `umd_bytes` are hints and are not read.
inline MatmulProblem read_matmul_problem(const GraphView& graph, const Node& node) {
    const NodeReader reader(graph, "matmul");
    const auto& attributes = reader.attributes<MatmulAttributes>(node);
    MatmulProblem p;
    p.a = reader.tensor("a", attributes.a_tensor_uid());
    p.b = reader.tensor("b", attributes.b_tensor_uid());
    p.c = reader.tensor("c", attributes.c_tensor_uid());
    for (const Operand* operand : {&p.a, &p.b, &p.c}) {
        if (operand->rank() < 2) {
            reader.refuse(operand->label, " has rank ", operand->rank(),
                          ", expected at least 2: [..., rows, columns]");
        }
    }
    const int64_t rows = p.a.dims[p.a.rank() - 2];
    const int64_t depth = p.a.dims.back();
    const int64_t columns = p.b.dims.back();
    if (p.b.dims[p.b.rank() - 2] != depth) {
        reader.refuse(p.b.label, " has dims ", list_of(p.b.dims), ", expected ", depth, " rows as ",
                      p.a.label, " has columns");
    }
    Dims target = p.c.dims;
    target[p.c.rank() - 2] = rows;
    target[p.c.rank() - 1] = columns;
    reader.check_output(p.c, target);
    detail::check_matmul_raggedness(reader, p);
    target.back() = depth;
    reader.broadcast(p.a, target);
    target[p.c.rank() - 2] = depth;
    target.back() = columns;
    reader.broadcast(p.b, target);
    reader.check_distinct({&p.a, &p.b}, {&p.c});
    return p;
}

// `is_deterministic` is a hint: an engine that cannot promise it refuses.
inline ReductionProblem read_reduction_problem(const GraphView& graph, const Node& node) {
    const NodeReader reader(graph, "reduction");
    const auto& attributes = reader.attributes<ReductionAttributes>(node);
    ReductionProblem p;
    p.mode = attributes.mode();
    if (p.mode <= ReductionMode::NOT_SET || p.mode > ReductionMode::MUL_NO_ZEROS) {
        reader.refuse("mode is ", static_cast<int>(p.mode), ", expected 1 to ",
                      static_cast<int>(ReductionMode::MUL_NO_ZEROS));
    }
    p.x = reader.tensor("x", attributes.in_tensor_uid());
    p.out = reader.tensor("out", attributes.out_tensor_uid());
    bool fits = p.out.rank() == p.x.rank();
    for (size_t axis = 0; fits && axis < p.x.rank(); ++axis) {
        fits = p.out.dims[axis] == 1 || p.out.dims[axis] == p.x.dims[axis];
    }
    if (!fits) {
        reader.refuse(p.out.label, " has dims ", list_of(p.out.dims),
                      ", expected each to be 1 or as in ", list_of(p.x.dims), " of ", p.x.label);
    }
    detail::check_reduction_raggedness(reader, p);
    reader.check_output(p.out, p.out.dims);
    reader.check_distinct({&p.x}, {&p.out});
    for (size_t axis = 0; axis < p.x.rank(); ++axis) {
        const bool is_kept = p.out.ragged && (axis == BATCH_AXIS || axis == SEQUENCE_AXIS);
        p.is_reduced.push_back(p.out.dims[axis] == 1 && !is_kept);
        if (p.is_reduced.back()) p.out.strides[axis] = 0;
    }
    p.out.dims = p.x.dims;
    return p;
}

}  // namespace raggeddnn::schema
