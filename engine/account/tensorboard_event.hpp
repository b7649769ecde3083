#pragma once

#include <mailgrad/engine/account/metrics_line.hpp>
#include <mailgrad/engine/account/staleness_histogram.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace mailgrad {

// Events as TensorBoard reads them, each as the bytes of one message. tf_record() makes records of them.

/// Where TensorBoard draws an event.
struct board_moment {
  double wall_time = 0;   ///< s since 1970
  std::uint64_t step = 0; ///< mini-batches trained, by all workers
};

/// The event that a file begins with.
std::string version_event(double wall_time);

/// A run goes on from this step. What an earlier file of the folder has of this step and later ones was lost
/// with the process that wrote it, and TensorBoard leaves it out.
std::string resume_event(const board_moment& when);

/// Options of a run by their names, each a number or a text.
using board_options = std::vector<std::pair<std::string, std::variant<double, std::string>>>;

/// The row of this run in the table HPARAMS.
std::string options_event(double wall_time, const board_options& options);

/// A text under this tag, which TensorBoard reads as Markdown, and what it counts under another one.
std::string text_event(const board_moment& when, std::string_view tag, const std::string& markdown);
std::string count_event(const board_moment& when, std::string_view tag, std::uint64_t count);

/// The figures of a line that are known, each under its tag. TensorBoard keeps a figure as a float32.
std::string scalars_event(const board_moment& when, const metrics_line& x);

/// The histogram "staleness/gaps". Gaps below 1024 have a bucket each, whose limits lie half-way to the next
/// gap; larger ones share a bucket up to the next power of two.
std::string gaps_event(const board_moment& when, const staleness_histogram& gaps);

} // namespace mailgrad
