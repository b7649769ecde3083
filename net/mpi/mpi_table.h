#pragma once

#include <cstddef>
#include <cstdint>

// What the small library that is linked with MPI hands to Mailgrad: a table of C, so that it may be compiled
// anew for another MPI, and nothing else of Mailgrad has to be.

/// The number of this layout. Another number is another table.
inline constexpr std::uint32_t mailgrad_mpi_layout = 2;

/// Every function returns 0, or a number that `words` turns into a text. All are called on one thread.
struct mailgrad_mpi_table {
  std::uint32_t layout;
  int (*begin)(int* rank, int* size);
  int (*send)(const void* data, std::size_t bytes, int to, int tag, std::uint64_t* request);
  int (*test)(std::uint64_t* request, int* done);
  /// `from` below 0: whoever it is.
  int (*look)(int from, int tag, int* found, int* who, std::size_t* bytes);
  int (*receive)(void* data, std::size_t bytes, int from, int tag);
  /// The sum over all ranks but rank 0, which may not call it, in the place of the values.
  int (*sum)(float* values, std::size_t count, std::uint64_t* request);
  int (*barrier)(std::uint64_t* request);
  int (*end)();
  void (*words)(int failed, char* to, std::size_t room);
};

/// The one function of the library.
extern "C" const mailgrad_mpi_table* mailgrad_mpi();
