#include <mailgrad/engine/model/bound_model.hpp>
#include <mailgrad/engine/plan/resume.hpp>
#include <mailgrad/engine/plan/run_fingerprint.hpp>
#include <mailgrad/engine/plan/run_plan.hpp>
#include <mailgrad/engine/record/recording.hpp>
#include <mailgrad/graph/models/layer_stack.hpp>
#include <mailgrad/optim/optimizer_options.hpp>
#include <mailgrad/optim/schedule.hpp>
#include <mailgrad/tests/engine/small_problem.hpp>
#include <mailgrad/tests/support/refusal.hpp>
#include <mailgrad/tests/support/scratch_files.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <functional>

namespace mailgrad {
namespace {

using testing::expect_refused;
using testing::small_data;
using testing::small_model;
using testing::small_samples;
using namespace ::testing;
using testing::words_of_refusal;

using facts = std::vector<std::pair<std::string, std::string>>;

facts of(const training_options& o, const model_function& model = small_model(),
         const data_split& data = *small_data()) {
  model_request request = request_for(data, o.batch);
  request.workers = 2;
  return facts_of(model, request, data, o);
}

model_function other_model() {
  return [](graph& g, const model_request& request) {
    return build_classifier(g, {dense_layer{9, activation::tanh}, dense_layer{}}, request);
  };
}

training_options two_workers() {
  training_options o;
  o.devices = {{device_kind::cpu, 0}, {device_kind::cpu, 1}};
  return o;
}

std::string* fact(recording& r, const std::string& name) {
  return &std::ranges::find(r.header.facts, name, &facts::value_type::first)->second;
}

/// The names of the facts in which both differ.
std::vector<std::string> different(const facts& a, const facts& b) {
  std::vector<std::string> names;
  EXPECT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i] != b[i]) names.push_back(a[i].first);
  return names;
}

TEST(RunFingerprint, KeepsEverySettingOfARuleAsItMayBeTyped) {
  for (const std::string_view name : optimizer_names()) {
    training_options o = two_workers();
    o.optimizer = parse_optimizer(name);
    const std::string kept = reported_fact(of(o), "optimizer");
    const std::string typed = format_fact("optimizer", kept);
    EXPECT_EQ(typed.find(' '), std::string::npos) << typed;
    EXPECT_EQ(typed.find(':') == typed.npos, optimizer_setting_names(name).empty()) << typed;
    o.optimizer = parse_optimizer(typed);
    EXPECT_EQ(reported_fact(of(o), "optimizer"), kept);
  }
}

/// A GPU rounds otherwise than a core does.
TEST(RunFingerprint, TellsWhatWorkersComputeOnIfThereIsAGpu) {
  const std::string name(computers_fact);
  const auto told = [&](const training_options& o) { return reported_fact(of(o), name); };
  training_options mixed = two_workers();
  EXPECT_FALSE(tells(of(mixed), name));
  EXPECT_EQ(told(mixed), "the host");
  mixed.devices[1] = {device_kind::cuda, 4000};
  EXPECT_EQ(told(mixed), "the host, a card");

  recording r;
  r.header = {2, 1, of(mixed), {}, 2};
  training_options elsewhere = two_workers();
  elsewhere.replay = std::make_shared<const recording>(r);
  expect_refused(
      {{"on cores", [&] { require_same_run(r, elsewhere, of(elsewhere)); },
        "the arithmetic of workers was the host, a card, and is the host, the host here; this machine "
        "has no GPU 'a card'"}});
  require_same_run(r, mixed, of(mixed));
}

