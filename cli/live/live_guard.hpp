#pragma once

#include <mailgrad/net/http/http_message.hpp>
#include <mailgrad/net/listen_address.hpp>

#include <optional>
#include <string>
#include <vector>

namespace mailgrad {

/// The values of the options about the live page, before they are interpreted.
struct live_args {
  bool wanted = false;
  std::string address; ///< empty: live_options says which
  std::string token_file;
  bool control = false;
};

/// How a run is shown while it goes on.
struct live_options {
  listen_address where{"127.0.0.1", 8080};
  bool any_port = true; ///< if that port is taken, any that is free
  std::string token;    ///< whoever looks must know it; empty: nobody needs one
  bool control = false; ///< the page may switch the policy, take a checkpoint and stop the run
};

/// Nothing if no page is wanted. Off loopback, and with control, a token is drawn unless a file has one.
///
/// Errors  std::invalid_argument in one line: no address, or a token that anybody could read or guess.
///         file_error: the file of the token cannot be read.
std::optional<live_options> understood(const live_args& w);

std::vector<std::string> words_of(const live_args& w);

/// 32 random bytes in hexadecimal.
std::string drawn_secret();

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
