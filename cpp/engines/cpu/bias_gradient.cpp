// The gradient of a bias, of any shape that broadcasts to the scores'.
#include "bias_gradient.hpp"

#include <algorithm>
#include <utility>

#include "operands.hpp"

namespace raggeddnn::cpu {
namespace {

int64_t tiles_along(int64_t extent, int64_t size) { return (extent + size - 1) / size; }

}  // namespace

BiasGradient::BiasGradient(const schema::SdpaBackwardProblem& problem, const KernelSet& kernels,
                           const plugin::Sequences& sequences, Describe describe, void* data)
    : problem_(problem),
      kernels_(kernels),
      sequences_(sequences),
      describe_(std::move(describe)),
      data_(data) {
    const schema::Dims4& own = problem.dbias_dims;
    row_tiles_ = tiles_along(own[schema::SEQUENCE_AXIS], kernels.panel_rows);
    key_tiles_ = tiles_along(own[schema::WIDTH_AXIS], kernels.block_keys);
    tiles_ = own[schema::BATCH_AXIS] * own[schema::HEAD_AXIS] * row_tiles_ * key_tiles_;
}

BiasGradient::Place BiasGradient::place_of(int64_t tile) const {
    Place place{};
    place.key = tile % key_tiles_ * kernels_.block_keys;
    tile /= key_tiles_;
    place.row = tile % row_tiles_ * kernels_.panel_rows;
    tile /= row_tiles_;
    place.head = tile % problem_.dbias_dims[schema::HEAD_AXIS];
    place.batch = tile / problem_.dbias_dims[schema::HEAD_AXIS];
    return place;
}

void BiasGradient::make_tile(int64_t tile, float* sums, void* scratch) const {
    const Place place = place_of(tile);
    std::fill_n(sums, kernels_.block_keys * kernels_.panel_rows, 0.0f);
    const bool is_one = problem_.dbias_dims[schema::BATCH_AXIS] == problem_.batches();
    const int64_t end = is_one ? place.batch + 1 : problem_.batches();
    for (int64_t batch = place.batch; batch < end; ++batch) add_batch(batch, place, sums, scratch);
    fold(sums);
    write(place, sums);
}

void BiasGradient::add_batch(int64_t batch, const Place& place, float* sums, void* scratch) const {
    const plugin::Sequence& s = sequences_[static_cast<size_t>(batch)];
    const schema::Dims4& own = problem_.dbias_dims;
    const bool is_one_head = own[schema::HEAD_AXIS] == problem_.heads();
    const bool has_rows = own[schema::SEQUENCE_AXIS] == problem_.q.max_rows();
    const bool has_keys = own[schema::WIDTH_AXIS] == problem_.k.max_rows();
    const int64_t last_row = has_rows ? place.row + kernels_.panel_rows : s.valid_q;
    const int64_t last_key = has_keys ? place.key + kernels_.block_keys : s.valid_kv;
    const int64_t last_head = is_one_head ? place.head + 1 : problem_.heads();
    for (int64_t head = place.head; head < last_head; ++head) {
        if (s.valid_q == 0 || s.valid_kv == 0) continue;
        const BackwardHead described = describe_(batch, head);
        for (int64_t row = place.row; row < std::min(last_row, s.valid_q);
             row += kernels_.panel_rows) {
            for (int64_t key = place.key; key < std::min(last_key, s.valid_kv);
                 key += kernels_.block_keys) {
                kernels_.add_score_gradients(described, row, key, sums, scratch);
            }
        }
    }
}

// Sums over rows, or keys, that share one element.
void BiasGradient::fold(float* sums) const {
    const int64_t rows = kernels_.panel_rows;
    if (problem_.dbias_dims[schema::SEQUENCE_AXIS] == 1) {
        for (int64_t key = 0; key < kernels_.block_keys; ++key) {
            for (int64_t row = 1; row < rows; ++row) sums[key * rows] += sums[key * rows + row];
        }
    }
    if (problem_.dbias_dims[schema::WIDTH_AXIS] == 1) {
        for (int64_t key = 1; key < kernels_.block_keys; ++key) {
            for (int64_t row = 0; row < rows; ++row) sums[row] += sums[key * rows + row];
        }
    }
}

void BiasGradient::write(const Place& place, const float* sums) const {
    const schema::Dims4& own = problem_.dbias_dims;
    const schema::Dims4& strides = problem_.dbias->strides;
    const Element element = element_of(problem_.dbias->type);
    const int64_t rows = std::min(kernels_.panel_rows, own[schema::SEQUENCE_AXIS] - place.row);
    const int64_t keys = std::min(kernels_.block_keys, own[schema::WIDTH_AXIS] - place.key);
    for (int64_t row = 0; row < rows; ++row) {
        int64_t at = place.batch * strides[schema::BATCH_AXIS] +
                     place.head * strides[schema::HEAD_AXIS] +
                     (place.row + row) * strides[schema::SEQUENCE_AXIS] +
                     place.key * strides[schema::WIDTH_AXIS];
        for (int64_t key = 0; key < keys; ++key, at += strides[schema::WIDTH_AXIS]) {
            const Rows one = {static_cast<char*>(data_) + at * bytes_of(element), 1};
            kernels_.store_gradients(sums + key * kernels_.panel_rows + row, 1, 1.0f, element, 1, 1,
                                     one);
        }
    }
}

}  // namespace raggeddnn::cpu
