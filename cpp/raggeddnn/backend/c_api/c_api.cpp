// The exported functions for handles, descriptors, execution and errors.
#include "raggeddnn/backend/c_api/plan_descriptors.hpp"
#include "raggeddnn/backend/handle.hpp"

namespace raggeddnn::c_api {

namespace {

DescriptorPtr create(hipdnnBackendDescriptorType_t type) {
    if (const Operation* operation = find_operation(type)) {
        return std::make_shared<OperationDescriptor>(*operation);
    }
    switch (static_cast<int>(type)) {
        case HIPDNN_BACKEND_TENSOR_DESCRIPTOR: return std::make_shared<TensorDescriptor>();
        case HIPDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR: return std::make_shared<GraphDescriptor>();
        case HIPDNN_BACKEND_ENGINE_DESCRIPTOR: return std::make_shared<EngineDescriptor>();
        case HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR: return std::make_shared<EngineConfigDescriptor>();
        case HIPDNN_BACKEND_ENGINEHEUR_DESCRIPTOR: return std::make_shared<HeuristicsDescriptor>();
        case HIPDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR: return std::make_shared<PlanDescriptor>();
        case HIPDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
            return std::make_shared<VariantPackDescriptor>();
        case HIPDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR: return std::make_shared<KnobChoiceDescriptor>();
        case HIPDNN_BACKEND_KNOB_INFO_DESCRIPTOR: return std::make_shared<KnobInfoDescriptor>();
        default:
            refuse(HIPDNN_STATUS_NOT_SUPPORTED, "descriptor type ", static_cast<int>(type),
                   " is not implemented");
    }
}

template <class T>
std::shared_ptr<T> final_of(hipdnnBackendDescriptor_t reference, const char* what,
                            const char* expected) {
    const DescriptorPtr descriptor = resolve(reference, what);
    auto concrete = std::dynamic_pointer_cast<T>(descriptor);
    if (!concrete) {
        bad_param(what, " got a ", descriptor->kind(), " descriptor, expected ", expected);
    }
    if (!concrete->is_final()) {
        refuse(HIPDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "the ", concrete->kind(),
               " descriptor is not final, expected a final one");
    }
    return concrete;
}

void execute(hipdnnHandle_t handle, hipdnnBackendDescriptor_t plan_reference,
             hipdnnBackendDescriptor_t pack_reference) {
    hipdnnHandle& live = resolve(handle);
    const auto plan =
        final_of<PlanDescriptor>(plan_reference, "execution_plan", "an execution plan");
    const auto pack =
        final_of<VariantPackDescriptor>(pack_reference, "variant_pack", "a variant pack");
    const std::vector<Binding> bindings = pack->bindings();
    const std::vector<ShapeOverride> overrides = pack->overrides();
    plan->plan->execute(live, bindings, pack->workspace, overrides);
}

}  // namespace

}  // namespace raggeddnn::c_api

using namespace raggeddnn::c_api;

extern "C" {

hipdnnStatus_t hipdnnCreate(hipdnnHandle_t* handle) {
    return guarded(__func__, [&] { *not_null(handle, "handle") = new_handle(); });
}

hipdnnStatus_t hipdnnDestroy(hipdnnHandle_t handle) {
    return guarded(__func__, [&] { destroy_handle(handle); });
}

hipdnnStatus_t hipdnnSetStream(hipdnnHandle_t handle, hipStream_t stream) {
    return guarded(__func__, [&] { resolve(handle).set_stream(stream); });
}

hipdnnStatus_t hipdnnGetStream(hipdnnHandle_t handle, hipStream_t* stream) {
    return guarded(__func__, [&] {
        hipdnnHandle& live = resolve(handle);
        *not_null(stream, "stream") = static_cast<hipStream_t>(live.stream());
    });
}

hipdnnStatus_t hipdnnBackendCreateDescriptor(hipdnnBackendDescriptorType_t descriptor_type,
                                             hipdnnBackendDescriptor_t* descriptor) {
    return guarded(__func__, [&] {
        not_null(descriptor, "descriptor");
        *descriptor = new_reference(create(descriptor_type));
    });
}

hipdnnStatus_t hipdnnBackendDestroyDescriptor(hipdnnBackendDescriptor_t descriptor) {
    return guarded(__func__, [&] { destroy_reference(descriptor); });
}

hipdnnStatus_t hipdnnBackendFinalize(hipdnnBackendDescriptor_t descriptor) {
    return guarded(__func__, [&] { resolve(descriptor, "descriptor")->finalize(); });
}

hipdnnStatus_t hipdnnBackendSetAttribute(hipdnnBackendDescriptor_t descriptor,
                                         hipdnnBackendAttributeName_t name,
                                         hipdnnBackendAttributeType_t type, int64_t element_count,
                                         const void* elements) {
    return guarded(__func__, [&] {
        resolve(descriptor, "descriptor")->set(name, type, element_count, elements);
    });
}

hipdnnStatus_t hipdnnBackendGetAttribute(hipdnnBackendDescriptor_t descriptor,
                                         hipdnnBackendAttributeName_t name,
                                         hipdnnBackendAttributeType_t type, int64_t requested_count,
                                         int64_t* element_count, void* elements) {
    return guarded(__func__, [&] {
        resolve(descriptor, "descriptor")
            ->get(name, type, requested_count, element_count, elements);
    });
}

hipdnnStatus_t hipdnnBackendExecute(hipdnnHandle_t handle, hipdnnBackendDescriptor_t execution_plan,
                                    hipdnnBackendDescriptor_t variant_pack) {
    return guarded(__func__, [&] { execute(handle, execution_plan, variant_pack); });
}

const char* hipdnnGetErrorString(hipdnnStatus_t status) { return status_name(status); }

void hipdnnGetLastErrorString(char* message, size_t max_size) {
    copy_last_error(message, max_size, true);
}

void hipdnnPeekLastErrorString_ext(char* message, size_t max_size) {
    copy_last_error(message, max_size, false);
}

const char* hipdnnVersionString_ext(void) { return RAGGEDDNN_VERSION ".0"; }

hipdnnStatus_t hipdnnGetVersion_ext(const char** version) {
    return guarded(__func__, [&] { *not_null(version, "version") = hipdnnVersionString_ext(); });
}

}  // extern "C"
