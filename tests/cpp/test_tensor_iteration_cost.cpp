// Visiting a ragged tensor costs about what visiting a dense strided one of the same count does.
// The two are measured in turns, and a noisy machine gets more tries: the ratio that holds is the
// smallest one seen.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <vector>

#include "raggeddnn/tensor/ragged_tensor.hpp"
#include "raggeddnn/tensor/random_layout.hpp"

using namespace raggeddnn;

namespace {

constexpr double MOST = 1.5;  // times the dense tensor
constexpr int TRIES = 10;
constexpr int ROUNDS = 15;  // of each in turn, of which the fastest counts
constexpr int64_t HEADS = 4;
constexpr int64_t HEAD_DIM = 32;

double checksum = 0;  // keeps the loops alive

double seconds_to_visit(const TensorBase<float>& tensor) {
    const auto start = std::chrono::steady_clock::now();
    double sum = 0;
    for (const void* element : tensor) sum += *static_cast<const float*>(element);
    checksum += sum;
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

struct Pair {
    std::unique_ptr<TensorBase<float>> dense;
    std::unique_ptr<TensorBase<float>> ragged;
};

// The dense one has the same row, in the same order of dims, and a gap after each.
Pair make_pair(LayoutKind kind, int64_t batches, int64_t max_rows) {
    const int64_t row = HEADS * HEAD_DIM;
    const RaggedLayout layout = random_ragged_layout(7, batches, max_rows, kind);
    auto aux = std::make_shared<Tensor<int32_t>>(std::vector<int64_t>{batches + 1, 1, 1, 1});
    aux->fill_from_host(layout.element_offsets(row));
    Pair made;
    made.ragged = std::make_unique<RaggedTensor<float>>(
        std::vector<int64_t>{batches, max_rows, HEADS, HEAD_DIM},
        std::vector<int64_t>{max_rows * row, row, HEAD_DIM, 1}, BSHD_SEQ_AXIS, aux);
    const int64_t rows = layout.row_offsets.back();
    made.dense = std::make_unique<Tensor<float>>(
        std::vector<int64_t>{1, rows, HEADS, HEAD_DIM},
        std::vector<int64_t>{rows * (row + 8), row + 8, HEAD_DIM, 1});
    return made;
}

double smallest_ratio(const Pair& pair) {
    double smallest = std::numeric_limits<double>::infinity();
    for (int attempt = 0; attempt < TRIES && smallest > MOST * 0.95; ++attempt) {
        double dense = std::numeric_limits<double>::infinity();
        double ragged = dense;
        for (int round = 0; round < ROUNDS; ++round) {
            dense = std::min(dense, seconds_to_visit(*pair.dense));
            ragged = std::min(ragged, seconds_to_visit(*pair.ragged));
        }
        smallest = std::min(smallest, ragged / dense);
    }
    return smallest;
}

bool check(const char* what, LayoutKind kind, int64_t batches, int64_t max_rows) {
    const Pair pair = make_pair(kind, batches, max_rows);
    if (pair.dense->is_packed() || pair.dense->element_count() != pair.ragged->element_count()) {
        std::fprintf(stderr, "%s: the dense tensor is not comparable\n", what);
        return false;
    }
    const double ratio = smallest_ratio(pair);
    std::printf("%-16s %8zu elements: ragged / dense strided = %.2f\n", what,
                pair.ragged->element_count(), ratio);
    if (ratio <= MOST) return true;
    std::fprintf(stderr, "%s: got %.2f times the dense cost, expected at most %.2f\n", what, ratio,
                 MOST);
    return false;
}

}  // namespace

int main() {
    bool good = check("uniform", LayoutKind::UNIFORM, 16, 256);
    good = check("zeros", LayoutKind::ZEROS, 64, 128) && good;
    good = check("one long", LayoutKind::ONE_LONG, 64, 512) && good;
    good = check("many short", LayoutKind::UNIFORM, 2048, 2) && good;
    return good && checksum == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
