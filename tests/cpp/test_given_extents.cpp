// Offsets and lengths that a node of the graph writes: the reference engine refuses them by itself,
// given bytes that no frontend has seen, and so do the C API and the C++ Graph.
#include <algorithm>

#include "raggeddnn/backend/hipdnn_backend.h"
#include "raggeddnn/graph/graph.hpp"
#include "sdpa_fixture.hpp"

namespace {

using namespace check;

void expect_text(const std::string& text, const std::string& part, const std::string& what) {
    expect(text.find(part) != std::string::npos,
           what + ": got \"" + text + "\", expected to contain \"" + part + "\"");
}

// Attention whose tensor `uid` is written, from EXTRA, by a node that comes last.
Problem with_writer_of(int64_t uid) {
    Problem p = make_problem(
        {.rows_q = {5, 3}, .rows_kv = {4, 6}, .valid_q = {5, 2}, .valid_kv = {1, 6}}, 1.0);
    const rs::TensorAttributesT& written = by_uid(p.graph, uid);
    p.graph.tensors.push_back(
        tensor(EXTRA, "extra", rs::from_wire(written.data_type), written.dims, written.strides));
    p.memory[EXTRA] = p.memory.at(uid);
    rs::PointwiseAttributesT copy;
    copy.operation = rs::PointwiseMode::IDENTITY;
    copy.in_0_tensor_uid = EXTRA;
    copy.out_0_tensor_uid = uid;
    p.graph.nodes.push_back(std::make_unique<rs::NodeT>());
    p.graph.nodes.back()->attributes.Set(std::move(copy));
    return p;
}

std::string error_of_graph(const std::vector<uint8_t>& bytes) {
    try {
        raggeddnn::Graph::deserialize(bytes);
    } catch (const raggeddnn::Exception& e) {
        expect(e.code() == raggeddnn::ErrorCode::INVALID_VALUE,
               "a written extent is INVALID_VALUE");
        return e.what();
    }
    return "";
}

std::string error_of_c_api(const std::vector<uint8_t>& bytes) {
    hipdnnHandle_t handle = nullptr;
    hipdnnBackendDescriptor_t graph = nullptr;
    expect(hipdnnCreate(&handle) == HIPDNN_STATUS_SUCCESS, "a handle");
    expect(hipdnnBackendCreateAndDeserializeGraph_ext(&graph, bytes.data(), bytes.size()) ==
               HIPDNN_STATUS_SUCCESS,
           "the bytes are a graph");
    expect(hipdnnBackendSetAttribute(graph, HIPDNN_ATTR_OPERATIONGRAPH_HANDLE, HIPDNN_TYPE_HANDLE,
                                     1, &handle) == HIPDNN_STATUS_SUCCESS,
           "the handle is set");
    const hipdnnStatus_t status = hipdnnBackendFinalize(graph);
    char text[512] = "";
    hipdnnGetLastErrorString(text, sizeof(text));
    expect((status == HIPDNN_STATUS_SUCCESS) == (text[0] == '\0'), "a status has its text");
    hipdnnBackendDestroyDescriptor(graph);
    hipdnnDestroy(handle);
    return text;
}

void check_refused(const Driver& driver, int64_t uid, const std::string& part) {
    Problem p = with_writer_of(uid);
    const Problem before = p;
    const std::vector<uint8_t> bytes = pack(p.graph);
    expect_text(driver.why_not(bytes), part, "why_not");
    expect_text(driver.run(bytes, p.buffers()), part, "building in spite of it");
    expect(p.memory == before.memory, "nothing is written: " + part);
    expect_text(error_of_graph(bytes), part, "Graph");
    expect_text(error_of_c_api(bytes), part, "C API");
}

}  // namespace

int main() {
    const Driver driver;
    const std::string written = ", which is a result of node 1, expected a tensor that no node";
    check_refused(driver, CU_Q, "has the ragged offset tensor 'cu_q' (uid 9)" + written);
    check_refused(driver, CU_KV, "has the ragged offset tensor 'cu_kv' (uid 10)" + written);
    check_refused(driver, LEN_Q, "node 0 has the seq_len_q tensor 'len_q' (uid 7)" + written);
    check_refused(driver, LEN_KV, "node 0 has the seq_len_kv tensor 'len_kv' (uid 8)" + written);
    // What attention reads otherwise may be a result.
    Problem fine = with_writer_of(Q);
    by_uid(fine.graph, EXTRA).ragged_offset_tensor_uid = CU_Q;
    by_uid(fine.graph, EXTRA).ragged_offset_multiplier =
        by_uid(fine.graph, Q).ragged_offset_multiplier;
    const std::vector<uint8_t> bytes = pack(fine.graph);
    expect(driver.why_not(bytes).empty() && driver.run(bytes, fine.buffers()).empty(),
           "a query that a node writes runs");
    expect(error_of_graph(bytes).empty() && error_of_c_api(bytes).empty(),
           "a query that a node writes is read");
    if (failures) std::fprintf(stderr, "%d failures\n", failures);
    return failures ? 1 : 0;
}
