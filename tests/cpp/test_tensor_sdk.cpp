// The data SDK as C++ sees it: types, hooks, iterators, templates.
#include <array>
#include <cmath>
#include <cstring>
#include <iterator>
#include <type_traits>
#include <utility>
#include <variant>

#include "raggeddnn/tensor/compare.hpp"
#include "raggeddnn/tensor/random_layout.hpp"
#include "tensor_check.hpp"

using namespace raggeddnn;
using namespace raggeddnn::tensor_check;

namespace {

// dims [2, 4, 2, 3], rows of 6 elements; batches of 3 and 1 rows.
const Numbers DIMS = {2, 4, 2, 3};
const Numbers STRIDES = {24, 6, 3, 1};
const Numbers OFFSETS = {0, 18, 24};
constexpr auto BAD = ErrorCode::INVALID_VALUE;

// What is protected, for the checks.
struct Opened : RaggedTensor<float> {
    using RaggedTensor::RaggedTensor;
    using RaggedTensor::read_offset;
    using RaggedTensor::validate_ragged_offsets;
    using RaggedTensor::validate_ragged_structure;
};

void check_types() {
    static_assert(std::is_base_of_v<ITensor, TensorBase<float>>);
    static_assert(std::is_base_of_v<TensorBase<float>, RaggedTensorBase<float>>);
    static_assert(std::is_base_of_v<RaggedTensorBase<float>, RaggedTensor<float>>);
    static_assert(std::is_base_of_v<RaggedTensorBase<float>, ShallowRaggedTensor<float>>);
    static_assert(std::is_abstract_v<RaggedTensorBase<float>>);
    static_assert(std::is_same_v<PinnedTensor<half>, Tensor<half, PinnedHostAllocator<half>>>);
    static_assert(BSHD_SEQ_AXIS == 1 && BHSD_SEQ_AXIS == 2);
    static_assert(std::forward_iterator<ITensorIterator<true>>);
    static_assert(std::is_same_v<decltype(*std::declval<ITensorIterator<true>>()), const void*>);
    static_assert(std::is_same_v<decltype(*std::declval<ITensorIterator<false>>()), void*>);
    static_assert(std::variant_size_v<ITensorIterator<true>::IndexType> == 3);
    static_assert(!std::is_copy_constructible_v<Tensor<float>>);
}

template <class Tensor>
Numbers visited_offsets(Tensor& tensor) {
    Numbers offsets;
    for (auto it = tensor.begin(); it != tensor.end(); ++it) {
        offsets.push_back(it.offset());
        check_equal(tensor.get_index(it.indices()), it.offset(), "an index and its offset");
        check(*it == tensor.host_data_offset_from_index(it.offset()), "an element's address");
    }
    return offsets;
}

void check_dense() {
    Tensor<float> packed({2, 3});
    check_equal(packed.strides(), Numbers{3, 1}, "strides by default");
    check(packed.is_packed() && packed.has_regular_dims(), "a packed tensor");
    check(std::holds_alternative<LinearIndex>(packed.begin().index()), "packed: LinearIndex");
    check_equal(visited_offsets(packed), Numbers{0, 1, 2, 3, 4, 5}, "packed offsets");
    packed.set_host_value(7, {1, 2});
    check_equal(packed(1, 2), 7.0F, "operator()");
    packed(0, 1) = 5;
    check_equal(std::as_const(packed).get_host_value({0, 1}), 5.0F, "get_host_value");

    Tensor<float> turned({2, 3}, {1, 2});  // packed, yet in another order than dims
    check(turned.is_packed(), "a turned tensor is packed");
    check_equal(visited_offsets(turned), Numbers{0, 2, 4, 1, 3, 5}, "the order of dims");

    Tensor<float> gaps({2, 2}, {4, 1});
    check(!gaps.is_packed() && gaps.element_space() == 6, "gaps");
    check(std::holds_alternative<CompositeIndex>(gaps.begin().index()), "gaps: CompositeIndex");
    check(!gaps.ragged_iteration_info().has_value(), "dense: no ragged info");
    gaps.fill_with_value(3);
    check_equal(static_cast<const float*>(gaps.raw_host_data())[2], 0.0F, "a gap stays as it is");

    Tensor<int8_t> empty({3, 0, 2});
    check(empty.begin() == empty.end() && empty.element_space() == 0, "no elements");
    Tensor<int64_t> scalar(Numbers{});
    check_equal(visited_offsets(scalar), Numbers{0}, "rank 0 is one element");

    check_throws(BAD, "at most 2", [&] { packed.get_index({0, 0, 0}); }, "too long an index");
    check_throws(BAD, "rank 1", [] { Tensor<float>({2, 2}, {1}); }, "ranks that differ");
    check_throws(BAD, "no negative extent", [] { Tensor<float>({-1}, {1}); }, "extent -1");
    check_throws(BAD, "no negative stride", [] { Tensor<float>({2}, {-1}); }, "stride -1");
    const int64_t huge = int64_t(1) << 40;
    check_throws(BAD, "2^63", [&] { Tensor<float>({huge, huge}); }, "too many elements");
    check_throws(BAD, "2^63", [&] { Tensor<float>({2}, {INT64_MAX}); }, "too large a space");
}

void check_ragged_geometry() {
    const auto aux = make_aux<int32_t>(OFFSETS);
    Opened tensor(DIMS, STRIDES, BSHD_SEQ_AXIS, aux);
    check(tensor.dims() == DIMS && tensor.strides() == STRIDES, "dims and strides as given");
    check_equal(tensor.element_count(), 24U, "element_count is the last offset");
    check_equal(tensor.element_space(), 24U, "element_space by default");
    check(!tensor.is_packed() && !tensor.has_regular_dims(), "neither packed nor regular");
    check(tensor.ragged_offset() == aux.get() && aux.use_count() == 2, "the aux is shared");
    check(tensor.ragged_iteration_info() == RaggedIterationInfo{OFFSETS, BSHD_SEQ_AXIS, 6}, "info");
    check_equal(tensor.read_offset(1), 18, "read_offset");
    check_equal(tensor.seq_extent(0), 3, "seq_extent");
    tensor.validate_ragged_structure();
    tensor.validate_ragged_offsets(OFFSETS);
    check_throws(
        BAD, "ragged_offset[0]", [&] { tensor.validate_ragged_offsets({6, 18, 24}); },
        "validate_ragged_offsets");

    const ITensor& erased = tensor;
    check_equal(erased.get_index({}), 0, "an empty index");
    check_equal(erased.get_index({1}), 18, "a bare batch");
    check_equal(erased.get_index({1, 0, 1, 2}), 18 + 5, "through the type-erased base");
    check_throws(BAD, "batch 2", [&] { (void)erased.get_index({2}); }, "a batch that is none");
    check(std::holds_alternative<RaggedCompositeIndex>(erased.begin().index()), "ragged index");
    Numbers expected(24);
    for (size_t i = 0; i < 24; ++i) expected[i] = static_cast<int64_t>(i);
    check_equal(visited_offsets(tensor), expected, "BSHD: memory order");
    check_equal(visited_offsets(std::as_const(tensor)), expected, "const iteration");

    aux->set_host_value(99, {1, 0, 0, 0});
    check_equal(tensor.read_offset(1), 99, "read_offset reads the aux");
    check_equal(erased.get_index({1}), 18, "the layout was read at construction");
}

void check_ragged_variants() {
    // The same memory by dims [B, H, S, D]: the order of dims differs from memory's.
    RaggedTensor<double> turned({2, 2, 4, 3}, {24, 3, 6, 1}, BHSD_SEQ_AXIS,
                                make_aux<int64_t>(OFFSETS));
    const Numbers order = {0, 1,  2,  6,  7,  8,  12, 13, 14, 3,  4,  5,
                           9, 10, 11, 15, 16, 17, 18, 19, 20, 21, 22, 23};
    check_equal(visited_offsets(turned), order, "BHSD: the order of dims");
    check_equal(turned.get_index({1, 1, 0, 0}), 21, "BHSD addressing");

    // Offsets in rows, empty batches at the start, in the middle and at the end, and slack.
    RaggedTensor<float> sparse({5, 2, 1, 2}, {4, 2, 2, 1}, BSHD_SEQ_AXIS,
                               make_aux<int32_t>({0, 0, 2, 2, 3, 3}), 10, 2);
    check_equal(sparse.element_count(), 6U, "a multiplier counts elements");
    check_equal(sparse.element_space(), 10U, "slack");
    check_equal(visited_offsets(sparse), Numbers{0, 1, 2, 3, 4, 5},
                "empty batches are passed over");
    sparse.fill_with_value(1);
    const auto* memory = static_cast<const float*>(std::as_const(sparse).raw_host_data());
    check(memory[5] == 1 && memory[6] == 0, "fill_with_value leaves the slack");
    sparse.fill_with_sentinel_value();
    check(std::isnan(memory[9]), "the sentinel fills the whole memory");

    RaggedTensor<float> none({2, 3, 2}, {6, 2, 1}, BSHD_SEQ_AXIS, make_aux<int64_t>({0, 0, 0}));
    check(none.begin() == none.end() && none.element_space() == 0, "all batches empty");
    RaggedTensor<float> no_batch({0, 3, 2}, {6, 2, 1}, BSHD_SEQ_AXIS, make_aux<int64_t>({0}));
    check(no_batch.begin() == no_batch.end(), "no batch");

    const auto aux = make_aux<int64_t>(OFFSETS);
    RaggedTensor<float> first(DIMS, STRIDES, BSHD_SEQ_AXIS, aux);
    RaggedTensor<half> second(DIMS, STRIDES, BSHD_SEQ_AXIS, aux);
    check(first.ragged_offset() == second.ragged_offset(), "one aux for two tensors");
}

void check_refusals() {
    const auto make = [](Numbers dims, Numbers strides, int axis, std::shared_ptr<ITensor> aux,
                         std::optional<size_t> count = std::nullopt, int64_t multiplier = 1) {
        return [=] { RaggedTensor<float>(dims, strides, axis, aux, count, multiplier); };
    };
    const auto offsets = [&](const Numbers& values) {
        return make(DIMS, STRIDES, 1, make_aux<int32_t>(values));
    };
    const auto good = make_aux<int32_t>(OFFSETS);
    const auto refused = [](const char* text, const std::function<void()>& body) {
        check_throws(BAD, text, body, text);
    };
    refused("padded_dims got []", make({}, {}, 1, good));
    refused("null pointer", make(DIMS, STRIDES, 1, nullptr));
    refused("expected 3", make(DIMS, STRIDES, 1, make_aux<int32_t>({0, 24})));
    refused("rank 4", make(DIMS, STRIDES, 1, std::make_shared<Tensor<int32_t>>(Numbers{3})));
    refused("INT32 or INT64",
            make(DIMS, STRIDES, 1, std::make_shared<Tensor<int8_t>>(Numbers{3, 1, 1, 1})));
    refused("INT32 or INT64",
            make(DIMS, STRIDES, 1, std::make_shared<Tensor<float>>(Numbers{3, 1, 1, 1})));
    refused("packed",
            make(DIMS, STRIDES, 1,
                 std::make_shared<Tensor<int32_t>>(Numbers{3, 1, 1, 1}, Numbers{2, 1, 1, 1})));
    refused("seq_axis got 0", make(DIMS, STRIDES, 0, good));
    refused("seq_axis got 4", make(DIMS, STRIDES, 4, good));
    refused("multiplier got 0", make(DIMS, STRIDES, 1, good, std::nullopt, 0));
    refused("ragged_offset[0] got 6", offsets({6, 18, 24}));
    refused("expected at least 18", offsets({0, 18, 12}));
    refused("whole rows of 6", offsets({0, 7, 12}));
    refused("at most 4", offsets({0, 30, 36}));
    refused("a positive one", make(DIMS, {24, 0, 3, 1}, 1, good));
    refused("at least 24", make(DIMS, STRIDES, 1, good, 23));
    refused("outermost", make({2, 2, 4, 3}, {24, 12, 3, 1}, BHSD_SEQ_AXIS, good));  // heads first
    refused("outermost", make(DIMS, {32, 6, 2, 1}, 1, good));                       // overlap
    refused("2^63", make(DIMS, STRIDES, 1, make_aux<int64_t>(OFFSETS), std::nullopt, INT64_MAX));
    float memory[24] = {};
    refused("expected at least 18", [&] {
        ShallowRaggedTensor<float>(memory, DIMS, STRIDES, 1, make_aux<int32_t>({0, 18, 12}));
    });
}

void check_shallow() {
    std::array<float, 26> memory{};
    const auto aux = make_aux<int64_t>(OFFSETS);
    ShallowRaggedTensor<float> tensor(memory.data(), DIMS, STRIDES, BSHD_SEQ_AXIS, aux, 26);
    check(tensor.raw_host_data() == memory.data(), "the borrowed pointer");
    check_equal(tensor.element_space(), 26U, "a count given");
    tensor.fill_with_value(2);
    check(memory[23] == 2 && memory[24] == 0, "a value fills what is visited");
    tensor.set_host_value(9, {1, 0, 0, 1});
    check_equal(memory[19], 9.0F, "writes go to the caller's memory");
    const auto refused = [](auto& shallow) {
        constexpr auto code = ErrorCode::NOT_SUPPORTED;
        const std::string text = "owns its memory";
        check_throws(code, text, [&] { shallow.raw_device_data(); }, "raw_device_data");
        check_throws(code, text, [&] { shallow.fill_with_random_values(0, 1, 1); }, "random");
        check_throws(code, text, [&] { shallow.fill_with_data(&shallow, 4); }, "data");
        check_throws(code, text, [&] { shallow.fill_from_host(Numbers{1}); }, "from host");
    };
    refused(tensor);
    ShallowTensor<float> dense(memory.data(), {2, 3}, {3, 1});
    refused(dense);
    check_throws(BAD, "null pointer", [] { ShallowTensor<float>(nullptr, {2}, {1}); }, "null");
    ShallowTensor<float> empty(nullptr, {0}, {1});
    check(empty.begin() == empty.end(), "an empty tensor needs no memory");

    std::array<int64_t, 3> offsets = {0, 18, 24};
    const auto erased =
        make_shallow_itensor(DataType::INT64, offsets.data(), {3, 1, 1, 1}, {1, 1, 1, 1});
    check(dynamic_cast<ShallowTensor<int64_t>*>(erased.get()) != nullptr, "make_shallow_itensor");
    RaggedTensor<float> over(DIMS, STRIDES, BSHD_SEQ_AXIS, erased);
    check_equal(over.element_count(), 24U, "an aux over borrowed memory");
    check_throws(
        BAD, "FP4_E2M1", [] { make_shallow_itensor(DataType::FP4_E2M1, nullptr, {1}, {1}); },
        "FP4_E2M1");
}

template <class T>
void check_fills() {
    const std::string type(to_string(DATA_TYPE_OF<T>));
    Tensor<T> a({4, 5});
    Tensor<T> b({4, 5}, {1, 4});
    a.fill_with_random_values(0, 1, 3);
    b.fill_with_random_values(0, 1, 3);
    for (int64_t i = 0; i < 20; ++i) {
        check(a(i / 5, i % 5) == b(i / 5, i % 5), type + ": the seed alone decides");
    }
    a.fill_with_sentinel_value();
    const T sentinel = sentinel_value<T>();
    const uint64_t bits = sentinel_info(DATA_TYPE_OF<T>)->bits;
    check(std::memcmp(&sentinel, &bits, sizeof(T)) == 0, type + ": the table's bits");
    check(std::memcmp(a.raw_host_data(), &bits, sizeof(T)) == 0, type + ": sentinel fill");
    std::vector<T> values(20);
    b.fill_with_data(b.raw_host_data(), 20 * sizeof(T));  // of the very size
    check_throws(BAD, "expected 20", [&] { b.fill_with_data(&bits, sizeof(T)); }, type + " data");
    check_throws(BAD, "in order", [&] { b.fill_with_random_values(1, 0, 1); }, type + " range");
    check_throws(BAD, "in order", [&] { b.fill_with_random_values(0, NAN, 1); }, type + " NaN");
    if constexpr (!IS_REAL<T>) {
        check_throws(BAD, "integers", [&] { b.fill_with_random_values(0, 1e19, 1); }, type);
    }
}

void check_random_integers() {
    Tensor<int64_t> wide({1000});
    wide.fill_with_random_values(-0x1p63, 0x1.fffffffffffffp62, 1);  // far apart: no overflow
    Tensor<int8_t> narrow({1000});
    narrow.fill_with_random_values(-128, 127, 1);
    bool has_least = false;
    for (const void* element : narrow) has_least |= *static_cast<const int8_t*>(element) == -128;
    check(has_least, "the whole range of INT8 occurs");
}

}  // namespace

int main() {
    check_types();
    check_dense();
    check_ragged_geometry();
    check_ragged_variants();
    check_refusals();
    check_shallow();
    check_fills<float>();
    check_fills<double>();
    check_fills<half>();
    check_fills<bfloat16>();
    check_fills<int32_t>();
    check_fills<int64_t>();
    check_fills<int8_t>();
    check_fills<uint8_t>();
    check_fills<bool>();
    check_random_integers();
    return finish();
}
