// links: raggeddnn_cpu_objects
// Numbers in and out of the CPU engine's kernels, for every target that this machine runs: each
// bit pattern of bfloat16 and half, roundings that are easily got wrong, and NaN of any bits.
#include "cpu_fixture.hpp"

using namespace check;

namespace {

// What narrowing must give: bits of the nearest number, ties to even.
uint16_t narrow(Element element, float value) {
    return element == Element::BFLOAT16 ? raggeddnn::double_to_bfloat16_bits(value)
                                        : raggeddnn::double_to_half_bits(value);
}

bool is_nan(Element element, uint16_t bits) {
    return (bits & 0x7fff) > (element == Element::BFLOAT16 ? 0x7f80 : 0x7c00);
}

// Every number of the type, the middle to the next one, and the floats beside both.
std::vector<float> telling_floats(Element element) {
    std::vector<float> floats;
    for (uint32_t bits = 0; bits < 0x10000; ++bits) {
        const Matrix one = [&] {
            Matrix m(element, 1, 2);
            m.set_bits(0, 0, bits);
            m.set_bits(0, 1, bits + 1);
            return m;
        }();
        const auto low = static_cast<float>(one.get(0, 0));
        const auto middle = static_cast<float>((one.get(0, 0) + one.get(0, 1)) / 2);
        for (const float value : {low, middle}) {
            floats.insert(floats.end(), {value, std::nextafter(value, -INFINITY),
                                         std::nextafter(value, INFINITY)});
        }
    }
    floats.insert(floats.end(), {65519.99f, 65520.0f, 65536.0f, 3.4e38f, 1e-45f, -1e-40f});
    return floats;
}

void check_narrowing(const KernelSet& set, Element element) {
    const std::vector<float> floats = telling_floats(element);
    constexpr int32_t width = 251;
    const int64_t stride = set.gradient_stride(width);
    for (size_t first = 0; first < floats.size(); first += width) {
        const size_t count = std::min<size_t>(width, floats.size() - first);
        std::vector<float> row(static_cast<size_t>(stride));
        std::copy_n(floats.begin() + static_cast<int64_t>(first), count, row.begin());
        std::vector<uint16_t> got(width);
        set.store_gradients(row.data(), stride, 1.0f, element, width, 1, {got.data(), width});
        for (size_t i = 0; i < count; ++i) {
            const uint16_t want = narrow(element, row[i]);
            const bool good = std::isnan(row[i]) ? is_nan(element, got[i]) : got[i] == want;
            if (good) continue;
            char text[120];
            std::snprintf(text, sizeof(text), "%s %s: %a becomes %04x, expected %04x", set.name,
                          name_of(element), static_cast<double>(row[i]), got[i], want);
            fail(text);
        }
    }
}

// Every number of the type as a value whose weight is 1.
void check_widening(const KernelSet& set, Element element) {
    constexpr int32_t width = 256;
    // bfloat16's instruction takes subnormal numbers for 0.
    const double least = element == Element::BFLOAT16 ? 0x1p-126 : 0.0;
    for (uint32_t first = 0; first < 0x10000; first += width) {
        Matrix q(element, 1, 1), k(element, 1, 1), v(element, 1, width);
        Matrix o(element, 1, width);
        q.set(0, 0, 1.0);
        k.set(0, 0, 1.0);
        for (uint32_t i = 0; i < width; ++i) v.set_bits(0, i, first + i);
        ForwardHead head{};
        head.q = q.as_rows();
        head.k = k.as_rows();
        head.v = v.as_rows();
        head.o = o.as_rows();
        head.rows = head.keys = head.width = 1;
        head.value_width = width;
        head.band = {-OPEN, OPEN};
        head.scale = 1.0f;
        head.element = element;
        run_forward(set, head);
        for (uint32_t i = 0; i < width; ++i) {
            const double want = v.get(0, i);
            const double got = o.get(0, i);
            const bool good = std::isnan(want)
                                  ? std::isnan(got)
                                  : got == want || (std::fabs(want) < least && got == 0.0);
            if (good) continue;
            char text[120];
            std::snprintf(text, sizeof(text), "%s %s: value %04x comes out as %a, expected %a",
                          set.name, name_of(element), first + i, got, want);
            fail(text);
        }
    }
}

// NaN in a key reaches exactly the rows that see it, whatever its bits are.
void check_nan(const KernelSet& set, Element element, uint32_t bits) {
    constexpr int64_t rows = 60, keys = 70, last = 10, bad_key = 40;
    Matrix q(element, rows, 16), k(element, keys, 16), v(element, keys, 8), o(element, rows, 8);
    Matrix stats(Element::FLOAT32, rows, 1);
    std::mt19937 random(1);
    for (Matrix* m : {&q, &k, &v}) m->fill_normal(random);
    k.set_bits(bad_key, 3, bits);
    ForwardHead head{};
    head.q = q.as_rows();
    head.k = k.as_rows();
    head.v = v.as_rows();
    head.o = o.as_rows();
    head.stats = stats.as_rows();
    head.rows = rows;
    head.keys = keys;
    head.band = {-OPEN, last};
    head.scale = 0.25f;
    head.width = 16;
    head.value_width = 8;
    head.element = element;
    run_forward(set, head);
    for (int64_t row = 0; row < rows; ++row) {
        const bool sees = bad_key <= row + last;
        bool good = std::isnan(stats.get(row, 0)) == sees;
        for (int64_t col = 0; col < 8; ++col) good &= std::isnan(o.get(row, col)) == sees;
        if (good) continue;
        fail(std::string(set.name) + " " + name_of(element) + ": row " + std::to_string(row) +
             (sees ? " sees NaN and is finite" : " is NaN and sees none"));
    }
}

}  // namespace

int main() {
    for (const KernelSet* set : runnable_kernels()) {
        for (const Element element : {Element::BFLOAT16, Element::FLOAT16}) {
            check_narrowing(*set, element);
            check_widening(*set, element);
        }
        for (const uint32_t bits : {0xffffffffu, 0x7f800001u, 0x7fc00005u, 0x7fc00000u}) {
            check_nan(*set, Element::FLOAT32, bits);
        }
        check_nan(*set, Element::BFLOAT16, 0xffff);
        check_nan(*set, Element::FLOAT16, 0x7c01);
        std::printf("%s\n", set->name);
    }
    if (failures > 0) std::fprintf(stderr, "%d failures\n", failures);
    return failures == 0 ? 0 : 1;
}
