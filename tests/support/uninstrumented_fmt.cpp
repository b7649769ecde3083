// libfmt is not compiled for ThreadSanitizer, but calls this function of the program that uses it. If the
// program's were compiled for it, ThreadSanitizer would report libfmt's writes to the stack as races, since a
// simulated GPU and its test use that stack in turn.

#include <fmt/format.h>

template void fmt::detail::buffer<char>::append<char>(const char*, const char*);
