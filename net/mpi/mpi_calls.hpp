#pragma once

#include <mailgrad/net/frame.hpp>

#include <memory>
#include <optional>

namespace mailgrad::net {

/// What a network needs of MPI. Messages from one rank to another with one tag arrive in the order in which
/// they were sent.
/// Errors  std::runtime_error with the words of MPI. Nothing more may be called then.
/// Threads one, which has called begin().
class mpi_calls {
public:
  struct place {
    int rank = 0;
    int size = 1;
  };
  /// A message that can be received.
  struct waiting {
    int from = 0;
    std::size_t bytes = 0;
  };
  /// Something under way, as MPI names it.
  using request = std::uint64_t;
  /// In place of a rank.
  static constexpr int anybody = -1;
  /// Every MPI has tags from 0 to this.
  static constexpr int most_tag = 32'767;

  virtual ~mpi_calls() = default;

  /// Waits until all ranks have called it. Once in the life of a process.
  virtual place begin() = 0;
  /// The bytes stay where they are until is_done().
  virtual request send(int to, int tag, byte_view data) = 0;
  /// Whether it has ended; it may not be asked again then.
  virtual bool is_done(request& r) = 0;
  /// The next message, without a wait.
  virtual std::optional<waiting> look(int from, int tag) = 0;
  /// Receives a message that look() has found, of exactly so many bytes.
  virtual void receive(int from, int tag, std::span<std::byte> to) = 0;
  /// Adds these numbers up with those of every other rank but rank 0, which takes no part. The sum lies in
  /// their place when is_done(), and they stay where they are until then. Every rank begins its sums in the
  /// same order, each with the same number of floats.
  virtual request begin_sum(std::span<float> values) = 0;
  /// Says that this rank comes to its end. It is done when all ranks have said so.
  virtual request begin_end() = 0;
  /// After that.
  virtual void end() = 0;
};

/// The MPI of this machine, by libmailgrad_mpi.so, which is linked with it. It is looked for beside this
/// program, in the folder of libraries of an installation, and then where the system's loader looks. It stays
/// loaded.
/// Errors  std::runtime_error in one line that says what to install.
std::unique_ptr<mpi_calls> mpi_of_this_machine();

/// The same from this file.
std::unique_ptr<mpi_calls> mpi_of_library(const std::string& file);

} // namespace mailgrad::net
