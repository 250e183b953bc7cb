// Operands of any rank: tensors in memory, ragged or not, and pass-by-value scalars. Read once and
// checked once, like those of attention (tensor_geometry.hpp), for the other operations.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "raggeddnn/schema/tensor_geometry.hpp"

namespace raggeddnn::schema {

inline constexpr size_t MAX_RANK = 8;

using Dims = std::vector<int64_t>;

struct Operand {
    int64_t uid = 0;
    std::string label;  // role and name
    raggeddnn::DataType type = raggeddnn::DataType::NOT_SET;
    Dims dims;
    Dims strides;            // in elements; of a ragged one, stride 0 means nothing
    bool is_scalar = false;  // by value, in host memory, dims and strides without meaning
    std::optional<RaggedOffsets> ragged;

    size_t rank() const { return dims.size(); }
};

inline bool is_real_type(raggeddnn::DataType type) {
    using raggeddnn::DataType;
    return type == DataType::DOUBLE || type == DataType::FLOAT || type == DataType::HALF ||
           type == DataType::BFLOAT16;
}

inline bool is_integer_type(raggeddnn::DataType type) {
    using raggeddnn::DataType;
    return type == DataType::INT64 || type == DataType::INT32 || type == DataType::INT8 ||
           type == DataType::UINT8 || type == DataType::BOOLEAN;
}

// Reads the operands of one node. `op` opens every message.
class NodeReader {
public:
    NodeReader(const GraphView& graph, std::string_view op) : reader_(graph, op), op_(op) {}

    // A tensor in memory, dense of any rank or ragged [B, H, S, D].
    Operand tensor(std::string_view role, int64_t uid) const {
        const TensorView view = reader_.find(role, uid);
        Operand operand = start(role, view);
        if (view.is_by_value()) {
            refuse(operand.label, " is a pass-by-value scalar, expected a tensor");
        }
        if (view.has_ragged_offset()) {
            const TensorGeometry g = reader_.tensor(role, uid);
            operand.dims.assign(g.dims.begin(), g.dims.end());
            operand.strides.assign(g.strides.begin(), g.strides.end());
            operand.ragged = g.ragged;
            return operand;
        }
        operand.dims = view.dims();
        operand.strides = view.strides();
        check_extent(operand);
        return operand;
    }

    std::optional<Operand> tensor(std::string_view role,
                                  const flatbuffers::Optional<int64_t>& uid) const {
        return uid.has_value() ? std::optional(tensor(role, *uid)) : std::nullopt;
    }

    // The same, but a pass-by-value scalar will do.
    Operand tensor_or_scalar(std::string_view role, int64_t uid) const {
        return reader_.find(role, uid).is_by_value() ? scalar(role, uid) : tensor(role, uid);
    }

    // A number in any of the three by-value states.
    Operand scalar(std::string_view role, int64_t uid) const {
        Operand operand = start(role, reader_.scalar(role, uid));
        operand.is_scalar = true;
        return operand;
    }

    // A scalar that is a real parameter of the operation: epsilon, momentum.
    Operand parameter(std::string_view role, int64_t uid) const {
        reader_.validate_scalar_parameter(role, uid);
        return scalar(role, uid);
    }

    // Views an operand as `target`: right-aligned, broadcast axes and scalars with stride 0.
    void broadcast(Operand& operand, const Dims& target) const {
        Dims dims = operand.is_scalar ? Dims{} : operand.dims;
        Dims strides = operand.is_scalar ? Dims{} : operand.strides;
        bool fits = dims.size() <= target.size();
        if (fits) {
            strides.insert(strides.begin(), target.size() - dims.size(), 0);
            dims.insert(dims.begin(), target.size() - dims.size(), 1);
        }
        for (size_t axis = 0; fits && axis < target.size(); ++axis) {
            fits = dims[axis] == target[axis] || (dims[axis] == 1 && !is_fixed(operand, axis));
            if (dims[axis] != target[axis]) strides[axis] = 0;
        }
        if (!fits) {
            refuse(operand.label, " has dims ", list_of(operand.dims),
                   ", expected to broadcast to ", list_of(target));
        }
        operand.dims = target;
        operand.strides = std::move(strides);
    }

    // Several elements in one place would make the result depend on the order of writing.
    void check_output(const Operand& output, const Dims& dims) const {
        if (output.dims != dims) {
            refuse(output.label, " has dims ", list_of(output.dims), ", expected ", list_of(dims));
        }
        if (std::find(dims.begin(), dims.end(), 0) != dims.end()) return;  // nothing is written
        for (size_t axis = output.ragged ? 1 : 0; axis < dims.size(); ++axis) {
            if (dims[axis] > 1 && output.strides[axis] == 0) {
                refuse(output.label, " has stride 0 over axis ", axis, " of ", dims[axis],
                       ", expected at least 1 for an output");
            }
        }
    }

