// The reference engine's forward attention through the plugin C ABI: values against a naive
// evaluation of the contract, and what it leaves alone.
#include <algorithm>

#include "sdpa_fixture.hpp"

namespace {

using namespace check;

double epsilon_of(DataType type) {
    switch (type) {
        case DataType::HALF: return 0x1p-11;
        case DataType::BFLOAT16: return 0x1p-8;
        case DataType::FLOAT: return 0x1p-24;
        default: return 0x1p-53;
    }
}

std::string place(const char* what, int64_t b, int64_t h, int64_t r) {
    return raggeddnn::message(what, " at batch ", b, " head ", h, " row ", r);
}

void compare_row(Problem& p, const std::string& name, int64_t b, int64_t h, int64_t r) {
    const NaiveRow row = naive_row(p, b, h, r);
    long double peak = 0;
    for (const long double x : row.o) peak = std::max(peak, std::fabs(x));
    // Rounding of the result, and of arithmetic in double; the latter is nothing where one key wins
    // by far, as with scores beyond a few thousand it always does here.
    const long double steps = 16 + static_cast<long double>(p.spec.dim) + 4 * row.peak_score;
    const auto bound = static_cast<double>(epsilon_of(p.spec.type) * peak +
                                           std::min(steps * 0x1p-53L, 1e-9L) * row.peak_value);
    for (int64_t c = 0; c < p.spec.value_dim; ++c) {
        const double got = p.memory[O].get(p.at(O, b, h, r, c));
        const auto want = static_cast<double>(row.o[static_cast<size_t>(c)]);
        if (std::fabs(got - want) <= bound) continue;
        expect(false, raggeddnn::message(name, ": ", place("o", b, h, r), " col ", c, ": got ", got,
                                         ", expected ", want));
    }
    const double got = p.memory[STATS].get(p.at(STATS, b, h, r, 0));
    const auto want = static_cast<double>(row.lse);
    const bool same = got == want || std::fabs(got - want) <= 0x1p-23 * std::fabs(want) + 1e-7;
    expect(same, raggeddnn::message(name, ": ", place("lse", b, h, r), ": got ", got, ", expected ",
                                    want));
}

// Elements of o and stats that the contract names hold what the first run wrote, those that it does
// not name what they held before.
void compare_memory(Problem& p, const std::string& name, const Problem& before,
                    const Problem& first) {
    for (const int64_t uid : {O, STATS}) {
        const int64_t width = uid == O ? p.spec.value_dim : 1;
        Array expected = before.memory.at(uid);
        for (int64_t b = 0; b < p.batches(); ++b) {
            for (int64_t h = 0; h < p.spec.heads; ++h) {
                for (int64_t r = 0; r < p.valid_q(b); ++r) {
                    for (int64_t c = 0; c < width; ++c) {
                        const int64_t i = p.at(uid, b, h, r, c);
                        expected.set(i, first.memory.at(uid).get(i));
                    }
                }
            }
        }
        expect(p.memory[uid] == expected,
               raggeddnn::message(name, ": uid ", uid, " has other bits than the first run in ",
                                  "valid rows, or than its pre-fill elsewhere"));
    }
}

void run_case(const Driver& driver, const std::string& name, const Spec& spec) {
    std::optional<Problem> first;
    for (const double prefill : {std::nan(""), 1e30, INF}) {
        Problem p = make_problem(spec, prefill);
        const Problem before = p;
        const auto bytes = pack(p.graph);
        const std::string reason = driver.why_not(bytes);
        expect(reason.empty(), name + ": refused: " + reason);
        const std::string error = driver.run(bytes, p.buffers());
        expect(error.empty(), name + ": " + error);
        if (!error.empty()) return;
        if (!first) {
            first = p;
            for (int64_t b = 0; b < p.batches(); ++b) {
                for (int64_t h = 0; h < spec.heads; ++h) {
                    for (int64_t r = 0; r < p.valid_q(b); ++r) compare_row(p, name, b, h, r);
                }
            }
        }
        compare_memory(p, name, before, *first);
    }
}

void check_values(const Driver& driver) {
    run_case(driver, "empty",
             {.rows_q = {0, 5, 33, 7, 0}, .rows_kv = {4, 0, 20, 7, 0}, .k_heads = 1});
    run_case(driver, "none", {.rows_q = {0, 0}, .rows_kv = {0, 0}});
    run_case(driver, "no batch", {.rows_q = {}, .rows_kv = {}});
    run_case(driver, "dead rows",
             {.rows_q = {40, 9},
              .rows_kv = {7, 9},
              .heads = 4,
              .k_heads = 4,
              .v_heads = 4,
              .dim = 64,
              .right = 0,
              .is_bottom_right = true});
    run_case(driver, "mixed directions",
             {.rows_q = {5, 37, 2}, .rows_kv = {37, 5, 2}, .right = 0, .is_bottom_right = true});
    run_case(driver, "slack",
             {.rows_q = {4, 4, 4},
              .rows_kv = {6, 1, 4},
              .valid_q = {3, 2, 4},
              .valid_kv = {5, 0, 4},
              .right = 0,
              .is_bottom_right = true});
    for (const bool head_major : {false, true}) {
        run_case(driver, "padded",
                 {.rows_q = {9, 70, 3},
                  .rows_kv = {150, 8, 8},
                  .valid_q = {9, 66, 0},
                  .valid_kv = {150, 7, 3},
                  .is_packed = false,
                  .heads = 6,
                  .k_heads = 3,
                  .v_heads = 2,
                  .dim = 5,
                  .value_dim = 7,
                  .is_head_major = head_major});
    }
    const std::pair<int64_t, int64_t> windows[] = {
        {0, 0}, {3, 0}, {4, 2}, {-1, 2}, {100, 100}, {2, INT64_MAX}, {INT64_MAX, 1}};
    for (const auto& [left, right] : windows) {
        for (const bool bottom_right : {false, true}) {
            run_case(driver, raggeddnn::message("window ", left, " ", right),
                     {.rows_q = {10, 30, 6, 130},
                      .rows_kv = {30, 10, 6, 140},
                      .left = left,
                      .right = right,
                      .is_bottom_right = bottom_right});
        }
    }
    for (const float scale : {-1.0f, 0.0f, -0.125f, 30.0f, 1e30f}) {
        run_case(driver, raggeddnn::message("scale ", scale),
                 {.rows_q = {9, 20},
                  .rows_kv = {30, 20},
                  .scale = scale,
                  .right = 0,
                  .is_bottom_right = true,
                  .amplitude = 3.0});
    }
    run_case(driver, "runtime scale",
             {.rows_q = {9}, .rows_kv = {30}, .index_type = DataType::INT64, .scale_tensor = 0.3});
    for (const DataType type : {DataType::FLOAT, DataType::HALF, DataType::BFLOAT16}) {
        for (const int64_t dim : {1, 40, 72, 256}) {
            run_case(driver, raggeddnn::message(to_string(type), " ", dim),
                     {.rows_q = {3, 17},
                      .rows_kv = {40, 66},
                      .heads = 14,
                      .k_heads = 2,
                      .v_heads = 7,
                      .dim = dim,
                      .value_dim = 33,
                      .type = type,
                      .has_bias = true});
        }
    }
}

// Magnitudes whose products leave the range of double.
void check_extremes(const Driver& driver) {
    for (const double amplitude : {1e-200, 1e160, 1e300}) {
        run_case(driver, raggeddnn::message("amplitude ", amplitude),
                 {.rows_q = {6},
                  .rows_kv = {9},
                  .scale_tensor = amplitude > 1 ? 1e-3 : 1e300,
                  .has_bias = true,
                  .amplitude = amplitude});
    }
}

void check_probe(const Driver& driver) {
    Problem p = make_problem({.rows_q = {10, 6}, .rows_kv = {10, 6}, .left = 3, .right = 0}, 0.0);
    for (int64_t i = 0; i < p.memory[Q].count(); ++i) p.memory[Q].set(i, 0.0);
    expect(driver.run(pack(p.graph), p.buffers()).empty(), "probe runs");
    const double got = p.memory[STATS].get(p.at(STATS, 0, 0, 9, 0));
    expect(got == static_cast<double>(static_cast<float>(std::log(4.0))),
           "window (3, 0) sees four");
}

// A column, one row of one head, and NaN behind a bias of -inf.
void check_hidden_by_bias(const Driver& driver) {
    Problem p =
        make_problem({.rows_q = {5, 4}, .rows_kv = {6, 6}, .heads = 4, .has_bias = true}, 1e30);
    Array& bias = p.memory[BIAS];
    const auto dims = by_uid(p.graph, BIAS).dims;
    for (int64_t h = 0; h < 4; ++h) {
        for (int64_t r = 0; r < dims[1]; ++r) bias.set((h * dims[1] + r) * dims[2] + 2, -INF);
    }
    for (int64_t c = 0; c < dims[2]; ++c) bias.set((1 * dims[1] + 3) * dims[2] + c, -INF);
    for (int64_t b = 0; b < 2; ++b) {
        for (int64_t h = 0; h < 2; ++h) {
            for (int64_t c = 0; c < 8; ++c) {
                p.memory[K].set(p.at(K, b, h, 2, c), std::nan(""));
                p.memory[V].set(p.at(V, b, h, 2, c), std::nan(""));
            }
        }
    }
    const std::string error = driver.run(pack(p.graph), p.buffers());
    expect(error.empty(), "bias: " + error);
    for (int64_t b = 0; b < 2; ++b) {
        for (int64_t h = 0; h < 4; ++h) {
            for (int64_t r = 0; r < p.valid_q(b); ++r) compare_row(p, "bias", b, h, r);
        }
    }
    expect(p.memory[STATS].get(p.at(STATS, 0, 1, 3, 0)) == -INF, "a row of -inf bias has LSE -inf");
}

// The same sequence alone and as the second of a batch: same bits.
void check_batch_invariance(const Driver& driver) {
    const Spec both = {.rows_q = {11, 70},
                       .rows_kv = {90, 131},
                       .dim = 40,
                       .value_dim = 24,
                       .type = DataType::FLOAT,
                       .right = 0,
                       .is_bottom_right = true};
    Spec alone = both;
    alone.rows_q = {70};
    alone.rows_kv = {131};
    Problem p = make_problem(both, 0.0);
    Problem one = make_problem(alone, 0.0);
    for (const int64_t uid : {Q, K, V}) {
        const int64_t heads = uid == Q ? both.heads : both.k_heads;
        const int64_t width = uid == V ? both.value_dim : both.dim;
        for (int64_t h = 0; h < heads; ++h) {
            for (int64_t r = 0; r < (uid == Q ? 70 : 131); ++r) {
                for (int64_t c = 0; c < width; ++c) {
                    one.memory[uid].set(one.at(uid, 0, h, r, c),
                                        p.memory[uid].get(p.at(uid, 1, h, r, c)));
                }
            }
        }
    }
    expect(driver.run(pack(p.graph), p.buffers()).empty(), "packed runs");
    expect(driver.run(pack(one.graph), one.buffers()).empty(), "alone runs");
    for (int64_t h = 0; h < both.heads; ++h) {
        for (int64_t r = 0; r < 70; ++r) {
            for (int64_t c = 0; c < both.value_dim; ++c) {
                expect(p.memory[O].get(p.at(O, 1, h, r, c)) ==
                           one.memory[O].get(one.at(O, 0, h, r, c)),
                       place("same bits alone and packed", 1, h, r));
            }
        }
    }
}

// Other ways to write the same graph: deprecated flags, indices of rank 1, no compute type, names
// absent, a probability of 0, a head shared by stride 0.
void check_spellings(const Driver& driver) {
    for (const bool bottom_right : {false, true}) {
        Problem p = make_problem({.rows_q = {5, 9},
                                  .rows_kv = {8, 4},
                                  .valid_q = {4, 9},
                                  .valid_kv = {8, 3},
                                  .type = DataType::FLOAT},
                                 0.0);
        rs::SdpaAttributesT& a = sdpa_of(p.graph);
        (bottom_right ? a.causal_mask_bottom_right : a.causal_mask) = true;
        a.dropout_probability = 0.0f;
        a.left_bound = -1;
        p.spec.right = 0;
        p.spec.is_bottom_right = bottom_right;
        for (const int64_t uid : {CU_Q, CU_KV, LEN_Q, LEN_KV}) {
            by_uid(p.graph, uid).dims.resize(1);
            by_uid(p.graph, uid).strides.resize(1);
        }
        for (auto& t : p.graph.tensors) t->name.clear();
        by_uid(p.graph, K).strides[1] = 0;
        const std::string error = driver.run(pack(p.graph), p.buffers());
        expect(error.empty(), "spelling: " + error);
        for (int64_t b = 0; b < p.batches(); ++b) {
            for (int64_t h = 0; h < p.spec.heads; ++h) {
                for (int64_t r = 0; r < p.valid_q(b); ++r) compare_row(p, "spelling", b, h, r);
            }
        }
    }
}

void check_many(const Driver& driver) {
    const std::vector<int64_t> ones(65537, 1);
    Problem p = make_problem({.rows_q = ones,
                              .rows_kv = ones,
                              .heads = 1,
                              .k_heads = 1,
                              .v_heads = 1,
                              .dim = 4,
                              .value_dim = 4,
                              .type = DataType::FLOAT},
                             0.0);
    expect(driver.run(pack(p.graph), p.buffers()).empty(), "65537 sequences run");
    const int64_t used = 65537 * 4;
    bool same = true;
    for (int64_t i = 0; i < used; ++i) same &= p.memory[O].get(i) == p.memory[V].get(i);
    expect(same, "o equals v for sequences of length 1");
}

}  // namespace

int main() {
    const Driver driver;
    expect(driver.id() == raggeddnn::plugin::engine_id_of("RAGGEDDNN_REFERENCE_ENGINE"),
           "the engine's id is the hash of its name");
    check_values(driver);
    check_extremes(driver);
    check_probe(driver);
    check_hidden_by_bias(driver);
    check_batch_invariance(driver);
    check_spellings(driver);
    check_many(driver);
    if (failures) std::fprintf(stderr, "%d failures\n", failures);
    return failures ? 1 : 0;
}
