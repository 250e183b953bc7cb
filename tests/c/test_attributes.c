/* Walks every attribute of every descriptor: set, finalize, get, equal; and, for operations, once
 * more after the graph went through bytes. */
#include "attribute_tables.h"
#include "check.h"

enum { POOL = 200 };

static hipdnnHandle_t handle;
static descriptor_t pool[POOL]; /* tensors that operations name, one for each attribute */

/* What one attribute is set to: as many bytes as its type has. */
typedef struct {
    union {
        int64_t int64;
        int32_t int32;
        float real;
        bool boolean;
        char text[24];
        descriptor_t descriptor;
    } as;
    int64_t count;
    size_t bytes;
} value_t;

static value_t value_for(const row_t* row, int index) {
    value_t value;
    memset(&value, 0, sizeof(value));
    value.count = 1;
    switch ((int)row->type) {
        case HIPDNN_TYPE_INT64:
            value.as.int64 = row->name + ((int64_t)1 << 40);
            value.bytes = sizeof(int64_t);
            break;
        case HIPDNN_TYPE_FLOAT:
            value.as.real = (float)row->name * 0.5f;
            value.bytes = sizeof(float);
            break;
        case HIPDNN_TYPE_BOOLEAN:
            value.as.boolean = true;
            value.bytes = sizeof(bool);
            break;
        case HIPDNN_TYPE_CHAR:
            snprintf(value.as.text, sizeof(value.as.text), "text of %d", row->name);
            value.count = (int64_t)strlen(value.as.text);
            value.bytes = strlen(value.as.text) + 1;
            break;
        case HIPDNN_TYPE_BACKEND_DESCRIPTOR:
            value.as.descriptor = pool[index];
            value.bytes = sizeof(descriptor_t);
            break;
        case HIPDNN_TYPE_INT32:
            value.as.int32 = 12345;
            value.bytes = 4;
            break;
        default:
            value.as.int32 = 1;
            value.bytes = 4;
            break; /* enums: 1 is a value of each */
    }
    return value;
}

static void expect_value(descriptor_t descriptor, const row_t* row, int index) {
    const value_t expected = value_for(row, index);
    value_t got;
    int64_t count = -1;
    memset(&got, 0, sizeof(got));
    if (!OK(get(descriptor, row->name, row->type, 0, &count, NULL))) {
        printf("  of %s\n", row->label);
        return;
    }
    CHECK(count == (row->type == HIPDNN_TYPE_CHAR ? (int64_t)expected.bytes : 1));
    count = -1;
    OK(get(descriptor, row->name, row->type,
           row->type == HIPDNN_TYPE_CHAR ? (int64_t)sizeof(got.as.text) : 1, &count, &got.as));
    if (row->type == HIPDNN_TYPE_BACKEND_DESCRIPTOR) {
        CHECK(get_int64(got.as.descriptor, HIPDNN_ATTR_TENSOR_UNIQUE_ID) == index + 1);
        destroy(got.as.descriptor);
    } else if (memcmp(&got.as, &expected.as, expected.bytes) != 0) {
        ++failures;
        printf("%s: what was got differs from what was set\n", row->label);
    }
}

static void refuse_wrong_sets(descriptor_t descriptor, const row_t* row, const value_t* value) {
    const hipdnnBackendAttributeType_t wrong =
        row->type == HIPDNN_TYPE_DOUBLE ? HIPDNN_TYPE_INT64 : HIPDNN_TYPE_DOUBLE;
    EXPECT(HIPDNN_STATUS_BAD_PARAM, set(descriptor, row->name, wrong, 1, &value->as));
    ERROR_NAMES(row->label);
    EXPECT(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER,
           set(descriptor, row->name, row->type, value->count, NULL));
    ERROR_NAMES(row->label);
    EXPECT(HIPDNN_STATUS_BAD_PARAM, set(descriptor, row->name, row->type, -1, &value->as));
    ERROR_NAMES(row->label);
    if (row->type != HIPDNN_TYPE_CHAR) {
        EXPECT(HIPDNN_STATUS_BAD_PARAM, set(descriptor, row->name, row->type, 0, &value->as));
        ERROR_NAMES(row->label);
    }
}

