#include <mailgrad/graph/operations/built_in_operations.hpp>

namespace mailgrad {

void add_built_in_operations(operation_registry& to) {
  add_activation_kinds(to);
  add_arithmetic_kinds(to);
  add_attention_kinds(to);
  add_bias_gelu_kinds(to);
  add_convolution_kinds(to);
  add_cross_entropy_kinds(to);
  add_dropout_kinds(to);
  add_embedding_kinds(to);
  add_gather_tables_kinds(to);
  add_joining_kinds(to);
  add_layer_norm_kinds(to);
  add_matmul_kinds(to);
  add_mean_squared_error_kinds(to);
  add_movement_kinds(to);
  add_pairwise_dots_kinds(to);
  add_pooling_kinds(to);
  add_quadratic_kinds(to);
  add_reduction_kinds(to);
  add_slicing_kinds(to);
  add_softmax_kinds(to);
  add_sparse_kinds(to);
}

} // namespace mailgrad
