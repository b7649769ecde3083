#pragma once

#include <mailgrad/net/network.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

namespace mailgrad::net {

/// A way to carry sessions between processes, for tests that hold for each.
struct network_kind {
  std::string name;
  /// Where anybody of this machine can listen: whatever is free.
  std::string any_address;
  /// A network whose connect() tries for so long.
  std::function<std::unique_ptr<network>(std::chrono::milliseconds patience)> make_patient;

  std::unique_ptr<network> make() const { return make_patient(std::chrono::seconds{10}); }
};

inline void PrintTo(const network_kind& k, std::ostream* out) { *out << k.name; }

/// TCP, TLS by a token, and shared memory.
const std::vector<network_kind>& network_kinds();

} // namespace mailgrad::net
