// The provider of attention.hpp with one fault in each of its engines, which a verification has to
// find.
#include <unistd.h>

#include <atomic>
#include <cfenv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <unordered_map>

#include "attention.hpp"

namespace attention {

// ---- wrong results ----

// Takes bottom-right for top-left.
struct TopLeft : AttentionPlan {
    static constexpr const char* NAME = "TOP_LEFT";
    explicit TopLeft(const GraphView& graph) : AttentionPlan(graph) { p_.is_bottom_right = false; }
};

// Takes the rows of a block past its length for keys.
struct ReadsSlack : AttentionPlan {
    static constexpr const char* NAME = "READS_SLACK";
    using AttentionPlan::AttentionPlan;
    KeyRange keys_of(const Sequence& s, int64_t row) const override {
        Sequence whole = s;
        whole.valid_kv = s.rows_kv;
        return visible_keys(p_, whole, row);
    }
};

// NaN where a row sees no key.
struct NanRows : AttentionPlan {
    static constexpr const char* NAME = "NAN_ROWS";
    using AttentionPlan::AttentionPlan;
    float dead_o() const override { return std::numeric_limits<float>::quiet_NaN(); }
    float dead_stats() const override { return dead_o(); }
};

// Pairs query heads with key heads in turn, not in groups.
struct WrongHead : AttentionPlan {
    static constexpr const char* NAME = "WRONG_HEAD";
    using AttentionPlan::AttentionPlan;
    int64_t head_of(const TensorGeometry& kv, int64_t head) const override {
        return head % kv.heads();
    }
};

// Always 1/sqrt(D).
struct IgnoresScale : AttentionPlan {
    static constexpr const char* NAME = "IGNORES_SCALE";
    using AttentionPlan::AttentionPlan;
    double scale_of(const ExecuteArgs&) const override {
        return 1.0 / std::sqrt(static_cast<double>(p_.head_dim()));
    }
};

// Sees at most 512 keys.
struct FewKeys : AttentionPlan {
    static constexpr const char* NAME = "FEW_KEYS";
    using AttentionPlan::AttentionPlan;
    KeyRange keys_of(const Sequence& s, int64_t row) const override {
        KeyRange keys = visible_keys(p_, s, row);
        keys.end = std::min<int64_t>(keys.end, keys.begin + 512);
        return keys;
    }
};

// Takes offsets and lengths for contiguous.
struct TightIndices : AttentionPlan {
    static constexpr const char* NAME = "TIGHT_INDICES";
    explicit TightIndices(const GraphView& graph) : AttentionPlan(graph) {
        for (auto* lengths : {&p_.seq_len_q, &p_.seq_len_kv}) {
            if (*lengths) (*lengths)->stride = 1;
        }
        for (TensorGeometry* t : {&p_.q, &p_.k, &p_.v, &p_.o, p_.stats ? &*p_.stats : &p_.o}) {
            if (t->ragged) t->ragged->offsets.stride = 1;
        }
    }
};

// Takes the width for the innermost axis.
struct TightWidth : AttentionPlan {
    static constexpr const char* NAME = "TIGHT_WIDTH";
    using AttentionPlan::AttentionPlan;
    int64_t width_stride(const TensorGeometry&) const override { return 1; }
};

// Looks for the queries where ragged results lie.
struct QueriesByResults : AttentionPlan {
    static constexpr const char* NAME = "QUERIES_BY_RESULTS";
    using AttentionPlan::AttentionPlan;
    int64_t base_of_q(const Sequence& s) const override {
        return p_.o.ragged ? s.base_o / p_.value_dim() * p_.head_dim() : s.base_q;
    }
};

// Places dense stats as packed ones.
struct PacksStats : AttentionPlan {
    static constexpr const char* NAME = "PACKS_STATS";
    using AttentionPlan::AttentionPlan;
    int64_t base_of_stats(const Sequence& s) const override { return s.base_o / p_.value_dim(); }
};

// ---- memory of others ----

// Runs, and then writes where nothing belongs to it.
struct Trespasser : AttentionPlan {
    using AttentionPlan::AttentionPlan;
    void run(const ExecuteArgs& args, const Sequences& sequences) const override {
        AttentionPlan::run(args, sequences);
        if (sequences.size() > 0) trespass(args, sequences);
    }
    virtual void trespass(const ExecuteArgs& args, const Sequences& sequences) const = 0;
    void write_past(const ExecuteArgs& args, const Sequence& last) const {
        memory(args, p_.o)[last.base_o + last.rows_q * p_.o.strides[schema::SEQUENCE_AXIS]] = 1.0F;
    }
};

// One element past a ragged O.
struct WritesPast : Trespasser {
    static constexpr const char* NAME = "WRITES_PAST";
    using Trespasser::Trespasser;
    void trespass(const ExecuteArgs& args, const Sequences& sequences) const override {
        if (p_.o.ragged) write_past(args, sequences[sequences.size() - 1]);
    }
};

// The same, but only the first time.
struct WritesPastOnce : Trespasser {
    static constexpr const char* NAME = "WRITES_PAST_ONCE";
    using Trespasser::Trespasser;
    void trespass(const ExecuteArgs& args, const Sequences& sequences) const override {
        if (p_.o.ragged && runs_++ == 0) write_past(args, sequences[sequences.size() - 1]);
    }
    mutable std::atomic<int> runs_ = 0;
};

// One element past a dense O.
struct WritesPastDense : Trespasser {
    static constexpr const char* NAME = "WRITES_PAST_DENSE";
    using Trespasser::Trespasser;
    void trespass(const ExecuteArgs& args, const Sequences&) const override {
        if (p_.o.ragged) return;
        int64_t last = 0;
        for (size_t axis = 0; axis < 4; ++axis) last += (p_.o.dims[axis] - 1) * p_.o.strides[axis];
        memory(args, p_.o)[last + 1] = 1.0F;
    }
};

// One element before a ragged O.
struct WritesBefore : Trespasser {
    static constexpr const char* NAME = "WRITES_BEFORE";
    using Trespasser::Trespasser;
    void trespass(const ExecuteArgs& args, const Sequences&) const override {
        if (p_.o.ragged) memory(args, p_.o)[-1] = 1.0F;
    }
};

// Zeroes the slack of its keys, the second time to no effect.
struct ClearsSlack : Trespasser {
    static constexpr const char* NAME = "CLEARS_SLACK";
    using Trespasser::Trespasser;
    void trespass(const ExecuteArgs& args, const Sequences& sequences) const override {
        for (const Sequence& s : sequences) {
            for (int64_t row = s.valid_kv; row < s.rows_kv; ++row) {
                memory(args, p_.k)[place(p_.k, s.base_k, 0, row)] = 0.0F;
            }
        }
    }
};

// Writes one byte past its workspace, of bottom-right.
struct OverrunsWorkspace : AttentionPlan {
    static constexpr const char* NAME = "OVERRUNS_WORKSPACE";
    static constexpr size_t BYTES = 100;
    using AttentionPlan::AttentionPlan;
    size_t workspace_size() const override { return BYTES; }
    void run(const ExecuteArgs& args, const Sequences& sequences) const override {
        AttentionPlan::run(args, sequences);
        if (p_.is_bottom_right) static_cast<char*>(args.workspace)[BYTES] = 1;
    }
};

// ---- state ----

// Keeps the addresses of its first execute.
struct KeepsAddresses : AttentionPlan {
    static constexpr const char* NAME = "KEEPS_ADDRESSES";
    using AttentionPlan::AttentionPlan;
    float* memory(const ExecuteArgs& args, const TensorGeometry& t) const override {
        const std::lock_guard lock(mutex_);
        return kept_.try_emplace(t.uid, AttentionPlan::memory(args, t)).first->second;
    }
    mutable std::mutex mutex_;
    mutable std::unordered_map<int64_t, float*> kept_;
};

// Reads offsets and lengths at its first execute only.
struct KeepsOffsets : AttentionPlan {
    static constexpr const char* NAME = "KEEPS_OFFSETS";
    using AttentionPlan::AttentionPlan;
    void run(const ExecuteArgs& args, const Sequences& sequences) const override {
        std::call_once(once_, [&] { kept_.emplace(sequences); });
        AttentionPlan::run(args, *kept_);
    }
    mutable std::once_flag once_;
    mutable std::optional<Sequences> kept_;
};

// Reads the scale at its first execute only.
struct KeepsScale : AttentionPlan {
    static constexpr const char* NAME = "KEEPS_SCALE";
    using AttentionPlan::AttentionPlan;
    double scale_of(const ExecuteArgs& args) const override {
        std::call_once(once_, [&] { kept_ = AttentionPlan::scale_of(args); });
        return kept_;
    }
    mutable std::once_flag once_;
    mutable double kept_ = 0.0;
};

// Other bits in every second run, in the last place of one element.
struct OtherBits : AttentionPlan {
    static constexpr const char* NAME = "OTHER_BITS";
    using AttentionPlan::AttentionPlan;
    void run(const ExecuteArgs& args, const Sequences& sequences) const override {
        AttentionPlan::run(args, sequences);
        float* first = memory(args, p_.o);
        if (++runs_ % 2 == 0 && *first != 0.0F) *first = std::nextafter(*first, 0.0F);
    }
    mutable std::atomic<int> runs_ = 0;
};

// Sums in an order that depends on where the sequence lies.
struct SumsByPosition : AttentionPlan {
    static constexpr const char* NAME = "SUMS_BY_POSITION";
    using AttentionPlan::AttentionPlan;
    int64_t summand(const Sequence& s, int64_t i) const override {
        return (i + s.base_q / 7) % p_.head_dim();
    }
};

// Has scratch that all executes share, as far as it shows in a result: another scale while a second
// one runs.
struct SharesScratch : AttentionPlan {
    static constexpr const char* NAME = "SHARES_SCRATCH";
    using AttentionPlan::AttentionPlan;
    double scale_of(const ExecuteArgs& args) const override {
        const bool is_alone = running_++ == 0;
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        const double scale = AttentionPlan::scale_of(args);
        --running_;
        return is_alone ? scale : scale + 1.0;
    }
    mutable std::atomic<int> running_ = 0;
};

// ---- manners ----

// Accepts bottom-right, and refuses it when it is to run.
struct RefusesLate : AttentionPlan {
    static constexpr const char* NAME = "REFUSES_LATE";
    using AttentionPlan::AttentionPlan;
    void run(const ExecuteArgs& args, const Sequences& sequences) const override {
        if (p_.is_bottom_right) fail(ErrorCode::NOT_SUPPORTED, "not today");
        AttentionPlan::run(args, sequences);
    }
};

// Leaves the processor rounding downwards.
struct LeavesRounding : AttentionPlan {
    static constexpr const char* NAME = "LEAVES_ROUNDING";
    using AttentionPlan::AttentionPlan;
    void run(const ExecuteArgs& args, const Sequences& sequences) const override {
        AttentionPlan::run(args, sequences);
        if (p_.is_bottom_right) std::fesetround(FE_DOWNWARD);
    }
};

// Writes to every file that the process has open, on bottom-right, what looks like a result.
struct ForgesResults : AttentionPlan {
    static constexpr const char* NAME = "FORGES_RESULTS";
    using AttentionPlan::AttentionPlan;
    void run(const ExecuteArgs& args, const Sequences& sequences) const override {
        const char* result = "{\"kind\": \"passed\", \"detail\": \"\"}\n\xff";
        for (int file = 3; p_.is_bottom_right && file < 20; ++file) {
            if (write(file, result, std::strlen(result)) < 0) continue;
        }
        AttentionPlan::run(args, sequences);
    }
};

// Aborts on bottom-right.
struct Crashes : AttentionPlan {
    static constexpr const char* NAME = "CRASHES";
    using AttentionPlan::AttentionPlan;
    void run(const ExecuteArgs& args, const Sequences& sequences) const override {
        if (p_.is_bottom_right) std::abort();
        AttentionPlan::run(args, sequences);
    }
};

// Does not come back on bottom-right.
struct Hangs : AttentionPlan {
    static constexpr const char* NAME = "HANGS";
    using AttentionPlan::AttentionPlan;
    void run(const ExecuteArgs& args, const Sequences& sequences) const override {
        while (p_.is_bottom_right) pause();
        AttentionPlan::run(args, sequences);
    }
};

template <class FaultyPlan>
struct Faulty : AttentionEngine {
    const char* name() const override { return name_.c_str(); }
    std::unique_ptr<Plan> build(const GraphView& graph, const EngineConfig&) const override {
        return std::make_unique<FaultyPlan>(graph);
    }
    std::string name_ = std::string("ATTENTION_") + FaultyPlan::NAME + "_ENGINE";
};

// Refuses bottom-right in words that a terminal would act upon.
struct PaintsReasons : AttentionEngine {
    const char* name() const override { return "ATTENTION_PAINTS_REASONS_ENGINE"; }
    std::optional<std::string> why_not(const GraphView& graph) const override {
        const auto reason = AttentionEngine::why_not(graph);
        if (reason) return reason;
        const bool is_bottom_right =
            schema::read_sdpa_problem(graph, graph.node(0)).is_bottom_right;
        if (!is_bottom_right) return std::nullopt;
        return "\x1b[2J\rpassed     sdpa/forged\xff";
    }
};

// Fails when it is asked about bottom-right.
struct FailsToAnswer : AttentionEngine {
    const char* name() const override { return "ATTENTION_FAILS_TO_ANSWER_ENGINE"; }
    std::optional<std::string> why_not(const GraphView& graph) const override {
        const auto reason = AttentionEngine::why_not(graph);
        if (!reason && schema::read_sdpa_problem(graph, graph.node(0)).is_bottom_right) {
            throw std::runtime_error("no idea");
        }
        return reason;
    }
};

}  // namespace attention

using namespace attention;
RAGGEDDNN_ENGINE_PLUGIN("attention_faults", "1.0.0", Faulty<TopLeft>, Faulty<ReadsSlack>,
                        Faulty<NanRows>, Faulty<WrongHead>, Faulty<IgnoresScale>, Faulty<FewKeys>,
                        Faulty<TightIndices>, Faulty<TightWidth>, Faulty<QueriesByResults>,
                        Faulty<PacksStats>, Faulty<WritesPast>, Faulty<WritesPastOnce>,
                        Faulty<WritesPastDense>, Faulty<WritesBefore>, Faulty<ClearsSlack>,
                        Faulty<OverrunsWorkspace>, Faulty<KeepsAddresses>, Faulty<KeepsOffsets>,
                        Faulty<KeepsScale>, Faulty<OtherBits>, Faulty<SumsByPosition>,
                        Faulty<SharesScratch>, Faulty<RefusesLate>, Faulty<LeavesRounding>,
                        Faulty<ForgesResults>, Faulty<Crashes>, Faulty<Hangs>, PaintsReasons,
                        FailsToAnswer)
