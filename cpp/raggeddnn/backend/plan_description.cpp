// What a plan says of itself to people.
#include <string>

#include "raggeddnn/backend/execution_plan.hpp"
#include "raggeddnn/base/error.hpp"
#include "raggeddnn/schema/uids.hpp"
#include "raggeddnn/tensor/geometry.hpp"

namespace raggeddnn {

namespace {

std::string operand(const schema::NodeTensorUse& use, const PlanTensor& tensor) {
    std::string name = use.field;
    if (const size_t end = name.rfind("_tensor_uid"); end != std::string::npos) name.resize(end);
    return message(name, " ", to_string(tensor.data_type), " ", to_text(tensor.dims),
                   tensor.ragged_offset_uid ? " ragged" : "");
}

}  // namespace

std::string ExecutionPlan::explain_kernel() const {
    const backend::PluginLibrary& library = *engine_.library;
    const char* text = nullptr;
    if (library.call().explain_kernel) {
        library.check(library.call().explain_kernel(plugin_handle_->get(), context_, &text),
                      "raggeddnnEnginePluginExplainKernel");
    }
    if (text && *text) return text;
    return "engine " + engine_name() + " does not say which kernels it runs";
}

std::string ExecutionPlan::describe() const {
    std::string text;
    if (graph_) {
        for (const schema::Node* node : *graph_->graph().nodes()) {
            text += text.empty() ? "" : "; ";
            text += schema::EnumNameNodeAttributes(node->attributes_type());
            std::string operands;
            for (const schema::NodeTensorUse& use : schema::tensor_uses(*node)) {
                const PlanTensor* tensor = find(use.uid);
                if (!tensor) continue;
                operands += (operands.empty() ? "(" : ", ") + operand(use, *tensor);
            }
            text += operands.empty() ? "" : operands + ")";
        }
    } else {
        text = message("a plan without its graph, of ", tensors_.size(), " tensors");
    }
    std::string kernels = explain_kernel();
    for (char& c : kernels) {
        if (c == '\n') c = ';';
    }
    return text + " on " + engine_name() + ": " + kernels;
}

}  // namespace raggeddnn
