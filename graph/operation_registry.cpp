#include <mailgrad/graph/operation_registry.hpp>
#include <mailgrad/graph/operations/kinds.hpp>
#include <mailgrad/options/spelling.hpp>
#include <mailgrad/tensor/fail_with.hpp>

namespace mailgrad {

operation_registry::operation_registry() {
  add_attention_kinds(*this);
  add_elementwise_kinds(*this);
  add_embedding_kinds(*this);
  add_movement_kinds(*this);
  add_product_kinds(*this);
  add_quadratic_kinds(*this);
  add_reduction_kinds(*this);
  add_row_kinds(*this);
  add_window_kinds(*this);
  own_ = true;
}

void operation_registry::add(std::string kind, maker make) {
  const std::size_t dot = kind.find('.');
  if (own_ && (dot == std::string::npos || dot == 0 || dot + 1 == kind.size()))
    fail_with<std::invalid_argument>("operation registry: kind '{}': an operation of one's own needs "
                                     "its owner before its name, as in 'acme.huber'",
                                     kind);
  if (!make)
    fail_with<std::invalid_argument>("operation registry: there is no function that makes a '{}'", kind);
  if (knows(kind))
    fail_with<std::invalid_argument>("operation registry: there is already an operation of kind '{}'", kind);
  makers_.emplace(std::move(kind), std::move(make));
}

operation_node operation_registry::make(std::string_view kind, archive& attributes) const {
  if (const auto found = makers_.find(kind); found != makers_.end()) return found->second(attributes);
  const std::string_view meant = meant_name(kind, kinds());
  fail_with<graph_error>("there is no operation of kind '{}' here{}; add it to the operation_registry that "
                         "reads the graph",
                         kind, meant.empty() ? "" : fmt::format(", the nearest is '{}'", meant));
}

std::vector<std::string_view> operation_registry::kinds() const {
  std::vector<std::string_view> all;
  for (const auto& [kind, make] : makers_) all.push_back(kind);
  return all;
}

} // namespace mailgrad
