// What the schema does not say about an op: which of its tensors are outputs, and how hipDNN's
// JSON arranges its fields. One row per op, read by the list of used tensors and by the JSON.
#pragma once

#include <string_view>
#include <vector>

#include "raggeddnn/schema/reflect.hpp"

namespace raggeddnn::schema {

struct OpNames {
    std::string_view type;                  // the table, also the "type" of a node in JSON
    std::vector<std::string_view> outputs;  // fields; any other tensor is an input
    // JSON: whether tensors go under "inputs" and "outputs" or stay in the node itself, under
    // which key the other fields go ("": in the node itself), and whether an unset optional field
    // is written as null (readers there demand the key) or left out (readers there demand a value).
    bool is_nested = true;
    std::string_view parameters = "";
    bool is_unset_null = false;
};

// Throws INTERNAL_ERROR for a table that is no op.
const OpNames& op_names(std::string_view type);

// Whether a field of an op's table holds one tensor uid, or a vector of them.
bool is_tensor_uid(const TypeInfo& op, const FieldInfo& field);
bool is_output(const OpNames& op, const FieldInfo& field);

}  // namespace raggeddnn::schema
