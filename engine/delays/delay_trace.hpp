#pragma once

#include <mailgrad/engine/delays/changing_delay.hpp>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

namespace mailgrad {

/// The durations of steps that a file lists, by worker.
///
/// A line has three numbers: a time in seconds since the run began, the rank of a worker from 0, and the
/// seconds of its steps from then on. The first line may name the columns: "t,worker,duration".
/// Errors  file_error, with the line: it has no three such numbers; the time is before that of the line
///         above; there is no such worker; a duration is negative or longer than delay_law::longest; a worker
///         has no line at all.
std::vector<std::shared_ptr<const std::vector<traced_delay::row>>>
read_delay_trace(const std::filesystem::path& file, std::uint32_t workers);

} // namespace mailgrad
