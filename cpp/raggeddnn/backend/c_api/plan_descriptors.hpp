// Descriptors of the last step: the plan, and what it is executed with.
#pragma once

#include "raggeddnn/backend/c_api/engine_descriptors.hpp"
#include "raggeddnn/backend/execution_plan.hpp"

namespace raggeddnn::c_api {

class PlanDescriptor : public Descriptor {
public:
    PlanDescriptor();
    const char* kind() const override { return "execution plan"; }
    // A received plan, final; it has no engine configuration.
    static std::shared_ptr<PlanDescriptor> received(std::shared_ptr<const ExecutionPlan> plan);

    std::shared_ptr<EngineConfigDescriptor> config;
    std::shared_ptr<const ExecutionPlan> plan;

protected:
    void on_finalize() override;
};

class VariantPackDescriptor : public Descriptor {
public:
    VariantPackDescriptor();
    const char* kind() const override { return "variant pack"; }

    std::vector<Binding> bindings() const;
    std::vector<ShapeOverride> overrides() const;

    std::vector<int64_t> uids;
    std::vector<void*> pointers;
    void* workspace = nullptr;
    std::vector<int64_t> override_uids;
    std::vector<int64_t> override_shapes;
    std::vector<int64_t> override_strides;
    std::vector<int64_t> override_lengths;

protected:
    void on_finalize() override;

private:
    void check_overrides() const;
};

}  // namespace raggeddnn::c_api
