#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <limits>
#include <string>
#include <vector>

#include "raggeddnn/base/error.hpp"
#include "raggeddnn/schema/blob.hpp"
#include "raggeddnn/schema/json.hpp"
#include "raggeddnn/schema/json_names.hpp"
#include "raggeddnn/schema/json_parse.hpp"
#include "raggeddnn/schema/op_names.hpp"
#include "raggeddnn/schema/table_writer.hpp"
#include "raggeddnn/schema/text.hpp"

namespace raggeddnn::schema {

namespace {

using Json = nlohmann::json;
using flatbuffers::FlatBufferBuilder;
using reflection::BaseType;

// Where a value stands, as a chain through the stack; made into text only for a message.
struct Place {
    const Place* parent = nullptr;
    std::string_view key;
    int64_t index = -1;

    std::string text() const {
        std::string path = parent != nullptr ? parent->text() : "";
        if (index >= 0) return path + message("[", index, "]");
        if (!path.empty() && !key.empty()) path += '.';
        return path + printable(key);
    }
};

std::string shown(const Json& json) {
    if (json.is_object()) return "an object";
    if (json.is_array()) return message("a list of ", json.size());
    if (json.is_string()) return '"' + printable(json.get_ref<const std::string&>()) + '"';
    return json.dump();
}

template <class... Expected>
[[noreturn]] void wrong(const Json& json, const Place& place, const Expected&... expected) {
    const std::string path = place.text();
    invalid("[json] ", path.empty() ? "the text" : path, " is ", shown(json), ", expected ",
            expected...);
}

// The members of one object. Keys that nobody asked for are refused.
class ObjectReader {
public:
    ObjectReader(const Json& json, const Place& place) : json_(json), place_(place) {
        if (!json.is_object()) wrong(json, place, "an object");
    }

    // Null if the key is absent.
    const Json* find(std::string_view key) {
        asked_.push_back(key);
        const auto found = json_.find(key);
        if (found == json_.end()) return nullptr;
        ++found_;
        return &*found;
    }

    const Json& require(std::string_view key, const char* expected) {
        const Json* found = find(key);
        if (found == nullptr) {
            invalid("[json] ", place_of(key).text(), " is missing, expected ", expected);
        }
        return *found;
    }

    Place place_of(std::string_view key) const { return {&place_, key}; }

