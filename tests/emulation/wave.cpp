#include "wave.hpp"

#if !defined(__x86_64__)
#error "the emulated wave switches stacks in x86-64 assembly"
#endif

asm(R"(
.text
.globl raggeddnn_switch_stack
raggeddnn_switch_stack:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
)");

namespace raggeddnn::emulation {

void Block::enter() {
    Block& block = *current_;
    (*block.body_)();
    block.wait(State::DONE);
    std::abort();  // nobody switches back
}

void Block::start(Lane& lane) {
    if (!lane.stack) lane.stack = std::make_unique_for_overwrite<unsigned char[]>(STACK);
    auto top = reinterpret_cast<uintptr_t>(lane.stack.get() + STACK) & ~uintptr_t{15};
    auto* slots = reinterpret_cast<void**>(top);
    *--slots = nullptr;  // keeps the stack aligned as after a call
    *--slots = reinterpret_cast<void*>(&Block::enter);
    for (int i = 0; i < 6; ++i) *--slots = nullptr;  // the registers that a switch restores
    lane.stack_pointer = slots;
    lane.state = State::READY;
}

bool Block::run_wave(size_t first) {
    const size_t end = std::min(lanes_.size(), first + static_cast<size_t>(wave_));
    bool has_run = false;
    for (size_t i = first; i < end; ++i) {
        if (lanes_[i].state != State::READY) continue;
        running_ = static_cast<int>(i);
        raggeddnn_switch_stack(&scheduler_, lanes_[i].stack_pointer);
        has_run = true;
    }
    for (size_t i = first; i < end; ++i) {
        if (lanes_[i].state == State::IN_WAVE && run_instruction(i)) has_run = true;
    }
    return has_run;
}

// The instruction of a group that begins with this lane, if all of the group have come to it.
bool Block::run_instruction(size_t first) {
    const Lane& leader = lanes_[first];
    if (first % leader.count != 0) return false;
    std::vector<void*> arguments;
    for (size_t i = first; i < first + leader.count; ++i) {
        const Lane& lane = lanes_.at(i);
        if (lane.state != State::IN_WAVE || lane.op != leader.op) return false;
        arguments.push_back(lane.argument);
    }
    leader.op(arguments.data());
    for (size_t i = 0; i < arguments.size(); ++i) lanes_[first + i].state = State::READY;
    return true;
}

void Block::release_barrier() {
    for (const Lane& lane : lanes_) {
        if (lane.state != State::AT_BARRIER && lane.state != State::DONE) return;
    }
    for (Lane& lane : lanes_) {
        if (lane.state == State::AT_BARRIER) lane.state = State::READY;
    }
}

void Block::run(const std::function<void()>& body) {
    body_ = &body;
    current_ = this;
    for (Lane& lane : lanes_) start(lane);
    std::vector<size_t> waves;
    for (size_t first = 0; first < lanes_.size(); first += static_cast<size_t>(wave_)) {
        waves.push_back(first);
    }
    while (true) {
        std::shuffle(waves.begin(), waves.end(), random_);
        bool has_run = false;
        // One wave far ahead of the others, as often as not.
        for (const size_t first : waves) {
            while (run_wave(first)) has_run = true;
        }
        release_barrier();
        const auto is_done = [](const Lane& lane) { return lane.state == State::DONE; };
        if (std::all_of(lanes_.begin(), lanes_.end(), is_done)) return;
        const auto is_ready = [](const Lane& lane) { return lane.state == State::READY; };
        if (!has_run && std::none_of(lanes_.begin(), lanes_.end(), is_ready)) {
            std::fprintf(stderr, "emulated block: lanes wait for each other for ever\n");
            std::abort();
        }
    }
}

}  // namespace raggeddnn::emulation
