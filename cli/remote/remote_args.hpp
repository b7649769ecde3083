#pragma once

#include <mailgrad/actors/remote/serve_options.hpp>
#include <mailgrad/cli/remote/launch_args.hpp>
#include <mailgrad/engine/plan/known_plugins.hpp>
#include <mailgrad/engine/worker/local_samples.hpp>

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <vector>

namespace mailgrad {

/// What workers that the tool starts are told on their command lines.
struct worker_args {
  std::vector<std::string> devices;   ///< each worker has one of these lists, in turns: "cpu:0,cpu:1"
  std::vector<std::string> plugins{}; ///< for --plugin
  std::string data{};                 ///< for --data; empty: the server sends the batches
  std::uint64_t data_limit = 0;       ///< in GiB
};

/// Workers that the tool starts as processes of their own on this machine.
///
/// Threads one owner.
class local_workers {
public:
  local_workers() = default;
  ~local_workers(); ///< ends those that still live
  local_workers(const local_workers&) = delete;
  local_workers& operator=(const local_workers&) = delete;

  /// Starts `mailgrad join ADDRESS` so many times. A signal from the terminal goes to this process alone,
  /// which then ends them in good order.
  ///
  /// Errors  std::system_error if a process cannot be started.
  void start(const std::string& address, std::uint32_t workers, const worker_args& words);

  std::size_t ended(); ///< how many have ended
  /// Waits for all of them, who end by themselves when the server has ended; kills those that take longer
  /// than two seconds.
  void wait();

private:
  struct process {
    pid_t id = 0;
    bool ended = false;
  };
  void reap();

  std::vector<process> all_;
};

/// Where other ranks find a server that listens at `listening`, on the host of this name: an address that
/// means every network of its machine, as 0.0.0.0, becomes the name.
///
/// Errors  std::invalid_argument as parse_listen_address() has them.
std::string address_for_ranks(const std::string& listening, const std::string& host_name);

/// The file by which ranks of a launcher find rank 0. It holds the address, HOST:PORT, in one line.
///
/// Guarantees  a reader finds no file or a whole one, since it is written beside and renamed.
/// Threads     one owner.
class address_file {
public:
  /// In a folder that every rank sees. The name has that of the run. Touches nothing yet.
  ///
  /// Errors  std::invalid_argument in one line if the launcher has named no run.
  address_file(const std::filesystem::path& folder, const launch_place& place);
  ~address_file(); ///< removes what was published
  address_file(const address_file&) = delete;
  address_file& operator=(const address_file&) = delete;

  const std::filesystem::path& path() const noexcept { return path_; }

  /// Removes what a killed run of the same name has left behind.
  void clear() const noexcept;
  /// Errors  std::system_error in one line.
  void publish(const std::string& address);

  /// What the file says; nothing while there is none.
  std::optional<std::string> read() const;
  /// Waits until there is one, but at most for `bound`, and says on standard error what is waited for if that
  /// takes longer than two seconds.
  ///
  /// Errors  std::runtime_error in one line when the time is over.
  std::string wait_for(std::chrono::seconds bound) const;
  /// Waits until there is none, but at most for `bound`.
  void wait_until_gone(std::chrono::seconds bound) const;

private:
  const std::string reader_; ///< "rank 2 of 4"
  const std::filesystem::path path_;
  bool published_ = false;
};

/// How a server and the ranks that a launcher has started with it find each other.
struct launched {
  launch_place place;
  std::shared_ptr<address_file> file; ///< null: the address is known to all
  std::chrono::seconds bound{300};    ///< for which one waits for the other
  std::vector<std::string> again{};   ///< options that no checkpoint keeps, to be given when the run goes on
};

/// The values of the options about other processes, before they are interpreted.
struct remote_args {
  bool serve = false; ///< `mailgrad serve` and `mailgrad launch`
  std::string listen = "127.0.0.1:7000";
  std::uint32_t devices = 1;          ///< of each worker, over which its model spans
  std::uint32_t slots = 0;            ///< workers that may be in at once; 0: as many as the run begins with
  std::uint32_t wait_for_workers = 0; ///< seconds until a run without them is given up; 0: it waits for ever
  std::string when_alone = "60";      ///< what a run does when all its workers are gone
  std::uint32_t heartbeat = 250;      ///< ms between two signs of life
  std::uint32_t processes = 0; ///< `mailgrad train --processes`: workers that the tool starts itself; 0: none
  std::uint32_t shard_hosts = 0;    ///< processes that hold the shards; 0: the server does
  std::string wire = "float32";     ///< how gradients travel
  bool sends_batches = false;       ///< also to workers that it starts, which could read --data themselves
  std::string keys;                 ///< a folder of `mailgrad keys new`, or a token; empty: none
  std::optional<launched> launch{}; ///< of `mailgrad launch`
  std::shared_ptr<net::network> network{}; ///< made before; null: as the address says
  bool all_reduce = false;                 ///< workers add their gradients up among themselves

  bool any() const noexcept { return serve || processes > 0; }
};

/// Which side of a connection a process is. A parameter host joins the server, and workers join it.
enum class side { server, worker, shard };

/// How long a run without workers waits for one (training_options::waits_for_workers).
std::chrono::nanoseconds wait_when_alone(const remote_args& w);
/// Loads these plug-ins.
///
/// Errors  as known_plugins::load().
known_plugins plugins_of(const std::vector<std::string>& files);
/// Where a worker looks for the samples of its run; null for an empty name. The limit is in GiB.
std::shared_ptr<local_samples> samples_of(const std::string& data, std::uint64_t limit);

/// How long a worker tries to connect where nobody listens.
inline constexpr std::chrono::seconds usual_patience{10};

/// Shared memory for memory:NAME, which has no keys; else TCP with the keys that are named: a folder with
/// certificates, a folder or a file with a token alone, or no keys, for this machine alone. A worker tries so
/// long to connect where nobody listens, or a tunnel has no far end yet, which it says.
///
/// Errors  as net::tls_keys has them; std::invalid_argument for keys where there are none.
std::shared_ptr<net::network> network_with(const std::string& address, const std::string& keys, side s,
                                           std::chrono::milliseconds patience = usual_patience);

} // namespace mailgrad
