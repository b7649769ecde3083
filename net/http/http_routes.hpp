#pragma once

#include <mailgrad/net/http/http_message.hpp>

#include <functional>
#include <map>
#include <string>

namespace mailgrad {

using http_handler = std::function<http_response(const http_request&)>;

/// Which function answers which path. A HEAD request is answered by the function for GET.
///
/// Threads any, once all routes are added; the functions then see the threads of their callers.
class http_routes {
public:
  /// Takes the place of an earlier one for the same method and path.
  void add(const std::string& method, const std::string& path, http_handler answer);

  /// 404 for a path that has no route, 405 for one that has others.
  http_response answer(const http_request& asked) const;

private:
  std::map<std::string, std::map<std::string, http_handler>> by_path_; ///< then by method
};

} // namespace mailgrad
