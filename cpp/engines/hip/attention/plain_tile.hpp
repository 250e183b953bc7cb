// Tiles of 64 by 64 without matrix instructions, for operands that those do not take: a block of 16
// by 16 threads, each with 4 by 4 sums in float. Operands pass through shared memory as floats, 64
// columns of 64 rows at a time.
#pragma once

#include "../tile/arch.hpp"
#include "params.hpp"

namespace raggeddnn::hip {

inline constexpr int PLAIN_SIZE = 64;
inline constexpr int PLAIN_SIDE = 16;  // threads across a tile; they lie within one wave
inline constexpr int PLAIN_EACH = PLAIN_SIZE / PLAIN_SIDE;
inline constexpr int PLAIN_THREADS = PLAIN_SIDE * PLAIN_SIDE;
// Floats from row to row: four on, so that loads of 16 bytes from eight rows meet all banks.
inline constexpr int PLAIN_PITCH = PLAIN_SIZE + 4;

// Of a processor, so that one computes while another loads; sums over more than two slices of the
// width leave no registers for that.
inline constexpr int plain_blocks_at_once(int slices) { return slices > 2 ? 1 : 2; }

struct alignas(16) PlainMemory {
    float left[PLAIN_SIZE * PLAIN_PITCH];
    float right[PLAIN_SIZE * PLAIN_PITCH];
    float weights[PLAIN_SIZE * PLAIN_PITCH];
    int32_t has_wild;  // not 0: some value to be weighed was NaN or infinite
};

// A thread's part of a tile. Its rows are next to each other. So are its columns where columns of
// an operand are summed up; where they are rows of another operand, they are PLAIN_SIDE apart.
struct PlainSum {
    float x[PLAIN_EACH][PLAIN_EACH];
};

RAGGEDDNN_DEVICE inline int plain_row(int i) {
    return thread_index() / PLAIN_SIDE * PLAIN_EACH + i;
}
RAGGEDDNN_DEVICE inline int plain_column(int j) {
    return thread_index() % PLAIN_SIDE + PLAIN_SIDE * j;
}

template <class Element>
RAGGEDDNN_DEVICE typename Element::Stored* plain_target(const RowTensor& tensor, int64_t base,
                                                        int64_t head, int64_t row) {
    return static_cast<typename Element::Stored*>(tensor.data) + base + head * tensor.head_stride +
           row * tensor.row_stride;
}

struct alignas(16) PlainFloats {
    float x[4];
};
RAGGEDDNN_DEVICE inline PlainFloats load_floats(const float* memory) {
    return *reinterpret_cast<const PlainFloats*>(memory);
}

// Rows of one head, as floats.
template <class Element>
struct PlainRows {
    using Stored = typename Element::Stored;
    struct alignas(4 * sizeof(Stored)) Four {
        Stored e[4];
    };

    const Stored* data;  // the head's first row
    int64_t row_stride;  // elements
    int64_t rows;        // beyond are zeros
    int width;           // beyond are zeros
    bool is_wide;        // rows are aligned to four elements, and their width is a multiple of it

