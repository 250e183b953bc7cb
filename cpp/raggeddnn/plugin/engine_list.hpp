// The plugin C ABI in terms of Engine objects; export.hpp puts the exported functions on top.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "raggeddnn/plugin/engine.hpp"

struct hipdnnEnginePluginHandle {
    hipdnnPluginStream_t stream = nullptr;
};

struct hipdnnEnginePluginExecutionContext {
    std::unique_ptr<raggeddnn::plugin::Plan> plan;
    std::string kernel;  // the plan's explanation
    // What the plan was built from, to build it again elsewhere.
    std::vector<uint8_t> engine_config;
    std::vector<uint8_t> graph;
};

namespace raggeddnn::plugin::detail {

// The last error of this thread. Reading it empties it, so that the backend can tell a fresh reason
// from an old one; the text read stays valid until the next read.
class LastError {
public:
    void set(const std::string& text) { copy(current_, text); }
    void append_line(const std::string& text) {
        std::string joined = current_.data();
        if (!joined.empty()) joined += "\n";
        copy(current_, joined + text);
    }
    void clear() { current_[0] = '\0'; }
    const char* take() {
        handed_out_ = current_;
        clear();
        return handed_out_.data();
    }
    static LastError& of_thread() {
        static thread_local LastError error;
        return error;
    }

private:
    using Text = std::array<char, HIPDNN_PLUGIN_ERROR_STRING_MAX_LENGTH>;
    static void copy(Text& to, const std::string& text) {
        const size_t length = std::min(text.size(), to.size() - 1);
        std::memcpy(to.data(), text.data(), length);
        to[length] = '\0';
    }
    Text current_{};
    Text handed_out_{};
};

inline hipdnnPluginStatus_t status_of(ErrorCode code) {
    switch (code) {
        case ErrorCode::OK: return HIPDNN_PLUGIN_STATUS_SUCCESS;
        case ErrorCode::INVALID_VALUE:
        case ErrorCode::ATTRIBUTE_NOT_SET: return HIPDNN_PLUGIN_STATUS_INVALID_VALUE;
        case ErrorCode::NOT_SUPPORTED: return HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE;
        case ErrorCode::ALLOC_FAILED: return HIPDNN_PLUGIN_STATUS_ALLOC_FAILED;
        default: return HIPDNN_PLUGIN_STATUS_INTERNAL_ERROR;
    }
}

inline std::atomic<hipdnnCallback_t>& logging_callback() {
    static std::atomic<hipdnnCallback_t> callback{nullptr};
    return callback;
}

// Keeps the text for GetLastErrorString and tells the host's log.
inline hipdnnPluginStatus_t failed(hipdnnPluginStatus_t status, const char* text) {
    LastError::of_thread().set(text);
    if (const hipdnnCallback_t callback = logging_callback()) callback(HIPDNN_SEV_ERROR, text);
    return status;
}

template <class Body>
hipdnnPluginStatus_t guarded(Body&& body) noexcept {
    LastError::of_thread().clear();
    try {
        return body();
    } catch (const Exception& e) {
        return failed(status_of(e.code()), e.what());
    } catch (const std::bad_alloc&) {
        return failed(HIPDNN_PLUGIN_STATUS_ALLOC_FAILED, "out of memory");
    } catch (const std::exception& e) {
        return failed(HIPDNN_PLUGIN_STATUS_INTERNAL_ERROR, e.what());
    } catch (...) {
        return failed(HIPDNN_PLUGIN_STATUS_INTERNAL_ERROR, "unknown exception");
    }
}

inline hipdnnPluginStatus_t null_argument(const char* function, const char* argument) {
    LastError::of_thread().set(std::string(function) + ": " + argument + " is null");
    return HIPDNN_PLUGIN_STATUS_BAD_PARAM;
}

// The engines of one plugin, and the ABI in terms of them.
class EngineList {
public:
    using Context = hipdnnEnginePluginExecutionContext;

    explicit EngineList(std::vector<std::unique_ptr<Engine>> engines)
        : engines_(std::move(engines)) {
        for (const auto& engine : engines_) extensions_.push_back(engine->extensions());
    }

    hipdnnPluginStatus_t ids(int64_t* ids, uint32_t max, uint32_t* count) const {
        *count = static_cast<uint32_t>(engines_.size());
        for (uint32_t i = 0; ids && i < max && i < *count; ++i)
            ids[i] = engine_id_of(engines_[i]->name());
        return HIPDNN_PLUGIN_STATUS_SUCCESS;
    }

    hipdnnPluginStatus_t applicable(const hipdnnPluginConstData_t& bytes, int64_t* ids,
                                    uint32_t max, uint32_t* count) const {
        const GraphView graph(bytes.ptr, bytes.size);
        *count = 0;
        for (const auto& engine : engines_) {
            if (const auto reason = why_not(*engine, graph)) {
                LastError::of_thread().append_line(std::string(engine->name()) + ": " + *reason);
                continue;
            }
            if (ids && *count < max) ids[*count] = engine_id_of(engine->name());
            ++*count;
        }
        return HIPDNN_PLUGIN_STATUS_SUCCESS;
    }

    const Engine* find(int64_t id) const {
        for (const auto& engine : engines_) {
            if (engine_id_of(engine->name()) == id) return engine.get();
        }
        return nullptr;
    }

    const Engine& at(int64_t id) const {
        const Engine* engine = find(id);
        if (!engine) invalid("no engine of this plugin has id ", id);
        return *engine;
    }

