// How an operand of an attention node lies in memory, read from a serialized graph and checked
// once, so that validation and every engine judge by the same rules and in the same words. A graph
// that passed the FlatBuffers verifier may still hold anything: absent vectors, wrong ranks,
// unknown uids, products beyond 64 bits. All of that ends here, in a sentence.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "raggeddnn/base/error.hpp"
#include "raggeddnn/schema/graph_view.hpp"
#include "raggeddnn/tensor/data_type.hpp"

namespace raggeddnn::schema {

using Dims4 = std::array<int64_t, 4>;

// Axes of attention's logical [B, H, S, D].
inline constexpr size_t BATCH_AXIS = 0;
inline constexpr size_t HEAD_AXIS = 1;
inline constexpr size_t SEQUENCE_AXIS = 2;
inline constexpr size_t WIDTH_AXIS = 3;

// Sums of a few dims and bounds below this stay inside 64 bits.
inline constexpr int64_t MAX_DIM = std::numeric_limits<int64_t>::max() / 8;

// `count` integers: offsets or lengths, read at execute.
struct IndexTensor {
    int64_t uid = 0;
    std::string label;
    raggeddnn::DataType type = raggeddnn::DataType::INT32;  // or INT64
    int64_t count = 0;
    int64_t stride = 1;  // between consecutive ones, in elements
    int64_t alignment = 16;
    bool is_virtual = false;
};

// Batch b occupies the elements [offsets[b], offsets[b + 1]) * multiplier.
struct RaggedOffsets {
    IndexTensor offsets;
    int64_t multiplier = 1;
};

// A rank 4 operand. Of a ragged one, stride 0 means nothing: the offsets say where a batch begins.
struct TensorGeometry {
    int64_t uid = 0;
    std::string label;  // role and name, as messages say it: "k 'keys'"
    raggeddnn::DataType type = raggeddnn::DataType::NOT_SET;
    Dims4 dims{};
    Dims4 strides{};  // in elements
    int64_t alignment = 16;
    bool is_virtual = false;
    std::optional<RaggedOffsets> ragged;

    int64_t batches() const { return dims[BATCH_AXIS]; }
    int64_t heads() const { return dims[HEAD_AXIS]; }
    int64_t max_rows() const { return dims[SEQUENCE_AXIS]; }
    int64_t width() const { return dims[WIDTH_AXIS]; }
};

template <class Container>
std::string list_of(const Container& values) {
    std::string text = "[";
    for (const int64_t value : values) {
        if (text.size() > 1) text += ", ";
        text += std::to_string(value);
    }
    return text + "]";
}

// Reads the operands of one node. `op` opens every message.
class OperandReader {
public:
    OperandReader(const GraphView& graph, std::string_view op) : graph_(graph), op_(op) {}

    // A dense or ragged operand of rank 4.
    TensorGeometry tensor(std::string_view role, int64_t uid) const {
        const TensorView view = find(role, uid);
        TensorGeometry g = start(role, view);
        copy4(g, view.dims(), view.strides());
        if (view.has_ragged_offset()) read_ragged(g, role, view);
        check_extent(g);
        return g;
    }

    std::optional<TensorGeometry> tensor(std::string_view role,
                                         const flatbuffers::Optional<int64_t>& uid) const {
        return uid.has_value() ? std::optional(tensor(role, *uid)) : std::nullopt;
    }

    // An operand of rank 1 to 4, right-aligned to `target`; broadcast axes get stride 0.
    TensorGeometry broadcast(std::string_view role, int64_t uid, const Dims4& target) const {
        const TensorView view = find(role, uid);
        TensorGeometry g = start(role, view);
        if (view.has_ragged_offset()) refuse(g.label, " is ragged, expected a dense tensor");
        std::vector<int64_t> dims = view.dims();
        std::vector<int64_t> strides = view.strides();
        if (dims.empty() || dims.size() > 4) {
            refuse(g.label, " has rank ", dims.size(), ", expected 1 to 4");
        }
        check_stride_count(g, dims, strides);
        dims.insert(dims.begin(), 4 - dims.size(), 1);
        strides.insert(strides.begin(), 4 - strides.size(), 0);
        copy4(g, dims, strides);
        for (size_t axis = 0; axis < 4; ++axis) {
            if (g.dims[axis] != 1 && g.dims[axis] != target[axis]) {
                refuse(g.label, " has dims ", list_of(view.dims()), ", expected to broadcast to ",
                       list_of(target));
            }
            if (g.dims[axis] == 1) g.strides[axis] = 0;
        }
        g.dims = target;
        check_extent(g);
        return g;
    }

