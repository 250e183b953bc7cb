#include "raggeddnn/schema/json.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

#include "raggeddnn/schema/json_names.hpp"
#include "raggeddnn/schema/op_names.hpp"
#include "raggeddnn/schema/reflect.hpp"

namespace raggeddnn::schema {

namespace {

using Json = nlohmann::ordered_json;
using reflection::BaseType;

Json real_to_json(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
    return value;
}

Json integer_to_json(const FieldInfo& field, int64_t value, std::string_view op) {
    if (field.type == BaseType::Bool) return value != 0;
    if (field.enumeration == nullptr) return value;
    const EnumSpelling spelling = enum_spelling(field.enumeration->name, op);
    const EnumMember* member = field.enumeration->find(value);
    if (spelling == EnumSpelling::NUMBER || member == nullptr) return value;
    return enum_to_text(*field.enumeration, *member, spelling);
}

Json vector_to_json(const VectorView& vector) {
    Json list = Json::array();
    for (size_t i = 0; i < vector.size; ++i) {
        const BaseType element = vector.field->element;
        if (element == BaseType::String) {
            list.push_back(std::string(vector.string(i)));
        } else if (is_real(element)) {
            list.push_back(real_to_json(vector.real(i)));
        } else {
            list.push_back(vector.integer(i));
        }
    }
    return list;
}

// A scalar, string, vector of these, or struct; absent ones as their defaults.
Json field_to_json(const View& table, const FieldInfo& field, std::string_view op = "") {
    if (field.type == BaseType::String) return std::string(table.string(field));
    if (field.type == BaseType::Vector || field.type == BaseType::Array) {
        return vector_to_json(table.vector(field));
    }
    if (field.type == BaseType::Obj) {
        Json members = Json::object();
        const View object = table.object(field);
        for (const FieldInfo& member : object.type().fields) {
            members[member.name] = field_to_json(object, member);
        }
        return members;
    }
    if (is_real(field.type)) return real_to_json(table.real(field));
    return integer_to_json(field, table.integer(field), op);
}

// Fields that older readers do not expect: written only when they say something.
bool is_left_out(const View& graph, const FieldInfo& field) {
    if (field.optional || field.type == BaseType::Obj) return !graph.has(field);
    const bool is_newer = field.name == "min_reader_version" ||
                          field.name == "is_ragged_tensor_enabled" ||
                          field.name == "is_runtime_default_override_enabled";
    return is_newer && graph.integer(field) == 0;
}

Json tensor_to_json(const View& tensor) {
    Json json = Json::object();
    for (const FieldInfo& field : tensor.type().fields) {
        if (field.type == BaseType::UType) continue;
        if (field.type == BaseType::Union) {
            const EnumMember* member = tensor.member(field);
            if (member == nullptr || member->type == nullptr) continue;
            const View value = tensor.object(field);
            json["value_type"] = member->name;
            json["value"] = field_to_json(value, value.type().fields.front());
        } else if (!field.optional || tensor.has(field)) {
            json[field.name] = field_to_json(tensor, field);
        }
    }
    return json;
}

// Whether an op's field that says nothing is left out of the JSON.
bool is_left_out(const View& op, const FieldInfo& field, const OpNames& names) {
    if (field.name == "umd_flops" || field.name == "umd_bytes") return op.string(field).empty();
    if (field.name == "dstats_tensor_uid") return !op.has(field);
    if (names.type == "RMSNormAttributes" && field.name == "forward_phase") {
        return op.integer(field) == 0;
    }
    if (names.type == "BlockScaleQuantizeAttributes" && field.name == "block_size") {
        return op.integer(field) == 0;
    }
    return field.optional && !op.has(field) && !names.is_unset_null;
}

Json& group_of(Json& node, const View& op, const FieldInfo& field, const OpNames& names) {
    const std::string_view group = json_group(op.type(), field, names);
    return group.empty() ? node : node[std::string(group)];
}

Json node_to_json(const View& node) {
    Json json = Json::object();
    json["name"] = std::string(node.string(*node.type().find("name")));
    json["compute_data_type"] = field_to_json(node, *node.type().find("compute_data_type"));
    const FieldInfo& attributes = *node.type().find("attributes");
    const EnumMember* member = node.member(attributes);
    json["type"] = member == nullptr || member->type == nullptr ? "" : member->name;
    if (member == nullptr || member->type == nullptr) return json;
    const View op = node.object(attributes);
    const OpNames& names = op_names(op.type().name);
    for (const FieldInfo& field : op.type().fields) {
        if (is_left_out(op, field, names)) continue;
        const bool unset = field.optional && !op.has(field);
        group_of(json, op, field, names)[field.name] =
            unset ? Json(nullptr) : field_to_json(op, field, names.type);
    }
    return json;
}

Json graph_fields(const View& graph) {
    Json json = Json::object();
    for (const FieldInfo& field : graph.type().fields) {
        const bool tables = field.type == BaseType::Vector && field.object != nullptr;
        if (tables) {
            Json list = Json::array();
            for (size_t i = 0; i < graph.vector(field).size; ++i) {
                const View element = graph.element(field, i);
                list.push_back(field.name == "nodes" ? node_to_json(element)
                                                     : tensor_to_json(element));
            }
            json[field.name] = std::move(list);
        } else if (field.name == "id") {
            if (graph.has(field)) json[field.name] = uuid_to_text(graph.address(field));
        } else if (!is_left_out(graph, field)) {
            json[field.name] = field_to_json(graph, field);
        }
    }
    return json;
}

std::string dump(const Json& json, int indent) {
    return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string graph_to_json(const Graph& graph, int indent) {
    return dump(graph_fields(View(Reflection::graph().type("Graph"), &graph)), indent);
}

std::string plan_to_json(const SerializedExecutionPlan& plan, int indent) {
    Json json = Json::object();
    const View view(Reflection::plan().type("SerializedExecutionPlan"), &plan);
    for (const FieldInfo& field : view.type().fields) json[field.name] = field_to_json(view, field);
    return dump(json, indent);
}

}  // namespace raggeddnn::schema
