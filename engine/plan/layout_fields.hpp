#pragma once

#include <mailgrad/files/archive.hpp>
#include <mailgrad/graph/parameter_layout.hpp>

#include <memory>
#include <string_view>

namespace mailgrad {

/// Writes or reads where the weights of a run lie, without their first values.
///
/// Errors  archive_error for a layout that cannot be.
void keep_layout(archive& a, std::string_view name, std::shared_ptr<const parameter_layout>& layout);

} // namespace mailgrad
