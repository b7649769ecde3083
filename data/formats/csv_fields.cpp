#include <mailgrad/data/formats/csv_fields.hpp>
#include <mailgrad/data/table_layout.hpp>
#include <mailgrad/files/byte_source.hpp>
#include <mailgrad/files/text.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <istream>
#include <ranges>

namespace mailgrad {

namespace {

constexpr std::size_t least_read = std::size_t{1} << 16;
constexpr std::string_view half_of_one = "expected characters of UTF-16, found half of one";

void append_character(std::string& to, std::uint32_t code) {
  constexpr std::array<std::uint32_t, 4> lead{0, 0xc0, 0xe0, 0xf0}; // by the bytes behind the first one
  std::size_t behind = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  to += static_cast<char>(lead[behind] | code >> 6 * behind);
  while (behind-- > 0) to += static_cast<char>(0x80 | (code >> 6 * behind & 0x3f));
}

/// What the bytes 0x80 to 0x9f stand for in Windows-1252. Five of them stand for nothing, and are taken as in
/// Latin-1.
constexpr std::array<std::uint16_t, 32> windows_1252{
    0x20ac, 0x0081, 0x201a, 0x0192, 0x201e, 0x2026, 0x2020, 0x2021, 0x02c6, 0x2030, 0x0160,
    0x2039, 0x0152, 0x008d, 0x017d, 0x008f, 0x0090, 0x2018, 0x2019, 0x201c, 0x201d, 0x2022,
    0x2013, 0x2014, 0x02dc, 0x2122, 0x0161, 0x203a, 0x0153, 0x009d, 0x017e, 0x0178};

bool is_utf8(std::string_view text) {
  std::span rest(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
  while (!rest.empty()) {
    const auto c = rest.front() < 0x80 ? utf8_character{rest.front(), 1} : first_character(rest);
    if (!c) return false;
    rest = rest.subspan(c->length);
  }
  return true;
}

/// How the first two bytes say that a text is UTF-16.
utf16_order order_of(std::string_view head) {
  if (head.size() < 2) return utf16_order::none;
  if (head.starts_with("\xff\xfe") || (head[0] != 0 && head[1] == 0)) return utf16_order::little;
  const bool big = head.starts_with("\xfe\xff") || (head[0] == 0 && head[1] != 0);
  return big ? utf16_order::big : utf16_order::none;
}

/// Moves what is whole in `raw`, in UTF-16, to the end of `text`, in UTF-8. Returns false at half a pair.
bool move_utf16(std::string& raw, bool big, std::string& text) {
  const auto unit = [&](std::size_t i) {
    const auto at = [&](std::size_t j) { return std::uint32_t{static_cast<unsigned char>(raw[j])}; };
    return big ? at(i) << 8 | at(i + 1) : at(i + 1) << 8 | at(i);
  };
  std::size_t i = 0;
  for (; i + 2 <= raw.size(); i += 2) {
    std::uint32_t code = unit(i);
    if (code >= 0xdc00 && code < 0xe000) return false;
    if (code >= 0xd800 && code < 0xdc00) {
      if (i + 4 > raw.size()) break;
      const std::uint32_t low = unit(i + 2);
      if (low < 0xdc00 || low >= 0xe000) return false;
      code = 0x10000 + ((code - 0xd800) << 10 | (low - 0xdc00));
      i += 2;
    }
    append_character(text, code);
  }
  raw.erase(0, i);
  return true;
}

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

text_lines::text_lines(const std::filesystem::path& file) : file_(file) {
  more_ = [source = std::make_shared<byte_source>(file)](std::string& to) {
    const std::size_t had = to.size();
    to.resize(had + std::max(least_read, had)); // so that a long line costs no more than its length
    const std::size_t count =
        source->read({reinterpret_cast<std::uint8_t*>(to.data()) + had, to.size() - had});
    to.resize(had + count);
    return count > 0;
  };
}

text_lines::text_lines(std::istream& in, std::string name) : file_(std::move(name)) {
  more_ = [&in](std::string& to) {
    std::string line;
    if (!std::getline(in, line)) return false;
    to += line;
    if (!in.eof()) to += '\n';
    return true;
  };
}

/// Takes the first bytes, which tell the encoding.
void text_lines::begin() {
  begun_ = true;
  while (text_.size() < 2 && more_(text_)) {
  }
  order_ = order_of(text_);
  if (order_ != utf16_order::none) {
    raw_ = std::exchange(text_, {});
    decode();
  }
  if (text_.starts_with(byte_order_mark)) text_.erase(0, byte_order_mark.size());
}

void text_lines::decode() {
  if (!move_utf16(raw_, order_ == utf16_order::big, text_)) fail(half_of_one);
}
/// Reads on. False at the end.
bool text_lines::refill() {
  if (!begun_) {
    begin();
    return true;
  }
  text_.erase(0, begin_);
  searched_ -= std::min(searched_, begin_);
  if (newline_ && *newline_ >= begin_)
    *newline_ -= begin_;
  else
    newline_.reset();
  begin_ = 0;
  if (order_ == utf16_order::none) return more_(text_);
  const bool more = more_(raw_);
  decode();
  if (!more && !raw_.empty()) fail(half_of_one);
  return more;
}

/// The next line, if its end is in `text_`.
std::optional<std::string_view> text_lines::cut() {
  if (!newline_ || *newline_ < begin_) {
    const std::size_t found = text_.find('\n', std::max(begin_, searched_));
    newline_ = found == std::string::npos ? std::nullopt : std::optional(found);
    searched_ = newline_ ? found + 1 : text_.size();
  }
  const std::string_view rest = std::string_view(text_).substr(begin_);
  const std::size_t most = newline_ ? *newline_ - begin_ : rest.size();
  const std::size_t size = std::min(rest.substr(0, most).find('\r'), most);
  const bool at_return = size < most;
  if (at_return ? size + 1 == rest.size() && !finished_ : !newline_ && !finished_) return std::nullopt;
  if (size > longest) fail(fmt::format("expected at most {} bytes, found a longer line", longest));
  const std::size_t end = size + (at_return && size + 1 < rest.size() && rest[size + 1] == '\n' ? 2 : 1);
  begin_ += std::min(end, rest.size());
  return rest.substr(0, size);
}

std::string_view text_lines::in_utf8(std::string_view line) {
  if (line.find('\0') != std::string_view::npos)
    throw_malformed(file_, number(), "expected text, found a character 0");
  const auto beyond_ascii = [](char c) { return static_cast<unsigned char>(c) >= 0x80; };
  if (std::ranges::none_of(line, beyond_ascii)) return line;
  if (order_ != utf16_order::none || is_utf8(line)) {
    ++utf8_lines_;
    return line;
  }
  ++windows_lines_;
  converted_.clear();
  for (const char c : line) {
    const auto byte = static_cast<unsigned char>(c);
    append_character(converted_, byte >= 0x80 && byte < 0xa0 ? windows_1252[byte - 0x80] : byte);
  }
  return converted_;
}

std::optional<std::string_view> text_lines::next() {
  while (true) {
    if (begin_ < text_.size())
      if (const auto line = cut()) {
        ++number_;
        return in_utf8(*line);
      }
    if (text_.size() - begin_ > 2 * longest) // the line that goes on
      fail(fmt::format("expected at most {} bytes, found a longer line", longest));
    if (finished_) return std::nullopt;
    finished_ = !refill();
  }
}

std::string beginning_in_utf8(std::string_view text) {
  std::string decoded(text);
  if (const utf16_order order = order_of(text); order != utf16_order::none) {
    std::string raw = std::exchange(decoded, {});
    move_utf16(raw, order == utf16_order::big, decoded);
  }
  return decoded.starts_with(byte_order_mark) ? decoded.substr(byte_order_mark.size()) : decoded;
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
  const auto refuse = [this](std::string_view found) {
    throw_malformed(file(), first_,
                    fmt::format("expected double quotes around the whole of a field, found {}", found));
  };
  csv_fields::record found = splitter_.add(line);
  for (std::size_t size = line.size(); found == csv_fields::record::open;) {
    const auto next = lines_.next();
    if (!next) refuse("some that are open to the end");
    if ((size += next->size()) > text_lines::longest) refuse("some that are open for too many lines");
    found = splitter_.add(*next);
  }
  if (found == csv_fields::record::misplaced) refuse("text behind them");
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
