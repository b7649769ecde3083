#include <mailgrad/data/files.hpp>
#include <mailgrad/data/formats/csv_survey.hpp>
#include <mailgrad/options/number.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

namespace mailgrad {

namespace fs = std::filesystem;

namespace {

bool digit(char c) { return c >= '0' && c <= '9'; }
std::size_t digits_in_front(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::find_if_not(text, digit) - text.begin());
}

/// "Mar 1, 2020", "1 March 2020".
bool has_month_and_year(std::string_view field) {
  constexpr std::array<std::string_view, 12> months{"jan", "feb", "mar", "apr", "may", "jun",
                                                    "jul", "aug", "sep", "oct", "nov", "dec"};
  const std::string small = in_small_letters(field);
  const std::string_view words = small;
  const std::size_t begin = std::min(words.find_first_not_of("0123456789. "), words.size());
  if (std::ranges::none_of(months, [&](auto m) { return words.substr(begin).starts_with(m); })) return false;
  const std::size_t blank = words.rfind(' ');
  return blank != std::string_view::npos && blank > begin && words.size() - blank == 5 &&
         std::ranges::all_of(words.substr(blank + 1), digit);
}

/// "2020-01".
bool is_year_and_month(std::string_view field) {
  return field.size() == 7 && field[4] == '-' && digits_in_front(field) == 4 &&
         std::ranges::all_of(field.substr(5), digit) && field.substr(5) >= "01" && field.substr(5) <= "12";
}

/// "1/2/2020", "31.12.99", "2020-01-31 10:00", "1-Jan-2020", "12:30", "1:30 PM", "2020-01", "Mar 1, 2020".
bool is_like_date(std::string_view field) {
  if (has_month_and_year(field) || is_year_and_month(field)) return true;
  const std::size_t first = digits_in_front(field);
  if (first == 0 || first > 4 || first == 3 || first == field.size()) return false;
  const char sign = field[first];
  std::string_view rest = field.substr(first + 1);
  const std::size_t second = digits_in_front(rest);
  if (sign == ':') return second == 2 && first <= 2 && (rest.size() == 2 || rest[2] == ':' || rest[2] == ' ');
  if (sign != '/' && sign != '-' && sign != '.') return false;
  const std::size_t middle = second > 0 ? second : std::min(rest.find(sign), rest.size());
  if (second > 2 || middle == 0 || middle > 3 || middle == rest.size() || rest[middle] != sign) return false;
  rest.remove_prefix(middle + 1);
  const std::size_t third = digits_in_front(rest);
  if (third == 0 || third == 3 || third > 4) return false;
  return third == rest.size() || rest[third] == ' ' || rest[third] == 'T';
}

/// "0x1f", "1.5D+02": programs of other languages write such numbers.
bool is_number_elsewhere(std::string_view field) {
  const std::string small = in_small_letters(field);
  if (small.starts_with("0x"))
    return small.size() > 2 && small.find_first_not_of("0123456789abcdef", 2) == std::string::npos;
  std::string with_e = small;
  std::ranges::replace(with_e, 'd', 'e');
  return std::ranges::count(small, 'd') == 1 && digit(small.front()) && readings_of(with_e).any();
}

/// Takes a unit away: "5.5kg" and "5 kg" have one, and "A5" and "5a" none.
std::string_view without_unit(std::string_view field) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const std::size_t size = field.size();
  std::size_t unit = 0;
  while (unit < size && letter(field[size - 1 - unit])) ++unit;
  const std::string_view number = field.substr(0, size - unit);
  const bool is_clear = number.find('.') != std::string_view::npos || number.ends_with(' ');
  return unit > 0 && unit <= 3 && is_clear ? number : field;
}

/// "12 %", "$5", "(12.5)", "12,34,567", "5.00-", "<0.50", "CHF 5.50": somebody means a number.
bool is_like_number(std::string_view field) {
  constexpr std::array<std::string_view, 15> marks{
      "$",        "%",       "(", ")", "<", ">", "~", "=", "-", "USD", "EUR", "CHF", "\xe2\x82\xac",
      "\xc2\xa3", "\xc2\xa5"};
  if (is_number_elsewhere(field)) return true;
  field = without_unit(field);
  for (bool found = true; found && !field.empty();) {
    found = false;
    for (const std::string_view mark : marks) {
      const bool in_front = field.starts_with(mark);
      if (!in_front && !field.ends_with(mark)) continue;
      in_front ? field.remove_prefix(mark.size()) : field.remove_suffix(mark.size());
      found = true;
    }
    while (field.starts_with(' ')) field.remove_prefix(1);
    while (field.ends_with(' ')) field.remove_suffix(1);
  }
  if (field.starts_with('+')) field.remove_prefix(1);
  return std::ranges::any_of(field, digit) &&
         std::ranges::all_of(field, [](char c) { return digit(c) || c == '.' || c == ',' || c == ' '; });
}

