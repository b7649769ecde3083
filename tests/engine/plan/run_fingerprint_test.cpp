#include <mailgrad/engine/model/bound_model.hpp>
#include <mailgrad/engine/plan/run_fingerprint.hpp>
#include <mailgrad/engine/plan/run_plan.hpp>
#include <mailgrad/engine/record/recording.hpp>
#include <mailgrad/graph/models/layer_stack.hpp>
#include <mailgrad/optim/optimizer_options.hpp>
#include <mailgrad/optim/schedule.hpp>
#include <mailgrad/tests/engine/small_problem.hpp>
#include <mailgrad/tests/support/refusal.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <functional>

namespace mailgrad {
namespace {

using testing::expect_refused;
using testing::small_data;
using testing::small_model;
using namespace ::testing;

using facts = std::vector<std::pair<std::string, std::string>>;

facts of(const training_options& o, const model_function& model = small_model(),
         const data_split& data = *small_data()) {
  model_request request = request_for(data, o.batch);
  request.workers = 2;
  return facts_of(model, request, data, o);
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
  const model_function wider = [](graph& g, const model_request& r) {
    return build_classifier(g, {dense_layer{9, activation::tanh}, dense_layer{}}, r);
  };
  const facts usual = of(two_workers());
  EXPECT_THAT(different(usual, of(two_workers(), wider)), ElementsAre("SHA-256 of the model"));
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
  try {
    require_same_run(r, o, planned(2, "mine.json", "other.csv", true));
    FAIL() << "not refused";
  } catch (const recording_error& e) {
    const std::string sum = "SHA-256 [0-9a-f]{12}[.]{3}";
    EXPECT_THAT(e.what(),
                MatchesRegex("recording 'run.rec': the training data were small.csv [(]" + sum +
                             "[)], and are other.csv [(]" + sum + "[)] here; --seed was 1, and is 2 here"));
  }
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

} // namespace
} // namespace mailgrad
