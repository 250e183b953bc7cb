// Descriptors between an operation graph and its plan: engines and their knobs, configurations, and
// the heuristics that rank them.
#pragma once

#include "raggeddnn/backend/c_api/graph_descriptor.hpp"
#include "raggeddnn/backend/plugin_registry.hpp"
#include "raggeddnn/backend/selection.hpp"

namespace raggeddnn::c_api {

// A value chosen for a knob.
class KnobChoiceDescriptor : public Descriptor {
public:
    KnobChoiceDescriptor();
    const char* kind() const override { return "knob choice"; }

    schema::KnobSettingT table;

protected:
    void on_finalize() override;
};

// What an engine says of a knob. Made by engines only.
class KnobInfoDescriptor : public Descriptor {
public:
    KnobInfoDescriptor();
    const char* kind() const override { return "knob info"; }
    static std::shared_ptr<KnobInfoDescriptor> of_engine(const schema::KnobT& knob);

    schema::KnobT table;

protected:
    void on_finalize() override;
};

class EngineDescriptor : public Descriptor {
public:
    static constexpr const char* EXPECTED = "an engine";
    EngineDescriptor();
    const char* kind() const override { return "engine"; }
    // One that the graph was found applicable to.
    static std::shared_ptr<EngineDescriptor> applicable(std::shared_ptr<GraphDescriptor> graph,
                                                        backend::LoadedEngine engine);

    // What the plugin says of the engine for this graph; asked once.
    const schema::EngineDetailsT& details() const;
    const std::vector<std::vector<uint8_t>>& knob_bytes() const;

    std::shared_ptr<GraphDescriptor> graph;
    int64_t id = 0;
    backend::LoadedEngine engine;

protected:
    void on_finalize() override;

private:
    mutable std::unique_ptr<schema::EngineDetailsT> details_;
    mutable std::vector<std::vector<uint8_t>> knob_bytes_;
};

class EngineConfigDescriptor : public Descriptor {
public:
    static constexpr const char* EXPECTED = "an engine configuration";
    EngineConfigDescriptor();
    const char* kind() const override { return "engine configuration"; }

    BuildOptions build_options() const;
    int64_t workspace_size() const;  // bytes

    std::shared_ptr<EngineDescriptor> engine;
    std::vector<std::shared_ptr<KnobChoiceDescriptor>> knobs;

protected:
    void on_finalize() override;
};

class HeuristicsDescriptor : public Descriptor {
public:
    HeuristicsDescriptor();
    const char* kind() const override { return "engine heuristics"; }

    std::shared_ptr<GraphDescriptor> graph;
    hipdnnBackendHeurMode_t mode = HIPDNN_HEUR_MODE_FALLBACK;
    bool find_first = false;
    std::vector<int64_t> policy_order;
    std::vector<backend::LoadedEngine> results;  // best first

protected:
    hipdnnStatus_t unfinalized_status() const override {
        return HIPDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
    }
    void on_finalize() override;
};

}  // namespace raggeddnn::c_api
