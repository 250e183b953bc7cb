// The options of RMS and layer normalization nodes, by hipDNN's names.
#pragma once

#include <utility>

#include "raggeddnn/graph/ops/op_attributes.hpp"

namespace raggeddnn {

using NormFwdPhase = schema::NormFwdPhase;

class RMSNormAttributes : public OpAttributes<RMSNormAttributes, schema::RMSNormAttributesT> {
public:
    // TRAINING also gives inv_rms.
    RMSNormAttributes& set_forward_phase(NormFwdPhase phase) {
        table_.forward_phase = phase;
        return *this;
    }
    // A scalar in any by-value state; required.
    RMSNormAttributes& set_epsilon(TensorPtr t) {
        epsilon_ = std::move(t);
        return *this;
    }
    RMSNormAttributes& set_bias(TensorPtr t) {
        bias_ = std::move(t);
        return *this;
    }
    const TensorPtr& epsilon() const { return epsilon_; }
    const TensorPtr& bias() const { return bias_; }

private:
    TensorPtr epsilon_;
    TensorPtr bias_;
};

class RMSNormBackwardAttributes
    : public OpAttributes<RMSNormBackwardAttributes, schema::RMSNormBackwardAttributesT> {
public:
    RMSNormBackwardAttributes& set_has_dbias(bool value) {
        has_dbias_ = value;
        return *this;
    }
    bool has_dbias() const { return has_dbias_; }

private:
    bool has_dbias_ = false;
};

class LayernormAttributes : public OpAttributes<LayernormAttributes, schema::LayernormAttributesT> {
public:
    // TRAINING also gives mean and inv_variance.
    LayernormAttributes& set_forward_phase(NormFwdPhase phase) {
        table_.forward_phase = phase;
        return *this;
    }
    // How many trailing dims are normalized; 0: those that scale spans.
    LayernormAttributes& set_normalized_dim_count(int64_t count) {
        table_.normalized_dim_count = count;
        return *this;
    }
    LayernormAttributes& set_epsilon(TensorPtr t) {
        epsilon_ = std::move(t);
        return *this;
    }
    const TensorPtr& epsilon() const { return epsilon_; }

private:
    TensorPtr epsilon_;
};

// With the statistics of the forward pass, or with epsilon to make them again.
class LayernormBackwardAttributes
    : public OpAttributes<LayernormBackwardAttributes, schema::LayernormBackwardAttributesT> {
public:
    LayernormBackwardAttributes& set_normalized_dim_count(int64_t count) {
        table_.normalized_dim_count = count;
        return *this;
    }
    LayernormBackwardAttributes& set_saved_mean_and_inv_variance(TensorPtr mean,
                                                                 TensorPtr inv_variance) {
        mean_ = std::move(mean);
        inv_variance_ = std::move(inv_variance);
        return *this;
    }
    LayernormBackwardAttributes& set_epsilon(TensorPtr t) {
        epsilon_ = std::move(t);
        return *this;
    }
    const TensorPtr& mean() const { return mean_; }
    const TensorPtr& inv_variance() const { return inv_variance_; }
    const TensorPtr& epsilon() const { return epsilon_; }

private:
    TensorPtr mean_;
    TensorPtr inv_variance_;
    TensorPtr epsilon_;
};

}  // namespace raggeddnn
