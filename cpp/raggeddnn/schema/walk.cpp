#include "raggeddnn/schema/walk.hpp"

#include <unordered_map>

#include "flatbuffers/flatbuffers.h"
#include "raggeddnn/base/error.hpp"
#include "raggeddnn/schema/text.hpp"

namespace raggeddnn::schema {

namespace {

using flatbuffers::uoffset_t;
using flatbuffers::voffset_t;
using reflection::BaseType;

// No schema here nests deeper than six tables; the bound only keeps a future one honest.
constexpr size_t K_MAX_DEPTH = 16;

// Where the walk is: a table, and the field of its parent (and index there) that led to it.
struct Step {
    View table;
    const FieldInfo* via = nullptr;
    int64_t index = -1;
};

class Walker {
public:
    Walker(std::span<const uint8_t> buffer, const TypeInfo& root) : buffer_(buffer), root_(root) {}

    std::vector<std::string> run() {
        charge(sizeof(uoffset_t));
        const uint8_t* start = buffer_.data();
        enter({View(root_, start + flatbuffers::ReadScalar<uoffset_t>(start))});
        return std::move(unknown_slots_);
    }

private:
    void enter(const Step& step) {
        steps_.push_back(step);
        if (steps_.size() > K_MAX_DEPTH) {
            invalid(path(), " is nested ", steps_.size(), " deep, expected at most ", K_MAX_DEPTH);
        }
        if (step.table.type().is_struct) {
            visit_struct(step.table);
        } else {
            visit_table(step.table);
        }
        steps_.pop_back();
    }

    // A struct reached by an offset of its own, as the members of a union are.
    void visit_struct(const View& view) {
        charge(view.type().bytes);
        check_alignment(view.data(), view.type().alignment, nullptr);
    }

    void visit_table(const View& table) {
        const auto* raw = reinterpret_cast<const flatbuffers::Table*>(table.data());
        const uint8_t* vtable = raw->GetVTable();
        const auto vtable_bytes = flatbuffers::ReadScalar<voffset_t>(vtable);
        if (vtable_bytes < 2 * sizeof(voffset_t)) {
            invalid(path(), " has a vtable of ", vtable_bytes, " bytes, expected at least 4");
        }
        const auto table_bytes = flatbuffers::ReadScalar<voffset_t>(vtable + sizeof(voffset_t));
        if (table_bytes < sizeof(flatbuffers::soffset_t) ||
            table_bytes > static_cast<size_t>(end() - table.data())) {
            invalid(path(), " says that it is ", table_bytes, " bytes long, expected 4 to ",
                    end() - table.data());
        }
        charge(table_bytes);
        report_unknown_slots(table, vtable);
        for (const FieldInfo& field : table.type().fields) {
            const uint8_t* at = table.address(field);
            if (at != nullptr) check_inline(field, at, at - table.data(), table_bytes);
            if (field.type == BaseType::Union) {
                visit_union(table, field);
            } else if (at != nullptr) {
                visit_field(table, field);
            }
        }
    }

    // The part of a field that lies in the table itself.
    void check_inline(const FieldInfo& field, const uint8_t* at, ptrdiff_t offset,
                      size_t table_bytes) {
        size_t bytes = scalar_size(field.type);
        size_t alignment = bytes;
        if (bytes == 0) {
            const bool is_struct = field.type == BaseType::Obj && field.object->is_struct;
            bytes = is_struct ? field.object->bytes : sizeof(uoffset_t);
            alignment = is_struct ? field.object->alignment : sizeof(uoffset_t);
        }
        const auto begin = static_cast<size_t>(offset);
        if (begin < sizeof(flatbuffers::soffset_t) || begin + bytes > table_bytes) {
            invalid(path(&field), " lies at byte ", begin, " of its table, expected 4 to ",
                    table_bytes, " - ", bytes);
        }
        check_alignment(at, alignment, &field);
    }

    void visit_field(const View& table, const FieldInfo& field) {
        switch (field.type) {
            case BaseType::String: charge_string(table.string(field), &field); break;
            case BaseType::Vector: visit_vector(table, field); break;
            case BaseType::Obj:
                // An inline struct is counted with its table.
                if (!field.object->is_struct) enter({table.object(field), &field});
                break;
            case BaseType::UType: break;  // with its value
            default:
                if (field.enumeration != nullptr) check_enum(table.integer(field), field);
        }
    }

    void visit_union(const View& table, const FieldInfo& field) {
        const EnumMember* member = table.member(field);
        if (member == nullptr) {
            const FieldInfo* tag = table.type().find(field.name + "_type");
            invalid(path(&field), " has type ", table.integer(*tag), ", expected ",
                    field.enumeration->values());
        }
        if (member->type == nullptr) {
            if (table.has(field)) invalid(path(&field), " has a value but no type");
            return;
        }
        if (!table.has(field)) {
            invalid(path(&field), " has type ", member->name, " but no value");
        }
        enter({table.object(field), &field});
    }

