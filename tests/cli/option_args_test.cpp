#include <mailgrad/cli/option_table.hpp>

#include <mailgrad/cli/commands/resumed_args.hpp>
#include <mailgrad/cli/commands/train_args.hpp>
#include <mailgrad/cli/commands/train_options.hpp>
#include <mailgrad/cli/device_option.hpp>
#include <mailgrad/cli/output/failure_line.hpp>
#include <mailgrad/engine/record/recording.hpp>
#include <mailgrad/tensor/device.hpp>
#include <mailgrad/tests/cli/tool.hpp>

// Words of a command line as options: how they are kept and renamed, what is chosen where one is not named,
// and what is advised where memory is lacking.

namespace mailgrad::testing {
namespace {

TEST(OptionArgs, KnowAnOptionByItsWholeName) {
  const option_args args({"--keep-weights=best", "--quiet"});
  EXPECT_TRUE(args.has("--quiet"));
  EXPECT_TRUE(args.has("--keep-weights"));
  EXPECT_FALSE(args.has("--keep"));
  EXPECT_FALSE(args.has("--keep-weights=best"));
}

TEST(OptionArgs, HaveOneWordOfEachOption) {
  option_args args({"--steps=1", "--quiet", "--steps=2"});
  args.set("--steps=3");
  EXPECT_THAT(args.all(), ElementsAre("--quiet", "--steps=3"));
  args.set(option_args({"--quiet", "--steps=4", "--data=x=y"}));
  EXPECT_THAT(args.all(), ElementsAre("--quiet", "--steps=4", "--data=x=y"));
  args.set("--data=z");
  EXPECT_THAT(args.take(), ElementsAre("--quiet", "--steps=4", "--data=z"));
}

TEST(OptionArgs, DropWhatIsNotKept) {
  option_args args({"--steps=1", "--step=2", "--data=x", "--quiet"});
  args.drop("--step");
  args.drop({"--quiet", "--absent"});
  EXPECT_THAT(args.all(), ElementsAre("--steps=1", "--data=x"));
  args.drop_unless(option_args({"--data=other"}), {"--data", "--steps"});
  EXPECT_THAT(args.all(), ElementsAre("--data=x"));
}

TEST(OptionArgs, DropThoseOfWhichItIsSaid) {
  option_args args({"--steps=1", "--listen=here", "--wire=int8"});
  args.drop_if([](std::string_view option) { return is_of(option, of_processes); });
  EXPECT_THAT(args.all(), ElementsAre("--steps=1"));
}

const words some_options =
    "--batch --checkpoint --data --delays --devices --evaluate-every --keep --keep-weights --keys --label "
    "--listen --live --lr --metrics-every --none --parameters --plugin --quiet --report --resume "
    "--sample-gap --save --slots --seed --transport --wire"_w;

words options_of(unsigned kinds) {
  words all;
  for (const std::string& option : some_options)
    if (is_of(option, kinds)) all.push_back(option);
  return all;
}

TEST(OptionKinds, AreWhatCommandsAskForInPlaceOfListsOfNames) {
  for (const auto& [kinds, options] :
       {std::pair<unsigned, words>{of_display, "--live --quiet"_w},
        {of_resuming, "--plugin --resume"_w},
        {of_checkpoints, "--checkpoint --keep"_w},
        {of_pace | of_choice, "--evaluate-every --keep-weights --metrics-every"_w},
        {of_looks, "--metrics-every --report --sample-gap"_w},
        {of_server, "--keys --listen --slots"_w},
        {of_processes, "--keys --listen --slots --transport --wire"_w},
        {of_one_process, "--delays --parameters"_w},
        {of_places, "--data --devices --parameters"_w},
        {of_data, "--data --label --seed"_w}})
    EXPECT_EQ(options_of(kinds), options);
}

// Options that have another name now: the old one works, and a line says the new one.

TEST(RenamedOptions, GetTheirNewNameWithOrWithoutAValue) {
  EXPECT_THAT(with_present_names({"--seats=4", "--seats", "--own-samples", "--seats-of=4", "seats=4"}),
              ElementsAre("--slots=4", "--slots", "--local-samples", "--seats-of=4", "seats=4"));
}

TEST(RenamedOptions, EndWhereTheWordsOfAnotherProgramBegin) {
  const words typed = "launch --seats 4 -- --own-samples"_w;
  EXPECT_THAT(with_present_names(typed), ElementsAre("launch", "--slots", "4", "--", "--own-samples"));
  ::testing::internal::CaptureStderr();
  warn_of_old_names(typed);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "mailgrad: warning: --seats is called --slots now; the old name ends with the next release\n");
}

/// The refusal is that of the new name, behind the line that says it.
TEST(RenamedOptions, WorkInTheTool) {
  tool t(as_typed{"serve --listen 127.0.0.1:0 --workers 2 --seats 1"_w});
  EXPECT_EQ(t.code(), 2);
  EXPECT_THAT(t.err(), AllOf(StartsWith("mailgrad: warning: --seats is called --slots now; "),
                             HasSubstr("--slots 1: fewer than the 2 of --workers")));
}

device cpu(std::uint32_t index) { return {device_kind::cpu, index}; }
device played_gpu(std::uint32_t index) { return {device_kind::cuda, index}; }

cuda::runtime::gpu answering(std::uint32_t major) {
  cuda::runtime::gpu c;
  c.name = "played";
  c.major = major;
  return c;
}

/// A command line, and what a run of it takes.
struct UsualChoices : Test {
  train_args chosen(words given) {
    option_table table(parser_);
    add_options(table, open_);
    add_processes(table, open_.remote);
    std::ranges::reverse(given); // as the parser takes it
    parser_.parse(std::move(given));
    return with_usual_choices(open_, parser_);
  }
  words recorded(const train_args& w) const { return args_of_run(parser_, w); }
  /// The devices that a run without an option has.
  static std::vector<device> all() {
    return usual_devices(cuda::runtime::find_gpus(), usable_core_devices());
  }