    RAGGEDDNN_DEVICE float at(int64_t row, int column) const {
        if (row >= rows || column >= width) return 0;
        return Element::to_float(data[row * row_stride + column]);
    }
    // From a column that is a multiple of four on, where they are wide.
    RAGGEDDNN_DEVICE PlainFloats four(int64_t row, int column) const {
        if (row >= rows || column >= width) return {};
        const Four found = *reinterpret_cast<const Four*>(data + row * row_stride + column);
        return {{Element::to_float(found.e[0]), Element::to_float(found.e[1]),
                 Element::to_float(found.e[2]), Element::to_float(found.e[3])}};
    }
};

template <class Element>
RAGGEDDNN_DEVICE PlainRows<Element> plain_rows(const RowTensor& tensor, int64_t base, int64_t head,
                                               int64_t rows, int width) {
    const auto* data = plain_target<Element>(tensor, base, head, 0);
    const bool is_wide =
        reinterpret_cast<uintptr_t>(data) % alignof(typename PlainRows<Element>::Four) == 0 &&
        tensor.row_stride % 4 == 0 && width % 4 == 0;
    return {data, tensor.row_stride, rows, width, is_wide};
}

RAGGEDDNN_DEVICE inline bool is_wild(float value) { return value - value != 0; }

// As load_plain, element by element: slow, and out of the way.
template <class Element>
RAGGEDDNN_COLD bool gather_plain(PlainRows<Element> rows, int64_t first_row, int first_column,
                                 float* memory) {
    bool has_wild = false;
#pragma unroll 1
    for (int i = thread_index(); i < PLAIN_SIZE * PLAIN_SIZE; i += PLAIN_THREADS) {
        const int row = i / PLAIN_SIZE;
        const int column = i % PLAIN_SIZE;
        const float value = rows.at(first_row + row, first_column + column);
        memory[row * PLAIN_PITCH + column] = value;
        has_wild |= is_wild(value);
    }
    return has_wild;
}

// PLAIN_SIZE columns of PLAIN_SIZE rows to shared memory; whether this thread's part of them holds
// a NaN or an infinity.
template <class Element>
RAGGEDDNN_DEVICE bool load_plain(const PlainRows<Element>& rows, int64_t first_row,
                                 int first_column, float* memory) {
    if (!rows.is_wide) return gather_plain(rows, first_row, first_column, memory);
    bool has_wild = false;
#pragma unroll
    for (int n = 0; n < PLAIN_SIZE; n += PLAIN_SIDE) {
        const int row = n + thread_index() / PLAIN_SIDE;
        const int column = thread_index() % PLAIN_SIDE * 4;
        const PlainFloats floats = rows.four(first_row + row, first_column + column);
        *reinterpret_cast<PlainFloats*>(memory + row * PLAIN_PITCH + column) = floats;
#pragma unroll
        for (int e = 0; e < 4; ++e) has_wild |= is_wild(floats.x[e]);
    }
    return has_wild;
}

// Sums of many products lose less where a few are summed by themselves first.
RAGGEDDNN_DEVICE inline float sum_of_four(const PlainFloats& a, const PlainFloats& b) {
    float sum = a.x[0] * b.x[0];
#pragma unroll
    for (int e = 1; e < 4; ++e) sum += a.x[e] * b.x[e];
    return sum;
}

// sum += x, with what the additions lost kept beside it (Kahan 1965, "Further remarks on reducing
// truncation errors").
RAGGEDDNN_DEVICE inline void add_kept(float& sum, float& lost, float x) {
    const float made_up = x - lost;
    const float now = sum + made_up;
    lost = (now - sum) - made_up;
    sum = now;
}

// sum += rows of the left times rows of the right, over the first `columns`. Scores may be large,
// and exponentials make of what a score lost a share of the weight: so it is not lost.
RAGGEDDNN_DEVICE inline void add_row_products(const PlainMemory& memory, int columns, PlainSum& sum,
                                              PlainSum& lost) {
#pragma unroll 2
    for (int c = 0; c < columns; c += 4) {
        PlainFloats left[PLAIN_EACH];
        PlainFloats right[PLAIN_EACH];
#pragma unroll
        for (int i = 0; i < PLAIN_EACH; ++i) {
            left[i] = load_floats(memory.left + plain_row(i) * PLAIN_PITCH + c);
            right[i] = load_floats(memory.right + plain_column(i) * PLAIN_PITCH + c);
        }
#pragma unroll
        for (int i = 0; i < PLAIN_EACH; ++i) {
#pragma unroll
            for (int j = 0; j < PLAIN_EACH; ++j) {
                add_kept(sum.x[i][j], lost.x[i][j], sum_of_four(left[i], right[j]));
            }
        }
    }
}

// sum += weights times the right. IS_GUARDED: what has the weight 0 does not count, NaN or not.
template <bool IS_GUARDED>
RAGGEDDNN_DEVICE void add_weighted(const PlainMemory& memory, PlainSum& sum) {
    const float* columns = memory.right + thread_index() % PLAIN_SIDE * PLAIN_EACH;
#pragma unroll 2
    for (int k = 0; k < PLAIN_SIZE; k += 4) {
        PlainFloats weights[PLAIN_EACH];
        PlainFloats values[4];
#pragma unroll
        for (int i = 0; i < PLAIN_EACH; ++i) {
            weights[i] = load_floats(memory.weights + plain_row(i) * PLAIN_PITCH + k);
        }
#pragma unroll
        for (int e = 0; e < 4; ++e) values[e] = load_floats(columns + (k + e) * PLAIN_PITCH);
#pragma unroll
        for (int i = 0; i < PLAIN_EACH; ++i) {
            PlainFloats four{};  // rows, before they are added to the others
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                if (IS_GUARDED && weights[i].x[e] == 0) continue;
#pragma unroll
                for (int j = 0; j < PLAIN_EACH; ++j) four.x[j] += weights[i].x[e] * values[e].x[j];
            }
#pragma unroll
            for (int j = 0; j < PLAIN_EACH; ++j) sum.x[i][j] += four.x[j];
        }
    }
}

// No thread uses the memory any more.
RAGGEDDNN_DEVICE inline void start_tile(PlainMemory& memory) {
    if (thread_index() == 0) memory.has_wild = 0;
}

