#include <mailgrad/net/http/http_message.hpp>

#include <charconv>
#include <stdexcept>
#include <system_error>

namespace mailgrad {

namespace {

/// "a%20b+c" as "a b c"; nothing if a '%' has no two digits behind it.
std::optional<std::string> decoded(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      result += text[i] == '+' ? ' ' : text[i];
      continue;
    }
    unsigned code = 0;
    const std::string_view digits = text.substr(i + 1, 2);
    const auto [end, wrong] = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    if (wrong != std::errc() || end != digits.data() + 2) return std::nullopt;
    result += static_cast<char>(code);
    i += 2;
  }
  return result;
}

/// The value of the first "name=value" of a list; nothing if there is none.
std::optional<std::string_view> value_in(std::string_view list, char between, std::string_view name) {
  while (!list.empty()) {
    const std::size_t end = list.find(between);
    std::string_view pair = list.substr(0, end);
    list = end == std::string_view::npos ? std::string_view() : list.substr(end + 1);
    while (pair.starts_with(' ')) pair.remove_prefix(1);
    if (pair.starts_with(name) && pair.substr(name.size()).starts_with('='))
      return pair.substr(name.size() + 1);
  }
  return std::nullopt;
}

} // namespace

std::string_view http_request::field(const std::string& name) const {
  const auto found = fields.find(name);
  return found == fields.end() ? std::string_view() : found->second;
}

std::optional<std::string> http_request::argument(std::string_view name) const {
  const auto found = value_in(query, '&', name);
  return found ? decoded(*found) : std::nullopt;
}

std::optional<std::string> http_request::cookie(std::string_view name) const {
  const auto found = value_in(field("cookie"), ';', name);
  return found ? std::optional(std::string(*found)) : std::nullopt;
}

std::string server_sent_event(std::string_view name, std::string_view data) {
  for (const std::string_view text : {name, data})
    if (text.find_first_of("\r\n") != std::string_view::npos)
      throw std::invalid_argument("server_sent_event: a line ends within an event");
  std::string event = "event: ";
  event.append(name).append("\ndata: ").append(data).append("\n\n");
  return event;
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
