#include "raggeddnn/graph/graph.hpp"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "raggeddnn/graph/ops/checks.hpp"
#include "raggeddnn/graph/ops/infer.hpp"
#include "raggeddnn/schema/blob.hpp"
#include "raggeddnn/schema/data_type_map.hpp"
#include "raggeddnn/schema/graph_view.hpp"
#include "raggeddnn/schema/json.hpp"
#include "raggeddnn/schema/tensor_geometry.hpp"
#include "raggeddnn/schema/uids.hpp"

namespace raggeddnn {

Graph::Graph() = default;
Graph::~Graph() = default;
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(Graph&&) noexcept = default;

void Graph::refuse_if_final(const char* what) const {
    if (blob_) {
        invalid(
            "graph '", table_.name, "': ", what,
            " after it was built, serialized or deserialized, expected a graph under construction");
    }
}

Graph& Graph::set_name(std::string name) {
    refuse_if_final("set_name");
    table_.name = std::move(name);
    return *this;
}

Graph& Graph::set_io_data_type(DataType type) {
    refuse_if_final("set_io_data_type");
    table_.io_data_type = schema::to_wire(type);
    return *this;
}

Graph& Graph::set_intermediate_data_type(DataType type) {
    refuse_if_final("set_intermediate_data_type");
    table_.intermediate_data_type = schema::to_wire(type);
    return *this;
}

Graph& Graph::set_compute_data_type(DataType type) {
    refuse_if_final("set_compute_data_type");
    table_.compute_data_type = schema::to_wire(type);
    return *this;
}

Graph& Graph::set_preferred_engine_id(std::optional<int64_t> id) {
    refuse_if_final("set_preferred_engine_id");
    table_.preferred_engine_id = id;
    return *this;
}

Graph& Graph::set_runtime_default_override(bool value) {
    refuse_if_final("set_runtime_default_override");
    table_.is_runtime_default_override_enabled = value;
    return *this;
}

Graph& Graph::set_override_shape_enabled(bool value) {
    refuse_if_final("set_override_shape_enabled");
    table_.is_override_shape_enabled = value;
    return *this;
}

DataType Graph::get_io_data_type() const { return schema::from_wire(table_.io_data_type); }
DataType Graph::get_intermediate_data_type() const {
    return schema::from_wire(table_.intermediate_data_type);
}
DataType Graph::get_compute_data_type() const {
    return schema::from_wire(table_.compute_data_type);
}

TensorPtr Graph::tensor(const TensorAttributes& attributes) {
    return tensor(std::make_shared<TensorAttributes>(attributes));
}

TensorPtr Graph::tensor(TensorPtr attributes) {
    refuse_if_final("tensor");
    if (!attributes) invalid("graph '", table_.name, "': tensor got null, expected a tensor");
    if (std::find(tensors_.begin(), tensors_.end(), attributes) == tensors_.end()) {
        tensors_.push_back(attributes);
    }
    return attributes;
}

bool Graph::contains(const TensorPtr& tensor) const {
    return std::find(tensors_.begin(), tensors_.end(), tensor) != tensors_.end();
}

void Graph::add_node(OpNode node) { nodes_.push_back(std::move(node)); }

Graph::Uids Graph::choose_uids() const {
    Uids uids;
    std::unordered_set<int64_t> taken;
    for (const TensorPtr& t : tensors_) {
        if (!t->stated_.uid) continue;
        if (!taken.insert(*t->stated_.uid).second) {
            invalid("graph '", table_.name, "': uid ", *t->stated_.uid, " of ", t->label(),
                    " is taken by another tensor, expected unique uids");
        }
        uids[t.get()] = *t->stated_.uid;
    }
    int64_t next = 1;
    for (const TensorPtr& t : tensors_) {
        if (t->stated_.uid) continue;
        while (!taken.insert(next).second) ++next;
        uids[t.get()] = next;
    }
    return uids;
}

namespace {

void fill_data_types(schema::GraphT& lowered) {
    for (const auto& t : lowered.tensors) {
        if (t->data_type != schema::DataType::UNSET) continue;
        t->data_type = t->virtual_ ? lowered.intermediate_data_type : lowered.io_data_type;
    }
}

}  // namespace

schema::GraphT Graph::tables(const Uids& uids) const {
    schema::GraphT lowered = table_;
    for (const TensorPtr& t : tensors_) {
        const TensorAttributes::Choice& stated = t->stated_;
        auto copy = std::make_unique<schema::TensorAttributesT>(t->table_);
        copy->uid = uids.at(t.get());
        copy->dims = stated.dims;
        copy->strides = stated.strides;
        copy->data_type = stated.data_type;
        copy->ragged_offset_multiplier = stated.ragged_offset_multiplier;
        copy->ragged_offset_tensor_uid = flatbuffers::nullopt;
        if (const TensorPtr& aux = stated.ragged_offset) {
            if (!uids.contains(aux.get())) {
                invalid(t->label(), " has the ragged offset ", aux->label(),
                        ", which is not in this graph, expected a result of graph.tensor");
            }
            copy->ragged_offset_tensor_uid = uids.at(aux.get());
        }
        lowered.tensors.push_back(std::move(copy));
    }
    for (const OpNode& node : nodes_) {
        auto copy = std::make_unique<schema::NodeT>(node.table);
        for (const TensorUse& use : node.uses) use.bind(*copy, uids.at(use.tensor.get()));
        lowered.nodes.push_back(std::move(copy));
    }
    fill_data_types(lowered);
    return lowered;
}

void Graph::infer(schema::GraphT& lowered) const {
    const auto find = [&lowered](int64_t uid) -> schema::TensorAttributesT* {
        for (const auto& t : lowered.tensors) {
            if (t->uid == uid) return t.get();
        }
        return nullptr;
    };
    const graph_ops::InferContext context{
        [&find](int64_t uid) -> schema::TensorAttributesT& {
            schema::TensorAttributesT* tensor = find(uid);
            if (!tensor) fail(ErrorCode::INTERNAL_ERROR, "no tensor has uid ", uid);
            return *tensor;
        },
        [&](double value) {
            int64_t uid = 1;
            while (find(uid)) ++uid;
            auto constant = std::make_unique<schema::TensorAttributesT>(
                TensorAttributes(value).set_uid(uid).table_);
            lowered.tensors.push_back(std::move(constant));
            return uid;
        }};
    for (size_t i = 0; i < nodes_.size(); ++i) nodes_[i].infer(*lowered.nodes[i], context);
}

void Graph::show_inferred(const schema::GraphT& lowered) {
    std::unordered_map<int64_t, TensorPtr> by_uid;
    for (size_t i = 0; i < tensors_.size(); ++i) by_uid[lowered.tensors[i]->uid] = tensors_[i];
    for (size_t i = 0; i < tensors_.size(); ++i) {
        const schema::TensorAttributesT& t = *lowered.tensors[i];
        const auto& aux = t.ragged_offset_tensor_uid;
        tensors_[i]->show({t.uid, t.dims, t.strides, t.data_type, aux ? by_uid.at(*aux) : nullptr,
                           t.ragged_offset_multiplier});
    }
}

namespace {

// The ragged offset of `tensor`: [B+1, 1, 1, 1] or [B+1], INT32 or INT64, dense, from the variant
// pack.
void check_ragged_offset(const TensorAttributes& tensor, const TensorAttributes& aux) {
    const auto wrong = [&](const auto&... parts) {
        invalid(tensor.label(), " has the ragged offset ", aux.label(), parts...);
    };
    if (aux.get_is_virtual()) wrong(", which is virtual, expected a tensor of the variant pack");
    if (aux.has_ragged_offset()) wrong(", which is ragged itself, expected a dense tensor");
    if (aux.get_data_type() != DataType::INT32 && aux.get_data_type() != DataType::INT64) {
        wrong(" of type ", to_string(aux.get_data_type()), ", expected INT32 or INT64");
    }
    const std::vector<int64_t>& dims = aux.get_dim();
    if (dims.size() != 4 && dims.size() != 1) {
        wrong(" of rank ", dims.size(), ", expected rank 4, [B+1, 1, 1, 1], or rank 1, [B+1]");
    }
    const int64_t expected = tensor.get_dim()[0] + 1;
    if (dims[0] != expected || aux.get_volume() != expected) {
        wrong(" of dims ", schema::list_of(dims), ", expected [", expected, ", 1, 1, 1]");
    }
}

}  // namespace

void Graph::check_tensors() const {
    for (const TensorPtr& t : tensors_) {
        const Error error = t->validate();
        if (error.is_bad()) throw Exception(error.code, error.err_msg);
    }
    for (const TensorPtr& t : tensors_) {
        if (t->ragged_offset_) check_ragged_offset(*t, *t->ragged_offset_);
    }
}

namespace {

// Readers expect rank 4 of a ragged offset.
void widen_ragged_offsets(schema::GraphT& lowered) {
    for (const auto& tensor : lowered.tensors) {
        if (!tensor->ragged_offset_tensor_uid) continue;
        for (const auto& aux : lowered.tensors) {
            if (aux->uid != *tensor->ragged_offset_tensor_uid || aux->dims.size() != 1) continue;
            aux->dims.resize(4, 1);
            aux->strides.resize(4, 1);
        }
    }
}

// Rules of operations and of graphs, checked on the bytes: the same code that engines read them
// with.
void check(const schema::GraphView& view) {
    for (size_t i = 0; i < view.node_count(); ++i) graph_ops::check_node(view, view.node(i));
    schema::check_extents_are_given(view);
}

}  // namespace

schema::GraphT Graph::lower() {
    if (nodes_.empty()) {
        fail(ErrorCode::ATTRIBUTE_NOT_SET, "graph '", table_.name,
             "' has no operations, expected at least one");
    }
    for (const TensorPtr& t : tensors_) t->show(t->stated_);
    schema::GraphT lowered = tables(choose_uids());
    infer(lowered);
    show_inferred(lowered);
    check_tensors();
    widen_ragged_offsets(lowered);
    flatbuffers::FlatBufferBuilder builder;
    builder.Finish(schema::CreateGraph(builder, &lowered));
    check(schema::GraphView(builder.GetBufferPointer(), builder.GetSize()));
    return lowered;
}

std::string Graph::draft_json() const {
    if (blob_) return schema::graph_to_json(blob_->graph());
    schema::GraphT draft = tables(choose_uids());
    // What does not fit is for validate to say; the draft shows what is known so far.
    static_cast<void>(as_error([&] { infer(draft); }));
    flatbuffers::FlatBufferBuilder builder;
    builder.Finish(schema::CreateGraph(builder, &draft));
    return schema::graph_to_json(*flatbuffers::GetRoot<schema::Graph>(builder.GetBufferPointer()));
}

Error Graph::validate() {
    return as_error([this] {
        if (blob_) {
            check(schema::GraphView(blob_->bytes().data(), blob_->bytes().size()));
        } else {
            lower();
        }
    });
}

void Graph::adopt(const schema::Graph& received) {
    std::unique_ptr<schema::GraphT> tree(received.UnPack());
    std::unordered_map<int64_t, TensorPtr> by_uid;
    for (std::unique_ptr<schema::TensorAttributesT>& table : tree->tensors) {
        const auto t = std::make_shared<TensorAttributes>();
        t->table_ = std::move(*table);
        t->has_uid_ = true;
        t->is_built_ = true;
        if (!by_uid.emplace(t->table_.uid, t).second) {
            invalid("graph: two tensors have uid ", t->table_.uid, ", expected unique uids");
        }
        tensors_.push_back(t);
    }
    for (const TensorPtr& t : tensors_) {
        if (!t->table_.ragged_offset_tensor_uid) continue;
        const auto aux = by_uid.find(*t->table_.ragged_offset_tensor_uid);
        if (aux == by_uid.end()) {
            invalid(t->label(), " has the ragged offset uid ", *t->table_.ragged_offset_tensor_uid,
                    ", which is no tensor of the graph");
        }
        if (aux->second->table_.ragged_offset_tensor_uid) {
            invalid(t->label(), " has the ragged offset ", aux->second->label(),
                    ", which is ragged itself, expected a dense tensor");
        }
        t->ragged_offset_ = aux->second;
    }
    for (const TensorPtr& t : tensors_) t->settle();
    tree->tensors.clear();
    for (std::unique_ptr<schema::NodeT>& node : tree->nodes)
        nodes_.push_back({std::move(*node), {}, {}});
    tree->nodes.clear();
    table_ = std::move(*tree);
}

}  // namespace raggeddnn
