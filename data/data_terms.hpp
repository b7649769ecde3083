#pragma once

#include <mailgrad/data/data_source.hpp>
#include <mailgrad/files/archive.hpp>

#include <cstdint>
#include <memory>
#include <string>

namespace mailgrad {

/// Which samples a run trains on, for a worker that looks for them on its own disk.
struct data_terms {
  std::string name;
  std::uint64_t samples = 0;
  std::string sha256; ///< as digest_of() tells it; empty: the server says nothing of its data
  std::shared_ptr<const data_source> source{}; ///< how the server opened them; null: its program made them

  void keep(archive& a);
};

} // namespace mailgrad
