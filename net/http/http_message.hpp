#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mailgrad {

/// What a client asked for.
struct http_request {
  std::string method; ///< "GET"
  std::string path;   ///< of the target, as it was sent: "/events"
  std::string query;  ///< what follows the first '?', as it was sent
  /// By name in small letters. Fields that were sent twice have both values, with a comma between them.
  std::map<std::string, std::string> fields;
  std::string body;

  /// A field by its name in small letters; empty if it was not sent.
  std::string_view field(const std::string& name) const;
  /// The decoded value of the first "name=value" of the query; nothing if there is none, or if it is encoded
  /// wrongly.
  std::optional<std::string> argument(std::string_view name) const;
  /// The value of a cookie; nothing if it was not sent.
  std::optional<std::string> cookie(std::string_view name) const;
};

/// What a client is told.
struct http_response {
  unsigned status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body{};
  std::vector<std::pair<std::string, std::string>> fields{}; ///< further ones, such as {"Location", "/"}
  /// The body begins a stream of server-sent events: the client gets each event that is published from now
  /// on, until one of both ends it.
  bool streams = false;
};

/// An event as it is sent: `name`, and `data` without line feeds.
/// Errors  std::invalid_argument: a line feed or carriage return in either.
std::string server_sent_event(std::string_view name, std::string_view data);

using http_handler = std::function<http_response(const http_request&)>;

/// Which function answers which path. A HEAD request is answered by the function for GET.
/// Threads any, once all routes are added; the functions then see the threads of their callers.
class http_routes {
public:
  /// Takes the place of an earlier one for the same method and path.
  void add(const std::string& method, const std::string& path, http_handler answer) {
    by_path_[path][method] = std::move(answer);
  }
  /// 404 for a path that has no route, 405 for one that has others.
  http_response answer(const http_request& asked) const;

private:
  std::map<std::string, std::map<std::string, http_handler>> by_path_; ///< then by method
};

} // namespace mailgrad
