// Counting checks for the programs about the data SDK.
#pragma once

#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "raggeddnn/tensor/ragged_tensor.hpp"

namespace raggeddnn::tensor_check {

using Numbers = std::vector<int64_t>;

inline int failures = 0;

inline void check(bool good, const std::string& what) {
    if (good) return;
    ++failures;
    std::fprintf(stderr, "failed: %s\n", what.c_str());
}

template <class Got, class Expected>
void check_equal(const Got& got, const Expected& expected, const std::string& what) {
    check(got == expected, message(what, ": got ", got, ", expected ", expected));
}
inline void check_equal(const Numbers& got, const Numbers& expected, const std::string& what) {
    check(got == expected, message(what, ": got ", to_text(got), ", expected ", to_text(expected)));
}

// `body` must throw this code, with a text that says what was got and what was expected.
inline void check_throws(ErrorCode code, const std::string& text, const std::function<void()>& body,
                         const std::string& what) {
    try {
        body();
    } catch (const Exception& e) {
        const std::string said = e.what();
        check(e.code() == code, message(what, ": got the code ", raggeddnn::to_string(e.code())));
        check(said.find(text) != std::string::npos && said.find("got") != std::string::npos,
              message(what, ": got the text ", said, ", expected ", text));
        return;
    }
    check(false, what + ": threw nothing");
}

template <class Index>
std::shared_ptr<Tensor<Index>> make_aux(const Numbers& offsets) {
    auto aux =
        std::make_shared<Tensor<Index>>(Numbers{static_cast<int64_t>(offsets.size()), 1, 1, 1});
    aux->fill_from_host(offsets);
    return aux;
}

inline int finish() {
    if (failures) std::fprintf(stderr, "%d failures\n", failures);
    return failures ? 1 : 0;
}

}  // namespace raggeddnn::tensor_check
