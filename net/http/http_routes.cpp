#include <mailgrad/net/http/http_routes.hpp>

#include <utility>

namespace mailgrad {

void http_routes::add(const std::string& method, const std::string& path, http_handler answer) {
  by_path_[path][method] = std::move(answer);
}

http_response http_routes::answer(const http_request& asked) const {
  const auto path = by_path_.find(asked.path);
  if (path == by_path_.end()) return {.status = 404, .body = "There is nothing at this path.\n"};
  const auto found = path->second.find(asked.method == "HEAD" ? "GET" : asked.method);
  if (found != path->second.end()) return found->second(asked);
  std::string allowed;
  for (const auto& [method, handler] : path->second) allowed += (allowed.empty() ? "" : ", ") + method;
  return {.status = 405, .body = "This path takes " + allowed + ".\n", .fields = {{"Allow", allowed}}};
}

} // namespace mailgrad
