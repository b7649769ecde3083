#include <mailgrad/data/formats/libsvm.hpp>

#include <mailgrad/files/file_error.hpp>
#include <mailgrad/files/line_reader.hpp>
#include <mailgrad/options/number.hpp>

#include <fmt/format.h>

#include <limits>
#include <stdexcept>

namespace mailgrad {

namespace {

constexpr std::size_t widest = std::numeric_limits<std::int32_t>::max();

/// Cuts the first word off `line`; empty at its end.
std::string_view next_word(std::string_view& line) {
  const auto begin = std::min(line.find_first_not_of(" \t"), line.size());
  line.remove_prefix(begin);
  const std::string_view word = line.substr(0, line.find_first_of(" \t"));
  line.remove_prefix(word.size());
  return word;
}

class libsvm_parser {
public:
  libsvm_parser(line_reader& lines, std::size_t features, label_map& labels, const parsed_limit& limit)
      : lines_(lines), labels_(labels), given_(features), limit_(limit) {}

  libsvm_rows parse() {
    while (const auto line = lines_.next()) add(line->substr(0, line->find('#')));
    if (rows_.labels.empty()) throw_malformed(lines_.file(), "expected a row, found an empty file");
    if (given_ == 0 && rows_.features.width == 0)
      throw_malformed(lines_.file(), "expected an index:value in some row, found none");
    if (given_ > 0) rows_.features.width = given_;
    return std::move(rows_);
  }

private:
  void add(std::string_view line);
  void add_entry(std::string_view word, std::size_t& previous);
  std::size_t parse_index(std::string_view text, std::string_view word) const;

  [[noreturn]] void fail(const std::string& what) const {
    throw_malformed(lines_.file(), lines_.number(), what);
  }

  line_reader& lines_;
  label_map& labels_;
  std::size_t given_;
  parsed_limit limit_;
  libsvm_rows rows_;
};

void libsvm_parser::add(std::string_view line) {
  const std::string_view word = next_word(line);
  if (!parse_number(word)) fail(fmt::format("expected a whole number as label, found {}", in_quotes(word)));
  const auto label = labels_.find(word);
  if (!label) fail(fmt::format("expected {}, found {}", labels_.expected(), in_quotes(word)));
  std::size_t previous = 0;
  for (auto entry = next_word(line); !entry.empty(); entry = next_word(line)) add_entry(entry, previous);
  rows_.labels.push_back(*label);
  rows_.features.offsets.push_back(rows_.features.columns.size());
  constexpr std::size_t bytes_of_entry = sizeof(std::int32_t) + sizeof(float);
  constexpr std::size_t bytes_of_row = sizeof(std::size_t) + sizeof(std::int32_t);
  limit_.require(lines_.file(),
                 bytes_of_entry * rows_.features.columns.size() + bytes_of_row * rows_.labels.size());
}

std::size_t libsvm_parser::parse_index(std::string_view text, std::string_view word) const {
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
  if (end != text.data() + text.size() || (error != std::errc{} && error != std::errc::result_out_of_range))
    fail(fmt::format("expected index:value, found {}", in_quotes(word)));
  const std::size_t most = given_ > 0 ? given_ : most_libsvm_features;
  if (index == 0 || index > most || error == std::errc::result_out_of_range)
    fail(fmt::format("expected an index from 1 to {}, found {}", most, in_quotes(text)));
  return index;
}

void libsvm_parser::add_entry(std::string_view word, std::size_t& previous) {
  const auto colon = word.find(':');
  if (colon == 0 || colon == std::string_view::npos)
    fail(fmt::format("expected index:value, found {}", in_quotes(word)));
  const std::size_t index = parse_index(word.substr(0, colon), word);
  if (index <= previous) fail(fmt::format("expected an index above {}, found {}", previous, index));
  const std::string_view text = word.substr(colon + 1);
  const auto value = parse_number(text);
  if (!value || !fits_float(*value))
    fail(fmt::format("expected a finite number at index {}, found {}", index, in_quotes(text)));
  previous = index;
  rows_.features.columns.push_back(static_cast<std::int32_t>(index - 1));
  rows_.features.values.push_back(static_cast<float>(*value));
  rows_.features.width = std::max(rows_.features.width, index);
}

} // namespace

libsvm_rows read_libsvm(const std::filesystem::path& file, std::size_t features, label_map& labels,
                        const parsed_limit& limit) {
  if (features > widest) throw std::invalid_argument("libsvm: columns are numbered in 31 bits");
  line_reader lines{file};
  libsvm_rows rows = libsvm_parser{lines, features, labels, limit}.parse();
  if (labels.is_open()) labels.settle(rows.labels);
  return rows;
}

} // namespace mailgrad