    void refuse_the_rest() const {
        if (found_ == json_.size()) return;
        std::string known;
        for (const std::string_view key : asked_) {
            known += known.empty() ? "" : ", ";
            known += key;
        }
        for (const auto& [key, value] : json_.items()) {
            if (std::find(asked_.begin(), asked_.end(), key) != asked_.end()) continue;
            invalid("[json] ", place_of(key).text(), " is no known key, expected ",
                    known.empty() ? "none" : known);
        }
    }

private:
    const Json& json_;
    const Place& place_;
    std::vector<std::string_view> asked_;
    size_t found_ = 0;
};

struct IntegerRange {
    int64_t lowest;
    int64_t highest;
};

template <class T>
constexpr IntegerRange range_of() {
    return {std::numeric_limits<T>::min(), std::numeric_limits<T>::max()};
}

// Of ULong only the part that the reader of tables can show.
IntegerRange integer_range(BaseType type) {
    switch (type) {
        case BaseType::Byte: return range_of<int8_t>();
        case BaseType::Short: return range_of<int16_t>();
        case BaseType::UShort: return range_of<uint16_t>();
        case BaseType::Int: return range_of<int32_t>();
        case BaseType::UInt: return range_of<uint32_t>();
        case BaseType::Long: return range_of<int64_t>();
        case BaseType::ULong: return {0, std::numeric_limits<int64_t>::max()};
        default: return range_of<uint8_t>();
    }
}

int64_t read_integer(const Json& json, BaseType type, const Place& place) {
    const IntegerRange range = integer_range(type);
    const bool fits_int64 =
        json.is_number_integer() &&
        (!json.is_number_unsigned() ||
         json.get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));
    if (!fits_int64 || json.get<int64_t>() < range.lowest || json.get<int64_t>() > range.highest) {
        wrong(json, place, "an integer from ", range.lowest, " to ", range.highest);
    }
    return json.get<int64_t>();
}

// An integer, boolean or enum; `op` is the name of the table that the field is of.
int64_t read_integer(const Json& json, const FieldInfo& field, const Place& place,
                     std::string_view op) {
    if (field.type == BaseType::Bool) {
        if (!json.is_boolean()) wrong(json, place, "true or false");
        return json.get<bool>() ? 1 : 0;
    }
    if (field.enumeration == nullptr) return read_integer(json, field.type, place);
    const EnumInfo& info = *field.enumeration;
    const EnumSpelling spelling = enum_spelling(info.name, op);
    if (spelling == EnumSpelling::NUMBER) {
        if (json.is_number_integer()) {
            const int64_t value = read_integer(json, field.type, place);
            if (info.find(value) != nullptr) return value;
        }
        wrong(json, place, info.values());
    }
    if (json.is_string()) {
        const auto& text = json.get_ref<const std::string&>();
        if (const auto value = enum_from_text(info, text, spelling)) return *value;
    }
    wrong(json, place, "one of ", enum_texts(info, spelling));
}

double read_real(const Json& json, BaseType type, const Place& place) {
    if (json.is_string()) {
        const auto& text = json.get_ref<const std::string&>();
        if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
        if (text == "Infinity") return std::numeric_limits<double>::infinity();
        if (text == "-Infinity") return -std::numeric_limits<double>::infinity();
    }
    if (!json.is_number()) wrong(json, place, "a number, \"NaN\", \"Infinity\" or \"-Infinity\"");
    const double value = json.get<double>();
    if (type == BaseType::Float && std::abs(value) > std::numeric_limits<float>::max()) {
        wrong(json, place, "a number that a 32-bit float can hold");
    }
    return value;
}

// Whether nothing works without a field: a tensor of no uid would silently be tensor 0.
bool is_required(const TypeInfo& type, const FieldInfo& field) {
    if (field.optional) return false;
    if (field.name == "uid" || field.name == "tensors" || field.name == "nodes" ||
        field.name == "engine_id") {
        return true;
    }
    return field.type == BaseType::Long && is_tensor_uid(type, field);
}

class JsonReader {
public:
    std::vector<uint8_t> graph(const Json& json) {
        const TypeInfo& type = Reflection::graph().type("Graph");
        const Place root;
        ObjectReader object(json, root);
        TableWriter table(builder_);
        for (const FieldInfo& field : type.fields) {
            const bool is_tables = field.type == BaseType::Vector && field.object != nullptr;
            if (!is_tables) {
                read_field(object, type, field, table);
            } else {
                const Json& list = object.require(field.name, "a list");
                table.offset(field, read_tables(list, field, object.place_of(field.name)));
            }
        }
        object.refuse_the_rest();
        return finish(table);
    }

    // Only what the guard against newer graphs looks at.
    std::vector<uint8_t> guards(const Json& json) {
        const TypeInfo& type = Reflection::graph().type("Graph");
        const Place root;
        ObjectReader object(json, root);
        TableWriter table(builder_);
        for (const char* name : {"min_reader_version", "min_required_engine_api_version"}) {
            read_field(object, type, *type.find(name), table);
        }
        return finish(table);
    }

    std::vector<uint8_t> plan(const Json& json) {
        const TypeInfo& type = Reflection::plan().type("SerializedExecutionPlan");
        const Place root;
        ObjectReader object(json, root);
        TableWriter table(builder_);
        for (const FieldInfo& field : type.fields) read_field(object, type, field, table);
        object.refuse_the_rest();
        return finish(table);
    }

private:
    std::vector<uint8_t> finish(TableWriter& table) {
        builder_.Finish(flatbuffers::Offset<void>(table.finish()));
        return {builder_.GetBufferPointer(), builder_.GetBufferPointer() + builder_.GetSize()};
    }

