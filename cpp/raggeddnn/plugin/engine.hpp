// The C++ veneer over the plugin C ABI: an engine is a class with a name, `why_not` and `build`.
// `raggeddnn/plugin/export.hpp` gives the plugin every exported function and turns exceptions into
// statuses.
//
//     struct MyEngine : raggeddnn::plugin::Engine {
//         const char* name() const override { return "MY_ENGINE"; }
//         std::optional<std::string> why_not(const GraphView& graph) const override;
//         std::unique_ptr<Plan> build(const GraphView& graph, const EngineConfig& config) const
//         override;
//     };
//
// Header-only: a provider compiles it with its own compiler and FlatBuffers.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "raggeddnn/plugin/api_version.hpp"
#include "raggeddnn/plugin/buffers.hpp"
#include "raggeddnn/plugin/engine_plugin_api.h"
#include "raggeddnn/plugin/payload.hpp"
#include "raggeddnn/schema/engine_generated.h"
#include "raggeddnn/schema/graph_view.hpp"
#include "raggeddnn/tensor/shape_override.hpp"

namespace raggeddnn::plugin {

using schema::GraphView;
using schema::TensorView;

// The engine chosen and its knobs; the bytes belong to the caller.
class EngineConfig {
public:
    EngineConfig(const void* data, size_t size) {
        flatbuffers::Verifier verifier(static_cast<const uint8_t*>(data), size);
        if (!data || !verifier.VerifyBuffer<schema::EngineConfig>(nullptr)) {
            invalid("engine config: ", size, " bytes are no valid engine config");
        }
        table_ = flatbuffers::GetRoot<schema::EngineConfig>(data);
    }
    int64_t engine_id() const { return table_->engine_id(); }
    const schema::EngineConfig& table() const { return *table_; }

    // The integer setting of a knob, else `fallback`. Booleans are 0 and 1.
    int64_t knob(std::string_view name, int64_t fallback) const {
        if (!table_->knobs()) return fallback;
        for (const schema::KnobSetting* setting : *table_->knobs()) {
            if (!setting->knob_id() || setting->knob_id()->string_view() != name) continue;
            const schema::IntValue* value = setting->value_as_IntValue();
            if (!value) invalid("knob '", name, "' is no integer, expected one");
            return value->value();
        }
        return fallback;
    }

private:
    const schema::EngineConfig* table_ = nullptr;
};

struct ExecuteArgs {
    const Buffers& buffers;
    void* workspace = nullptr;
    hipdnnPluginStream_t stream = nullptr;
    // Outputs to clear where no block covers them; empty for a plan that does not.
    std::span<const raggeddnnClearedOutput_t> cleared = {};
};

// A graph compiled for one engine. Immutable: `execute` runs from several threads at once.
class Plan {
public:
    virtual ~Plan() = default;
    virtual size_t workspace_size() const { return 0; }  // bytes
    // Which kernels it runs, their tile sizes, and why these; for people.
    virtual std::string explain_kernel() const { return {}; }
    // The kernels chosen, by what sets them apart; a saved plan that would be built with others is
    // refused.
    virtual std::string kernel_id() const { return {}; }
    virtual void execute(const ExecuteArgs& args) const = 0;
    // What was wrong with the offsets and lengths of the last execute with this workspace, as one
    // sentence; may wait for the stream. For engines that cannot check them before they run; one
    // that refuses them has nothing to report.
    virtual std::optional<std::string> report_faults(const void*, hipdnnPluginStream_t) const {
        return std::nullopt;
    }
    // Whether execute() heeds what it is to clear.
    virtual bool clears_outputs() const { return false; }
    // For graphs with overridable shapes, which an engine that does not override this must refuse.
    virtual void execute_with_overrides(const ExecuteArgs&,
                                        std::span<const ShapeOverride> overrides) const {
        fail(ErrorCode::NOT_SUPPORTED, "execute got ", overrides.size(),
             " shape overrides, expected none: this engine's shapes are fixed");
    }
};

// A setting of an engine, an integer.
struct KnobInfo {
    const char* name;
    const char* description;
    int64_t default_value;
};

class Engine {
public:
    virtual ~Engine() = default;
    virtual const char* name() const = 0;
    // Why this engine cannot run the graph, as one sentence; nothing when it can. An attribute that
    // the engine does not read is a reason.
    virtual std::optional<std::string> why_not(const GraphView& graph) const = 0;
    virtual std::unique_ptr<Plan> build(const GraphView& graph,
                                        const EngineConfig& config) const = 0;

    // Why it can run no graph in this process as things are, as one sentence; nothing when it can.
    virtual std::optional<std::string> why_unavailable() const { return std::nullopt; }
    // Where its buffers live: "cpu", "hip", "cuda"; empty: unstated.
    virtual const char* device() const { return "cpu"; }
    // The higher is preferred among applicable engines.
    virtual int32_t priority() const { return 0; }
    // Extensions of the wire format that it understands.
    virtual std::vector<const char*> extensions() const { return {}; }
    // Its settings; any other one is refused.
    virtual std::vector<KnobInfo> knobs() const { return {}; }
    // What a saved plan is tied to.
    virtual std::string target() const {
        return std::string(device()) + "/" + machine_architecture();
    }
};

}  // namespace raggeddnn::plugin
