// links: raggeddnn_cpu_objects
// What the CPU engine's plans refuse at an execute, before they write anything.
#include "sdpa_fixture.hpp"

using namespace check;

int main() {
    const Driver driver;
    Spec spec;
    spec.rows_q = {3, 40};
    spec.rows_kv = {5, 20};
    spec.type = DataType::FLOAT;
    Problem p = make_problem(spec, 7.0);
    const std::map<int64_t, Array> before = p.memory;
    const std::string error = driver.run(pack(p.graph), p.buffers(), false);
    expect(error.find("the workspace is null, expected memory") != std::string::npos,
           "without a workspace the error is '" + error + "'");
    expect(p.memory == before, "without a workspace nothing is written");
    expect(driver.run(pack(p.graph), p.buffers()).empty(), "with one it runs");
    expect(!(p.memory.at(O) == before.at(O)), "and writes");
    return failures == 0 ? 0 : 1;
}
