// Received bytes, made safe to read.
//
// Graphs, plans and engine configurations arrive as FlatBuffers from files, from other processes
// and from plugins. A blob is such a buffer once it has been copied to aligned memory, verified,
// guarded against readers that are too old, and walked (walk.hpp). Only then may it be read or
// unpacked. The bytes are kept exactly as they came: repacking would lose every slot that this
// version does not know, so engines and files get these bytes back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "raggeddnn/base/api.hpp"
#include "raggeddnn/schema/engine_generated.h"
#include "raggeddnn/schema/execution_plan_generated.h"
#include "raggeddnn/schema/graph_generated.h"

namespace raggeddnn::schema {

// The newest `min_reader_version` this reader understands: 1 added runtime scalars, 2 the gradient
// of stats and the override of runtime defaults.
inline constexpr uint32_t K_GRAPH_READER_VERSION = 2;

// The newest engine plugin API whose graphs this reader understands, hipDNN's and our own. Between
// the two lie hipDNN's future versions, whose meaning nobody knows yet: refused.
inline constexpr uint32_t K_NEWEST_API_MAJOR = 1;
inline constexpr uint32_t K_NEWEST_API_MINOR = 4;
inline constexpr uint32_t K_EXTENSION_API_MINOR = 1000;

enum class BlobKind { GRAPH, EXECUTION_PLAN, GRAPH_AND_PLAN };

RAGGEDDNN_API const char* to_string(BlobKind kind);

// An owned copy that starts at a multiple of 16, as the widest element in any schema needs.
class RAGGEDDNN_API AlignedBytes {
public:
    explicit AlignedBytes(std::span<const uint8_t> bytes);
    std::span<const uint8_t> view() const {
        return {reinterpret_cast<const uint8_t*>(chunks_.data()), size_};
    }

private:
    struct alignas(16) Chunk {
        uint8_t bytes[16];
    };
    std::vector<Chunk> chunks_;
    size_t size_;
};

// What the blobs below share. Every `read` throws raggeddnn::Exception: INVALID_VALUE for bytes
// that are damaged or something else, NOT_SUPPORTED for a graph made for a newer reader.
class RAGGEDDNN_API Blob {
public:
    std::span<const uint8_t> bytes() const { return bytes_.view(); }
    // Filled slots that this version does not know: "TensorAttributes slot 12 of tensor 'q'".
    const std::vector<std::string>& unknown_slots() const { return unknown_slots_; }

protected:
    explicit Blob(std::span<const uint8_t> bytes) : bytes_(bytes) {}
    template <class Root>
    const Root& root() const {
        return *flatbuffers::GetRoot<Root>(bytes_.view().data());
    }

    AlignedBytes bytes_;
    std::vector<std::string> unknown_slots_;
};

class RAGGEDDNN_API GraphBlob : public Blob {
public:
    static GraphBlob read(std::span<const uint8_t> bytes);
    const Graph& graph() const { return root<Graph>(); }

private:
    using Blob::Blob;
};

class RAGGEDDNN_API PlanBlob : public Blob {
public:
    static PlanBlob read(std::span<const uint8_t> bytes);
    const SerializedExecutionPlan& plan() const { return root<SerializedExecutionPlan>(); }

private:
    using Blob::Blob;
};

class RAGGEDDNN_API EngineConfigBlob : public Blob {
public:
    static EngineConfigBlob read(std::span<const uint8_t> bytes);
    const EngineConfig& config() const { return root<EngineConfig>(); }

private:
    using Blob::Blob;
};

class RAGGEDDNN_API EngineDetailsBlob : public Blob {
public:
    static EngineDetailsBlob read(std::span<const uint8_t> bytes);
    const EngineDetails& details() const { return root<EngineDetails>(); }

private:
    using Blob::Blob;
};

// The two buffers of a container, still unread. An empty one counts as absent.
struct ContainerBlob {
    std::optional<std::vector<uint8_t>> graph;
    std::optional<std::vector<uint8_t>> plan;
    bool is_checked = false;  // it carried a checksum, and the right one
};

RAGGEDDNN_API ContainerBlob read_container(std::span<const uint8_t> bytes);

// The inverse. An empty span leaves that buffer out.
RAGGEDDNN_API std::vector<uint8_t> write_container(std::span<const uint8_t> graph,
                                                   std::span<const uint8_t> plan);

// What `bytes` are, by their structure; reading them may still fail. Containers carry the
// identifier "HDGP". Graphs and plans carry none, so the verifier tries each: bytes that verify as
// a graph with a tensor or a node are a graph (no plan does: its version, where a graph has its
// name, leads to no string); else bytes that verify as a plan and name an engine or a tensor are a
// plan; else what verifies as a graph is an empty one. Throws INVALID_VALUE for anything else.
RAGGEDDNN_API BlobKind identify(std::span<const uint8_t> bytes);

}  // namespace raggeddnn::schema
