#pragma once

#include <string>

namespace mailgrad {

/// Where a result comes from: which build, on which machine, and when. What is not known is empty.
struct provenance {
  std::string version;   ///< of Mailgrad
  std::string commit;    ///< that the program was built from; told by the program, the tool for one
  std::string compiler;  ///< "GNU 12.2.0"
  std::string date;      ///< at which the run began, in UTC as ISO 8601 has it; told by the program
  std::string host;      ///< its name
  std::string processor; ///< as it calls itself
};

/// Of this process, without commit and date, since the library reads no clock of its own.
provenance this_program();

} // namespace mailgrad