static void set_rows(descriptor_t descriptor, const operation_t* operation) {
    for (int i = 0; i < operation->row_count; ++i) {
        const row_t* row = &operation->rows[i];
        const value_t value = value_for(row, i);
        int64_t count = 0;
        refuse_wrong_sets(descriptor, row, &value);
        EXPECT(HIPDNN_STATUS_NOT_INITIALIZED,
               get(descriptor, row->name, row->type, 0, &count, NULL));
        OK(set(descriptor, row->name, row->type, value.count, &value.as));
    }
}

static void expect_rows(descriptor_t descriptor, const operation_t* operation) {
    hipdnnOperationType_ext_t type = HIPDNN_OPERATION_TYPE_NOT_SET_EXT;
    for (int i = 0; i < operation->row_count; ++i) expect_value(descriptor, &operation->rows[i], i);
    OK(get(descriptor, HIPDNN_ATTR_OPERATION_TYPE_EXT, HIPDNN_TYPE_OPERATION_TYPE_EXT, 1, NULL,
           &type));
    CHECK(type == operation->type);
}

/* The operation through a graph's bytes and back. */
static void expect_rows_after_bytes(descriptor_t descriptor, const operation_t* operation) {
    descriptor_t graph = create(HIPDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    descriptor_t copy = NULL;
    descriptor_t again = NULL;
    size_t size = 0;
    set_descriptor(graph, HIPDNN_ATTR_OPERATIONGRAPH_OPS, descriptor);
    OK(hipdnnBackendGetSerializedBinaryGraph_ext(graph, 0, &size, NULL));
    uint8_t* bytes = malloc(size);
    OK(hipdnnBackendGetSerializedBinaryGraph_ext(graph, size, &size, bytes));
    OK(hipdnnBackendCreateAndDeserializeGraph_ext(&copy, bytes, size));
    OK(get(copy, HIPDNN_ATTR_OPERATIONGRAPH_OPS, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 1, NULL, &again));
    expect_rows(again, operation);
    destroy(again);
    destroy(copy);
    destroy(graph);
    free(bytes);
}

static void required_attributes(const operation_t* operation) {
    descriptor_t descriptor = create(operation->descriptor);
    EXPECT(HIPDNN_STATUS_BAD_PARAM, hipdnnBackendFinalize(descriptor));
    ERROR_NAMES("is not set");
    destroy(descriptor);
}

static void walk_operation(const operation_t* operation) {
    const int before = failures;
    descriptor_t descriptor = create(operation->descriptor);
    required_attributes(operation);
    set_rows(descriptor, operation);
    final(descriptor);
    expect_rows(descriptor, operation);
    for (int i = 0; i < operation->row_count; ++i) {
        const row_t* row = &operation->rows[i];
        const value_t value = value_for(row, i);
        EXPECT(HIPDNN_STATUS_NOT_INITIALIZED,
               set(descriptor, row->name, row->type, value.count, &value.as));
    }
    expect_rows_after_bytes(descriptor, operation);
    destroy(descriptor);
    if (failures > before) printf("  in the walk of %s\n", operation->label);
}

/* Optional attributes that were not set have no elements. */
static void unset_optionals(void) {
    descriptor_t sdpa = create(HIPDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR);
    int64_t count = -1;
    float scale = -1.0f;
    for (int i = 0; i < 4; ++i) {
        set_descriptor(sdpa, HIPDNN_ATTR_OPERATION_SDPA_FWD_QDESC + i, pool[i]);
    }
    final(sdpa);
    OK(get(sdpa, HIPDNN_ATTR_OPERATION_SDPA_FWD_SCALEDESC, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 0,
           &count, NULL));
    CHECK(count == 0);
    count = -1;
    OK(get(sdpa, HIPDNN_ATTR_SDPA_FWD_ATTN_SCALE_VALUE_EXT, HIPDNN_TYPE_FLOAT, 1, &count, &scale));
    CHECK(count == 0 && scale == -1.0f);
    destroy(sdpa);
}

/* ---- tensors ---- */

typedef struct {
    hipdnnDataType_t type;
    int bytes;
    uint64_t bits; /* little-endian */
} scalar_t;

static const scalar_t scalars[] = {
    {HIPDNN_DATA_FLOAT, 4, 0x3eaaaaab}, {HIPDNN_DATA_DOUBLE, 8, 0x3fd5555555555555},
    {HIPDNN_DATA_HALF, 2, 0x3555},      {HIPDNN_DATA_BFLOAT16, 2, 0x3eab},
    {HIPDNN_DATA_INT32, 4, 0xfffffffe}, {HIPDNN_DATA_INT64, 8, 0x8000000000000001},
    {HIPDNN_DATA_BOOLEAN, 1, 1},        {HIPDNN_DATA_UINT8, 1, 200},
    {HIPDNN_DATA_INT8, 1, 0x80},        {HIPDNN_DATA_FP8_E4M3, 1, 0x39},
    {HIPDNN_DATA_FP8_E5M2, 1, 0x3d},
};

static void walk_scalar(const scalar_t* scalar) {
    for (int runtime = 0; runtime < 2; ++runtime) {
        uint64_t bits = 0;
        int64_t count = 0;
        descriptor_t tensor = new_scalar(1, scalar->type);
        OK(set(tensor, HIPDNN_ATTR_TENSOR_CONSTANT_VALUE, HIPDNN_TYPE_CHAR, scalar->bytes,
               &scalar->bits));
        set_bool(tensor, HIPDNN_ATTR_TENSOR_IS_RUNTIME_PASS_BY_VALUE_EXT, runtime == 1);
        final(tensor);
        CHECK(get_bool(tensor, HIPDNN_ATTR_TENSOR_IS_BY_VALUE));
        CHECK(get_bool(tensor, HIPDNN_ATTR_TENSOR_IS_RUNTIME_PASS_BY_VALUE_EXT) == (runtime == 1));
        OK(get(tensor, HIPDNN_ATTR_TENSOR_VALUE_EXT, HIPDNN_TYPE_CHAR, 0, &count, NULL));
        CHECK(count == scalar->bytes);
        EXPECT(HIPDNN_STATUS_BAD_PARAM, get(tensor, HIPDNN_ATTR_TENSOR_VALUE_EXT, HIPDNN_TYPE_CHAR,
                                            count - 1 ? count - 1 : -1, NULL, &bits));
        OK(get(tensor, HIPDNN_ATTR_TENSOR_VALUE_EXT, HIPDNN_TYPE_CHAR, count, &count, &bits));
        CHECK(bits == scalar->bits);
        destroy(tensor);
    }
}

static void walk_tensor(void) {
    const int64_t dims[4] = {2, 3, 5, 7};
    const int64_t strides[4] = {105, 35, 7, 1};
    int64_t got[4] = {0, 0, 0, 0};
    int64_t count = 0;
    char name[16];
    hipdnnDataType_t type = HIPDNN_DATA_FLOAT;
    descriptor_t aux = NULL;
    descriptor_t tensor = new_tensor(99, HIPDNN_DATA_INT4, 4, dims, strides);
    set_text(tensor, HIPDNN_ATTR_TENSOR_NAME_EXT, "query");
    set_int64(tensor, HIPDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 64);
    set_descriptor(tensor, HIPDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC, pool[5]);
    set_int64(tensor, HIPDNN_ATTR_TENSOR_RAGGED_OFFSET_MULTIPLIER, 21);
    final(tensor);
    CHECK(get_int64(tensor, HIPDNN_ATTR_TENSOR_UNIQUE_ID) == 99);
    OK(get(tensor, HIPDNN_ATTR_TENSOR_DATA_TYPE, HIPDNN_TYPE_DATA_TYPE, 1, NULL, &type));
    CHECK(type == HIPDNN_DATA_INT4);
    OK(get(tensor, HIPDNN_ATTR_TENSOR_DIMENSIONS, HIPDNN_TYPE_INT64, 0, &count, NULL));
    CHECK(count == 4);
    OK(get(tensor, HIPDNN_ATTR_TENSOR_DIMENSIONS, HIPDNN_TYPE_INT64, 9, &count, got));
    CHECK(count == 4 && memcmp(got, dims, sizeof(dims)) == 0);
    OK(get(tensor, HIPDNN_ATTR_TENSOR_STRIDES, HIPDNN_TYPE_INT64, 2, &count, got));
    CHECK(count == 2 && got[0] == 105 && got[1] == 35 && got[2] == dims[2]);
    OK(get(tensor, HIPDNN_ATTR_TENSOR_NAME_EXT, HIPDNN_TYPE_CHAR, 16, &count, name));
    CHECK(count == 6 && strcmp(name, "query") == 0);
    OK(get(tensor, HIPDNN_ATTR_TENSOR_NAME_EXT, HIPDNN_TYPE_CHAR, 3, &count, name));
    CHECK(count == 3 && strcmp(name, "qu") == 0);
    CHECK(!get_bool(tensor, HIPDNN_ATTR_TENSOR_IS_VIRTUAL));
    CHECK(!get_bool(tensor, HIPDNN_ATTR_TENSOR_IS_BY_VALUE));
    CHECK(get_int64(tensor, HIPDNN_ATTR_TENSOR_BYTE_ALIGNMENT) == 64);
    CHECK(get_int64(tensor, HIPDNN_ATTR_TENSOR_RAGGED_OFFSET_MULTIPLIER) == 21);
    OK(get(tensor, HIPDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC, HIPDNN_TYPE_BACKEND_DESCRIPTOR, 1, NULL,
           &aux));
    CHECK(get_int64(aux, HIPDNN_ATTR_TENSOR_UNIQUE_ID) == 6);
    EXPECT(HIPDNN_STATUS_BAD_PARAM,
           get(tensor, HIPDNN_ATTR_TENSOR_VALUE_EXT, HIPDNN_TYPE_CHAR, 0, &count, NULL));
    destroy(aux);
    destroy(tensor);
}

static void walk_data_types(void) {
    for (int type = HIPDNN_DATA_FLOAT; type <= HIPDNN_DATA_FP8_E5M2_FNUZ; ++type) {
        hipdnnDataType_t got = HIPDNN_DATA_FLOAT;
        descriptor_t tensor = final(new_scalar(1, (hipdnnDataType_t)type));
        OK(get(tensor, HIPDNN_ATTR_TENSOR_DATA_TYPE, HIPDNN_TYPE_DATA_TYPE, 1, NULL, &got));
        CHECK((int)got == type);
        destroy(tensor);
    }
}

/* ---- the others ---- */

static void walk_graph(void) {
    static const row_t rows[] = {
        {HIPDNN_ATTR_OPERATIONGRAPH_COMPUTE_DATA_TYPE_EXT, "COMPUTE", HIPDNN_TYPE_DATA_TYPE},
        {HIPDNN_ATTR_OPERATIONGRAPH_INTERMEDIATE_DATA_TYPE_EXT, "INTER", HIPDNN_TYPE_DATA_TYPE},
        {HIPDNN_ATTR_OPERATIONGRAPH_IO_DATA_TYPE_EXT, "IO", HIPDNN_TYPE_DATA_TYPE},
        {HIPDNN_ATTR_OPERATIONGRAPH_PREFERRED_ENGINE_ID_EXT, "ENGINE", HIPDNN_TYPE_INT64},
        {HIPDNN_ATTR_OPERATIONGRAPH_NAME_EXT, "NAME", HIPDNN_TYPE_CHAR},
        {HIPDNN_ATTR_OPERATIONGRAPH_IS_OVERRIDE_SHAPE_ENABLED_EXT, "OVERRIDE", HIPDNN_TYPE_BOOLEAN},
    };
    const int row_count = (int)(sizeof(rows) / sizeof(rows[0]));
    descriptor_t graph = create(HIPDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    descriptor_t copy = NULL;
    size_t size = 0;
    size_t again = 0;
    for (int i = 0; i < row_count; ++i) {
        const value_t value = value_for(&rows[i], i);
        OK(set(graph, rows[i].name, rows[i].type, value.count, &value.as));
        expect_value(graph, &rows[i], i); /* graphs answer before they are final */
    }
    OK(hipdnnBackendGetSerializedBinaryGraph_ext(graph, 0, &size, NULL));
    uint8_t* bytes = malloc(size);
    OK(hipdnnBackendGetSerializedBinaryGraph_ext(graph, size, &size, bytes));
    OK(hipdnnBackendCreateAndDeserializeGraph_ext(&copy, bytes, size));
    for (int i = 0; i < row_count; ++i) expect_value(copy, &rows[i], i);
    /* A received graph that is changed is written anew. */
    set_text(copy, HIPDNN_ATTR_OPERATIONGRAPH_NAME_EXT, "another");
    OK(hipdnnBackendGetSerializedBinaryGraph_ext(copy, 0, &again, NULL));
    CHECK(again != 0);
    CHECK(get_int64(copy, HIPDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT) >= 1);
    free(bytes);
    destroy(copy);
    destroy(graph);
}

static void walk_pack(void) {
    static const int lists[] = {
        HIPDNN_ATTR_VARIANT_PACK_UNIQUE_IDS,
        HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_UNIQUE_IDS_EXT,
        HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_SHAPES_EXT,
        HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_STRIDES_EXT,
        HIPDNN_ATTR_VARIANT_PACK_OVERRIDE_LENGTHS_EXT,
    };
    const int64_t values[2] = {2, 1};
    const int64_t extents[3] = {4, 5, 6};
    void* pointers[2] = {&failures, NULL};
    void* got_pointers[2] = {NULL, &failures};
    void* workspace = &failures;
    void* got = NULL;
    descriptor_t pack = create(HIPDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); ++i) {
        const bool is_flat = i == 2 || i == 3;
        OK(set(pack, lists[i], HIPDNN_TYPE_INT64, is_flat ? 3 : 2, is_flat ? extents : values));
    }
    OK(set(pack, HIPDNN_ATTR_VARIANT_PACK_DATA_POINTERS, HIPDNN_TYPE_VOID_PTR, 2, pointers));
    OK(set(pack, HIPDNN_ATTR_VARIANT_PACK_WORKSPACE, HIPDNN_TYPE_VOID_PTR, 1, &workspace));
    final(pack);
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); ++i) {
        const bool is_flat = i == 2 || i == 3;
        int64_t got_values[3] = {0, 0, 0};
        int64_t count = 0;
        OK(get(pack, lists[i], HIPDNN_TYPE_INT64, 3, &count, got_values));
        CHECK(count == (is_flat ? 3 : 2));
        CHECK(memcmp(got_values, is_flat ? extents : values, (size_t)count * 8) == 0);
    }
    OK(get(pack, HIPDNN_ATTR_VARIANT_PACK_DATA_POINTERS, HIPDNN_TYPE_VOID_PTR, 2, NULL,
           got_pointers));
    CHECK(got_pointers[0] == pointers[0] && got_pointers[1] == NULL);
    OK(get(pack, HIPDNN_ATTR_VARIANT_PACK_WORKSPACE, HIPDNN_TYPE_VOID_PTR, 1, NULL, &got));
    CHECK(got == workspace);
    destroy(pack);
}

