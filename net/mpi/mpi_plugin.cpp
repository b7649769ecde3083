// The library libmailgrad_mpi.so: the only source that includes mpi.h and is linked with MPI.

#include <mailgrad/net/mpi/mpi_table.h>

#include <mpi.h>

#include <climits>
#include <cstdio>
#include <cstring>

namespace {

constexpr int not_at_the_begin = -1; // MPI's own numbers are not negative
constexpr int no_threads = -2;

MPI_Comm ours = MPI_COMM_NULL;
MPI_Comm workers = MPI_COMM_NULL; // every rank of `ours` but rank 0, which is the server

static_assert(sizeof(MPI_Request) <= sizeof(std::uint64_t));

MPI_Request request_in(std::uint64_t number) {
  MPI_Request r;
  std::memcpy(&r, &number, sizeof r);
  return r;
}

std::uint64_t number_of(MPI_Request r) {
  std::uint64_t number = 0;
  std::memcpy(&number, &r, sizeof r);
  return number;
}

int begin(int* rank, int* size) {
  int was_begun = 0;
  if (const int failed = MPI_Initialized(&was_begun)) return failed;
  if (was_begun) return not_at_the_begin;
  int given = MPI_THREAD_SINGLE;
  if (const int failed = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &given)) return failed;
  if (given < MPI_THREAD_FUNNELED) return no_threads;
  // A communicator of its own, so that no message of anybody else's is taken for one of these.
  if (const int failed = MPI_Comm_dup(MPI_COMM_WORLD, &ours)) return failed;
  MPI_Comm_set_errhandler(ours, MPI_ERRORS_RETURN);
  MPI_Comm_rank(ours, rank);
  MPI_Comm_size(ours, size);
  if (const int failed = MPI_Comm_split(ours, *rank == 0 ? MPI_UNDEFINED : 0, *rank, &workers)) return failed;
  return workers == MPI_COMM_NULL ? MPI_SUCCESS : MPI_Comm_set_errhandler(workers, MPI_ERRORS_RETURN);
}

int send(const void* data, std::size_t bytes, int to, int tag, std::uint64_t* request) {
  if (bytes > INT_MAX) return MPI_ERR_COUNT;
  MPI_Request made = MPI_REQUEST_NULL;
  const int failed = MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, to, tag, ours, &made);
  *request = number_of(made);
  return failed;
}

int test(std::uint64_t* request, int* done) {
  MPI_Request asked = request_in(*request);
  const int failed = MPI_Test(&asked, done, MPI_STATUS_IGNORE);
  *request = number_of(asked);
  return failed;
}

int look(int from, int tag, int* found, int* who, std::size_t* bytes) {
  MPI_Status status;
  if (const int failed = MPI_Iprobe(from < 0 ? MPI_ANY_SOURCE : from, tag, ours, found, &status))
    return failed;
  if (!*found) return MPI_SUCCESS;
  int count = 0;
  *who = status.MPI_SOURCE;
  const int failed = MPI_Get_count(&status, MPI_BYTE, &count);
  *bytes = count < 0 ? SIZE_MAX : static_cast<std::size_t>(count);
  return failed;
}

int receive(void* data, std::size_t bytes, int from, int tag) {
  if (bytes > INT_MAX) return MPI_ERR_COUNT;
  return MPI_Recv(data, static_cast<int>(bytes), MPI_BYTE, from, tag, ours, MPI_STATUS_IGNORE);
}

int sum(float* values, std::size_t count, std::uint64_t* request) {
  if (workers == MPI_COMM_NULL) return MPI_ERR_COMM;
  if (count > INT_MAX) return MPI_ERR_COUNT;
  MPI_Request made = MPI_REQUEST_NULL;
  const int failed =
      MPI_Iallreduce(MPI_IN_PLACE, values, static_cast<int>(count), MPI_FLOAT, MPI_SUM, workers, &made);
  *request = number_of(made);
  return failed;
}

int barrier(std::uint64_t* request) {
  MPI_Request made = MPI_REQUEST_NULL;
  const int failed = MPI_Ibarrier(ours, &made);
  *request = number_of(made);
  return failed;
}

int end() {
  if (workers != MPI_COMM_NULL)
    if (const int failed = MPI_Comm_free(&workers)) return failed;
  if (const int failed = MPI_Comm_free(&ours)) return failed;
  return MPI_Finalize();
}

void words(int failed, char* to, std::size_t room) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  if (failed == not_at_the_begin)
    std::snprintf(text, sizeof text, "this process has begun with MPI already, and it can be begun but once");
  else if (failed == no_threads)
    std::snprintf(text, sizeof text, "this MPI allows no threads (MPI_THREAD_FUNNELED)");
  else
    MPI_Error_string(failed, text, &length);
  std::snprintf(to, room, "%s", text);
}

constexpr mailgrad_mpi_table table{
    mailgrad_mpi_layout, begin, send, test, look, receive, sum, barrier, end, words};

} // namespace

extern "C" const mailgrad_mpi_table* mailgrad_mpi() { return &table; }
