// A backward attention node on the CPU.
#include "backward_plan.hpp"

#include <algorithm>
#include <numeric>

#include "bias_gradient.hpp"
#include "raggeddnn/plugin/sdpa_operands.hpp"
#include "targets.hpp"
#include "threads.hpp"

namespace raggeddnn::cpu {

using plugin::Sequence;
using plugin::Sequences;

struct BackwardPlan::Call {
    const Sequences& sequences;
    const ChunkOrder& order;
    float* dq_sums;
    RuntimeOperands::Resolved operands;
    RowTensor o;
    RowTensor d_o;
    RowTensor stats;
    RowTensor d_stats;
    RowTensor dq;
    RowTensor dk;
    RowTensor dv;
    void* dbias;
};

namespace {

int64_t floats_of_slot(const schema::SdpaBackwardProblem& p, int64_t group, int64_t stride) {
    if (p.q.type == DataType::FLOAT || p.k.max_rows() <= CHUNK_KEYS) return 0;
    int64_t rows = 0;
    int64_t floats = 0;
    if (__builtin_mul_overflow(group, p.q.max_rows(), &rows) ||
        __builtin_mul_overflow(rows, stride, &floats)) {
        invalid("[", p.op, "] ", p.q.label, " has dims ", schema::list_of(p.q.dims),
                ", expected sums of its gradient to be less than 2^63 elements");
    }
    return floats;
}

// One for each thread, so that none waits; fewer where they are large, and two at least: the chunks
// of one unit keep many threads busy, and the next unit begins while the last ones end.
int64_t slots_for(int threads, int64_t slot_floats) {
    constexpr int64_t most_floats = int64_t{1} << 26;
    if (slot_floats == 0) return threads;
    return std::min<int64_t>(threads, std::max<int64_t>(2, most_floats / slot_floats));
}

}  // namespace

BackwardPlan::BackwardPlan(const plugin::GraphView& graph, const schema::Node& node,
                           const plugin::EngineConfig*)
    : problem_(schema::read_sdpa_backward_problem(graph, node)),
      operands_(graph, problem_),
      kernels_(kernels()),
      threads_(1) {
    const schema::SdpaBackwardProblem& p = problem_;
    plugin::check_kernel_operands(p, {&p.k, &p.v, &p.o, &p.dq, &p.dk, &p.dv},
                                  {&*p.stats, p.d_stats ? &*p.d_stats : nullptr});
    plugin::check_kernel_type(p, p.d_o);  // of any strides: a sum gives ones, all in one place
    if (p.dbias) plugin::check_kernel_bias(p, *p.dbias);
    const auto width = static_cast<int32_t>(p.head_dim());
    const auto value_width = static_cast<int32_t>(p.value_dim());
    group_ = std::lcm(p.heads() / p.k.heads(), p.heads() / p.v.heads());
    dk_stride_ = kernels_.gradient_stride(width);
    dv_stride_ = kernels_.gradient_stride(value_width);
    slot_floats_ = floats_of_slot(p, group_, width);
    threads_ = useful_threads(most_threads(), p.batches(), p.heads() / group_,
                              (p.k.max_rows() + CHUNK_KEYS - 1) / CHUNK_KEYS);
    if (p.dbias) threads_ = most_threads();
    slots_ = slots_for(threads_, slot_floats_);
    thread_scratch_ = kernels_.backward_scratch(width, value_width) +
                      (dk_floats() + dv_floats()) * int64_t{sizeof(float)};
    cut({});  // refuses what no workspace holds
}

BackwardPlan::Workspace BackwardPlan::cut(WorkspaceCutter cutter) const {
    Workspace w{};
    w.sequences = cutter.take<Sequence>(problem_.batches());
    w.work = cutter.take<SequenceWork>(problem_.batches());
    w.progress = cutter.take<TaskProgress>(ChunkOrder::progress_count(threads_));
    w.slots = cutter.take<SlotOwner>(slots_);
    w.scratch = cutter.take<char>(thread_scratch_ * threads_);
    w.dq_sums = cutter.take_each<float>(slot_floats_, slots_);
    w.used = cutter.used();
    return w;
}

size_t BackwardPlan::workspace_size() const { return cut({}).used; }

std::string BackwardPlan::explain_kernel() const {
    return message("backward, ", kernels_.name, ": panels of ", kernels_.panel_rows,
                   " rows, one to a lane, chunks of ", CHUNK_KEYS, " keys");
}

void BackwardPlan::execute(const plugin::ExecuteArgs& args) const {
    const Workspace w = cut(WorkspaceCutter(args.workspace, problem_.op));
    const Sequences sequences(problem_, args.buffers, w.sequences);
    const ChunkOrder order({w.progress, static_cast<size_t>(ChunkOrder::progress_count(threads_))},
                           {w.slots, static_cast<size_t>(slots_)});
    const Call call = prepare(args.buffers, sequences, order, w.dq_sums);
    const double width = 2.0 * static_cast<double>(problem_.head_dim() + problem_.value_dim());
    for (size_t b = 0; b < sequences.size(); ++b) {
        const Sequence& s = sequences[b];
        SequenceWork& work = w.work[b];
        work = {};
        work.batch = static_cast<int64_t>(b);
        work.units = problem_.heads() / group_;
        work.chunks = std::max<int64_t>(1, (s.valid_kv + CHUNK_KEYS - 1) / CHUNK_KEYS);
        const auto rows = static_cast<double>(s.valid_q + s.valid_kv);
        work.cost = (count_pairs(problem_, s) + rows * 8) * width * static_cast<double>(group_);
    }
    Tasks tasks({w.work, sequences.size()});
    const int threads = tasks.threads(std::min(thread_limit(), threads_));
    on_threads(threads, [&](int thread) {
        const ThreadMemory memory = memory_of(w, thread);
        Tasks::Cursor cursor(tasks);
        Task task;
        while (cursor.next(task)) run(call, task, memory);
    });
    if (problem_.dbias) run_bias(call, threads, w);
}

BackwardPlan::ThreadMemory BackwardPlan::memory_of(const Workspace& w, int thread) const {
    auto* const dk = reinterpret_cast<float*>(w.scratch + thread_scratch_ * thread);
    return {{dk, dk + dk_floats()}, dk + dk_floats() + dv_floats()};
}

void BackwardPlan::run_bias(const Call& call, int threads, const Workspace& w) const {
    const BiasGradient gradient(
        problem_, kernels_, call.sequences,
        [&](int64_t batch, int64_t head) { return head_of(call, batch, head); }, call.dbias);
    std::atomic<int64_t> next{0};
    on_threads(threads, [&](int thread) {
        const ThreadMemory memory = memory_of(w, thread);
        for (int64_t tile = next++; tile < gradient.tiles(); tile = next++) {
            gradient.make_tile(tile, memory.sums.dk, memory.scratch);
        }
    });
}

BackwardPlan::Call BackwardPlan::prepare(const plugin::Buffers& buffers, const Sequences& sequences,
                                         const ChunkOrder& order, float* dq_sums) const {
    const schema::SdpaBackwardProblem& p = problem_;
    bool has_scores = false;
    int64_t rows_q = 0;
    int64_t rows_kv = 0;
    for (const Sequence& s : sequences) {
        has_scores |= s.valid_q > 0 && s.valid_kv > 0;
        rows_q = std::max(rows_q, s.rows_q);
        rows_kv = std::max(rows_kv, s.rows_kv);
    }
    Call call{sequences,
              order,
              dq_sums,
              operands_.resolve(p, buffers, has_scores),
              RowTensor(p.o, buffers, has_scores),
              RowTensor(p.d_o, buffers, has_scores),
              RowTensor(*p.stats, buffers, has_scores),
              RowTensor(),
              written_tensor(p.dq, buffers, rows_q),
              written_tensor(p.dk, buffers, rows_kv),
              written_tensor(p.dv, buffers, rows_kv),
              nullptr};
    if (p.d_stats) call.d_stats = RowTensor(*p.d_stats, buffers, has_scores);
    if (!p.dbias) return call;
    const bool is_empty =
        std::find(p.dbias_dims.begin(), p.dbias_dims.end(), 0) != p.dbias_dims.end();
    call.dbias = is_empty ? nullptr : buffers.find_device_buffer(p.dbias->uid, p.dbias->label);
    return call;
}

void BackwardPlan::run(const Call& call, const Task& task, const ThreadMemory& memory) const {
    const bool has_slot = task.sequence->chunks > 1 && slot_floats_ > 0;
    if (has_slot && task.chunk == 0) call.order.take_slot(task.cut_unit());
    // The last chunk gives the slot back, so it begins after the first one, rows or none.
    if (has_slot && task.chunk > 0) call.order.follow(task.index, 0);
    call.order.begin(task.index);
    for (int64_t unit = task.first_unit; unit < task.end_unit; ++unit) {
        run_unit(call, task, unit, memory);
    }
    if (has_slot && task.chunk + 1 == task.sequence->chunks) call.order.give_slot(task.cut_unit());
    call.order.end(task.index);
}

void BackwardPlan::run_unit(const Call& call, const Task& task, int64_t unit,
                            const ThreadMemory& memory) const {
    const Sequence& s = call.sequences[static_cast<size_t>(task.sequence->batch)];
    const int64_t k_group = problem_.heads() / problem_.k.heads();
    const int64_t v_group = problem_.heads() / problem_.v.heads();
    KeyChunk chunk{};
    chunk.index = task.chunk;
    chunk.begin = task.chunk * CHUNK_KEYS;
    chunk.end = std::min(s.valid_kv, chunk.begin + CHUNK_KEYS);
    const int64_t keys = chunk.end - chunk.begin;
    for (int64_t head = unit * group_; head < (unit + 1) * group_; ++head) {
        if (head % k_group == 0) std::fill_n(memory.sums.dk, keys * dk_stride_, 0.0f);
        if (head % v_group == 0) std::fill_n(memory.sums.dv, keys * dv_stride_, 0.0f);
        if (s.valid_q > 0 && s.valid_kv > 0) run_head(call, task, head, chunk, memory);
        store_keys(call, s, head, chunk, memory);
    }
    if (task.chunk == 0) clear_rest(call, s, unit * group_);
}

BackwardHead BackwardPlan::head_of(const Call& call, int64_t batch, int64_t head) const {
    const Sequence& s = call.sequences[static_cast<size_t>(batch)];
    BackwardHead described{};
    describe_head(problem_, call.operands, s, batch, head, described);
    described.o = call.o.rows(s.base_o, head);
    described.d_o = call.d_o.rows(s.base_d_o, head);
    described.d_o_step = problem_.d_o.strides[schema::WIDTH_AXIS];
    described.stats = call.stats.rows(s.base_stats, head);
    if (problem_.d_stats) described.d_stats = call.d_stats.rows(s.base_d_stats, head);
    return described;
}

void BackwardPlan::run_head(const Call& call, const Task& task, int64_t head, const KeyChunk& chunk,
                            const ThreadMemory& memory) const {
    const Sequence& s = call.sequences[static_cast<size_t>(task.sequence->batch)];
    const bool is_cut = task.sequence->chunks > 1;
    const int64_t in_group = head % group_;
    BackwardHead described = head_of(call, task.sequence->batch, head);
    described.dq = call.dq.rows(s.base_dq, head);
    if (is_cut && slot_floats_ == 0) described.dq_sums = described.dq;
    if (is_cut && slot_floats_ > 0) {
        const int64_t width = problem_.head_dim();
        float* const sums = call.dq_sums + call.order.slot(task.cut_unit()) * slot_floats_ +
                            in_group * problem_.q.max_rows() * width;
        described.dq_sums = {sums, width};
    }
    // From the last panel on: with a causal mask every chunk begins there.
    const int64_t panels = (s.valid_q + kernels_.panel_rows - 1) / kernels_.panel_rows;
    for (int64_t done = 0; done < panels; ++done) {
        const int64_t step = in_group * panels + done + 1;
        if (chunk.index > 0) call.order.follow(task.index, step);
        kernels_.backward_panel(described, (panels - 1 - done) * kernels_.panel_rows, chunk,
                                memory.sums, memory.scratch);
        if (is_cut) call.order.advance(task.index, step);
    }
}

// The gradients of a key or value head are whole once the last query head that reads it is done.
void BackwardPlan::store_keys(const Call& call, const Sequence& s, int64_t head,
                              const KeyChunk& chunk, const ThreadMemory& memory) const {
    const int64_t count = chunk.end - chunk.begin;
    if (count <= 0) return;
    const Element element = element_of(problem_.q.type);
    const auto store = [&](const RowTensor& tensor, int64_t base, int64_t group, float factor,
                           const float* sums, int64_t stride, int64_t width) {
        if ((head + 1) % group != 0) return;
        Rows rows = tensor.rows(base, head / group);
        rows.data = static_cast<char*>(rows.data) + chunk.begin * rows.stride * bytes_of(element);
        kernels_.store_gradients(sums, stride, factor, element, static_cast<int32_t>(width), count,
                                 rows);
    };
    store(call.dk, s.base_dk, problem_.heads() / problem_.k.heads(), call.operands.scale,
          memory.sums.dk, dk_stride_, problem_.head_dim());
    store(call.dv, s.base_dv, problem_.heads() / problem_.v.heads(), 1.0f, memory.sums.dv,
          dv_stride_, problem_.value_dim());
}

// Rows past the valid ones, and rows without any score.
void BackwardPlan::clear_rest(const Call& call, const Sequence& s, int64_t first_head) const {
    const int64_t valid_q = s.valid_kv > 0 ? s.valid_q : 0;
    const auto clear = [&](const RowTensor& tensor, int64_t base, int64_t group, int64_t valid,
                           int64_t rows) {
        for (int64_t head = first_head; head < first_head + group_; head += group) {
            tensor.clear(base, head / group, valid, tensor.end(rows));
        }
    };
    clear(call.dq, s.base_dq, 1, valid_q, s.rows_q);
    clear(call.dk, s.base_dk, problem_.heads() / problem_.k.heads(), s.valid_kv, s.rows_kv);
    clear(call.dv, s.base_dv, problem_.heads() / problem_.v.heads(), s.valid_kv, s.rows_kv);
}

}  // namespace raggeddnn::cpu
