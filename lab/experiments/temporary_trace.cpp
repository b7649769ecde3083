#include <mailgrad/lab/experiments/temporary_trace.hpp>

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>

namespace mailgrad::lab {

temporary_trace::temporary_trace(std::string_view lines)
    : file_((std::filesystem::temp_directory_path() / "mailgrad-trace-XXXXXX").string()) {
  const int made = mkstemp(file_.data());
  if (made < 0) throw std::runtime_error("lab: no temporary file can be made for a trace of delays");
  close(made);
  std::ofstream out(file_);
  if (!(out << lines << std::flush)) {
    unlink(file_.c_str());
    throw std::runtime_error("lab: there is no room for a trace of delays in " + file_);
  }
}

temporary_trace::~temporary_trace() { unlink(file_.c_str()); }

} // namespace mailgrad::lab
