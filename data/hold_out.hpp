#pragma once

#include <mailgrad/data/dataset.hpp>

#include <cstdint>

namespace mailgrad {

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