    // `count` INT32 or INT64 numbers, [count, 1, 1, 1] or [count].
    IndexTensor index_tensor(std::string_view role, int64_t uid, int64_t count) const {
        const TensorView view = find(role, uid);
        const TensorGeometry g = start(role, view);
        if (view.has_ragged_offset()) refuse(g.label, " is ragged, expected a dense tensor");
        if (g.type != raggeddnn::DataType::INT32 && g.type != raggeddnn::DataType::INT64) {
            refuse(g.label, " has data type ", to_string(g.type), ", expected INT32 or INT64");
        }
        const std::vector<int64_t> dims = view.dims();
        const std::vector<int64_t> strides = view.strides();
        const std::vector<int64_t> expected = {count, 1, 1, 1};
        if (dims != expected && dims != std::vector<int64_t>{count}) {
            refuse(g.label, " has dims ", list_of(dims), ", expected ", list_of(expected));
        }
        check_stride_count(g, dims, strides);
        TensorGeometry extent = g;
        extent.dims = {count, 1, 1, 1};
        extent.strides = {strides[0], 1, 1, 1};
        check_extent(extent);
        return {g.uid, g.label, g.type, count, strides[0], g.alignment, g.is_virtual};
    }

    // One number in any of the three by-value states, whatever its type.
    TensorView scalar(std::string_view role, int64_t uid) const {
        const TensorView view = find(role, uid);
        const std::string label = label_of(role, view);
        if (!view.is_by_value()) {
            refuse(label, " is a tensor in device memory, expected a pass-by-value scalar");
        }
        const std::vector<int64_t> dims = view.dims();
        if (std::any_of(dims.begin(), dims.end(), [](int64_t dim) { return dim != 1; })) {
            refuse(label, " has dims ", list_of(dims), ", expected one element");
        }
        return view;
    }

    // A scalar that is a real parameter of the operation: scale, epsilon, momentum.
    TensorView validate_scalar_parameter(std::string_view role, int64_t uid) const {
        using raggeddnn::DataType;
        const TensorView view = scalar(role, uid);
        for (const DataType type : {DataType::DOUBLE, DataType::FLOAT, DataType::HALF,
                                    DataType::BFLOAT16, DataType::INT32, DataType::INT64}) {
            if (view.data_type() == type) return view;
        }
        refuse(label_of(role, view), " has data type ", to_string(view.data_type()),
               ", expected DOUBLE, FLOAT, HALF, BFLOAT16, INT32 or INT64");
    }

    // Which tensor a role names. Slots that are not nullable read 0 when nothing was stored.
    TensorView find(std::string_view role, int64_t uid) const {
        if (const auto view = graph_.find(uid)) return *view;
        if (uid == 0) {
            fail(ErrorCode::ATTRIBUTE_NOT_SET, "[", op_, "] ", role,
                 " is not set, expected the uid of a tensor");
        }
        refuse(role, " is uid ", uid, ", which no tensor of the graph has");
    }

    template <class... Parts>
    [[noreturn]] void refuse(const Parts&... parts) const {
        invalid("[", op_, "] ", parts...);
    }

    template <class... Parts>
    [[noreturn]] void refuse_unset(const Parts&... parts) const {
        fail(ErrorCode::ATTRIBUTE_NOT_SET, "[", op_, "] ", parts...);
    }

    static std::string label_of(std::string_view role, const TensorView& view) {
        std::string label(role);
        if (!view.name().empty()) label.append(" '").append(view.name()).append("'");
        return label;
    }

private:
    TensorGeometry start(std::string_view role, const TensorView& view) const {
        TensorGeometry g;
        g.uid = view.uid();
        g.label = label_of(role, view);
        g.type = view.data_type();
        g.alignment = view.alignment();
        g.is_virtual = view.is_virtual();
        if (view.is_by_value()) refuse(g.label, " is a pass-by-value scalar, expected a tensor");
        if (g.type == raggeddnn::DataType::NOT_SET) {
            fail(ErrorCode::ATTRIBUTE_NOT_SET, "[", op_, "] ", g.label, " has no data type");
        }
        if (g.alignment < 1) {
            refuse(g.label, " has alignment ", g.alignment, ", expected at least 1");
        }
        return g;
    }

