#include "raggeddnn/backend/runtime_defaults.hpp"

#include <cstring>
#include <memory>

#include "raggeddnn/base/error.hpp"
#include "raggeddnn/schema/graph_view.hpp"
#include "raggeddnn/tensor/half.hpp"

namespace raggeddnn::backend {

namespace {

template <class T>
void store(RuntimeDefault& to, const T& value) {
    static_assert(sizeof(T) <= sizeof(to.bytes));
    std::memcpy(to.bytes.data(), &value, sizeof(T));
}

RuntimeDefault default_of(const schema::TensorAttributes& t) {
    const DataType of_value = schema::data_type_of_value(t.value_type());
    if (of_value != schema::from_wire(t.data_type())) {  // engines read it by the tensor's type
        invalid(schema::TensorView(&t).label(), " has a runtime default of type ",
                to_string(of_value), " and data type ", to_string(schema::from_wire(t.data_type())),
                ", expected the same");
    }
    RuntimeDefault d;
    d.uid = t.uid();
    switch (t.value_type()) {
        case schema::TensorValue::Float32Value: store(d, t.value_as_Float32Value()->value()); break;
        case schema::TensorValue::Float16Value:
            store(d, half(t.value_as_Float16Value()->value()));
            break;
        case schema::TensorValue::BFloat16Value:
            store(d, bfloat16(t.value_as_BFloat16Value()->value()));
            break;
        case schema::TensorValue::Int32Value: store(d, t.value_as_Int32Value()->value()); break;
        case schema::TensorValue::Float64Value: store(d, t.value_as_Float64Value()->value()); break;
        case schema::TensorValue::Int64Value: store(d, t.value_as_Int64Value()->value()); break;
        case schema::TensorValue::BoolValue: store(d, t.value_as_BoolValue()->value()); break;
        default:
            invalid(schema::TensorView(&t).label(),
                    " has a runtime default of a type that has no "
                    "runtime scalars, expected ",
                    RUNTIME_SCALAR_TYPES);
    }
    return d;
}

bool is_overridable(const schema::TensorAttributes& t) {
    return t.is_runtime_pass_by_value() && t.value_type() != schema::TensorValue::NONE;
}

}  // namespace

std::vector<RuntimeDefault> read_runtime_defaults(const schema::Graph& graph) {
    std::vector<RuntimeDefault> defaults;
    if (!graph.is_runtime_default_override_enabled() || !graph.tensors()) return defaults;
    for (const schema::TensorAttributes* t : *graph.tensors()) {
        if (is_overridable(*t)) defaults.push_back(default_of(*t));
    }
    return defaults;
}

schema::GraphBlob without_runtime_defaults(const schema::GraphBlob& graph) {
    if (!graph.unknown_slots().empty()) {
        fail(ErrorCode::NOT_SUPPORTED,
             "the graph lets runtime defaults be overridden and has a slot unknown to this version "
             "(",
             graph.unknown_slots().front(), "), expected only known ones: it must be written anew");
    }
    const std::unique_ptr<schema::GraphT> tree(graph.graph().UnPack());
    tree->is_runtime_default_override_enabled = false;
    for (const auto& tensor : tree->tensors) {
        if (tensor->is_runtime_pass_by_value) tensor->value.Reset();
    }
    flatbuffers::FlatBufferBuilder builder;
    builder.Finish(schema::CreateGraph(builder, tree.get()));
    return schema::GraphBlob::read({builder.GetBufferPointer(), builder.GetSize()});
}

}  // namespace raggeddnn::backend
