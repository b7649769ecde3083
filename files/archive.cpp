#include <mailgrad/files/archive.hpp>

#include <mailgrad/files/file_error.hpp>
#include <mailgrad/files/text.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace mailgrad {

namespace {

using json = nlohmann::json;

constexpr const char* version_name = "format_version";

/// JSON has no such numbers.
json special_name(double x) { return std::isnan(x) ? "nan" : x > 0 ? "inf" : "-inf"; }

std::optional<double> special(const json& j) {
  if (j == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (j == "inf") return std::numeric_limits<double>::infinity();
  if (j == "-inf") return -std::numeric_limits<double>::infinity();
  return std::nullopt;
}

/// A path in an error. Names of entries may come from anybody, and an error is one line.
std::string shown(std::string_view path) {
  std::string text;
  while (!path.empty()) {
    const std::size_t end = std::min(path.find('/'), path.size());
    text += (text.empty() ? "" : "/") + legible(path.substr(0, end));
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return text;
}

} // namespace

/// The tree of fields, and the way from its root to the present place.
class saved_fields::tree {
public:
  json root = json::object();
  std::vector<json*> way{&root};
  std::vector<std::string> names; ///< of the fields on the way, as text_in_json()
  std::vector<archived_array> arrays;
  bool reads = false;

  json& here() { return *way.back(); }
};

saved_fields::saved_fields() : tree_(std::make_unique<tree>()) {}

saved_fields::saved_fields(const std::string& text, std::vector<archived_array> arrays) : saved_fields() {
  tree_->root = json::parse(whole_json(text), nullptr, false);
  if (!tree_->root.is_object()) throw archive_error("the fields are no JSON object");
  tree_->arrays = std::move(arrays);
  tree_->reads = true;
}

saved_fields::~saved_fields() = default;

bool saved_fields::reads() const noexcept { return tree_->reads; }

std::string saved_fields::path_of(std::string_view name) const {
  std::string path;
  for (const std::string& part : tree_->names) path += part + '/';
  return path.append(text_in_json(name));
}

void saved_fields::fail(const std::string& what) const {
  throw archive_error(shown(path_of("")) + ": " + what);
}

void saved_fields::open(std::string_view name) {
  json& here = tree_->here();
  const std::string key = text_in_json(name);
  if (!reads() && here.contains(key))
    throw std::logic_error("archive: a field is written twice: " + path_of(name));
  if (reads() && (!here.is_object() || !here.contains(key)))
    throw archive_error(shown(path_of(name)) + ": expected a field, found none");
  tree_->way.push_back(&here[key]);
  tree_->names.push_back(key);
}

void saved_fields::open(std::size_t index) {
  tree_->way.push_back(&tree_->here()[index]);
  tree_->names.push_back(std::to_string(index));
}

void saved_fields::close() noexcept {
  tree_->way.pop_back();
  tree_->names.pop_back();
}

void saved_fields::version(std::uint64_t current) {
  std::uint64_t found = current;
  field(version_name, found);
  if (found != current)
    fail(fmt::format("is of version {}, and this build knows version {}", found, current));
}

void saved_fields::value(bool& x) {
  json& here = tree_->here();
  if (!reads())
    here = x;
  else if (!here.is_boolean())
    fail("expected true or false");
  else
    x = here.get<bool>();
}

void saved_fields::value(double& x) {
  json& here = tree_->here();
  if (!reads()) {
    here = std::isfinite(x) ? json(x) : special_name(x);
  } else if (const auto found = special(here)) {
    x = *found;
  } else if (!here.is_number()) {
    fail("expected a number");
  } else {
    x = here.get<double>();
  }
}

void saved_fields::value(std::string& x) {
  json& here = tree_->here();
  if (!reads())
    here = text_in_json(x);
  else if (!here.is_string())
    fail("expected a text");
  else
    x = bytes_of_text_in_json(here.get_ref<const std::string&>());
}

void saved_fields::number(std::uint64_t& x, std::uint64_t greatest) {
  json& here = tree_->here();
  if (!reads()) {
    here = x;
    return;
  }
  if (!here.is_number_unsigned() || here.get<std::uint64_t>() > greatest)
    fail(fmt::format("expected a whole number up to {}", greatest));
  x = here.get<std::uint64_t>();
}

void saved_fields::number(std::int64_t& x, std::int64_t least, std::int64_t greatest) {
  json& here = tree_->here();
  if (!reads()) {
    here = x;
    return;
  }
  const bool small = here.is_number_integer() &&
                     (!here.is_number_unsigned() ||
                      here.get<std::uint64_t>() <= std::uint64_t{std::numeric_limits<std::int64_t>::max()});
  if (!small || here.get<std::int64_t>() < least || here.get<std::int64_t>() > greatest)
    fail(fmt::format("expected a whole number from {} to {}", least, greatest));
  x = here.get<std::int64_t>();
}

bool saved_fields::presence(bool present) {
  if (reads()) return !tree_->here().is_null();
  if (!present) tree_->here() = nullptr;
  return present;
}

std::size_t saved_fields::entries(std::size_t count) {
  json& here = tree_->here();
  if (!reads()) {
    here = json::array();
    here.get_ref<json::array_t&>().resize(count);
    return count;
  }
  if (!here.is_array()) fail("expected a list");
  return here.size();
}

std::vector<std::string> saved_fields::names(std::vector<std::string> written) {
  json& here = tree_->here();
  if (!reads()) {
    here = json::object();
    return written;
  }
  if (!here.is_object()) fail("expected named entries");
  std::vector<std::string> found;
  for (const auto& [name, of_name] : here.items()) found.push_back(bytes_of_text_in_json(name));
  return found;
}

void saved_fields::floats(std::string_view name, std::span<float> values) {
  if (!reads()) {
    const auto copy = std::make_shared<const std::vector<float>>(values.begin(), values.end());
    return hold(name, copy, *copy);
  }
  const archived_array& found = array(name);
  if (found.values.size() != values.size())
    throw archive_error(fmt::format("{}: expected {} floats, found {}", shown(found.path), values.size(),
                                    found.values.size()));
  std::ranges::copy(found.values, values.begin());
}

void saved_fields::hold(std::string_view name, std::shared_ptr<const void> owner,
                        std::span<const float> values) {
  tree_->arrays.push_back({path_of(name), std::move(owner), values});
}

const archived_array& saved_fields::array(std::string_view name) {
  const std::string path = path_of(name);
  const auto found = std::ranges::find(tree_->arrays, path, &archived_array::path);
  if (found == tree_->arrays.end()) throw archive_error(shown(path) + ": expected an array, found none");
  return *found;
}

std::string saved_fields::text() const { return tree_->root.dump(); }

const std::vector<archived_array>& saved_fields::arrays() const noexcept { return tree_->arrays; }

} // namespace mailgrad
