#include <mailgrad/engine/plan/resume.hpp>
#include <mailgrad/graph/models/layer_stack.hpp>
#include <mailgrad/tests/engine/small_problem.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>

namespace mailgrad {
namespace {

using testing::small_data;
using testing::small_model;
using testing::small_samples;
using namespace ::testing;

model_function other_model() {
  return [](graph& g, const model_request& request) {
    return build_classifier(g, {dense_layer{9, activation::tanh}, dense_layer{}}, request);
  };
}

std::shared_ptr<const data_split> other_data() {
  return std::make_shared<data_split>(data_split{small_samples(48, 7), small_samples(24, 2), "other", {}});
}

training_options named(std::string model_name, std::uint64_t seed = 1) {
  return {.batch = 8, .seed = seed, .model_name = std::move(model_name)};
}

run_plan first_run() { return plan_run(small_model(), small_data(), named("mlp:hidden=8")); }

/// A checkpoint in memory, with what is read of it before any worker or shard is.
std::shared_ptr<const checkpoint> kept_as(checkpoint_card card,
                                          std::shared_ptr<const saved_fields> shard = nullptr) {
  kept_schedule schedule{"async"};
  feeder_position position;
  checkpoint_parts parts;
  const auto run = std::make_shared<saved_fields>();
  run->field("card", card);
  run->field("schedule", schedule);
  const auto feeder = std::make_shared<saved_fields>();
  feeder->field("feeder", position);
  parts["run"] = run;
  parts["feeder"] = feeder;
  if (shard) parts["shard 0"] = shard;
  return std::make_shared<const checkpoint>(checkpoint::of(parts, "kept"));
}

/// As written before names were kept.
checkpoint_card without_names(checkpoint_card card) {
  std::erase_if(card.facts, [](const auto& fact) { return fact.first.starts_with("name of"); });
  return card;
}

void go_on(run_plan plan, const checkpoint_card& card) {
  plan.options.resume = kept_as(card);
  plan_resume(plan);
}

std::string refusal_of(const run_plan& plan, const checkpoint_card& card) {
  try {
    go_on(plan, card);
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "not refused";
}

TEST(Resume, NamesModelDataAndSeedOfAnotherRun) {
  const run_plan other = plan_run(other_model(), other_data(), named("mlp:hidden=9", 2));
  const std::string sum = "SHA-256 [0-9a-f]{12}[.]{3}";
  EXPECT_THAT(refusal_of(other, card_of(first_run())),
              MatchesRegex("checkpoint 'kept' is of another run: the training data were small [(]" + sum +
                           "[)], and are other [(]" + sum + "[)] here; the model was mlp:hidden=8 [(]" + sum +
                           "[)], and is mlp:hidden=9 [(]" + sum + "[)] here; --seed was 1, and is 2 here"));
}

/// The shapes in a model depend on the batch, and so does its digest; that is no other model.
TEST(Resume, NamesTheOptionThatDiffers) {
  const auto refusal = [](const training_options& o, const model_function& model) {
    return refusal_of(plan_run(model, small_data(), o), card_of(first_run()));
  };
  const std::string another = "checkpoint 'kept' is of another run: ";
  training_options o = named("mlp:hidden=8");
  o.batch = 4;
  EXPECT_EQ(refusal(o, small_model()), another + "--batch was 8, and is 4 here");
  EXPECT_THAT(refusal(o, other_model()), HasSubstr("the model was "));
  o.batch = 8;
  o.optimizer = parse_optimizer("momentum:momentum=0.7");
  o.optimizer.learning_rate = 0.3;
  EXPECT_THAT(refusal(o, small_model()),
              MatchesRegex(another + "--optimizer was sgd, and is momentum:momentum=0.7 here; --lr was "
                                     "0.[0-9]{1,4}, and is 0.3 here"));
  checkpoint_card card = card_of(first_run());
  card.replayed = "ab12";
  EXPECT_EQ(refusal_of(first_run(), card), "checkpoint 'kept' is of a replay, which goes on by 'mailgrad "
                                           "replay RECORDING --resume kept'");
}

/// It would be a run that is shorter than what it keeps.
TEST(Resume, KeepsNothingIfNothingIsLeft) {
  const scratch_folder folder;
  const auto planned = [&](std::uint64_t done) {
    training_options o = named("mlp:hidden=8");
    o.steps = 6;
    o.checkpoints.folder = folder.path().string();
    run_plan plan = plan_run(small_model(), small_data(), o);
    checkpoint_card card = card_of(plan);
    card.steps = done;
    plan.options.resume = kept_as(card);
    plan_resume(plan);
    return plan;
  };
  EXPECT_NE(planned(5).options.checkpoints.folder, "");
  EXPECT_EQ(planned(6).options.checkpoints.folder, "");
  EXPECT_EQ(planned(9).options.checkpoints.folder, "");
}

/// Steps, samples and seconds of a report are of the same workers.
TEST(Resume, CountsTheTimeOfTheWorkersThatGoOn) {
  const auto goes_on_after = [](std::uint32_t workers) {
    run_plan plan = first_run();
    checkpoint_card card = card_of(plan);
    card.workers = workers;
    card.elapsed = 5'000'000'000;
    plan.options.resume = kept_as(card);
    plan_resume(plan);
    return card_of(plan).elapsed;
  };
  EXPECT_EQ(goes_on_after(1), 5'000'000'000);
  EXPECT_EQ(goes_on_after(2), 0) << "the seconds of workers that are no more";
}

/// What is trained at a rate of 0 changes nothing, and costs as much.
TEST(Resume, SaysWhenTheRateComesToAnEnd) {
  const auto said = [](const char* schedule, std::uint64_t steps) {
    training_options o = named("mlp:hidden=8");
    o.optimizer.schedule = parse_schedule(schedule);
    o.steps = 100;
    run_plan plan = plan_run(small_model(), small_data(), o);
    checkpoint_card card = card_of(plan);
    card.steps = 50;
    const auto shard = std::make_shared<saved_fields>();
    std::uint64_t version = 25; // of two workers in sync
    shard->group("shard", [&] { shard->field("version", version); });
    plan.options.resume = kept_as(card, shard);
    plan.steps = steps;
    plan_resume(plan);
    return plan.resumed->remarks;
  };
  EXPECT_THAT(said("cosine:total=50", 100), IsEmpty());
  EXPECT_THAT(said("cosine:total=50,final=0.1", 200), IsEmpty());
  EXPECT_THAT(said("cosine:total=50", 200),
              ElementsAre("the learning rate is 0 after 50 updates by --schedule "
                          "cosine:total=50,final=0, and this run goes on to about 100: to learn more, "
                          "save its weights and begin a run by --load with another schedule"));
}

run_facts::value_type fact(const char* file, const char* sum) {
  return {"SHA-256 of plug-in '" + std::string(file) + "'", sum};
}

/// A run may go on in another folder than it began in, where its plug-in has another path.
TEST(Resume, KnowsAPlugInByTheLastPartOfItsPath) {
  checkpoint_card card;
  card.facts = {{"policy", "async, ./own.so:a=1@50"}, fact("./own.so", "ab12"), fact("other.so", "cd34")};
  kept_schedule schedule{"async", {{50, "./own.so:a=1"}}, {{"./own.so", "typed"}}};
  name_plugins_as_here({fact("/old/own.so", "ab12"), fact("/old/third.so", "ef56")}, card, schedule);
  EXPECT_EQ(card.facts, (run_facts{{"policy", "async, /old/own.so:a=1@50"},
                                   fact("/old/own.so", "ab12"),
                                   fact("other.so", "cd34")}));
  EXPECT_EQ(schedule.planned[0].second, "/old/own.so:a=1");
  EXPECT_EQ(schedule.asked[0].first, "/old/own.so");
}

/// Two files of one name lie in different folders, and so they did where the run began.
TEST(Resume, TellsPlugInsOfOneNameByTheirBytes) {
  const auto named_here = [&](const run_facts& here) {
    checkpoint_card card;
    card.facts = {
        {"policy", "a/own.so"}, {"cure", "b/own.so"}, fact("a/own.so", "ab12"), fact("b/own.so", "cd34")};
    kept_schedule schedule{"a/own.so:b=1"};
    name_plugins_as_here(here, card, schedule);
    card.facts.emplace_back("now", schedule.policy);
    return card.facts;
  };
  EXPECT_EQ(named_here({fact("x/own.so", "cd34"), fact("y/own.so", "ab12")}),
            (run_facts{{"policy", "y/own.so"},
                       {"cure", "x/own.so"},
                       fact("y/own.so", "ab12"),
                       fact("x/own.so", "cd34"),
                       {"now", "y/own.so:b=1"}}));
  EXPECT_EQ(named_here({fact("a/own.so", "cd34"), fact("b/own.so", "ab12")})[0].second, "b/own.so")
      << "the folders were exchanged";
  EXPECT_EQ(named_here({fact("x/own.so", "cd34"), fact("y/own.so", "ff00")})[2], fact("y/own.so", "ab12"))
      << "which is refused, as its bytes are others";
  EXPECT_EQ(named_here({fact("x/own.so", "cd34")})[2], fact("a/own.so", "ab12")) << "it is not here";
}

/// A file of the model or the data may have been moved; a model of the user's own has a name only if its
/// options give one, and old checkpoints tell no names.
TEST(Resume, RefusesNoRunForItsNames) {
  const auto moved = std::make_shared<data_split>(*small_data());
  moved->name = "elsewhere";
  EXPECT_NO_THROW(go_on(plan_run(small_model(), moved, named("models/mine.json")), card_of(first_run())));
  EXPECT_NO_THROW(go_on(plan_run(small_model(), moved, named("")), card_of(first_run())));
  const checkpoint_card old = without_names(card_of(first_run()));
  EXPECT_EQ(old.facts.size() + 2, card_of(first_run()).facts.size());
  EXPECT_NO_THROW(go_on(first_run(), old));
  EXPECT_THAT(refusal_of(plan_run(other_model(), small_data(), named("lenet")), old),
              MatchesRegex(".*: the model was SHA-256 [0-9a-f]{12}[.]{3}, and is lenet [(]SHA-256 "
                           "[0-9a-f]{12}[.]{3}[)] here"));
  const checkpoint_card unnamed = card_of(plan_run(small_model(), small_data(), named("")));
  EXPECT_THAT(refusal_of(plan_run(other_model(), small_data(), named("")), unnamed),
              HasSubstr("the model was SHA-256 "));
}

} // namespace
} // namespace mailgrad
