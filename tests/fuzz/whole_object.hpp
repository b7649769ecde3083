#pragma once

#include <mailgrad/files/archive.hpp>

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mailgrad::fuzz {

struct inner_object {
  std::uint32_t count = 0;
  std::optional<double> share{};

  void keep(archive& a) {
    a.version(1);
    a.field("count", count);
    a.field("share", share);
  }
};

/// An object with a field of each kind.
struct whole_object {
  bool flag = false;
  std::int16_t below = 0;
  std::uint64_t most = 0;
  float small = 0;
  std::string text{};
  std::vector<inner_object> list{};
  std::vector<bool> flags{};
  std::pair<std::uint8_t, std::string> both{};
  std::map<std::string, std::uint64_t> named{};
  std::array<std::uint16_t, 3> three{};
  std::array<float, 4> weights{};
  std::vector<float> any{};

  void keep(archive& a) {
    a.version(7);
    a.field("flag", flag);
    a.field("below", below);
    a.field("most", most);
    a.field("small", small);
    a.field("text", text);
    a.field("list", list);
    a.field("flags", flags);
    a.field("both", both);
    a.field("named", named);
    a.field("three", three);
    a.group("numbers", [&] { a.floats("weights", weights); });
    if (a.reads()) {
      const auto found = a.array("any").values;
      any.assign(found.begin(), found.end());
    } else {
      a.hold("any", nullptr, any);
    }
  }
};

} // namespace mailgrad::fuzz
