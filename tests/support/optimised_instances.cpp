#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

// Linked first into each test binary, and optimised. Sources of tests are not, and where they and what they
// test use the same function of the standard library, the linker takes the first that comes.
template class std::basic_string<char>;
template class std::vector<std::byte>;
template class std::vector<float>;
template class std::vector<double>;
template class std::vector<std::size_t>;
template class std::vector<std::int32_t>;
template class std::vector<std::string>;
