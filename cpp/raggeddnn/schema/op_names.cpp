#include "raggeddnn/schema/op_names.hpp"

#include <algorithm>

#include "raggeddnn/base/error.hpp"

namespace raggeddnn::schema {

namespace {

const std::vector<OpNames>& table() {
    static const std::vector<OpNames> ops = {
        {"BatchnormInferenceAttributes", {"y_tensor_uid"}},
        {"BatchnormInferenceAttributesVarianceExt", {"y_tensor_uid"}},
        {"BatchnormAttributes",
         {"y_tensor_uid", "mean_tensor_uid", "inv_variance_tensor_uid",
          "next_running_mean_tensor_uid", "next_running_variance_tensor_uid"},
         true,
         "",
         true},
        {"BatchnormBackwardAttributes",
         {"dx_tensor_uid", "dscale_tensor_uid", "dbias_tensor_uid"},
         true,
         "",
         true},
        {"BlockScaleDequantizeAttributes", {"y_tensor_uid"}},
        {"BlockScaleQuantizeAttributes", {"y_tensor_uid", "scale_tensor_uid"}},
        {"ConvolutionFwdAttributes", {"y_tensor_uid"}, true, "parameters"},
        {"ConvolutionBwdAttributes", {"dx_tensor_uid"}, true, "parameters"},
        {"ConvolutionWrwAttributes", {"dw_tensor_uid"}, true, "parameters"},
        {"CustomOpAttributes", {"output_tensor_uids"}, false},
        {"LayernormAttributes",
         {"y_tensor_uid", "mean_tensor_uid", "inv_variance_tensor_uid"},
         true,
         "",
         true},
        {"LayernormBackwardAttributes",
         {"dx_tensor_uid", "dscale_tensor_uid", "dbias_tensor_uid"},
         true,
         "",
         true},
        {"MatmulAttributes", {"c_tensor_uid"}},
        {"MoeGroupedMatmulAttributes", {"output_tensor_uid"}},
        {"MoeGroupedMatmulBwdAttributes", {"dweight_tensor_uid"}},
        {"PointwiseAttributes", {"out_0_tensor_uid"}, true, "inputs", true},
        {"ReductionAttributes", {"out_tensor_uid"}, false},
        {"ResampleFwdAttributes", {"y_tensor_uid", "index_tensor_uid"}, false},
        {"ResampleBwdAttributes", {"dx_tensor_uid"}, false},
        {"RMSNormAttributes", {"y_tensor_uid", "inv_rms_tensor_uid"}},
        {"RMSNormBackwardAttributes", {"dx_tensor_uid", "dscale_tensor_uid", "dbias_tensor_uid"}},
        {"SdpaAttributes",
         {"o_tensor_uid", "stats_tensor_uid", "max_tensor_uid", "sum_exp_tensor_uid",
          "rng_dump_tensor_uid", "amax_s_tensor_uid", "amax_o_tensor_uid"},
         true,
         "attributes",
         true},
        {"SdpaBackwardAttributes",
         {"dq_tensor_uid", "dk_tensor_uid", "dv_tensor_uid", "dbias_tensor_uid"},
         true,
         "parameters",
         true},
    };
    return ops;
}

}  // namespace

const OpNames& op_names(std::string_view type) {
    for (const OpNames& op : table()) {
        if (op.type == type) return op;
    }
    fail(ErrorCode::INTERNAL_ERROR, "no names are known for the op ", type);
}

bool is_tensor_uid(const TypeInfo& op, const FieldInfo& field) {
    // An axis, whatever its name says.
    if (op.name == "PointwiseAttributes" && field.name == "axis_tensor_uid") return false;
    const bool number =
        field.type == reflection::BaseType::Long ||
        (field.type == reflection::BaseType::Vector && field.element == reflection::BaseType::Long);
    return number && (field.name.ends_with("_tensor_uid") || field.name.ends_with("_tensor_uids"));
}

bool is_output(const OpNames& op, const FieldInfo& field) {
    return std::find(op.outputs.begin(), op.outputs.end(), field.name) != op.outputs.end();
}

}  // namespace raggeddnn::schema
