#include <mailgrad/tests/actors/runs/small_training.hpp>
#include <mailgrad/tests/support/refusal.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <mailgrad/engine/checkpoint/checkpoint_folder.hpp>
#include <mailgrad/graph/layers.hpp>
#include <mailgrad/graph/operations.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>

// What is refused before a run begins.

namespace mailgrad {
namespace {

using testing::options_for;
using testing::small_data;
using testing::small_model;

TEST(Training, RefusesWhatCannotBeTrained) {
  const auto refused = [](auto change) {
    training_options o = options_for("async", 1);
    change(o);
    EXPECT_THROW(training(small_model(), small_data(), o), std::invalid_argument);
  };
  refused([](training_options& o) { o.devices.clear(); });
  refused([](training_options& o) { o.batch = 0; });
  refused([](training_options& o) { o.shards = 0; });
  refused([](training_options& o) { o.shards = 1'000'000; });
  refused([](training_options& o) { o.epochs = 0; });
  refused([](training_options& o) { o.policy = "asink"; });
  refused([](training_options& o) { o.optimizer.learning_rate = -1; });
  const auto empty = std::make_shared<data_split>();
  EXPECT_THROW(training(small_model(), empty, options_for("async", 1)), std::invalid_argument);
}

TEST(Training, RefusesADeviceThatIsNotThere) {
  training_options o = options_for("async", 1);
  o.devices = {{device_kind::cuda, 77}};
  EXPECT_THROW(training(small_model(), small_data(), o), std::system_error);
}

/// Another process may have gone on in the folder while this one read the checkpoint.
TEST(Training, RefusesToGoOnFromWhatIsNoLongerTheNewest) {
  const scratch_folder folder;
  training_options o = options_for("async", 1);
  o.checkpoints.folder = folder.path().string();
  o.steps = 5;
  train(small_model(), small_data(), o);
  o.steps = 10;
  o.resume = std::make_shared<const checkpoint>(newest_checkpoint(folder.path()).what);
  train(small_model(), small_data(), o);
  o.steps = 15;
  EXPECT_EQ(train(small_model(), small_data(), o).ended, "completed") << "that file was named";
  o.steps = 20;
  o.resume_newest = true;
  testing::expect_refused({{"the second", [&] { training(small_model(), small_data(), o); },
                            "another process has written " + checkpoint_name(15) + " there meanwhile"}});
  o.checkpoints.folder = (folder.path() / "elsewhere").string();
  EXPECT_EQ(train(small_model(), small_data(), o).ended, "completed") << "where nobody writes";
}

/// What no check beforehand can know, since a label is data.
TEST(Training, SaysInItsReportWhichLabelTheLogitsDoNotHave) {
  const auto line = std::to_string(__LINE__ + 4);
  const model_function model = [](graph& g, const model_request& r) {
    const value x = g.input("features", {r.batch, r.sample_dims[0]});
    const value labels = g.input("labels", {r.batch}, dtype::int32);
    const value loss = cross_entropy(dense(x, 2, "two"), labels);
    return model_outputs{dense(x, r.classes, "answers"), loss};
  };
  const training_report r = train(model, small_data(), options_for("async", 1));
  EXPECT_EQ(r.ended, "failed");
  EXPECT_THAT(r.why, ::testing::HasSubstr("training_refusal_test.cpp:" + line +
                                          ": cross_entropy: label 2, but the logits have 2 classes"));
}

/// Whichever time it is built: for a check, for the layout, or for a worker when others already live.
TEST(Training, EndsWhoeverLivesIfAModelCannotBeBuilt) {
  int thrown = 0;
  for (bool begun = false; !begun; ++thrown) {
    const auto built = std::make_shared<std::atomic<int>>(0);
    const model_function model = [built, most = thrown](graph& g, const model_request& request) {
      if (++*built > most) throw std::runtime_error("the test wants it");
      return small_model()(g, request);
    };
    try {
      training run(model, small_data(), options_for("sync", 2));
      begun = true;
    } catch (const std::runtime_error& e) {
      EXPECT_STREQ(e.what(), "the test wants it");
    }
  }
  EXPECT_GT(thrown, 3) << "with two workers";
}

} // namespace
} // namespace mailgrad
