#pragma once

#include <string>
#include <string_view>

namespace mailgrad {

/// The value of a fact as its option takes it, without quotes for a shell, for messages:
/// "adam:beta1=0.9,beta2=0.999,epsilon=1e-8" for "adam 0.90000000000000002 0.999 1e-08". Every number is as
/// short as reads back the same. Settings whose names only a plug-in knows stand without them.
std::string fact_as_typed(std::string_view fact, const std::string& value);

} // namespace mailgrad
