// The C API driven by bytes: descriptors of every type are made, set, read, finalized, serialized
// and destroyed in any order, with attributes, types and counts that fit and that do not. Memory
// handed over is always as large as the count says, as the API asks of its callers. Every call
// answers with a status.
#include <fuzzer/FuzzedDataProvider.h>

#include <array>
#include <cstdlib>
#include <vector>

#include "raggeddnn/backend/hipdnn_backend.h"

namespace {

constexpr int MAX_STEPS = 60;
constexpr int64_t MAX_COUNT = 64;
constexpr size_t LARGEST_ELEMENT = 16;
using Elements = std::array<uint8_t, MAX_COUNT * LARGEST_ELEMENT>;

class Session {
public:
    explicit Session(FuzzedDataProvider& bytes) : bytes_(bytes) {}
    ~Session() {
        for (hipdnnBackendDescriptor_t d : live_) hipdnnBackendDestroyDescriptor(d);
    }

    void step() {
        switch (bytes_.ConsumeIntegralInRange<int>(0, 9)) {
            case 0: return create();
            case 1:
            case 2:
            case 3:
            case 4: return set();
            case 5: return get();
            case 6: expect_status(hipdnnBackendFinalize(any())); return;
            case 7: return serialize();
            case 8: return destroy();
            case 9: return deserialize();
        }
    }

private:
    static void expect_status(hipdnnStatus_t status) {
        if (status < 0 || status > HIPDNN_STATUS_PLUGIN_ERROR) std::abort();
        char text[64];
        hipdnnGetLastErrorString(text, sizeof(text));
    }

    // One that lives, mostly; else null or one that is gone.
    hipdnnBackendDescriptor_t any() {
        const int kind = bytes_.ConsumeIntegralInRange<int>(0, 15);
        if (kind == 0) return nullptr;
        const std::vector<hipdnnBackendDescriptor_t>& from = kind == 1 ? dead_ : live_;
        if (from.empty()) return nullptr;
        return from[bytes_.ConsumeIntegralInRange<size_t>(0, from.size() - 1)];
    }

    void create() {
        hipdnnBackendDescriptor_t descriptor = nullptr;
        const auto type =
            static_cast<hipdnnBackendDescriptorType_t>(bytes_.ConsumeIntegralInRange<int>(-1, 40));
        expect_status(hipdnnBackendCreateDescriptor(type, &descriptor));
        if (descriptor) live_.push_back(descriptor);
    }

    hipdnnBackendAttributeName_t name() {
        // The hundreds in use, then anything.
        constexpr int ranges[] = {100,  200,  300,  500,  600,  700,   900,   1000,  1300,  2200,
                                  2300, 2500, 2600, 3100, 3200, 60000, 60100, 60200, 60300, 70000};
        const int range = bytes_.PickValueInArray(ranges);
        const int offset = bytes_.ConsumeIntegralInRange<int>(-1, 60);
        return static_cast<hipdnnBackendAttributeName_t>(range + offset);
    }

    hipdnnBackendAttributeType_t type() {
        return static_cast<hipdnnBackendAttributeType_t>(
            bytes_.ConsumeIntegralInRange<int>(-1, 30));
    }

    void fill(Elements& elements, hipdnnBackendAttributeType_t type) {
        if (type == HIPDNN_TYPE_BACKEND_DESCRIPTOR) {
            auto* descriptors = reinterpret_cast<hipdnnBackendDescriptor_t*>(elements.data());
            for (int64_t i = 0; i < MAX_COUNT; ++i) descriptors[i] = any();
            return;
        }
        const std::vector<uint8_t> some =
            bytes_.ConsumeBytes<uint8_t>(bytes_.ConsumeIntegralInRange<size_t>(0, 64));
        std::copy(some.begin(), some.end(), elements.begin());
        elements.back() = 0;  // a text ends
    }

    void set() {
        alignas(16) Elements elements{};
        const hipdnnBackendAttributeType_t of = type();
        fill(elements, of);
        const auto count = bytes_.ConsumeIntegralInRange<int64_t>(-2, MAX_COUNT);
        const bool is_null = bytes_.ConsumeIntegralInRange<int>(0, 31) == 0;
        expect_status(hipdnnBackendSetAttribute(any(), name(), of, count,
                                                is_null ? nullptr : elements.data()));
    }

    void get() {
        alignas(16) Elements elements{};
        int64_t count = 0;
        const hipdnnBackendAttributeType_t of = type();
        const auto requested = bytes_.ConsumeIntegralInRange<int64_t>(-2, MAX_COUNT);
        if (of == HIPDNN_TYPE_BACKEND_DESCRIPTOR) return;  // new references: not counted here
        expect_status(
            hipdnnBackendGetAttribute(any(), name(), of, requested, &count, elements.data()));
    }

    void destroy() {
        if (live_.empty()) return;
        const size_t at = bytes_.ConsumeIntegralInRange<size_t>(0, live_.size() - 1);
        expect_status(hipdnnBackendDestroyDescriptor(live_[at]));
        dead_.push_back(live_[at]);
        live_.erase(live_.begin() + static_cast<ptrdiff_t>(at));
        expect_status(hipdnnBackendDestroyDescriptor(dead_.back()));  // once more: refused
    }

    void serialize() {
        size_t size = 0;
        const hipdnnBackendDescriptor_t descriptor = any();
        expect_status(hipdnnBackendGetSerializedBinaryGraph_ext(descriptor, 0, &size, nullptr));
        std::vector<uint8_t> bytes(size);
        if (size == 0) return;
        expect_status(
            hipdnnBackendGetSerializedBinaryGraph_ext(descriptor, size, &size, bytes.data()));
        saved_ = bytes;
    }

    void deserialize() {
        std::vector<uint8_t> bytes = saved_;
        if (!bytes.empty() && bytes_.ConsumeBool()) {
            bytes[bytes_.ConsumeIntegralInRange<size_t>(0, bytes.size() - 1)] ^=
                bytes_.ConsumeIntegral<uint8_t>();
        }
        hipdnnBackendDescriptor_t descriptor = nullptr;
        expect_status(
            hipdnnBackendCreateAndDeserializeGraph_ext(&descriptor, bytes.data(), bytes.size()));
        if (descriptor) live_.push_back(descriptor);
    }

    FuzzedDataProvider& bytes_;
    std::vector<hipdnnBackendDescriptor_t> live_;
    std::vector<hipdnnBackendDescriptor_t> dead_;
    std::vector<uint8_t> saved_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    FuzzedDataProvider bytes(data, size);
    Session session(bytes);
    for (int i = 0; i < MAX_STEPS && bytes.remaining_bytes() > 0; ++i) session.step();
    return 0;
}
