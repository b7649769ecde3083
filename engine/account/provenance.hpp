#pragma once

#include <string>

namespace mailgrad {

/// The origin of a result: the build, the machine and the date. Unknown fields are empty.
struct provenance {
  std::string version;   ///< of Mailgrad
  std::string commit;    ///< the program was built from this commit; set by the program, such as the tool
  std::string compiler;  ///< "GNU 12.2.0"
  std::string date;      ///< when the run began, in UTC and the form of ISO 8601; set by the program
  std::string host;      ///< name of the machine
  std::string processor; ///< the name that the processor reports
};

/// The origin of this process, without commit and date, because the library does not read the date itself.
provenance this_program();

} // namespace mailgrad
