#include <mailgrad/data/parsed_limit.hpp>

#include <mailgrad/files/file_error.hpp>
#include <mailgrad/tensor/byte_count.hpp>

#include <string>

namespace mailgrad {

void parsed_limit::require(const std::filesystem::path& file, std::uint64_t found) const {
  if (found <= bytes) return;
  throw_malformed(
      file,
      std::string("expected samples that take at most ") + byte_count(bytes).text() +
          " of memory, found more; take a part of the file, or raise --data-limit (open_options::limit)");
}

} // namespace mailgrad
