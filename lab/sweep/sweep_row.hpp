#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mailgrad::lab {

/// A field of a CSV file: quoted where it has to be, and in one line.
std::string csv_field(std::string_view text);
/// With so many digits that it is read back as it was; empty for a number that is none.
std::string csv_field(double number);

/// The fields of a line, without their quotes; none if a quote is not closed.
std::optional<std::vector<std::string>> csv_fields(std::string_view line);

/// What a cell of a sweep has come to. Unknown figures are absent.
struct sweep_row {
  std::size_t cell = 0;
  std::vector<std::string> values{}; ///< of the grid's axes
  std::string ended{};               ///< as training_report::ended
  std::string why{};                 ///< one line, if it was not completed
  std::uint64_t steps = 0, updates = 0, samples = 0;
  std::optional<double> final_loss{}, test_loss{}, test_accuracy{}, test_rmse{};
  double virtual_seconds = 0;
  double real_seconds = 0;
  double staleness_mean = 0; ///< versions, of the gradients that were applied
  std::uint64_t staleness_p99 = 0;
  std::uint64_t discarded = 0;               ///< gradients
  std::optional<double> time_to_target{};    ///< virtual seconds until the first test that reached it
  std::optional<double> updates_to_target{}; ///< versions of the weights until then
  std::string parameters_sha256{};
  std::string version{}, commit{}, command{}, processor{}, date{};

  bool completed() const noexcept { return ended == "completed"; }
  /// A run that diverged is a result. One that failed is none, and the next time it may go well.
  bool failed() const noexcept { return ended == "failed"; }
};

/// A test of the weights of a cell, or its end.
struct curve_point {
  std::size_t cell = 0;
  double time = 0; ///< virtual seconds
  std::uint64_t steps = 0, updates = 0;
  std::optional<double> train_loss{}, test_loss{}, test_accuracy{}, test_rmse{};
};

/// The figure of that name, as sweep_target::figure has it.
std::optional<double> figure_of(const curve_point& p, std::string_view figure);

// Lines of CSV without a line feed. Fields are quoted where they have to be, and unknown figures are empty.

std::string row_header(const std::vector<std::string>& axes);
std::string to_csv(const sweep_row& row);
/// None if the line is not whole, or no row of so many axes.
std::optional<sweep_row> row_of(std::string_view line, std::size_t axes);

std::string curve_header();
std::string to_csv(const curve_point& p);
std::optional<curve_point> curve_point_of(std::string_view line);

} // namespace mailgrad::lab