bool has_leading_zero(std::string_view field) {
  if (field.starts_with('-') || field.starts_with('+')) field.remove_prefix(1);
  return field.size() > 1 && field[0] == '0' && digit(field[1]);
}

/// "192.168.100.101" has four.
std::size_t groups_of_digits(std::string_view field) {
  std::size_t groups = 0;
  for (std::size_t i = 0; i < field.size(); ++i)
    groups += digit(field[i]) && (i == 0 || !digit(field[i - 1]));
  return groups;
}

constexpr double widest_exact_float = 16777216; ///< up to there each whole number is one of 32 bits

bool has_fraction(const std::optional<double>& number) { return number && *number != std::floor(*number); }

using texts = std::vector<std::string>;
constexpr std::size_t shown_lines = 100;
constexpr std::size_t enough_rows = 10; ///< to tell that something is no chance

bool is_digits(std::string_view field) {
  return !field.empty() && field.find_first_not_of("0123456789") == std::string_view::npos;
}
bool are_all_different(const texts& line) {
  return std::set<std::string>(line.begin(), line.end()).size() == line.size();
}
bool is_called_label(std::string_view name) { return name == "label" || name == "class" || name == "target"; }

/// "Na" is the name of an element rather than a missing value.
bool is_missing_word(std::string_view field) { return !field.empty() && field != "Na" && is_missing(field); }

/// "'a', 'b' and 5 more"
std::string some_of(const texts& all) {
  constexpr std::size_t most = 6;
  std::string text;
  for (std::size_t i = 0; i < std::min(most, all.size()); ++i) text += (i == 0 ? "" : ", ") + all[i];
  return text + (all.size() > most ? fmt::format(" and {} more", all.size() - most) : "");
}

texts quoted(const texts& all) {
  texts some;
  for (const std::string& each : all) some.push_back(in_quotes(each));
  return some;
}

/// The decimal sign of most numbers of some column, unless columns differ; 0: none shows it.
struct usual_sign {
  char sign = 0;
  bool any_comma = false; ///< whether some number has a comma that is no thousand's
};

/// What the first record looks like beside the rows below it.
struct first_fields {
  std::size_t numbers = 0;
  bool whole = true;  ///< all its numbers are
  bool rises = true;  ///< its numbers are whole and rise
  bool unlike = true; ///< each of its numbers is beyond those of its column
  bool has_missing = false;
  bool has_names = false;
  bool over_numbers = false; ///< a name stands over a column of numbers
  bool over_whole = false;   ///< a name stands over one of whole numbers
  bool repeats = false;      ///< a name stands below in its column
  bool names_label = false;
};

class csv_surveyor {
public:
  csv_surveyor(const fs::path& file, const csv_options& options) : file_(file), options_(options) {
    found_.layout = options;
  }

  csv_survey survey() {
    find_form();
    read();
    csv_options& layout = found_.layout;
    found_.header_is_record = first_is_header();
    if (found_.header_is_record) {
      if (!copies_.empty()) throw_malformed(file_, copies_[0], "expected a row, found the header again");
      names_ = first_;
      layout.header = csv_header::present;
    } else {
      add_first();
      layout.header = csv_header::absent;
      take_comment_as_header();
    }
    if (found_.rows == 0) fail("expected rows after the header, found the end");
    if (knows_columns()) {
      found_.label_why = "as in training";
      std::string why = wrong_name(layout.table, without_label(names_));
      if (why.empty() && !names_.empty() && options_.answers == csv_answers::needed)
        why = wrong_name(layout.table.label_name, names_[layout.table.label]);
      if (!why.empty()) fail(why);
    } else {
      find_label();
      list_columns();
    }
    find_signs();
    if (!knows_columns()) remark_columns();
    const std::size_t label = layout.table.label;
    found_.label = std::move(facts_[label]);
    if (!names_.empty()) found_.label_name = names_[label];
    return std::move(found_);
  }

private:
  [[noreturn]] void fail(std::string_view why) const { throw_malformed(file_, first_line_, why); }
  bool knows_columns() const { return !options_.table.columns.empty(); }

  void find_form() {
    text_lines lines(file_);
    texts head;
    char delimiter = options_.delimiter;
    while (head.size() < shown_lines) {
      const auto line = lines.next();
      if (!line) break;
      if (const char stated = lines.number().value == 1 ? stated_delimiter(*line) : '\0'; stated == 0)
        head.emplace_back(*line);
      else if (delimiter == 0)
        delimiter = stated;
    }
    found_.form =
        csv_form_of(head, delimiter, knows_columns() ? options_.table.columns.size() + 1 : options_.columns);
    if (knows_columns() && begins_with_hashes(options_.table.columns.front())) found_.form.comments = false;
    found_.layout.delimiter = found_.form.delimiter;
  }

