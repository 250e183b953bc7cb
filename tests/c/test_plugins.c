/* Plugins, engines, policies, logging and version, through the C API alone.
 *
 * Arguments: a plugin file that is no default one, its path without prefix and ending, the name of
 * its engine, and the version of the package. */
#include "check.h"

static int lines = 0;

static void count_lines(hipdnnUserLogCallbackHandle_t user_handle, hipdnnSeverity_t severity,
                        const char* text) {
    CHECK(user_handle == &lines && severity <= HIPDNN_SEV_ERROR && text != NULL);
    ++lines;
    /* Using the API in a callback must not lock up. */
    hipdnnLoggingCallback_ext(HIPDNN_SEV_OFF, "nested");
    (void)hipdnnSetUserLogCallback_ext(count_lines, HIPDNN_SEV_INFO, HIPDNN_LOG_CALLBACK_SYNC,
                                       &lines);
}

static void logging(void) {
    hipdnnSeverity_t level = HIPDNN_SEV_INFO;
    for (int i = HIPDNN_SEV_INFO; i <= HIPDNN_SEV_OFF; ++i) {
        OK(hipdnnBackendSetGlobalLogLevel_ext((hipdnnSeverity_t)i));
        OK(hipdnnBackendGetGlobalLogLevel_ext(&level));
        CHECK((int)level == i);
    }
    EXPECT(HIPDNN_STATUS_BAD_PARAM, hipdnnBackendSetGlobalLogLevel_ext((hipdnnSeverity_t)77));
    OK(hipdnnBackendSetGlobalLogLevel_ext(HIPDNN_SEV_WARN));
    EXPECT(HIPDNN_STATUS_BAD_PARAM,
           hipdnnSetUserLogCallback_ext(NULL, HIPDNN_SEV_INFO, HIPDNN_LOG_CALLBACK_SYNC, &lines));
    EXPECT(HIPDNN_STATUS_BAD_PARAM, hipdnnSetUserLogCallback_ext(count_lines, HIPDNN_SEV_INFO,
                                                                 HIPDNN_LOG_CALLBACK_SYNC, NULL));
    EXPECT(HIPDNN_STATUS_BAD_PARAM, hipdnnSetUserLogCallback_ext(count_lines, HIPDNN_SEV_OFF,
                                                                 HIPDNN_LOG_CALLBACK_SYNC, &lines));
    OK(hipdnnSetUserLogCallback_ext(count_lines, HIPDNN_SEV_INFO, HIPDNN_LOG_CALLBACK_SYNC,
                                    &lines));
    hipdnnLoggingCallback_ext(HIPDNN_SEV_ERROR, "an error");
    hipdnnLoggingCallback_ext(HIPDNN_SEV_INFO, "below the global level");
    CHECK(lines == 1);
    OK(hipdnnSetUserLogCallback_ext(count_lines, HIPDNN_SEV_OFF, HIPDNN_LOG_CALLBACK_SYNC, &lines));
    OK(hipdnnBackendSetGlobalLogLevel_ext(HIPDNN_SEV_OFF));
    hipdnnLoggingCallback_ext(HIPDNN_SEV_ERROR, "nobody listens");
    CHECK(lines == 1);
}

static void version(const char* expected) {
    const char* text = NULL;
    char full[64];
    snprintf(full, sizeof(full), "%s.0", expected);
    OK(hipdnnGetVersion_ext(&text));
    CHECK(text != NULL && strcmp(text, full) == 0);
    CHECK(strcmp(hipdnnVersionString_ext(), full) == 0);
}

/* The number of loaded plugins; `path` is among them or not. */
static size_t loaded_plugins(hipdnnHandle_t handle, const char* path, bool* is_among) {
    size_t count = 0;
    size_t length = 0;
    OK(hipdnnGetLoadedEnginePluginPaths_ext(handle, &count, NULL, &length));
    char** paths = malloc(count * sizeof(char*) + 1);
    for (size_t i = 0; i < count; ++i) paths[i] = malloc(length);
    *is_among = false;
    if (length > 0) {
        size_t small = length - 1;
        EXPECT(HIPDNN_STATUS_BAD_PARAM,
               hipdnnGetLoadedEnginePluginPaths_ext(handle, &count, paths, &small));
    }
    OK(hipdnnGetLoadedEnginePluginPaths_ext(handle, &count, paths, &length));
    for (size_t i = 0; i < count; ++i) {
        if (strcmp(paths[i], path) == 0) *is_among = true;
        free(paths[i]);
    }
    free(paths);
    return count;
}

