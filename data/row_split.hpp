#pragma once

#include <mailgrad/data/dataset.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace mailgrad {

/// Which samples are for training and which for testing. Each list is in ascending order.
struct row_split {
  std::vector<std::size_t> train;
  std::vector<std::size_t> test;
};

/// Draws `test_share` of `count` samples for testing, at least one and not all. With labels each class is
/// drawn from in proportion, and a class keeps a sample for training if it has any.
///
/// Shapes  labels: int32[count], or empty.
/// Errors  std::invalid_argument for a share outside of (0, 1), or fewer than two samples.
row_split draw_split(std::size_t count, std::span<const std::int32_t> labels, double test_share,
                     std::uint64_t seed);

/// The samples of these rows, copied.
///
/// Errors  std::invalid_argument for windows of a text, which overlap and are cut by slice().
dataset take_rows(const dataset& all, std::span<const std::size_t> rows);

/// What somebody should know before training on this data, a line each: all samples to train on are of one
/// class, classes have one sample, or a part to test or validate on lacks classes. Empty where samples have
/// no classes.
std::vector<std::string> remarks_on(const data_split& data);

/// Which training samples are held out.
enum class held_out : std::uint8_t {
  drawn, ///< by the seed, from each class in proportion
  last,  ///< the last ones, where the order of samples means something
};

/// Moves a share of the training samples into `data.validation`, at least one sample and not all. A run is
/// then judged by these while it goes on, so that the test samples stay unseen until its end. Windows of a
/// text overlap, so of a text the last ones are held out in any case.
///
/// Errors  std::invalid_argument, and nothing has changed: a share outside of (0, 1), fewer than two samples
///         to train on, or samples that are held out already.
void hold_out(data_split& data, double share, std::uint64_t seed, held_out which = held_out::drawn);

} // namespace mailgrad