    uoffset_t read_tables(const Json& list, const FieldInfo& field, const Place& place) {
        if (!list.is_array()) wrong(list, place, "a list");
        std::vector<flatbuffers::Offset<void>> tables;
        for (const Json& element : list) {
            const Place at{&place, "", static_cast<int64_t>(tables.size())};
            tables.emplace_back(field.name == "nodes" ? read_node(element, *field.object, at)
                                                      : read_tensor(element, *field.object, at));
        }
        return builder_.CreateVector(tables).o;
    }

    uoffset_t read_tensor(const Json& json, const TypeInfo& type, const Place& place) {
        ObjectReader object(json, place);
        TableWriter table(builder_);
        for (const FieldInfo& field : type.fields) {
            if (field.type == BaseType::Union) {
                read_value(object, type, field, table);
            } else if (field.type != BaseType::UType) {
                read_field(object, type, field, table);
            }
        }
        object.refuse_the_rest();
        return table.finish();
    }

    // A scalar: its kind under "value_type", and the number itself under "value".
    void read_value(ObjectReader& object, const TypeInfo& type, const FieldInfo& field,
                    TableWriter& table) {
        const FieldInfo& tag = *type.find(field.name + "_type");
        const Json* kind = object.find(tag.name);
        if (kind == nullptr) {
            const Json* value = object.find(field.name);
            if (value == nullptr) return;
            wrong(*value, object.place_of(field.name), "a ", tag.name, " with it");
        }
        const EnumMember& member =
            read_member(*kind, *field.enumeration, object.place_of(tag.name));
        const FieldInfo& content = member.type->fields.front();
        const Json& value = object.require(field.name, member.name.c_str());
        std::array<uint8_t, 16> bytes{};
        store_scalar(value, content, object.place_of(field.name), bytes.data());
        table.integer(tag, member.value);
        table.offset(field,
                     write_struct(builder_, *member.type, {bytes.data(), member.type->bytes}));
    }

    static const EnumMember& read_member(const Json& json, const EnumInfo& info,
                                         const Place& place) {
        for (const EnumMember& member : info.members) {
            if (member.type != nullptr && json == member.name) return member;
        }
        std::string names;
        for (const EnumMember& member : info.members) {
            if (member.type == nullptr) continue;
            names += (names.empty() ? "\"" : ", \"") + member.name + '"';
        }
        wrong(json, place, "one of ", names);
    }

    uoffset_t read_node(const Json& json, const TypeInfo& type, const Place& place) {
        ObjectReader object(json, place);
        TableWriter table(builder_);
        for (const char* name : {"name", "compute_data_type"}) {
            read_field(object, type, *type.find(name), table);
        }
        const FieldInfo& attributes = *type.find("attributes");
        const Json& kind = object.require("type", "the name of an operation");
        const EnumMember& op = read_member(kind, *attributes.enumeration, object.place_of("type"));
        table.integer(*type.find("attributes_type"), op.value);
        table.offset(attributes, read_op(object, *op.type));
        object.refuse_the_rest();
        return table.finish();
    }

    // An op's fields lie in groups, which are objects in the node, or in the node itself.
    uoffset_t read_op(ObjectReader& node, const TypeInfo& type) {
        struct Group {
            std::string_view key;
            Place place;
            ObjectReader object;
            Group(std::string_view k, Place p, const Json& json)
                : key(k), place(p), object(json, place) {}
        };
        static const Json empty = Json::object();
        const OpNames& names = op_names(type.name);
        std::deque<Group> groups;  // stays put: readers refer to places
        const auto group_of = [&](const FieldInfo& field) -> ObjectReader& {
            const std::string_view key = json_group(type, field, names);
            if (key.empty()) return node;
            for (Group& group : groups) {
                if (group.key == key) return group.object;
            }
            const Json* json = node.find(key);
            return groups.emplace_back(key, node.place_of(key), json ? *json : empty).object;
        };
        TableWriter table(builder_);
        for (const FieldInfo& field : type.fields) read_field(group_of(field), type, field, table);
        for (const Group& group : groups) group.object.refuse_the_rest();
        return table.finish();
    }