  CLI::App parser_;
  train_args open_ = open_args();
};

TEST(UsualDevices, AreTheGpusThatCanTrainOrElseTheCores) {
  cuda::runtime::found_gpus found;
  EXPECT_THAT(usual_devices(found, {cpu(0), cpu(1)}), ElementsAre(cpu(0), cpu(1)));
  cuda::runtime::gpu silent;
  silent.why_unknown = "busy";
  found.gpus = {silent, answering(7)};
  EXPECT_THAT(usual_devices(found, {cpu(0)}), ElementsAre(cpu(0)));
  found.gpus.push_back(answering(9));
  EXPECT_THAT(usual_devices(found, {cpu(0)}), ElementsAre(played_gpu(2)));
}

TEST_F(UsualChoices, AreAdamAndAllDevicesAndAreRecorded) {
  const train_args w = chosen({});
  EXPECT_EQ(w.optimizer, "adam");
  std::string list;
  for (const device d : all()) list += (list.empty() ? "" : ",") + to_string(d);
  EXPECT_EQ(w.devices, list);
  EXPECT_THAT(recorded(w), ElementsAre("--optimizer=adam", "--devices=" + list, "--policy=sync"));
  EXPECT_EQ(understood(w).devices.size(), all().size());
  EXPECT_THAT(format_choices(w, understood(w)), StartsWith("adam at 0.001 (default), sync (default) on "));
}

TEST_F(UsualChoices, LeaveWhatIsNamedAsItIs) {
  const train_args w = chosen("--optimizer sgd --devices cpu:0"_w);
  EXPECT_EQ(w.optimizer, "sgd");
  EXPECT_EQ(w.devices, "cpu:0");
  EXPECT_THAT(recorded(w), ElementsAre("--devices=cpu:0", "--optimizer=sgd"));
  EXPECT_EQ(format_choices(w, understood(w)), "sgd at 0.001 (its default)");
}

TEST_F(UsualChoices, SayWhichOfRuleAndRateWasNamed) {
  const train_args w = chosen("--lr 0.01 --devices cpu:0"_w);
  EXPECT_EQ(format_choices(w, understood(w)), "adam (default) at 0.01");
  train_args both = w;
  both.usual_rule = false;
  EXPECT_EQ(format_choices(both, understood(both)), "adam at 0.01");
}

/// Several workers of adam need each other's gradients while they are fresh.
TEST_F(UsualChoices, AreAsyncWhereACureIsNamed) { EXPECT_EQ(chosen("--cure inverse"_w).run.policy, "async"); }
TEST_F(UsualChoices, AreAsyncOnDevicesThatAreNamed) {
  const train_args w = chosen("--devices cpu:0,cpu:0"_w);
  EXPECT_EQ(w.run.policy, "async");
  EXPECT_FALSE(w.usual_policy);
}
TEST_F(UsualChoices, AreTheSameForWorkersOfOtherProcesses) {
  const train_args w = chosen("--processes 2"_w);
  EXPECT_EQ(w.run.policy, "sync");
  EXPECT_THAT(recorded(w), Contains("--policy=sync"));
}
TEST_F(UsualChoices, AreAsyncForOtherProcessesWhereACureIsNamed) {
  EXPECT_EQ(chosen("--processes 2 --cure inverse"_w).run.policy, "async");
}
TEST_F(UsualChoices, LeaveThePolicyThatIsNamed) {
  const train_args w = chosen("--policy ssp:2"_w);
  EXPECT_EQ(w.run.policy, "ssp:2");
  EXPECT_THAT(format_choices(w, understood(w)), StartsWith("adam at 0.001 (default), on "));
}

TEST_F(UsualChoices, HaveADeviceForEachWorkerInTurns) {
  const train_args w = chosen("--workers 5"_w);
  const training_options o = understood(w);
  EXPECT_EQ(o.workers, 5U);
  ASSERT_EQ(o.devices.size(), 5U);
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(o.devices[i], all()[i % all().size()]);
}

TEST_F(UsualChoices, ShareOutATrainingSetThatIsSmallerThanABatch) {
  const train_args w = chosen("--workers 2"_w);
  training_options o = understood(w);
  o.words = {"--model=mlp", "--batch=64"};
  fit_usual_batch(w, o, o.batch);
  EXPECT_EQ(o.batch, 64U) << "one batch is there";
  fit_usual_batch(w, o, 63);
  EXPECT_EQ(o.batch, 31U);
  EXPECT_THAT(o.words, ElementsAre("--model=mlp", "--batch=31"));
  EXPECT_THAT(o.args_to_resume, ElementsAre("--batch=31"));
  EXPECT_THAT(format_choices(w, o), HasSubstr(", 31 samples a mini-batch since there are so few"));
  fit_usual_batch(w, o, 1);
  EXPECT_EQ(o.batch, 1U);
}
TEST_F(UsualChoices, LeaveABatchThatIsNamed) {
  const train_args w = chosen("--batch 64"_w);
  training_options o = understood(w);
  fit_usual_batch(w, o, 10);
  EXPECT_EQ(o.batch, 64U) << "it is refused later";
}

TEST_F(UsualChoices, DoNotWriteOutWhatCannotBe) {
  EXPECT_EQ(device_count(chosen("--workers 4000000000"_w).devices), all().size());
}

/// Before there was a choice, words without these options meant sgd and one core.
TEST(UsualChoicesOfOldFiles, AreWhatTheyWere) {
  recording old;
  old.header.words = {"--model=softmax"};
  const train_args w = recorded_values(old);
  EXPECT_EQ(w.optimizer, "sgd");
  EXPECT_EQ(w.devices, "cpu:0");
  EXPECT_EQ(w.run.policy, "async");
  EXPECT_FALSE(w.usual_rule || w.usual_devices || w.usual_policy);
}

constexpr device host, gpu{device_kind::cuda, 0}, second_stream{device_kind::cuda, 0, 1},
    second_gpu{device_kind::cuda, 1};
const std::string lacking = "worker 0 at its step 1: cuda:0: out of memory: 4.0 GiB asked for";

TEST(MemoryAdvice, IsGivenIfMemoryOfAGpuOrPinnedMemoryIsLacking) {
  for (const char* where : {"worker 0 at its step 1: cuda:0", "pinned memory of the host"})
    EXPECT_THAT(memory_advice(std::string(where) + ": out of memory: 4.0 GiB asked for", {}),
                HasSubstr("smaller --batch"));
}

TEST(MemoryAdvice, IsNotGivenForAnotherReason) {
  EXPECT_EQ(memory_advice("worker 0 at its step 1: cudaEventQuery: the GPU is lost", {}), "");
  EXPECT_EQ(memory_advice("", {}), "");
}

TEST(MemoryAdvice, HasNoOptionsForAReplayWhichTakesNone) {
  memory_needs again{{gpu, second_stream}, {gpu}, 2, "float32", true};
  EXPECT_THAT(memory_advice(lacking, again), Not(HasSubstr("--")));
}

/// Devices of workers, places of weights, shards and the precision.
TEST(MemoryAdvice, NamesAllOfWhichTheRunCouldHaveLess) {
  const std::string less = "to need less memory, take a smaller --batch or model";
  for (const auto& [needs, also] : std::vector<std::pair<memory_needs, std::string>>{
           {{{gpu}, {}, 1, "bfloat16"}, ""},
           {{{gpu, second_gpu}, {}, 4, "float32"}, ", or --precision bfloat16"},
           // A core computes in float32 alone, and shards on the host take no memory of a GPU.
           {{{gpu, host, host}, {host}, 4, "float32"}, ""},
           {{{gpu, second_stream}, {gpu}, 2, "tf32"},
            ", fewer streams in --devices, fewer --shards, --precision bfloat16, or --parameters host"},
           {{{gpu}, {host, gpu}, 1, "float32"}, ", --precision bfloat16, or --parameters host"},
           {{{host}, {gpu}, 1, "float32"}, ", or --parameters host"},
           // Workers of other processes may have streams.
           {{{}, {}, 2, "float32"}, ", fewer streams in --devices, or --precision bfloat16"}})
    EXPECT_EQ(memory_advice(lacking, needs), less + also);
}

} // namespace
} // namespace mailgrad::testing
