// The list of operations, and what all of them have.
#pragma once

#include "raggeddnn/backend/c_api/fields.hpp"

namespace raggeddnn::c_api {

std::span<const Operation> operations();

void get_operation_type(const Descriptor& descriptor, const Output& output);

inline constexpr Attribute OPERATION_NAME =
    field<&schema::NodeT::name>(RAGGEDDNN_ATTRIBUTE(OPERATION_NAME_EXT));
inline constexpr Attribute OPERATION_TYPE{RAGGEDDNN_ATTRIBUTE(OPERATION_TYPE_EXT),
                                          HIPDNN_TYPE_OPERATION_TYPE_EXT, nullptr,
                                          get_operation_type};
inline constexpr Attribute COMMON_ROWS[] = {OPERATION_NAME, OPERATION_TYPE};

}  // namespace raggeddnn::c_api
