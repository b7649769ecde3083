#pragma once

#include <mailgrad/optim/own_rule.hpp>
#include <mailgrad/optim/rules/variable_rule.hpp>
#include <mailgrad/tensor/block.hpp>

#include <array>
#include <span>
#include <vector>

namespace mailgrad {

/// A user's rule that asks for whole variables (plugin.h). It finds the weights decayed.
///
/// Shapes  states "state 0" and so on: float32[shard].
class own_variable_rule final : public variable_rule {
public:
  own_variable_rule(const own_rule& rule, std::size_t shard_size, std::span<const shard_variable> variables);

  void update(const variable_step& work) override;
  std::vector<optimizer_state> state() override;

private:
  /// A variable with what `told` points to.
  struct place {
    shard_variable variable;
    std::vector<std::size_t> extents;
  };

  own_rule rule_;
  std::vector<place> places_;
  std::vector<mailgrad_variable> told_; ///< by variable
  std::vector<block> states_;
};

} // namespace mailgrad
