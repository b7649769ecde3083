#include <mailgrad/graph/onnx_nodes.hpp>

#include <gmock/gmock.h>

namespace mailgrad {
namespace {

using testing::ElementsAre, testing::SizeIs;

TEST(OnnxNodes, GiveEveryValueANameOfItsOwn) {
  onnx_nodes nodes;
  nodes.take("Relu");
  nodes.set_prefix("block1/");
  EXPECT_EQ(nodes.add("Relu", {"x"}), "block1/Relu");
  EXPECT_EQ(nodes.add("Relu", {"block1/Relu"}), "block1/Relu_1");
  nodes.set_prefix({});
  EXPECT_EQ(nodes.add("Relu", {"x"}), "Relu_1") << "a variable has the name 'Relu'";
  EXPECT_THAT(nodes.add_several("Split", {"x"}, 2, {{"axis", 1}}), ElementsAre("Split", "Split_1"));
  EXPECT_THAT(nodes.nodes().back().outputs, ElementsAre("Split", "Split_1"));
}

TEST(OnnxNodes, KeepEqualConstantsOnce) {
  onnx_nodes nodes;
  const std::string one = nodes.number(1);
  EXPECT_EQ(nodes.number(1), one);
  EXPECT_NE(nodes.number(2), one);
  EXPECT_NE(nodes.numbers({1}, {1}), one) << "a list is no scalar";
  EXPECT_NE(nodes.whole_number(1), nodes.whole_numbers({1}));
  EXPECT_EQ(nodes.whole_numbers({-1, 3}), nodes.whole_numbers({-1, 3}));
  EXPECT_THAT(nodes.constants(), SizeIs(6));
}

TEST(OnnxNodes, RenameAnOutputWhereverItIsRead) {
  onnx_nodes nodes;
  nodes.take("logits");
  const std::string x = nodes.add("Neg", {"x"});
  nodes.add("Mul", {x, x});
  EXPECT_EQ(nodes.rename_output(x, "y"), "y");
  EXPECT_THAT(nodes.nodes()[0].outputs, ElementsAre("y"));
  EXPECT_THAT(nodes.nodes()[1].inputs, ElementsAre("y", "y"));
  EXPECT_EQ(nodes.rename_output("y", "logits"), "logits_1") << "a variable has this name";
}

} // namespace
} // namespace mailgrad
