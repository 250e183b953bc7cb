#include "raggeddnn/backend/selection.hpp"

#include <algorithm>
#include <sstream>
#include <tuple>

#include "raggeddnn/backend/finalize.hpp"
#include "raggeddnn/base/error.hpp"

namespace raggeddnn::backend {

namespace {

// What one plugin answers about a graph.
struct PluginAnswer {
    std::vector<int64_t> applicable;
    std::map<std::string, std::string> reasons;  // by engine name
    std::string text;                            // a reason that names no engine
};

hipdnnPluginConstData_t as_data(std::span<const uint8_t> bytes) {
    return {bytes.data(), bytes.size()};
}

// Lines "ENGINE: reason" go to their engine, other text to all.
void read_reasons(const PluginLibrary& library, const std::string& text, PluginAnswer& answer) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        const auto owner = std::find_if(
            library.engines().begin(), library.engines().end(),
            [&](const EngineInfo& engine) { return line.rfind(engine.name + ": ", 0) == 0; });
        if (owner != library.engines().end()) {
            answer.reasons[owner->name] = line.substr(owner->name.size() + 2);
        } else {
            answer.text += (answer.text.empty() ? "" : " ") + line;
        }
    }
}

PluginAnswer ask(const std::shared_ptr<const PluginLibrary>& library,
                 std::span<const uint8_t> graph, hipdnnHandle& handle) {
    PluginAnswer answer;
    try {
        const auto plugin_handle = handle.plugin_handle(library);
        const hipdnnPluginConstData_t data = as_data(graph);
        const std::string stale = library->last_error();
        std::vector<int64_t> ids(std::max<size_t>(library->engines().size(), 1));
        uint32_t count = 0;
        library->check(
            library->call().get_applicable_engine_ids(plugin_handle->get(), &data, ids.data(),
                                                      static_cast<uint32_t>(ids.size()), &count),
            "hipdnnEnginePluginGetApplicableEngineIds");
        if (count > ids.size()) {
            fail(ErrorCode::PLUGIN_ERROR, "reports ", count,
                 " applicable engines, expected at most ", ids.size());
        }
        ids.resize(count);
        answer.applicable = std::move(ids);
        const std::string fresh = library->last_error();
        // A plugin may never clear its text. One that did not change is a reason only if it was one
        // the last time, too.
        static thread_local std::map<std::string, std::string> last_reasons;  // by path
        std::string& last_reason = last_reasons[library->path()];
        if (fresh == stale && fresh != last_reason) return answer;
        last_reason = fresh;
        read_reasons(*library, fresh, answer);
    } catch (const std::exception& e) {  // a failing plugin declines; the others are still asked
        answer.applicable.clear();
        answer.text = message("the plugin failed: ", e.what());
    } catch (...) {
        answer.applicable.clear();
        answer.text = "the plugin failed: it let an unknown exception out";
    }
    return answer;
}

bool understands(const EngineInfo& engine, const std::vector<std::string>& extensions) {
    return std::all_of(extensions.begin(), extensions.end(), [&](const std::string& extension) {
        return std::find(engine.extensions.begin(), engine.extensions.end(), extension) !=
               engine.extensions.end();
    });
}

// Everything that decides before a plugin is asked. Empty: ask it.
std::string why_not_asked(const LoadedEngine& candidate, const schema::Graph& graph,
                          const hipdnnHandle& handle) {
    const EngineInfo& engine = candidate.info;
    if (!engine.device.empty() && engine.device != handle.device()) {
        return message("runs on ", engine.device, ", the handle's device is ", handle.device());
    }
    const plugin::ApiVersion& reported = candidate.library->api_version();
    const std::vector<std::string> extensions = extensions_used(graph);
    plugin::ApiVersion required = required_api_version(graph);
    if (!extensions.empty()) {
        if (!understands(engine, extensions)) {
            return message("does not list the extension '", extensions.front(),
                           "' that the graph uses");
        }
        // The extension's own stamp only keeps strangers out.
        plugin::GraphFeatures features = read_graph_features(graph);
        features.uses_extension = false;
        required = plugin::compute_minimum_plugin_api_version(features);
    }
    if (reported < required) {
        return message("plugin API ", plugin::to_string(reported), " is older than ",
                       plugin::to_string(required), ", which the graph needs");
    }
    if (graph.is_override_shape_enabled() && !candidate.library->call().execute_with_overrides) {
        return "lacks hipdnnEnginePluginExecuteOpGraphWithOverrides, which the graph needs";
    }
    return "";
}

