#pragma once

#include <mailgrad/actors/training.hpp>
#include <mailgrad/net/http/http_routes.hpp>

#include <functional>
#include <optional>

namespace mailgrad {

/// Adds POST /switch with {"policy": "sync"}, /checkpoint and /stop with {}. Each answers with 202 and a
/// sentence, or with why not. `refuses` says why a request may not change the run; nothing if it may.
void add_control(http_routes& to, training& run,
                 const std::function<std::optional<http_response>(const http_request&)>& refuses);

} // namespace mailgrad
