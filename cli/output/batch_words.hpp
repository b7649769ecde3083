#pragma once

#include <mailgrad/engine/account/training_report.hpp>

#include <string>
#include <vector>

namespace mailgrad {

/// "936 batches from the own disk of workers 0, 2, 94.1 MiB not sent; 2 batches sent to workers 0, 1"
std::string origins_in_words(const std::vector<batch_origins>& batches);

} // namespace mailgrad
