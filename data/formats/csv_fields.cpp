#include <mailgrad/data/formats/csv_fields.hpp>

#include <mailgrad/data/table_layout.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ranges>

namespace mailgrad {

namespace {

bool is_empty_line(std::string_view line, char delimiter) {
  return std::ranges::all_of(line, [=](char c) { return (c == ' ' || c == '\t') && c != delimiter; });
}

/// "#N/A" is a missing value of spreadsheets.
bool begins_as_comment(std::string_view line) {
  line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
  return line.starts_with('#') && !line.starts_with("#N/A");
}

/// The records of some lines by one delimiter.
struct record_counts {
  std::size_t records = 0;
  std::size_t columns = 0; ///< that are known, or of the first one
  std::size_t least = 2;   ///< columns that make a table
  std::size_t alike = 0;   ///< records that have as many
  std::size_t fields = 0;  ///< of those, with a value
  std::size_t numbers = 0; ///< among these

  double score() const {
    if (columns < least) return 0;
    const auto share = [](std::size_t a, std::size_t b) {
      return static_cast<double>(a) / static_cast<double>(b);
    };
    return share(alike, records) * (1 + (fields == 0 ? 0 : share(numbers, fields)));
  }
};

record_counts count_records(const std::vector<std::string_view>& lines, char delimiter, std::size_t columns) {
  record_counts counts{.columns = columns, .least = columns == 0 ? std::size_t{2} : 1};
  csv_fields splitter(delimiter);
  std::vector<std::string_view> fields;
  for (const std::string_view line : lines) {
    if (splitter.add(line) != csv_fields::record::whole) continue;
    splitter.list(fields);
    ++counts.records;
    if (counts.columns == 0) counts.columns = fields.size();
    if (fields.size() != counts.columns) continue;
    ++counts.alike;
    for (const std::string_view field : fields) {
      if (is_missing(field)) continue;
      ++counts.fields;
      if (field.find(' ') == std::string_view::npos && readings_of(field).any()) ++counts.numbers;
    }
  }
  counts.records = std::max<std::size_t>(counts.records, 1);
  return counts;
}

} // namespace

std::string_view csv_fields::without_blanks(std::string_view text) const {
  const auto is_blank = [this](char c) { return (c == ' ' || c == '\t') && c != delimiter_; };
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

/// Takes a field up to its delimiter.
void csv_fields::take_plain(std::string_view& rest) {
  const std::string_view field = rest.substr(0, rest.find(delimiter_));
  text_ += without_blanks(field);
  rest.remove_prefix(field.size());
}

/// Takes the rest of a field in double quotes, from within them. False if they are open at the end.
bool csv_fields::take_quoted(std::string_view& rest) {
  while (true) {
    const std::size_t quote = rest.find('"');
    text_ += rest.substr(0, quote);
    if (quote == std::string_view::npos) return false;
    rest.remove_prefix(quote + 1);
    if (!rest.starts_with('"')) break;
    text_ += '"';
    rest.remove_prefix(1);
  }
  const std::string_view between = rest.substr(0, rest.find(delimiter_));
  if (without_blanks(between).empty()) rest.remove_prefix(between.size());
  return true;
}

csv_fields::record csv_fields::add(std::string_view line) {
  std::string_view rest = line;
  if (open_)
    text_ += '\n';
  else {
    text_.clear();
    ends_.clear();
  }
  while (true) {
    if (!open_) {
      const std::string_view field = without_blanks(rest);
      open_ = field.starts_with('"');
      if (open_) rest.remove_prefix(static_cast<std::size_t>(field.data() - rest.data()) + 1);
    }
    if (!open_)
      take_plain(rest);
    else if (!take_quoted(rest))
      return record::open;
    open_ = false;
    ends_.push_back(text_.size());
    if (rest.empty()) return record::whole;
    if (rest.front() != delimiter_) return record::misplaced;
    rest.remove_prefix(1);
  }
}

void csv_fields::list(std::vector<std::string_view>& fields) const {
  fields.clear();
  std::size_t begin = 0;
  for (const std::size_t end : ends_) {
    fields.push_back(std::string_view(text_).substr(begin, end - begin));
    begin = end;
  }
}

char stated_delimiter(std::string_view first_line) {
  return first_line.size() == 5 && first_line.starts_with("sep=") ? first_line.back() : '\0';
}

csv_form csv_form_of(std::span<const std::string> first_lines, char delimiter, std::size_t columns) {
  std::vector<std::string_view> rows;
  std::vector<std::string_view> marked; // with '#'
  for (const std::string& line : first_lines)
    if (!is_empty_line(line, '\0')) (begins_as_comment(line) ? marked : rows).push_back(line);
  const std::vector<std::string_view>& shown = rows.empty() ? marked : rows;
  csv_form form{.delimiter = delimiter == 0 ? ',' : delimiter, .columns = columns};
  std::pair<double, std::size_t> best;                 // the score and the columns
  for (const char candidate : {';', '\t', '|', ','}) { // a comma may stand within numbers, so it comes last
    const record_counts counts = count_records(shown, candidate, columns);
    const std::pair found(counts.score(), counts.columns);
    if (delimiter != 0 || counts.score() == 0 || found <= best) continue;
    best = found;
    form.delimiter = candidate;
  }
  const record_counts alike = count_records(rows, form.delimiter, columns);
  form.comments = count_records(marked, form.delimiter, alike.columns).alike <= alike.alike;
  return form;
}

/// Whether a line that begins with '#' is a record all the same. One whose double quotes are open counts as
/// one, so that its next lines are no records of their own.
bool csv_records::is_row(std::string_view marked) const {
  csv_fields splitter(csv_form_of(std::array{std::string(marked)}, form_.delimiter, form_.columns).delimiter);
  const csv_fields::record found = splitter.add(marked);
  std::vector<std::string_view> fields;
  splitter.list(fields);
  if (form_.columns < 2 || found == csv_fields::record::misplaced) return false;
  if (found == csv_fields::record::whole && fields.size() != form_.columns) return false;
  const auto is_number = [](std::string_view field) { return readings_of(field).any(); };
  return any_ || std::ranges::any_of(fields | std::views::drop(1), is_number);
}

/// Whether a line is no record, nor the beginning of one.
bool csv_records::passes_over(std::string_view line) {
  if (is_empty_line(line, form_.delimiter)) {
    if (!empty_) empty_ = lines_.number();
    return true;
  }
  if (const char stated = lines_.number().value == 1 ? stated_delimiter(line) : '\0'; stated != 0) {
    if (form_.delimiter == 0) splitter_ = csv_fields(form_.delimiter = stated);
    return true;
  }
  if (!form_.comments || !begins_as_comment(line) || is_row(line)) return false;
  if (any_)
    ++comments_below_;
  else
    comment_ = line.substr(line.find('#') + 1);
  return true;
}

void csv_records::split(std::string_view line) {
  csv_fields::record found = splitter_.add(line);
  for (std::size_t size = line.size(); found == csv_fields::record::open;) {
    const auto next = lines_.next();
    if (!next || (size += next->size()) > text_lines::longest)
      throw_malformed(
          file(), first_,
          fmt::format("expected double quotes around the whole of a field, found some that are open "
                      "{}",
                      next ? "for too many lines" : "to the end"));
    found = splitter_.add(*next);
  }
  if (found == csv_fields::record::misplaced)
    throw_malformed(file(), first_,
                    "expected double quotes around the whole of a field, found text behind them");
}

/// Chooses the delimiter that fits the first record.
void csv_records::settle(std::string_view first_line) {
  const bool comments = form_.comments;
  form_ = csv_form_of(std::array{std::string(first_line)}, form_.delimiter, form_.columns);
  form_.comments = comments;
  splitter_ = csv_fields(form_.delimiter);
}

bool csv_records::next() {
  empty_.reset();
  while (const auto line = lines_.next()) {
    if (passes_over(*line)) continue;
    if (form_.delimiter == 0) settle(*line);
    first_ = lines_.number();
    split(*line);
    splitter_.list(fields_);
    if (!std::exchange(any_, true)) form_.columns = fields_.size();
    return true;
  }
  return false;
}

} // namespace mailgrad
