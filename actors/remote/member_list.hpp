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

/// A server's list of who is in its run and who was: workers and parameter hosts, each with its last
/// incarnation. It has at most one entry for each seat.
///
/// Units   moments are those of the network's clock.
/// Threads one caller at a time.
class member_list {
public:
  void joined(const net::welcome& terms, const std::string& from, std::vector<std::string> devices,
              net::instant now);
  /// It is to hold these shards.
  void holds(const net::member& who, std::vector<std::uint32_t> shards);
  /// The session of this incarnation has ended. Nothing changes if a later one is known.
  void ended(const net::welcome& terms, const net::ending& why, net::instant heard, net::instant now);

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
    std::string why{};
  };

  std::map<net::member, entry> all_;
};

} // namespace mailgrad::remote
