#include "raggeddnn/schema/json_parse.hpp"

#include <string>
#include <vector>

#include "raggeddnn/base/error.hpp"
#include "raggeddnn/schema/text.hpp"

namespace raggeddnn::schema {

namespace {

using Json = nlohmann::json;

// Builds the value from the parser's events and stops at the first bound that is broken. (The
// library's own parser with a callback looks through the whole list whenever an object in it ends:
// the square of its length.)
class Builder : public nlohmann::json_sax<Json> {
public:
    bool null() override { return put(nullptr); }
    bool boolean(bool value) override { return put(value); }
    bool number_integer(int64_t value) override { return put(value); }
    bool number_unsigned(uint64_t value) override { return put(value); }
    bool number_float(double value, const std::string&) override { return put(value); }
    bool string(std::string& value) override { return put(std::move(value)); }
    bool binary(Json::binary_t&) override { return false; }  // no text has any
    bool start_object(size_t) override { return enter(Json::object()); }
    bool start_array(size_t) override { return enter(Json::array()); }
    bool end_object() override { return leave(); }
    bool end_array() override { return leave(); }

    bool key(std::string& key) override {
        Level& level = levels_.back();
        level.key = key;
        if (level.value->contains(key)) {
            invalid("[json] ", path(), " is given twice, expected every key once");
        }
        if (level.value->size() == K_MAX_JSON_KEYS) {
            invalid("[json] ", path(), " is key number ", K_MAX_JSON_KEYS + 1,
                    " of its object, expected at most ", K_MAX_JSON_KEYS);
        }
        return true;
    }

    bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& e) override {
        // "[json.exception.parse_error.101] parse error at line 1, column 2: ..."
        std::string_view why = e.what();
        const size_t bracket = why.find("] ");
        if (bracket != std::string_view::npos) why.remove_prefix(bracket + 2);
        invalid("[json] the text is no JSON: ", printable(why, 300));
    }

    Json take() { return std::move(root_); }

private:
    // An object or list that is being filled. Its place does not move until it is complete.
    struct Level {
        Json* value = nullptr;
        std::string key;  // of an object: the last one
    };

    Json* add(Json value) {
        if (levels_.empty()) return &(root_ = std::move(value));
        Level& level = levels_.back();
        if (level.value->is_object()) {
            return &((*level.value)[level.key] = std::move(value));
        }
        level.value->push_back(std::move(value));
        return &level.value->back();
    }

    bool put(Json value) {
        add(std::move(value));
        return true;
    }

    bool enter(Json empty) {
        Json* added = add(std::move(empty));
        if (levels_.size() == K_MAX_JSON_DEPTH) {
            invalid("[json] ", path(), " is nested deeper than ", K_MAX_JSON_DEPTH, " levels");
        }
        levels_.push_back({added, {}});
        return true;
    }

    bool leave() {
        levels_.pop_back();
        return true;
    }

    // Of what was added last.
    std::string path() const {
        std::string text;
        for (const Level& level : levels_) {
            if (level.value->is_array()) {
                text += message("[", level.value->size() - 1, "]");
            } else {
                if (!text.empty()) text += '.';
                text += printable(level.key);
            }
        }
        return text;
    }

    Json root_;
    std::vector<Level> levels_;
};

}  // namespace

Json parse_json(std::string_view text) {
    if (text.size() > K_MAX_JSON_BYTES) {
        invalid("[json] the text has ", text.size(), " bytes, expected at most ", K_MAX_JSON_BYTES);
    }
    Builder builder;
    Json::sax_parse(text, &builder);
    return builder.take();
}

}  // namespace raggeddnn::schema
