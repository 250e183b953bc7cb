// Which engine runs a graph, and why the others do not.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "raggeddnn/backend/handle.hpp"
#include "raggeddnn/backend/plugin_registry.hpp"
#include "raggeddnn/schema/blob.hpp"

namespace raggeddnn {

// What is said of one engine about one graph.
struct Verdict {
    std::string engine;
    std::string plugin;       // name and version
    std::string api_version;  // that the plugin reports
    bool applicable = false;
    std::string reason;  // why not; of an applicable engine, remarks
};

using KnobValue = std::variant<int64_t, double, std::string>;

struct BuildOptions {
    // An engine's name; "cpu" stands for RAGGEDDNN_CPU_ENGINE. Unset: the graph's preferred engine,
    // else the best one.
    std::optional<std::string> engine;
    std::map<std::string, KnobValue> knobs;
};

namespace backend {

struct Candidate {
    LoadedEngine engine;
    Verdict verdict;
};

// One candidate for each loaded engine, in load order.
RAGGEDDNN_API std::vector<Candidate> examine(const schema::GraphBlob& graph, hipdnnHandle& handle);

// The applicable candidates, best first: the graph's preferred engine, then those of the handle's
// device, then by priority.
std::vector<const Candidate*> ranked(const std::vector<Candidate>& candidates,
                                     const schema::Graph& graph, const hipdnnHandle& handle);

// The applicable candidate that the options ask for, else the preferred one, else the best. Throws
// NOT_SUPPORTED with every engine's reason.
const Candidate& choose(const std::vector<Candidate>& candidates, const schema::Graph& graph,
                        const hipdnnHandle& handle, const std::optional<std::string>& engine);

// "  ENGINE (plugin 0.1.0, API 1.4.0): reason", a line each.
std::string verdict_lines(const std::vector<Candidate>& candidates);

// Whether `asked` names the engine, in full or by its short form.
bool names_engine(const std::string& asked, const std::string& engine);

}  // namespace backend

}  // namespace raggeddnn
