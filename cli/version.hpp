#pragma once

#include <chrono>
#include <string>

namespace mailgrad {

/// The commit that the tool was built from: "1a2b3c4d5e6f", followed by "-dirty" if files had changed since.
/// It is "unknown" if the sources are no working tree of git. Each build determines it anew
/// (cmake/mailgrad_commit.cmake).
extern const char build_commit[];

/// What `mailgrad --version` prints: version, commit, compiler and the instructions of the kernels,
/// a line each.
std::string version_in_words();

/// "2026-11-22T20:41:28Z"
std::string utc_date(std::chrono::system_clock::time_point when);

} // namespace mailgrad
