// The floating-point environment of a thread: rounding, subnormals, traps. An engine that leaves it
// changed changes what everybody computes afterwards, the reference included.
#pragma once

#include <cfenv>
#include <cstdint>

namespace raggeddnn::testing {

// Remembers the environment, and brings it back at the latest when it goes.
class FpEnvironment {
public:
    static constexpr const char* LEFT_CHANGED =
        "the floating-point environment (rounding, subnormals, traps) was left changed";

    FpEnvironment() : rounding_(std::fegetround()), control_(control()) { std::fegetenv(&saved_); }
    ~FpEnvironment() { std::fesetenv(&saved_); }
    FpEnvironment(const FpEnvironment&) = delete;
    FpEnvironment& operator=(const FpEnvironment&) = delete;

    // Brings it back; was it another one?
    bool restore() const {
        const bool is_changed = std::fegetround() != rounding_ || control() != control_;
        std::fesetenv(&saved_);
        return is_changed;
    }

private:
    // Where the bits are that std::fegetround does not tell, without the flags of exceptions.
    static uint64_t control() {
#if defined(__SSE__)
        return __builtin_ia32_stmxcsr() & ~0x3fU;
#elif defined(__aarch64__)
        uint64_t fpcr = 0;
        __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
        return fpcr;
#else
        return 0;
#endif
    }

    std::fenv_t saved_;
    int rounding_;
    uint64_t control_;
};

}  // namespace raggeddnn::testing