    // A scalar, string, vector of these, or struct.
    void read_field(ObjectReader& object, const TypeInfo& type, const FieldInfo& field,
                    TableWriter& table) {
        const Place place = object.place_of(field.name);
        const Json* json = is_required(type, field)
                               ? &object.require(field.name, expected_of(field))
                               : object.find(field.name);
        if (json == nullptr) return;
        // A vector's or string's absence is no other thing than its being empty.
        const bool can_be_unset = field.optional || field.type == BaseType::Obj;
        if (json->is_null() && can_be_unset) return;
        if (field.type == BaseType::String) {
            if (!json->is_string()) wrong(*json, place, "a string");
            table.offset(field, builder_.CreateString(json->get_ref<const std::string&>()).o);
        } else if (field.type == BaseType::Vector) {
            table.offset(field, read_vector(*json, field, place));
        } else if (field.type == BaseType::Obj) {
            read_struct(*json, field, place, table);
        } else if (is_real(field.type)) {
            table.real(field, read_real(*json, field.type, place));
        } else {
            table.integer(field, read_integer(*json, field, place, type.name));
        }
    }

    static const char* expected_of(const FieldInfo& field) {
        return field.type == BaseType::Vector ? "a list" : "an integer";
    }

    uoffset_t read_vector(const Json& json, const FieldInfo& field, const Place& place) {
        if (!json.is_array()) wrong(json, place, "a list");
        const size_t size = scalar_size(field.element);
        if (size == 0) {
            fail(ErrorCode::INTERNAL_ERROR, place.text(), ": lists of this kind have no JSON form");
        }
        std::vector<uint8_t> bytes(json.size() * size);
        for (size_t i = 0; i < json.size(); ++i) {
            const Place at{&place, "", static_cast<int64_t>(i)};
            uint8_t* to = bytes.data() + i * size;
            if (is_real(field.element)) {
                store_real(field.element, read_real(json[i], field.element, at), to);
            } else {
                store_integer(field.element, read_integer(json[i], field.element, at), to);
            }
        }
        return write_scalars(builder_, field.element, bytes);
    }

    static void store_scalar(const Json& json, const FieldInfo& field, const Place& place,
                             uint8_t* at) {
        if (is_real(field.type)) {
            store_real(field.type, read_real(json, field.type, place), at);
        } else {
            store_integer(field.type, read_integer(json, field, place, ""), at);
        }
    }

    void read_struct(const Json& json, const FieldInfo& field, const Place& place,
                     TableWriter& table) {
        std::array<uint8_t, 16> bytes{};
        if (field.object->name == "Uuid") {
            const bool is_uuid =
                json.is_string() && uuid_from_text(json.get<std::string>(), bytes.data());
            if (!is_uuid) wrong(json, place, "32 hexadecimal digits, 8-4-4-4-12");
        } else {
            ObjectReader object(json, place);
            for (const FieldInfo& member : field.object->fields) {
                const Json& value = object.require(member.name, "an integer");
                store_scalar(value, member, object.place_of(member.name),
                             bytes.data() + member.offset);
            }
            object.refuse_the_rest();
        }
        table.structure(field, {bytes.data(), field.object->bytes});
    }

    FlatBufferBuilder builder_;
};

}  // namespace

std::vector<uint8_t> graph_bytes_from_json(std::string_view text) {
    const Json json = parse_json(text);
    GraphBlob::read(JsonReader().guards(json));
    std::vector<uint8_t> bytes = JsonReader().graph(json);
    GraphBlob::read(bytes);
    return bytes;
}

std::vector<uint8_t> plan_bytes_from_json(std::string_view text) {
    std::vector<uint8_t> bytes = JsonReader().plan(parse_json(text));
    PlanBlob::read(bytes);
    return bytes;
}

GraphT graph_from_json(std::string_view text) {
    const std::vector<uint8_t> bytes = graph_bytes_from_json(text);
    GraphT graph;
    GetGraph(bytes.data())->UnPackTo(&graph);
    return graph;
}

}  // namespace raggeddnn::schema
