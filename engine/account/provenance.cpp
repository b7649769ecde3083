#include <mailgrad/engine/account/provenance.hpp>

#include <fstream>

#include <sys/utsname.h>

namespace mailgrad {

namespace {

/// The first "model name" of /proc/cpuinfo; not every kernel has one.
std::string model_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    const std::size_t begin = line.find_first_not_of(" \t", line.find(':') + 1);
    return begin == std::string::npos ? std::string() : line.substr(begin);
  }
  return {};
}

} // namespace

provenance this_program() {
  provenance p;
  p.version = MAILGRAD_VERSION;
  p.compiler = MAILGRAD_COMPILER;
  p.processor = model_name();
  utsname system{};
  if (uname(&system) != 0) return p;
  p.host = system.nodename;
  if (p.processor.empty()) p.processor = system.machine;
  return p;
}

} // namespace mailgrad
