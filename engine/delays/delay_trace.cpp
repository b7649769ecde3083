#include <mailgrad/engine/delays/delay_trace.hpp>

#include <mailgrad/files/line_reader.hpp>
#include <mailgrad/options/named_choice.hpp>
#include <mailgrad/options/number.hpp>

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace mailgrad {

namespace {

using rows_of_worker = std::vector<traced_delay::row>;

class trace_reader {
public:
  trace_reader(const std::filesystem::path& file, std::uint32_t workers) : lines_(file), rows_(workers) {}

  std::vector<rows_of_worker> read() {
    while (const auto line = lines_.next())
      if (lines_.number().value > 1 || *line != "t,worker,duration") take(*line);
    for (std::size_t r = 0; r < rows_.size(); ++r)
      if (rows_[r].empty())
        throw_malformed(lines_.file(), fmt::format("expected a line for each of {} workers, found none for "
                                                   "worker {}",
                                                   rows_.size(), r));
    return std::move(rows_);
  }

private:
  [[noreturn]] void fail(const std::string& what) const {
    throw_malformed(lines_.file(), lines_.number(), what);
  }

  void take(std::string_view line) {
    const std::vector<std::string_view> words = words_between(line, ',');
    if (words.size() != 3) fail(fmt::format("expected t,worker,duration, found {}", in_quotes(line)));
    const double at = number(words[0], "a time in seconds");
    if (at < last_)
      fail(fmt::format("expected a time no earlier than {:g}, found {}", last_, in_quotes(words[0])));
    last_ = at;
    const auto worker = parse_whole(words[1]);
    if (!worker || *worker >= rows_.size())
      fail(fmt::format("expected a worker from 0 to {}, found {}", rows_.size() - 1, in_quotes(words[1])));
    rows_[*worker].push_back({at, number(words[2], "a duration in seconds")});
  }

  double number(std::string_view word, std::string_view what) const {
    const auto read = parse_number(word);
    if (!read || !(*read >= 0 && *read <= delay_law::longest))
      fail(fmt::format("expected {} from 0 to {:g}, found {}", what, delay_law::longest, in_quotes(word)));
    return *read;
  }

  line_reader lines_;
  std::vector<rows_of_worker> rows_;
  double last_ = 0;
};

} // namespace

std::vector<std::shared_ptr<const rows_of_worker>> read_delay_trace(const std::filesystem::path& file,
                                                                    std::uint32_t workers) {
  std::vector<std::shared_ptr<const rows_of_worker>> shared;
  for (rows_of_worker& rows : trace_reader(file, workers).read())
    shared.push_back(std::make_shared<const rows_of_worker>(std::move(rows)));
  return shared;
}

} // namespace mailgrad
