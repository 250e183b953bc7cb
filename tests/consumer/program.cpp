// Attention with one key, whose output is that key's value, through the library alone. Prints the
// engine and the first element of o.
#include <cstdint>
#include <cstdio>
#include <unordered_map>
#include <vector>

#include "raggeddnn/backend/execution_plan.hpp"
#include "raggeddnn/graph/graph.hpp"

int main() {
    using namespace raggeddnn;
    const auto attributes = [](const char* name) {
        TensorAttributes t;
        t.set_name(name).set_dim({1, 1, 1, 8}).set_stride({8, 8, 8, 1});
        t.set_data_type(DataType::FLOAT);
        return t;
    };
    Graph graph;
    graph.set_io_data_type(DataType::FLOAT).set_compute_data_type(DataType::FLOAT);
    const TensorPtr q = graph.tensor(attributes("q"));
    const TensorPtr k = graph.tensor(attributes("k"));
    const TensorPtr v = graph.tensor(attributes("v"));
    const TensorPtr o = graph.sdpa(q, k, v, SdpaAttributes().set_name("attention"))[0];
    o->set_output(true);
    if (const Error error = graph.build(); error.is_bad()) {
        std::fprintf(stderr, "build: %s\n", error.get_message().c_str());
        return 1;
    }
    std::vector<float> ones(8, 1.0f);
    std::vector<float> values(8, 3.0f);
    std::vector<float> result(8, -1.0f);
    std::unordered_map<int64_t, void*> pack = {{q->get_uid(), ones.data()},
                                               {k->get_uid(), ones.data()},
                                               {v->get_uid(), values.data()},
                                               {o->get_uid(), result.data()}};
    if (const Error error = graph.execute(nullptr, pack, nullptr); error.is_bad()) {
        std::fprintf(stderr, "execute: %s\n", error.get_message().c_str());
        return 1;
    }
    std::printf("%s %g\n", graph.plan()->engine_name().c_str(), result[0]);
    return 0;
}
