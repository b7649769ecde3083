// Measures a session over TCP beside a bare blocking socket over loopback, in turns: bodies of 64 KiB to 16
// MiB one way, and a message of 4 KiB there and back. Both have a thread at each end. What it costs to wake
// another thread stands beside, since every exchange holds some of it.

#include "channel_peers.hpp"
#include "measuring.hpp"

#include <string>

using namespace mailgrad;
using namespace mailgrad::bench;

namespace {

constexpr int repetitions = 11;
constexpr std::size_t bytes_a_turn = std::size_t{256} << 20;
constexpr int rounds = 5'000;
constexpr std::size_t message_bytes = 4 << 10;

/// One figure of both ways, in turns, and their ratio.
template <class Bare, class Ours>
void compare(const std::string& what, const char* unit, Bare bare, Ours ours) {
  std::vector<double> a, b, ratios;
  for (int r = -1; r < repetitions; ++r) {
    const double x = bare(), y = ours();
    if (r < 0) continue; // both warm up
    a.push_back(x);
    b.push_back(y);
    ratios.push_back(y / x);
  }
  print((what + ", bare socket").c_str(), a, unit);
  print((what + ", session").c_str(), b, unit);
  print((what + ", session of bare socket").c_str(), ratios, "times");
}

std::string size_text(std::size_t size) {
  return size >= (1 << 20) ? std::to_string(size >> 20) + " MiB" : std::to_string(size >> 10) + " KiB";
}

} // namespace

int main() {
  bare_pair bare;
  session_pair session;
  std::vector<double> spinning, sleeping;
  for (int r = 0; r < repetitions; ++r) {
    spinning.push_back(hand_over_spinning());
    sleeping.push_back(hand_over_sleeping());
  }
  print("hand-over between threads, awake", spinning, "us");
  print("hand-over between threads, asleep", sleeping, "us");
  compare(
      "4 KiB there and back", "us", [&] { return bare.round_trip(message_bytes, rounds); },
      [&] { return session.round_trip(message_bytes, rounds); });
  for (const std::size_t size : {std::size_t{64} << 10, std::size_t{256} << 10, std::size_t{1} << 20,
                                 std::size_t{4} << 20, std::size_t{16} << 20}) {
    const std::size_t count = bytes_a_turn / size;
    compare(
        size_text(size), "GB/s", [&] { return bare.throughput(size, count); },
        [&] { return session.throughput(size, count); });
  }
}
