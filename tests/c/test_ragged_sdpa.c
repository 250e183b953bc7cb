/* Ragged attention through the C API alone: from tensor descriptors to numbers, with the scale
 * given at execution, then again from the serialized graph and from the serialized plan. */
#include <math.h>

#include "check.h"

enum { BATCHES = 3, HEADS_Q = 4, HEADS_K = 2, DIM = 8, ROWS_MAX = 5 };
enum { Q = 1, K, V, O, STATS, OFFSETS_Q, OFFSETS_K, SCALE };

/* Rows of each batch: the second has no queries. */
static const int32_t rows_q[BATCHES + 1] = {0, 3, 3, 8};
static const int32_t rows_k[BATCHES + 1] = {0, 4, 6, 11};

enum { TOTAL_Q = 8, TOTAL_K = 11 };

typedef struct {
    float q[TOTAL_Q * HEADS_Q * DIM];
    float k[TOTAL_K * HEADS_K * DIM];
    float v[TOTAL_K * HEADS_K * DIM];
    float o[TOTAL_Q * HEADS_Q * DIM];
    float expected[TOTAL_Q * HEADS_Q * DIM];
    float scale;
} problem_t;

/* Inputs in [-1, 1), the same in every run. */
static float next_value(void) {
    static uint32_t state = 12345;
    state = state * 1664525u + 1013904223u;
    return (float)(state >> 8) / 8388608.0f - 1.0f;
}

static void fill(problem_t* p, float scale) {
    for (size_t i = 0; i < sizeof(p->q) / sizeof(float); ++i) p->q[i] = next_value();
    for (size_t i = 0; i < sizeof(p->k) / sizeof(float); ++i) p->k[i] = next_value();
    for (size_t i = 0; i < sizeof(p->v) / sizeof(float); ++i) p->v[i] = next_value();
    for (size_t i = 0; i < sizeof(p->o) / sizeof(float); ++i) p->o[i] = -99.0f;
    p->scale = scale;
}

/* One row of one head, as the definition says. */
static void attend(problem_t* p, int batch, int head, int row) {
    const int head_k = head / (HEADS_Q / HEADS_K);
    const int first = rows_k[batch];
    const int count = rows_k[batch + 1] - first;
    double weight[ROWS_MAX];
    double largest = -INFINITY;
    double sum = 0.0;
    for (int col = 0; col < count; ++col) {
        weight[col] = 0.0;
        for (int d = 0; d < DIM; ++d) {
            weight[col] += (double)p->q[(row * HEADS_Q + head) * DIM + d] *
                           (double)p->k[((first + col) * HEADS_K + head_k) * DIM + d];
        }
        weight[col] *= (double)p->scale;
        if (weight[col] > largest) largest = weight[col];
    }
    for (int col = 0; col < count; ++col) {
        weight[col] = exp(weight[col] - largest);
        sum += weight[col];
    }
    for (int d = 0; d < DIM; ++d) {
        double value = 0.0;
        for (int col = 0; col < count; ++col) {
            value += weight[col] * (double)p->v[((first + col) * HEADS_K + head_k) * DIM + d];
        }
        p->expected[(row * HEADS_Q + head) * DIM + d] = (float)(value / sum);
    }
}

static void compare(problem_t* p) {
    /* Weighted means of values below 1, by at most DIM + ROWS_MAX roundings of 2^-24 each. */
    const double tolerance = (DIM + ROWS_MAX) / 16777216.0;
    int wrong = 0;
    for (int batch = 0; batch < BATCHES; ++batch) {
        for (int row = rows_q[batch]; row < rows_q[batch + 1]; ++row) {
            for (int head = 0; head < HEADS_Q; ++head) attend(p, batch, head, row);
        }
    }
    for (size_t i = 0; i < sizeof(p->o) / sizeof(float); ++i) {
        const double error = fabs((double)p->o[i] - (double)p->expected[i]);
        if (!(error <= tolerance)) ++wrong;
    }
    CHECK(wrong == 0);
}