TEST(RunFingerprint, TellsThePrecisionOfProductsUnlessItIsFloat32) {
  training_options plain = two_workers(), rounded = two_workers();
  rounded.precision = product_precision::tf32;
  const std::string what(precision_fact);
  EXPECT_EQ(of(plain).size() + 1, of(rounded).size());
  EXPECT_EQ(reported_fact(of(plain), what), "float32");
  EXPECT_EQ(reported_fact(of(rounded), what), "tf32");
  recording r;
  r.header = {2, 1, of(rounded), {}, 2};
  training_options other = two_workers();
  other.replay = std::make_shared<const recording>(r);
  recording of_plain;
  of_plain.header = {2, 1, of(plain), {}, 2};
  expect_refused({{"in float32", [&] { require_same_run(r, other, of(other)); },
                   "the precision of products was tf32, and is float32 here"},
                  {"in tf32", [&] { require_same_run(of_plain, rounded, of(rounded)); },
                   "the precision of products was float32, and is tf32 here"}});
  require_same_run(r, rounded, of(rounded));
}

/// A replay of other options would give other weights, and nobody would know why.
TEST(RunFingerprint, HasAFactForWhateverChangesTheBits) {
  const facts usual = of(two_workers());
  const std::vector<std::pair<std::string, std::function<void(training_options&)>>> changes{
      {"policy", [](auto& o) { o.policy = "sync"; }},
      {"cure", [](auto& o) { o.cure = "inverse"; }},
      {"optimizer", [](auto& o) { o.optimizer.rule = momentum_options{}; }},
      {"learning rate", [](auto& o) { o.optimizer.learning_rate = 0.1 + 1e-17; }},
      {"local steps", [](auto& o) { o.local_steps = 3; }},
      {"outer optimizer", [](auto& o) { o.outer.rule = nesterov_options{}; }},
      {"outer learning rate", [](auto& o) { o.outer.learning_rate = 0.7; }},
      {"schedule", [](auto& o) { o.optimizer.schedule = parse_schedule("cosine:total=9"); }},
      {"weight decay", [](auto& o) { o.optimizer.weight_decay = 1e-4; }},
      {"l2", [](auto& o) { o.optimizer.l2 = 1e-4; }},
      {"clip norm", [](auto& o) { o.optimizer.clip_norm = 1; }},
      {"batch", [](auto& o) { o.batch = 7; }},
      {"epochs", [](auto& o) { o.epochs = 2; }},
      {"steps", [](auto& o) { o.steps = 9; }},
      {"seed", [](auto& o) { o.seed = 9; }},
  };
  for (const auto& [name, change] : changes) {
    training_options o = two_workers();
    change(o);
    EXPECT_THAT(different(usual, of(o)), Contains(name));
  }
  training_options o = two_workers();
  o.devices = {{device_kind::cpu, 4}, {device_kind::cpu, 4}};
  EXPECT_EQ(of(o), usual) << "the names of devices are no facts";
}

TEST(RunFingerprint, KnowsTheModelAndTheSamplesByTheirHashes) {
  const facts usual = of(two_workers());
  EXPECT_THAT(different(usual, of(two_workers(), other_model())), ElementsAre("SHA-256 of the model"));
  data_split other = *small_data();
  other.train = testing::small_samples(other.train.size(), 77);
  EXPECT_THAT(different(usual, of(two_workers(), small_model(), other)),
              ElementsAre("SHA-256 of the training samples"));
  other = *small_data();
  other.test = testing::small_samples(other.test.size(), 77);
  EXPECT_EQ(of(two_workers(), small_model(), other), usual) << "they do not influence the weights";
}

TEST(RunFingerprint, RefusesARecordingOfAnotherRun) {
  const training_options o = two_workers();
  recording r;
  r.name = "run.rec";
  r.header = {2, 1, of(o), {}};
  EXPECT_NO_THROW(require_same_run(r, o, of(o)));
  const auto other = [&](const std::function<void(recording&)>& change) {
    return [&, change] {
      recording spoilt = r;
      change(spoilt);
      require_same_run(spoilt, o, of(o));
    };
  };
  EXPECT_NO_THROW(other([](auto& x) {
    std::erase_if(x.header.facts, [](const auto& f) { return f.first == "first weights"; });
  })())
      << "recordings tell of first weights only since a run may begin with given ones";
  expect_refused({
      {"workers", other([](auto& x) { x.header.workers = 3; }),
       "recording 'run.rec': the number of workers was 3, and is 2 here"},
      {"shards", other([](auto& x) { x.header.shards = 5; }), "the number of shards was 5, and is 1 here"},
      {"a fact", other([](auto& x) { *fact(x, "seed") = "8"; }), "--seed was 8, and is 1 here"},
      {"a fact that is missing", other([](auto& x) { x.header.facts.clear(); }),
       "version of mailgrad was not told"},
      {"no plug-in of this name", [&] { require_recorded_plugin(r, "/proc/self/comm"); }, "was not told"},
      {"no file of a plug-in", [&] { require_recorded_plugin(r, "/there/is/none.so"); }, "cannot be read"},
  });
}

