#include "raggeddnn/backend/c_api/plan_descriptors.hpp"

#include <algorithm>
#include <unordered_set>

#include "raggeddnn/backend/c_api/fields.hpp"
#include "raggeddnn/schema/json.hpp"

namespace raggeddnn::c_api {

namespace {

const ExecutionPlan& plan_of(const Descriptor& descriptor) {
    return *static_cast<const PlanDescriptor&>(descriptor).plan;
}

// hipDNN keeps the attribute for old callers; a plan's handle is its graph's.
void check_handle(Descriptor&, const Input& input) { resolve(input.one<hipdnnHandle_t>()); }

void get_workspace_size(const Descriptor& descriptor, const Output& output) {
    output.put_one(static_cast<int64_t>(plan_of(descriptor).workspace_size()));
}

void get_json(const Descriptor& descriptor, const Output& output) {
    const std::vector<uint8_t> bytes = plan_of(descriptor).serialize();
    output.put_text(schema::plan_to_json(schema::PlanBlob::read(bytes).plan()));
}

void get_uids(const Descriptor& descriptor, const Output& output) {
    std::vector<int64_t> uids;
    for (const auto& [uid, tensor] : plan_of(descriptor).tensors()) {
        if (!tensor.is_virtual) uids.push_back(uid);
    }
    std::sort(uids.begin(), uids.end());
    output.put_many(uids);
}

void get_engine_id(const Descriptor& descriptor, const Output& output) {
    output.put_one(plan_of(descriptor).engine_id());
}

void get_is_override_shape_enabled(const Descriptor& descriptor, const Output& output) {
    Codec<bool>::write(plan_of(descriptor).is_override_shape_enabled(), output);
}

constexpr Attribute PLAN_ROWS[] = {
    {RAGGEDDNN_ATTRIBUTE(EXECUTION_PLAN_HANDLE), HIPDNN_TYPE_HANDLE, check_handle, nullptr},
    reference<&PlanDescriptor::config>(RAGGEDDNN_ATTRIBUTE(EXECUTION_PLAN_ENGINE_CONFIG),
                                       Need::REQUIRED),
    {RAGGEDDNN_ATTRIBUTE(EXECUTION_PLAN_WORKSPACE_SIZE), HIPDNN_TYPE_INT64, nullptr,
     get_workspace_size},
    {RAGGEDDNN_ATTRIBUTE(EXECUTION_PLAN_JSON_REPRESENTATION), HIPDNN_TYPE_CHAR, nullptr, get_json},
    {RAGGEDDNN_ATTRIBUTE(EXECUTION_PLAN_TENSOR_UIDS_EXT), HIPDNN_TYPE_INT64, nullptr, get_uids},
    {RAGGEDDNN_ATTRIBUTE(EXECUTION_PLAN_ENGINE_GLOBAL_INDEX_EXT), HIPDNN_TYPE_INT64, nullptr,
     get_engine_id},
    {RAGGEDDNN_ATTRIBUTE(EXECUTION_PLAN_IS_OVERRIDE_SHAPE_ENABLED_EXT), HIPDNN_TYPE_BOOLEAN,
     nullptr, get_is_override_shape_enabled},
};

using Pack = VariantPackDescriptor;

constexpr Attribute PACK_ROWS[] = {
    field<&Pack::uids>(RAGGEDDNN_ATTRIBUTE(VARIANT_PACK_UNIQUE_IDS), Need::REQUIRED),
    field<&Pack::pointers>(RAGGEDDNN_ATTRIBUTE(VARIANT_PACK_DATA_POINTERS), Need::REQUIRED),
    field<&Pack::workspace>(RAGGEDDNN_ATTRIBUTE(VARIANT_PACK_WORKSPACE)),
    field<&Pack::override_uids>(RAGGEDDNN_ATTRIBUTE(VARIANT_PACK_OVERRIDE_UNIQUE_IDS_EXT)),
    field<&Pack::override_shapes>(RAGGEDDNN_ATTRIBUTE(VARIANT_PACK_OVERRIDE_SHAPES_EXT)),
    field<&Pack::override_strides>(RAGGEDDNN_ATTRIBUTE(VARIANT_PACK_OVERRIDE_STRIDES_EXT)),
    field<&Pack::override_lengths>(RAGGEDDNN_ATTRIBUTE(VARIANT_PACK_OVERRIDE_LENGTHS_EXT)),
};

}  // namespace

PlanDescriptor::PlanDescriptor()
    : Descriptor(HIPDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, PLAN_ROWS) {}

std::shared_ptr<PlanDescriptor> PlanDescriptor::received(
    std::shared_ptr<const ExecutionPlan> plan) {
    auto descriptor = std::make_shared<PlanDescriptor>();
    descriptor->plan = std::move(plan);
    descriptor->mark_final();
    return descriptor;
}

void PlanDescriptor::on_finalize() {
    const GraphDescriptor& graph = *config->engine->graph;
    plan = ExecutionPlan::build(graph.blob(), graph.handle(), config->build_options());
}

VariantPackDescriptor::VariantPackDescriptor()
    : Descriptor(HIPDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, PACK_ROWS) {}

void VariantPackDescriptor::on_finalize() {
    if (uids.size() != pointers.size()) {
        bad_param("variant pack has ", uids.size(), " VARIANT_PACK_UNIQUE_IDS and ",
                  pointers.size(), " VARIANT_PACK_DATA_POINTERS, expected as many");
    }
    check_overrides();
}

void VariantPackDescriptor::check_overrides() const {
    if (override_lengths.size() != override_uids.size()) {
        bad_param("variant pack has ", override_uids.size(), " OVERRIDE_UNIQUE_IDS and ",
                  override_lengths.size(), " OVERRIDE_LENGTHS, expected as many");
    }
    int64_t total = 0;
    std::unordered_set<int64_t> seen;
    for (size_t i = 0; i < override_uids.size(); ++i) {
        if (override_lengths[i] < 1 || override_lengths[i] > MAX_RANK) {
            bad_param("variant pack: OVERRIDE_LENGTHS[", i, "] is ", override_lengths[i],
                      ", expected 1 to ", MAX_RANK);
        }
        total += override_lengths[i];
        if (!seen.insert(override_uids[i]).second) {
            bad_param("variant pack: OVERRIDE_UNIQUE_IDS has uid ", override_uids[i],
                      " twice, expected once");
        }
        if (std::find(uids.begin(), uids.end(), override_uids[i]) == uids.end()) {
            bad_param("variant pack: OVERRIDE_UNIQUE_IDS has uid ", override_uids[i],
                      ", expected one of VARIANT_PACK_UNIQUE_IDS");
        }
    }
    const auto expected = static_cast<size_t>(total);
    if (override_shapes.size() != expected || override_strides.size() != expected) {
        bad_param("variant pack has ", override_shapes.size(), " OVERRIDE_SHAPES and ",
                  override_strides.size(), " OVERRIDE_STRIDES, expected ", expected,
                  " of each, the sum of OVERRIDE_LENGTHS");
    }
}

std::vector<Binding> VariantPackDescriptor::bindings() const {
    std::vector<Binding> bindings(uids.size());
    for (size_t i = 0; i < uids.size(); ++i) bindings[i] = {uids[i], pointers[i]};
    return bindings;
}

std::vector<ShapeOverride> VariantPackDescriptor::overrides() const {
    std::vector<ShapeOverride> overrides;
    auto shape = override_shapes.begin();
    auto stride = override_strides.begin();
    for (size_t i = 0; i < override_uids.size(); ++i) {
        const int64_t rank = override_lengths[i];
        overrides.push_back({override_uids[i], {shape, shape + rank}, {stride, stride + rank}});
        shape += rank;
        stride += rank;
    }
    return overrides;
}

}  // namespace raggeddnn::c_api
