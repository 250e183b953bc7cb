#include "sdpa_fixture.hpp"

#include <algorithm>

namespace check {
namespace {

constexpr int64_t TAIL_ROWS = 3;  // of the buffer, past the last offset

void add_operand(Problem& p, int64_t uid, const char* name, int64_t heads, int64_t width) {
    const Spec& s = p.spec;
    const auto& rows = p.is_query_side(uid) ? s.rows_q : s.rows_kv;
    int64_t longest = 0;
    int64_t total = 0;
    for (const int64_t n : rows) {
        longest = std::max(longest, n);
        total += n;
    }
    std::vector<int64_t> strides = {longest * heads * width, width, heads * width, 1};
    if (s.is_head_major) strides = {longest * heads * width, longest * width, width, 1};
    const DataType type = uid == STATS ? DataType::FLOAT : s.type;
    auto t = tensor(uid, name, type, {p.batches(), heads, longest, width}, strides);
    if (s.is_packed) {
        t->ragged_offset_tensor_uid = p.is_query_side(uid) ? CU_Q : CU_KV;
        t->ragged_offset_multiplier = heads * width;
    }
    p.graph.tensors.push_back(std::move(t));
    const int64_t room = s.is_packed ? total : p.batches() * longest;
    p.memory[uid] = Array(type, (room + TAIL_ROWS) * heads * width, 0.0);
}

void add_indices(Problem& p, int64_t uid, const char* name, const std::vector<int64_t>& values) {
    const auto count = static_cast<int64_t>(values.size());
    p.graph.tensors.push_back(tensor(uid, name, p.spec.index_type, {count, 1, 1, 1}, {1, 1, 1, 1}));
    Array array(p.spec.index_type, count, 0);
    for (int64_t i = 0; i < count; ++i) {
        array.set(i, static_cast<double>(values[static_cast<size_t>(i)]));
    }
    p.memory[uid] = std::move(array);
}

std::vector<int64_t> prefix_sums(const std::vector<int64_t>& rows) {
    std::vector<int64_t> sums = {0};
    for (const int64_t n : rows) sums.push_back(sums.back() + n);
    return sums;
}

void fill_valid(Problem& p, int64_t uid, int64_t heads, int64_t width, std::mt19937& random) {
    std::normal_distribution<double> normal(0.0, p.spec.amplitude);
    const bool is_q = p.is_query_side(uid);
    for (int64_t b = 0; b < p.batches(); ++b) {
        const int64_t rows = is_q ? p.valid_q(b) : p.valid_kv(b);
        for (int64_t h = 0; h < heads; ++h) {
            for (int64_t r = 0; r < rows; ++r) {
                for (int64_t c = 0; c < width; ++c) {
                    p.memory[uid].set(p.at(uid, b, h, r, c), normal(random));
                }
            }
        }
    }
}

void add_options(Problem& p, rs::SdpaAttributesT& a, std::mt19937& random) {
    const Spec& s = p.spec;
    if (s.has_bias) {
        const int64_t rows = by_uid(p.graph, Q).dims[2];
        const int64_t keys = by_uid(p.graph, K).dims[2];
        a.attn_mask_tensor_uid = BIAS;
        p.graph.tensors.push_back(
            tensor(BIAS, "bias", s.type, {s.heads, rows, keys}, {rows * keys, keys, 1}));
        p.memory[BIAS] = Array(s.type, s.heads * rows * keys, 0.0);
        std::normal_distribution<double> normal;
        for (int64_t i = 0; i < s.heads * rows * keys; ++i) p.memory[BIAS].set(i, normal(random));
    }
    if (s.scale) a.attn_scale_value = *s.scale;
    if (s.scale_tensor) {
        a.scale_tensor_uid = SCALE;
        p.graph.tensors.push_back(tensor(SCALE, "scale", DataType::DOUBLE, {1}, {1}));
        p.graph.tensors.back()->is_runtime_pass_by_value = true;
        p.memory[SCALE] = Array(DataType::DOUBLE, 1, *s.scale_tensor);
    }
    if (s.left) a.left_bound = *s.left;
    if (s.right) a.right_bound = *s.right;
    if (s.is_bottom_right) a.diagonal_alignment = rs::DiagonalAlignment::BOTTOM_RIGHT;
}

}  // namespace

// Everything that the contract does not call valid holds `prefill`.
Problem make_problem(const Spec& spec, double prefill, uint32_t seed) {
    Problem p;
    p.spec = spec;
    p.starts_q = prefix_sums(spec.rows_q);
    p.starts_kv = prefix_sums(spec.rows_kv);
    rs::SdpaAttributesT a;
    a.q_tensor_uid = Q;
    a.k_tensor_uid = K;
    a.v_tensor_uid = V;
    a.o_tensor_uid = O;
    a.stats_tensor_uid = STATS;
    a.generate_stats = true;
    add_operand(p, Q, "query", spec.heads, spec.dim);
    add_operand(p, K, "keys", spec.k_heads, spec.dim);
    add_operand(p, V, "values", spec.v_heads, spec.value_dim);
    add_operand(p, O, "out", spec.heads, spec.value_dim);
    add_operand(p, STATS, "lse", spec.heads, 1);
    for (auto& [uid, array] : p.memory) {
        for (int64_t i = 0; i < array.count(); ++i) array.set(i, prefill);
    }
    if (spec.is_packed) {
        add_indices(p, CU_Q, "cu_q", p.starts_q);
        add_indices(p, CU_KV, "cu_kv", p.starts_kv);
    }
    if (!spec.valid_q.empty()) {
        add_indices(p, LEN_Q, "len_q", spec.valid_q);
        add_indices(p, LEN_KV, "len_kv", spec.valid_kv);
        a.seq_len_q_tensor_uid = LEN_Q;
        a.seq_len_kv_tensor_uid = LEN_KV;
        a.padding_mask = true;
    }
    std::mt19937 random(seed);
    fill_valid(p, Q, spec.heads, spec.dim, random);
    fill_valid(p, K, spec.k_heads, spec.dim, random);
    fill_valid(p, V, spec.v_heads, spec.value_dim, random);
    add_options(p, a, random);
    auto node = std::make_unique<rs::NodeT>();
    node->attributes.Set(std::move(a));
    p.graph.nodes.push_back(std::move(node));
    return p;
}

NaiveRow naive_row(Problem& p, int64_t b, int64_t h, int64_t r) {
    const Spec& s = p.spec;
    const long double scale = s.scale_tensor ? static_cast<long double>(*s.scale_tensor)
                              : s.scale      ? static_cast<long double>(*s.scale)
                                             : 1.0L / std::sqrt(static_cast<long double>(s.dim));
    const int64_t diagonal = r + (s.is_bottom_right ? p.valid_kv(b) - p.valid_q(b) : 0);
    NaiveRow row;
    row.o.assign(static_cast<size_t>(s.value_dim), 0.0L);
    std::vector<std::pair<int64_t, long double>> scores;
    for (int64_t c = 0; c < p.valid_kv(b); ++c) {
        if (s.right && *s.right >= 0 && c - diagonal > *s.right) continue;
        if (s.left && *s.left >= 0 && diagonal - c > *s.left) continue;
        long double score = 0;
        for (int64_t d = 0; d < s.dim; ++d) {
            score += static_cast<long double>(p.memory[Q].get(p.at(Q, b, h, r, d))) *
                     p.memory[K].get(p.at(K, b, h / (s.heads / s.k_heads), c, d));
        }
        score *= scale;
        if (s.has_bias) {
            const auto& dims = by_uid(p.graph, BIAS).dims;
            const double bias = p.memory[BIAS].get((h * dims[1] + r) * dims[2] + c);
            if (bias == -INF) continue;
            score += bias;
        }
        scores.emplace_back(c, score);
        row.peak_score = std::max(row.peak_score, std::fabs(score));
    }
    if (scores.empty()) return row;
    long double highest = scores[0].second;
    for (const auto& [c, score] : scores) highest = std::max(highest, score);
    long double sum = 0;
    for (const auto& [c, score] : scores) sum += std::exp(score - highest);
    for (const auto& [c, score] : scores) {
        for (int64_t d = 0; d < s.value_dim; ++d) {
            const long double value = p.memory[V].get(p.at(V, b, h / (s.heads / s.v_heads), c, d));
            row.o[static_cast<size_t>(d)] += std::exp(score - highest) / sum * value;
            row.peak_value = std::max(row.peak_value, std::fabs(value));
        }
    }
    row.lse = highest + std::log(sum);
    return row;
}

}  // namespace check
