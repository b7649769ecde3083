#include <mailgrad/net/mpi/mpi_calls.hpp>

#include <gmock/gmock.h>

#include <stdexcept>

namespace mailgrad::net {
namespace {

using namespace ::testing;

TEST(MpiLibrary, SaysWhatToInstallWhereThereIsNone) {
  EXPECT_THAT(
      [] { mpi_of_library("/no/such/folder/libmailgrad_mpi.so"); },
      ThrowsMessage<std::runtime_error>(AllOf(HasSubstr("mpi: expected MPI on this machine, found none"),
                                              HasSubstr("openmpi-bin"), HasSubstr("--transport tcp"))));
}

TEST(MpiLibrary, RefusesALibraryThatIsAnother) {
  EXPECT_THAT([] { mpi_of_library("libc.so.6"); },
              ThrowsMessage<std::runtime_error>(HasSubstr("expected layout 2 of libc.so.6, found none")));
}

} // namespace
} // namespace mailgrad::net
