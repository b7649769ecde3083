#pragma once

#include <mailgrad/engine/account/training_report.hpp>

#include <string>

namespace mailgrad {

/// How many versions of the weights there are.
std::string updates_in_words(const training_report& r);

/// The lines of the ledger, and where it is that of a lost shard, of that of one that is left.
std::string ledger_lines(const training_report& r);

} // namespace mailgrad
