#pragma once

#include <mailgrad/engine/account/training_report.hpp>

#include <string>

namespace mailgrad {

/// "shards 0, 2"
std::string lost_of(const training_report& r);

/// What stands behind figures of which lost shards had a part.
std::string without_lost(const training_report& r);

/// What stands in the place of figures that nobody has told: `none` if there are none.
std::string untold(const training_report& r, const char* none);

} // namespace mailgrad
