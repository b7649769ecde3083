#include <mailgrad/files/line_reader.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace mailgrad {

namespace {

constexpr std::size_t least_room = std::size_t{1} << 16;

} // namespace

void line_reader::refill() {
  std::copy(buffer_.begin() + static_cast<std::ptrdiff_t>(begin_),
            buffer_.begin() + static_cast<std::ptrdiff_t>(end_), buffer_.begin());
  end_ -= begin_;
  begin_ = 0;
  if (buffer_.size() - end_ < least_room) buffer_.resize(std::max(2 * end_, end_ + least_room));
  const auto room = std::span(buffer_).subspan(end_);
  const std::size_t count = source_.read({reinterpret_cast<std::uint8_t*>(room.data()), room.size()});
  end_ += count;
  finished_ = count < room.size();
}

std::optional<std::string_view> line_reader::next_raw() {
  std::size_t searched = 0;
  while (true) {
    const std::string_view have(buffer_.data() + begin_, end_ - begin_);
    const std::size_t newline = have.find('\n', searched);
    const std::string_view line = have.substr(0, newline);
    if (line.size() > longest)
      throw_malformed(file(), file_line{number_ + 1},
                      fmt::format("expected at most {} bytes, found a longer line", longest));
    if (newline == std::string_view::npos && !finished_) {
      searched = have.size();
      refill();
      continue;
    }
    if (have.empty()) return std::nullopt;
    begin_ += std::min(line.size() + 1, have.size());
    const std::size_t mark = number_ == 0 && line.starts_with(byte_order_mark) ? byte_order_mark.size() : 0;
    ++number_;
    return line.substr(mark, line.size() - mark - (line.ends_with('\r') ? 1 : 0));
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
