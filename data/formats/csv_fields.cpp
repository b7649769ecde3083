#include <mailgrad/data/formats/csv_fields.hpp>

#include <csv.h>

#include <algorithm>
#include <array>
#include <new>

namespace mailgrad {

struct csv_fields::parser {
  explicit parser(char delimiter) {
    csv_init(&state, CSV_STRICT | CSV_STRICT_FINI); // fails only for a null pointer
    csv_set_delim(&state, static_cast<unsigned char>(delimiter));
    csv_set_term_func(&state, [](unsigned char) { return 0; }); // the caller passes one line at a time
  }
  ~parser() { csv_free(&state); }
  parser(const parser&) = delete;
  parser& operator=(const parser&) = delete;

  csv_parser state;
};

csv_fields::csv_fields(char delimiter)
    : delimiter_(delimiter), parser_(std::make_unique<parser>(delimiter)) {}
csv_fields::csv_fields(csv_fields&&) noexcept = default;
csv_fields::~csv_fields() = default;

bool csv_fields::split(std::string_view line, std::vector<std::string_view>& out) {
  text_.clear();
  ends_.clear();
  const auto take = [](void* field, std::size_t length, void* self) {
    auto& me = *static_cast<csv_fields*>(self);
    if (length > 0) me.text_.append(static_cast<const char*>(field), length);
    me.ends_.push_back(me.text_.size());
  };
  csv_parser& state = parser_->state;
  if (csv_parse(&state, line.data(), line.size(), take, nullptr, this) != line.size() ||
      csv_fini(&state, take, nullptr, this) != 0) {
    if (csv_error(&state) == CSV_ENOMEM) throw std::bad_alloc();
    parser_ = std::make_unique<parser>(delimiter_); // the old one would still be within the quotes
    return false;
  }
  if (ends_.empty()) ends_.push_back(0); // a line of blanks is one empty field
  out.clear();
  std::size_t begin = 0;
  for (const std::size_t end : ends_) {
    out.push_back(std::string_view(text_).substr(begin, end - begin));
    begin = end;
  }
  return true;
}

char most_frequent_delimiter(std::string_view line) {
  constexpr std::array delimiters{',', ';', '\t'};
  std::array<std::size_t, delimiters.size()> counts{};
  bool in_quotes = false;
  for (const char c : line) {
    if (c == '"') in_quotes = !in_quotes;
    const auto found = std::ranges::find(delimiters, c);
    if (!in_quotes && found != delimiters.end())
      ++counts[static_cast<std::size_t>(found - delimiters.begin())];
  }
  return delimiters[static_cast<std::size_t>(std::ranges::max_element(counts) - counts.begin())];
}

} // namespace mailgrad
