#pragma once

#include <mailgrad/engine/account/run_member.hpp>
#include <mailgrad/net/ending.hpp>
#include <mailgrad/net/hello.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace mailgrad::remote {

/// How a member stands whose session has ended so.
run_member::state state_after(const net::ending& why);

/// A server's list of who is in its run and who was: workers and parameter hosts, each with its last
/// incarnation, and how often one before it was lost. It has at most one entry for each seat.
///
/// Units   moments are those of the network's clock.
/// Threads one caller at a time.
class member_list {
public:
  void joined(const net::welcome& terms, const std::string& from, std::vector<std::string> devices,
              net::instant now);
  /// It is to hold these shards.
  void holds(const net::member& who, std::vector<std::uint32_t> shards);
  /// The session of this incarnation has ended. If a later one is in, only the loss is noted, and of one that
  /// was never in, nothing.
  void ended(const net::welcome& terms, const net::ending& why, net::instant heard, net::instant now);
  /// The run has ended, and its sessions end with it. Whoever was in it is done.
  void close(net::instant now);
  bool is_closed() const noexcept { return closed_; }

  /// `heard` says of one that is in when its last byte came; nothing if that is not known.
  std::vector<run_member>
  told(net::instant now, const std::function<std::optional<net::instant>(const net::member&)>& heard) const;

private:
  struct entry {
    std::uint32_t incarnation = 0;
    run_member::state is = run_member::state::joined;
    net::instant since{0};
    std::optional<net::instant> heard{}; ///< of one that is gone
    std::string from;
    std::vector<std::string> devices{};
    std::vector<std::uint32_t> shards{};
    std::uint32_t losses = 0;
    std::string why{};
  };

  std::map<net::member, entry> all_;
  bool closed_ = false;
};

} // namespace mailgrad::remote
