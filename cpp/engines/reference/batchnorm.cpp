// Batch normalization nodes of the reference engine: channel by channel, in double.
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "elements.hpp"
#include "ops.hpp"
#include "raggeddnn/schema/batchnorm_problem.hpp"
#include "regions.hpp"

namespace raggeddnn::reference {
namespace {

using plugin::GraphView;
using plugin::ScalarOperand;
using schema::BatchnormBackwardProblem;
using schema::BatchnormInferenceProblem;
using schema::BatchnormProblem;
using schema::CHANNEL_AXIS;
using schema::Operand;

// The elements of operands [N, C, ...] that lie side by side, channel by channel.
class Channels {
public:
    Channels(std::string_view op, const std::vector<const Operand*>& operands,
             const plugin::Buffers& buffers)
        : regions_(regions_of(op, operands.front()->dims, operands, buffers)),
          count_(operands.front()->dims[CHANNEL_AXIS]) {
        for (const Operand* operand : operands) strides_.push_back(operand->strides);
        for (Region& region : regions_) {
            region.dims[CHANNEL_AXIS] = 1;
            int64_t size = 1;
            for (const int64_t dim : region.dims) size *= dim;
            size_ += size;
        }
    }

    int64_t count() const { return count_; }
    int64_t size() const { return size_; }  // elements of one channel

    // Calls body(offsets) for every element, an offset for each operand.
    template <class Body>
    void visit(int64_t channel, Body&& body) const {
        for (const Region& region : regions_) {
            std::vector<int64_t> start = region.bases;
            for (size_t k = 0; k < start.size(); ++k) {
                start[k] += channel * strides_[k][CHANNEL_AXIS];
            }
            walk(region.dims, strides_, std::move(start), body);
        }
    }

private:
    std::vector<Region> regions_;
    std::vector<Dims> strides_;
    int64_t count_;
    int64_t size_ = 0;
};

int64_t at_channel(const Operand& operand, int64_t channel) {
    return channel * operand.strides[CHANNEL_AXIS];
}

void check_unread(const char* op, const std::vector<std::string>& unread) {
    if (unread.empty()) return;
    invalid("[", op, "] attribute ", unread.front(), " is set, expected unset");
}

struct Statistics {
    double mean = 0.0;
    double variance = 0.0;  // divided by the number of elements
};

// Of x, the first operand. Of no elements: NaN.
Statistics statistics_of(const Elements& x, const Channels& channels, int64_t channel) {
    const auto size = static_cast<double>(channels.size());
    double sum = 0.0;
    channels.visit(channel, [&](const std::vector<int64_t>& at) { sum += x.get(at[0]); });
    const double mean = sum / size;
    double squares = 0.0;
    channels.visit(channel, [&](const std::vector<int64_t>& at) {
        squares += (x.get(at[0]) - mean) * (x.get(at[0]) - mean);
    });
    return {mean, squares / size};
}

// y = (x - mean) * factor + bias over one channel of x and y.
void normalize(const Elements& x, const Elements& y, const Channels& channels, int64_t channel,
               double mean, double factor, double bias) {
    channels.visit(channel, [&](const std::vector<int64_t>& at) {
        y.set(at[1], (x.get(at[0]) - mean) * factor + bias);
    });
}

class BatchnormPlan : public plugin::Plan {
public:
    BatchnormPlan(const GraphView& graph, const schema::Node& node)
        : problem_(schema::read_batchnorm_problem(graph, node)),
          epsilon_(ScalarOperand::make(graph.tensor(problem_.epsilon.uid))) {
        check_unread("batchnorm", problem_.unread);
        if (problem_.momentum) {
            momentum_ = ScalarOperand::make(graph.tensor(problem_.momentum->uid));
        }
    }

    const BatchnormProblem& problem() const { return problem_; }

