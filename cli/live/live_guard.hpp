#pragma once

#include <mailgrad/net/http/http_message.hpp>
#include <mailgrad/net/listen_address.hpp>

#include <optional>
#include <string>

namespace mailgrad {

/// Who may look at the live page of a run, and who may change the run.
///
/// Without a token, a request must name this machine as its host: a page of another site whose name leads to
/// this machine (DNS rebinding) names that site. With a token, it must come as `Authorization: Bearer`, as
/// `?token=`, or as the cookie that the page sets. What changes the run must also come from the page itself:
/// as JSON, from the same origin, with a key that only the page was told.
///
/// Threads const members: any.
class live_guard {
public:
  /// `where` has the port that the server got. An empty token: nobody needs one. An empty key: nothing
  /// may be changed.
  live_guard(listen_address where, std::string token, std::string key);

  /// Why the request is not answered; nothing if it may be.
  std::optional<http_response> refuses(const http_request& asked) const;
  /// Why the request may not change the run; nothing if it may. refuses() has let it pass before.
  std::optional<http_response> refuses_change(const http_request& asked) const;

  /// The value of Set-Cookie for a client that has shown the token; empty if there is none.
  std::string cookie() const;
  const std::string& key() const noexcept { return key_; }
  /// The address of the page for a browser, with the token.
  std::string url() const;

private:
  bool names_this_machine(std::string_view host) const;
  bool knows_token(const http_request& asked) const;
  std::string cookie_name() const;

  listen_address where_;
  std::string token_;
  std::string key_;
};

} // namespace mailgrad