static void walk_knob_choices(void) {
    const int64_t integer = 5;
    const double real = 0.5;
    const char* text = "fast";
    const hipdnnBackendAttributeType_t types[] = {HIPDNN_TYPE_INT64, HIPDNN_TYPE_DOUBLE,
                                                  HIPDNN_TYPE_CHAR};
    const void* values[] = {&integer, &real, text};
    for (int i = 0; i < 3; ++i) {
        char got[16] = "";
        int64_t count = 0;
        descriptor_t choice = create(HIPDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
        set_text(choice, HIPDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, "tile");
        EXPECT(HIPDNN_STATUS_BAD_PARAM, hipdnnBackendFinalize(choice));
        EXPECT(HIPDNN_STATUS_BAD_PARAM,
               set(choice, HIPDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, HIPDNN_TYPE_FLOAT, 1, values[i]));
        OK(set(choice, HIPDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, types[i], i == 2 ? 4 : 1, values[i]));
        final(choice);
        OK(get(choice, HIPDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, HIPDNN_TYPE_CHAR, 16, &count, got));
        CHECK(count == 5 && strcmp(got, "tile") == 0);
        OK(get(choice, HIPDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, types[i], 16, &count, got));
        CHECK(memcmp(got, values[i], i == 2 ? 5 : 8) == 0);
        EXPECT(HIPDNN_STATUS_BAD_PARAM,
               get(choice, HIPDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, types[(i + 1) % 3], 1, NULL, got));
        destroy(choice);
    }
}

int main(void) {
    const int operation_count = (int)(sizeof(operations) / sizeof(operations[0]));
    OK(hipdnnCreate(&handle));
    for (int i = 0; i < POOL; ++i) pool[i] = final(new_scalar(i + 1, HIPDNN_DATA_INT32));
    for (int i = 0; i < operation_count; ++i) walk_operation(&operations[i]);
    unset_optionals();
    walk_tensor();
    walk_data_types();
    for (size_t i = 0; i < sizeof(scalars) / sizeof(scalars[0]); ++i) walk_scalar(&scalars[i]);
    walk_graph();
    walk_pack();
    walk_knob_choices();
    for (int i = 0; i < POOL; ++i) destroy(pool[i]);
    OK(hipdnnDestroy(handle));
    return report("test_attributes");
}
