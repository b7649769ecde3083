#pragma once

#include <string_view>

namespace mailgrad {

/// Lock-free: the replicas of a process write into one shared block (tensor/hogwild_store.hpp) without asking
/// anybody, so there is nothing to decide: this class is a name.
///
/// Source  Niu, Recht, Re & Wright, "Hogwild!", NIPS 2011, arXiv:1106.5730.
class hogwild_policy final {
public:
  static constexpr std::string_view policy_name = "hogwild";
};

} // namespace mailgrad
