#pragma once

#include <mailgrad/data/formats/csv.hpp>
#include <mailgrad/data/formats/csv_facts.hpp>
#include <mailgrad/data/formats/csv_fields.hpp>

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace mailgrad {

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
///
/// Errors  file_error: no rows; another number of columns; a column that is asked for and not there; a header
///         with other names than `options.table` has; a column with numbers by both decimal signs; and as
///         csv_records.
csv_survey survey_csv(const std::filesystem::path& file, const csv_options& options);

/// Decides whether classes or numbers are learnt from the label, unless `asked` says it, and notes in
/// `survey.remarks` what looks like a mistake.
///
/// Errors  file_error, naming `file`: the column can be no label, since it tells rows apart, counts them or
///         tells the time.
void settle_task(csv_survey& survey, const std::filesystem::path& file, std::optional<label_kind> asked);

} // namespace mailgrad
