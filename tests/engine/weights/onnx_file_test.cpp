#include <mailgrad/tests/engine/weights/drawn_weights.hpp>
#include <mailgrad/tests/support/refusal.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <mailgrad/engine/weights/onnx_file.hpp>
#include <mailgrad/graph/layers.hpp>
#include <mailgrad/graph/operations.hpp>

#include <gmock/gmock.h>

#include <onnx/onnx_pb.h>

#include <fstream>

// What stands in the file. tests/cli/in_python_test.cpp runs such files.

namespace mailgrad {
namespace {

using testing::drawn_weights;
using ::testing::ElementsAre;
using testing::expect_refused;

model_card card_of_rows(std::string model = "mlp:hidden=5") {
  model_card card;
  card.model = std::move(model);
  card.request = {.sample_dims = {4}, .classes = 3};
  return card;
}

class OnnxFile : public ::testing::Test {
protected:
  onnx::ModelProto read() const {
    onnx::ModelProto model;
    std::ifstream in(path_, std::ios::binary);
    EXPECT_TRUE(model.ParseFromIstream(&in));
    return model;
  }

  std::vector<std::string> types() const {
    std::vector<std::string> all;
    const onnx::ModelProto m = read();
    for (const auto& n : m.graph().node()) all.push_back(n.op_type());
    return all;
  }

  void refuses(const std::string& what, const model_function& model, const std::string& says,
               const model_card& card = card_of_rows()) const {
    expect_refused({what, [&] { write_onnx(path_, model, drawn_weights(model, card)); }, says});
    EXPECT_FALSE(std::filesystem::exists(path_));
  }

