// A GPU block on the host: every lane is a fiber. Lanes run one at a time until they meet a barrier
// or an instruction of the whole wave; waves run in an order drawn from a seed, so that a missing
// barrier shows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <vector>

namespace raggeddnn::emulation {

// Saves the callee's registers and stack on the old stack, takes the new one.
extern "C" void raggeddnn_switch_stack(void** from, void* to);

class Block {
public:
    Block(int threads, int wave, uint64_t seed)
        : wave_(wave), lanes_(static_cast<size_t>(threads)), random_(seed) {}

    // Runs `body` on every lane to its end.
    void run(const std::function<void()>& body);

    static Block& current() { return *current_; }
    int lane_in_block() const { return running_; }
    int threads() const { return static_cast<int>(lanes_.size()); }

    void barrier() { wait(State::AT_BARRIER); }

    // An instruction of `count` lanes, of an aligned group within the wave: `op` gets one argument
    // of each, in order, when all have come.
    using WaveOp = void (*)(void* const* arguments);
    void together(int count, WaveOp op, void* argument) {
        Lane& lane = lanes_[static_cast<size_t>(running_)];
        lane.op = op;
        lane.count = static_cast<size_t>(count);
        lane.argument = argument;
        wait(State::IN_WAVE);
    }

private:
    static constexpr size_t STACK = 128 << 10;  // bytes
    enum class State { READY, AT_BARRIER, IN_WAVE, DONE };
    struct Lane {
        State state = State::READY;
        void* stack_pointer = nullptr;
        std::unique_ptr<unsigned char[]> stack;  // not cleared: most of it is never touched
        WaveOp op = nullptr;
        size_t count = 0;
        void* argument = nullptr;
    };

    static void enter();
    void start(Lane& lane);
    void wait(State state) {
        Lane& lane = lanes_[static_cast<size_t>(running_)];
        lane.state = state;
        raggeddnn_switch_stack(&lane.stack_pointer, scheduler_);
    }
    bool run_wave(size_t first);
    bool run_instruction(size_t first);
    void release_barrier();

    inline static Block* current_ = nullptr;
    int wave_;
    int running_ = 0;
    void* scheduler_ = nullptr;
    std::vector<Lane> lanes_;
    std::mt19937_64 random_;
    const std::function<void()>* body_ = nullptr;
};

}  // namespace raggeddnn::emulation