    void visit_vector(const View& table, const FieldInfo& field) {
        const VectorView vector = table.vector(field);
        const size_t scalar = scalar_size(field.element);
        const bool structs = field.object != nullptr && field.object->is_struct;
        const size_t bytes = structs       ? field.object->bytes
                             : scalar != 0 ? scalar
                                           : sizeof(uoffset_t);
        const size_t alignment = structs       ? field.object->alignment
                                 : scalar != 0 ? scalar
                                               : sizeof(uoffset_t);
        charge(sizeof(uoffset_t) + vector.size * bytes, &field);
        if (vector.size != 0) check_alignment(vector.data, alignment, &field);
        for (size_t i = 0; i < vector.size && scalar == 0 && !structs; ++i) {
            const auto index = static_cast<int64_t>(i);
            if (field.element == BaseType::String) {
                charge_string(vector.string(i), &field, index);
            } else {
                enter({table.element(field, i), &field, index});
            }
        }
    }

    void check_enum(int64_t value, const FieldInfo& field) {
        if (field.enumeration->find(value) == nullptr) {
            invalid(path(&field), " is ", value, ", expected a ", field.enumeration->name, ": ",
                    field.enumeration->values());
        }
    }

    void check_alignment(const uint8_t* at, size_t alignment, const FieldInfo* field) {
        const auto position = static_cast<size_t>(at - buffer_.data());
        if (position % alignment != 0) {
            invalid(path(field), " lies at byte ", position, ", expected a multiple of ",
                    alignment);
        }
    }

    void charge_string(std::string_view text, const FieldInfo* field, int64_t index = -1) {
        charge(sizeof(uoffset_t) + text.size() + 1, field, index);
    }

    // Bytes that share their place with others are counted each time they are reached: honest
    // writers store everything once, so the sum cannot exceed the buffer.
    void charge(size_t bytes, const FieldInfo* field = nullptr, int64_t index = -1) {
        visited_ += bytes;
        if (visited_ > buffer_.size()) {
            invalid(path(field, index), " brings the bytes in use to ", visited_,
                    ", expected at most the buffer's ", buffer_.size(),
                    ": several offsets lead to the same place");
        }
    }

    // Finds the filled slots beyond the known ones. Tables of one kind usually share a vtable, so
    // the answer is kept per vtable; overlapping vtables would make even that quadratic.
    void report_unknown_slots(const View& table, const uint8_t* vtable) {
        const auto key = static_cast<size_t>(vtable - buffer_.data());
        auto known = unknown_by_vtable_.find(key);
        if (known == unknown_by_vtable_.end()) {
            const auto bytes = flatbuffers::ReadScalar<voffset_t>(vtable);
            vtable_bytes_ += bytes;
            if (vtable_bytes_ > buffer_.size()) {
                invalid(path(), " has a vtable that overlaps others: ", vtable_bytes_,
                        " bytes of them, expected at most the buffer's ", buffer_.size());
            }
            known = unknown_by_vtable_.emplace(key, filled_slots(table.type(), vtable)).first;
        }
        for (const int slot : known->second) {
            if (unknown_slots_.size() == K_MAX_UNKNOWN_SLOTS) return;
            unknown_slots_.push_back(message(table.type().name, " slot ", slot, owner()));
        }
    }

    static std::vector<int> filled_slots(const TypeInfo& type, const uint8_t* vtable) {
        std::vector<int> slots;
        const int count = flatbuffers::ReadScalar<voffset_t>(vtable) / 2 - 2;
        for (int slot = type.slot_count(); slot < count; ++slot) {
            const auto offset = flatbuffers::ReadScalar<voffset_t>(vtable + 4 + 2 * slot);
            if (offset != 0) slots.push_back(slot);
            if (slots.size() == K_MAX_UNKNOWN_SLOTS) break;
        }
        return slots;
    }

    const uint8_t* end() const { return buffer_.data() + buffer_.size(); }

    // "Graph.tensors[2].dims of tensor 'q'"
    std::string path(const FieldInfo* field = nullptr, int64_t index = -1) const {
        std::string text = root_.name;
        for (const Step& step : steps_) text += hop(step.via, step.index);
        return text + hop(field, index) + owner();
    }

    static std::string hop(const FieldInfo* field, int64_t index) {
        if (field == nullptr) return "";
        return index < 0 ? "." + field->name : message(".", field->name, "[", index, "]");
    }

    // The innermost tensor or node that has a name, for a reader who knows no indices.
    std::string owner() const {
        for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
            const TypeInfo& type = step->table.type();
            const bool tensor = type.name == "TensorAttributes";
            if (!tensor && type.name != "Node") continue;
            const std::string_view name = step->table.string(*type.find("name"));
            if (name.empty() && !tensor) return "";
            const std::string kind = tensor ? " of tensor " : " of node ";
            if (!name.empty()) return kind + "'" + printable(name) + "'";
            return kind + std::to_string(step->table.integer(*type.find("uid")));
        }
        return "";
    }

    std::span<const uint8_t> buffer_;
    const TypeInfo& root_;
    std::vector<Step> steps_;
    size_t visited_ = 0;
    size_t vtable_bytes_ = 0;
    std::unordered_map<size_t, std::vector<int>> unknown_by_vtable_;
    std::vector<std::string> unknown_slots_;
};

}  // namespace

std::vector<std::string> walk(std::span<const uint8_t> buffer, const TypeInfo& root) {
    return Walker(buffer, root).run();
}

}  // namespace raggeddnn::schema
