#include <mailgrad/options/settings.hpp>

#include <mailgrad/options/nearest_name.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <system_error>

namespace mailgrad {

namespace {

template <class Number>
bool read(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size();
}

std::string quoted(std::string_view text) { return '\'' + std::string(text) + '\''; }

std::string range(double low, double high) {
  char text[64];
  if (std::isinf(high))
    std::snprintf(text, sizeof text, "at least %g", low);
  else
    std::snprintf(text, sizeof text, "at least %g and less than %g", low, high);
  return text;
}

} // namespace

settings::settings(std::string_view what, std::string_view text)
    : what_(what), name_(text.substr(0, text.find(':'))) {
  if (name_.size() == text.size()) return;
  std::string_view rest = text.substr(name_.size() + 1);
  if (rest.ends_with(',')) fail("a setting is missing behind the last comma; write key=value");
  while (!rest.empty()) {
    const std::string_view part = rest.substr(0, rest.find(','));
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) fail(quoted(part) + " is no setting; write key=value");
    const std::string_view key = part.substr(0, equals);
    if (std::ranges::find(all_, key, &setting::key) != all_.end()) fail(quoted(key) + " comes twice");
    all_.push_back({key, part.substr(equals + 1)});
    rest.remove_prefix(std::min(rest.size(), part.size() + 1));
  }
}

void settings::fail(const std::string& why) const {
  throw std::invalid_argument(std::string(what_) + ' ' + quoted(name_) + ": " + why);
}

settings::setting* settings::find(std::string_view key) {
  known_.push_back(key);
  for (setting& s : all_) {
    if (s.key != key) continue;
    s.taken = true;
    return &s;
  }
  return nullptr;
}

void settings::take(std::string_view key, double& value, double low, double high) {
  const setting* s = find(key);
  if (!s) return;
  if (!read(s->value, value) || !(value >= low && value < high))
    fail(std::string(key) + " must be " + range(low, high) + ", not " + quoted(s->value));
}

void settings::take(std::string_view key, std::uint64_t& value) {
  const setting* s = find(key);
  if (s && !read(s->value, value))
    fail(std::string(key) + " must be a whole number, not " + quoted(s->value));
}

void settings::refuse(std::string_view key, std::string_view why) const {
  for (const setting& s : all_)
    if (!s.taken && s.key == key) fail("there is no setting " + quoted(key) + "; " + std::string(why));
}

void settings::require_nothing_left() const {
  for (const setting& s : all_)
    if (!s.taken)
      fail("there is no setting " + quoted(s.key) +
           (known_.empty() ? std::string() : "; " + suggestion(s.key, known_)));
}

} // namespace mailgrad
