#include "raggeddnn/schema/json_parse.hpp"

#include <set>
#include <string>
#include <vector>

#include "raggeddnn/base/error.hpp"
#include "raggeddnn/schema/text.hpp"

namespace raggeddnn::schema {

namespace {

using Json = nlohmann::json;
using Event = Json::parse_event_t;

// Follows the parser from event to event and stops it at the first bound that is broken.
class Bounds {
public:
    bool operator()(Event event, const Json& parsed) {
        switch (event) {
            case Event::object_start:
            case Event::array_start: enter(event == Event::array_start); break;
            case Event::object_end:
            case Event::array_end: levels_.pop_back(); break;
            case Event::key: key(parsed.get_ref<const std::string&>()); break;
            case Event::value: count(); break;
        }
        return true;
    }

private:
    struct Level {
        bool is_array = false;
        int64_t index = -1;          // of an array's element
        std::set<std::string> keys;  // of an object, so far
        std::string key;
    };

    void count() {
        if (!levels_.empty() && levels_.back().is_array) ++levels_.back().index;
    }

    void enter(bool is_array) {
        count();
        if (levels_.size() == K_MAX_JSON_DEPTH) {
            invalid("[json] ", path(), " is nested deeper than ", K_MAX_JSON_DEPTH, " levels");
        }
        levels_.push_back({is_array, -1, {}, {}});
    }

    void key(const std::string& key) {
        Level& level = levels_.back();
        level.key = key;
        if (!level.keys.insert(key).second) {
            invalid("[json] ", path(), " is given twice, expected every key once");
        }
        if (level.keys.size() > K_MAX_JSON_KEYS) {
            invalid("[json] ", path(), " is key number ", level.keys.size(),
                    " of its object, expected at most ", K_MAX_JSON_KEYS);
        }
    }

    std::string path() const {
        std::string text;
        for (const Level& level : levels_) {
            if (level.is_array) {
                text += message("[", level.index, "]");
            } else {
                if (!text.empty()) text += '.';
                text += printable(level.key);
            }
        }
        return text;
    }

    std::vector<Level> levels_;
};

}  // namespace

Json parse_json(std::string_view text) {
    if (text.size() > K_MAX_JSON_BYTES) {
        invalid("[json] the text has ", text.size(), " bytes, expected at most ", K_MAX_JSON_BYTES);
    }
    Bounds bounds;
    try {
        return Json::parse(text,
                           [&](int, Event event, Json& parsed) { return bounds(event, parsed); });
    } catch (const Json::exception& e) {
        // "[json.exception.parse_error.101] parse error at line 1, column 2: ..."
        std::string_view why = e.what();
        const size_t bracket = why.find("] ");
        if (bracket != std::string_view::npos) why.remove_prefix(bracket + 2);
        invalid("[json] the text is no JSON: ", printable(why, 300));
    }
}

}  // namespace raggeddnn::schema
