#include <mailgrad/data/formats/parsed_limit.hpp>

#include <mailgrad/files/file_error.hpp>
#include <mailgrad/tensor/byte_count.hpp>

#include <fmt/format.h>

namespace mailgrad {

void parsed_limit::require(const std::filesystem::path& file, std::uint64_t found) const {
  if (found <= bytes) return;
  throw_malformed(file,
                  fmt::format("expected samples that take at most {} of memory, found more; take a part of "
                              "the file, or raise --data-limit (open_options::limit)",
                              byte_count(bytes).text()));
}

} // namespace mailgrad
