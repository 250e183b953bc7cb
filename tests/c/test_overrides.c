/* Shapes given at execution: one plan of a dense attention, run with its own shapes and with fewer
 * rows. Queries of zero weigh all keys alike, so an output row is the mean of the values. */
#include <math.h>

#include "check.h"

enum { ROWS = 4, DIM = 4, Q = 1, K, V, O };

static hipdnnHandle_t handle;

static void extents(int64_t rows, int64_t dims[4], int64_t strides[4]) {
    dims[0] = dims[1] = 1;
    dims[2] = rows;
    dims[3] = DIM;
    strides[0] = strides[1] = rows * DIM;
    strides[2] = DIM;
    strides[3] = 1;
}

static descriptor_t new_graph(bool is_overridable) {
    const float one = 1.0f;
    descriptor_t sdpa = create(HIPDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR);
    descriptor_t graph = create(HIPDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    for (int64_t uid = Q; uid <= O; ++uid) {
        int64_t dims[4];
        int64_t strides[4];
        extents(ROWS, dims, strides);
        descriptor_t tensor = final(new_tensor(uid, HIPDNN_DATA_FLOAT, 4, dims, strides));
        set_descriptor(sdpa, HIPDNN_ATTR_OPERATION_SDPA_FWD_QDESC + (int)(uid - Q), tensor);
        destroy(tensor);
    }
    OK(set(sdpa, HIPDNN_ATTR_SDPA_FWD_ATTN_SCALE_VALUE_EXT, HIPDNN_TYPE_FLOAT, 1, &one));
    final(sdpa);
    OK(set(graph, HIPDNN_ATTR_OPERATIONGRAPH_HANDLE, HIPDNN_TYPE_HANDLE, 1, &handle));
    set_descriptor(graph, HIPDNN_ATTR_OPERATIONGRAPH_OPS, sdpa);
    set_bool(graph, HIPDNN_ATTR_OPERATIONGRAPH_IS_OVERRIDE_SHAPE_ENABLED_EXT, is_overridable);
    destroy(sdpa);
    return final(graph);
}

/* A knob that every engine of the package has. */
static descriptor_t new_choice(void) {
    descriptor_t choice = create(HIPDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    set_text(choice, HIPDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, "deterministic");
    set_int64(choice, HIPDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, 1);
    return final(choice);
}

static void refuse_knob_twice(descriptor_t engine, descriptor_t choice) {
    const descriptor_t twice[2] = {choice, choice};
    descriptor_t config = create(HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    OK(set(config, HIPDNN_ATTR_ENGINECFG_KNOB_CHOICES, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 2, twice));
    EXPECT(HIPDNN_STATUS_BAD_PARAM, hipdnnBackendFinalize(config));
    ERROR_NAMES("ENGINECFG_ENGINE is not set");
    set_descriptor(config, HIPDNN_ATTR_ENGINECFG_ENGINE, engine);
    EXPECT(HIPDNN_STATUS_BAD_PARAM, hipdnnBackendFinalize(config));
    ERROR_NAMES("'deterministic' twice");
    destroy(config);
}

/* The engine is named by its id here, without heuristics. */
static descriptor_t new_plan(bool is_overridable) {
    int64_t id = 0;
    int64_t count = 0;
    descriptor_t graph = new_graph(is_overridable);
    descriptor_t choice = new_choice();
    descriptor_t engine = create(HIPDNN_BACKEND_ENGINE_DESCRIPTOR);
    descriptor_t config = create(HIPDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    descriptor_t plan = create(HIPDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    OK(hipdnnGetEngineIdByName_ext(handle, "RAGGEDDNN_REFERENCE_ENGINE", &id));
    set_descriptor(engine, HIPDNN_ATTR_ENGINE_OPERATION_GRAPH, graph);
    set_int64(engine, HIPDNN_ATTR_ENGINE_GLOBAL_INDEX, id);
    final(engine);
    set_descriptor(config, HIPDNN_ATTR_ENGINECFG_ENGINE, engine);
    set_descriptor(config, HIPDNN_ATTR_ENGINECFG_KNOB_CHOICES, choice);
    final(config);
    OK(get(config, HIPDNN_ATTR_ENGINECFG_KNOB_CHOICES, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count,
           NULL));
    CHECK(count == 1);
    refuse_knob_twice(engine, choice);
    destroy(choice);
    set_descriptor(plan, HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    final(plan);
    CHECK(get_bool(plan, HIPDNN_ATTR_EXECUTION_PLAN_IS_OVERRIDE_SHAPE_ENABLED_EXT) ==
          is_overridable);
    CHECK(get_int64(plan, HIPDNN_ATTR_EXECUTION_PLAN_ENGINE_GLOBAL_INDEX_EXT) == id);
    destroy(config);
    destroy(engine);
    destroy(graph);
    return plan;
}

static void override_rows(descriptor_t pack, int64_t rows) {
    const int64_t uids[4] = {Q, K, V, O};
    const int64_t ranks[4] = {4, 4, 4, 4};
    int64_t dims[16];
    int64_t strides[16];
    for (int i = 0; i < 4; ++i) extents(rows, dims + 4 * i, strides + 4 * i);
    OK(set(pack, HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_UNIQUE_IDS_EXT, HIPDNN_TYPE_INT64, 4, uids));
    OK(set(pack, HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_LENGTHS_EXT, HIPDNN_TYPE_INT64, 4, ranks));
    OK(set(pack, HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_SHAPES_EXT, HIPDNN_TYPE_INT64, 16, dims));
    OK(set(pack, HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_STRIDES_EXT, HIPDNN_TYPE_INT64, 16, strides));
}

/* `rows` of 0: the plan's own. */
static void run(descriptor_t plan, int64_t rows, hipdnnStatus_t expected) {
    static _Alignas(64) float data[4][ROWS * DIM];
    const int64_t uids[4] = {Q, K, V, O};
    void* pointers[4] = {data[0], data[1], data[2], data[3]};
    const int64_t used = rows > 0 ? rows : ROWS;
    descriptor_t pack = create(HIPDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    for (int i = 0; i < ROWS * DIM; ++i) {
        data[0][i] = 0.0f;
        data[1][i] = 1.0f;
        data[2][i] = (float)(i / DIM);
        data[3][i] = -1.0f;
    }
    OK(set(pack, HIPDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, HIPDNN_TYPE_INT64, 4, uids));
    OK(set(pack, HIPDNN_ATTR_VARIANT_PACK_DATA_POINTERS, HIPDNN_TYPE_VOID_PTR, 4, pointers));
    if (rows > 0) override_rows(pack, rows);
    final(pack);
    EXPECT(expected, hipdnnBackendExecute(handle, plan, pack));
    const bool ran = expected == HIPDNN_STATUS_SUCCESS;
    for (int64_t i = 0; i < ROWS * DIM; ++i) {
        const float mean = (float)(used - 1) / 2.0f;
        const float due = ran && i < used * DIM ? mean : -1.0f;
        CHECK(fabsf(data[3][i] - due) <= 1e-6f);
    }
    destroy(pack);
}

int main(void) {
    OK(hipdnnCreate(&handle));
    descriptor_t overridable = new_plan(true);
    run(overridable, 0, HIPDNN_STATUS_SUCCESS);
    run(overridable, 2, HIPDNN_STATUS_SUCCESS);
    run(overridable, 0, HIPDNN_STATUS_SUCCESS);
    destroy(overridable);
    descriptor_t fixed = new_plan(false);
    run(fixed, 0, HIPDNN_STATUS_SUCCESS);
    run(fixed, 2, HIPDNN_STATUS_BAD_PARAM);
    destroy(fixed);
    OK(hipdnnDestroy(handle));
    return report("test_overrides");
}
