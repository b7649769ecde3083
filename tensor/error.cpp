#include <mailgrad/tensor/error.hpp>

#include <fmt/format.h>

namespace mailgrad {

namespace {

class world_category_type : public std::error_category {
public:
  const char* name() const noexcept override { return "mailgrad"; }

  std::string message(int code) const override {
    switch (static_cast<world_errc>(code)) {
    case world_errc::no_such_device:
      return "no such device";
    case world_errc::device_failure:
      return "device failure";
    case world_errc::malformed_file:
      return "malformed file";
    case world_errc::malformed_message:
      return "malformed message";
    case world_errc::out_of_memory:
      return "out of memory";
    case world_errc::wrong_place:
      return "wrong place";
    }
    return fmt::format("unknown error {}", code);
  }
};

} // namespace

const std::error_category& world_category() noexcept {
  static const world_category_type category;
  return category;
}

} // namespace mailgrad