static void engines(hipdnnHandle_t handle, const char* expected_name) {
    size_t count = 0;
    bool found = false;
    char previous[256] = "";
    OK(hipdnnGetEngineCount_ext(handle, &count));
    CHECK(count >= 1);
    for (size_t i = 0; i < count; ++i) {
        char name[256];
        char plugin[256];
        char version_text[64];
        char type[64];
        size_t lengths[4] = {0, 0, 0, 0};
        int64_t id = 0;
        int64_t by_name = 1;
        OK(hipdnnGetEngineInfo_ext(handle, i, NULL, NULL, &lengths[0], NULL, &lengths[1], NULL,
                                   &lengths[2], NULL, &lengths[3]));
        CHECK(lengths[0] > 1 && lengths[0] <= sizeof(name) && lengths[1] > 1);
        OK(hipdnnGetEngineInfo_ext(handle, i, &id, name, &lengths[0], plugin, &lengths[1],
                                   version_text, &lengths[2], type, &lengths[3]));
        OK(hipdnnGetEngineIdByName_ext(handle, name, &by_name));
        CHECK(id == by_name);
        CHECK(strcmp(previous, name) < 0);
        strcpy(previous, name);
        found = found || strcmp(name, expected_name) == 0;
        lengths[0] = 1;
        EXPECT(HIPDNN_STATUS_BAD_PARAM,
               hipdnnGetEngineInfo_ext(handle, i, &id, name, &lengths[0], plugin, &lengths[1],
                                       version_text, &lengths[2], type, &lengths[3]));
    }
    CHECK(found);
    size_t unused = 0;
    EXPECT(HIPDNN_STATUS_BAD_PARAM,
           hipdnnGetEngineInfo_ext(handle, count, NULL, NULL, &unused, NULL, &unused, NULL, &unused,
                                   NULL, &unused));
}

static void policies(hipdnnHandle_t handle) {
    size_t count = 0;
    size_t lengths[4] = {64, 64, 64, 64};
    char texts[4][64];
    int64_t id = 0;
    OK(hipdnnGetHeuristicPolicyCount_ext(handle, &count));
    CHECK(count == 1);
    OK(hipdnnGetHeuristicPolicyInfo_ext(handle, 0, &id, texts[0], &lengths[0], texts[1],
                                        &lengths[1], texts[2], &lengths[2], texts[3], &lengths[3]));
    CHECK(id != 0 && strlen(texts[0]) + 1 == lengths[0]);
    EXPECT(HIPDNN_STATUS_BAD_PARAM, hipdnnGetHeuristicPolicyInfo_ext(
                                        handle, 1, &id, texts[0], &lengths[0], texts[1],
                                        &lengths[1], texts[2], &lengths[2], texts[3], &lengths[3]));
}

static void refusals(void) {
    const char* paths[2] = {"/no/such/plugin", NULL};
    EXPECT(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER,
           hipdnnSetEnginePluginPaths_ext(1, NULL, HIPDNN_PLUGIN_LOADING_ADDITIVE));
    EXPECT(HIPDNN_STATUS_BAD_PARAM,
           hipdnnSetEnginePluginPaths_ext(1, paths, HIPDNN_PLUGIN_LOADING_ADDITIVE));
    ERROR_NAMES("/no/such/plugin");
    EXPECT(HIPDNN_STATUS_BAD_PARAM_NULL_POINTER,
           hipdnnSetEnginePluginPaths_ext(1, paths + 1, HIPDNN_PLUGIN_LOADING_ADDITIVE));
    EXPECT(HIPDNN_STATUS_BAD_PARAM,
           hipdnnSetEnginePluginPaths_ext(0, NULL, (hipdnnPluginLoadingMode_ext_t)9));
    EXPECT(HIPDNN_STATUS_NOT_SUPPORTED,
           hipdnnSetHeuristicPluginPaths_ext(1, paths, HIPDNN_PLUGIN_LOADING_ADDITIVE));
    OK(hipdnnSetHeuristicPluginPaths_ext(0, NULL, HIPDNN_PLUGIN_LOADING_ABSOLUTE));
    OK(hipdnnSetPluginUnloadMode_ext(HIPDNN_PLUGIN_UNLOAD_EAGER));
    OK(hipdnnSetPluginUnloadMode_ext(HIPDNN_PLUGIN_UNLOAD_LAZY));
    EXPECT(HIPDNN_STATUS_BAD_PARAM,
           hipdnnSetPluginUnloadMode_ext((hipdnnPluginUnloadingMode_ext_t)-1));
}

int main(int argc, char** argv) {
    if (argc != 5) {
        printf("usage: test_plugins PLUGIN SHORT ENGINE VERSION\n");
        return 2;
    }
    const char* plugin = argv[1];
    const char* short_path = argv[2];
    hipdnnHandle_t handle = NULL;
    bool is_among = false;
    logging();
    version(argv[4]);
    refusals();

    OK(hipdnnCreate(&handle));
    const size_t defaults = loaded_plugins(handle, plugin, &is_among);
    CHECK(defaults >= 1 && !is_among);
    EXPECT(HIPDNN_STATUS_NOT_SUPPORTED,
           hipdnnSetEnginePluginPaths_ext(1, &plugin, HIPDNN_PLUGIN_LOADING_ADDITIVE));
    policies(handle);
    OK(hipdnnDestroy(handle));

    OK(hipdnnSetEnginePluginPaths_ext(1, &plugin, HIPDNN_PLUGIN_LOADING_ADDITIVE));
    OK(hipdnnCreate(&handle));
    CHECK(loaded_plugins(handle, plugin, &is_among) == defaults + 1 && is_among);
    engines(handle, argv[3]);
    OK(hipdnnDestroy(handle));

    OK(hipdnnSetEnginePluginPaths_ext(1, &short_path, HIPDNN_PLUGIN_LOADING_ABSOLUTE));
    OK(hipdnnCreate(&handle));
    CHECK(loaded_plugins(handle, plugin, &is_among) == 1 && is_among);
    engines(handle, argv[3]);
    OK(hipdnnDestroy(handle));
    return report("test_plugins");
}
