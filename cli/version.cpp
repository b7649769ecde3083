#include <mailgrad/cli/version.hpp>

#include <mailgrad/engine/account/provenance.hpp>
#include <mailgrad/kernels/arithmetic.hpp>

#include <ctime>

namespace mailgrad {

std::string version_in_words() {
  const provenance here = this_program();
  return "mailgrad " + here.version + "\ncommit   " + build_commit + "\ncompiler " + here.compiler +
         "\nkernels  for " + kernel_instructions();
}

std::string utc_date(std::chrono::system_clock::time_point when) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(when);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

} // namespace mailgrad
