#pragma once

#include <mailgrad/net/http/http_routes.hpp>

namespace mailgrad {

/// Adds the page, at "/", and its scripts and styles, which the tool holds itself.
void add_pages(http_routes& to);

} // namespace mailgrad
