#include <mailgrad/graph/models/json_depth.hpp>

namespace mailgrad {

bool is_too_deep(std::string_view json) noexcept {
  std::size_t depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_string && c == '\\')
      ++i;
    else if (c == '"')
      in_string = !in_string;
    else if (!in_string && (c == '[' || c == '{'))
      ++depth;
    else if (!in_string && (c == ']' || c == '}') && depth > 0)
      --depth;
    if (depth > most_json_depth) return true;
  }
  return false;
}

} // namespace mailgrad
