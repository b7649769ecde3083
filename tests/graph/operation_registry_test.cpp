#include <mailgrad/graph/operation_registry.hpp>

#include <mailgrad/files/byte_archive.hpp>

#include <gmock/gmock.h>

namespace mailgrad {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class own : public operation, public serialisable<own> {
public:
  explicit own(std::string kind = "acme.own") : kind_(std::move(kind)) {}
  void keep(archive&) {}
  std::string_view name() const noexcept override { return kind_; }
  std::vector<value_type> infer(std::span<const value_type>) const override { return {{}}; }
  std::unique_ptr<executable> prepare(std::span<const value_type>, std::span<const value_type>,
                                      device_kind) const override {
    return nullptr;
  }

private:
  std::string kind_;
};

TEST(OperationRegistry, MakesAnOperationOfItsKind) {
  operation_registry known;
  known.add<own>();
  byte_archive_reader nothing("");
  EXPECT_EQ(known.make("acme.own", nothing)->name(), "acme.own");
  EXPECT_EQ(known.make("softmax", nothing)->name(), "softmax");
}

TEST(OperationRegistry, NamesTheNearestKind) {
  const operation_registry known;
  byte_archive_reader nothing("");
  EXPECT_THAT([&] { known.make("softmaxx", nothing); },
              ThrowsMessage<graph_error>(
                  AllOf(HasSubstr("no operation of kind 'softmaxx'"), HasSubstr("'softmax'"))));
}

TEST(OperationRegistry, WantsAnOwnerBeforeTheNameOfAnOwnOperation) {
  operation_registry known;
  for (const char* kind : {"own", ".own", "acme."})
    EXPECT_THAT([&] { known.add(own(kind)); },
                ThrowsMessage<std::invalid_argument>(HasSubstr("needs its owner")))
        << kind;
}

TEST(OperationRegistry, HasEachKindOnce) {
  operation_registry known;
  known.add<own>();
  EXPECT_THAT([&] { known.add<own>(); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("already an operation")));
  EXPECT_THAT([&] { known.add("acme.none", {}); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("no function")));
}

} // namespace
} // namespace mailgrad
