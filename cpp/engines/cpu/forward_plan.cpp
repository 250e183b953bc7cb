// A forward attention node on the CPU.
#include "forward_plan.hpp"

#include "raggeddnn/plugin/sdpa_operands.hpp"
#include "targets.hpp"
#include "threads.hpp"

namespace raggeddnn::cpu {

using plugin::Sequence;
using plugin::Sequences;

struct ForwardPlan::Call {
    const Sequences& sequences;
    RuntimeOperands::Resolved operands;
    RowTensor o;
    RowTensor stats;
};

ForwardPlan::ForwardPlan(const plugin::GraphView& graph, const schema::Node& node,
                         const plugin::EngineConfig*)
    : problem_(schema::read_sdpa_problem(graph, node)),
      operands_(graph, problem_),
      kernels_(kernels()),
      threads_(1) {
    const schema::SdpaProblem& p = problem_;
    plugin::check_kernel_operands(p, {&p.k, &p.v, &p.o}, {p.stats ? &*p.stats : nullptr});
    thread_scratch_ = kernels_.forward_scratch(static_cast<int32_t>(p.head_dim()),
                                               static_cast<int32_t>(p.value_dim()));
    threads_ = useful_threads(most_threads(), p.batches(), p.heads(),
                              (p.q.max_rows() + rows_per_chunk() - 1) / rows_per_chunk());
    cut({});  // refuses what no workspace holds
}

ForwardPlan::Workspace ForwardPlan::cut(WorkspaceCutter cutter) const {
    Workspace w{};
    w.sequences = cutter.take<Sequence>(problem_.batches());
    w.work = cutter.take<SequenceWork>(problem_.batches());
    w.scratch = cutter.take<char>(thread_scratch_ * threads_);
    w.used = cutter.used();
    return w;
}

size_t ForwardPlan::workspace_size() const { return cut({}).used; }

std::string ForwardPlan::explain_kernel() const {
    return message("forward, ", kernels_.name, ": panels of ", kernels_.panel_rows,
                   " rows, one to a lane");
}

void ForwardPlan::execute(const plugin::ExecuteArgs& args) const {
    const Workspace w = cut(WorkspaceCutter(args.workspace, problem_.op));
    const Sequences sequences(problem_, args.buffers, w.sequences);
    const Call call = prepare(args.buffers, sequences);
    const double width = static_cast<double>(problem_.head_dim() + problem_.value_dim());
    const int64_t chunk = rows_per_chunk();
    for (size_t b = 0; b < sequences.size(); ++b) {
        const int64_t rows = sequences[b].valid_q;
        SequenceWork& work = w.work[b];
        work = {};
        work.batch = static_cast<int64_t>(b);
        work.units = problem_.heads();
        work.chunks = std::max<int64_t>(1, (rows + chunk - 1) / chunk);
        // A row costs something whatever it sees.
        work.cost = (count_pairs(problem_, sequences[b]) + static_cast<double>(rows) * 8) * width;
    }
    Tasks tasks({w.work, sequences.size()});
    on_threads(tasks.threads(std::min(thread_limit(), threads_)), [&](int thread) {
        Tasks::Cursor cursor(tasks);
        Task task;
        while (cursor.next(task)) run(call, task, w.scratch + thread_scratch_ * thread);
    });
}

ForwardPlan::Call ForwardPlan::prepare(const plugin::Buffers& buffers,
                                       const Sequences& sequences) const {
    bool has_scores = false;
    int64_t rows = 0;
    for (const Sequence& s : sequences) {
        has_scores |= s.valid_q > 0 && s.valid_kv > 0;
        rows = std::max(rows, s.rows_q);
    }
    Call call{sequences, operands_.resolve(problem_, buffers, has_scores),
              written_tensor(problem_.o, buffers, rows), RowTensor()};
    if (problem_.stats) call.stats = written_tensor(*problem_.stats, buffers, rows);
    return call;
}

void ForwardPlan::run(const Call& call, const Task& task, void* scratch) const {
    for (int64_t head = task.first_unit; head < task.end_unit; ++head) {
        run_head(call, *task.sequence, head, task.chunk, scratch);
    }
}

void ForwardPlan::run_head(const Call& call, const SequenceWork& work, int64_t head, int64_t chunk,
                           void* scratch) const {
    const Sequence& s = call.sequences[static_cast<size_t>(work.batch)];
    const bool has_keys = s.valid_kv > 0;
    const int64_t first = chunk * rows_per_chunk();
    const int64_t count = std::min(rows_per_chunk(), s.valid_q - first);
    if (has_keys && count > 0) {
        ForwardHead described{};
        describe_head(problem_, call.operands, s, work.batch, head, described);
        described.o = call.o.rows(s.base_o, head);
        if (problem_.stats) described.stats = call.stats.rows(s.base_stats, head);
        kernels_.forward(described, first, count, scratch);
    }
    if (chunk + 1 < work.chunks) return;
    const int64_t valid = has_keys ? s.valid_q : 0;
    call.o.clear(s.base_o, head, valid, call.o.end(s.rows_q));
    if (problem_.stats) {
        call.stats.clear_stats(s.base_stats, head, valid, call.stats.end(s.rows_q));
    }
}

}  // namespace raggeddnn::cpu
