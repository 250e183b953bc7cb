// Matrix product and reduction nodes as plain data.
#pragma once

#include <string>
#include <vector>

#include "raggeddnn/schema/operand.hpp"

namespace raggeddnn::schema {

// C = A B. Batch axes of A and B are viewed as those of C, broadcast ones with stride 0.
struct MatmulProblem {
    Operand a;  // [batch..., M, K]
    Operand b;  // [batch..., K, N]
    Operand c;  // [batch..., M, N]

    int64_t rows() const { return c.dims[c.rank() - 2]; }
    int64_t columns() const { return c.dims[c.rank() - 1]; }
    int64_t depth() const { return a.dims[a.rank() - 1]; }
};

// Over every axis in which `out` has size 1.
struct ReductionProblem {
    ReductionMode mode = ReductionMode::NOT_SET;
    Operand x;
    Operand out;  // of the same rank
};

// `umd_flops` and `umd_bytes` are hints and are not read.
inline MatmulProblem read_matmul_problem(const GraphView& graph, const Node& node) {
    const NodeReader reader(graph, "matmul");
    const auto& attributes = reader.attributes<MatmulAttributes>(node);
    MatmulProblem p;
    p.a = reader.tensor("a", attributes.a_tensor_uid());
    p.b = reader.tensor("b", attributes.b_tensor_uid());
    p.c = reader.tensor("c", attributes.c_tensor_uid());
    for (const Operand* operand : {&p.a, &p.b, &p.c}) {
        reader.check_dense(*operand);
        if (operand->rank() < 2) {
            reader.refuse(operand->label, " has rank ", operand->rank(),
                          ", expected at least 2: [..., rows, columns]");
        }
    }
    const int64_t rows = p.a.dims[p.a.rank() - 2];
    const int64_t depth = p.depth();
    const int64_t columns = p.b.dims.back();
    if (p.b.dims[p.b.rank() - 2] != depth) {
        reader.refuse(p.b.label, " has dims ", list_of(p.b.dims), ", expected ", depth, " rows as ",
                      p.a.label, " has columns");
    }
    Dims target = p.c.dims;
    target[p.c.rank() - 2] = rows;
    target[p.c.rank() - 1] = columns;
    reader.check_output(p.c, target);
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
    reader.check_dense(p.x);
    reader.check_dense(p.out);
    bool fits = p.out.rank() == p.x.rank();
    for (size_t axis = 0; fits && axis < p.x.rank(); ++axis) {
        fits = p.out.dims[axis] == 1 || p.out.dims[axis] == p.x.dims[axis];
    }
    if (!fits) {
        reader.refuse(p.out.label, " has dims ", list_of(p.out.dims),
                      ", expected each to be 1 or as in ", list_of(p.x.dims), " of ", p.x.label);
    }
    reader.check_output(p.out, p.out.dims);
    reader.check_distinct({&p.x}, {&p.out});
    return p;
}

}  // namespace raggeddnn::schema
