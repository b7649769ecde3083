#pragma once

#include <mailgrad/files/archive.hpp>

#include <cstdint>
#include <map>
#include <string>

namespace mailgrad {

/// Counts every gradient of a run by its fate.
struct gradient_ledger {
  std::uint64_t produced = 0;                       ///< finished by a worker
  std::uint64_t applied = 0;                        ///< made an update by itself
  std::uint64_t merged = 0;                         ///< made an update together with others
  std::map<std::string, std::uint64_t> discarded{}; ///< by reason
  std::uint64_t lost = 0; ///< with their worker or shard, or in a batch that was never complete

  std::uint64_t discarded_in_all() const;
  /// applied + merged + discarded + lost
  std::uint64_t accounted_for() const { return applied + merged + discarded_in_all() + lost; }
  bool balances() const { return produced == accounted_for(); }

  friend bool operator==(const gradient_ledger&, const gradient_ledger&) = default;

  void keep(archive& a) {
    a.field("produced", produced);
    a.field("applied", applied);
    a.field("merged", merged);
    a.field("discarded", discarded);
    a.field("lost", lost);
  }
};

/// "1876 produced = 1874 applied + 0 merged + 2 discarded (not finite 2) + 0 lost"
std::string to_string(const gradient_ledger& l);

} // namespace mailgrad
