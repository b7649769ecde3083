#pragma once

#include <mailgrad/files/file_error.hpp>

#include <functional>
#include <iosfwd>
#include <optional>
#include <utility>
#include <vector>

namespace mailgrad {

/// The order of the two bytes of UTF-16; `none` for another encoding.
enum class utf16_order : std::uint8_t { none, little, big };

/// The lines of a text, in UTF-8 and without their ends, whatever encoding the text has.
///
/// A byte-order mark tells UTF-16, or else a zero byte among the first two. Of other texts, a line is read as
/// UTF-8 if it is valid UTF-8, and as Windows-1252 if not; Latin-1 is a part of that. So a line is read in
/// the same way wherever it stands. A line ends with "\n", "\r\n" or "\r".
/// Errors  file_error for a line over `longest` bytes, a character 0, half a character of UTF-16, and as
///         byte_source.
/// Threads one caller at a time.
class text_lines {
public:
  static constexpr std::size_t longest = std::size_t{64} << 20;

  /// Reads a file, plain or gzip.
  explicit text_lines(const std::filesystem::path& file);
  /// Reads `in`, which must outlive this, a line at a time. `name` stands in messages.
  text_lines(std::istream& in, std::string name);
  const std::filesystem::path& file() const noexcept { return file_; }
  /// The next line, valid until the next call; nothing at the end.
  std::optional<std::string_view> next();
  /// The number of the line that next() returned last.
  file_line number() const noexcept { return {number_}; }
  /// "UTF-8", "UTF-16 LE", "UTF-16 BE", "Windows-1252", or "UTF-8 and Windows-1252", as far as was read.
  std::string_view encoding() const noexcept {
    if (order_ != utf16_order::none) return order_ == utf16_order::big ? "UTF-16 BE" : "UTF-16 LE";
    if (windows_lines_ == 0) return "UTF-8";
    return utf8_lines_ == 0 ? "Windows-1252" : "UTF-8 and Windows-1252";
  }

private:
  bool refill();
  void begin();
  void decode();
  std::optional<std::string_view> cut();
  std::string_view in_utf8(std::string_view line);
  [[noreturn]] void fail(std::string_view what) const {
    throw_malformed(file_, file_line{number_ + 1}, what);
  }

  std::filesystem::path file_;
  std::function<bool(std::string&)> more_; ///< appends bytes; false at the end
  std::string raw_;                        ///< bytes of UTF-16 that are not decoded yet
  std::string text_;
  std::string converted_;              ///< the line that was returned last, if it was in Windows-1252
  std::size_t begin_ = 0;              ///< of what is not given out yet
  std::size_t searched_ = 0;           ///< before here, no "\n" stands in `text_` that is not known
  std::optional<std::size_t> newline_; ///< the next "\n", once it is known
  utf16_order order_ = utf16_order::none;
  bool begun_ = false;
  bool finished_ = false;
  std::uint64_t number_ = 0;
  std::uint64_t utf8_lines_ = 0;    ///< with characters beyond ASCII
  std::uint64_t windows_lines_ = 0; ///< likewise
};

/// `text` in UTF-8, if a byte-order mark or a zero byte at its beginning says that it is UTF-16; a part of a
/// character at its end is dropped. Otherwise `text` as it is, without a byte-order mark.
std::string beginning_in_utf8(std::string_view text);

/// Splits records of delimited text into fields.
///
/// A field in double quotes may hold the delimiter and ends of lines, and two double quotes in it stand for
/// one. Blanks around a field are dropped. A double quote within a field that does not begin with one is a
/// character like others.
/// Source  RFC 4180. Differs: blanks, and a double quote within a field.
/// Threads one caller at a time.
class csv_fields {
public:
  enum class record : std::uint8_t {
    whole,
    open,      ///< within double quotes: the next line belongs to it
    misplaced, ///< text stands behind the double quotes of a field
  };

