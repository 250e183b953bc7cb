#include "raggeddnn/testing/report.hpp"

#include <algorithm>
#include <utility>

#include "raggeddnn/testing/fp_environment.hpp"

namespace raggeddnn::testing {

namespace {

template <class T>
void find_overwritten_of(const GuardedTensor& guarded, OutputReport& report) {
    const auto& flat = dynamic_cast<const TensorBase<T>&>(*guarded.memory);
    const T* memory = static_cast<const T*>(flat.raw_host_data());
    std::vector<bool> is_reached(flat.element_space(), false);
    for (const void* element : std::as_const(*guarded.tensor)) {
        is_reached[static_cast<size_t>(static_cast<const T*>(element) - memory)] = true;
    }
    for (size_t i = 0; i < is_reached.size(); ++i) {
        if (is_reached[i] || raggeddnn::detail::same_bits(memory[i], sentinel_value<T>())) continue;
        if (report.overwritten++ > 0) continue;
        report.first_overwritten = static_cast<int64_t>(i) - static_cast<int64_t>(guarded.front);
        report.overwritten_value = static_cast<double>(memory[i]);
    }
}

std::vector<std::string> other_faults(const VerificationReport& report) {
    std::vector<std::string> faults;
    for (const std::string& input : report.changed_inputs) {
        faults.push_back(input + " is an input, and was written");
    }
    if (report.overwritten_workspace > 0) {
        faults.push_back(message("the workspace: ", report.overwritten_workspace,
                                 " bytes outside its ", report.workspace_size,
                                 " were written, the first at ", report.first_overwritten_workspace,
                                 " of it"));
    }
    if (report.changed_fp_environment) faults.emplace_back(FpEnvironment::LEFT_CHANGED);
    return faults;
}

}  // namespace

void find_overwritten(const GuardedTensor& guarded, OutputReport& report) {
    with_element_type(guarded.tensor->data_type(), [&]<class T>(std::type_identity<T>) {
        find_overwritten_of<T>(guarded, report);
    });
}

std::string OutputReport::to_string() const {
    const std::string label =
        name.empty() ? message("output with uid ", uid) : message("output '", name, "'");
    if (overwritten == 0) return label + ": " + comparison.to_string();
    return label + message(": ", overwritten,
                           " elements that belong to no row were written, the first at ",
                           first_overwritten, " of its memory got ", overwritten_value,
                           ", expected the sentinel; ", comparison.to_string());
}

bool VerificationReport::passed() const { return faults().empty(); }

std::vector<std::string> VerificationReport::faults() const {
    std::vector<std::string> faults;
    for (const OutputReport& output : outputs) {
        if (!output.passed()) faults.push_back(output.to_string());
    }
    for (std::string& fault : other_faults(*this)) faults.push_back(std::move(fault));
    return faults;
}

std::string VerificationReport::to_string() const {
    std::string text;
    const auto add = [&](const std::string& sentence) {
        text += (text.empty() ? "" : "\n") + engine + ", " + sentence;
    };
    for (const OutputReport& output : outputs) add(output.to_string());
    for (const std::string& fault : other_faults(*this)) add(fault);
    return text;
}

}  // namespace raggeddnn::testing
