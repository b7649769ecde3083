#include <mailgrad/files/synced_folder.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace mailgrad {

int sync_folder(const std::filesystem::path& folder) {
  const int descriptor = open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return 0;
  const int failure = fsync(descriptor) == 0 || errno == EINVAL ? 0 : errno;
  close(descriptor);
  return failure;
}

} // namespace mailgrad
