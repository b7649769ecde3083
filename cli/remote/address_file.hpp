#pragma once

#include <mailgrad/cli/remote/launch_place.hpp>

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

namespace mailgrad {

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
  /// Removes what was published.
  ~address_file();
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

} // namespace mailgrad
