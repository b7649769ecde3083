#include <mailgrad/files/lock_holder.hpp>

#include <fmt/format.h>

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <fstream>
#include <sstream>

namespace mailgrad {

/// Linux lists locks as "1: FLOCK  ADVISORY  WRITE 4711 fe:00:10952906 0 EOF", the device in hexadecimal. A
/// process of another name space is 0 there, and one that waits has "->" in its line.
std::string lock_holder_in_words(const std::string& path) {
  struct stat file {};
  if (stat(path.c_str(), &file) != 0) return {};
  const std::string place =
      fmt::format("{:02x}:{:02x}:{}", major(file.st_dev), minor(file.st_dev), file.st_ino);
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    std::istringstream words(line);
    std::string number, kind, advisory, access, where;
    long process = 0;
    const bool held = static_cast<bool>(words >> number >> kind >> advisory >> access >> process >> where);
    if (held && kind == "FLOCK" && where == place && process > 0)
      return fmt::format(" (process {})", process);
  }
  return {};
}

} // namespace mailgrad