    // Every output is a tensor of its own.
    void check_distinct(const std::vector<const Operand*>& inputs,
                        const std::vector<const Operand*>& outputs) const {
        for (size_t i = 0; i < outputs.size(); ++i) {
            const auto check = [&](const Operand& other) {
                const bool is_aux = other.ragged && other.ragged->offsets.uid == outputs[i]->uid;
                if (other.uid != outputs[i]->uid && !is_aux) return;
                refuse(outputs[i]->label, " is the same tensor as ",
                       is_aux ? other.ragged->offsets.label : other.label, ", expected its own");
            };
            for (const Operand* input : inputs) check(*input);
            for (size_t j = 0; j < i; ++j) check(*outputs[j]);
        }
    }

    void check_real(const Operand& operand) const {
        if (is_real_type(operand.type)) return;
        refuse(operand.label, " has data type ", to_string(operand.type),
               ", expected DOUBLE, FLOAT, HALF or BFLOAT16");
    }

    void check_dense(const Operand& operand) const {
        if (operand.ragged) refuse(operand.label, " is ragged, expected a dense tensor");
    }

    // An output beside a ragged input has its rows, and so its raggedness.
    void check_raggedness(const Operand& output, const Operand& input) const {
        if (input.ragged && !output.ragged) {
            refuse(output.label, " is dense, expected a ragged tensor as ", input.label,
                   ", whose rows it has (set_ragged_offset; beside strides it is not inferred)");
        }
        if (!input.ragged && output.ragged) {
            refuse(output.label, " is ragged, expected a dense tensor as ", input.label);
        }
    }

    // Dims, raggedness and a real type as x, element beside element.
    void check_like(const Operand& operand, const Operand& x) const {
        check_real(operand);
        if (operand.dims != x.dims) {
            refuse(operand.label, " has dims ", list_of(operand.dims), ", expected ",
                   list_of(x.dims), " as ", x.label);
        }
        check_raggedness(operand, x);
    }

    [[noreturn]] void is_missing(std::string_view role, std::string_view why) const {
        fail(ErrorCode::ATTRIBUTE_NOT_SET, "[", op_, "] ", role, " is not set, expected ", why);
    }

    template <class... Parts>
    [[noreturn]] void refuse(const Parts&... parts) const {
        reader_.refuse(parts...);
    }

    // The attributes of the node, which must be those of the operation.
    template <class Attributes>
    const Attributes& attributes(const Node& node) const {
        const Attributes* table = node.attributes_as<Attributes>();
        if (!table) {
            refuse("node has attributes of type ", EnumNameNodeAttributes(node.attributes_type()),
                   ", expected ",
                   EnumNameNodeAttributes(NodeAttributesTraits<Attributes>::enum_value));
        }
        return *table;
    }

private:
    // Where a ragged operand has its rows it never broadcasts.
    static bool is_fixed(const Operand& operand, size_t axis) {
        return operand.ragged && (axis == BATCH_AXIS || axis == SEQUENCE_AXIS);
    }

    Operand start(std::string_view role, const TensorView& view) const {
        Operand operand;
        operand.uid = view.uid();
        operand.label = OperandReader::label_of(role, view);
        operand.type = view.data_type();
        if (operand.type == raggeddnn::DataType::NOT_SET) {
            fail(ErrorCode::ATTRIBUTE_NOT_SET, "[", op_, "] ", operand.label, " has no data type");
        }
        if (view.alignment() < 1) {
            refuse(operand.label, " has alignment ", view.alignment(), ", expected at least 1");
        }
        return operand;
    }

    void check_extent(const Operand& operand) const {
        const Dims& dims = operand.dims;
        const Dims& strides = operand.strides;
        if (dims.empty() || dims.size() > MAX_RANK) {
            refuse(operand.label, " has rank ", dims.size(), ", expected 1 to ", MAX_RANK);
        }
        if (dims.size() != strides.size()) {
            refuse(operand.label, " has ", strides.size(), " strides, expected ", dims.size(),
                   " as dims");
        }
        int64_t span = 1;   // one past the farthest element
        int64_t count = 1;  // of elements
        bool fits = true;
        for (size_t axis = 0; axis < dims.size(); ++axis) {
            if (dims[axis] < 0 || dims[axis] > MAX_DIM) {
                refuse(operand.label, " has dims ", list_of(dims), ", expected axis ", axis,
                       " to be at least 0 and at most ", MAX_DIM);
            }
            if (strides[axis] < 0) {
                refuse(operand.label, " has strides ", list_of(strides), ", expected none below 0");
            }
            int64_t step = 0;
            fits = fits && !__builtin_mul_overflow(std::max<int64_t>(dims[axis] - 1, 0),
                                                   strides[axis], &step);
            fits = fits && !__builtin_add_overflow(span, step, &span);
            fits = fits && !__builtin_mul_overflow(count, std::max<int64_t>(dims[axis], 1), &count);
        }
        const auto bytes = static_cast<int64_t>((bits_of(operand.type) + 7) / 8);
        if (!fits || __builtin_mul_overflow(span, bytes, &span)) {
            refuse(operand.label, " has dims ", list_of(dims), " and strides ", list_of(strides),
                   ", expected an extent below 2^63 bytes");
        }
    }

    OperandReader reader_;
    std::string_view op_;
};

}  // namespace raggeddnn::schema
