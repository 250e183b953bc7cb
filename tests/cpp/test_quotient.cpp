// Divisions by an inverse give what divisions give.
#include "engines/hip/attention/quotient.hpp"

#include <algorithm>
#include <cstdio>
#include <vector>

using raggeddnn::hip::inverse_of;
using raggeddnn::hip::quotient;

int main() {
    std::vector<uint32_t> numbers;
    for (const uint64_t middle : {uint64_t{0}, uint64_t{1} << 8, uint64_t{3} << 15,
                                  uint64_t{1} << 16, uint64_t{1} << 31, uint64_t{1} << 32}) {
        for (int64_t n = -70; n <= 70; ++n) {
            const int64_t at = static_cast<int64_t>(middle) + n;
            numbers.push_back(
                static_cast<uint32_t>(std::clamp<int64_t>(at, 0, int64_t{UINT32_MAX})));
        }
    }
    int failures = 0;
    for (const uint32_t by : numbers) {
        if (by == 0) continue;
        // Also next to multiples of it.
        for (const uint32_t n : numbers) {
            for (const uint32_t number : {n, n / by * by, n / by * by - 1}) {
                if (quotient(number, by, inverse_of(by)) == number / by) continue;
                ++failures;
                std::fprintf(stderr, "failed: %u / %u\n", number, by);
            }
        }
    }
    return failures == 0 ? 0 : 1;
}
