#pragma once
// The numbers of cuDNN 9's backend interface that are used here. They are written out, so that a build needs no header
// of cuDNN, and every library of version 9 found at run time will do. A test compares them with the header where there
// is one (gpu_emulator/libraries/cudnn/check_abi.cpp).

namespace tessera::cudnn {

enum class Kind : int {  ///< of a descriptor
  pointwise = 0,
  engine_config = 3,
  heuristic = 4,
  plan = 5,
  pointwise_operation = 13,
  graph = 15,
  variant_pack = 16,
  tensor = 17,
  matmul = 18,
  matmul_operation = 19,
  reduction = 21,
  reduction_operation = 22,
  reshape_operation = 31,
  device_properties = 38,
};

enum class Attribute : int {
  pointwise_mode = 0,
  pointwise_precision = 1,
  pointwise_axis = 9,
  heuristic_mode = 200,
  heuristic_graph = 201,
  heuristic_results = 202,
  heuristic_device_properties = 204,
  plan_handle = 400,
  plan_engine_config = 401,
  plan_workspace = 402,
  plan_device_properties = 407,
  pointwise_operation_descriptor = 750,
  pointwise_operation_x = 751,
  pointwise_operation_b = 752,
  pointwise_operation_y = 753,
  pointwise_operation_condition = 758,
  graph_handle = 800,
  graph_operations = 801,
  tensor_alignment = 900,
  tensor_type = 901,
  tensor_dimensions = 902,
  tensor_strides = 903,
  tensor_id = 906,
  tensor_is_virtual = 907,
  tensor_is_by_value = 908,
  tensor_ragged_offset = 913,
  pack_ids = 1000,
  pack_pointers = 1001,
  pack_workspace = 1003,
  matmul_precision = 1500,
  matmul_operation_a = 1520,
  matmul_operation_b = 1521,
  matmul_operation_c = 1522,
  matmul_operation_descriptor = 1523,
  matmul_operation_rows = 1525,     ///< how many count: those of c, of each batch
  matmul_operation_columns = 1526,  ///< the same
  matmul_operation_depth = 1527,    ///< the same
  reduction_operator = 1600,
  reduction_precision = 1601,
  reduction_operation_x = 1610,
  reduction_operation_y = 1611,
  reduction_operation_descriptor = 1612,
  reshape_x = 2200,
  reshape_y = 2201,
  device_properties_text = 2702,
};

enum class Type : int {  ///< of an attribute's value
  handle = 0,
  data_type = 1,
  boolean = 2,
  int64 = 3,
  pointer = 6,
  heuristic_mode = 8,
  pointwise_mode = 14,
  descriptor = 15,
  reduction_operator = 18,
  character = 24,
};

enum class Data : int { fp32 = 0, fp16 = 2, int32 = 4, bf16 = 9, boolean = 11 };
enum class Pointwise : int {
  add = 0,
  multiply = 1,
  divide = 6,
  subtract = 9,
  exp = 13,
  log = 15,
  identity = 21,
  greater_or_equal = 303,
  less = 304,
  both = 400,
  index = 501,   ///< the element's index along an axis
  select = 601,  ///< condition ? x : b
};
enum class Reduction : int { add = 0, maximum = 3 };
enum class Heuristic : int { best = 3 };  ///< mode A

constexpr int kSuccess = 0;

}  // namespace tessera::cudnn
