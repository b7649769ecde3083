#pragma once

#include <mailgrad/data/formats/csv.hpp>
#include <mailgrad/data/formats/csv_fields.hpp>

#include <unordered_map>
#include <unordered_set>

namespace mailgrad {

/// Whether a word stands for no value in some program: "None", "\N", "NaT", "-", ".", "#VALUE!".
bool is_word_for_nothing(std::string_view field);

/// What the fields of one column are, over the rows of a file.
class column_facts {
public:
  /// Counts different values from now on, up to one more than there may be classes. Those of words are
  /// counted in any case, up to one more than there may be categories.
  void count_different() { counted_ = true; }
  void add(std::string_view field);
  /// Adds the field of the row before all others.
  void add_in_front(std::string_view field);
  std::size_t values() const noexcept { return words + numbers; }
  bool holds_numbers() const noexcept { return numbers > words; }
  /// The different values, where they are counted.
  std::size_t different() const noexcept { return different_.size(); }
  /// Whether each number is one more than that before.
  bool counts_rows() const noexcept { return words == 0 && numbers > 1 && counts_up_; }
  /// The numbers that have a fraction where `decimal` is the decimal sign.
  std::size_t fractions(char decimal) const noexcept {
    return decimal == ',' ? comma_fractions_ : point_fractions_;
  }
  /// Whether no number has a fraction by either decimal sign.
  bool all_whole() const noexcept { return point_fractions_ + comma_fractions_ == 0; }
  /// Whether all numbers are such as clocks of computers tell: seconds or milliseconds since 1970.
  bool is_like_clock() const noexcept;
  /// Whether different numbers beyond 2^24 are the same one in 32 bits.
  bool merges_as_float() const noexcept { return merges_; }

  std::size_t missing = 0;
  std::size_t words = 0;
  std::size_t numbers = 0;       ///< by some decimal sign
  std::size_t codes = 0;         ///< of the numbers: with leading zeros, or whole with an exponent
  std::size_t point_alone = 0;   ///< numbers only where '.' is the decimal sign: "1,234.5"
  std::size_t comma_alone = 0;   ///< numbers only where ',' is
  std::size_t with_comma = 0;    ///< numbers with a ','
  std::size_t with_point = 0;    ///< numbers with a '.'
  std::size_t blank_grouped = 0; ///< numbers with blanks alone between their digits
  std::size_t like_numbers = 0;  ///< of the words: "12 %", "$5"
  std::size_t dates = 0;         ///< of the words: "1/2/2020", "12:30"
  std::size_t for_nothing = 0;   ///< of the words: those that stand for no value in some program
  std::string word{}, by_point{}, by_comma{}, by_blank{}, nothing{}; ///< the first of each
  std::string many_groups{};                        ///< the first number of four or more groups of digits
  std::string comma_by_either{}, point_by_either{}; ///< the first number by both signs: "1,234", "1.234"
  double least = 0, greatest = 0;

private:
  void add_word(std::string_view field);
  void add_number(std::string_view field, const number_readings& r);
  void note_wide(std::string_view field, double value);

  bool counted_ = false;
  std::unordered_set<std::size_t> different_;   ///< the hashes of values
  std::unordered_map<float, std::size_t> wide_; ///< the hash of the first value that became the number
  bool merges_ = false;
  bool counts_up_ = true;
  double first_ = 0, last_ = 0;
  std::size_t point_fractions_ = 0, comma_fractions_ = 0;
};

/// What a first reading of a CSV file has found, so that a second one can make samples of its rows.
struct csv_survey {
  csv_options layout; ///< complete but for the categories of columns of words
  csv_form form;
  bool header_is_record = false; ///< the first record names the columns, and not a comment before it
  std::string encoding;          ///< as text_lines::encoding() tells it
  std::size_t rows = 0;
  column_facts label;                 ///< its column
  std::string label_name;             ///< in the header; empty if there is none
  std::string label_why;              ///< why that column holds the label
  std::string task_why{};             ///< why `layout.holds` is what it is
  std::vector<std::string> remarks{}; ///< what looks like a mistake, a line each
};

/// Reads all of a file, plain or gzip, and finds out how it is written and what its columns hold. What
/// `options` leaves open is decided by the content. If the columns are known, the header is compared with
/// them, and only how numbers are written is found out.
/// Errors  file_error: no rows; another number of columns; a column that is asked for and not there; a header
///         with other names than `options.table` has; a column with numbers by both decimal signs; and as
///         csv_records.
csv_survey survey_csv(const std::filesystem::path& file, const csv_options& options);

/// Decides whether classes or numbers are learnt from the label, unless `asked` says it, and notes in
/// `survey.remarks` what looks like a mistake.
/// Errors  file_error, naming `file`: the column can be no label, since it tells rows apart, counts them or
///         tells the time.
void settle_task(csv_survey& survey, const std::filesystem::path& file, std::optional<label_kind> asked);

} // namespace mailgrad