    void execute(const plugin::ExecuteArgs& args) const override {
        const BatchnormProblem& p = problem_;
        const Channels channels("batchnorm", {&p.x, &p.y}, args.buffers);
        if (channels.count() == 0) return;
        const bool is_touched = channels.size() > 0;
        const Elements x = find_elements(p.x, args.buffers, is_touched);
        const Elements y = find_elements(p.y, args.buffers, is_touched);
        const auto find = [&](const auto& operand) { return find_elements(operand, args.buffers); };
        const Elements scale = find(p.scale), bias = find(p.bias);
        const Elements mean = find(p.mean), inv_variance = find(p.inv_variance);
        const double epsilon = epsilon_.resolve(args.buffers);
        const Running running = find_running(args.buffers);
        for (int64_t c = 0; c < channels.count(); ++c) {
            const Statistics s = statistics_of(x, channels, c);
            const double inverse = 1.0 / std::sqrt(s.variance + epsilon);
            normalize(x, y, channels, c, s.mean, inverse * scale.get(at_channel(p.scale, c)),
                      bias.get(at_channel(p.bias, c)));
            if (p.mean) mean.set(at_channel(*p.mean, c), s.mean);
            if (p.inv_variance) inv_variance.set(at_channel(*p.inv_variance, c), inverse);
            if (p.momentum) update(running, s, channels.size(), c);
        }
    }

private:
    struct Running {
        Elements mean, variance, next_mean, next_variance;
        double momentum = 0.0;
    };

    Running find_running(const plugin::Buffers& buffers) const {
        const BatchnormProblem& p = problem_;
        return {find_elements(p.prev_mean, buffers), find_elements(p.prev_variance, buffers),
                find_elements(p.next_mean, buffers), find_elements(p.next_variance, buffers),
                momentum_ ? momentum_->resolve(buffers) : 0.0};
    }

    // No elements teach nothing: the statistics stay.
    void update(const Running& running, const Statistics& s, int64_t elements, int64_t c) const {
        const BatchnormProblem& p = problem_;
        double mean = running.mean.get(at_channel(*p.prev_mean, c));
        double variance = running.variance.get(at_channel(*p.prev_variance, c));
        if (elements > 0) {
            const auto size = static_cast<double>(elements);
            const double unbiased = elements > 1 ? s.variance * size / (size - 1.0) : s.variance;
            const double momentum = running.momentum;
            mean = (1.0 - momentum) * mean + momentum * s.mean;
            variance = (1.0 - momentum) * variance + momentum * unbiased;
        }
        running.next_mean.set(at_channel(*p.next_mean, c), mean);
        running.next_variance.set(at_channel(*p.next_variance, c), variance);
    }

    BatchnormProblem problem_;
    ScalarOperand epsilon_;
    std::optional<ScalarOperand> momentum_;
};

class BatchnormInferencePlan : public plugin::Plan {
public:
    BatchnormInferencePlan(const GraphView& graph, const schema::Node& node)
        : problem_(schema::read_batchnorm_inference_problem(graph, node)) {
        if (problem_.epsilon) {
            epsilon_ = ScalarOperand::make(graph.tensor(problem_.epsilon->uid));
        }
    }

    const BatchnormInferenceProblem& problem() const { return problem_; }

    void execute(const plugin::ExecuteArgs& args) const override {
        const BatchnormInferenceProblem& p = problem_;
        const Channels channels("batchnorm_inference", {&p.x, &p.y}, args.buffers);
        if (channels.count() == 0 || channels.size() == 0) return;
        const auto find = [&](const auto& operand) { return find_elements(operand, args.buffers); };
        const Elements x = find(p.x), y = find(p.y), mean = find(p.mean);
        const Elements deviation = find(p.deviation), scale = find(p.scale), bias = find(p.bias);
        const double epsilon = epsilon_ ? epsilon_->resolve(args.buffers) : 0.0;
        for (int64_t c = 0; c < channels.count(); ++c) {
            const double stored = deviation.get(at_channel(p.deviation, c));
            const double inverse = epsilon_ ? 1.0 / std::sqrt(stored + epsilon) : stored;
            normalize(x, y, channels, c, mean.get(at_channel(p.mean, c)),
                      inverse * scale.get(at_channel(p.scale, c)), bias.get(at_channel(p.bias, c)));
        }
    }

private:
    BatchnormInferenceProblem problem_;
    std::optional<ScalarOperand> epsilon_;
};

class BatchnormBackwardPlan : public plugin::Plan {
public:
    BatchnormBackwardPlan(const GraphView& graph, const schema::Node& node)
        : problem_(schema::read_batchnorm_backward_problem(graph, node)) {
        check_unread("batchnorm_backward", problem_.unread);
    }