static descriptor_t offsets(int64_t uid) {
    const int64_t dims[4] = {BATCHES + 1, 1, 1, 1};
    const int64_t strides[4] = {1, 1, 1, 1};
    return final(new_tensor(uid, HIPDNN_DATA_INT32, 4, dims, strides));
}

/* [B, H, S_max, D] over rows of H * D, which begin where the offsets, in rows, say. */
static descriptor_t ragged(int64_t uid, int64_t heads, descriptor_t aux) {
    const int64_t dims[4] = {BATCHES, heads, ROWS_MAX, DIM};
    const int64_t strides[4] = {ROWS_MAX * heads * DIM, DIM, heads * DIM, 1};
    descriptor_t tensor = new_tensor(uid, HIPDNN_DATA_FLOAT, 4, dims, strides);
    set_int64(tensor, HIPDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 4);
    set_descriptor(tensor, HIPDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC, aux);
    set_int64(tensor, HIPDNN_ATTR_TENSOR_RAGGED_OFFSET_MULTIPLIER, heads * DIM);
    return final(tensor);
}

static descriptor_t new_operation(void) {
    descriptor_t aux_q = offsets(OFFSETS_Q);
    descriptor_t aux_k = offsets(OFFSETS_K);
    descriptor_t q = ragged(Q, HEADS_Q, aux_q);
    descriptor_t k = ragged(K, HEADS_K, aux_k);
    descriptor_t v = ragged(V, HEADS_K, aux_k);
    descriptor_t o = ragged(O, HEADS_Q, aux_q);
    descriptor_t scale = new_scalar(SCALE, HIPDNN_DATA_FLOAT);
    set_bool(scale, HIPDNN_ATTR_TENSOR_IS_RUNTIME_PASS_BY_VALUE_EXT, true);
    final(scale);
    CHECK(!get_bool(scale, HIPDNN_ATTR_TENSOR_IS_BY_VALUE));
    CHECK(get_bool(scale, HIPDNN_ATTR_TENSOR_IS_RUNTIME_PASS_BY_VALUE_EXT));

    descriptor_t sdpa = create(HIPDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR);
    set_descriptor(sdpa, HIPDNN_ATTR_OPERATION_SDPA_FWD_QDESC, q);
    set_descriptor(sdpa, HIPDNN_ATTR_OPERATION_SDPA_FWD_KDESC, k);
    set_descriptor(sdpa, HIPDNN_ATTR_OPERATION_SDPA_FWD_VDESC, v);
    set_descriptor(sdpa, HIPDNN_ATTR_OPERATION_SDPA_FWD_ODESC, o);
    set_descriptor(sdpa, HIPDNN_ATTR_OPERATION_SDPA_FWD_SCALEDESC, scale);
    set_data_type(sdpa, HIPDNN_ATTR_SDPA_FWD_COMP_TYPE_EXT, HIPDNN_DATA_FLOAT);
    set_text(sdpa, HIPDNN_ATTR_OPERATION_NAME_EXT, "attention");
    final(sdpa);
    /* The operation keeps what it names. */
    descriptor_t named[] = {aux_q, aux_k, q, k, v, o, scale};
    for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); ++i) destroy(named[i]);
    return sdpa;
}