  void read() {
    csv_records records(text_lines(file_), found_.form);
    if (!records.next()) throw_malformed(file_, "expected rows of numbers, found an empty file");
    first_.assign(records.fields().begin(), records.fields().end());
    first_line_ = records.number();
    comment_ = records.comment_before();
    std::size_t& columns = found_.layout.columns;
    if (knows_columns()) columns = options_.table.columns.size() + 1;
    if (columns == 0) columns = first_.size();
    if (columns < 2)
      fail(fmt::format("expected a label and numbers between commas, found {}", in_quotes(first_[0])));
    const auto require_columns = [&] {
      if (const std::size_t found = records.fields().size(); found != columns)
        throw_malformed(file_, records.number(),
                        fmt::format("expected {} columns, found {}", columns, found));
    };
    require_columns();
    facts_.resize(columns);
    repeats_.resize(columns);
    count_candidates();
    while (records.next()) {
      require_columns();
      const auto& fields = records.fields();
      ++found_.rows;
      if (std::ranges::equal(fields, first_)) {
        copies_.push_back(records.number());
        continue;
      }
      for (std::size_t i = 0; i < columns; ++i) {
        facts_[i].add(fields[i]);
        if (!repeats_[i] && fields[i] == first_[i]) repeats_[i] = true;
      }
    }
    found_.encoding = records.encoding();
    if (found_.encoding == "UTF-8 and Windows-1252")
      remark("some lines are UTF-8 and others are not, which are read as Windows-1252");
  }

  /// Counts the different values of all columns that may turn out to hold the label.
  void count_candidates() {
    const std::size_t columns = facts_.size();
    for (const std::size_t i : {std::size_t{0}, columns - 2, columns - 1}) facts_[i].count_different();
    if (knows_columns()) return;
    for (std::size_t i = 0; i < columns; ++i)
      if (is_called_label(in_small_letters(first_[i])) || first_[i] == options_.label_column ||
          !comment_.empty())
        facts_[i].count_different(); // a comment may turn out to name the columns
    if (const auto number = parse_whole(options_.label_column); number && *number >= 1 && *number <= columns)
      facts_[static_cast<std::size_t>(*number - 1)].count_different();
  }
  bool first_is_header() {
    if (options_.header != csv_header::automatic) return options_.header == csv_header::present;
    if (knows_columns()) return are_names(options_.table, without_label(first_));
    return has_a_name_asked_for() || looks_like_header();
  }
  /// Whether somebody asks for a column by a name that the first record has.
  bool has_a_name_asked_for() const {
    const auto has = [&](const std::string& name) {
      return !name.empty() && !parse_whole(name) && std::ranges::find(first_, name) != first_.end();
    };
    return (options_.label == csv_label::named && has(options_.label_column)) ||
           std::ranges::any_of(options_.categories, has) || std::ranges::any_of(options_.left_out, has);
  }

  first_fields first_looks() const {
    first_fields f;
    double last = -1;
    for (std::size_t i = 0; i < first_.size(); ++i) {
      const std::string& field = first_[i];
      const column_facts& below = facts_[i];
      if (const number_readings r = readings_of(field); r.any()) {
        ++f.numbers;
        const double value = r.by_point.value_or(last);
        f.whole = f.whole && is_digits(field);
        f.rises = f.rises && is_digits(field) && value > last;
        f.unlike = f.unlike && below.numbers > 0 && (value < below.least || value > below.greatest);
        last = value;
      } else if (is_missing_word(field) || is_word_for_nothing(field)) {
        f.has_missing = true;
      } else if (!field.empty()) {
        const bool over_numbers = below.numbers > 0 && below.words == 0;
        f.has_names = true;
        f.repeats = f.repeats || repeats_[i];
        f.over_numbers = f.over_numbers || over_numbers;
        f.over_whole = f.over_whole || (over_numbers && below.all_whole());
        f.names_label =
            f.names_label || is_called_label(in_small_letters(field)) || in_small_letters(field) == "y";
      }
    }
    return f;
  }