    const BatchnormBackwardProblem& problem() const { return problem_; }

    void execute(const plugin::ExecuteArgs& args) const override {
        const BatchnormBackwardProblem& p = problem_;
        const Channels channels("batchnorm_backward", {&p.dy, &p.x, &p.dx}, args.buffers);
        if (channels.count() == 0) return;
        const bool is_touched = channels.size() > 0;
        const auto find = [&](const Operand& o) {
            return find_elements(o, args.buffers, is_touched);
        };
        const Elements dy = find(p.dy), x = find(p.x), dx = find(p.dx), scale = find(p.scale);
        const Elements mean = find(p.mean), inv_variance = find(p.inv_variance);
        const Elements dscale = find_elements(p.dscale, args.buffers);
        const Elements dbias = find_elements(p.dbias, args.buffers);
        const auto size = static_cast<double>(channels.size());
        for (int64_t c = 0; c < channels.count(); ++c) {
            const double m = is_touched ? mean.get(at_channel(p.mean, c)) : 0.0;
            const double inverse =
                is_touched ? inv_variance.get(at_channel(p.inv_variance, c)) : 0.0;
            double sum = 0.0;
            double sum_n = 0.0;
            channels.visit(c, [&](const std::vector<int64_t>& at) {
                sum += dy.get(at[0]);
                sum_n += dy.get(at[0]) * (x.get(at[1]) - m) * inverse;
            });
            const double factor = is_touched ? scale.get(at_channel(p.scale, c)) * inverse : 0.0;
            channels.visit(c, [&](const std::vector<int64_t>& at) {
                const double n = (x.get(at[1]) - m) * inverse;
                dx.set(at[2], factor * (dy.get(at[0]) - sum / size - n * sum_n / size));
            });
            dscale.set(at_channel(p.dscale, c), sum_n);
            dbias.set(at_channel(p.dbias, c), sum);
        }
    }

private:
    BatchnormBackwardProblem problem_;
};

}  // namespace

BuiltNode build_batchnorm(const GraphView& graph, const schema::Node& node) {
    auto plan = std::make_unique<BatchnormPlan>(graph, node);
    const BatchnormProblem& p = plan->problem();
    BuiltNode built;
    built.inputs = {p.x.uid, p.scale.uid, p.bias.uid};
    built.outputs = {p.y.uid};
    for (const auto* input : {&p.prev_mean, &p.prev_variance}) {
        if (*input) built.inputs.push_back((*input)->uid);
    }
    for (const auto* output : {&p.mean, &p.inv_variance, &p.next_mean, &p.next_variance}) {
        if (*output) built.outputs.push_back((*output)->uid);
    }
    built.plan = std::move(plan);
    return built;
}

BuiltNode build_batchnorm_inference(const GraphView& graph, const schema::Node& node) {
    auto plan = std::make_unique<BatchnormInferencePlan>(graph, node);
    const BatchnormInferenceProblem& p = plan->problem();
    BuiltNode built;
    built.inputs = {p.x.uid, p.mean.uid, p.deviation.uid, p.scale.uid, p.bias.uid};
    built.outputs = {p.y.uid};
    built.plan = std::move(plan);
    return built;
}

BuiltNode build_batchnorm_backward(const GraphView& graph, const schema::Node& node) {
    auto plan = std::make_unique<BatchnormBackwardPlan>(graph, node);
    const BatchnormBackwardProblem& p = plan->problem();
    BuiltNode built;
    built.inputs = {p.dy.uid, p.x.uid, p.scale.uid, p.mean.uid, p.inv_variance.uid};
    built.outputs = {p.dx.uid, p.dscale.uid, p.dbias.uid};
    built.plan = std::move(plan);
    return built;
}

}  // namespace raggeddnn::reference
