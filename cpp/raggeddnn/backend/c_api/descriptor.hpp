// What all descriptors share. A descriptor is a table of attributes, one row each, and an object
// that the rows read and write; setting, getting and finalizing is the same code for all of them.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "raggeddnn/backend/c_api/status.hpp"

namespace raggeddnn::c_api {

class Descriptor;
struct Attribute;
using DescriptorPtr = std::shared_ptr<Descriptor>;

// The most elements of a list: more are a caller's fault, not a tensor.
inline constexpr int64_t MAX_ELEMENTS = int64_t{1} << 20;
inline constexpr int64_t MAX_RANK = 64;

// What a caller hands to hipdnnBackendSetAttribute. Every reader throws when the count does not
// fit.
struct Input {
    const Attribute& row;
    hipdnnBackendAttributeType_t type;
    int64_t count;
    const void* data;

    void expect_count(int64_t least, int64_t most) const;
    template <class T>
    T one() const {
        expect_count(1, 1);
        T value;
        std::memcpy(&value, data, sizeof(T));
        return value;
    }
    template <class T>
    std::vector<T> many(int64_t most = MAX_ELEMENTS) const {
        expect_count(1, most);
        std::vector<T> values(static_cast<size_t>(count));
        std::memcpy(values.data(), data, values.size() * sizeof(T));
        return values;
    }
    // A terminator at the end may be counted or not.
    std::string text() const;
    // Final descriptors; throws for null, for one that is destroyed, and for one that is not final.
    std::vector<DescriptorPtr> descriptors(int64_t most = MAX_ELEMENTS) const;
};

// What a caller wants from hipdnnBackendGetAttribute. Each `put` copies as many elements as fit, or
// answers the question how many there are.
struct Output {
    const Attribute& row;
    hipdnnBackendAttributeType_t type;
    int64_t requested;
    int64_t* count;
    void* data;

    bool is_question() const { return data == nullptr || requested == 0; }
    void answer(size_t elements) const;
    void put_none() const;
    void put_text(const std::string& text) const;
    // All or nothing: fewer are asked for than there are -> BAD_PARAM.
    void put_descriptors(const std::vector<DescriptorPtr>& descriptors) const;
    template <class T>
    void put_many(const T* values, size_t size) const {
        if (is_question()) return answer(size);
        const size_t copied = std::min(size, static_cast<size_t>(requested));
        if (copied > 0) std::memcpy(data, values, copied * sizeof(T));
        if (count) *count = static_cast<int64_t>(copied);
    }
    template <class T>
    void put_many(const std::vector<T>& values) const {
        put_many(values.data(), values.size());
    }
    template <class T>
    void put_one(const T& value) const {
        put_many(&value, 1);
    }
};

// A tensor by its uid; see OperationDescriptor::adopt.
class TensorDescriptor;
class TensorTable;

enum class Need { OPTIONAL, REQUIRED };

// One row. `fields.hpp` makes rows from pointers to members.
struct Attribute {
    hipdnnBackendAttributeName_t name;
    const char* label;  // the name without its prefix, for messages
    hipdnnBackendAttributeType_t type;
    void (*set)(Descriptor&, const Input&) = nullptr;         // null: read-only
    void (*get)(const Descriptor&, const Output&) = nullptr;  // null: write-only
    Need need = Need::OPTIONAL;
    // The accessors check the type themselves: it depends on the value.
    bool has_any_type = false;
    // Of tensors of an operation: finds them again by the uids of a received node.
    void (*adopt)(Descriptor&, const TensorTable&) = nullptr;
};

// A row's first two columns from one name.
#define RAGGEDDNN_ATTRIBUTE(name) HIPDNN_ATTR_##name, #name

class Descriptor : public std::enable_shared_from_this<Descriptor> {
public:
    Descriptor(hipdnnBackendDescriptorType_t type, std::span<const Attribute> rows)
        : type_(type), rows_(rows) {}
    virtual ~Descriptor() = default;
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;

    hipdnnBackendDescriptorType_t type() const { return type_; }
    bool is_final() const { return is_final_; }
    // "tensor", "sdpa_fwd operation": for messages.
    virtual const char* kind() const = 0;

    void set(hipdnnBackendAttributeName_t name, hipdnnBackendAttributeType_t type, int64_t count,
             const void* elements);
    void get(hipdnnBackendAttributeName_t name, hipdnnBackendAttributeType_t type,
             int64_t requested, int64_t* count, void* elements) const;
    void finalize();

protected:
    // What reading a descriptor that is not final is answered with; SUCCESS: its values.
    virtual hipdnnStatus_t unfinalized_status() const { return HIPDNN_STATUS_NOT_INITIALIZED; }
    // Checks, after the required attributes were found to be set.
    virtual void on_finalize() {}
    virtual void before_set(const Attribute&) const {}
    virtual void after_set(const Attribute&) {}
    bool was_set(hipdnnBackendAttributeName_t name) const { return set_names_.contains(name); }
    void mark_final() { is_final_ = true; }
    std::span<const Attribute> rows() const { return rows_; }

private:
    const Attribute& row(hipdnnBackendAttributeName_t name) const;
    void check_type(const Attribute& row, hipdnnBackendAttributeType_t type) const;

    hipdnnBackendDescriptorType_t type_;
    std::span<const Attribute> rows_;
    std::set<int> set_names_;
    bool is_final_ = false;
};

const char* attribute_type_name(hipdnnBackendAttributeType_t type);

// The object behind a descriptor as the concrete class; null if it is of another.
template <class T>
std::shared_ptr<T> as(const DescriptorPtr& descriptor, const Attribute& row, const char* expected) {
    auto concrete = std::dynamic_pointer_cast<T>(descriptor);
    if (!concrete) {
        bad_param(row.label, " got a ", descriptor->kind(), " descriptor, expected ", expected);
    }
    return concrete;
}

// ---- the references that callers hold (references.cpp) ----

// A new reference; the caller of the C API destroys it.
hipdnnBackendDescriptor_t new_reference(DescriptorPtr descriptor);
// Throws for null and for a reference that does not exist (any more).
DescriptorPtr resolve(hipdnnBackendDescriptor_t reference, const char* what);
// Lets an existing reference name another descriptor.
void rebind(hipdnnBackendDescriptor_t reference, DescriptorPtr descriptor);
void destroy_reference(hipdnnBackendDescriptor_t reference);

hipdnnHandle_t new_handle();
hipdnnHandle& resolve(hipdnnHandle_t handle);
void destroy_handle(hipdnnHandle_t handle);
size_t live_handle_count();

}  // namespace raggeddnn::c_api