  /// Decides by the rows below whether the first record names the columns.
  bool looks_like_header() {
    const first_fields f = first_looks();
    const auto remark_first = [this](std::string_view taken, std::string_view otherwise) {
      remark(fmt::format(
          "the first line, {}, is taken for {}; --header {} (csv_options::header) takes it for {}",
          some_of(quoted(first_)), taken, taken == "a row" ? "yes" : "no", otherwise));
    };
    if (f.repeats) return false;
    const bool names = !f.has_missing && f.has_names && are_all_different(first_);
    if (f.numbers == 0 && !copies_.empty() && !f.over_numbers && names)
      remark(fmt::format("line {} repeats the first line, which is taken for a row; --header yes "
                         "(csv_options::header) takes it for a header",
                         copies_[0].value));
    if (f.numbers == 0) return f.over_numbers || (names && copies_.empty());
    std::size_t numbers = 0;
    const bool counts = counts_columns(numbers);
    const bool is_header =
        !f.has_missing &&
        ((f.over_numbers && f.rises) || (f.over_whole && f.whole) ||
         (f.has_names && f.numbers >= 3 && f.rises && f.unlike) ||
         (counts && f.has_names && (f.names_label || numbers >= 3)) ||
         (counts && !f.has_names && first_.size() >= 4 && (first_[0] == "0" || first_[0].empty())));
    if (is_header)
      remark_first("a header", "a row");
    else if (counts && numbers >= 2 && !f.has_missing &&
             (f.has_names || first_.size() >= 4 || first_[0] == "0"))
      remark_first("a row", "a header");
    return is_header;
  }
  /// The first record is a row, and those that are like it are rows as well.
  void add_first() {
    ++found_.rows;
    for (std::size_t i = 0; i < first_.size(); ++i) {
      for (std::size_t n = 0; n < copies_.size(); ++n) facts_[i].add(first_[i]);
      facts_[i].add_in_front(first_[i]);
    }
  }

  /// Whether the numbers of the first record count its columns from 0 or 1, as libraries name columns. An
  /// empty field in front is the name of the column of row numbers, and is not counted.
  bool counts_columns(std::size_t& numbers) const {
    std::optional<std::ptrdiff_t> base;
    for (std::size_t i = 0; i < first_.size(); ++i) {
      if (!readings_of(first_[i]).any()) continue;
      const auto number = parse_whole(first_[i]);
      if (!number || !is_digits(first_[i]) || *number > first_.size()) return false;
      const auto from = static_cast<std::ptrdiff_t>(*number) - static_cast<std::ptrdiff_t>(i);
      if (base && *base != from) return false;
      base = from;
      ++numbers;
    }
    return base && *base >= (first_[0].empty() ? -1 : 0) && *base <= 1;
  }

  /// Some programs write the names of columns as a comment.
  void take_comment_as_header() {
    if (comment_.empty() || knows_columns() || options_.header == csv_header::absent) return;
    csv_fields splitter(found_.form.delimiter);
    if (splitter.add(comment_) != csv_fields::record::whole) return;
    std::vector<std::string_view> fields;
    splitter.list(fields);
    texts names(fields.begin(), fields.end());
    if (names.size() != first_.size()) return;
    if (std::ranges::any_of(names, is_no_name))
      return remark(
          fmt::format("the line above the first row, {}, begins with '#', so it is passed over, but has as "
                      "many fields as a row",
                      in_quotes('#' + comment_)));
    if (!are_all_different(names)) return;
    names_ = std::move(names);
  }

  /// The number, from 0, of the column of that name or number. `option` stands in messages.
  std::size_t column_asked_for(std::string_view name, std::string_view option) const {
    const auto called = std::ranges::count(names_, name);
    if (called == 1) return static_cast<std::size_t>(std::ranges::find(names_, name) - names_.begin());
    if (called > 1)
      fail(fmt::format("expected one column called {} for {}, found {}; number the columns from 1",
                       in_quotes(name), option, called));
    if (const auto number = parse_whole(name)) {
      if (*number >= 1 && *number <= facts_.size()) return static_cast<std::size_t>(*number - 1);
      fail(fmt::format("expected a column {} for {}, found {} columns", *number, option, facts_.size()));
    }
    if (names_.empty())
      fail(fmt::format("expected a header with a column {} for {}, found none; number the columns "
                       "from 1, or say --header yes (csv_options::header)",
                       in_quotes(name), option));
    fail(fmt::format("expected a column called {} for {}, found {}", in_quotes(name), option,
                     some_of(quoted(names_))));
  }

  void find_label() {
    const auto take = [this](std::size_t column, std::string_view why) {
      found_.layout.table.label = column;
      found_.label_why = why;
    };
    const std::size_t last = last_used();
    if (options_.label == csv_label::named)
      return take(column_asked_for(options_.label_column, "--label (csv_options::label_column)"),
                  "--label says so");
    if (options_.label != csv_label::automatic)
      return take(options_.label == csv_label::first ? 0 : last, "--label says so");
    if (const auto named = label_by_name()) return take(*named, "its name says so");
    const column_facts& front = facts_.front();
    const bool tells_rows_apart = front.different() == found_.rows && found_.rows >= enough_rows;
    if (front.words > front.numbers && facts_[last].holds_numbers() && !tells_rows_apart) {
      take(0, "the first column holds words, and the last holds numbers");
      remark_other_label(last, true);
    } else {
      take(last, "the last column, by default");
      remark_other_label(0, false);
    }
  }