// Rows of one operand times rows of another of the same width, from these rows on. What the sums
// are too large by, for want of digits, is `lost`.
template <class Element>
RAGGEDDNN_DEVICE PlainSum multiply_rows(PlainMemory& memory, const PlainRows<Element>& left,
                                        int64_t left_row, const PlainRows<Element>& right,
                                        int64_t right_row, PlainSum& lost) {
    PlainSum sum{};
    lost = {};
    for (int column = 0; column < left.width; column += PLAIN_SIZE) {
        block_barrier();  // what was there is not needed any more
        load_plain(left, left_row, column, memory.left);
        load_plain(right, right_row, column, memory.right);
        block_barrier();
        const int rest = left.width - column;
        add_row_products(memory, rest < PLAIN_SIZE ? rest : PLAIN_SIZE, sum, lost);
    }
    return sum;
}

template <class Element>
RAGGEDDNN_DEVICE PlainSum multiply_rows(PlainMemory& memory, const PlainRows<Element>& left,
                                        int64_t left_row, const PlainRows<Element>& right,
                                        int64_t right_row) {
    PlainSum lost;
    return multiply_rows(memory, left, left_row, right, right_row, lost);
}

// sums += the weights in shared memory times rows from this one on.
template <int SLICES, class Element>
RAGGEDDNN_DEVICE void weigh_rows(PlainMemory& memory, const PlainRows<Element>& values,
                                 int64_t first_row, PlainSum (&sums)[SLICES]) {
#pragma unroll
    for (int s = 0; s < SLICES; ++s) {
        if (s * PLAIN_SIZE >= values.width) continue;
        block_barrier();
        if (load_plain(values, first_row, s * PLAIN_SIZE, memory.right)) {
            add_shared(&memory.has_wild, 1);
        }
        block_barrier();
        if (memory.has_wild) {
            add_weighted<true>(memory, sums[s]);
        } else {
            add_weighted<false>(memory, sums[s]);
        }
    }
}

// Each of the thread's rows of one operand times the same row of another, summed in the order of
// multiply_rows: where rows are equal, so are the products.
template <class Element>
RAGGEDDNN_DEVICE void multiply_same_rows(PlainMemory& memory, const PlainRows<Element>& left,
                                         const PlainRows<Element>& right, int64_t first_row,
                                         float (&sums)[PLAIN_EACH]) {
    float lost[PLAIN_EACH];
    for (int i = 0; i < PLAIN_EACH; ++i) sums[i] = lost[i] = 0;
    for (int column = 0; column < left.width; column += PLAIN_SIZE) {
        block_barrier();
        load_plain(left, first_row, column, memory.left);
        load_plain(right, first_row, column, memory.right);
        block_barrier();
        for (int c = 0; c < PLAIN_SIZE && column + c < left.width; c += 4) {
#pragma unroll
            for (int i = 0; i < PLAIN_EACH; ++i) {
                const int at = plain_row(i) * PLAIN_PITCH + c;
                const PlainFloats a = load_floats(memory.left + at);
                const PlainFloats b = load_floats(memory.right + at);
                add_kept(sums[i], lost[i], sum_of_four(a, b));
            }
        }
    }
}

// The weights of weigh_rows.
RAGGEDDNN_DEVICE inline void write_weights(const PlainSum& tile, PlainMemory& memory) {
#pragma unroll
    for (int i = 0; i < PLAIN_EACH; ++i) {
#pragma unroll
        for (int j = 0; j < PLAIN_EACH; ++j) {
            memory.weights[plain_row(i) * PLAIN_PITCH + plain_column(j)] = tile.x[i][j];
        }
    }
}

// One row of weighed sums, times `factor`, to a row of a tensor.
template <class Element, int SLICES>
RAGGEDDNN_DEVICE void write_plain_row(const PlainSum (&sums)[SLICES], int i, float factor,
                                      int width, typename Element::Stored* to) {
#pragma unroll
    for (int s = 0; s < SLICES; ++s) {
#pragma unroll
        for (int j = 0; j < PLAIN_EACH; ++j) {
            const int column = s * PLAIN_SIZE + thread_index() % PLAIN_SIDE * PLAIN_EACH + j;
            if (column >= width) continue;
            const float sum = sums[s].x[i][j];
            to[column] = Element::from_float(sum == 0 || factor == 0 ? 0.0F : sum * factor);
        }
    }
}

// Over the threads that share a row.
RAGGEDDNN_DEVICE inline float plain_row_max(float x) {
    for (int mask = 1; mask < PLAIN_SIDE; mask *= 2) x = larger(x, shuffle_xor(x, mask));
    return x;
}
RAGGEDDNN_DEVICE inline float plain_row_sum(float x) {
    for (int mask = 1; mask < PLAIN_SIDE; mask *= 2) x += shuffle_xor(x, mask);
    return x;
}

}  // namespace raggeddnn::hip