// What a reader should know although the graph runs.
std::string remarks(const schema::GraphBlob& blob) {
    std::string text;
    const auto add = [&text](const std::string& remark) {
        text += (text.empty() ? "" : "; ") + remark;
    };
    if (blob.graph().nodes()) {
        for (const schema::Node* node : *blob.graph().nodes()) {
            const auto lacks_scale = [](const auto* sdpa) {
                return sdpa && !sdpa->scale_tensor_uid().has_value() &&
                       !sdpa->attn_scale_value().has_value();
            };
            if (lacks_scale(node->attributes_as_SdpaAttributes()) ||
                lacks_scale(node->attributes_as_SdpaBackwardAttributes())) {
                add("attn_scale is absent: taken as 1/sqrt(head_dim)");
            }
        }
    }
    for (const std::string& slot : blob.unknown_slots()) add("unknown to this reader: " + slot);
    return text;
}

}  // namespace

std::vector<Candidate> examine(const schema::GraphBlob& graph, hipdnnHandle& handle) {
    std::vector<Candidate> candidates;
    std::map<const PluginLibrary*, PluginAnswer> answers;
    const std::string notes = remarks(graph);
    for (const LoadedEngine& engine : PluginRegistry::instance().engines()) {
        const PluginLibrary& library = *engine.library;
        Candidate candidate{engine,
                            {engine.info.name, library.name() + " " + library.version(),
                             plugin::to_string(library.api_version()), false, ""}};
        Verdict& verdict = candidate.verdict;
        verdict.reason = why_not_asked(engine, graph.graph(), handle);
        if (verdict.reason.empty()) {
            auto found = answers.find(&library);
            if (found == answers.end()) {
                found = answers.emplace(&library, ask(engine.library, graph.bytes(), handle)).first;
            }
            const PluginAnswer& answer = found->second;
            verdict.applicable = std::find(answer.applicable.begin(), answer.applicable.end(),
                                           engine.info.id) != answer.applicable.end();
            if (verdict.applicable) {
                verdict.reason = notes;
            } else if (const auto own = answer.reasons.find(engine.info.name);
                       own != answer.reasons.end()) {
                verdict.reason = own->second;
            } else {
                verdict.reason = answer.text.empty() ? "declined without a reason" : answer.text;
            }
        }
        candidates.push_back(std::move(candidate));
    }
    return candidates;
}

bool names_engine(const std::string& asked, const std::string& engine) {
    if (asked == engine) return true;
    std::string upper = asked;
    for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    return "RAGGEDDNN_" + upper + "_ENGINE" == engine;
}

std::string verdict_lines(const std::vector<Candidate>& candidates) {
    std::string text;
    for (const Candidate& candidate : candidates) {
        const Verdict& v = candidate.verdict;
        text += message("\n  ", v.engine, " (", v.plugin, ", API ", v.api_version,
                        "): ", v.applicable ? "applicable" : v.reason);
    }
    return text.empty() ? "\n  (no engine is loaded)" : text;
}

std::vector<const Candidate*> ranked(const std::vector<Candidate>& candidates,
                                     const schema::Graph& graph, const hipdnnHandle& handle) {
    std::vector<const Candidate*> best_first;
    for (const Candidate& c : candidates) {
        if (c.verdict.applicable) best_first.push_back(&c);
    }
    const auto rank = [&](const Candidate& c) {
        const bool is_preferred = graph.preferred_engine_id().has_value() &&
                                  *graph.preferred_engine_id() == c.engine.info.id;
        const bool is_at_home = c.engine.info.device == handle.device();
        return std::tuple(is_preferred, is_at_home, c.engine.info.priority);
    };
    std::stable_sort(best_first.begin(), best_first.end(),
                     [&](const Candidate* a, const Candidate* b) { return rank(*a) > rank(*b); });
    return best_first;
}

const Candidate& choose(const std::vector<Candidate>& candidates, const schema::Graph& graph,
                        const hipdnnHandle& handle, const std::optional<std::string>& engine) {
    const std::string name = graph.name() ? graph.name()->str() : "";
    const auto by_name = [&](const Candidate& c) {
        return names_engine(*engine, c.verdict.engine);
    };
    if (engine) {
        const auto asked = std::find_if(candidates.begin(), candidates.end(), by_name);
        if (asked == candidates.end()) {
            fail(ErrorCode::NOT_SUPPORTED, "graph '", name, "': no engine is named '", *engine,
                 "', loaded are:", verdict_lines(candidates));
        }
        if (!asked->verdict.applicable) {
            fail(ErrorCode::NOT_SUPPORTED, "graph '", name, "': engine '", *engine,
                 "' cannot run it:", verdict_lines({*asked}));
        }
        return *asked;
    }
    const std::vector<const Candidate*> best_first = ranked(candidates, graph, handle);
    if (best_first.empty()) {
        fail(ErrorCode::NOT_SUPPORTED, "graph '", name,
             "': no engine can run it:", verdict_lines(candidates));
    }
    return *best_first.front();
}

}  // namespace raggeddnn::backend
