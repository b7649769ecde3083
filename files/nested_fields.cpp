#include <mailgrad/files/nested_fields.hpp>

#include <string>
#include <utility>
#include <vector>

namespace mailgrad {

void write_nested(archive& to, const saved_fields& fields) {
  std::string text = fields.text();
  std::vector<std::string> paths;
  for (const archived_array& x : fields.arrays()) paths.push_back(x.path);
  to.field("text", text);
  to.field("arrays", paths);
  for (const archived_array& x : fields.arrays()) to.hold(x.path, x.owner, x.values);
}

std::shared_ptr<saved_fields> read_nested(archive& from) {
  std::string text;
  std::vector<std::string> paths;
  from.field("text", text);
  from.field("arrays", paths);
  std::vector<archived_array> arrays;
  for (const std::string& path : paths) {
    const archived_array& read = from.array(path);
    const auto copy = std::make_shared<std::vector<float>>(read.values.begin(), read.values.end());
    arrays.push_back({path, copy, *copy});
  }
  return std::make_shared<saved_fields>(text, std::move(arrays));
}

void keep_nested(archive& a, std::string_view name, std::shared_ptr<saved_fields>& fields) {
  bool present = fields != nullptr;
  a.group(name, [&] {
    a.field("there", present);
    if (!present) return fields.reset();
    a.group("fields", [&] {
      if (a.reads())
        fields = read_nested(a);
      else
        write_nested(a, *fields);
    });
  });
}

} // namespace mailgrad