  std::optional<std::size_t> label_by_name() {
    texts called;
    std::optional<std::size_t> found;
    for (std::size_t i = 0; i < names_.size(); ++i) {
      const std::string name = in_small_letters(names_[i]);
      const bool at_end = i == 0 || i == last_used();
      if (!is_called_label(name) && !(name == "y" && at_end)) continue;
      called.push_back(in_quotes(names_[i]));
      if (!found) found = i;
    }
    if (called.size() > 1)
      remark(
          fmt::format("{} may each be the label, and {} is taken; --label (csv_options::label) names another",
                      some_of(called), called[0]));
    return found;
  }
  /// The last column with a value: some programs end each line with a delimiter.
  std::size_t last_used() const {
    std::size_t last = facts_.size() - 1;
    while (last > 1 && facts_[last].values() == 0 && (names_.empty() || names_[last].empty())) --last;
    return last;
  }

  /// Says so if column `other` is as good a label as the one taken, at the other end of the rows.
  void remark_other_label(std::size_t other, bool by_words) {
    const column_facts& f = facts_[other];
    const column_facts& taken = facts_[found_.layout.table.label];
    const bool few_values = f.different() >= 2 && f.different() <= 10 && found_.rows >= 5 * f.different();
    const bool is_whole = f.all_whole();
    const bool as_good = by_words              ? few_values && is_whole && !names_.empty()
                         : f.words > f.numbers ? few_values && taken.words > taken.numbers
                                               : few_values && is_whole && taken.different() == 1;
    if (as_good)
      remark(fmt::format(
          "the label is column {} here, but may be column {} as well; --label {} (csv_options::label) "
          "takes that",
          name_of(found_.layout.table.label), name_of(other), other == 0 ? "first" : "last"));
  }

  /// Lists the columns but that of the label, with their kinds as far as these are certain. A column without
  /// a name and a value is nothing but a delimiter at the end of each line.
  void list_columns() {
    table_layout& table = found_.layout.table;
    table.missing = options_.missing;
    if (!names_.empty()) table.label_name = names_[table.label];
    const std::size_t last = last_used();
    for (std::size_t column = 0; column < facts_.size(); ++column) {
      if (column == table.label) continue;
      table_column c{names_.empty() ? "" : names_[column]};
      if (facts_[column].holds_numbers()) c.kind = column_kind::number;
      if (column > last) c.kind = column_kind::left_out;
      table.columns.push_back(std::move(c));
    }
    state_kinds();
    for (std::size_t column = 0; column <= last; ++column)
      if (column != table.label && facts_[column].values() == 0 &&
          feature(column, "").kind != column_kind::left_out)
        throw_malformed(file_,
                        fmt::format("expected a value in column {}, found none in any row; --leave-out {} "
                                    "(csv_options::left_out) leaves it out",
                                    name_of(column),
                                    names_.empty() || names_[column].empty() ? fmt::format("{}", column + 1)
                                                                             : names_[column]));
  }
  /// The column as a number among the features.
  table_column& feature(std::size_t column, std::string_view option) {
    table_layout& table = found_.layout.table;
    if (column == table.label)
      fail(fmt::format("column {} holds the label, and is asked for as {}", column + 1, option));
    return table.columns[column - (column > table.label ? 1 : 0)];
  }

  void state_kinds() {
    constexpr std::string_view categories = "--categories (csv_options::categories)";
    constexpr std::string_view left_out = "--leave-out (csv_options::left_out)";
    for (const std::string& name : options_.categories)
      feature(column_asked_for(name, categories), categories).kind = column_kind::category;
    for (const std::string& name : options_.left_out)
      feature(column_asked_for(name, left_out), left_out).kind = column_kind::left_out;
    const std::vector<table_column>& columns = found_.layout.table.columns;
    if (std::ranges::all_of(columns, [](const table_column& c) { return c.kind == column_kind::left_out; }))
      fail("expected a column to learn from, found none that is not left out");
  }
  std::vector<std::string_view> without_label(const texts& line) const {
    std::vector<std::string_view> some(line.begin(), line.end());
    const std::size_t label = found_.layout.table.label;
    if (label < some.size()) some.erase(some.begin() + static_cast<std::ptrdiff_t>(label));
    return some;
  }

  void find_signs() {
    table_layout& table = found_.layout.table;
    const auto used = [&](std::size_t column) {
      if (column == table.label)
        return facts_[column].holds_numbers() && options_.answers == csv_answers::needed;
      const column_kind kind = table.columns[column - (column > table.label ? 1 : 0)].kind;
      return kind == column_kind::number || (kind == column_kind::unknown && facts_[column].holds_numbers());
    };
    usual_sign usual;
    bool by_point = false, by_comma = false;
    for (std::size_t i = 0; i < facts_.size(); ++i) {
      if (!used(i)) continue;
      const column_facts& f = facts_[i];
      by_point = by_point || 2 * f.point_alone > f.numbers; // one field may be a slip, or a list
      by_comma = by_comma || 2 * f.comma_alone > f.numbers;
      usual.any_comma = usual.any_comma || f.comma_alone > 0;
    }
    if (by_point != by_comma) usual.sign = by_comma ? ',' : '.';
    for (std::size_t i = 0; i < facts_.size(); ++i) {
      if (!used(i)) continue;
      number_signs& signs =
          i == table.label ? table.label_signs : table.columns[i - (i > table.label ? 1 : 0)].signs;
      signs = signs_of(i, signs, usual);
    }
  }

