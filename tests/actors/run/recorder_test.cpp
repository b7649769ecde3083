#include <mailgrad/actors/protocol/messaging.hpp>
#include <mailgrad/tests/support/deterministic_test.hpp>

#include <mailgrad/actors/run/recorder.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <sstream>
#include <string>
#include <vector>

namespace mailgrad {
using messaging::kill;

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

/// A recorder, and a feeder that answers only when the test does.
class Recorder : public testing::DeterministicTest {
protected:
  end_recording ending(const caf::actor& feeder) const {
    return {std::make_shared<recording_end>(recording_end{"completed", "", {}, {}, "ab12"}), feeder};
  }
  recording recorded() const { return parse_recording(bytes_.view(), "memory"); }

  std::stringbuf bytes_;
  std::vector<std::string> ends_;
  testing::listener<end_recording> feeder_ = listen<end_recording>();
  caf::actor recorder_ = start<recorder>(
      recorder_options{std::make_shared<recording_writer>(std::make_unique<std::ostream>(&bytes_), "memory",
                                                          recording_header{1, 1, {}, {}}),
                       [this](const std::string& why) { ends_.push_back(why); }});
};

TEST_F(Recorder, WaitsForWhatTheFeederHasNotTold) {
  tell(recorder_, ending(feeder_.actor()));
  EXPECT_THAT(ends_, IsEmpty());
  ASSERT_THAT(feeder_.heard<end_recording>(), SizeIs(1));
  tell(recorder_, order_noted{0, {}, {{{0}, 7}}});
  tell(recorder_, ending({}));
  EXPECT_THAT(ends_, ElementsAre(""));
  EXPECT_THAT(recorded().batches.at(0), ElementsAre(7));
  kill(feeder_.actor());
  run();
  EXPECT_THAT(ends_, SizeIs(1)) << "told once";
}

TEST_F(Recorder, EndsIfTheFeederDiesBeforeItHasTold) {
  tell(recorder_, ending(feeder_.actor()));
  kill(feeder_.actor());
  run();
  EXPECT_THAT(ends_, ElementsAre(HasSubstr("the feeder was lost")));
}

TEST_F(Recorder, EndsIfTheFeederDiedLongAgo) {
  kill(feeder_.actor());
  run();
  tell(recorder_, ending(feeder_.actor()));
  EXPECT_THAT(ends_, ElementsAre(HasSubstr("the feeder was lost")));
}

TEST_F(Recorder, EndsAtOnceWhereNoFeederIsNamed) {
  tell(recorder_, ending({}));
  EXPECT_THAT(ends_, ElementsAre(""));
}

} // namespace
} // namespace mailgrad
