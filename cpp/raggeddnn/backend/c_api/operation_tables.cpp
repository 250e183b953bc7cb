// One table per operation, one row per attribute, and the list of operations. Whether a tensor is
// required, and of which type an attribute is, follows from the member's type.
#include "raggeddnn/backend/c_api/operation_tables.hpp"

namespace raggeddnn::c_api {

namespace {

using Sdpa = schema::SdpaAttributesT;
using SdpaBackward = schema::SdpaBackwardAttributesT;
using Pointwise = schema::PointwiseAttributesT;
using Matmul = schema::MatmulAttributesT;
using Reduction = schema::ReductionAttributesT;
using RMSNorm = schema::RMSNormAttributesT;
using RMSNormBackward = schema::RMSNormBackwardAttributesT;
using Layernorm = schema::LayernormAttributesT;
using LayernormBackward = schema::LayernormBackwardAttributesT;
using Batchnorm = schema::BatchnormAttributesT;
using BatchnormBackward = schema::BatchnormBackwardAttributesT;
using BatchnormInference = schema::BatchnormInferenceAttributesT;
using BatchnormInferenceVariance = schema::BatchnormInferenceAttributesVarianceExtT;

// A member name once, an attribute name once: the row follows.
#define TENSOR(table, member, attribute) tensor<&table::member, HIPDNN_ATTR_##attribute>(#attribute)
#define FIELD(table, member, ...) FIELD_(table, member, __VA_ARGS__, Need::OPTIONAL)
#define FIELD_(table, member, attribute, need, ...) \
    field<&table::member>(RAGGEDDNN_ATTRIBUTE(attribute), need)

constexpr Attribute SDPA_FWD[] = {
    TENSOR(Sdpa, q_tensor_uid, OPERATION_SDPA_FWD_QDESC),
    TENSOR(Sdpa, k_tensor_uid, OPERATION_SDPA_FWD_KDESC),
    TENSOR(Sdpa, v_tensor_uid, OPERATION_SDPA_FWD_VDESC),
    TENSOR(Sdpa, o_tensor_uid, OPERATION_SDPA_FWD_ODESC),
    TENSOR(Sdpa, attn_mask_tensor_uid, OPERATION_SDPA_FWD_ATTN_MASK_EXT),
    TENSOR(Sdpa, scale_tensor_uid, OPERATION_SDPA_FWD_SCALEDESC),
    TENSOR(Sdpa, seq_len_q_tensor_uid, OPERATION_SDPA_FWD_SEQ_LEN_QDESC),
    TENSOR(Sdpa, seq_len_kv_tensor_uid, OPERATION_SDPA_FWD_SEQ_LEN_KVDESC),
    TENSOR(Sdpa, seed_tensor_uid, OPERATION_SDPA_FWD_SEED_EXT),
    TENSOR(Sdpa, offset_tensor_uid, OPERATION_SDPA_FWD_OFFSET_EXT),
    TENSOR(Sdpa, dropout_mask_tensor_uid, OPERATION_SDPA_FWD_DROPOUT_MASK_EXT),
    TENSOR(Sdpa, dropout_scale_tensor_uid, OPERATION_SDPA_FWD_DROPOUT_SCALE_EXT),
    TENSOR(Sdpa, page_table_k_tensor_uid, OPERATION_SDPA_FWD_PAGE_TABLE_KDESC),
    TENSOR(Sdpa, page_table_v_tensor_uid, OPERATION_SDPA_FWD_PAGE_TABLE_VDESC),
    TENSOR(Sdpa, block_mask_tensor_uid, OPERATION_SDPA_FWD_BLOCK_MASK_DESC),
    TENSOR(Sdpa, sink_token_tensor_uid, OPERATION_SDPA_FWD_SINK_TOKEN_EXT),
    TENSOR(Sdpa, descale_q_tensor_uid, OPERATION_SDPA_FWD_DESCALE_Q_EXT),
    TENSOR(Sdpa, descale_k_tensor_uid, OPERATION_SDPA_FWD_DESCALE_K_EXT),
    TENSOR(Sdpa, descale_v_tensor_uid, OPERATION_SDPA_FWD_DESCALE_V_EXT),
    TENSOR(Sdpa, descale_s_tensor_uid, OPERATION_SDPA_FWD_DESCALE_S_EXT),
    TENSOR(Sdpa, scale_s_tensor_uid, OPERATION_SDPA_FWD_SCALE_S_EXT),
    TENSOR(Sdpa, scale_o_tensor_uid, OPERATION_SDPA_FWD_SCALE_O_EXT),
    TENSOR(Sdpa, stats_tensor_uid, OPERATION_SDPA_FWD_STATSDESC),
    TENSOR(Sdpa, max_tensor_uid, OPERATION_SDPA_FWD_MAX_EXT),
    TENSOR(Sdpa, sum_exp_tensor_uid, OPERATION_SDPA_FWD_SUM_EXP_EXT),
    TENSOR(Sdpa, rng_dump_tensor_uid, OPERATION_SDPA_FWD_RNG_DUMP_EXT),
    TENSOR(Sdpa, amax_s_tensor_uid, OPERATION_SDPA_FWD_AMAX_S_EXT),
    TENSOR(Sdpa, amax_o_tensor_uid, OPERATION_SDPA_FWD_AMAX_O_EXT),
    FIELD(Sdpa, generate_stats, SDPA_FWD_GENERATE_STATS_EXT),
    FIELD(Sdpa, alibi_mask, SDPA_FWD_ALIBI_MASK_EXT),
    FIELD(Sdpa, padding_mask, SDPA_FWD_PADDING_MASK_EXT),
    FIELD(Sdpa, causal_mask, SDPA_FWD_CAUSAL_MASK_EXT),
    FIELD(Sdpa, causal_mask_bottom_right, SDPA_FWD_CAUSAL_MASK_BOTTOM_RIGHT_EXT),
    FIELD(Sdpa, dropout_probability, SDPA_FWD_DROPOUT_PROBABILITY_EXT),
    FIELD(Sdpa, attn_scale_value, SDPA_FWD_ATTN_SCALE_VALUE_EXT),
    FIELD(Sdpa, left_bound, SDPA_FWD_LEFT_BOUND_EXT),
    FIELD(Sdpa, right_bound, SDPA_FWD_RIGHT_BOUND_EXT),
    FIELD(Sdpa, max_seq_len_kv, SDPA_FWD_MAX_SEQ_LEN_KV_EXT),
    FIELD(Sdpa, diagonal_alignment, SDPA_FWD_DIAGONAL_ALIGNMENT_EXT),
    FIELD(Sdpa, mma_core_mode, SDPA_FWD_MMA_CORE_MODE_EXT),
    FIELD(Sdpa, implementation, SDPA_FWD_IMPLEMENTATION_EXT),
    field<&schema::NodeT::compute_data_type>(RAGGEDDNN_ATTRIBUTE(SDPA_FWD_COMP_TYPE_EXT)),
    OPERATION_NAME,
    OPERATION_TYPE,
};

constexpr Attribute SDPA_BWD[] = {
    TENSOR(SdpaBackward, q_tensor_uid, OPERATION_SDPA_BWD_Q_EXT),
    TENSOR(SdpaBackward, k_tensor_uid, OPERATION_SDPA_BWD_K_EXT),
    TENSOR(SdpaBackward, v_tensor_uid, OPERATION_SDPA_BWD_V_EXT),
    TENSOR(SdpaBackward, o_tensor_uid, OPERATION_SDPA_BWD_O_EXT),
    TENSOR(SdpaBackward, do_tensor_uid, OPERATION_SDPA_BWD_DO_EXT),
    TENSOR(SdpaBackward, stats_tensor_uid, OPERATION_SDPA_BWD_STATS_EXT),
    TENSOR(SdpaBackward, dq_tensor_uid, OPERATION_SDPA_BWD_DQ_EXT),
    TENSOR(SdpaBackward, dk_tensor_uid, OPERATION_SDPA_BWD_DK_EXT),
    TENSOR(SdpaBackward, dv_tensor_uid, OPERATION_SDPA_BWD_DV_EXT),
    TENSOR(SdpaBackward, scale_tensor_uid, OPERATION_SDPA_BWD_SCALE_EXT),
    TENSOR(SdpaBackward, attn_mask_tensor_uid, OPERATION_SDPA_BWD_ATTN_MASK_EXT),
    TENSOR(SdpaBackward, seq_len_q_tensor_uid, OPERATION_SDPA_BWD_SEQ_LEN_Q_EXT),
    TENSOR(SdpaBackward, seq_len_kv_tensor_uid, OPERATION_SDPA_BWD_SEQ_LEN_KV_EXT),
    TENSOR(SdpaBackward, seed_tensor_uid, OPERATION_SDPA_BWD_SEED_EXT),
    TENSOR(SdpaBackward, offset_tensor_uid, OPERATION_SDPA_BWD_OFFSET_EXT),
    TENSOR(SdpaBackward, dropout_mask_tensor_uid, OPERATION_SDPA_BWD_DROPOUT_MASK_EXT),
    TENSOR(SdpaBackward, dropout_scale_tensor_uid, OPERATION_SDPA_BWD_DROPOUT_SCALE_EXT),
    TENSOR(SdpaBackward, dropout_scale_inv_tensor_uid, OPERATION_SDPA_BWD_DROPOUT_SCALE_INV_EXT),
    TENSOR(SdpaBackward, dbias_tensor_uid, OPERATION_SDPA_BWD_DBIAS_EXT),
    TENSOR(SdpaBackward, dstats_tensor_uid, OPERATION_SDPA_BWD_DSTATS_RAGGEDDNN),
    FIELD(SdpaBackward, alibi_mask, SDPA_BWD_ALIBI_MASK_EXT),
    FIELD(SdpaBackward, padding_mask, SDPA_BWD_PADDING_MASK_EXT),
    FIELD(SdpaBackward, causal_mask, SDPA_BWD_CAUSAL_MASK_EXT),
    FIELD(SdpaBackward, causal_mask_bottom_right, SDPA_BWD_CAUSAL_MASK_BOTTOM_RIGHT_EXT),
    FIELD(SdpaBackward, dropout_probability, SDPA_BWD_DROPOUT_PROBABILITY_EXT),
    FIELD(SdpaBackward, attn_scale_value, SDPA_BWD_ATTN_SCALE_VALUE_EXT),
    FIELD(SdpaBackward, left_bound, SDPA_BWD_LEFT_BOUND_EXT),
    FIELD(SdpaBackward, right_bound, SDPA_BWD_RIGHT_BOUND_EXT),
    FIELD(SdpaBackward, diagonal_alignment, SDPA_BWD_DIAGONAL_ALIGNMENT_EXT),
    field<&schema::NodeT::compute_data_type>(RAGGEDDNN_ATTRIBUTE(SDPA_BWD_COMP_TYPE_EXT)),
    OPERATION_NAME,
    OPERATION_TYPE,
};

constexpr Attribute POINTWISE[] = {
    TENSOR(Pointwise, in_0_tensor_uid, OPERATION_POINTWISE_IN_0_EXT),
    TENSOR(Pointwise, out_0_tensor_uid, OPERATION_POINTWISE_OUT_0_EXT),
    TENSOR(Pointwise, in_1_tensor_uid, OPERATION_POINTWISE_IN_1_EXT),
    TENSOR(Pointwise, in_2_tensor_uid, OPERATION_POINTWISE_IN_2_EXT),
    FIELD(Pointwise, operation, POINTWISE_MODE, Need::REQUIRED),
    FIELD(Pointwise, relu_lower_clip, POINTWISE_RELU_LOWER_CLIP),
    FIELD(Pointwise, relu_upper_clip, POINTWISE_RELU_UPPER_CLIP),
    FIELD(Pointwise, relu_lower_clip_slope, POINTWISE_RELU_LOWER_CLIP_SLOPE),
    FIELD(Pointwise, swish_beta, POINTWISE_SWISH_BETA),
    FIELD(Pointwise, elu_alpha, POINTWISE_ELU_ALPHA),
    FIELD(Pointwise, softplus_beta, POINTWISE_SOFTPLUS_BETA),
    FIELD(Pointwise, axis_tensor_uid, POINTWISE_AXIS),
    field<&schema::NodeT::compute_data_type>(RAGGEDDNN_ATTRIBUTE(POINTWISE_MATH_PREC)),
    OPERATION_NAME,
    OPERATION_TYPE,
};

constexpr Attribute MATMUL[] = {
    TENSOR(Matmul, a_tensor_uid, OPERATION_MATMUL_ADESC),
    TENSOR(Matmul, b_tensor_uid, OPERATION_MATMUL_BDESC),
    TENSOR(Matmul, c_tensor_uid, OPERATION_MATMUL_CDESC),
    field<&schema::NodeT::compute_data_type>(RAGGEDDNN_ATTRIBUTE(MATMUL_COMP_TYPE)),
    OPERATION_NAME,
    OPERATION_TYPE,
};

constexpr Attribute REDUCTION[] = {
    TENSOR(Reduction, in_tensor_uid, OPERATION_REDUCTION_XDESC),
    TENSOR(Reduction, out_tensor_uid, OPERATION_REDUCTION_YDESC),
    FIELD(Reduction, mode, REDUCTION_OPERATOR, Need::REQUIRED),
    FIELD(Reduction, is_deterministic, REDUCTION_IS_DETERMINISTIC),
    field<&schema::NodeT::compute_data_type>(RAGGEDDNN_ATTRIBUTE(REDUCTION_COMP_TYPE)),
    OPERATION_NAME,
    OPERATION_TYPE,
};

constexpr Attribute RMSNORM[] = {
    TENSOR(RMSNorm, x_tensor_uid, OPERATION_RMSNORM_X_EXT),
    TENSOR(RMSNorm, scale_tensor_uid, OPERATION_RMSNORM_SCALE_EXT),
    TENSOR(RMSNorm, epsilon_tensor_uid, OPERATION_RMSNORM_EPSILON_EXT),
    TENSOR(RMSNorm, y_tensor_uid, OPERATION_RMSNORM_Y_EXT),
    TENSOR(RMSNorm, bias_tensor_uid, OPERATION_RMSNORM_BIAS_EXT),
    TENSOR(RMSNorm, inv_rms_tensor_uid, OPERATION_RMSNORM_INV_RMS_EXT),
    FIELD(RMSNorm, forward_phase, OPERATION_RMSNORM_FWD_PHASE_EXT, Need::REQUIRED),
    field<&schema::NodeT::compute_data_type>(RAGGEDDNN_ATTRIBUTE(RMSNORM_COMP_TYPE_EXT)),
    OPERATION_NAME,
    OPERATION_TYPE,
};

constexpr Attribute RMSNORM_BACKWARD[] = {
    TENSOR(RMSNormBackward, dy_tensor_uid, OPERATION_RMSNORM_BACKWARD_DY_EXT),
    TENSOR(RMSNormBackward, x_tensor_uid, OPERATION_RMSNORM_BACKWARD_X_EXT),
    TENSOR(RMSNormBackward, scale_tensor_uid, OPERATION_RMSNORM_BACKWARD_SCALE_EXT),
    TENSOR(RMSNormBackward, inv_rms_tensor_uid, OPERATION_RMSNORM_BACKWARD_INV_RMS_EXT),
    TENSOR(RMSNormBackward, dx_tensor_uid, OPERATION_RMSNORM_BACKWARD_DX_EXT),
    TENSOR(RMSNormBackward, dscale_tensor_uid, OPERATION_RMSNORM_BACKWARD_DSCALE_EXT),
    TENSOR(RMSNormBackward, dbias_tensor_uid, OPERATION_RMSNORM_BACKWARD_DBIAS_EXT),
    field<&schema::NodeT::compute_data_type>(RAGGEDDNN_ATTRIBUTE(RMSNORM_BACKWARD_COMP_TYPE_EXT)),
    OPERATION_NAME,
    OPERATION_TYPE,
};

constexpr Attribute LAYERNORM[] = {
    TENSOR(Layernorm, x_tensor_uid, OPERATION_LAYERNORM_X_EXT),
    TENSOR(Layernorm, scale_tensor_uid, OPERATION_LAYERNORM_SCALE_EXT),
    TENSOR(Layernorm, bias_tensor_uid, OPERATION_LAYERNORM_BIAS_EXT),
    TENSOR(Layernorm, epsilon_tensor_uid, OPERATION_LAYERNORM_EPSILON_EXT),
    TENSOR(Layernorm, y_tensor_uid, OPERATION_LAYERNORM_Y_EXT),
    TENSOR(Layernorm, mean_tensor_uid, OPERATION_LAYERNORM_MEAN_EXT),
    TENSOR(Layernorm, inv_variance_tensor_uid, OPERATION_LAYERNORM_INV_VARIANCE_EXT),
    FIELD(Layernorm, forward_phase, OPERATION_LAYERNORM_FWD_PHASE_EXT, Need::REQUIRED),
    FIELD(Layernorm, normalized_dim_count, OPERATION_LAYERNORM_NORMALIZED_DIM_COUNT_EXT),
    field<&schema::NodeT::compute_data_type>(RAGGEDDNN_ATTRIBUTE(LAYERNORM_COMP_TYPE_EXT)),
    OPERATION_NAME,
    OPERATION_TYPE,
};

constexpr Attribute LAYERNORM_BACKWARD[] = {
    TENSOR(LayernormBackward, dy_tensor_uid, OPERATION_LAYERNORM_BACKWARD_DY_EXT),
    TENSOR(LayernormBackward, x_tensor_uid, OPERATION_LAYERNORM_BACKWARD_X_EXT),
    TENSOR(LayernormBackward, scale_tensor_uid, OPERATION_LAYERNORM_BACKWARD_SCALE_EXT),
    TENSOR(LayernormBackward, mean_tensor_uid, OPERATION_LAYERNORM_BACKWARD_MEAN_EXT),
    TENSOR(LayernormBackward, inv_variance_tensor_uid,
           OPERATION_LAYERNORM_BACKWARD_INV_VARIANCE_EXT),
    TENSOR(LayernormBackward, epsilon_tensor_uid, OPERATION_LAYERNORM_BACKWARD_EPSILON_EXT),
    TENSOR(LayernormBackward, dx_tensor_uid, OPERATION_LAYERNORM_BACKWARD_DX_EXT),
    TENSOR(LayernormBackward, dscale_tensor_uid, OPERATION_LAYERNORM_BACKWARD_DSCALE_EXT),
    TENSOR(LayernormBackward, dbias_tensor_uid, OPERATION_LAYERNORM_BACKWARD_DBIAS_EXT),
    FIELD(LayernormBackward, normalized_dim_count, LAYERNORM_BACKWARD_NORMALIZED_DIM_COUNT_EXT),
    field<&schema::NodeT::compute_data_type>(RAGGEDDNN_ATTRIBUTE(LAYERNORM_BACKWARD_COMP_TYPE_EXT)),
    OPERATION_NAME,
    OPERATION_TYPE,
};

constexpr Attribute BATCHNORM[] = {
    TENSOR(Batchnorm, x_tensor_uid, OPERATION_BATCHNORM_X_EXT),
    TENSOR(Batchnorm, scale_tensor_uid, OPERATION_BATCHNORM_SCALE_EXT),
    TENSOR(Batchnorm, bias_tensor_uid, OPERATION_BATCHNORM_BIAS_EXT),
    TENSOR(Batchnorm, epsilon_tensor_uid, OPERATION_BATCHNORM_EPSILON_EXT),
    TENSOR(Batchnorm, y_tensor_uid, OPERATION_BATCHNORM_Y_EXT),
    TENSOR(Batchnorm, prev_running_mean_tensor_uid, OPERATION_BATCHNORM_PREV_RUNNING_MEAN_EXT),
    TENSOR(Batchnorm, prev_running_variance_tensor_uid,
           OPERATION_BATCHNORM_PREV_RUNNING_VARIANCE_EXT),
    TENSOR(Batchnorm, momentum_tensor_uid, OPERATION_BATCHNORM_MOMENTUM_EXT),
    TENSOR(Batchnorm, mean_tensor_uid, OPERATION_BATCHNORM_MEAN_EXT),
    TENSOR(Batchnorm, inv_variance_tensor_uid, OPERATION_BATCHNORM_INV_VARIANCE_EXT),
    TENSOR(Batchnorm, next_running_mean_tensor_uid, OPERATION_BATCHNORM_NEXT_RUNNING_MEAN_EXT),
    TENSOR(Batchnorm, next_running_variance_tensor_uid,
           OPERATION_BATCHNORM_NEXT_RUNNING_VARIANCE_EXT),
    TENSOR(Batchnorm, peer_stats_tensor_uid, OPERATION_BATCHNORM_PEER_STATS_EXT),
    field<&schema::NodeT::compute_data_type>(RAGGEDDNN_ATTRIBUTE(BATCHNORM_COMP_TYPE_EXT)),
    OPERATION_NAME,
    OPERATION_TYPE,
};

constexpr Attribute BATCHNORM_BACKWARD[] = {
    TENSOR(BatchnormBackward, dy_tensor_uid, OPERATION_BATCHNORM_BACKWARD_DY_EXT),
    TENSOR(BatchnormBackward, x_tensor_uid, OPERATION_BATCHNORM_BACKWARD_X_EXT),
    TENSOR(BatchnormBackward, scale_tensor_uid, OPERATION_BATCHNORM_BACKWARD_SCALE_EXT),
    TENSOR(BatchnormBackward, dx_tensor_uid, OPERATION_BATCHNORM_BACKWARD_DX_EXT),
    TENSOR(BatchnormBackward, dscale_tensor_uid, OPERATION_BATCHNORM_BACKWARD_DSCALE_EXT),
    TENSOR(BatchnormBackward, dbias_tensor_uid, OPERATION_BATCHNORM_BACKWARD_DBIAS_EXT),
    TENSOR(BatchnormBackward, mean_tensor_uid, OPERATION_BATCHNORM_BACKWARD_MEAN_EXT),
    TENSOR(BatchnormBackward, inv_variance_tensor_uid,
           OPERATION_BATCHNORM_BACKWARD_INV_VARIANCE_EXT),
    TENSOR(BatchnormBackward, peer_stats_tensor_uid, OPERATION_BATCHNORM_BACKWARD_PEER_STATS_EXT),
    field<&schema::NodeT::compute_data_type>(RAGGEDDNN_ATTRIBUTE(BATCHNORM_BACKWARD_COMP_TYPE_EXT)),
    OPERATION_NAME,
    OPERATION_TYPE,
};

constexpr Attribute BATCHNORM_INFERENCE[] = {
    TENSOR(BatchnormInference, x_tensor_uid, OPERATION_BATCHNORM_INFERENCE_X_EXT),
    TENSOR(BatchnormInference, mean_tensor_uid, OPERATION_BATCHNORM_INFERENCE_MEAN_EXT),
    TENSOR(BatchnormInference, inv_variance_tensor_uid,
           OPERATION_BATCHNORM_INFERENCE_INV_VARIANCE_EXT),
    TENSOR(BatchnormInference, scale_tensor_uid, OPERATION_BATCHNORM_INFERENCE_SCALE_EXT),
    TENSOR(BatchnormInference, bias_tensor_uid, OPERATION_BATCHNORM_INFERENCE_BIAS_EXT),
    TENSOR(BatchnormInference, y_tensor_uid, OPERATION_BATCHNORM_INFERENCE_Y_EXT),
    field<&schema::NodeT::compute_data_type>(RAGGEDDNN_ATTRIBUTE(BATCHNORM_INF_COMP_TYPE_EXT)),
    OPERATION_NAME,
    OPERATION_TYPE,
};

constexpr Attribute BATCHNORM_INFERENCE_VARIANCE[] = {
    TENSOR(BatchnormInferenceVariance, x_tensor_uid, OPERATION_BATCHNORM_INFERENCE_VARIANCE_X_EXT),
    TENSOR(BatchnormInferenceVariance, mean_tensor_uid,
           OPERATION_BATCHNORM_INFERENCE_VARIANCE_MEAN_EXT),
    TENSOR(BatchnormInferenceVariance, variance_tensor_uid,
           OPERATION_BATCHNORM_INFERENCE_VARIANCE_VARIANCE_EXT),
    TENSOR(BatchnormInferenceVariance, scale_tensor_uid,
           OPERATION_BATCHNORM_INFERENCE_VARIANCE_SCALE_EXT),
    TENSOR(BatchnormInferenceVariance, bias_tensor_uid,
           OPERATION_BATCHNORM_INFERENCE_VARIANCE_BIAS_EXT),
    TENSOR(BatchnormInferenceVariance, y_tensor_uid, OPERATION_BATCHNORM_INFERENCE_VARIANCE_Y_EXT),
    TENSOR(BatchnormInferenceVariance, epsilon_tensor_uid,
           OPERATION_BATCHNORM_INFERENCE_VARIANCE_EPSILON_EXT),
    field<&schema::NodeT::compute_data_type>(RAGGEDDNN_ATTRIBUTE(BATCHNORM_INF_VAR_COMP_TYPE_EXT)),
    OPERATION_NAME,
    OPERATION_TYPE,
};
#undef FIELD_
#undef FIELD
#undef TENSOR

template <class Table>
void create(schema::NodeT& node) {
    node.attributes.Set(Table{});
}

template <class Table, size_t Count>
constexpr Operation operation(hipdnnBackendDescriptorType_t descriptor_type,
                              hipdnnOperationType_ext_t operation_type, const char* kind,
                              const Attribute (&rows)[Count]) {
    return {descriptor_type,
            operation_type,
            schema::NodeAttributesUnionTraits<Table>::enum_value,
            kind,
            rows,
            create<Table>};
}

constexpr Operation OPERATIONS[] = {
    operation<Sdpa>(HIPDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR,
                    HIPDNN_OPERATION_TYPE_SDPA_FORWARD_EXT, "sdpa forward operation", SDPA_FWD),
    operation<SdpaBackward>(HIPDNN_BACKEND_OPERATION_SDPA_BWD_DESCRIPTOR_EXT,
                            HIPDNN_OPERATION_TYPE_SDPA_BACKWARD_EXT, "sdpa backward operation",
                            SDPA_BWD),
    operation<Pointwise>(HIPDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR,
                         HIPDNN_OPERATION_TYPE_POINTWISE_EXT, "pointwise operation", POINTWISE),
    operation<Matmul>(HIPDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, HIPDNN_OPERATION_TYPE_MATMUL_EXT,
                      "matmul operation", MATMUL),
    operation<Reduction>(HIPDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR,
                         HIPDNN_OPERATION_TYPE_REDUCTION_EXT, "reduction operation", REDUCTION),
    operation<RMSNorm>(HIPDNN_BACKEND_OPERATION_RMSNORM_DESCRIPTOR_EXT,
                       HIPDNN_OPERATION_TYPE_RMSNORM_EXT, "rmsnorm operation", RMSNORM),
    operation<RMSNormBackward>(HIPDNN_BACKEND_OPERATION_RMSNORM_BACKWARD_DESCRIPTOR_EXT,
                               HIPDNN_OPERATION_TYPE_RMSNORM_BACKWARD_EXT,
                               "rmsnorm backward operation", RMSNORM_BACKWARD),
    operation<Layernorm>(HIPDNN_BACKEND_OPERATION_LAYERNORM_DESCRIPTOR_EXT,
                         HIPDNN_OPERATION_TYPE_LAYERNORM_EXT, "layernorm operation", LAYERNORM),
    operation<LayernormBackward>(HIPDNN_BACKEND_OPERATION_LAYERNORM_BACKWARD_DESCRIPTOR_EXT,
                                 HIPDNN_OPERATION_TYPE_LAYERNORM_BACKWARD_EXT,
                                 "layernorm backward operation", LAYERNORM_BACKWARD),
    operation<Batchnorm>(HIPDNN_BACKEND_OPERATION_BATCHNORM_DESCRIPTOR_EXT,
                         HIPDNN_OPERATION_TYPE_BATCHNORM_EXT, "batchnorm operation", BATCHNORM),
    operation<BatchnormBackward>(HIPDNN_BACKEND_OPERATION_BATCHNORM_BACKWARD_DESCRIPTOR_EXT,
                                 HIPDNN_OPERATION_TYPE_BATCHNORM_BACKWARD_EXT,
                                 "batchnorm backward operation", BATCHNORM_BACKWARD),
    operation<BatchnormInference>(HIPDNN_BACKEND_OPERATION_BATCHNORM_INFERENCE_DESCRIPTOR_EXT,
                                  HIPDNN_OPERATION_TYPE_BATCHNORM_INFERENCE_EXT,
                                  "batchnorm inference operation", BATCHNORM_INFERENCE),
    operation<BatchnormInferenceVariance>(
        HIPDNN_BACKEND_OPERATION_BATCHNORM_INFERENCE_VARIANCE_DESCRIPTOR_EXT,
        HIPDNN_OPERATION_TYPE_BATCHNORM_INFERENCE_VARIANCE_EXT,
        "batchnorm inference from variance operation", BATCHNORM_INFERENCE_VARIANCE),
};

}  // namespace

std::span<const Operation> operations() { return OPERATIONS; }

}  // namespace raggeddnn::c_api
