#include <mailgrad/data/line_reader.hpp>

#include <algorithm>
#include <cstring>

namespace mailgrad {

namespace {

constexpr std::size_t chunk = std::size_t{1} << 16;

} // namespace

void line_reader::refill() {
  std::copy(buffer_.begin() + static_cast<std::ptrdiff_t>(begin_),
            buffer_.begin() + static_cast<std::ptrdiff_t>(end_), buffer_.begin());
  end_ -= begin_;
  begin_ = 0;
  if (end_ > longest)
    throw_malformed(file(), file_line{number_ + 1},
                    "expected at most " + std::to_string(longest) + " bytes, found a longer line");
  if (buffer_.size() - end_ < chunk) buffer_.resize(std::max(2 * end_, end_ + chunk));
  const auto room = std::span(buffer_).subspan(end_);
  const std::size_t count = source_.read({reinterpret_cast<std::uint8_t*>(room.data()), room.size()});
  end_ += count;
  finished_ = count < room.size();
}

std::optional<std::string_view> line_reader::next_raw() {
  std::size_t searched = 0;
  while (true) {
    const char* line = buffer_.data() + begin_;
    const std::size_t have = end_ - begin_;
    const void* newline = have == searched ? nullptr : std::memchr(line + searched, '\n', have - searched);
    if (newline == nullptr && !finished_) {
      searched = have;
      refill();
      continue;
    }
    if (newline == nullptr && have == 0) return std::nullopt;
    const auto length =
        newline == nullptr ? have : static_cast<std::size_t>(static_cast<const char*>(newline) - line);
    begin_ += newline == nullptr ? length : length + 1;
    ++number_;
    return std::string_view(line, length > 0 && line[length - 1] == '\r' ? length - 1 : length);
  }
}

std::optional<std::string_view> line_reader::next() {
  auto line = next_raw();
  if (!line || !line->empty()) return line;
  const file_line first_empty = number();
  while ((line = next_raw()))
    if (!line->empty()) throw_malformed(file(), first_empty, "expected a row, found an empty line");
  return std::nullopt;
}

} // namespace mailgrad
