// What both attention nodes of the reference engine ask of their problem.
#pragma once

#include <initializer_list>

#include "ops.hpp"
#include "raggeddnn/schema/sdpa_problem.hpp"
#include "typed_memory.hpp"

namespace raggeddnn::reference {

// Throws where an attribute is set that this engine does not read.
inline void check_readable(const schema::SdpaProblem& p) {
    if (const auto name = p.first_unread(true)) {
        invalid("[", p.op, "] attribute ", *name, " is set, expected unset");
    }
}

// Throws for a data type that is not computed with: of the forward tensors, and of `others` (null:
// none).
inline void check_computable(const schema::SdpaProblem& p,
                             std::initializer_list<const schema::TensorGeometry*> others) {
    const auto check = [&p](const schema::TensorGeometry* t) {
        if (!t || is_computable(t->type)) return;
        invalid("[", p.op, "] ", t->label, " has data type ", to_string(t->type),
                ", expected DOUBLE, FLOAT, HALF or BFLOAT16");
    };
    for (const schema::TensorGeometry* t :
         {&p.q, &p.k, &p.v, &p.o, p.stats ? &*p.stats : nullptr, p.bias ? &*p.bias : nullptr}) {
        check(t);
    }
    for (const schema::TensorGeometry* t : others) check(t);
}

// Beside q, k and v: what a node may read that another one writes.
inline void add_shared_inputs(const schema::SdpaProblem& p, BuiltNode& built) {
    if (p.bias) built.inputs.push_back(p.bias->uid);
    if (!p.dropout) return;
    for (const schema::RandomInput* input : {&p.dropout->seed, &p.dropout->offset}) {
        if (!input->is_by_value) built.inputs.push_back(input->uid);
    }
}

}  // namespace raggeddnn::reference
