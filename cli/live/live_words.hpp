#pragma once

#include <mailgrad/net/listen_address.hpp>

#include <optional>
#include <string>
#include <vector>

namespace mailgrad {

/// The values of the options about the live page, before they are interpreted.
struct live_words {
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
std::optional<live_options> understood(const live_words& w);

/// The options as words of a command line.
std::vector<std::string> words_of(const live_words& w);

/// 32 random bytes in hexadecimal.
std::string drawn_secret();

} // namespace mailgrad
