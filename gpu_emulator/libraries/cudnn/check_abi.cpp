// The numbers of src/cuda/kernels/cudnn_abi.hpp against cuDNN's own header, where a toolkit has one.

#if __has_include(<cudnn_graph.h>)
#include <cudnn_graph.h>

#include "cuda/kernels/cudnn_abi.hpp"

namespace {

using namespace tessera::cudnn;

#define SAME(ours, theirs) static_assert(static_cast<int>(ours) == static_cast<int>(theirs))
SAME(Kind::pointwise, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
SAME(Kind::engine_config, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
SAME(Kind::heuristic, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
SAME(Kind::plan, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
SAME(Kind::pointwise_operation, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
SAME(Kind::graph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
SAME(Kind::variant_pack, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
SAME(Kind::tensor, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
SAME(Kind::matmul, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
SAME(Kind::matmul_operation, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
SAME(Kind::reduction, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
SAME(Kind::reduction_operation, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
SAME(Kind::reshape_operation, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
SAME(Kind::device_properties, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);

SAME(Attribute::pointwise_mode, CUDNN_ATTR_POINTWISE_MODE);
SAME(Attribute::pointwise_precision, CUDNN_ATTR_POINTWISE_MATH_PREC);
SAME(Attribute::pointwise_axis, CUDNN_ATTR_POINTWISE_AXIS);
SAME(Attribute::heuristic_mode, CUDNN_ATTR_ENGINEHEUR_MODE);
SAME(Attribute::heuristic_graph, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
SAME(Attribute::heuristic_results, CUDNN_ATTR_ENGINEHEUR_RESULTS);
SAME(Attribute::heuristic_device_properties, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP);
SAME(Attribute::plan_handle, CUDNN_ATTR_EXECUTION_PLAN_HANDLE);
SAME(Attribute::plan_engine_config, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
SAME(Attribute::plan_workspace, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
SAME(Attribute::plan_device_properties, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP);
SAME(Attribute::pointwise_operation_descriptor, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
SAME(Attribute::pointwise_operation_x, CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
SAME(Attribute::pointwise_operation_b, CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
SAME(Attribute::pointwise_operation_y, CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
SAME(Attribute::pointwise_operation_condition, CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
SAME(Attribute::graph_handle, CUDNN_ATTR_OPERATIONGRAPH_HANDLE);
SAME(Attribute::graph_operations, CUDNN_ATTR_OPERATIONGRAPH_OPS);
SAME(Attribute::tensor_alignment, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
SAME(Attribute::tensor_type, CUDNN_ATTR_TENSOR_DATA_TYPE);
SAME(Attribute::tensor_dimensions, CUDNN_ATTR_TENSOR_DIMENSIONS);
SAME(Attribute::tensor_strides, CUDNN_ATTR_TENSOR_STRIDES);
SAME(Attribute::tensor_id, CUDNN_ATTR_TENSOR_UNIQUE_ID);
SAME(Attribute::tensor_is_virtual, CUDNN_ATTR_TENSOR_IS_VIRTUAL);
SAME(Attribute::tensor_is_by_value, CUDNN_ATTR_TENSOR_IS_BY_VALUE);
SAME(Attribute::tensor_ragged_offset, CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC);
SAME(Attribute::pack_ids, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
SAME(Attribute::pack_pointers, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
SAME(Attribute::pack_workspace, CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
SAME(Attribute::matmul_precision, CUDNN_ATTR_MATMUL_COMP_TYPE);
SAME(Attribute::matmul_operation_a, CUDNN_ATTR_OPERATION_MATMUL_ADESC);
SAME(Attribute::matmul_operation_b, CUDNN_ATTR_OPERATION_MATMUL_BDESC);
SAME(Attribute::matmul_operation_c, CUDNN_ATTR_OPERATION_MATMUL_CDESC);
SAME(Attribute::matmul_operation_descriptor, CUDNN_ATTR_OPERATION_MATMUL_DESC);
SAME(Attribute::matmul_operation_rows, CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC);
SAME(Attribute::matmul_operation_columns, CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC);
SAME(Attribute::matmul_operation_depth, CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC);
SAME(Attribute::reduction_operator, CUDNN_ATTR_REDUCTION_OPERATOR);
SAME(Attribute::reduction_precision, CUDNN_ATTR_REDUCTION_COMP_TYPE);
SAME(Attribute::reduction_operation_x, CUDNN_ATTR_OPERATION_REDUCTION_XDESC);
SAME(Attribute::reduction_operation_y, CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
SAME(Attribute::reduction_operation_descriptor, CUDNN_ATTR_OPERATION_REDUCTION_DESC);
SAME(Attribute::reshape_x, CUDNN_ATTR_OPERATION_RESHAPE_XDESC);
SAME(Attribute::reshape_y, CUDNN_ATTR_OPERATION_RESHAPE_YDESC);
SAME(Attribute::device_properties_text, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION);

SAME(Type::handle, CUDNN_TYPE_HANDLE);
SAME(Type::data_type, CUDNN_TYPE_DATA_TYPE);
SAME(Type::boolean, CUDNN_TYPE_BOOLEAN);
SAME(Type::int64, CUDNN_TYPE_INT64);
SAME(Type::pointer, CUDNN_TYPE_VOID_PTR);
SAME(Type::heuristic_mode, CUDNN_TYPE_HEUR_MODE);
SAME(Type::pointwise_mode, CUDNN_TYPE_POINTWISE_MODE);
SAME(Type::descriptor, CUDNN_TYPE_BACKEND_DESCRIPTOR);
SAME(Type::reduction_operator, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE);
SAME(Type::character, CUDNN_TYPE_CHAR);

SAME(Data::fp32, CUDNN_DATA_FLOAT);
SAME(Data::fp16, CUDNN_DATA_HALF);
SAME(Data::int32, CUDNN_DATA_INT32);
SAME(Data::bf16, CUDNN_DATA_BFLOAT16);
SAME(Data::boolean, CUDNN_DATA_BOOLEAN);
SAME(Pointwise::add, CUDNN_POINTWISE_ADD);
SAME(Pointwise::multiply, CUDNN_POINTWISE_MUL);
SAME(Pointwise::divide, CUDNN_POINTWISE_DIV);
SAME(Pointwise::subtract, CUDNN_POINTWISE_SUB);
SAME(Pointwise::exp, CUDNN_POINTWISE_EXP);
SAME(Pointwise::log, CUDNN_POINTWISE_LOG);
SAME(Pointwise::identity, CUDNN_POINTWISE_IDENTITY);
SAME(Pointwise::greater_or_equal, CUDNN_POINTWISE_CMP_GE);
SAME(Pointwise::less, CUDNN_POINTWISE_CMP_LT);
SAME(Pointwise::both, CUDNN_POINTWISE_LOGICAL_AND);
SAME(Pointwise::index, CUDNN_POINTWISE_GEN_INDEX);
SAME(Pointwise::select, CUDNN_POINTWISE_BINARY_SELECT);
SAME(Reduction::add, CUDNN_REDUCE_TENSOR_ADD);
SAME(Reduction::maximum, CUDNN_REDUCE_TENSOR_MAX);
SAME(Heuristic::best, CUDNN_HEUR_MODE_A);
SAME(kSuccess, CUDNN_STATUS_SUCCESS);
#undef SAME

}  // namespace
#endif
