#include "raggeddnn/backend/c_api/engine_descriptors.hpp"

#include <algorithm>

#include "raggeddnn/backend/c_api/fields.hpp"
#include "raggeddnn/backend/c_api/policy.hpp"

namespace raggeddnn::c_api {

namespace {

// Bytes of a plugin, given back when done.
class PluginDetails {
public:
    PluginDetails(const EngineDescriptor& engine, hipdnnHandle& handle)
        : library_(*engine.engine.library), handle_(handle.plugin_handle(engine.engine.library)) {
        const auto blob = engine.graph->blob();
        const hipdnnPluginConstData_t graph{blob->bytes().data(), blob->bytes().size()};
        library_.check(
            library_.call().get_engine_details(handle_->get(), engine.id, &graph, &data_),
            "hipdnnEnginePluginGetEngineDetails");
    }
    ~PluginDetails() { library_.call().destroy_engine_details(handle_->get(), &data_); }
    PluginDetails(const PluginDetails&) = delete;
    PluginDetails& operator=(const PluginDetails&) = delete;

    std::span<const uint8_t> bytes() const {
        return {static_cast<const uint8_t*>(data_.ptr), data_.ptr ? data_.size : 0};
    }

private:
    const backend::PluginLibrary& library_;
    std::shared_ptr<backend::PluginHandle> handle_;
    hipdnnPluginConstData_t data_{};
};

const EngineDescriptor& engine_of(const Descriptor& descriptor) {
    return static_cast<const EngineDescriptor&>(descriptor);
}

void get_knob_infos(const Descriptor& descriptor, const Output& output) {
    std::vector<DescriptorPtr> infos;
    for (const auto& knob : engine_of(descriptor).details().knobs) {
        infos.push_back(KnobInfoDescriptor::of_engine(*knob));
    }
    output.put_descriptors(infos);
}

void get_knob_bytes(const Descriptor& descriptor, const Output& output) {
    std::vector<hipdnnBackendFlatbufferData_t> knobs;
    for (const auto& bytes : engine_of(descriptor).knob_bytes()) {
        knobs.push_back({bytes.data(), bytes.size()});
    }
    output.put_many(knobs);
}

void get_notes(const Descriptor& descriptor, const Output& output) {
    output.put_many(engine_of(descriptor).details().behavior_notes);
}

void get_name(const Descriptor& descriptor, const Output& output) {
    output.put_text(engine_of(descriptor).engine.info.name);
}

constexpr Attribute ENGINE_ROWS[] = {
    reference<&EngineDescriptor::graph>(RAGGEDDNN_ATTRIBUTE(ENGINE_OPERATION_GRAPH),
                                        Need::REQUIRED),
    field<&EngineDescriptor::id>(RAGGEDDNN_ATTRIBUTE(ENGINE_GLOBAL_INDEX), Need::REQUIRED),
    {RAGGEDDNN_ATTRIBUTE(ENGINE_KNOB_INFO), HIPDNN_TYPE_BACKEND_DESCRIPTOR, nullptr,
     get_knob_infos},
    {RAGGEDDNN_ATTRIBUTE(ENGINE_BEHAVIOR_NOTE), HIPDNN_TYPE_BEHAVIOR_NOTE, nullptr, get_notes},
    {RAGGEDDNN_ATTRIBUTE(ENGINE_NAME_EXT), HIPDNN_TYPE_CHAR, nullptr, get_name},
    {RAGGEDDNN_ATTRIBUTE(KNOB_INFO_SERIALIZED_VALUE), HIPDNN_TYPE_FLATBUFFER_DATA_STRUCT_EXT,
     nullptr, get_knob_bytes},
};

// ---- configuration ----

using Knobs = std::vector<std::shared_ptr<KnobChoiceDescriptor>>;

// Appends, as several calls may name several knobs.
void add_knobs(Descriptor& descriptor, const Input& input) {
    Knobs added;
    for (const DescriptorPtr& given : input.descriptors()) {
        added.push_back(as<KnobChoiceDescriptor>(given, input.row, "knob choices"));
    }
    Knobs& knobs = static_cast<EngineConfigDescriptor&>(descriptor).knobs;
    knobs.insert(knobs.end(), added.begin(), added.end());
}

void get_knobs(const Descriptor& descriptor, const Output& output) {
    const Knobs& knobs = static_cast<const EngineConfigDescriptor&>(descriptor).knobs;
    output.put_descriptors({knobs.begin(), knobs.end()});
}

void add_knob_bytes(Descriptor& descriptor, const Input& input) {
    Knobs added;
    for (const auto& data : input.many<hipdnnBackendFlatbufferData_t>()) {
        not_null(data.ptr, input.row.label);
        const schema::AlignedBytes bytes({static_cast<const uint8_t*>(data.ptr), data.size});
        flatbuffers::Verifier verifier(bytes.view().data(), bytes.view().size());
        if (!verifier.VerifyBuffer<schema::KnobSetting>(nullptr)) {
            bad_param(input.row.label, " got ", data.size, " bytes that are no knob setting");
        }
        auto choice = std::make_shared<KnobChoiceDescriptor>();
        flatbuffers::GetRoot<schema::KnobSetting>(bytes.view().data())->UnPackTo(&choice->table);
        if (choice->table.knob_id.empty() || !choice->table.value.value) {
            bad_param(input.row.label, " got a knob setting that lacks a knob or a value");
        }
        added.push_back(std::move(choice));
    }
    Knobs& knobs = static_cast<EngineConfigDescriptor&>(descriptor).knobs;
    knobs.insert(knobs.end(), added.begin(), added.end());
}

void get_workspace_size(const Descriptor& descriptor, const Output& output) {
    output.put_one(static_cast<const EngineConfigDescriptor&>(descriptor).workspace_size());
}

constexpr Attribute CONFIG_ROWS[] = {
    reference<&EngineConfigDescriptor::engine>(RAGGEDDNN_ATTRIBUTE(ENGINECFG_ENGINE)),
    {RAGGEDDNN_ATTRIBUTE(ENGINECFG_KNOB_CHOICES), HIPDNN_TYPE_BACKEND_DESCRIPTOR, add_knobs,
     get_knobs},
    {RAGGEDDNN_ATTRIBUTE(ENGINECFG_WORKSPACE_SIZE), HIPDNN_TYPE_INT64, nullptr, get_workspace_size},
    {RAGGEDDNN_ATTRIBUTE(KNOB_CHOICE_SERIALIZED_VALUE), HIPDNN_TYPE_FLATBUFFER_DATA_STRUCT_EXT,
     add_knob_bytes, nullptr},
};

// ---- heuristics ----

void set_mode(Descriptor& descriptor, const Input& input) {
    const auto mode = input.one<int32_t>();
    if (mode != HIPDNN_HEUR_MODE_FALLBACK) {
        refuse(HIPDNN_STATUS_NOT_SUPPORTED, input.row.label, " got ", mode,
               ", expected 0 (FALLBACK)");
    }
    static_cast<HeuristicsDescriptor&>(descriptor).mode = HIPDNN_HEUR_MODE_FALLBACK;
}

void set_policies(Descriptor& descriptor, const Input& input) {
    std::vector<int64_t> order = input.many<int64_t>();
    for (const int64_t id : order) {
        if (id != POLICY_ID && id != CONFIG_POLICY_ID) {
            refuse(HIPDNN_STATUS_NOT_SUPPORTED, input.row.label, " got policy ", id, ", expected ",
                   POLICY_ID, " (", POLICY_NAME, ")");
        }
    }
    static_cast<HeuristicsDescriptor&>(descriptor).policy_order = std::move(order);
}

// Turns the caller's configuration descriptors into the results.
void get_results(const Descriptor& descriptor, const Output& output) {
    const auto& heuristics = static_cast<const HeuristicsDescriptor&>(descriptor);
    if (output.is_question()) return output.answer(heuristics.results.size());
    const size_t size = std::min(heuristics.results.size(), static_cast<size_t>(output.requested));
    auto* references = static_cast<hipdnnBackendDescriptor_t*>(output.data);
    for (size_t i = 0; i < size; ++i) {
        if (!references[i]) continue;
        const DescriptorPtr given = resolve(references[i], output.row.label);
        as<EngineConfigDescriptor>(given, output.row, "engine configurations to fill, or null");
    }
    for (size_t i = 0; i < size; ++i) {
        auto config = std::make_shared<EngineConfigDescriptor>();
        config->engine = EngineDescriptor::applicable(heuristics.graph, heuristics.results[i]);
        if (references[i]) {
            rebind(references[i], std::move(config));
        } else {
            references[i] = new_reference(std::move(config));
        }
    }
    if (output.count) *output.count = static_cast<int64_t>(size);
}

constexpr Attribute HEURISTICS_ROWS[] = {
    {RAGGEDDNN_ATTRIBUTE(ENGINEHEUR_MODE), HIPDNN_TYPE_HEUR_MODE, set_mode,
     get_field<&HeuristicsDescriptor::mode>, Need::REQUIRED},
    reference<&HeuristicsDescriptor::graph>(RAGGEDDNN_ATTRIBUTE(ENGINEHEUR_OPERATION_GRAPH),
                                            Need::REQUIRED),
    {RAGGEDDNN_ATTRIBUTE(ENGINEHEUR_RESULTS), HIPDNN_TYPE_BACKEND_DESCRIPTOR, nullptr, get_results},
    field<&HeuristicsDescriptor::find_first>(RAGGEDDNN_ATTRIBUTE(ENGINEHEUR_FIND_FIRST_EXT)),
    {RAGGEDDNN_ATTRIBUTE(ENGINEHEUR_POLICY_ORDER_EXT), HIPDNN_TYPE_INT64, set_policies,
     get_field<&HeuristicsDescriptor::policy_order>},
};

}  // namespace

EngineDescriptor::EngineDescriptor() : Descriptor(HIPDNN_BACKEND_ENGINE_DESCRIPTOR, ENGINE_ROWS) {}

std::shared_ptr<EngineDescriptor> EngineDescriptor::applicable(
    std::shared_ptr<GraphDescriptor> graph, backend::LoadedEngine engine) {
    auto descriptor = std::make_shared<EngineDescriptor>();
    descriptor->graph = std::move(graph);
    descriptor->id = engine.info.id;
    descriptor->engine = std::move(engine);
    descriptor->mark_final();
    return descriptor;
}

void EngineDescriptor::on_finalize() {
    for (const backend::Candidate& candidate : backend::examine(*graph->blob(), graph->handle())) {
        if (candidate.engine.info.id != id) continue;
        if (!candidate.verdict.applicable) {
            refuse(HIPDNN_STATUS_NOT_SUPPORTED, "engine ", candidate.verdict.engine,
                   " cannot run the graph: ", candidate.verdict.reason);
        }
        engine = candidate.engine;
        return;
    }
    bad_param("ENGINE_GLOBAL_INDEX is ", id, ", expected the id of a loaded engine");
}

const schema::EngineDetailsT& EngineDescriptor::details() const {
    if (!details_) {
        const PluginDetails received(*this, graph->handle());
        const schema::EngineDetailsBlob blob = schema::EngineDetailsBlob::read(received.bytes());
        details_ = std::make_unique<schema::EngineDetailsT>();
        blob.details().UnPackTo(details_.get());
    }
    return *details_;
}

const std::vector<std::vector<uint8_t>>& EngineDescriptor::knob_bytes() const {
    if (knob_bytes_.empty()) {
        for (const auto& knob : details().knobs) {
            flatbuffers::FlatBufferBuilder builder;
            builder.Finish(schema::CreateKnob(builder, knob.get()));
            knob_bytes_.emplace_back(builder.GetBufferPointer(),
                                     builder.GetBufferPointer() + builder.GetSize());
        }
    }
    return knob_bytes_;
}

EngineConfigDescriptor::EngineConfigDescriptor()
    : Descriptor(HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR, CONFIG_ROWS) {}

void EngineConfigDescriptor::on_finalize() {
    if (!engine) bad_param("ENGINECFG_ENGINE is not set, expected before finalization");
    build_options();  // refuses a knob that is given twice
}

BuildOptions EngineConfigDescriptor::build_options() const {
    BuildOptions options;
    options.engine = engine->engine.info.name;
    for (const auto& knob : knobs) {
        KnobValue value;
        if (const auto* integer = knob->table.value.AsIntValue()) value = integer->value;
        if (const auto* real = knob->table.value.AsFloatValue()) value = real->value;
        if (const auto* text = knob->table.value.AsStringValue()) value = text->value;
        if (!options.knobs.emplace(knob->table.knob_id, std::move(value)).second) {
            bad_param("ENGINECFG_KNOB_CHOICES has knob '", knob->table.knob_id,
                      "' twice, expected once");
        }
    }
    return options;
}

int64_t EngineConfigDescriptor::workspace_size() const {
    schema::EngineConfigT table;
    table.engine_id = engine->id;
    for (const auto& knob : knobs) {
        table.knobs.push_back(std::make_unique<schema::KnobSettingT>(knob->table));
    }
    flatbuffers::FlatBufferBuilder builder;
    builder.Finish(schema::CreateEngineConfig(builder, &table));
    const auto blob = engine->graph->blob();
    const hipdnnPluginConstData_t config{builder.GetBufferPointer(), builder.GetSize()};
    const hipdnnPluginConstData_t graph{blob->bytes().data(), blob->bytes().size()};
    const backend::PluginLibrary& library = *engine->engine.library;
    const auto& handle = engine->graph->handle().plugin_handle(engine->engine.library);
    size_t bytes = 0;
    library.check(library.call().get_workspace_size(handle->get(), &config, &graph, &bytes),
                  "hipdnnEnginePluginGetWorkspaceSize");
    return static_cast<int64_t>(bytes);
}

HeuristicsDescriptor::HeuristicsDescriptor()
    : Descriptor(HIPDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, HEURISTICS_ROWS) {}

void HeuristicsDescriptor::on_finalize() {
    const auto blob = graph->blob();
    hipdnnHandle& handle = graph->handle();
    const std::vector<backend::Candidate> candidates = backend::examine(*blob, handle);
    results.clear();
    for (const backend::Candidate* candidate : backend::ranked(candidates, blob->graph(), handle)) {
        results.push_back(candidate->engine);
        if (find_first) break;
    }
}

}  // namespace raggeddnn::c_api
