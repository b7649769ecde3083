#include <mailgrad/files/byte_archive.hpp>
#include <mailgrad/graph/operation_registry.hpp>
#include <mailgrad/graph/serial/graph_bytes.hpp>
#include <mailgrad/graph/serialisable.hpp>
#include <mailgrad/tests/graph/serial/sample_graphs.hpp>
#include <mailgrad/tests/support/gradient_check.hpp>

#include <array>

namespace mailgrad {
namespace {

using test::apply_custom, test::every_operation, test::expect_serialised, test::is_refused, test::written;
using testing::throws;

class own : public test::idle_operation, public serialisable<own> {
public:
  explicit own(std::string kind = "acme.own") : kind_(std::move(kind)) {}
  void keep(archive&) {}
  std::string_view name() const noexcept override { return kind_; }

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
              is_refused("no operation of kind 'softmaxx'", "'softmax'"));
}

TEST(OperationRegistry, WantsAnOwnerBeforeTheNameOfAnOwnOperation) {
  operation_registry known;
  for (const char* kind : {"own", ".own", "acme."})
    EXPECT_THAT([&] { known.add(own(kind)); }, throws<std::invalid_argument>("needs its owner")) << kind;
}

TEST(OperationRegistry, HasEachKindOnce) {
  operation_registry known;
  known.add<own>();
  EXPECT_THAT([&] { known.add<own>(); }, throws<std::invalid_argument>("already an operation"));
  EXPECT_THAT([&] { known.add("acme.none", {}); }, throws<std::invalid_argument>("no function"));
}

/// An operation of a user's own, as programs have them that were written before graphs travelled.
class stays_at_home : public test::idle_operation {
public:
  std::string_view name() const noexcept override { return "homely"; }
};

class doubled : public test::idle_operation, public serialisable<doubled> {
public:
  static constexpr std::string_view custom_kind = "acme.doubled";
  std::uint64_t version = 1;
  void keep(archive& a) { a.version(version); }
  std::string_view name() const noexcept override { return "doubled"; }
  std::vector<value_type> infer(std::span<const value_type> in) const override {
    require_operand_count(in, 1);
    return {in[0]};
  }
};

TEST(Serialisable, NamesAnOperationThatCannotTravel) {
  graph g;
  const value y = apply_custom(std::make_shared<stays_at_home>(), g.input("x", {2}));
  EXPECT_THAT([&] { written(g, y); }, is_refused("serialisable_test.cpp:", "homely cannot travel",
                                                 "stays_at_home has no serial_form"));
}

TEST(Serialisable, NamesAnOperationThatTheReaderLacks) {
  graph g;
  const value y = apply_custom(std::make_shared<doubled>(), g.input("x", {2}));
  const auto there = written(g, y);
  graph copy;
  EXPECT_THAT([&] { read_graph(copy, there, {}); },
              is_refused("there is no operation of kind 'acme.doubled' here", "serialisable_test.cpp:"));
  operation_registry known;
  known.add<doubled>();
  expect_serialised(g, known);
}

TEST(Serialisable, RefusesAttributesOfAnotherVersion) {
  graph g;
  const auto newer = std::make_shared<doubled>();
  newer->version = 2;
  const auto there = written(g, apply_custom(newer, g.input("x", {2})));
  operation_registry known;
  known.add<doubled>();
  graph copy;
  EXPECT_THAT([&] { read_graph(copy, there, known); },
              throws<archive_error>("node 1, 'acme.doubled': attributes",
                                    "is of version 2, and this build knows version 1"));
}

/// Applies the operation of a node to other operands in the same graph.
bool takes_no(graph& g, const node& n, std::vector<value> operands) {
  try {
    g.apply(std::get<operation_node>(n.what), std::move(operands), std::source_location::current());
    return false;
  } catch (const graph_error&) {
    return true;
  }
}

/// Bytes may give an operation what no model function would, and its kernel reads by address what it is
/// given.
TEST(Serialisable, GivesNoOperationOperandsThatItsKernelCannotRead) {
  every_operation all;
  all.differentiate();
  const std::set<std::string_view> takes_any_number{"concat", "gather_tables"};
  std::size_t gradients = 0;
  for (std::uint32_t id = 0, count = static_cast<std::uint32_t>(all.g.nodes().size()); id < count; ++id) {
    const node n = all.g.nodes()[id];
    const auto* op = std::get_if<operation_node>(&n.what);
    if (!op) continue;
    SCOPED_TRACE((*op)->name());
    std::vector<value> fewer = n.inputs, more = n.inputs;
    fewer.pop_back();
    more.push_back(more.back());
    const bool any_number = takes_any_number.contains((*op)->name());
    EXPECT_TRUE(any_number || (takes_no(all.g, n, fewer) && takes_no(all.g, n, more)));
    EXPECT_TRUE(takes_no(all.g, n, {}));
    if ((*op)->name().find("gradient") == std::string_view::npos) continue;
    ++gradients;
    for (std::size_t i = 0; i < n.inputs.size(); ++i) {
      shape longer = n.inputs[i].dims();
      if (longer.rank() > 0) ++longer[0];
      const dtype type = n.inputs[i].type().type,
                  other = type == dtype::int32 ? dtype::float32 : dtype::int32;
      std::vector<value> wrong = n.inputs;
      wrong[i] = all.g.constant(tensor(n.inputs[i].dims(), other));
      EXPECT_TRUE(takes_no(all.g, n, wrong)) << "operand " << i << " of another type";
      wrong[i] = all.g.constant(tensor({7, 11, 13}, type));
      EXPECT_TRUE(takes_no(all.g, n, wrong)) << "operand " << i << " of another rank";
      wrong[i] = all.g.constant(tensor(longer, type));
      EXPECT_TRUE(longer.rank() == 0 || takes_no(all.g, n, wrong)) << "operand " << i << " of more rows";
    }
  }
  EXPECT_GT(gradients, 20U);
}

} // namespace
} // namespace mailgrad
