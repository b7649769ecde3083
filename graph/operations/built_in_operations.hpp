#pragma once

namespace mailgrad {

class operation_registry; // graph/operation_registry.hpp

/// Adds every kind of operation that Mailgrad has, those of gradients too.
void add_built_in_operations(operation_registry& to);

// Each family adds its own kinds.
void add_activation_kinds(operation_registry& to);
void add_arithmetic_kinds(operation_registry& to);
void add_attention_kinds(operation_registry& to);
void add_bias_gelu_kinds(operation_registry& to);
void add_convolution_kinds(operation_registry& to);
void add_cross_entropy_kinds(operation_registry& to);
void add_dropout_kinds(operation_registry& to);
void add_embedding_kinds(operation_registry& to);
void add_gather_tables_kinds(operation_registry& to);
void add_joining_kinds(operation_registry& to);
void add_layer_norm_kinds(operation_registry& to);
void add_matmul_kinds(operation_registry& to);
void add_mean_squared_error_kinds(operation_registry& to);
void add_movement_kinds(operation_registry& to);
void add_pairwise_dots_kinds(operation_registry& to);
void add_pooling_kinds(operation_registry& to);
void add_quadratic_kinds(operation_registry& to);
void add_reduction_kinds(operation_registry& to);
void add_slicing_kinds(operation_registry& to);
void add_softmax_kinds(operation_registry& to);
void add_sparse_kinds(operation_registry& to);

} // namespace mailgrad