  /// How the numbers of a column are written: as somebody says, as its own fields show, as in training, or as
  /// usual in the file.
  number_signs signs_of(std::size_t column, number_signs known, usual_sign usual) {
    const column_facts& f = facts_[column];
    if (options_.decimal == 0 && f.point_alone > 0 && f.comma_alone > 0)
      throw_malformed(
          file_, fmt::format(
                     "expected one decimal sign in column {}, found {} and {}; --categories takes "
                     "them for words, and --decimal (csv_options::decimal) says which sign begins a fraction",
                     name_of(column), in_quotes(f.by_point), in_quotes(f.by_comma)));
    const char shown = options_.decimal != 0 ? options_.decimal
                       : f.point_alone > 0   ? '.'
                       : f.comma_alone > 0   ? ','
                                             : '\0';
    if (shown == 0 && knows_columns()) return known;
    const char likely = f.comma_by_either.empty() || found_.layout.delimiter == ',' ? '.' : ',';
    const char decimal = shown != 0 ? shown : usual.sign != 0 ? usual.sign : likely;
    if (shown == 0) remark_ambiguous(column, decimal, usual);
    return {decimal, (decimal == '.' ? f.with_comma : f.with_point) > 0 ||
                         (decimal == known.decimal && known.grouped)};
  }

  /// Says so if a field may be two numbers. A comma is either sign where no column shows one; a point is a
  /// decimal sign, unless the file has decimal commas.
  void remark_ambiguous(std::size_t column, char decimal, usual_sign usual) {
    const column_facts& f = facts_[column];
    const bool by_comma = usual.sign == 0 && !f.comma_by_either.empty();
    const std::string& field = by_comma ? f.comma_by_either : f.point_by_either;
    if (field.empty() || (!by_comma && (usual.sign == '.' || !usual.any_comma))) return;
    remark(texts{name_of(column)},
           fmt::format("{} is read as {}, but may have {}; --decimal (csv_options::decimal) says which sign "
                       "begins a fraction",
                       in_quotes(field), *spelled_number(field, {decimal, true}),
                       field.find(decimal) != std::string::npos ? "thousands" : "a fraction"));
  }

  void remark_lists(std::size_t column) {
    const column_facts& f = facts_[column];
    const bool by_blanks = f.numbers > 1 && f.blank_grouped == f.numbers;
    const bool by_commas =
        found_.layout.delimiter == ',' && options_.decimal == 0 && 2 * f.comma_alone > f.numbers;
    const std::string& field = !f.many_groups.empty() ? f.many_groups : by_blanks ? f.by_blank : f.by_comma;
    if (f.many_groups.empty() && !by_blanks && !by_commas) return;
    remark(texts{name_of(column)},
           fmt::format("{} is read as one number, but may be {}; {}", in_quotes(field),
                       by_blanks ? "several" : "a list",
                       by_blanks ? "--delimiter ' ' (csv_options::delimiter) splits them"
                                 : "--categories (csv_options::categories) takes it for a word"));
  }
  /// Says so if the first column has no name, and another whole number in each row, in any order: pandas
  /// writes its index so.
  void remark_index() {
    const column_facts& f = facts_.front();
    const bool is_index = !names_.empty() && names_[0].empty() && f.words == 0 && f.numbers >= enough_rows &&
                          f.all_whole() && f.different() == f.numbers;
    if (is_index && !f.counts_rows() && found_.layout.table.label != 0 &&
        found_.layout.table.columns[0].kind != column_kind::left_out)
      remark(texts{"1"}, "has no name, and another whole number in each row, as an index has; --leave-out "
                         "(csv_options::left_out) leaves it out");
  }