    std::unique_ptr<Context> build(const hipdnnPluginConstData_t& config_bytes,
                                   const hipdnnPluginConstData_t& graph_bytes) const {
        const EngineConfig config(config_bytes.ptr, config_bytes.size);
        const GraphView graph(graph_bytes.ptr, graph_bytes.size);
        const Engine& engine = at(config.engine_id());
        if (const auto reason = engine.why_not(graph)) {
            fail(ErrorCode::NOT_SUPPORTED, engine.name(), ": ", *reason);
        }
        check_knobs(engine, config);
        std::unique_ptr<Plan> plan = engine.build(graph, config);
        std::string kernel = plan->explain_kernel();
        return std::make_unique<Context>(
            Context{std::move(plan), std::move(kernel), copy(config_bytes), copy(graph_bytes)});
    }

    std::vector<uint8_t> save(int64_t id, const Context& context, const char* version) const {
        schema::EnginePayloadT payload;
        payload.engine_config = context.engine_config;
        payload.graph = context.graph;
        payload.kernel_id = context.plan->kernel_id();
        return write_payload(owner(at(id), version), std::move(payload));
    }

    // A payload names its engine; the plan is built again from the graph in it, and must come out
    // with the same kernels.
    std::unique_ptr<Context> restore(const hipdnnPluginConstData_t& data,
                                     const char* version) const {
        const std::span<const uint8_t> bytes(static_cast<const uint8_t*>(data.ptr), data.size);
        const schema::EnginePayloadT payload =
            read_payload([&](int64_t id) { return owner(at(id), version); }, bytes);
        auto context = build({payload.engine_config.data(), payload.engine_config.size()},
                             {payload.graph.data(), payload.graph.size()});
        if (const std::string id = context->plan->kernel_id(); id != payload.kernel_id) {
            fail(ErrorCode::NOT_SUPPORTED, at(payload.engine_id).name(),
                 ": the plan's kernels are '", payload.kernel_id, "', expected '", id, "'");
        }
        return context;
    }

    hipdnnPluginStatus_t traits(int64_t id, raggeddnnEngineTraits_t* traits) const {
        for (size_t i = 0; i < engines_.size(); ++i) {
            if (engine_id_of(engines_[i]->name()) != id) continue;
            raggeddnnEngineTraits_t full{};
            full.device = engines_[i]->device();
            full.priority = engines_[i]->priority();
            full.extension_count = static_cast<uint32_t>(extensions_[i].size());
            full.extensions = extensions_[i].data();
            const size_t size = std::min(traits->struct_size, sizeof(full));
            full.struct_size = size;
            std::memcpy(traits, &full, size);
            return HIPDNN_PLUGIN_STATUS_SUCCESS;
        }
        return HIPDNN_PLUGIN_STATUS_NOT_APPLICABLE;
    }

    hipdnnPluginStatus_t details(int64_t id, hipdnnPluginConstData_t* out) const {
        flatbuffers::FlatBufferBuilder builder;
        schema::EngineDetailsT table;
        table.engine_id = id;
        table.name = at(id).name();
        for (const KnobInfo& info : at(id).knobs()) {
            auto knob = std::make_unique<schema::KnobT>();
            knob->knob_id = info.name;
            knob->description = info.description;
            schema::IntValueT value;
            value.value = info.default_value;
            knob->default_value.Set(std::move(value));
            table.knobs.push_back(std::move(knob));
        }
        builder.Finish(schema::CreateEngineDetails(builder, &table));
        *out = hand_out({builder.GetBufferPointer(), builder.GetSize()});
        return HIPDNN_PLUGIN_STATUS_SUCCESS;
    }

    // Bytes that the host gives back to release().
    static hipdnnPluginConstData_t hand_out(std::span<const uint8_t> bytes) {
        auto* owned = new uint8_t[bytes.size()];
        std::copy(bytes.begin(), bytes.end(), owned);
        return {owned, bytes.size()};
    }
    static void release(hipdnnPluginConstData_t* data) {
        delete[] static_cast<const uint8_t*>(data->ptr);
        *data = {nullptr, 0};
    }

private:
    // An engine that fails to answer declines; the others of the plugin are still asked.
    static std::optional<std::string> why_not(const Engine& engine, const GraphView& graph) {
        try {
            return engine.why_not(graph);
        } catch (const std::exception& e) {
            return message("the engine failed: ", e.what());
        }
    }

    static std::vector<uint8_t> copy(const hipdnnPluginConstData_t& data) {
        const auto* bytes = static_cast<const uint8_t*>(data.ptr);
        return {bytes, bytes + data.size};
    }

    static PayloadOwner owner(const Engine& engine, const char* version) {
        return {engine_id_of(engine.name()), engine.name(), version, engine.target()};
    }

    static void check_knobs(const Engine& engine, const EngineConfig& config) {
        if (!config.table().knobs()) return;
        const std::vector<KnobInfo> known = engine.knobs();
        for (const schema::KnobSetting* setting : *config.table().knobs()) {
            const std::string name = setting->knob_id() ? setting->knob_id()->str() : "";
            const bool is_known = std::any_of(known.begin(), known.end(),
                                              [&](const KnobInfo& k) { return name == k.name; });
            if (!is_known) invalid(engine.name(), " has no knob '", name, "'");
            config.knob(name, 0);  // refuses one that is no integer
        }
    }

    std::vector<std::unique_ptr<Engine>> engines_;
    std::vector<std::vector<const char*>> extensions_;
};

struct PluginIdentity {
    const char* name;
    const char* version;
    EngineList engines;
};

// Defined by RAGGEDDNN_ENGINE_PLUGIN.
const PluginIdentity& this_plugin();

template <class... Engines>
EngineList make_engine_list() {
    std::vector<std::unique_ptr<Engine>> engines;
    (engines.push_back(std::make_unique<Engines>()), ...);
    return EngineList(std::move(engines));
}

}  // namespace raggeddnn::plugin::detail