static descriptor_t new_graph(hipdnnHandle_t handle) {
    descriptor_t sdpa = new_operation();
    descriptor_t graph = create(HIPDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    OK(set(graph, HIPDNN_ATTR_OPERATIONGRAPH_HANDLE, HIPDNN_TYPE_HANDLE, 1, &handle));
    set_descriptor(graph, HIPDNN_ATTR_OPERATIONGRAPH_OPS, sdpa);
    set_data_type(graph, HIPDNN_ATTR_OPERATIONGRAPH_COMPUTE_DATA_TYPE_EXT, HIPDNN_DATA_FLOAT);
    set_text(graph, HIPDNN_ATTR_OPERATIONGRAPH_NAME_EXT, "ragged");
    final(graph);
    destroy(sdpa);
    return graph;
}

/* The best engine's configuration; the heuristics fill a descriptor that the caller made. */
static descriptor_t new_config(descriptor_t graph) {
    const hipdnnBackendHeurMode_t mode = HIPDNN_HEUR_MODE_FALLBACK;
    int64_t count = 0;
    descriptor_t heuristics = create(HIPDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    descriptor_t config = create(HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    set_descriptor(heuristics, HIPDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    OK(set(heuristics, HIPDNN_ATTR_ENGINEHEUR_MODE, HIPDNN_TYPE_HEUR_MODE, 1, &mode));
    EXPECT(HIPDNN_STATUS_BAD_PARAM_NOT_FINALIZED,
           get(heuristics, HIPDNN_ATTR_ENGINEHEUR_RESULTS, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 0,
               &count, NULL));
    final(heuristics);
    OK(get(heuristics, HIPDNN_ATTR_ENGINEHEUR_RESULTS, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count,
           NULL));
    CHECK(count >= 1);
    OK(get(heuristics, HIPDNN_ATTR_ENGINEHEUR_RESULTS, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count,
           &config));
    CHECK(count == 1);
    final(config);
    CHECK(get_int64(config, HIPDNN_ATTR_ENGINECFG_WORKSPACE_SIZE) >= 0);
    destroy(heuristics);
    return config;
}

/* A knob's id, description, and default, whose type the knob says. */
static void describe_knob(descriptor_t knob) {
    union {
        int64_t integer;
        double real;
        char text[64];
    } value;
    char text[64];
    const int64_t type = get_int64(knob, HIPDNN_ATTR_KNOB_INFO_DEFAULT_VALUE_TYPE);
    OK(get(knob, HIPDNN_ATTR_KNOB_INFO_TYPE, HIPDNN_TYPE_CHAR, 64, NULL, text));
    CHECK(strlen(text) > 0);
    OK(get(knob, HIPDNN_ATTR_KNOB_INFO_DESCRIPTION, HIPDNN_TYPE_CHAR, 64, NULL, text));
    OK(get(knob, HIPDNN_ATTR_KNOB_INFO_DEFAULT_VALUE, (hipdnnBackendAttributeType_t)type,
           type == HIPDNN_TYPE_CHAR ? 64 : 1, NULL, &value));
    EXPECT(HIPDNN_STATUS_BAD_PARAM,
           get(knob, HIPDNN_ATTR_KNOB_INFO_DEFAULT_VALUE, HIPDNN_TYPE_HANDLE, 1, NULL, &value));
    (void)get_bool(knob, HIPDNN_ATTR_KNOB_INFO_DEPRECATED);
    destroy(knob);
}

static void describe_engine(hipdnnHandle_t handle, descriptor_t config) {
    char name[128];
    int64_t id = 0;
    int64_t count = 0;
    int64_t bytes_count = 0;
    int64_t notes = -1;
    descriptor_t engine = NULL;
    descriptor_t graph = NULL;
    OK(get(config, HIPDNN_ATTR_ENGINECFG_ENGINE, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 1, NULL, &engine));
    OK(get(engine, HIPDNN_ATTR_ENGINE_NAME_EXT, HIPDNN_TYPE_CHAR, 128, &count, name));
    CHECK(count == (int64_t)strlen(name) + 1);
    OK(hipdnnGetEngineIdByName_ext(handle, name, &id));
    CHECK(id == get_int64(engine, HIPDNN_ATTR_ENGINE_GLOBAL_INDEX));
    OK(get(engine, HIPDNN_ATTR_ENGINE_OPERATION_GRAPH, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 1, NULL,
           &graph));
    OK(get(engine, HIPDNN_ATTR_ENGINE_BEHAVIOR_NOTE, HIPDNN_TYPE_BEHAVIOR_NOTE, 0, &notes, NULL));
    CHECK(notes >= 0);
    OK(get(engine, HIPDNN_ATTR_ENGINE_KNOB_INFO, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, NULL));
    OK(get(engine, HIPDNN_ATTR_KNOB_INFO_SERIALIZED_VALUE, HIPDNN_TYPE_FLATBUFFER_DATA_STRUCT_EXT,
           0, &bytes_count, NULL));
    CHECK(count == bytes_count && count <= 16);
    descriptor_t knobs[16] = {NULL};
    if (count > 0) {
        OK(get(engine, HIPDNN_ATTR_ENGINE_KNOB_INFO, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 16, &count,
               knobs));
    }
    for (int64_t i = 0; i < count; ++i) describe_knob(knobs[i]);
    destroy(graph);
    destroy(engine);
}

static descriptor_t new_plan(hipdnnHandle_t handle, descriptor_t graph) {
    descriptor_t config = new_config(graph);
    describe_engine(handle, config);
    descriptor_t plan = create(HIPDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    set_descriptor(plan, HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    final(plan);
    destroy(config);
    return plan;
}

static void run(hipdnnHandle_t handle, descriptor_t plan, float scale) {
    static problem_t p;
    const int64_t uids[] = {Q, K, V, O, OFFSETS_Q, OFFSETS_K, SCALE};
    void* pointers[] = {p.q, p.k, p.v, p.o, (void*)rows_q, (void*)rows_k, &p.scale};
    const int64_t bytes = get_int64(plan, HIPDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
    void* workspace = malloc(bytes > 0 ? (size_t)bytes : 1);
    descriptor_t pack = create(HIPDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    OK(set(pack, HIPDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, HIPDNN_TYPE_INT64, 7, uids));
    OK(set(pack, HIPDNN_ATTR_VARIANT_PACK_DATA_POINTERS, HIPDNN_TYPE_VOID_PTR, 7, pointers));
    OK(set(pack, HIPDNN_ATTR_VARIANT_PACK_WORKSPACE, HIPDNN_TYPE_VOID_PTR, 1, &workspace));
    EXPECT(HIPDNN_STATUS_BAD_PARAM_NOT_FINALIZED, hipdnnBackendExecute(handle, plan, pack));
    final(pack);
    fill(&p, scale);
    OK(hipdnnBackendExecute(handle, plan, pack));
    compare(&p);
    /* The same plan with another scale. */
    fill(&p, 2.0f * scale);
    OK(hipdnnBackendExecute(handle, plan, pack));
    compare(&p);
    destroy(pack);
    free(workspace);
}

static void run_graph_from(hipdnnHandle_t handle, descriptor_t graph) {
    OK(set(graph, HIPDNN_ATTR_OPERATIONGRAPH_HANDLE, HIPDNN_TYPE_HANDLE, 1, &handle));
    final(graph);
    descriptor_t plan = new_plan(handle, graph);
    run(handle, plan, 0.25f);
    destroy(plan);
    destroy(graph);
}

/* Bytes by the two-call pattern. */
typedef hipdnnStatus_t (*get_bytes_t)(descriptor_t, size_t, size_t*, uint8_t*);

static uint8_t* bytes_of(get_bytes_t function, descriptor_t descriptor, size_t* size) {
    OK(function(descriptor, 0, size, NULL));
    CHECK(*size > 0);
    uint8_t* bytes = malloc(*size + 1);
    EXPECT(HIPDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT, function(descriptor, *size - 1, size, bytes));
    OK(function(descriptor, *size, size, bytes));
    return bytes;
}

static void run_serialized_graph(hipdnnHandle_t handle, descriptor_t graph) {
    size_t size = 0;
    size_t again = 0;
    int flags = 0;
    descriptor_t copy = NULL;
    uint8_t* bytes = bytes_of(hipdnnBackendGetSerializedBinaryGraph_ext, graph, &size);
    OK(hipdnnBackendGetSerializedBinaryContents_ext(bytes, size, &flags));
    CHECK(flags == HIPDNN_SERIALIZED_CONTENT_GRAPH);
    OK(hipdnnBackendCreateAndDeserializeGraph_ext(&copy, bytes, size));
    uint8_t* copied = bytes_of(hipdnnBackendGetSerializedBinaryGraph_ext, copy, &again);
    CHECK(again == size && memcmp(bytes, copied, size) == 0);
    run_graph_from(handle, copy);
    free(copied);
    free(bytes);
}

static void run_json_graph(hipdnnHandle_t handle, descriptor_t graph) {
    size_t size = 0;
    descriptor_t copy = NULL;
    OK(hipdnnBackendGetSerializedJsonGraph_ext(graph, 0, &size, NULL));
    char* text = malloc(size);
    OK(hipdnnBackendGetSerializedJsonGraph_ext(graph, size, &size, text));
    CHECK(strlen(text) + 1 == size);
    CHECK(strstr(text, "SdpaAttributes") != NULL);
    OK(hipdnnBackendCreateAndDeserializeJsonGraph_ext(&copy, text, size));
    run_graph_from(handle, copy);
    OK(hipdnnBackendCreateAndDeserializeJsonGraph_ext(&copy, text, size - 1));
    destroy(copy);
    EXPECT(HIPDNN_STATUS_BAD_PARAM,
           hipdnnBackendCreateAndDeserializeJsonGraph_ext(&copy, text, size / 2));
    free(text);
}

static void run_serialized_plan(hipdnnHandle_t handle, descriptor_t graph, descriptor_t plan) {
    size_t size = 0;
    int flags = 0;
    descriptor_t copy = NULL;
    uint8_t* bytes = bytes_of(hipdnnBackendGetSerializedExecutionPlan_ext, plan, &size);
    OK(hipdnnBackendCreateAndDeserializeExecutionPlan_ext(handle, &copy, bytes, size));
    CHECK(get_int64(copy, HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_GLOBAL_INDEX_EXT) ==
          get_int64(plan, HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_GLOBAL_INDEX_EXT));
    run(handle, copy, 0.25f);
    destroy(copy);
    free(bytes);

    OK(hipdnnBackendGetSerializedBinaryGraphAndPlan_ext(graph, plan, 0, &size, NULL));
    bytes = malloc(size);
    OK(hipdnnBackendGetSerializedBinaryGraphAndPlan_ext(graph, plan, size, &size, bytes));
    OK(hipdnnBackendGetSerializedBinaryContents_ext(bytes, size, &flags));
    CHECK(flags == (HIPDNN_SERIALIZED_CONTENT_GRAPH | HIPDNN_SERIALIZED_CONTENT_EXECUTION_PLAN));
    OK(hipdnnBackendCreateAndDeserializeExecutionPlan_ext(handle, &copy, bytes, size));
    run(handle, copy, 0.25f);
    destroy(copy);
    OK(hipdnnBackendCreateAndDeserializeGraph_ext(&copy, bytes, size));
    run_graph_from(handle, copy);
    free(bytes);
}

static void refuse_container_without_plan(hipdnnHandle_t handle, descriptor_t graph) {
    size_t size = 0;
    int flags = 0;
    descriptor_t copy = NULL;
    OK(hipdnnBackendGetSerializedBinaryGraphAndPlan_ext(graph, NULL, 0, &size, NULL));
    uint8_t* bytes = malloc(size);
    OK(hipdnnBackendGetSerializedBinaryGraphAndPlan_ext(graph, NULL, size, &size, bytes));
    OK(hipdnnBackendGetSerializedBinaryContents_ext(bytes, size, &flags));
    CHECK(flags == HIPDNN_SERIALIZED_CONTENT_GRAPH);
    EXPECT(HIPDNN_STATUS_BAD_PARAM,
           hipdnnBackendCreateAndDeserializeExecutionPlan_ext(handle, &copy, bytes, size));
    ERROR_NAMES("no execution plan");
    free(bytes);
}

int main(void) {
    hipdnnHandle_t handle = NULL;
    OK(hipdnnCreate(&handle));
    descriptor_t graph = new_graph(handle);
    descriptor_t plan = new_plan(handle, graph);
    run(handle, plan, 0.35f);
    run_serialized_graph(handle, graph);
    run_json_graph(handle, graph);
    run_serialized_plan(handle, graph, plan);
    refuse_container_without_plan(handle, graph);
    destroy(plan);
    destroy(graph);
    OK(hipdnnDestroy(handle));
    return report("test_ragged_sdpa");
}