/// A digest tells nobody which model or data to take.
TEST(RunFingerprint, NamesModelAndDataOfAnotherRun) {
  const auto planned = [](std::uint64_t seed, const std::string& model, const std::string& data, bool other) {
    training_options o = two_workers();
    o.seed = seed;
    o.batch = 4;
    o.model_name = model;
    auto samples = std::make_shared<data_split>(*small_data());
    if (other) samples->train = testing::small_samples(samples->train.size(), 77);
    samples->name = data;
    return facts_and_names(plan_run(small_model(), samples, o));
  };
  recording r;
  r.name = "run.rec";
  r.header = {2, 1, planned(1, "mlp:hidden=8", "small.csv", false), {}};
  const training_options o = two_workers();
  EXPECT_NO_THROW(require_same_run(r, o, planned(1, "mine.json", "moved.csv", false)));
  const std::string sum = "SHA-256 [0-9a-f]{12}[.]{3}";
  EXPECT_THAT(words_of_refusal([&] { require_same_run(r, o, planned(2, "mine.json", "other.csv", true)); }),
              MatchesRegex("recording 'run.rec': the training data were small.csv [(]" + sum +
                           "[)], and are other.csv [(]" + sum + "[)] here; --seed was 1, and is 2 here"));
}

TEST(FormatFact, HasNumbersAsShortAsTheyCanBe) {
  EXPECT_EQ(format_fact("schedule", to_string(parse_schedule("step:every=500,factor=0.1,warmup=3"))),
            "step:every=500,factor=0.1,warmup=3");
  EXPECT_EQ(format_fact("learning rate", "0.10000000000000001"), "0.1");
  EXPECT_EQ(format_fact("weight decay", "1e-08"), "1e-8");
  EXPECT_EQ(format_fact("clip norm", "1.0000000000000001e-10"), "1e-10");
  EXPECT_EQ(format_fact("policy", "async, ssp:1@2000"), "async, ssp:1@2000");
  EXPECT_EQ(format_fact("seed", "18446744073709551615"), "18446744073709551615");
}

TEST(FormatFact, HasTheSettingsOfARuleByTheirNames) {
  const auto typed = [](const char* value) { return format_fact("optimizer", value); };
  EXPECT_EQ(typed("sgd"), "sgd");
  for (const auto& [value, as_typed] :
       {std::pair{"momentum 0.90000000000000002", "momentum:momentum=0.9"},
        {"adam 0.90000000000000002 0.999 1e-08", "adam:beta1=0.9,beta2=0.999,epsilon=1e-8"},
        {"delayed-nesterov 0.90000000000000002 5 0.5", "delayed-nesterov:momentum=0.9,period=5,early=0.5"},
        {"shampoo 9.9999999999999995e-07 20 1024", "shampoo:epsilon=1e-6,every=20,largest=1024"},
        {"muon 0.94999999999999996 plain 'head bias' 0.001 0.90000000000000002 0.999 1e-08",
         "muon:momentum=0.95,nesterov=no,adamw=head "
         "bias,adamw_rate=0.001,beta1=0.9,beta2=0.999,epsilon=1e-8"}}) {
    EXPECT_EQ(typed(value), as_typed);
    EXPECT_NO_THROW(parse_optimizer(as_typed)) << as_typed;
  }
  EXPECT_EQ(typed("./libmine.so 0.10000000000000001 2"), "./libmine.so 0.1 2");
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
  return words_of_refusal([&] { go_on(plan, card); });
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
