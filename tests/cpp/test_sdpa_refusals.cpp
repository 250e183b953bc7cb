// What the reference engine refuses, in which words: graphs at build, offsets and lengths at
// execute, hostile bytes at any time. Most of it is what reading a forward attention node refuses
// for all.
#include <algorithm>

#include "sdpa_fixture.hpp"

namespace {

using namespace check;

using Change = std::function<void(Problem&)>;

void expect_text(const std::string& text, const std::string& part, const std::string& what) {
    expect(text.find(part) != std::string::npos,
           what + ": got \"" + text + "\", expected to contain \"" + part + "\"");
}

void expect_refusal(const Driver& driver, const Change& change, const std::string& part) {
    Problem p = make_problem({.rows_q = {5, 3}, .rows_kv = {4, 6}}, 0.0);
    change(p);
    expect_text(driver.why_not(pack(p.graph)), part, "refusal");
}

rs::TensorAttributesT& add_extra(Problem& p, DataType type, std::vector<int64_t> dims) {
    std::vector<int64_t> strides(dims.size(), 1);
    p.graph.tensors.push_back(tensor(EXTRA, "extra", type, std::move(dims), std::move(strides)));
    return *p.graph.tensors.back();
}

void check_shape_refusals(const Driver& d) {
    const auto t = [](Problem& p, int64_t uid) -> rs::TensorAttributesT& {
        return by_uid(p.graph, uid);
    };
    const std::pair<Change, const char*> cases[] = {
        {[&](Problem& p) { t(p, K).dims[3] = 4; },
         "[sdpa] k 'keys' has head_dim 4, expected 8 as q 'query'"},
        {[&](Problem& p) { t(p, V).dims[2] = 5; }, "v 'values' has sequence length 5, expected 6"},
        {[&](Problem& p) { t(p, Q).dims.clear(); }, "q 'query' has rank 0, expected 4"},
        {[&](Problem& p) { t(p, Q).strides = {1}; }, "q 'query' has 1 strides, expected 4"},
        {[&](Problem& p) {
             t(p, K).dims[1] = 3;
             t(p, K).strides[2] = 24;
         },
         "k 'keys' has 3 heads, expected a divisor of"},
        {[&](Problem& p) { t(p, K).dims[1] = 0; }, "expected axis 1 to be at least 1"},
        {[&](Problem& p) { t(p, K).dims[0] = -1; }, "expected axis 0 to be at least 0"},
        {[&](Problem& p) { t(p, K).strides[1] = -8; }, "expected none below 0"},
        {[&](Problem& p) { t(p, Q).strides[2] = 15; },
         "q 'query' is ragged and has sequence stride 15, expected at least 16"},
        {[&](Problem& p) { t(p, Q).strides[2] = INT64_MAX; }, "expected an extent below 2^63"},
        {[&](Problem& p) {
             t(p, O).dims[3] = 9;
             t(p, O).strides[2] = 18;
         },
         "o 'out' has dims [2, 2, 5, 9], expected"},
        {[&](Problem& p) { t(p, O).strides[3] = 0; }, "o 'out' has stride 0 over axis 3 of 8"},
        {[&](Problem& p) { t(p, STATS).data_type = rs::DataType::HALF; },
         "stats 'lse' has data type HALF, expected FLOAT or DOUBLE"},
        {[&](Problem& p) { t(p, CU_Q).dims[0] = 2; },
         "ragged offset of q 'cu_q' has dims [2, 1, 1, 1], expected [3, 1, 1, 1]"},
        {[&](Problem& p) { t(p, CU_Q).data_type = rs::DataType::FLOAT; },
         "has data type FLOAT, expected INT32 or INT64"},
        {[&](Problem& p) { t(p, Q).ragged_offset_multiplier = 0; },
         "multiplier 0, expected at least 1"},
        {[&](Problem& p) { t(p, Q).ragged_offset_tensor_uid = 77; },
         "ragged offset of q is uid 77, which no tensor"},
        {[&](Problem& p) { t(p, Q).data_type = rs::DataType::FP8_E4M3; },
         "q 'query' has data type FP8_E4M3, expected DOUBLE, FLOAT, HALF or BFLOAT16"},
        {[&](Problem& p) { t(p, Q).data_type = rs::DataType::UNSET; },
         "q 'query' has no data type"},
        {[&](Problem& p) { t(p, Q).virtual_ = true; },
         "tensor 'query' (uid 1) is virtual and no node writes it"},
        {[&](Problem& p) { t(p, Q).is_runtime_pass_by_value = true; }, "expected a tensor"},
        {[&](Problem& p) { t(p, Q).alignment = 0; }, "has alignment 0, expected at least 1"},
    };
    for (const auto& [change, part] : cases) expect_refusal(d, change, part);
}

void check_attribute_refusals(const Driver& d) {
    const auto a = [](Problem& p) -> rs::SdpaAttributesT& { return sdpa_of(p.graph); };
    const std::pair<Change, const char*> cases[] = {
        {[&](Problem& p) { a(p).q_tensor_uid = 0; }, "q is not set"},
        {[&](Problem& p) { a(p).q_tensor_uid = 99; }, "q is uid 99, which no tensor"},
        {[&](Problem& p) { a(p).o_tensor_uid = Q; }, "is the same tensor as q"},
        {[&](Problem& p) { a(p).generate_stats = false; }, "generate_stats is false"},
        {[&](Problem& p) { a(p).stats_tensor_uid.reset(); }, "generate_stats is true"},
        {[&](Problem& p) { a(p).padding_mask = true; }, "padding_mask is true"},
        {[&](Problem& p) { a(p).seq_len_q_tensor_uid = CU_Q; }, "seq_len_kv is not, expected both"},
        {[&](Problem& p) { a(p).causal_mask = a(p).causal_mask_bottom_right = true; }, "both true"},
        {[&](Problem& p) {
             a(p).causal_mask = true;
             a(p).right_bound = 2;
         },
         "causal_mask is true and right_bound is 2"},
        {[&](Problem& p) {
             a(p).causal_mask = true;
             a(p).diagonal_alignment = rs::DiagonalAlignment::BOTTOM_RIGHT;
         },
         "diagonal_alignment is BOTTOM_RIGHT"},
        {[&](Problem& p) { a(p).diagonal_alignment = static_cast<rs::DiagonalAlignment>(7); },
         "diagonal_alignment is 7"},
        {[&](Problem& p) { a(p).alibi_mask = true; }, "alibi_mask is set"},
        {[&](Problem& p) { a(p).dropout_probability = 0.5f; }, "dropout_probability is set"},
        {[&](Problem& p) { a(p).dropout_probability = 1.0f; },
         "dropout_probability is 1, expected"},
        {[&](Problem& p) { a(p).dropout_mask_tensor_uid = Q; }, "dropout_mask is set"},
        {[&](Problem& p) { a(p).dropout_scale_tensor_uid = Q; }, "dropout_scale is set"},
        {[&](Problem& p) { a(p).seed_tensor_uid = CU_Q; }, "seed is set"},
        {[&](Problem& p) { a(p).offset_tensor_uid = CU_Q; }, "offset is set"},
        {[&](Problem& p) { a(p).sink_token_tensor_uid = Q; }, "sink_token is set"},
        {[&](Problem& p) { a(p).mma_core_mode = rs::DataType::HALF; }, "mma_core_mode is set"},
    };
    for (const auto& [change, part] : cases) expect_refusal(d, change, part);
}

void check_scalar_refusals(const Driver& d) {
    const auto a = [](Problem& p) -> rs::SdpaAttributesT& { return sdpa_of(p.graph); };
    const std::pair<Change, const char*> cases[] = {
        {[&](Problem& p) {
             add_extra(p, DataType::FLOAT, {2, 1, 5, 4});
             a(p).attn_mask_tensor_uid = EXTRA;
         },
         "bias 'extra' has dims [2, 1, 5, 4], expected to broadcast to [2, 2, 5, 6]"},
        {[&](Problem& p) {
             add_extra(p, DataType::FLOAT, {1, 1, 1, 1, 6});
             a(p).attn_mask_tensor_uid = EXTRA;
         },
         "bias 'extra' has rank 5"},
        {[&](Problem& p) {
             add_extra(p, DataType::FLOAT, {1});
             a(p).scale_tensor_uid = EXTRA;
         },
         "expected a pass-by-value scalar"},
        {[&](Problem& p) {
             add_extra(p, DataType::FLOAT, {2}).is_runtime_pass_by_value = true;
             a(p).scale_tensor_uid = EXTRA;
         },
         "has dims [2], expected one element"},
        {[&](Problem& p) {
             add_extra(p, DataType::FLOAT, {1}).is_runtime_pass_by_value = true;
             a(p).scale_tensor_uid = EXTRA;
             a(p).attn_scale_value = 1.0f;
         },
         "is set as well"},
    };
    for (const auto& [change, part] : cases) expect_refusal(d, change, part);
}

void check_graph_refusals(const Driver& d) {
    const std::pair<Change, const char*> cases[] = {
        {[&](Problem& p) { p.graph.is_runtime_default_override_enabled = true; },
         "overriding runtime"},
        {[&](Problem& p) { p.graph.compute_data_type = rs::DataType::HALF; },
         "compute data type of node 0 is HALF, expected FLOAT or DOUBLE"},
        {[&](Problem& p) {
             p.graph.nodes.push_back(std::make_unique<rs::NodeT>());
             p.graph.nodes.back()->attributes.Set(rs::CustomOpAttributesT{});
         },
         "node 1 is CustomOpAttributes"},
        {[&](Problem& p) { p.graph.nodes.clear(); }, "graph has no nodes, expected at least 1"},
    };
    for (const auto& [change, part] : cases) expect_refusal(d, change, part);
}

void expect_error(const Driver& driver, const Spec& spec, const Change& change,
                  const std::string& part) {
    Problem p = make_problem(spec, 1e30);
    change(p);
    const Problem before = p;
    expect_text(driver.run(pack(p.graph), p.buffers()), part, "error at execute");
    expect(p.memory[O] == before.memory.at(O) && p.memory[STATS] == before.memory.at(STATS),
           "nothing is written before an error: " + part);
}

void check_execute_errors(const Driver& driver) {
    const auto cu = [](std::vector<double> values) {
        return [values](Problem& p) {
            for (size_t i = 0; i < values.size(); ++i) {
                p.memory[CU_Q].set(static_cast<int64_t>(i), values[i]);
            }
        };
    };
    const Spec spec = {.rows_q = {12, 3, 5}, .rows_kv = {4, 4, 4}, .index_type = DataType::INT64};
    expect_error(driver, spec, cu({1, 7, 12, 20}), "'cu_q': index 0 is 1, expected 0");
    expect_error(driver, spec, cu({0, 12, 8, 16}),
                 "'cu_q': index 2 is 8, expected at least 12, the offset before");
    expect_error(driver, spec, cu({0, 7, 20, 21}), "of 13 rows of q 'query', expected at most 12");
    expect_error(driver, spec, cu({0, 4e18, 4e18, 4e18}),
                 "index 1 is 4000000000000000000, expected at most");
    expect_error(
        driver, spec, [](Problem& p) { by_uid(p.graph, Q).ragged_offset_multiplier = 3; },
        "ends a block of 36 elements of q 'query', expected a whole number of rows of 16");
    expect_error(
        driver, spec, [](Problem& p) { by_uid(p.graph, V).ragged_offset_multiplier = 32; },
        "'cu_kv': index 1");
    expect_error(
        driver, spec,
        [](Problem& p) {
            p.graph.tensors.push_back(tensor(EXTRA, "cu_o", DataType::INT64, {4}, {1}));
            by_uid(p.graph, O).ragged_offset_tensor_uid = EXTRA;
            p.memory[EXTRA] = Array(DataType::INT64, 4, 0);
            for (int64_t i = 1; i < 4; ++i) p.memory[EXTRA].set(i, 2.0 * static_cast<double>(i));
        },
        "'cu_o': index 1 ends a block of 2 rows, expected 12");
    Spec padded = spec;
    padded.valid_q = {12, 3, 5};
    padded.valid_kv = {4, 4, 4};
    expect_error(
        driver, padded, [](Problem& p) { p.memory[LEN_Q].set(1, 4); },
        "seq_len_q 'len_q': index 1 is 4, expected 0 to 3");
    expect_error(
        driver, padded, [](Problem& p) { p.memory[LEN_KV].set(2, -1); },
        "seq_len_kv 'len_kv': index 2 is -1, expected 0 to 4");
    expect_error(
        driver, spec, [](Problem& p) { p.memory.erase(K); }, "no pointer for k 'keys' (uid 2)");
}

// Flipped bytes: any answer but a crash. What the reading of a graph does with hostile numbers
// shows under the sanitizers.
void check_hostile(const Driver& driver) {
    Spec spec = {.rows_q = {5, 3}, .rows_kv = {4, 6}, .valid_q = {5, 2}, .valid_kv = {1, 6}};
    spec.has_bias = true;
    spec.scale_tensor = 1.0;
    Problem p = make_problem(spec, 0.0);
    const auto bytes = pack(p.graph);
    std::mt19937 random(3);
    for (int round = 0; round < 5000; ++round) {
        auto bad = bytes;
        for (int i = 0; i < 1 + round % 3; ++i) {
            bad[random() % bad.size()] = static_cast<uint8_t>(random() % 3 ? random() : 0xff);
        }
        (void)driver.why_not(bad);
    }
    for (size_t size = 0; size < bytes.size(); size += 7) {
        (void)driver.why_not({bytes.begin(), bytes.begin() + static_cast<int64_t>(size)});
    }
}

}  // namespace

int main() {
    const Driver driver;
    check_shape_refusals(driver);
    check_attribute_refusals(driver);
    check_scalar_refusals(driver);
    check_graph_refusals(driver);
    check_execute_errors(driver);
    check_hostile(driver);
    if (failures) std::fprintf(stderr, "%d failures\n", failures);
    return failures ? 1 : 0;
}
