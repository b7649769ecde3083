// Measures sessions over TCP and by shared memory beside a bare blocking socket over loopback, in turns:
// bodies of 64 KiB to 16 MiB one way, a message of 4 KiB there and back, and what a worker exchanges with its
// shard for each gradient of the MLP. All have a thread at each end. What it costs to wake another thread,
// and to copy that much, stands beside, since every exchange holds some of it.

#include "channel_peers.hpp"
#include "measuring.hpp"
#include "tls_alone.hpp"

#include <mailgrad/net/tls/key_folder.hpp>

#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

using namespace mailgrad;
using namespace mailgrad::bench;

namespace {

constexpr int repetitions = 11;
constexpr std::size_t bytes_a_turn = std::size_t{256} << 20;
constexpr int rounds = 5'000;
constexpr std::size_t message_bytes = 4 << 10;
constexpr std::size_t mlp_bytes = 535'818 * sizeof(float); ///< a gradient, or the weights
constexpr std::size_t exchanges = 200;
/// Both ends wait awake, also where networks would not by themselves since there are few processors.
constexpr std::chrono::microseconds awake{50};

/// One figure of several ways, in turns, and the ratio of each to the first.
class turns {
public:
  using way = std::pair<std::string, std::function<double()>>;

  turns(std::string what, const char* unit) : what_(std::move(what)), unit_(unit) {}

  void take(const std::vector<way>& ways) const {
    std::vector<std::vector<double>> figures(ways.size()), ratios(ways.size());
    for (int r = -1; r < repetitions; ++r) {
      std::vector<double> turn;
      for (const way& w : ways) turn.push_back(w.second());
      for (std::size_t i = 0; r >= 0 && i < ways.size(); ++i) { // all warm up first
        figures[i].push_back(turn[i]);
        ratios[i].push_back(turn[i] / turn[0]);
      }
    }
    for (std::size_t i = 0; i < ways.size(); ++i)
      print((what_ + ", " + ways[i].first).c_str(), figures[i], unit_);
    for (std::size_t i = 1; i < ways.size(); ++i)
      print((what_ + ", " + ways[i].first + " of " + ways[0].first).c_str(), ratios[i], "times");
  }

private:
  std::string what_;
  const char* unit_;
};

/// Keys that live as long as the program.
class scratch_keys {
public:
  scratch_keys() {
    std::string name = (std::filesystem::temp_directory_path() / "channel-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no folder for keys");
    where_ = name;
    net::key_folder(where_).make();
  }
  ~scratch_keys() { std::filesystem::remove_all(where_); }
  scratch_keys(const scratch_keys&) = delete;
  scratch_keys& operator=(const scratch_keys&) = delete;

  std::shared_ptr<const net::tls_keys> token() const {
    return net::tls_keys::of_token(net::key_folder(where_).token());
  }

private:
  std::filesystem::path where_;
};

std::string size_text(std::size_t size) {
  return size >= (1 << 20) ? std::to_string(size >> 20) + " MiB" : std::to_string(size >> 10) + " KiB";
}

} // namespace

int main() {
  const scratch_keys keys;
  bare_pair bare;
  session_pair plain(net::tcp_options{.spin = awake}), tls({.spin = awake, .keys = keys.token()});
  session_pair memory(net::memory_options{.spin = awake}), lending(net::memory_options{.spin = awake}, true);
  std::vector<double> spinning, sleeping;
  for (int r = 0; r < repetitions; ++r) {
    spinning.push_back(hand_over_spinning());
    sleeping.push_back(hand_over_sleeping());
  }
  print("hand-over between threads, awake", spinning, "us");
  print("hand-over between threads, asleep", sleeping, "us");
  turns("4 KiB there and back", "us")
      .take({{"bare socket", [&] { return bare.round_trip(message_bytes, rounds); }},
             {"session", [&] { return plain.round_trip(message_bytes, rounds); }},
             {"session by memory", [&] { return memory.round_trip(message_bytes, rounds); }},
             {"session by TLS", [&] { return tls.round_trip(message_bytes, rounds); }}});
  turns("2.1 MB there and back", "us")
      .take({{"session", [&] { return plain.exchange(mlp_bytes, exchanges); }},
             {"session by memory, copied", [&] { return memory.exchange(mlp_bytes, exchanges); }},
             {"session by memory, lent", [&] { return lending.exchange(mlp_bytes, exchanges); }},
             {"session by memory, lent and read once",
              [&] { return lending.exchange(mlp_bytes, exchanges, true); }},
             {"four copies by one core", [&] { return 2 * copied_twice(mlp_bytes, exchanges); }}});
  tls_alone alone(keys.token());
  turns("256 KiB by one core", "GB/s")
      .take({{"AES-256-GCM", aes_256_gcm},
             {"TLS in memory, encrypted", [&] { return alone.measured().encrypt; }},
             {"TLS in memory, decrypted", [&] { return alone.measured().decrypt; }}});
  for (const std::size_t size : {std::size_t{64} << 10, std::size_t{256} << 10, std::size_t{1} << 20,
                                 std::size_t{4} << 20, std::size_t{16} << 20}) {
    const std::size_t count = bytes_a_turn / size;
    turns(size_text(size), "GB/s")
        .take({{"bare socket", [&] { return bare.throughput(size, count); }},
               {"session", [&] { return plain.throughput(size, count); }},
               {"session by memory", [&] { return memory.throughput(size, count); }}});
    turns(size_text(size), "GB/s").take({{"AES-256-GCM by one core", aes_256_gcm}, {"session by TLS", [&] {
                                                                                      return tls.throughput(
                                                                                          size, count);
                                                                                    }}});
  }
}
