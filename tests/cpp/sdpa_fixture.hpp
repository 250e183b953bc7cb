// Drives an engine plugin through its C ABI, in process, for the checks of one forward attention
// node: memory of any type, a graph, and a naive evaluation of the contract.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "raggeddnn/plugin/engine.hpp"
#include "raggeddnn/schema/graph_generated.h"
#include "raggeddnn/tensor/half.hpp"

namespace check {

namespace rs = raggeddnn::schema;
using raggeddnn::DataType;

inline constexpr double INF = std::numeric_limits<double>::infinity();
inline int failures = 0;

inline void expect(bool good, const std::string& what) {
    if (good) return;
    ++failures;
    if (failures <= 40) std::fprintf(stderr, "FAILED: %s\n", what.c_str());
}

// Memory of `count` elements, read and written as doubles.
class Array {
public:
    Array() = default;
    Array(DataType type, int64_t count, double fill)
        : type_(type), bytes_(raggeddnn::bytes_of(type, static_cast<size_t>(count)) + 1) {
        for (int64_t i = 0; i < count; ++i) set(i, fill);
        count_ = count;
    }
    void set(int64_t i, double v) {
        switch (type_) {
            case DataType::DOUBLE: return put(i, v);
            case DataType::FLOAT: return put(i, static_cast<float>(v));
            case DataType::HALF: return put(i, raggeddnn::half(v));
            case DataType::BFLOAT16: return put(i, raggeddnn::bfloat16(v));
            case DataType::INT32: return put(i, static_cast<int32_t>(v));
            default: return put(i, static_cast<int64_t>(v));
        }
    }
    double get(int64_t i) const {
        switch (type_) {
            case DataType::DOUBLE: return at<double>(i);
            case DataType::FLOAT: return static_cast<double>(at<float>(i));
            case DataType::HALF: return static_cast<double>(at<raggeddnn::half>(i));
            case DataType::BFLOAT16: return static_cast<double>(at<raggeddnn::bfloat16>(i));
            case DataType::INT32: return at<int32_t>(i);
            default: return static_cast<double>(at<int64_t>(i));
        }
    }
    int64_t count() const { return count_; }
    void* data() { return bytes_.data(); }
    bool operator==(const Array& other) const { return bytes_ == other.bytes_; }

private:
    template <class T>
    void put(int64_t i, T v) {
        std::memcpy(bytes_.data() + static_cast<size_t>(i) * sizeof(T), &v, sizeof(T));
    }
    template <class T>
    T at(int64_t i) const {
        T v;
        std::memcpy(&v, bytes_.data() + static_cast<size_t>(i) * sizeof(T), sizeof(T));
        return v;
    }
    DataType type_ = DataType::FLOAT;
    std::vector<uint8_t> bytes_;
    int64_t count_ = 0;
};

enum Uid : int64_t { Q = 1, K, V, O, STATS, BIAS, LEN_Q, LEN_KV, CU_Q, CU_KV, SCALE, EXTRA };

inline std::unique_ptr<rs::TensorAttributesT> tensor(int64_t uid, const char* name, DataType type,
                                                     std::vector<int64_t> dims,
                                                     std::vector<int64_t> strides) {
    auto t = std::make_unique<rs::TensorAttributesT>();
    t->uid = uid;
    t->name = name;
    t->data_type = rs::to_wire(type);
    t->dims = std::move(dims);
    t->strides = std::move(strides);
    return t;
}

inline rs::TensorAttributesT& by_uid(rs::GraphT& graph, int64_t uid) {
    for (auto& t : graph.tensors) {
        if (t->uid == uid) return *t;
    }
    std::abort();
}

inline rs::SdpaAttributesT& sdpa_of(rs::GraphT& graph) {
    return *graph.nodes[0]->attributes.AsSdpaAttributes();
}

inline std::vector<uint8_t> pack(const rs::GraphT& graph) {
    flatbuffers::FlatBufferBuilder builder;
    builder.Finish(rs::Graph::Pack(builder, &graph));
    return {builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize()};
}

inline std::string last_error() {
    const char* text = nullptr;
    hipdnnPluginGetLastErrorString(&text);
    return text ? text : "(null)";
}

// The one engine of the plugin that is linked in.
class Driver {
public:
    Driver() {
        uint32_t count = 0;
        hipdnnEnginePluginGetAllEngineIds(&id_, 1, &count);
        expect(count == 1, "the plugin has one engine");
        hipdnnEnginePluginCreate(&handle_);
        flatbuffers::FlatBufferBuilder builder;
        rs::EngineConfigBuilder table(builder);
        table.add_engine_id(id_);
        builder.Finish(table.Finish());
        config_.assign(builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize());
    }
    ~Driver() { hipdnnEnginePluginDestroy(handle_); }
    Driver(const Driver&) = delete;
    Driver& operator=(const Driver&) = delete;