    void check_stride_count(const TensorGeometry& g, const std::vector<int64_t>& dims,
                            const std::vector<int64_t>& strides) const {
        if (dims.size() != strides.size()) {
            refuse(g.label, " has ", strides.size(), " strides, expected ", dims.size(),
                   " as dims");
        }
    }

    void copy4(TensorGeometry& g, const std::vector<int64_t>& dims,
               const std::vector<int64_t>& strides) const {
        if (dims.size() != 4) {
            refuse(g.label, " has rank ", dims.size(), ", expected 4: [B, H, S, D]");
        }
        check_stride_count(g, dims, strides);
        std::copy(dims.begin(), dims.end(), g.dims.begin());
        std::copy(strides.begin(), strides.end(), g.strides.begin());
    }

    void read_ragged(TensorGeometry& g, std::string_view role, const TensorView& view) const {
        const int64_t multiplier = view.ragged_offset_multiplier();
        if (multiplier < 1) {
            refuse(g.label, " has ragged offset multiplier ", multiplier, ", expected at least 1");
        }
        if (g.dims[BATCH_AXIS] < 0 || g.dims[BATCH_AXIS] > MAX_DIM) return;  // check_extent says so
        const std::string aux_role = "ragged offset of " + std::string(role);
        g.ragged = RaggedOffsets{
            index_tensor(aux_role, *view.ragged_offset_uid(), g.dims[BATCH_AXIS] + 1), multiplier};
    }

    // Dims, strides, and the farthest element: within 64 bits, counted in bytes.
    void check_extent(const TensorGeometry& g) const {
        for (size_t axis = 0; axis < 4; ++axis) {
            const bool may_be_empty = axis == BATCH_AXIS || axis == SEQUENCE_AXIS;
            const int64_t least = may_be_empty ? 0 : 1;
            if (g.dims[axis] < least || g.dims[axis] > MAX_DIM) {
                refuse(g.label, " has dims ", list_of(g.dims), ", expected axis ", axis,
                       " to be at least ", least, " and at most ", MAX_DIM);
            }
            if (g.strides[axis] < 0) {
                refuse(g.label, " has strides ", list_of(g.strides), ", expected none below 0");
            }
        }
        int64_t elements = 0;
        const bool fits = add_span(g, g.ragged ? HEAD_AXIS : BATCH_AXIS, 4, elements);
        const int64_t bytes = static_cast<int64_t>((bits_of(g.type) + 7) / 8);
        if (!fits || __builtin_mul_overflow(elements, bytes, &elements)) {
            refuse(g.label, " has dims ", list_of(g.dims), " and strides ", list_of(g.strides),
                   ", expected an extent below 2^63 bytes");
        }
        if (g.ragged) check_token_major(g);
    }

    // A batch is one run of tokens, so that an offset and a count of rows describe it: a row may
    // not reach into the next one.
    void check_token_major(const TensorGeometry& g) const {
        Dims4 token = g.dims;
        token[SEQUENCE_AXIS] = 1;
        TensorGeometry one = g;
        one.dims = token;
        int64_t span = 0;
        add_span(one, HEAD_AXIS, 4, span);
        if (g.strides[SEQUENCE_AXIS] < span) {
            refuse(g.label, " is ragged and has sequence stride ", g.strides[SEQUENCE_AXIS],
                   ", expected at least ", span, ", the span of one row over heads and width");
        }
    }

    // elements = 1 + the sum of (dim - 1) * stride over the axes; false beyond 64 bits.
    static bool add_span(const TensorGeometry& g, size_t first, size_t last, int64_t& elements) {
        elements = 1;
        for (size_t axis = first; axis < last; ++axis) {
            if (g.dims[axis] <= 1) continue;
            int64_t step = 0;
            if (__builtin_mul_overflow(g.dims[axis] - 1, g.strides[axis], &step)) return false;
            if (__builtin_add_overflow(elements, step, &elements)) return false;
        }
        return true;
    }

    const GraphView& graph_;
    std::string_view op_;
};

}  // namespace raggeddnn::schema
