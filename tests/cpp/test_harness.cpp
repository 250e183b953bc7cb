// The verification harness and the tensors that it makes: the reference engine is judged by itself.
#include <cmath>

#include "raggeddnn/graph/graph.hpp"
#include "raggeddnn/plugin/tensor_factory.hpp"
#include "raggeddnn/testing/harness.hpp"
#include "tensor_check.hpp"

using namespace raggeddnn;
using namespace raggeddnn::tensor_check;
using testing::HarnessOptions;
using testing::IntegrationGraphVerificationHarness;
using testing::PreSuppliedInputs;

namespace {

constexpr int64_t X = 1, OFFSETS = 2, WEIGHT = 3, EPSILON = 4, Y = 5, SCALED = 6;
const Numbers DIMS{2, 2, 3, 4};      // [B, H, S, D]
const Numbers STRIDES{24, 4, 8, 1};  // rows outermost in a batch
const Numbers ELEMENTS{0, 16, 24};   // two rows, one row

// y = rmsnorm(2 * x, weight, epsilon), x ragged, what lies between virtual, epsilon runtime.
std::vector<uint8_t> make_graph() {
    Graph graph;
    graph.set_io_data_type(DataType::FLOAT).set_intermediate_data_type(DataType::FLOAT);
    graph.set_compute_data_type(DataType::FLOAT);
    TensorAttributes offsets;
    offsets.set_uid(OFFSETS).set_name("offsets").set_data_type(DataType::INT64);
    const TensorPtr aux = graph.tensor(offsets.set_dim({3, 1, 1, 1}).set_stride({1, 1, 1, 1}));
    TensorAttributes rows;
    rows.set_uid(X).set_name("x").set_dim(DIMS).set_stride(STRIDES).set_ragged_offset(aux);
    TensorAttributes weight;
    weight.set_uid(WEIGHT).set_name("weight").set_dim({1, 1, 1, 4}).set_stride({4, 4, 4, 1});
    TensorAttributes epsilon;
    epsilon.set_uid(EPSILON).set_name("epsilon").set_data_type(DataType::FLOAT);
    epsilon.set_dim({1}).set_stride({1}).set_as_runtime_parameter();
    const TensorPtr scaled =
        graph.pointwise(graph.tensor(rows), graph.tensor(TensorAttributes(2.0f)),
                        PointwiseAttributes().set_mode(PointwiseMode::MUL));
    scaled->set_uid(SCALED).set_name("scaled");
    const auto y = graph.rmsnorm(scaled, graph.tensor(weight),
                                 RMSNormAttributes().set_epsilon(graph.tensor(epsilon)));
    y[0]->set_uid(Y).set_name("y").set_output(true);
    return graph.serialize();
}

PreSuppliedInputs supplied() { return {{OFFSETS, make_aux<int64_t>(ELEMENTS)}}; }

HarnessOptions options(float epsilon = 0.5F) {
    HarnessOptions made;
    made.engine = "reference";
    made.scalars = {{EPSILON, epsilon}};
    return made;
}

void check_a_run(const std::vector<uint8_t>& graph) {
    const auto inputs = supplied();
    HarnessOptions asked = options();
    asked.guard_elements = 5;
    IntegrationGraphVerificationHarness harness(graph, inputs, asked);
    const testing::VerificationReport report = harness.verify_graph();
    check(report.passed(), report.to_string());
    check_equal(report.outputs.size(), 1U, "outputs");
    check_equal(report.outputs[0].comparison.compared, 24U, "elements compared");

    // One tensor for what was supplied, two with the same values for the rest.
    const auto engine = harness.engine_bundle();
    const auto reference = harness.reference_bundle();
    check(engine.at(OFFSETS) == inputs.at(OFFSETS) && reference.at(OFFSETS) == inputs.at(OFFSETS),
          "both paths hold the supplied tensor");
    check(engine.at(X) != reference.at(X), "each path has its own x");
    check(all_close_skip_sentinel(*reference.at(X), *engine.at(X), Tolerance{}).passed(),
          "both paths have the same x");
    check(!engine.contains(SCALED) && !engine.contains(EPSILON),
          "neither virtual tensors nor scalars are allocated");
    check_equal(engine.at(X)->element_space(), 24U, "x has as many elements as the last offset");
    check_equal(engine.at(Y)->element_space(), 24U, "so has y");
    check_equal(engine.memory_of(Y).memory->element_space(), 64U + 24U + 5U,
                "between guards, the first a multiple of 64");
    check(dynamic_cast<RaggedTensorBase<float>*>(engine.at(Y).get()) != nullptr, "y is ragged");

    // The host scalar is what was computed with.
    const auto& x = dynamic_cast<const RaggedTensor<float>&>(*engine.at(X));
    const auto& y = dynamic_cast<const RaggedTensorBase<float>&>(*engine.at(Y));
    const auto& weight = dynamic_cast<const Tensor<float>&>(*engine.at(WEIGHT));
    double squares = 0;
    for (int64_t i = 0; i < 4; ++i) squares += std::pow(2.0 * x(1, 0, 0, i), 2) / 4;
    for (int64_t i = 0; i < 4; ++i) {
        const double expected = 2.0 * x(1, 0, 0, i) / std::sqrt(squares + 0.5) * weight(0, 0, 0, i);
        check(std::fabs(y(1, 0, 0, i) - expected) <= 4e-7 * (1 + std::fabs(expected)),
              message("y got ", y(1, 0, 0, i), ", expected ", expected));
    }
}

void check_further_calls(const std::vector<uint8_t>& graph) {
    IntegrationGraphVerificationHarness harness(graph, supplied(), options());
    check(harness.verify_graph().passed(), "the first call");
    const void* before = harness.engine_bundle().at(Y)->raw_host_data();
    harness.change_inputs({{OFFSETS, make_aux<int64_t>({0, 8, 16})}}, {{EPSILON, 2.0F}});
    check(harness.engine_bundle().at(Y)->raw_host_data() != before, "other memory");
    const testing::VerificationReport report = harness.verify_graph();
    check(report.passed(), report.to_string());
    check_equal(report.outputs[0].comparison.compared, 16U, "elements compared with other offsets");
    check(harness.verify_concurrently(3).passed(), "three threads at once");
    check_equal(report.faults().size(), 0U, "faults");
}

void check_setup(const std::vector<uint8_t>& graph) {
    const auto refuse = [&](const std::string& words, PreSuppliedInputs inputs,
                            HarnessOptions asked) {
        try {
            IntegrationGraphVerificationHarness(graph, std::move(inputs), std::move(asked));
            check(false, "was set up, expected: " + words);
        } catch (const Exception& e) {
            check(e.code() == ErrorCode::INVALID_VALUE &&
                      std::string(e.what()).find(words) != std::string::npos,
                  message("got ", e.what(), ", expected ", words));
        }
    };
    refuse("'offsets' (uid 2), the ragged offset of tensor 'x' (uid 1), was not supplied", {},
           options());
    refuse("was supplied as a null pointer", {{OFFSETS, nullptr}}, options());
    auto inputs = supplied();
    inputs[77] = inputs.at(OFFSETS);
    refuse("uid 77 was supplied, but is no tensor", inputs, options());
    inputs = supplied();
    inputs[SCALED] = std::make_shared<Tensor<float>>(DIMS);
    refuse("is virtual, expected an input", inputs, options());
    inputs = supplied();
    inputs[Y] = std::make_shared<Tensor<float>>(DIMS);
    refuse("is an output", inputs, options());
    inputs = supplied();
    inputs[WEIGHT] = std::make_shared<Tensor<double>>(Numbers{1, 1, 1, 4});
    refuse("with data type DOUBLE, expected FLOAT", inputs, options());
    inputs[WEIGHT] = std::make_shared<Tensor<float>>(Numbers{1, 1, 1, 3});
    refuse("was supplied with dims [1, 1, 1, 3]", inputs, options());
    inputs = supplied();
    inputs[X] = std::make_shared<Tensor<float>>(DIMS, STRIDES);
    refuse("was supplied dense, expected ragged with offsets [0, 16, 24]", inputs, options());
    refuse("batch 0 got 13 elements, expected whole rows",
           {{OFFSETS, make_aux<int64_t>({0, 13, 24})}}, options());
    HarnessOptions asked = options();
    asked.scalars.clear();
    refuse("'epsilon' (uid 4) is a runtime scalar without a default", supplied(), asked);
    asked.scalars = {{EPSILON, 0.5}};
    refuse("got a value of type DOUBLE, expected FLOAT", supplied(), asked);
    asked = options();
    asked.engine.clear();
    refuse("engine got '', expected the name of an engine", supplied(), asked);
    asked = options();
    asked.guard_elements = SIZE_MAX;
    refuse("guard_elements got 18446744073709551615, expected at most", supplied(), asked);
    asked = options();
    asked.scalars[WEIGHT] = 1.0F;
    refuse("is no runtime scalar", supplied(), asked);
}

// 4.10.1: one factory for dense and ragged attributes, and the pass over virtual tensors.
void check_factory(const std::vector<uint8_t>& bytes) {
    const schema::GraphView graph(bytes.data(), bytes.size());
    const auto dense = plugin::create_tensor_from_attribute(graph.tensor(WEIGHT), {}, graph);
    check(dynamic_cast<Tensor<float>*>(dense.get()) != nullptr, "a dense attribute: Tensor<float>");
    check_equal(dense->dims(), Numbers{1, 1, 1, 4}, "its dims");

    std::vector<int64_t> offsets = ELEMENTS;
    plugin::VariantPack pack{{OFFSETS, offsets.data()}};
    const auto ragged = plugin::create_tensor_from_attribute(graph.tensor(X), pack, graph);
    check(dynamic_cast<RaggedTensor<float>*>(ragged.get()) != nullptr, "ragged: RaggedTensor");
    check_equal(ragged->element_space(), 24U, "sized by the last offset");

    check_throws(
        ErrorCode::INVALID_VALUE, "tensor 'x' (uid 1): variant pack: no pointer",
        [&] {
            try {
                plugin::create_tensor_from_attribute(graph.tensor(X), {}, graph);
            } catch (const Exception& e) {
                throw Exception(e.code(), std::string(e.what()) + " got none");
            }
        },
        "no offsets in the pack");

    float taken = 0;
    const auto made = plugin::populate_variant_pack_with_missing_virtual_tensors(graph, pack);
    check_equal(made.size(), 1U, "one virtual tensor was missing");
    check(pack.at(SCALED) == made[0]->raw_host_data(), "the pack holds its memory");
    check(detail::same_bits(static_cast<float*>(pack.at(SCALED))[23], sentinel_value<float>()),
          "filled with the sentinel");
    offsets = {0, 8, 8};
    plugin::VariantPack smaller{{OFFSETS, offsets.data()}};
    const auto again = plugin::populate_variant_pack_with_missing_virtual_tensors(graph, smaller);
    check_equal(again[0]->element_space(), 8U, "sizes are read anew");
    plugin::VariantPack given{{OFFSETS, offsets.data()}, {SCALED, &taken}};
    check(plugin::populate_variant_pack_with_missing_virtual_tensors(graph, given).empty() &&
              given.at(SCALED) == &taken,
          "what the pack has is left alone");
}

}  // namespace

int main() {
    const std::vector<uint8_t> graph = make_graph();
    check_a_run(graph);
    check_further_calls(graph);
    check_setup(graph);
    check_factory(graph);
    return finish();
}