  void remark_columns() {
    const table_layout& table = found_.layout.table;
    texts like_numbers, dates, names, counts, merged, with_nothing;
    std::string number, date, nothing;
    for (std::size_t i = 0; i < table.columns.size(); ++i) {
      const std::size_t column = i + (i >= table.label ? 1 : 0);
      const column_facts& f = facts_[column];
      if (table.columns[i].kind == column_kind::left_out) continue;
      if (f.holds_numbers()) {
        if (f.numbers >= enough_rows && f.counts_rows()) counts.push_back(name_of(column));
        if (f.merges_as_float()) merged.push_back(name_of(column));
        remark_lists(column);
        continue;
      }
      if (f.for_nothing > 0 && with_nothing.empty()) nothing = in_quotes(f.nothing);
      if (f.for_nothing > 0) with_nothing.push_back(name_of(column));
      if (2 * f.like_numbers > f.words && like_numbers.empty()) number = in_quotes(f.word);
      if (2 * f.dates > f.words && dates.empty()) date = in_quotes(f.word);
      if (2 * f.like_numbers > f.words)
        like_numbers.push_back(name_of(column));
      else if (2 * f.dates > f.words)
        dates.push_back(name_of(column));
      else if (f.words >= enough_rows && f.different() == f.values())
        names.push_back(name_of(column));
    }
    remark(like_numbers,
           fmt::format("words that look like numbers, such as {}; each becomes an input", number));
    remark(dates,
           fmt::format("words that look like dates or times, such as {}; each becomes an input", date));
    remark(with_nothing,
           fmt::format("{} is a category like others; leave the field empty if it means no value", nothing));
    remark(names, "another word in each row; --leave-out (csv_options::left_out) leaves it out");
    remark(counts, "numbers that count the rows; --leave-out (csv_options::left_out) leaves it out");
    remark_index();
    remark(merged, "different values become one, since numbers are 32 bits");
  }
  std::string name_of(std::size_t column) const {
    return names_.empty() || names_[column].empty() ? fmt::format("{}", column + 1)
                                                    : in_quotes(names_[column]);
  }
  void remark(std::string_view words) {
    found_.remarks.push_back(fmt::format("{}: {}", file_.filename().string(), words));
  }
  void remark(const texts& columns, std::string_view words) {
    if (!columns.empty())
      remark(fmt::format("{} {}: {}", columns.size() == 1 ? "column" : "columns", some_of(columns), words));
  }

  const fs::path& file_;
  const csv_options& options_;
  csv_survey found_;
  texts first_; ///< the fields of the first record
  file_line first_line_{};
  std::string comment_; ///< before that
  texts names_;         ///< in the header; empty if there is none
  std::vector<column_facts> facts_;
  std::vector<bool> repeats_;     ///< by column: the field of the first record is that of another one, too
  std::vector<file_line> copies_; ///< records with all fields of the first one, which `facts_` lack at first
};

struct likely_task {
  label_kind holds;
  std::string why;
  bool certain = true;
};

constexpr std::size_t few_classes = 20, many_classes = 100;

likely_task task_of_whole_numbers(const column_facts& f) {
  const std::size_t different = f.different();
  const bool counts_classes =
      (f.least == 0 || f.least == 1) && f.greatest - f.least + 1 == static_cast<double>(different);
  const bool often = f.values() >= (different > many_classes ? 10 : 5) * different;
  if (different <= few_classes)
    return {label_kind::classes, fmt::format("the label has {} whole numbers", different)};
  if (often && (different <= many_classes || counts_classes))
    return {label_kind::classes, fmt::format("the label has {} whole numbers, each several times", different),
            false};
  return {label_kind::numbers, fmt::format("the label has {} different whole numbers", different), false};
}

likely_task task_of(const column_facts& f, number_signs signs) {
  constexpr std::size_t slips = 20; // of so many labels one may be a slip
  if (slips * f.words >= f.values()) return {label_kind::classes, "the label holds words"};
  const std::size_t fractions = f.fractions(signs.decimal);
  if (slips * fractions >= f.values() && fractions > 0)
    return {label_kind::numbers, "the label has fractions"};
  if (f.codes > 0) return {label_kind::classes, "the label holds codes, such as 007"};
  return task_of_whole_numbers(f);
}

} // namespace

bool is_word_for_nothing(std::string_view field) {
  constexpr std::array<std::string_view, 16> words{"none",    "\\n",    "nat",   "nil",     "-",     "--",
                                                   ".",       "..",     "n.a.",  "#div/0!", "#ref!", "#name?",
                                                   "#value!", "#null!", "#num!", "missing"};
  return std::ranges::find(words, in_small_letters(field)) != words.end();
}

void column_facts::add(std::string_view field) {
  if (is_missing(field)) {
    ++missing;
    return;
  }
  const number_readings r = readings_of(field);
  if (r.any())
    add_number(field, r);
  else
    add_word(field);
  const std::size_t most = 1 + (counted_ ? label_map::most_classes : field_numbers::most_categories);
  if ((counted_ || !r.any()) && different_.size() < most)
    different_.insert(std::hash<std::string_view>()(field));
}

void column_facts::add_in_front(std::string_view field) {
  const bool had_numbers = numbers > 0, counted_up = counts_up_;
  const double first = first_, last = last_;
  add(field);
  const double value = last_; // of the field, if it is a number
  if (had_numbers) counts_up_ = counted_up && (value == last || value + 1 == first);
  if (had_numbers) last_ = last;
}

void column_facts::add_word(std::string_view field) {
  if (words++ == 0) word = field;
  if (is_word_for_nothing(field) && for_nothing++ == 0) nothing = field;
  if (is_like_date(field))
    ++dates;
  else if (is_like_number(field))
    ++like_numbers;
}

