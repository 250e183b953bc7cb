// HALF and BFLOAT16 against a table of their own values: every bit pattern, and roundings that are
// easily got wrong.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "raggeddnn/tensor/half.hpp"

namespace {

int failures = 0;

void expect(bool good, const char* format, const char* what, double value, unsigned got,
            unsigned expected) {
    if (good) return;
    ++failures;
    if (failures < 20) std::fprintf(stderr, format, what, value, got, expected);
}

void expect_bits(const char* type, double value, uint16_t got, uint16_t expected) {
    expect(got == expected, "%s(%.17g): got 0x%04x, expected 0x%04x\n", type, value, got, expected);
}

// A 16-bit format by its definition.
struct Format {
    const char* name;
    int mantissa_bits;
    int bias;
    std::function<float(uint16_t)> widen;
    std::function<uint16_t(double)> round;

    uint16_t infinity() const {
        return static_cast<uint16_t>(0x7fff >> mantissa_bits << mantissa_bits);
    }
    double value(uint16_t bits) const {
        const int exponent = (bits & 0x7fff) >> mantissa_bits;
        const int mantissa = bits & ((1 << mantissa_bits) - 1);
        const double magnitude = exponent == 0 ? std::ldexp(mantissa, 1 - bias - mantissa_bits)
                                               : std::ldexp(mantissa + (1 << mantissa_bits),
                                                            exponent - bias - mantissa_bits);
        return bits & 0x8000 ? -magnitude : magnitude;
    }
};

// Nearest by search among all values, ties to the even pattern. One step beyond the largest value
// stands for infinity, as IEEE rounding has it.
uint16_t nearest(const Format& f, double x) {
    const double magnitude = std::fabs(x);
    uint16_t low = 0;
    uint16_t high = f.infinity();
    while (high - low > 1) {
        const auto middle = static_cast<uint16_t>((low + high) / 2);
        (f.value(middle) <= magnitude ? low : high) = middle;
    }
    const double below = magnitude - f.value(low);
    const double above = f.value(high) - magnitude;
    const bool goes_up = above < below || (above == below && low % 2 == 1);
    return static_cast<uint16_t>((goes_up ? high : low) | (std::signbit(x) ? 0x8000 : 0));
}

void check_patterns(const Format& f) {
    for (uint32_t i = 0; i <= 0xffff; ++i) {
        const auto bits = static_cast<uint16_t>(i);
        const float wide = f.widen(bits);
        const uint16_t magnitude = bits & 0x7fff;
        if (magnitude > f.infinity()) {
            expect(std::isnan(wide), "%s: NaN pattern gives %g (0x%04x 0x%04x)\n", f.name,
                   static_cast<double>(wide), bits, bits);
            const uint16_t back = f.round(static_cast<double>(wide));
            expect((back & 0x7fff) > f.infinity(),
                   "%s(%g): got 0x%04x, expected NaN (from 0x%04x)\n", f.name,
                   static_cast<double>(wide), back, bits);
            continue;
        }
        const double expected = magnitude == f.infinity()
                                    ? std::copysign(INFINITY, bits & 0x8000 ? -1.0 : 1.0)
                                    : f.value(bits);
        const bool same =
            static_cast<double>(wide) == expected && std::signbit(wide) == std::signbit(expected);
        expect(same, "%s: pattern gives %.17g (0x%04x 0x%04x)\n", f.name, static_cast<double>(wide),
               bits, bits);
        expect_bits(f.name, expected, f.round(expected), bits);
    }
}

// Midpoints of neighbours and the doubles just beside them: ties, and double rounding through
// float.
void check_midpoints(const Format& f) {
    for (uint16_t bits = 0; bits < f.infinity(); ++bits) {
        const double middle =
            (f.value(bits) + f.value(static_cast<uint16_t>(bits + 1))) / 2;  // exact
        for (const double x :
             {middle, std::nextafter(middle, 0.0), std::nextafter(middle, INFINITY),
              middle * (1 + 0x1p-40), middle * (1 - 0x1p-40)}) {
            expect_bits(f.name, x, f.round(x), nearest(f, x));
            expect_bits(f.name, -x, f.round(-x), nearest(f, -x));
        }
    }
}

void check_random(const Format& f) {
    std::mt19937_64 random(7);
    for (int i = 0; i < 200000; ++i) {
        const double x = std::bit_cast<double>(random());
        if (std::isfinite(x)) expect_bits(f.name, x, f.round(x), nearest(f, x));
        const double near_one =
            std::ldexp(static_cast<double>(random() >> 11), static_cast<int>(random() % 80) - 100);
        expect_bits(f.name, near_one, f.round(near_one), nearest(f, near_one));
    }
}

void check_known() {
    const auto half_bits = raggeddnn::double_to_half_bits;
    const auto bf16_bits = raggeddnn::double_to_bfloat16_bits;
    expect_bits("half", 1.0, half_bits(1.0), 0x3c00);
    expect_bits("half", 65504.0, half_bits(65504.0), 0x7bff);
    expect_bits("half", 65519.999, half_bits(65519.999), 0x7bff);
    expect_bits("half", 65520.0, half_bits(65520.0), 0x7c00);
    expect_bits("half", 0x1p-24, half_bits(0x1p-24), 0x0001);
    expect_bits("half", 0x1p-25, half_bits(0x1p-25), 0x0000);
    expect_bits("half", 0x1.8p-24, half_bits(0x1.8p-24), 0x0002);
    expect_bits("half", 0x1.ffcp-15, half_bits(0x1.ffep-15), 0x0400);
    expect_bits("half", 1.00048828125, half_bits(1.00048828125), 0x3c00);
    expect_bits("half", -0.0, half_bits(-0.0), 0x8000);
    expect_bits("half", 1e300, half_bits(1e300), 0x7c00);
    expect_bits("bfloat16", 1.0, bf16_bits(1.0), 0x3f80);
    // Just above a tie, by less than float resolves: through float it would become the tie.
    expect_bits("bfloat16", 1 + 0x1p-8 + 0x1p-40, bf16_bits(1 + 0x1p-8 + 0x1p-40), 0x3f81);
    expect_bits("bfloat16", 1 + 0x1p-8, bf16_bits(1 + 0x1p-8), 0x3f80);
    expect_bits("bfloat16", 3.4e38, bf16_bits(3.4e38), 0x7f80);
    expect_bits("bfloat16", -1e300, bf16_bits(-1e300), 0xff80);
    expect_bits("bfloat16", 1e-300, bf16_bits(1e-300), 0x0000);
}

}  // namespace

int main() {
    const Format formats[] = {
        {"half", 10, 15, raggeddnn::half_bits_to_float, raggeddnn::double_to_half_bits},
        {"bfloat16", 7, 127, raggeddnn::bfloat16_bits_to_float, raggeddnn::double_to_bfloat16_bits},
    };
    for (const Format& f : formats) {
        check_patterns(f);
        check_midpoints(f);
        check_random(f);
    }
    check_known();
    if (failures) std::fprintf(stderr, "%d failures\n", failures);
    return failures ? 1 : 0;
}
