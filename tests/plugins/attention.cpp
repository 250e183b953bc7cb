// A small honest provider of forward attention over the public headers, as somebody outside would
// write one: float32 tensors, sums in double, one row at a time. What it does not read it refuses
// by name. Compiled once without a fault, and once per fault that a verification has to find
// (tests/CMakeLists.txt).
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "raggeddnn/plugin/export.hpp"
#include "raggeddnn/plugin/sequences.hpp"
#include "raggeddnn/schema/sdpa_problem.hpp"

#define FAULT_NONE 0
#define FAULT_TOP_LEFT 1       // takes bottom-right for top-left
#define FAULT_READS_SLACK 2    // takes the rows of a block past its length for keys
#define FAULT_NAN_ROWS 3       // NaN where a row sees no key
#define FAULT_WRONG_HEAD 4     // pairs query heads with key heads in turn, not in groups
#define FAULT_IGNORES_SCALE 5  // always 1/sqrt(D)
#define FAULT_WRITES_PAST 6    // one element more than it owns
#define FAULT_OTHER_BITS 7     // in every second run, in the last place of one element
#define FAULT_CRASHES 8        // on bottom-right
#define FAULT_HANGS 9          // on bottom-right
#define FAULT_DIES_LOADING 10

#ifndef FAULT
#define FAULT FAULT_NONE
#endif

namespace {

using namespace raggeddnn;
using namespace raggeddnn::plugin;
using schema::SdpaProblem;
using schema::TensorGeometry;

constexpr double INF = std::numeric_limits<double>::infinity();

// A row that sees no key.
#if FAULT == FAULT_NAN_ROWS
constexpr float DEAD_O = std::numeric_limits<float>::quiet_NaN();
constexpr float DEAD_STATS = DEAD_O;
#else
constexpr float DEAD_O = 0.0f;
constexpr float DEAD_STATS = -std::numeric_limits<float>::infinity();
#endif

#if FAULT == FAULT_DIES_LOADING
__attribute__((constructor)) void die() { std::abort(); }
#endif

std::optional<std::string> unread_of(const SdpaProblem& p) {
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
#if FAULT == FAULT_TOP_LEFT
        p_.is_bottom_right = false;
#elif FAULT == FAULT_IGNORES_SCALE
        p_.scale = 1.0 / std::sqrt(static_cast<double>(p_.head_dim()));
        scale_.reset();
#endif
    }

    void execute(const ExecuteArgs& args) const override {
        // Providers print; whoever runs one has to live with it.
        std::puts("{\"attention provider\": \"execute\"}");
        std::fflush(stdout);
#if FAULT == FAULT_CRASHES
        if (p_.is_bottom_right) std::abort();
#elif FAULT == FAULT_HANGS
        while (p_.is_bottom_right) pause();
#endif
        const Sequences sequences(p_, args.buffers);
        const double scale = scale_ ? scale_->resolve(args.buffers) : p_.scale;
        for (const Sequence& s : sequences) {
            for (int64_t head = 0; head < p_.heads(); ++head) {
                for (int64_t row = 0; row < s.valid_q; ++row) run_row(args, s, head, row, scale);
            }
        }
#if FAULT == FAULT_OTHER_BITS
        static std::atomic<int> runs = 0;
        float* first = memory(args, p_.o);
        if (++runs % 2 == 0 && *first != 0.0f) *first = std::nextafter(*first, 0.0f);
#elif FAULT == FAULT_WRITES_PAST
        if (p_.o.ragged && sequences.size() > 0) {
            const Sequence& last = sequences[sequences.size() - 1];
            const int64_t row_elements = p_.o.strides[schema::SEQUENCE_AXIS];
            memory(args, p_.o)[last.base_o + last.rows_q * row_elements] = 1.0f;
        }
#endif
    }

private:
    static float* memory(const ExecuteArgs& args, const TensorGeometry& t) {
        return static_cast<float*>(args.buffers.find_device_buffer(t.uid, t.label));
    }

    static int64_t place(const TensorGeometry& t, int64_t base, int64_t head, int64_t row) {
        return base + head * t.strides[schema::HEAD_AXIS] + row * t.strides[schema::SEQUENCE_AXIS];
    }

    int64_t head_of(const TensorGeometry& kv, int64_t head) const {
#if FAULT == FAULT_WRONG_HEAD
        return head % kv.heads();
#else
        return head / (p_.heads() / kv.heads());
#endif
    }

    KeyRange keys_of(const Sequence& s, int64_t row) const {
#if FAULT == FAULT_READS_SLACK
        Sequence whole = s;
        whole.valid_kv = s.rows_kv;
        return visible_keys(p_, whole, row);
#else
        return visible_keys(p_, s, row);
#endif
    }

    void run_row(const ExecuteArgs& args, const Sequence& s, int64_t head, int64_t row,
                 double scale) const {
        const KeyRange keys = keys_of(s, row);
        std::vector<double> weights;
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
            o[col * p_.o.strides[schema::WIDTH_AXIS]] =
                sees_key ? static_cast<float>(total / sum) : DEAD_O;
        }
        if (!p_.stats) return;
        memory(args, *p_.stats)[place(*p_.stats, s.base_stats, head, row)] =
            sees_key ? static_cast<float>(highest + std::log(sum)) : DEAD_STATS;
    }

    double dot(const ExecuteArgs& args, const Sequence& s, int64_t head, int64_t row,
               int64_t key) const {
        const float* q = memory(args, p_.q) + place(p_.q, s.base_q, head, row);
        const float* k = memory(args, p_.k) + place(p_.k, s.base_k, head_of(p_.k, head), key);
        double sum = 0.0;
        for (int64_t i = 0; i < p_.head_dim(); ++i) {
            sum += static_cast<double>(q[i * p_.q.strides[schema::WIDTH_AXIS]]) *
                   static_cast<double>(k[i * p_.k.strides[schema::WIDTH_AXIS]]);
        }
        return sum;
    }

    double value(const ExecuteArgs& args, const Sequence& s, int64_t head, int64_t key,
                 int64_t col) const {
        const float* v = memory(args, p_.v) + place(p_.v, s.base_v, head_of(p_.v, head), key);
        return static_cast<double>(v[col * p_.v.strides[schema::WIDTH_AXIS]]);
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

}  // namespace

RAGGEDDNN_ENGINE_PLUGIN("attention", "1.0.0", AttentionEngine)
