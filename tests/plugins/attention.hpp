// A small honest provider of forward attention over the public headers, as somebody outside would
// write one: float32 tensors, sums in double, one row at a time. What it does not read it refuses
// by name. What is virtual here is what attention_faults.cpp gets wrong.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "raggeddnn/plugin/export.hpp"
#include "raggeddnn/plugin/sequences.hpp"
#include "raggeddnn/schema/sdpa_problem.hpp"

namespace attention {

using namespace raggeddnn;
using namespace raggeddnn::plugin;
using schema::SdpaProblem;
using schema::TensorGeometry;

constexpr double INF = std::numeric_limits<double>::infinity();

inline std::optional<std::string> unread_of(const SdpaProblem& p) {
    if (const auto name = p.first_unread(false)) return "attribute " + *name + " is set";
    if (p.dropout) return "attribute dropout_probability is set";
    if (p.bias) return "attribute bias is set";
    for (const TensorGeometry* t : {&p.q, &p.k, &p.v, &p.o, p.stats ? &*p.stats : nullptr}) {
        if (t && t->type != DataType::FLOAT) {
            return message(t->label, " has data type ", to_string(t->type), ", expected FLOAT");
        }
        if (t && t->is_virtual) return t->label + " is virtual, expected a tensor in memory";
    }
    return std::nullopt;
}

class AttentionPlan : public Plan {
public:
    explicit AttentionPlan(const GraphView& graph)
        : p_(schema::read_sdpa_problem(graph, graph.node(0))) {
        if (p_.scale_uid) scale_ = ScalarOperand::make(graph.tensor(*p_.scale_uid));
    }

    void execute(const ExecuteArgs& args) const override {
        // Providers print; whoever runs one has to live with it.
        std::puts("{\"attention provider\": \"execute\"}");
        std::fflush(stdout);
        run(args, Sequences(p_, args.buffers));
    }

protected:
    virtual void run(const ExecuteArgs& args, const Sequences& sequences) const {
        const double scale = scale_of(args);
        for (const Sequence& s : sequences) {
            for (int64_t head = 0; head < p_.heads(); ++head) {
                for (int64_t row = 0; row < s.valid_q; ++row) run_row(args, s, head, row, scale);
            }
        }
    }

    virtual double scale_of(const ExecuteArgs& args) const {
        return scale_ ? scale_->resolve(args.buffers) : p_.scale;
    }
    virtual float* memory(const ExecuteArgs& args, const TensorGeometry& t) const {
        return static_cast<float*>(args.buffers.find_device_buffer(t.uid, t.label));
    }
    virtual int64_t head_of(const TensorGeometry& kv, int64_t head) const {
        return head / (p_.heads() / kv.heads());
    }
    virtual KeyRange keys_of(const Sequence& s, int64_t row) const {
        return visible_keys(p_, s, row);
    }
    virtual int64_t width_stride(const TensorGeometry& t) const {
        return t.strides[schema::WIDTH_AXIS];
    }
    // Where a sequence of Q, and one of the stats, begins.
    virtual int64_t base_of_q(const Sequence& s) const { return s.base_q; }
    virtual int64_t base_of_stats(const Sequence& s) const { return s.base_stats; }
    // The dimension of a head that comes i-th in the sum of a score.
    virtual int64_t summand(const Sequence&, int64_t i) const { return i; }
    // A row that sees no key.
    virtual float dead_o() const { return 0.0F; }
    virtual float dead_stats() const { return -std::numeric_limits<float>::infinity(); }

    static int64_t place(const TensorGeometry& t, int64_t base, int64_t head, int64_t row) {
        return base + head * t.strides[schema::HEAD_AXIS] + row * t.strides[schema::SEQUENCE_AXIS];
    }

    void run_row(const ExecuteArgs& args, const Sequence& s, int64_t head, int64_t row,
                 double scale) const {
        const KeyRange keys = keys_of(s, row);
        std::vector<double> weights;  // scores, then probabilities times their sum
        double highest = -INF;
        for (int64_t key = keys.begin; key < keys.end; ++key) {
            weights.push_back(scale * dot(args, s, head, row, key));
            highest = std::max(highest, weights.back());
        }
        double sum = 0.0;
        for (double& weight : weights) sum += weight = std::exp(weight - highest);
        const bool sees_key = !weights.empty();
        float* o = memory(args, p_.o) + place(p_.o, s.base_o, head, row);
        for (int64_t col = 0; col < p_.value_dim(); ++col) {
            double total = 0.0;
            for (size_t i = 0; i < weights.size(); ++i) {
                const int64_t key = keys.begin + static_cast<int64_t>(i);
                total += weights[i] * value(args, s, head, key, col);
            }
            o[col * width_stride(p_.o)] = sees_key ? static_cast<float>(total / sum) : dead_o();
        }
        if (!p_.stats) return;
        memory(args, *p_.stats)[place(*p_.stats, base_of_stats(s), head, row)] =
            sees_key ? static_cast<float>(highest + std::log(sum)) : dead_stats();
    }

    double dot(const ExecuteArgs& args, const Sequence& s, int64_t head, int64_t row,
               int64_t key) const {
        const float* q = memory(args, p_.q) + place(p_.q, base_of_q(s), head, row);
        const float* k = memory(args, p_.k) + place(p_.k, s.base_k, head_of(p_.k, head), key);
        double sum = 0.0;
        for (int64_t i = 0; i < p_.head_dim(); ++i) {
            const int64_t dim = summand(s, i);
            sum += static_cast<double>(q[dim * width_stride(p_.q)]) *
                   static_cast<double>(k[dim * width_stride(p_.k)]);
        }
        return sum;
    }

    double value(const ExecuteArgs& args, const Sequence& s, int64_t head, int64_t key,
                 int64_t col) const {
        const float* v = memory(args, p_.v) + place(p_.v, s.base_v, head_of(p_.v, head), key);
        return static_cast<double>(v[col * width_stride(p_.v)]);
    }

    SdpaProblem p_;
    std::optional<ScalarOperand> scale_;
};

class AttentionEngine : public Engine {
public:
    const char* name() const override { return "ATTENTION_ENGINE"; }
    int32_t priority() const override { return -1000; }

    std::optional<std::string> why_not(const GraphView& graph) const override {
        if (graph.node_count() != 1) {
            return "graph has " + std::to_string(graph.node_count()) + " nodes, expected 1";
        }
        const auto type = graph.node(0).attributes_type();
        if (type != schema::NodeAttributes::SdpaAttributes) {
            return std::string("node is ") + schema::EnumNameNodeAttributes(type) +
                   ", expected SdpaAttributes";
        }
        if (graph.table().is_override_shape_enabled()) return "shapes are overridable";
        if (graph.table().is_runtime_default_override_enabled()) {
            return "runtime defaults are overridable";
        }
        try {
            return unread_of(schema::read_sdpa_problem(graph, graph.node(0)));
        } catch (const Exception& e) {
            return e.what();
        }
    }

    std::unique_ptr<Plan> build(const GraphView& graph, const EngineConfig&) const override {
        return std::make_unique<AttentionPlan>(graph);
    }
};

}  // namespace attention
