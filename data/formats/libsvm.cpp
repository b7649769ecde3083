#include <mailgrad/data/formats/libsvm.hpp>
#include <mailgrad/files/byte_source.hpp>
#include <mailgrad/options/number.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace mailgrad {

namespace {

constexpr std::string_view query = "qid:";
constexpr std::size_t widest = std::numeric_limits<std::int32_t>::max();

/// Cuts the first word off `line`; empty at its end.
std::string_view next_word(std::string_view& line) {
  const auto begin = std::min(line.find_first_not_of(" \t"), line.size());
  line.remove_prefix(begin);
  const std::string_view word = line.substr(0, line.find_first_of(" \t"));
  line.remove_prefix(word.size());
  return word;
}

std::string_view row_in(std::string_view line) { return line.substr(0, line.find('#')); }

/// As it is written, but "-3" for "-3e0" and "-03": a label is a number here, and no code.
std::string label_in(std::string_view word, double number) {
  const std::string_view digits = word.substr(std::min(word.find_first_not_of("+-"), word.size()));
  const bool is_code = digits.find_first_of("eE") != std::string_view::npos ||
                       (digits.size() > 1 && digits[0] == '0' && digits[1] != '.');
  return is_code && number == std::floor(number) && std::isfinite(number) ? fmt::format("{:.0f}", number)
                                                                          : std::string(word);
}

class libsvm_parser {
public:
  libsvm_parser(line_reader& lines, const libsvm_options& options, label_map& labels)
      : lines_(lines), options_(options), labels_(labels),
        first_(options.numbering == column_numbering::from_zero ? 0 : 1) {}

  libsvm_rows parse() {
    while (const auto line = lines_.next()) add(*line);
    if (rows_.labels.empty()) throw_malformed(lines_.file(), "expected a row, found an empty file");
    if (options_.features == 0 && rows_.features.width == 0)
      throw_malformed(lines_.file(), "expected an index:value in some row, found none");
    if (options_.features > 0) rows_.features.width = options_.features;
    return std::move(rows_);
  }

private:
  void add(std::string_view line) {
    std::string_view row = row_in(line);
    const bool has_comment = row.size() < line.size();
    const std::string_view word = next_word(row);
    if (word.empty() && has_comment) return;
    if (word.empty()) fail("expected a row, found an empty line");
    const std::optional<double> number = parse_number(word);
    if (!number) fail(fmt::format("expected a whole number as label, found {}", in_quotes(word)));
    const auto label = labels_.find(label_in(word, *number));
    if (!label) fail(fmt::format("expected {}, found {}", labels_.expected(), in_quotes(word)));
    std::string_view entry = next_word(row);
    if (entry.starts_with(query)) {
      if (!parse_whole(entry.substr(query.size())))
        fail(fmt::format("expected a whole number behind '{}', found {}", query, in_quotes(entry)));
      entry = next_word(row);
    }
    for (; !entry.empty(); entry = next_word(row)) add_entry(entry);
    rows_.labels.push_back(*label);
    rows_.features.offsets.push_back(rows_.features.columns.size());
    constexpr std::size_t bytes_of_entry = sizeof(std::int32_t) + sizeof(float);
    constexpr std::size_t bytes_of_row = sizeof(std::size_t) + sizeof(std::int32_t);
    options_.limit.require(lines_.file(), bytes_of_entry * rows_.features.columns.size() +
                                              bytes_of_row * rows_.labels.size());
  }

  void add_entry(std::string_view word) {
    const auto colon = word.find(':');
    if (colon == 0 || colon == std::string_view::npos)
      fail(fmt::format("expected index:value, found {}", in_quotes(word)));
    const std::size_t index = parse_index(word.substr(0, colon), word);
    const std::size_t column = index - first_;
    sparse_features& f = rows_.features;
    if (f.columns.size() > f.offsets.back() && column <= static_cast<std::size_t>(f.columns.back()))
      fail(fmt::format("expected an index above {}, found {}",
                       static_cast<std::size_t>(f.columns.back()) + first_, index));
    const std::string_view text = word.substr(colon + 1);
    const auto value = parse_number(text);
    if (!value || !fits_float(*value))
      fail(fmt::format("expected a finite number at index {}, found {}", index, in_quotes(text)));
    f.columns.push_back(static_cast<std::int32_t>(column));
    f.values.push_back(static_cast<float>(*value));
    f.width = std::max(f.width, column + 1);
  }
  std::size_t parse_index(std::string_view text, std::string_view word) const {
    std::size_t index = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
    if (end != text.data() + text.size() || (error != std::errc{} && error != std::errc::result_out_of_range))
      fail(fmt::format("expected index:value, found {}", in_quotes(word)));
    const std::size_t width = options_.features > 0 ? options_.features : most_libsvm_features;
    const std::size_t last = width - 1 + first_;
    const bool is_beyond = index > last || error == std::errc::result_out_of_range;
    const bool has_option = is_beyond && (options_.may_be_wider || options_.features == 0);
    if (index < first_ || is_beyond)
      fail(fmt::format("expected an index from {} to {}, found {}{}", first_, last, in_quotes(text),
                       has_option ? "; --features N (open_options::features) gives all rows N columns" : ""));
    return index;
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw_malformed(lines_.file(), lines_.number(), what);
  }

  line_reader& lines_;
  const libsvm_options& options_;
  label_map& labels_;
  std::size_t first_; ///< the number of the first column
  libsvm_rows rows_;
};

} // namespace

bool has_column_zero(const std::filesystem::path& file) {
  line_reader lines{file};
  while (const auto line = lines.next()) {
    std::string_view row = row_in(*line);
    next_word(row); // the label
    std::string_view entry = next_word(row);
    if (entry.starts_with(query)) entry = next_word(row);
    if (entry.starts_with("0:")) return true;
  }
  return false;
}

libsvm_rows read_libsvm(const std::filesystem::path& file, const libsvm_options& options, label_map& labels) {
  if (options.features > widest) throw std::invalid_argument("libsvm: columns are numbered in 31 bits");
  line_reader lines{file};
  libsvm_rows rows = libsvm_parser{lines, options, labels}.parse();
  if (labels.is_open()) labels.settle(rows.labels);
  return rows;
}

} // namespace mailgrad
