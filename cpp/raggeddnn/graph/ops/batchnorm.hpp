// The options of batch normalization nodes, by hipDNN's names.
#pragma once

#include <utility>
#include <vector>

#include "raggeddnn/graph/ops/op_attributes.hpp"

namespace raggeddnn {

class BatchnormAttributes : public OpAttributes<BatchnormAttributes, schema::BatchnormAttributesT> {
public:
    // A scalar in any by-value state; required.
    BatchnormAttributes& set_epsilon(TensorPtr t) {
        epsilon_ = std::move(t);
        return *this;
    }
    // next = (1 - momentum) * previous + momentum * current; all three, or none.
    BatchnormAttributes& set_previous_running_stats(TensorPtr mean, TensorPtr variance,
                                                    TensorPtr momentum) {
        prev_mean_ = std::move(mean);
        prev_variance_ = std::move(variance);
        momentum_ = std::move(momentum);
        return *this;
    }
    BatchnormAttributes& set_peer_stats(std::vector<TensorPtr> peers) {
        peers_ = std::move(peers);
        return *this;
    }
    const TensorPtr& epsilon() const { return epsilon_; }
    const TensorPtr& prev_mean() const { return prev_mean_; }
    const TensorPtr& prev_variance() const { return prev_variance_; }
    const TensorPtr& momentum() const { return momentum_; }
    const std::vector<TensorPtr>& peer_stats() const { return peers_; }

private:
    TensorPtr epsilon_;
    TensorPtr prev_mean_;
    TensorPtr prev_variance_;
    TensorPtr momentum_;
    std::vector<TensorPtr> peers_;
};

class BatchnormInferenceAttributes
    : public OpAttributes<BatchnormInferenceAttributes, schema::BatchnormInferenceAttributesT> {};

// Inference from the variance and epsilon.
class BatchnormInferenceAttributesVarianceExt
    : public OpAttributes<BatchnormInferenceAttributesVarianceExt,
                          schema::BatchnormInferenceAttributesVarianceExtT> {
public:
    BatchnormInferenceAttributesVarianceExt& set_epsilon(TensorPtr t) {
        epsilon_ = std::move(t);
        return *this;
    }
    const TensorPtr& epsilon() const { return epsilon_; }

private:
    TensorPtr epsilon_;
};

class BatchnormBackwardAttributes
    : public OpAttributes<BatchnormBackwardAttributes, schema::BatchnormBackwardAttributesT> {
public:
    BatchnormBackwardAttributes& set_saved_mean_and_inv_variance(TensorPtr mean,
                                                                 TensorPtr inv_variance) {
        mean_ = std::move(mean);
        inv_variance_ = std::move(inv_variance);
        return *this;
    }
    BatchnormBackwardAttributes& set_peer_stats(std::vector<TensorPtr> peers) {
        peers_ = std::move(peers);
        return *this;
    }
    const TensorPtr& mean() const { return mean_; }
    const TensorPtr& inv_variance() const { return inv_variance_; }
    const std::vector<TensorPtr>& peer_stats() const { return peers_; }

private:
    TensorPtr mean_;
    TensorPtr inv_variance_;
    std::vector<TensorPtr> peers_;
};

}  // namespace raggeddnn
