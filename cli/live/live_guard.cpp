#include <mailgrad/cli/live/live_guard.hpp>

#include <fmt/format.h>
#include <openssl/crypto.h>

#include <algorithm>
#include <array>
#include <utility>

namespace mailgrad {

namespace {

/// Takes the same time wherever they differ.
bool same_secret(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

http_response forbidden(std::string why) { return {.status = 403, .body = std::move(why) + '\n'}; }

} // namespace

live_guard::live_guard(listen_address where, std::string token, std::string key)
    : where_(std::move(where)), token_(std::move(token)), key_(std::move(key)) {}

bool live_guard::names_this_machine(std::string_view host) const {
  const std::array names{to_string(where_), fmt::format("localhost:{}", where_.port),
                         fmt::format("127.0.0.1:{}", where_.port), fmt::format("[::1]:{}", where_.port)};
  const auto is_host = [&](std::string_view name) {
    if (where_.port == 80) name.remove_suffix(host.ends_with(":80") ? 0 : 3); // browsers leave it out
    return host == name;
  };
  return std::ranges::any_of(names, is_host);
}

/// Cookies do not know ports, so each run on a machine has a cookie of its own.
std::string live_guard::cookie_name() const { return fmt::format("mailgrad-{}", where_.port); }

bool live_guard::knows_token(const http_request& asked) const {
  constexpr std::string_view bearer = "Bearer ";
  const std::string_view authorization = asked.field("authorization");
  if (authorization.starts_with(bearer) && same_secret(authorization.substr(bearer.size()), token_))
    return true;
  for (const auto& shown : {asked.argument("token"), asked.cookie(cookie_name())})
    if (shown && same_secret(*shown, token_)) return true;
  return false;
}

std::optional<http_response> live_guard::refuses(const http_request& asked) const {
  if (token_.empty()) {
    if (names_this_machine(asked.field("host"))) return std::nullopt;
    return http_response{
        .status = 421,
        .body = fmt::format("This page is at {}; the request names another host.\n", to_string(where_))};
  }
  if (knows_token(asked)) return std::nullopt;
  return http_response{
      .status = 401,
      .body = "This page asks for a token. The address that mailgrad printed at the start has it "
              "behind '?token='.\n",
      .fields = {{"WWW-Authenticate", "Bearer"}}};
}

std::optional<http_response> live_guard::refuses_change(const http_request& asked) const {
  if (key_.empty())
    return forbidden(
        "This page only shows the run. Start mailgrad with --live-control to change it from here.");
  if (asked.field("content-type") != "application/json")
    return http_response{.status = 415, .body = "Expected a body of the type application/json.\n"};
  const std::string_view origin = asked.field("origin");
  if (!origin.empty() && origin != fmt::format("http://{}", asked.field("host")))
    return forbidden("The request comes from another site.");
  const std::string_view site = asked.field("sec-fetch-site");
  if (!site.empty() && site != "same-origin") return forbidden("The request comes from another site.");
  if (!same_secret(asked.field("x-mailgrad-key"), key_))
    return forbidden("The request lacks the key of this run, which its page was told. Load the page again.");
  return std::nullopt;
}

std::string live_guard::cookie() const {
  if (token_.empty()) return {};
  return fmt::format("{}={}; HttpOnly; SameSite=Strict; Path=/", cookie_name(), token_);
}

/// 0.0.0.0 is no host to go to, but leads to this machine.
std::string live_guard::url() const {
  listen_address shown = where_;
  if (shown.host == "0.0.0.0") shown.host = "127.0.0.1";
  if (shown.host == "::") shown.host = "::1";
  return fmt::format("http://{}/{}", to_string(shown), token_.empty() ? "" : "?token=" + token_);
}

} // namespace mailgrad
