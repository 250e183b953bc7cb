/* Everything that a caller can get wrong, and what it is answered: a status, a sentence that names
 * the attribute, what was got and what was expected, and never a crash. */
#include "check.h"

static hipdnnHandle_t handle;

static void null_pointers(void) {
    descriptor_t tensor = create(HIPDNN_BACKEND_TENSOR_DESCRIPTOR);
    const int64_t one = 1;
    int64_t count = 0;
    int flags = 0;
    size_t size = 0;
    EXPECT(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, hipdnnCreate(NULL));
    ERROR_NAMES("hipdnnCreate: handle is null");
    EXPECT(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, hipdnnDestroy(NULL));
    EXPECT(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, hipdnnSetStream(NULL, NULL));
    EXPECT(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, hipdnnGetStream(handle, NULL));
    EXPECT(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER,
           hipdnnBackendCreateDescriptor(HIPDNN_BACKEND_TENSOR_DESCRIPTOR, NULL));
    EXPECT(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, hipdnnBackendDestroyDescriptor(NULL));
    EXPECT(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, hipdnnBackendFinalize(NULL));
    EXPECT(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER,
           set(NULL, HIPDNN_ATTR_TENSOR_UNIQUE_ID, HIPDNN_TYPE_INT64, 1, &one));
    EXPECT(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER,
           set(tensor, HIPDNN_ATTR_TENSOR_UNIQUE_ID, HIPDNN_TYPE_INT64, 1, NULL));
    ERROR_NAMES("TENSOR_UNIQUE_ID is null");
    EXPECT(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER,
           get(NULL, HIPDNN_ATTR_TENSOR_UNIQUE_ID, HIPDNN_TYPE_INT64, 1, &count, &count));
    EXPECT(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, hipdnnBackendExecute(NULL, NULL, NULL));
    EXPECT(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, hipdnnBackendExecute(handle, NULL, NULL));
    EXPECT(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER,
           hipdnnBackendCreateAndDeserializeGraph_ext(NULL, NULL, 0));
    EXPECT(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER,
           hipdnnBackendCreateAndDeserializeGraph_ext(&tensor, NULL, 4));
    EXPECT(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER,
           hipdnnBackendGetSerializedBinaryGraph_ext(NULL, 0, &size, NULL));
    EXPECT(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER,
           hipdnnBackendGetSerializedBinaryContents_ext(NULL, 4, &flags));
    EXPECT(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, hipdnnGetVersion_ext(NULL));
    EXPECT(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, hipdnnGetEngineCount_ext(handle, NULL));
    EXPECT(HIPDNN_STATUS_BAD_PARAM, hipdnnBackendGetGlobalLogLevel_ext(NULL));
    hipdnnGetLastErrorString(NULL, 10);
    hipdnnPeekLastErrorString_ext(NULL, 0);
    destroy(tensor);
}

static void stale_pointers(void) {
    hipdnnHandle_t gone_handle = NULL;
    descriptor_t gone = create(HIPDNN_BACKEND_TENSOR_DESCRIPTOR);
    const descriptor_t kept = gone;
    descriptor_t foreign = (descriptor_t)(void*)&gone_handle;
    destroy(gone);
    EXPECT(HIPDNN_STATUS_BAD_PARAM, hipdnnBackendDestroyDescriptor(kept));
    ERROR_NAMES("destroyed");
    EXPECT(HIPDNN_STATUS_BAD_PARAM, hipdnnBackendFinalize(foreign));
    OK(hipdnnCreate(&gone_handle));
    OK(hipdnnDestroy(gone_handle));
    EXPECT(HIPDNN_STATUS_BAD_PARAM, hipdnnDestroy(gone_handle));
    EXPECT(HIPDNN_STATUS_BAD_PARAM, hipdnnBackendExecute(gone_handle, kept, kept));
}

