#include <mailgrad/cli/remote/remote_args.hpp>

#include <mailgrad/cli/output/failure_line.hpp>
#include <mailgrad/net/listen_address.hpp>
#include <mailgrad/net/memory/memory_network.hpp>
#include <mailgrad/net/tcp/tcp_network.hpp>
#include <mailgrad/net/tls/key_folder.hpp>
#include <mailgrad/options/number.hpp>

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <iostream>
#include <system_error>
#include <thread>

extern char** environ;

namespace mailgrad {

namespace {

constexpr std::chrono::seconds most_farewell{2};

/// Starts this program with other words, in a process group of its own. It gets no descriptor of this one but
/// the standard streams: a listener that it kept would look alive to others when this process is gone.
pid_t started(std::vector<std::string> words) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
  pid_t id = 0;
  const int failed = posix_spawn(&id, "/proc/self/exe", &actions, &attributes, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (failed != 0)
    throw std::system_error(failed, std::generic_category(), "--processes: no process could be started");
  return id;
}

using clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds between_looks{20};

std::filesystem::path path_for(const std::filesystem::path& folder, const launch_place& place) {
  if (place.run.empty())
    reject("launch: {} gives no name of the run by which its ranks could find a file: give --listen "
           "HOST:PORT, with an address of the host of rank 0",
           place.launcher);
  return folder / fmt::format("mailgrad-{}-{}.address", place.launcher, place.run);
}

net::certificate_files keys_of(const net::key_folder& folder, side s) {
  if (s == side::shard) return folder.of_shard();
  return s == side::server ? folder.of_server() : folder.of_worker();
}

std::shared_ptr<const net::tls_keys> keys_in(const std::string& where, side s) {
  if (where.empty()) return nullptr;
  std::error_code ignored;
  if (!std::filesystem::is_directory(where, ignored)) return net::tls_keys::of_token(where);
  const net::key_folder folder(where);
  const net::certificate_files files = keys_of(folder, s);
  if (std::filesystem::exists(files.certificate, ignored)) return net::tls_keys::of_certificates(files);
  const std::string own = std::filesystem::path(files.certificate).filename().string();
  if (s == side::shard && std::filesystem::exists(files.authority, ignored))
    reject(
        "--keys {0}: expected {1} for a parameter host, found none: copy shard.pem and shard.key from the "
        "folder where the keys were made; if it has none either, an older 'mailgrad keys new' made it, so "
        "make new keys in another folder for all processes, or give all of them the token, --keys {0}/token",
        where, own);
  if (!std::filesystem::exists(folder.token(), ignored))
    reject("--keys {}: expected {} or token, which 'mailgrad keys new' makes, found neither", where, own);
  return net::tls_keys::of_token(folder.token());
}

} // namespace

local_workers::~local_workers() {
  for (const process& p : all_)
    if (!p.ended) kill(p.id, SIGTERM);
  wait();
}

void local_workers::start(const std::string& address, std::uint32_t workers, const worker_args& words) {
  for (std::uint32_t w = 0; w < workers; ++w) {
    std::vector<std::string> line{"mailgrad",    "join",   address, fmt::format("--number={}", w),
                                  "--workers=1", "--quiet"};
    line.push_back("--devices=" + words.devices[w % words.devices.size()]);
    for (const std::string& file : words.plugins) line.push_back("--plugin=" + file);
    if (!words.data.empty())
      line.insert(line.end(), {"--data=" + words.data, "--data-limit=" + std::to_string(words.data_limit)});
    all_.push_back({started(std::move(line))});
  }
}

void local_workers::reap() {
  for (process& p : all_)
    if (!p.ended && waitpid(p.id, nullptr, WNOHANG) != 0) p.ended = true;
}

std::size_t local_workers::ended() {
  reap();
  return static_cast<std::size_t>(std::ranges::count_if(all_, &process::ended));
}

void local_workers::wait() {
  const auto late = std::chrono::steady_clock::now() + most_farewell;
  while (ended() < all_.size() && std::chrono::steady_clock::now() < late)
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
  for (process& p : all_)
    if (!p.ended) {
      kill(p.id, SIGKILL);
      waitpid(p.id, nullptr, 0);
      p.ended = true;
    }
}

std::string address_for_ranks(const std::string& listening, const std::string& host_name) {
  listen_address where = parse_listen_address(listening);
  if (where.is_every_network()) where.host = host_name;
  return to_string(where);
}

address_file::address_file(const std::filesystem::path& folder, const launch_place& place)
    : reader_(place.name()), path_(path_for(folder, place)) {}

address_file::~address_file() {
  if (published_) clear();
}

void address_file::clear() const noexcept {
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

void address_file::publish(const std::string& address) {
  std::filesystem::path beside = path_;
  beside += ".new";
  errno = 0;
  std::ofstream out(beside, std::ios::binary | std::ios::trunc);
  out << address << '\n';
  out.close();
  if (!out)
    throw std::system_error(errno != 0 ? errno : EIO, std::generic_category(),
                            fmt::format("{}: cannot be written, so no rank would find rank 0; give "
                                        "--rendezvous a folder that every rank sees",
                                        beside.string()));
  std::filesystem::rename(beside, path_);
  published_ = true;
}

std::optional<std::string> address_file::read() const {
  std::ifstream in(path_, std::ios::binary);
  std::string line;
  if (!in || !std::getline(in, line)) return std::nullopt;
  return line;
}

void address_file::wait_until_gone(std::chrono::seconds bound) const {
  const auto ends = clock::now() + bound;
  while (read() && clock::now() < ends) std::this_thread::sleep_for(between_looks);
}

std::string address_file::wait_for(std::chrono::seconds bound) const {
  constexpr std::chrono::seconds silence{2};
  const auto begin = clock::now();
  bool said = false;
  while (true) {
    if (auto address = read()) return *address;
    const auto waited = clock::now() - begin;
    if (waited >= bound) break;
    if (waited >= silence && !said) {
      said = true;
      std::cerr << fmt::format("{} waits for the address of rank 0 in {}, {} s at most\n", reader_,
                               path_.string(), bound.count());
    }
    std::this_thread::sleep_for(between_looks);
  }
  throw std::runtime_error(
      fmt::format("{}: expected the address of rank 0 in {} within {} s, found no such file: see what rank 0 "
                  "says, and give --rendezvous a folder that every rank sees",
                  reader_, path_.string(), bound.count()));
}

std::chrono::nanoseconds wait_when_alone(const remote_args& w) {
  if (w.when_alone == "end") return std::chrono::nanoseconds{0};
  if (w.when_alone == "wait") return std::chrono::nanoseconds::max();
  return std::chrono::seconds{parse_whole(w.when_alone).value()};
}

known_plugins plugins_of(const std::vector<std::string>& files) {
  known_plugins all;
  for (const std::string& file : files) all.load(file);
  return all;
}

std::shared_ptr<local_samples> samples_of(const std::string& data, std::uint64_t limit) {
  return data.empty() ? nullptr : std::make_shared<local_samples>(data, parsed_limit{limit << 30});
}

std::shared_ptr<net::network> network_with(const std::string& address, const std::string& keys, side s,
                                           std::chrono::milliseconds patience) {
  const bool is_memory = net::is_memory_address(address);
  if (is_memory && !keys.empty())
    reject("--keys: expected none for {}, since the system names the user of each process there: leave them "
           "away, or give HOST:PORT",
           address);
  if (is_memory) return std::make_shared<net::memory_network>(net::memory_options{.patience = patience});
  if (net::is_mpi_address(address))
    reject("'{}': expected HOST:PORT or memory:NAME, since ranks of MPI are started together: mpirun -n 4 "
           "mailgrad launch --transport mpi",
           address);
  net::tcp_options options;
  options.patience = patience;
  options.on_wait = [](const std::string& words) { say_line(words); };
  options.keys = keys_in(keys, s);
  return std::make_shared<net::tcp_network>(options);
}

} // namespace mailgrad