  explicit csv_fields(char delimiter) : delimiter_(delimiter) {}
  /// Splits a line, or the next line of a record that is open.
  record add(std::string_view line);
  /// The fields of a record that is whole, valid until the next line is added.
  void list(std::vector<std::string_view>& fields) const {
    fields.clear();
    std::size_t begin = 0;
    for (const std::size_t end : ends_) {
      fields.push_back(std::string_view(text_).substr(begin, end - begin));
      begin = end;
    }
  }

private:
  bool take_quoted(std::string_view& rest);
  /// Takes a field up to its delimiter.
  void take_plain(std::string_view& rest) {
    const std::string_view field = rest.substr(0, rest.find(delimiter_));
    text_ += without_blanks(field);
    rest.remove_prefix(field.size());
  }
  std::string_view without_blanks(std::string_view text) const {
    const auto is_blank = [this](char c) { return (c == ' ' || c == '\t') && c != delimiter_; };
    while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
    while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
    return text;
  }

  char delimiter_;
  bool open_ = false;
  std::string text_;              ///< all fields, one behind the other
  std::vector<std::size_t> ends_; ///< where each field ends in `text_`
};

/// How a table is written.
struct csv_form {
  char delimiter = ',';
  bool comments = true;    ///< a line that begins with '#' may be no record
  std::size_t columns = 0; ///< of each record, if that is known
};

/// Finds out how a table is written by its first lines: the delimiter is the comma, semicolon, tab or bar by
/// which most lines have as many fields as the first one, and most fields are numbers without a blank. Where
/// two are as good, it is the one with more fields, and the comma comes last. Lines that begin with '#' are
/// no comments if there are as many as others, and they have as many fields.
///
/// `delimiter` is 0 if it is not known, as is `columns`.
csv_form csv_form_of(std::span<const std::string> first_lines, char delimiter, std::size_t columns);

/// Reads the records of delimited text, one after the other. Empty lines and comments are passed over, and so
/// is a first line such as "sep=;", by which spreadsheets state the delimiter.
///
/// A line that begins with '#' is a record if it has as many fields as the first record, and at least two:
/// "#DIV/0!,2,b". Where the columns are known before the first record, such a line above it is one as well if
/// a field behind its first is a number; otherwise it may name the columns.
///
/// Errors  file_error: double quotes that are open at the end, or that do not stand around a whole field; and
///         as text_lines.
/// Threads one caller at a time.
class csv_records {
public:
  /// If form.delimiter is 0, the first record shows it.
  csv_records(text_lines lines, csv_form form)
      : lines_(std::move(lines)), form_(form), splitter_(form.delimiter) {}

  /// Reads the next record. False at the end.
  bool next();
  /// Its fields, valid until the next call.
  const std::vector<std::string_view>& fields() const noexcept { return fields_; }
  /// The line it begins with.
  file_line number() const noexcept { return first_; }
  const std::filesystem::path& file() const noexcept { return lines_.file(); }
  std::string_view encoding() const noexcept { return lines_.encoding(); }
  char delimiter() const noexcept { return form_.delimiter; }
  /// The last comment before the first record, without its '#'; empty if there is none.
  const std::string& comment_before() const noexcept { return comment_; }
  /// The comments passed over since then.
  std::size_t comments_below() const noexcept { return comments_below_; }
  /// The first empty line between the last record and the one before.
  std::optional<file_line> empty_before() const noexcept { return empty_; }

private:
  bool passes_over(std::string_view line);
  bool is_row(std::string_view marked) const;
  void settle(std::string_view first_line);
  void split(std::string_view line);

  text_lines lines_;
  csv_form form_;
  csv_fields splitter_;
  std::vector<std::string_view> fields_;
  file_line first_{};
  std::string comment_;
  std::size_t comments_below_ = 0;
  std::optional<file_line> empty_;
  bool any_ = false; ///< records so far
};

/// The delimiter that a first line such as "sep=;" states; 0: it states none.
inline char stated_delimiter(std::string_view first_line) {
  return first_line.size() == 5 && first_line.starts_with("sep=") ? first_line.back() : '\0';
}

} // namespace mailgrad
