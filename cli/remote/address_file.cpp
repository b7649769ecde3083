#include <mailgrad/cli/remote/address_file.hpp>

#include <mailgrad/net/listen_address.hpp>

#include <fmt/format.h>

#include <cerrno>
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

} // namespace mailgrad