void column_facts::add_number(std::string_view field, const number_readings& r) {
  const double value = r.by_point ? *r.by_point : *r.by_comma;
  if (numbers > 0 && value != last_ + 1) counts_up_ = false;
  if (numbers == 0) first_ = value;
  least = numbers == 0 ? value : std::min(least, value);
  greatest = numbers == 0 ? value : std::max(greatest, value);
  last_ = value;
  ++numbers;
  if (!merges_ && std::abs(value) > widest_exact_float) note_wide(field, value);
  point_fractions_ += has_fraction(r.by_point) ? 1 : 0;
  comma_fractions_ += has_fraction(r.by_comma) ? 1 : 0;
  const bool comma = field.find(',') != std::string_view::npos;
  const bool point = field.find('.') != std::string_view::npos;
  const bool blank = field.find(' ') != std::string_view::npos;
  if (blank && !comma && !point && blank_grouped++ == 0) by_blank = field;
  if (many_groups.empty() && comma + point + blank == 1 && groups_of_digits(field) > 3) many_groups = field;
  with_comma += comma ? 1 : 0;
  with_point += point ? 1 : 0;
  if (has_leading_zero(field) || (!comma && !point && field.find_first_of("eE") != std::string_view::npos))
    ++codes;
  if (!r.by_comma && point_alone++ == 0) by_point = field;
  if (!r.by_point && comma_alone++ == 0) by_comma = field;
  if (!r.by_point || !r.by_comma || comma == point) return;
  if (std::string& either = comma ? comma_by_either : point_by_either; either.empty()) either = field;
}

void column_facts::note_wide(std::string_view field, double value) {
  constexpr std::size_t most = 65536;
  constexpr double widest_exact_double = 9007199254740992;
  const std::size_t hash = std::abs(value) < widest_exact_double ? std::hash<double>()(value)
                                                                 : std::hash<std::string_view>()(field);
  const auto as_float = static_cast<float>(value);
  if (const auto known = wide_.find(as_float); known != wide_.end())
    merges_ = known->second != hash;
  else if (wide_.size() < most)
    wide_.emplace(as_float, hash);
}

bool column_facts::is_like_clock() const noexcept {
  constexpr double from = 9e8, to = 2.2e9; // from 1998 to 2039
  return numbers > 0 && words == 0 &&
         ((least > from && greatest < to) || (least > 1000 * from && greatest < 1000 * to));
}

csv_survey survey_csv(const fs::path& file, const csv_options& options) {
  return csv_surveyor(file, options).survey();
}

void settle_task(csv_survey& s, const fs::path& file, std::optional<label_kind> asked) {
  const column_facts& f = s.label;
  const likely_task likely = task_of(f, s.layout.table.label_signs);
  s.layout.holds = asked.value_or(likely.holds);
  s.task_why = asked ? "--task says so" : likely.why;
  const std::string column =
      s.label_name.empty() ? fmt::format("{}", s.layout.table.label + 1) : in_quotes(s.label_name);
  const bool guessed = s.layout.label == csv_label::automatic && !asked;
  const auto refuse = [&](std::string_view found) {
    throw_malformed(
        file,
        fmt::format("expected a label, found that column {} {}; --label (csv_options::label) names "
                    "another{}",
                    column, found, f.holds_numbers() ? ", and --task regression predicts this one" : ""));
  };
  const auto remark = [&](const std::string& words) {
    s.remarks.push_back(fmt::format("{}: {}", file.filename().string(), words));
  };
  const auto doubt = [&](const std::string& found) {
    if (guessed) refuse(found);
    remark(fmt::format("the label, column {}, {}", column, found));
  };
  if (s.layout.holds == label_kind::numbers && f.merges_as_float())
    remark(
        fmt::format("the label, column {}: different values become one, since numbers are 32 bits", column));
  const bool each_other = f.values() >= enough_rows && f.different() == f.values();
  if (s.layout.holds == label_kind::classes && each_other)
    refuse(fmt::format("has another value in each of {} rows", f.values()));
  if (2 * f.dates > f.words && f.words >= f.numbers && f.values() > 2)
    doubt(fmt::format("holds dates or times, such as '{}'", f.word));
  else if (f.values() >= enough_rows && f.is_like_clock() && 2 * f.different() > f.values())
    doubt(fmt::format("tells the time in seconds, from {:.0f}", f.least));
  else if (f.values() >= 2 * enough_rows && f.counts_rows())
    doubt(fmt::format("counts the rows, from {}", f.least));
  else if (!asked && !likely.certain)
    remark(s.task_why +
           (likely.holds == label_kind::classes ? ", so they are taken for classes"
                                                : ", so a number is predicted") +
           "; --task (open_options::task) says otherwise");
}

} // namespace mailgrad