static void wrong_descriptor_types(void) {
    const int types[] = {-1, 0, 5, 8, 9, 12, 13, 15, 35, 100000};
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); ++i) {
        descriptor_t descriptor = NULL;
        EXPECT(HIPDNN_STATUS_NOT_SUPPORTED,
               hipdnnBackendCreateDescriptor((hipdnnBackendDescriptorType_t)types[i], &descriptor));
        CHECK(descriptor == NULL);
    }
    descriptor_t tensor = final(new_scalar(1, HIPDNN_DATA_FLOAT));
    descriptor_t graph = create(HIPDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    descriptor_t config = create(HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    descriptor_t copy = NULL;
    size_t size = 0;
    EXPECT(HIPDNN_STATUS_NOT_SUPPORTED,
           set(graph, HIPDNN_ATTR_OPERATIONGRAPH_OPS, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 1, &tensor));
    ERROR_NAMES("OPERATIONGRAPH_OPS got a tensor descriptor, expected operations");
    EXPECT(HIPDNN_STATUS_BAD_PARAM,
           set(config, HIPDNN_ATTR_ENGINECFG_ENGINE, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 1, &tensor));
    ERROR_NAMES("ENGINECFG_ENGINE got a tensor descriptor, expected an engine");
    EXPECT(HIPDNN_STATUS_BAD_PARAM, hipdnnBackendExecute(handle, tensor, tensor));
    EXPECT(HIPDNN_STATUS_BAD_PARAM,
           hipdnnBackendGetSerializedBinaryGraph_ext(tensor, 0, &size, NULL));
    EXPECT(HIPDNN_STATUS_BAD_PARAM,
           hipdnnBackendGetSerializedExecutionPlan_ext(graph, 0, &size, NULL));
    EXPECT(HIPDNN_STATUS_BAD_PARAM,
           hipdnnBackendGetSerializedBinaryGraphAndPlan_ext(graph, tensor, 0, &size, NULL));
    EXPECT(HIPDNN_STATUS_BAD_PARAM, hipdnnBackendCreateAndDeserializeGraph_ext(
                                        &copy, (const uint8_t*)"rubbish rubbish", 15));
    EXPECT(HIPDNN_STATUS_BAD_PARAM,
           hipdnnBackendCreateAndDeserializeGraph_ext(&copy, (const uint8_t*)"short", 0));
    CHECK(copy == NULL);
    destroy(config);
    destroy(graph);
    destroy(tensor);
}

static void order_of_calls(void) {
    const int64_t uid = 7;
    int64_t value = 0;
    descriptor_t tensor = new_scalar(7, HIPDNN_DATA_FLOAT);
    descriptor_t matmul = create(HIPDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    EXPECT(HIPDNN_STATUS_NOT_INITIALIZED,
           get(tensor, HIPDNN_ATTR_TENSOR_UNIQUE_ID, HIPDNN_TYPE_INT64, 1, NULL, &value));
    EXPECT(HIPDNN_STATUS_BAD_PARAM_NOT_FINALIZED, set(matmul, HIPDNN_ATTR_OPERATION_MATMUL_ADESC,
                                                      HIPDNN_TYPE_BACKEND_DESCRIPTOR, 1, &tensor));
    ERROR_NAMES("OPERATION_MATMUL_ADESC");
    EXPECT(HIPDNN_STATUS_BAD_PARAM, hipdnnBackendFinalize(matmul));
    ERROR_NAMES("OPERATION_MATMUL_ADESC is not set");
    final(tensor);
    EXPECT(HIPDNN_STATUS_NOT_INITIALIZED,
           set(tensor, HIPDNN_ATTR_TENSOR_UNIQUE_ID, HIPDNN_TYPE_INT64, 1, &uid));
    EXPECT(HIPDNN_STATUS_BAD_PARAM, hipdnnBackendFinalize(tensor));
    CHECK(get_int64(tensor, HIPDNN_ATTR_TENSOR_UNIQUE_ID) == 7);
    destroy(matmul);
    destroy(tensor);
}

static void types_counts_and_names(void) {
    const int64_t values[2] = {1, 2};
    const bool yes = true;
    int64_t count = 0;
    descriptor_t tensor = new_scalar(7, HIPDNN_DATA_FLOAT);
    EXPECT(HIPDNN_STATUS_BAD_PARAM,
           set(tensor, HIPDNN_ATTR_TENSOR_UNIQUE_ID, HIPDNN_TYPE_FLOAT, 1, values));
    ERROR_NAMES("TENSOR_UNIQUE_ID got attribute type 4 (FLOAT), expected 3 (INT64)");
    EXPECT(HIPDNN_STATUS_BAD_PARAM, set(tensor, HIPDNN_ATTR_TENSOR_UNIQUE_ID,
                                        (hipdnnBackendAttributeType_t)9999, 1, values));
    EXPECT(HIPDNN_STATUS_BAD_PARAM,
           set(tensor, HIPDNN_ATTR_TENSOR_UNIQUE_ID, HIPDNN_TYPE_INT64, 2, values));
    ERROR_NAMES("TENSOR_UNIQUE_ID got 2 elements, expected 1");
    EXPECT(HIPDNN_STATUS_BAD_PARAM,
           set(tensor, HIPDNN_ATTR_TENSOR_UNIQUE_ID, HIPDNN_TYPE_INT64, 0, values));
    EXPECT(HIPDNN_STATUS_BAD_PARAM,
           set(tensor, HIPDNN_ATTR_TENSOR_DIMENSIONS, HIPDNN_TYPE_INT64, -1, values));
    EXPECT(HIPDNN_STATUS_BAD_PARAM,
           set(tensor, HIPDNN_ATTR_TENSOR_DIMENSIONS, HIPDNN_TYPE_INT64, INT64_MAX, values));
    EXPECT(HIPDNN_STATUS_BAD_PARAM,
           set(tensor, HIPDNN_ATTR_TENSOR_NAME_EXT, HIPDNN_TYPE_CHAR, INT64_MAX, values));
    EXPECT(HIPDNN_STATUS_NOT_SUPPORTED,
           set(tensor, HIPDNN_ATTR_OPERATION_SDPA_FWD_QDESC, HIPDNN_TYPE_INT64, 1, values));
    ERROR_NAMES("a tensor descriptor has no attribute 2600");
    EXPECT(HIPDNN_STATUS_NOT_SUPPORTED, set(tensor, -5, HIPDNN_TYPE_INT64, 1, values));
    EXPECT(HIPDNN_STATUS_NOT_SUPPORTED,
           set(tensor, HIPDNN_ATTR_TENSOR_IS_BY_VALUE, HIPDNN_TYPE_BOOLEAN, 1, &yes));
    ERROR_NAMES("TENSOR_IS_BY_VALUE is read-only");
    EXPECT(HIPDNN_STATUS_BAD_PARAM,
           set(tensor, HIPDNN_ATTR_TENSOR_DATA_TYPE, HIPDNN_TYPE_DATA_TYPE, 1, &(const int){99}));
    ERROR_NAMES("TENSOR_DATA_TYPE got data type 99");
    final(tensor);
    EXPECT(HIPDNN_STATUS_BAD_PARAM,
           get(tensor, HIPDNN_ATTR_TENSOR_UNIQUE_ID, HIPDNN_TYPE_FLOAT, 1, NULL, &count));
    EXPECT(HIPDNN_STATUS_BAD_PARAM,
           get(tensor, HIPDNN_ATTR_TENSOR_UNIQUE_ID, HIPDNN_TYPE_INT64, -1, NULL, &count));
    EXPECT(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER,
           get(tensor, HIPDNN_ATTR_TENSOR_UNIQUE_ID, HIPDNN_TYPE_INT64, 0, NULL, NULL));
    EXPECT(HIPDNN_STATUS_NOT_SUPPORTED, get(tensor, 2600, HIPDNN_TYPE_INT64, 1, NULL, &count));
    destroy(tensor);
}

/* One tensor that finalization refuses, for each reason. */
static void contradictions_of_tensors(void) {
    const int64_t extents[2] = {2, 2};
    const float value = 0.5f;
    const hipdnnDataType_t half = HIPDNN_DATA_HALF;
    descriptor_t tensor = new_scalar(1, HIPDNN_DATA_FLOAT);
    OK(set(tensor, HIPDNN_ATTR_TENSOR_STRIDES, HIPDNN_TYPE_INT64, 2, extents));
    EXPECT(HIPDNN_STATUS_BAD_PARAM, hipdnnBackendFinalize(tensor));
    ERROR_NAMES("has 1 dims and 2 strides");
    destroy(tensor);

    tensor = create(HIPDNN_BACKEND_TENSOR_DESCRIPTOR);
    EXPECT(HIPDNN_STATUS_BAD_PARAM,
           set(tensor, HIPDNN_ATTR_TENSOR_VALUE_EXT, HIPDNN_TYPE_CHAR, 4, &value));
    ERROR_NAMES("before TENSOR_DATA_TYPE");
    EXPECT(HIPDNN_STATUS_BAD_PARAM, hipdnnBackendFinalize(tensor));
    destroy(tensor);

    tensor = new_scalar(1, HIPDNN_DATA_FLOAT);
    EXPECT(HIPDNN_STATUS_BAD_PARAM,
           set(tensor, HIPDNN_ATTR_TENSOR_VALUE_EXT, HIPDNN_TYPE_CHAR, 8, &value));
    EXPECT(HIPDNN_STATUS_BAD_PARAM,
           set(tensor, HIPDNN_ATTR_TENSOR_VALUE_EXT, HIPDNN_TYPE_FLOAT, 1, &value));
    OK(set(tensor, HIPDNN_ATTR_TENSOR_CONSTANT_VALUE, HIPDNN_TYPE_CHAR, 4, &value));
    OK(set(tensor, HIPDNN_ATTR_TENSOR_DATA_TYPE, HIPDNN_TYPE_DATA_TYPE, 1, &half));
    EXPECT(HIPDNN_STATUS_BAD_PARAM, hipdnnBackendFinalize(tensor));
    ERROR_NAMES("has a value of type Float32Value and data type HALF");
    set_data_type(tensor, HIPDNN_ATTR_TENSOR_DATA_TYPE, HIPDNN_DATA_FLOAT);
    set_bool(tensor, HIPDNN_ATTR_TENSOR_IS_VIRTUAL, true);
    EXPECT(HIPDNN_STATUS_BAD_PARAM, hipdnnBackendFinalize(tensor));
    ERROR_NAMES("virtual and passed by value");
    set_bool(tensor, HIPDNN_ATTR_TENSOR_IS_VIRTUAL, false);
    set_int64(tensor, HIPDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 0);
    EXPECT(HIPDNN_STATUS_BAD_PARAM, hipdnnBackendFinalize(tensor));
    ERROR_NAMES("TENSOR_BYTE_ALIGNMENT 0");
    set_int64(tensor, HIPDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 16);
    set_int64(tensor, HIPDNN_ATTR_TENSOR_RAGGED_OFFSET_MULTIPLIER, 8);
    EXPECT(HIPDNN_STATUS_BAD_PARAM, hipdnnBackendFinalize(tensor));
    ERROR_NAMES("TENSOR_RAGGED_OFFSET_MULTIPLIER 8");
    set_int64(tensor, HIPDNN_ATTR_TENSOR_RAGGED_OFFSET_MULTIPLIER, 1);
    OK(hipdnnBackendFinalize(tensor));
    destroy(tensor);
}

static descriptor_t new_matmul(int64_t uid_of_b) {
    descriptor_t matmul = create(HIPDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    const int64_t uids[3] = {1, uid_of_b, 3};
    for (int i = 0; i < 3; ++i) {
        const int64_t extents[2] = {1, 1};
        descriptor_t tensor = final(new_tensor(uids[i], HIPDNN_DATA_FLOAT, 2, extents, extents));
        set_descriptor(matmul, HIPDNN_ATTR_OPERATION_MATMUL_ADESC + i, tensor);
        destroy(tensor);
    }
    return final(matmul);
}

static void contradictions_of_graphs(void) {
    descriptor_t graph = create(HIPDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    descriptor_t matmul = new_matmul(1);
    descriptor_t engine = create(HIPDNN_BACKEND_ENGINE_DESCRIPTOR);
    hipdnnHandle_t short_lived = NULL;
    hipdnnHandle_t none = NULL;
    EXPECT(HIPDNN_STATUS_BAD_PARAM, hipdnnBackendFinalize(graph));
    ERROR_NAMES("OPERATIONGRAPH_HANDLE is not set");
    EXPECT(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER,
           set(graph, HIPDNN_ATTR_OPERATIONGRAPH_HANDLE, HIPDNN_TYPE_HANDLE, 1, &none));
    OK(hipdnnCreate(&short_lived));
    OK(set(graph, HIPDNN_ATTR_OPERATIONGRAPH_HANDLE, HIPDNN_TYPE_HANDLE, 1, &short_lived));
    EXPECT(HIPDNN_STATUS_BAD_PARAM, hipdnnBackendFinalize(graph));
    ERROR_NAMES("OPERATIONGRAPH_OPS is not set");
    set_descriptor(graph, HIPDNN_ATTR_OPERATIONGRAPH_OPS, matmul);
    EXPECT(HIPDNN_STATUS_BAD_PARAM, hipdnnBackendFinalize(graph));
    ERROR_NAMES("two descriptors with one uid");
    OK(hipdnnDestroy(short_lived));
    EXPECT(HIPDNN_STATUS_BAD_PARAM, hipdnnBackendFinalize(graph));
    ERROR_NAMES("handle");
    EXPECT(HIPDNN_STATUS_BAD_PARAM_NOT_FINALIZED, set(engine, HIPDNN_ATTR_ENGINE_OPERATION_GRAPH,
                                                      HIPDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph));
    destroy(engine);
    destroy(matmul);
    destroy(graph);
}

static void engines_that_do_not_exist(void) {
    descriptor_t graph = create(HIPDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    descriptor_t matmul = new_matmul(2);
    descriptor_t engine = create(HIPDNN_BACKEND_ENGINE_DESCRIPTOR);
    descriptor_t heuristics = create(HIPDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    int64_t id = 0;
    OK(set(graph, HIPDNN_ATTR_OPERATIONGRAPH_HANDLE, HIPDNN_TYPE_HANDLE, 1, &handle));
    set_descriptor(graph, HIPDNN_ATTR_OPERATIONGRAPH_OPS, matmul);
    final(graph);
    set_descriptor(engine, HIPDNN_ATTR_ENGINE_OPERATION_GRAPH, graph);
    EXPECT(HIPDNN_STATUS_BAD_PARAM, hipdnnBackendFinalize(engine));
    ERROR_NAMES("ENGINE_GLOBAL_INDEX is not set");
    set_int64(engine, HIPDNN_ATTR_ENGINE_GLOBAL_INDEX, -193489);
    EXPECT(HIPDNN_STATUS_BAD_PARAM, hipdnnBackendFinalize(engine));
    ERROR_NAMES("ENGINE_GLOBAL_INDEX is -193489");
    EXPECT(HIPDNN_STATUS_NOT_SUPPORTED, hipdnnGetEngineIdByName_ext(handle, "NO_ENGINE", &id));
    EXPECT(HIPDNN_STATUS_BAD_PARAM, hipdnnBackendFinalize(heuristics));
    EXPECT(HIPDNN_STATUS_NOT_SUPPORTED, set(heuristics, HIPDNN_ATTR_ENGINEHEUR_MODE,
                                            HIPDNN_TYPE_HEUR_MODE, 1, &(const int){999}));
    EXPECT(HIPDNN_STATUS_NOT_SUPPORTED, set(heuristics, HIPDNN_ATTR_ENGINEHEUR_POLICY_ORDER_EXT,
                                            HIPDNN_TYPE_INT64, 1, &(const int64_t){1}));
    destroy(heuristics);
    destroy(engine);
    destroy(matmul);
    destroy(graph);
}

static void contradictions_of_packs(void) {
    const int64_t uids[2] = {1, 2};
    const int64_t ranks[2] = {1, 2};
    const int64_t extents[3] = {1, 1, 1};
    void* pointers[2] = {NULL, NULL};
    descriptor_t pack = create(HIPDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    EXPECT(HIPDNN_STATUS_BAD_PARAM, hipdnnBackendFinalize(pack));
    OK(set(pack, HIPDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, HIPDNN_TYPE_INT64, 2, uids));
    OK(set(pack, HIPDNN_ATTR_VARIANT_PACK_DATA_POINTERS, HIPDNN_TYPE_VOID_PTR, 1, pointers));
    EXPECT(HIPDNN_STATUS_BAD_PARAM, hipdnnBackendFinalize(pack));
    ERROR_NAMES("2 VARIANT_PACK_UNIQUE_IDS and 1 VARIANT_PACK_DATA_POINTERS");
    OK(set(pack, HIPDNN_ATTR_VARIANT_PACK_DATA_POINTERS, HIPDNN_TYPE_VOID_PTR, 2, pointers));
    OK(set(pack, HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_UNIQUE_IDS_EXT, HIPDNN_TYPE_INT64, 2, uids));
    EXPECT(HIPDNN_STATUS_BAD_PARAM, hipdnnBackendFinalize(pack));
    ERROR_NAMES("0 OVERRIDE_LENGTHS");
    OK(set(pack, HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_LENGTHS_EXT, HIPDNN_TYPE_INT64, 2, ranks));
    OK(set(pack, HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_SHAPES_EXT, HIPDNN_TYPE_INT64, 3, extents));
    OK(set(pack, HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_STRIDES_EXT, HIPDNN_TYPE_INT64, 2, extents));
    EXPECT(HIPDNN_STATUS_BAD_PARAM, hipdnnBackendFinalize(pack));
    ERROR_NAMES("expected 3 of each");
    OK(set(pack, HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_STRIDES_EXT, HIPDNN_TYPE_INT64, 3, extents));
    OK(set(pack, HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_LENGTHS_EXT, HIPDNN_TYPE_INT64, 2,
           (const int64_t[]){INT64_MAX, INT64_MAX}));
    EXPECT(HIPDNN_STATUS_BAD_PARAM, hipdnnBackendFinalize(pack));
    OK(set(pack, HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_LENGTHS_EXT, HIPDNN_TYPE_INT64, 2, ranks));
    OK(set(pack, HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_UNIQUE_IDS_EXT, HIPDNN_TYPE_INT64, 2,
           (const int64_t[]){1, 1}));
    EXPECT(HIPDNN_STATUS_BAD_PARAM, hipdnnBackendFinalize(pack));
    ERROR_NAMES("uid 1 twice");
    OK(set(pack, HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_UNIQUE_IDS_EXT, HIPDNN_TYPE_INT64, 2,
           (const int64_t[]){1, 9}));
    EXPECT(HIPDNN_STATUS_BAD_PARAM, hipdnnBackendFinalize(pack));
    ERROR_NAMES("uid 9");
    OK(set(pack, HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_UNIQUE_IDS_EXT, HIPDNN_TYPE_INT64, 2, uids));
    OK(hipdnnBackendFinalize(pack));
    destroy(pack);
}

static void texts_of_statuses(void) {
    CHECK(strcmp(hipdnnGetErrorString(HIPDNN_STATUS_PLUGIN_ERROR), "HIPDNN_STATUS_PLUGIN_ERROR") ==
          0);
    CHECK(hipdnnGetErrorString((hipdnnStatus_t)1234) != NULL);
    char small[6];
    EXPECT(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER, hipdnnCreate(NULL));
    hipdnnPeekLastErrorString_ext(small, sizeof(small));
    CHECK(strcmp(small, "hipdn") == 0);
    ERROR_NAMES("hipdnnCreate");
}

int main(void) {
    OK(hipdnnCreate(&handle));
    null_pointers();
    stale_pointers();
    wrong_descriptor_types();
    order_of_calls();
    types_counts_and_names();
    contradictions_of_tensors();
    contradictions_of_graphs();
    engines_that_do_not_exist();
    contradictions_of_packs();
    texts_of_statuses();
    OK(hipdnnDestroy(handle));
    return report("test_errors");
}