  const scratch_folder folder_;
  const std::filesystem::path path_ = folder_.path() / "m.onnx";
};

TEST_F(OnnxFile, SaysItsVersionsAndItsModel) {
  model_card card = card_of_rows();
  card.class_names = {"a", "b", "c<&>"};
  write_onnx(path_, drawn_weights(card));
  const onnx::ModelProto m = read();
  EXPECT_EQ(m.ir_version(), 8);
  ASSERT_EQ(m.opset_import_size(), 1);
  EXPECT_EQ(m.opset_import(0).version(), 17);
  EXPECT_EQ(m.producer_name(), "mailgrad");
  ASSERT_EQ(m.metadata_props_size(), 1);
  EXPECT_EQ(m.metadata_props(0).key(), "mailgrad");
  EXPECT_EQ(m.metadata_props(0).value(), to_json(card));
}

TEST_F(OnnxFile, LeavesTheSizeOfTheBatchOpen) {
  write_onnx(path_, drawn_weights(card_of_rows()));
  const onnx::ModelProto m = read();
  ASSERT_EQ(m.graph().input_size(), 1) << "labels are not read";
  const auto& input = m.graph().input(0);
  EXPECT_EQ(input.name(), "features");
  EXPECT_EQ(input.type().tensor_type().shape().dim(0).dim_param(), "batch");
  EXPECT_EQ(input.type().tensor_type().shape().dim(1).dim_value(), 4);
  const auto& output = m.graph().output(0);
  EXPECT_EQ(output.name(), "logits");
  EXPECT_EQ(output.type().tensor_type().shape().dim(0).dim_param(), "batch");
  EXPECT_EQ(output.type().tensor_type().shape().dim(1).dim_value(), 3);
}

TEST_F(OnnxFile, HoldsTheWeightsByTheirNames) {
  const saved_weights trained = drawn_weights(card_of_rows());
  write_onnx(path_, trained);
  std::size_t found = 0;
  const onnx::ModelProto m = read();
  for (const auto& array : m.graph().initializer())
    if (const auto* const variable = trained.find(array.name())) {
      const std::span<const float> values = variable->values.values();
      EXPECT_EQ(array.raw_data(),
                std::string(reinterpret_cast<const char*>(values.data()), values.size_bytes()));
      EXPECT_EQ(static_cast<std::size_t>(array.dims_size()), variable->values.dims().rank());
      ++found;
    }
  EXPECT_EQ(found, trained.variables.size());
}

TEST_F(OnnxFile, DividesWhatFilesHold) {
  model_card card = card_of_rows("softmax");
  write_onnx(path_, drawn_weights(card));
  EXPECT_THAT(types(), ElementsAre("MatMul", "Add", "Identity"));
  for (const auto& by : {std::vector<float>{255}, std::vector<float>{1, 2, 3, 4}}) {
    card.divisors = by;
    write_onnx(path_, drawn_weights(card));
    EXPECT_THAT(types(), ElementsAre("Div", "MatMul", "Add", "Identity"));
  }
  card.divisors = {1, 2};
  expect_refused({"divisors of others", [&] { write_onnx(path_, drawn_weights(card)); },
                  "'drawn.safetensors' cannot be written as ONNX: its card has 2 divisors for samples of 4"});
  EXPECT_THAT(types(), ElementsAre("Div", "MatMul", "Add", "Identity")) << "the older file stays";
}

model_outputs outputs_of(graph& g, const model_request& r, const value& logits) {
  return {logits, cross_entropy(logits, g.input("labels", {r.batch}, dtype::int32))};
}

value features_of(graph& g, const model_request& r) {
  return g.input("features", {r.batch, r.sample_dims[0]});
}

TEST_F(OnnxFile, NamesAnOperationThatCannotBeWritten) {
  refuses(
      "dropout that is always on",
      [](graph& g, const model_request& r) {
        return outputs_of(g, r, dense(dropout(features_of(g, r), 0.5F, 1), 3, "out"));
      },
      "'drawn.safetensors' cannot be written as ONNX: operation 'dropout' (onnx_file_test.cpp:");
  model_card sparse = card_of_rows("softmax");
  sparse.request.nonzeros = 1;
  refuses("sparse rows", find_model("softmax"), "operation 'sparse_matmul' (", sparse);
}

TEST_F(OnnxFile, RefusesWhatDependsOnTheSizeOfTheBatch) {
  refuses(
      "a constant",
      [](graph& g, const model_request& r) {
        return outputs_of(g, r, dense(features_of(g, r), 3, "out") * (1 / static_cast<float>(r.batch)));
      },
      "a constant of it depends on the batch (onnx_file_test.cpp:");
  refuses(
      "an attribute",
      [](graph& g, const model_request& r) {
        return outputs_of(g, r, slice(dense(features_of(g, r), 3, "out"), 0, 0, r.batch));
      },
      "operation 'slice' (onnx_file_test.cpp:");
  refuses(
      "the number of nodes",
      [](graph& g, const model_request& r) {
        value x = dense(features_of(g, r), 3, "out");
        for (std::size_t i = 0; i < r.batch; ++i) x = x + 1;
        return outputs_of(g, r, x);
      },
      "its nodes depend on the batch");
}

TEST_F(OnnxFile, RefusesWeightsThatAreNotThoseOfTheModel) {
  saved_weights trained = drawn_weights(card_of_rows());
  trained.variables.pop_back();
  expect_refused({"one is missing", [&] { write_onnx(path_, trained); }, "is not in the file"});
  trained.card->model.clear();
  expect_refused({"a model function", [&] { write_onnx(path_, trained); }, "the program has to bring it"});
  trained.card.reset();
  expect_refused({"no card", [&] { write_onnx(path_, trained); }, "tell nothing of their model"});
  expect_refused({"no folder",
                  [&] { write_onnx(folder_.path() / "absent" / "m.onnx", drawn_weights(card_of_rows())); },
                  "m.onnx: cannot be written: No such file or directory"});
}

/// A file of 2 GiB cannot be: protocol buffers count in 31 bits.
TEST_F(OnnxFile, RefusesMoreWeightsThanTheFormatHolds) {
  const model_card card = card_of_rows("mlp:hidden=200000x3000");
  saved_weights huge{"huge.safetensors", {}};
  huge.card = card;
  expect_refused({"2.4 GB", [&] { write_onnx(path_, huge); }, "weights of 'huge.safetensors' are 601012"});
}

} // namespace
} // namespace mailgrad
