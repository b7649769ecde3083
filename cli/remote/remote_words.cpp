#include <mailgrad/cli/option_checks.hpp>
#include <mailgrad/cli/output/failure_line.hpp>
#include <mailgrad/cli/remote/remote_words.hpp>
#include <mailgrad/net/listen_address.hpp>
#include <mailgrad/net/memory/memory_network.hpp>
#include <mailgrad/net/tcp/tcp_network.hpp>
#include <mailgrad/net/tls/key_folder.hpp>
#include <mailgrad/options/number.hpp>

#include <fmt/format.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <system_error>
#include <thread>

namespace mailgrad {

namespace {

using clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds between_looks{20};

std::filesystem::path path_for(const std::filesystem::path& folder, const launch_place& place) {
  if (place.run.empty())
    throw std::invalid_argument(
        fmt::format("launch: {} gives no name of the run by which its ranks could find a file: give --listen "
                    "HOST:PORT, with an address of the host of rank 0",
                    place.launcher));
  return folder / fmt::format("mailgrad-{}-{}.address", place.launcher, place.run);
}

} // namespace

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
    throw std::system_error(
        errno != 0 ? errno : EIO, std::generic_category(),
        fmt::format("{}: cannot be written, so no rank would find rank 0; give --rendezvous a folder that "
                    "every rank sees",
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
  throw std::runtime_error(fmt::format(
      "{}: expected the address of rank 0 in {} within {} s, found no such file: see what rank 0 says, and "
      "give --rendezvous a folder that every rank sees",
      reader_, path_.string(), bound.count()));
}

namespace {

constexpr const char* group = "Processes";
constexpr std::uint32_t most_processes = 256;
constexpr std::uint32_t most_seconds = 604'800; // a week
constexpr std::uint64_t most_data_gibibytes = std::uint64_t{1} << 20;

net::certificate_files files_of(const net::key_folder& folder, side s) {
  if (s == side::shard) return folder.of_shard();
  return s == side::server ? folder.of_server() : folder.of_worker();
}

std::shared_ptr<const net::tls_keys> keys_in(const std::string& where, side s) {
  if (where.empty()) return nullptr;
  std::error_code ignored;
  if (!std::filesystem::is_directory(where, ignored)) return net::tls_keys::of_token(where);
  const net::key_folder folder(where);
  const net::certificate_files files = files_of(folder, s);
  if (std::filesystem::exists(files.certificate, ignored)) return net::tls_keys::of_certificates(files);
  const std::string own = std::filesystem::path(files.certificate).filename().string();
  if (s == side::shard && std::filesystem::exists(files.authority, ignored))
    throw std::invalid_argument(fmt::format(
        "--keys {0}: expected {1} for a parameter host, found none: copy shard.pem and shard.key "
        "from the folder where the keys were made; if it has none either, an older 'mailgrad keys "
        "new' made it, so make new keys in another folder for all processes, or give all of them "
        "the token, --keys {0}/token",
        where, own));
  if (!std::filesystem::exists(folder.token(), ignored))
    throw std::invalid_argument(fmt::format(
        "--keys {}: expected {} or token, which 'mailgrad keys new' makes, found neither", where, own));
  return net::tls_keys::of_token(folder.token());
}

CLI::Validator when_alone_text() {
  return {[](const std::string& word) {
            const auto seconds = parse_whole(word);
            const bool right =
                word == "end" || word == "wait" || (seconds && *seconds >= 1 && *seconds <= most_seconds);
            return right ? std::string()
                         : fmt::format("must be end, wait or a number of seconds from 1 to {}, not '{}'",
                                       most_seconds, word);
          },
          ""};
}

} // namespace

void add_keys_option(CLI::App& parser, std::string& keys) {
  parser
      .add_option("--keys", keys,
                  "Encrypt, and know each other by the keys of this folder, which 'mailgrad keys new' makes, "
                  "or by this file with a token; without it only processes of this machine meet")
      ->check(file_name())
      ->type_name("DIR|FILE")
      ->group(group);
}

void add_listen_options(CLI::App& parser, remote_words& w) {
  parser
      .add_option("--listen", w.listen,
                  "Where workers find the run; 0.0.0.0 is every network of this machine, and port 0 any that "
                  "is free; "
                  "memory:NAME is the memory of this machine, for processes of this user")
      ->check(file_name())
      ->type_name("HOST:PORT|memory:NAME")
      ->capture_default_str()
      ->group(group);
  parser
      .add_option(
          "--shard-hosts", w.shard_hosts,
          "Leave the shards to so many processes that come by 'mailgrad shard --join'; 0 keeps them here")
      ->check(whole_number(0, most_processes))
      ->capture_default_str()
      ->group(group);
  parser
      .add_option("--devices-per-worker", w.devices,
                  "How many devices each worker brings, over which its model spans by --replicate or "
                  "--pipeline")
      ->check(whole_number(1, most_processes))
      ->capture_default_str()
      ->group(group);
  parser
      .add_option(
          "--seats", w.seats,
          "How many workers may be in the run at once, since more than --workers may join while it goes on; "
          "as many as --workers by default")
      ->check(whole_number(1, most_processes))
      ->group(group);
  parser
      .add_option("--wait-for-workers", w.wait_for_workers,
                  "Give up if --workers have not joined within so many seconds; by default it waits for ever")
      ->check(whole_number(1, most_seconds))
      ->type_name("SECONDS")
      ->group(group);
  add_patience_options(parser, w);
  add_keys_option(parser, w.keys);
}

void add_patience_options(CLI::App& parser, remote_words& w) {
  parser
      .add_option(
          "--when-alone", w.when_alone,
          "What the run does when all its workers are gone and there is something left to train: end, "
          "wait for another, or wait for so many seconds. A worker that was cut off or stopped tries to come "
          "back for a minute")
      ->check(when_alone_text())
      ->type_name("end|wait|SECONDS")
      ->capture_default_str()
      ->group(group);
  parser
      .add_option(
          "--heartbeat", w.heartbeat,
          "How often each process gives a sign of life; a worker of which none comes for six times as long "
          "is lost, and a parameter host for a minute. The server tells all others")
      ->check(whole_number(50, net::timing::most_heartbeat.count()))
      ->type_name("MILLISECONDS")
      ->capture_default_str()
      ->group(group);
}

std::chrono::nanoseconds wait_when_alone(const remote_words& w) {
  if (w.when_alone == "end") return std::chrono::nanoseconds{0};
  if (w.when_alone == "wait") return std::chrono::nanoseconds::max();
  return std::chrono::seconds{parse_whole(w.when_alone).value()};
}

void add_wire_option(CLI::App& parser, remote_words& w) {
  parser
      .add_option(
          "--wire", w.wire,
          "How gradients travel between processes: float32, or in fewer bits by float16, bfloat16, int8, "
          "top-k:SHARE or 1-bit, where a worker keeps what a message lacks for the next one")
      ->type_name("FORMAT")
      ->capture_default_str()
      ->group(group);
}

void add_send_batches_flag(CLI::App& parser, remote_words& w) {
  parser
      .add_flag(
          "--send-batches", w.sends_batches,
          "Send mini-batches to the workers that are started here, in place of letting each of them hold "
          "--data in its own memory")
      ->disable_flag_override()
      ->group(group);
}

void add_own_data_options(CLI::App& parser, std::string& data, std::uint64_t& limit) {
  auto* own =
      parser
          .add_option(
              "--data", data,
              "Cut mini-batches from this data set of this machine if it holds the samples of the run, "
              "so that they need not be sent: a name, folder or file as for 'mailgrad train'. It is "
              "read as the server reads its own; by default nothing is read")
          ->check(file_name());
  parser.add_option("--data-limit", limit, "The most memory, in GiB, that the samples of a file may take")
      ->check(whole_number(1, most_data_gibibytes))
      ->needs(own)
      ->capture_default_str();
}

void add_plugin_option(CLI::App& parser, std::vector<std::string>& files) {
  parser
      .add_option("--plugin", files,
                  "Load this plug-in, which the run may then ask for: one of the same SHA-256 as that of the "
                  "server. No other is ever loaded. Several may be named")
      ->check(file_name())
      ->type_name("FILE")
      ->allow_extra_args(false);
}

known_plugins plugins_of(const std::vector<std::string>& files) {
  known_plugins all;
  for (const std::string& file : files) all.load(file);
  return all;
}

std::shared_ptr<own_samples> samples_of(const std::string& data, std::uint64_t limit) {
  return data.empty() ? nullptr : std::make_shared<own_samples>(data, parsed_limit{limit << 30});
}

void add_processes_option(CLI::App& parser, remote_words& w) {
  parser
      .add_option(
          "--processes", w.processes,
          "Start so many workers as processes of their own, on --devices in turns, or on equal shares of "
          "them with --replicate or --pipeline; this process keeps coordinator, feeder and shards. 0: none; "
          "the workers of a run that --resume goes on with come into this process")
      ->check(whole_number(0, most_processes))
      ->group(group);
}

std::shared_ptr<net::network> network_with(const std::string& address, const std::string& keys, side s,
                                           std::chrono::milliseconds patience) {
  const bool is_memory = net::is_memory_address(address);
  if (is_memory && !keys.empty())
    throw std::invalid_argument(
        fmt::format("--keys: expected none for {}, since the system names the user of "
                    "each process there: leave them away, or give HOST:PORT",
                    address));
  if (is_memory) return std::make_shared<net::memory_network>(net::memory_options{.patience = patience});
  if (net::is_mpi_address(address))
    throw std::invalid_argument(fmt::format("'{}': expected HOST:PORT or memory:NAME, since ranks of MPI are "
                                            "started together: mpirun -n 4 mailgrad launch --transport mpi",
                                            address));
  net::tcp_options options;
  options.patience = patience;
  options.on_wait = [](const std::string& words) { say_line(words); };
  options.keys = keys_in(keys, s);
  return std::make_shared<net::tcp_network>(options);
}

} // namespace mailgrad