    int64_t id() const { return id_; }

    // Empty when the engine takes the graph, else its reason.
    std::string why_not(const std::vector<uint8_t>& bytes) const {
        const hipdnnPluginConstData_t data{bytes.data(), bytes.size()};
        uint32_t count = 0;
        const auto status =
            hipdnnEnginePluginGetApplicableEngineIds(handle_, &data, nullptr, 0, &count);
        const std::string reason = last_error();
        if (status == HIPDNN_PLUGIN_STATUS_SUCCESS && count == 1) return "";
        return reason.empty() ? "(no reason)" : reason;
    }

    // Empty on success, else the error.
    std::string run(const std::vector<uint8_t>& bytes,
                    std::vector<hipdnnPluginDeviceBuffer_t> buffers,
                    bool has_workspace = true) const {
        const hipdnnPluginConstData_t data{bytes.data(), bytes.size()};
        const hipdnnPluginConstData_t config{config_.data(), config_.size()};
        hipdnnEnginePluginExecutionContext_t context = nullptr;
        if (hipdnnEnginePluginCreateExecutionContext(handle_, &config, &data, &context) !=
            HIPDNN_PLUGIN_STATUS_SUCCESS) {
            return last_error();
        }
        size_t bytes_needed = 0;
        hipdnnEnginePluginGetWorkspaceSizeFromExecutionContext(handle_, context, &bytes_needed);
        std::vector<char> workspace(bytes_needed);
        const auto status = hipdnnEnginePluginExecuteOpGraph(
            handle_, context, has_workspace ? workspace.data() : nullptr, buffers.data(),
            static_cast<uint32_t>(buffers.size()));
        const std::string error = status == HIPDNN_PLUGIN_STATUS_SUCCESS ? "" : last_error();
        hipdnnEnginePluginDestroyExecutionContext(handle_, context);
        return error;
    }

private:
    hipdnnEnginePluginHandle_t handle_ = nullptr;
    int64_t id_ = 0;
    std::vector<uint8_t> config_;
};

// A forward problem: blocks of rows per batch and how many of them are valid.
struct Spec {
    std::vector<int64_t> rows_q, rows_kv;    // room
    std::vector<int64_t> valid_q, valid_kv;  // empty: all, and no lengths tensors
    bool is_packed = true;                   // ragged, or padded to the longest block
    int64_t heads = 2, k_heads = 2, v_heads = 2, dim = 8, value_dim = 8;
    DataType type = DataType::DOUBLE;
    DataType index_type = DataType::INT32;
    std::optional<float> scale;
    std::optional<double> scale_tensor;
    std::optional<int64_t> left, right;
    bool is_bottom_right = false;
    bool has_bias = false;
    bool is_head_major = false;  // padded only: strides of [B, H, S, D] in order
    double amplitude = 1.0;
};

struct Problem {
    Spec spec;
    rs::GraphT graph;
    std::map<int64_t, Array> memory;
    std::vector<int64_t> starts_q, starts_kv;  // first row of each batch when packed, and the end

    std::vector<hipdnnPluginDeviceBuffer_t> buffers() {
        std::vector<hipdnnPluginDeviceBuffer_t> list;
        for (auto& [uid, array] : memory) list.push_back({uid, array.data()});
        return list;
    }
    int64_t batches() const { return static_cast<int64_t>(spec.rows_q.size()); }
    bool is_query_side(int64_t uid) const { return uid == Q || uid == O || uid == STATS; }
    // Element of [batch, head, row, col] of an operand.
    int64_t at(int64_t uid, int64_t b, int64_t h, int64_t r, int64_t c) const {
        const rs::TensorAttributesT& t = by_uid(const_cast<rs::GraphT&>(graph), uid);
        int64_t base = b * t.strides[0];
        if (spec.is_packed) {
            base =
                (is_query_side(uid) ? starts_q : starts_kv)[static_cast<size_t>(b)] * t.strides[2];
        }
        return base + h * t.strides[1] + r * t.strides[2] + c * t.strides[3];
    }
    int64_t valid_q(int64_t b) const {
        return (spec.valid_q.empty() ? spec.rows_q : spec.valid_q)[static_cast<size_t>(b)];
    }
    int64_t valid_kv(int64_t b) const {
        return (spec.valid_q.empty() ? spec.rows_kv : spec.valid_kv)[static_cast<size_t>(b)];
    }
};

Problem make_problem(const Spec& spec, double prefill, uint32_t seed = 1);

// What the contract says of one row, straight from its rules.
struct NaiveRow {
    std::vector<long double> o;
    long double lse = -std::numeric_limits<long double>::infinity();
    long double peak_score = 0;  // largest magnitudes: the error of arithmetic grows with them
    long double peak_value = 0;
};
NaiveRow naive_row(Problem& p, int64_t b, int64_t h, int64_t r);

}  // namespace check
