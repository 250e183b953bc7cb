// Text from outside, made fit for a message: a name may be a megabyte long or no UTF-8 at all, and
// a message must be neither, or Python could not show it.
#pragma once

#include <string>
#include <string_view>

namespace raggeddnn::schema {

// At most `max_bytes`, then "..."; control characters and what is no UTF-8 become "?".
std::string printable(std::string_view text, size_t max_bytes = 80);

}  // namespace raggeddnn::schema
