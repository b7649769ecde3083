#include <mailgrad/tests/cli/remote/remote_tool.hpp>

// The tool with rules, policies and cures from shared libraries, and with rules that look at whole variables.

namespace mailgrad::testing {
namespace {

std::string plugin(const std::string& name) { return MAILGRAD_TEST_PLUGINS "/" + name + ".so"; }

struct TrainCommandWithAPlugin : ToolTest {
  words train(const std::string& data, const std::string& optimizer, const words& more) const {
    return "train --model softmax --quiet --data"_w + data + "--optimizer" + optimizer + "--report" +
           path("run.json") + more;
  }
  /// The report of a run that has to end well.
  json trained(const std::string& data, const std::string& optimizer, const words& more) const {
    done(train(data, optimizer, more));
    return report();
  }
  /// Trains nine steps by a copy of a plug-in.
  void train_by_copy(const words& more) const {
    std::filesystem::copy_file(plugin("own_momentum"), rule);
    trained(MAILGRAD_SMALL_CSV, rule + ":momentum=0.5", "--steps 9 --batch 4"_w + more);
  }
  words resumed(const words& more, const char* steps = "12") const {
    return "train --quiet --resume"_w + kept + "--steps" + steps + more;
  }

  const std::string rule = path("rule.so"), kept = path("kept"), recording = path("run.rec");
  /// How a checkpoint with that copy is refused.
  const std::string untrusted =
      "names plug-ins, which are code: '" + rule + "'; if you trust them, give --plugin " + rule + "\n";
};

TEST_F(TrainCommandWithAPlugin, MakesTheWeightsOfTheSameRuleBuiltInBitForBit) {
  for (const words& more :
       {"--policy async"_w, "--policy hogwild"_w, "--policy sync --devices cpu:0,cpu:0 --shards 2"_w,
        "--clip-norm 0.1 --schedule cosine:total=30,warmup=3"_w, "--weight-decay 0.1"_w}) {
    const words run = "--epochs 3 --lr 0.1 --batch 4"_w + more;
    const json ours = trained(MAILGRAD_SMALL_CSV, "sgd", run);
    const json own = trained(MAILGRAD_SMALL_CSV, plugin("own_sgd"), run);
    EXPECT_EQ(own["parameters_sha256"], ours["parameters_sha256"]) << PrintToString(more);
    EXPECT_EQ(own["ended"], "completed");
  }
}

TEST_F(TrainCommandWithAPlugin, IsNamedInTheReportWithItsOwnLearningRate) {
  const json r = trained(MAILGRAD_SMALL_CSV, plugin("own_sgd"), "--steps 4 --batch 4"_w);
  EXPECT_EQ(r["optimizer"], "own-sgd (" + plugin("own_sgd") + ")");
  EXPECT_EQ(r["learning_rate"], 0.25);
}

TEST_F(TrainCommandWithAPlugin, TakesItsSettings) {
  const auto weights = [this](const std::string& settings) {
    return trained(MAILGRAD_SMALL_CSV, plugin("own_momentum") + settings,
                   "--steps 9 --batch 4"_w)["parameters_sha256"];
  };
  EXPECT_EQ(weights(""), weights(":momentum=0.9"));
  EXPECT_NE(weights(""), weights(":momentum=0.5"));
}

TEST_F(TrainCommandWithAPlugin, TrainsASparseModelUnderEveryPolicy) {
  std::string rows;
  for (int i = 0; i < 40; ++i)
    rows += std::to_string(i % 2) + ' ' + std::to_string(1 + i % 2 + i % 7) + ":1 9:0.5\n";
  const std::string data = folder.write("small.libsvm", rows);
  for (const char* policy : {"async", "sync", "ssp:1", "k-batch-async:2", "hogwild"}) {
    const json r = trained(data, plugin("own_momentum"),
                           "--devices cpu:0,cpu:0 --epochs 3 --batch 4 --policy"_w + policy);
    EXPECT_EQ(r["ended"], "completed") << policy;
    EXPECT_EQ(r["ledger"]["produced"], r["steps"]) << policy;
  }
  // With one sample at a time no row comes twice in a gradient; SGD of ours would not sum them first.
  const words singly = "--batch 1 --lr 0.1"_w;
  EXPECT_EQ(trained(data, plugin("own_sgd"), singly)["parameters_sha256"],
            trained(data, "sgd", singly)["parameters_sha256"]);
}

TEST_F(TrainCommandWithAPlugin, IsLoadedInAReplayOnlyIfItIsTheOneRecorded) {
  train_by_copy({"--record", recording});
  const std::string said = done({"replay", recording}).err;
  EXPECT_THAT(said, HasSubstr("loading the plug-in of the recording: " + rule + ", SHA-256 "));
  const std::string sum = said.substr(said.find("SHA-256 ") + 8, 64);
  std::filesystem::remove(rule);
  std::filesystem::copy_file(plugin("own_sgd"), rule);
  EXPECT_THAT(refusal({"replay", recording}),
              AllOf(IsOneLine(), HasSubstr("SHA-256 of plug-in '" + rule + "' was " + sum + ", and is "),
                    Not(HasSubstr("loading"))));
}

/// A checkpoint may come from anybody, and a plug-in is code.
TEST_F(TrainCommandWithAPlugin, IsLoadedInAResumedRunOnlyIfItIsNamedThen) {
  train_by_copy({"--checkpoint", kept});
  for (const words& more : {words{}, "--plugin"_w + plugin("own_momentum"), "--policy sync"_w})
    expect_error(resumed(more), untrusted);
  EXPECT_THAT(done(resumed("--stop-when steps>=10 --metrics-every 1 --plugin"_w + rule, "100000000")).out,
              HasSubstr("\ngoes on by    mailgrad train --plugin " + rule + " --resume " + kept));
}

/// A recording that somebody trusts says nothing of a checkpoint.
TEST_F(TrainCommandWithAPlugin, IsLoadedInAResumedReplayOnlyIfItIsNamedOrRecorded) {
  const std::string other = path("sgd.rec");
  trained(MAILGRAD_SMALL_CSV, "sgd", "--steps 9 --batch 4 --record"_w + other);
  train_by_copy({"--record", recording, "--checkpoint", kept});
  expect_error({"replay", other, "--resume", kept}, untrusted);
  EXPECT_THAT(refusal({"replay", other, "--resume", kept, "--plugin", rule}),
              Not(HasSubstr("names plug-ins")));
  done("replay --checkpoint-every 4"_w + recording + "--checkpoint" + path("replayed"));
  done({"replay", recording, "--resume", path("replayed")});
}

TEST_F(TrainCommandWithAPlugin, IsLoadedInAResumedRunThatNamesItOrItsOptionAnew) {
  train_by_copy({"--checkpoint", kept});
  done(resumed({"--plugin", rule}));
  done(resumed({"--optimizer", rule + ":momentum=0.5"}, "15"));
}

TEST_F(TrainCommandWithAPlugin, IsRefusedInOneLineIfItDoesNotFit) {
  for (const auto& [optimizer, why] :
       {std::pair{plugin("version_7"),
                  "has version 7 of the plug-in interface, this mailgrad has versions 1 to 3"},
        {"./no_such_file.so", "cannot be read: No such file or directory"},
        {plugin("looks_at_neighbours"), "each weight must follow from its own gradient and states"},
        {plugin("no_entry"), "it has no function mailgrad_plugin_rule"},
        {plugin("own_momentum") + ":momentum=7", "momentum must be at least 0 and less than 1, not '7'"}}) {
    tool t(train(MAILGRAD_SMALL_CSV, optimizer, {}));
    EXPECT_EQ(t.code(), 2);
    EXPECT_THAT(t.err(), AllOf(IsOneLine(), HasSubstr("mailgrad: optimizer '"), HasSubstr(why)));
    EXPECT_THAT(t.out(), IsEmpty());
  }
}

struct TrainCommandWithWholeVariables : ToolTest {
  words train(const std::string& optimizer, const words& more) const {
    return testing::train("--epochs 2 --optimizer"_w + optimizer + "--report" + path("run.json") + more,
                          "mlp:hidden=8x6");
  }
  json trained(const std::string& optimizer, const words& more) const {
    done(train(optimizer, "--quiet"_w + more));
    return report();
  }
};

TEST_F(TrainCommandWithWholeVariables, TellsTheBalanceOfItsShards) {
  const spoken run = done(train("muon", "--shards 2"_w));
  EXPECT_THAT(run.out + run.err,
              HasAll(" weights in 2 shards of whole variables: ", " bytes, ", "; the largest has "));
}

/// Workers in other processes are told where the shards are cut.
TEST_F(TrainCommandWithWholeVariables, MakesTheSameWeightsInOtherProcesses) {
  for (const char* rule : {"shampoo", "muon"}) {
    const json here = trained(rule, "--shards 2 --policy sync --devices cpu:0,cpu:0"_w);
    const json there = trained(rule, "--shards 2 --policy sync --processes 2"_w);
    EXPECT_EQ(there["parameters_sha256"], here["parameters_sha256"]) << rule;
    EXPECT_EQ(there["optimizer"], rule);
  }
}

TEST_F(TrainCommandWithWholeVariables, TakesAPluginThatAsksForThem) {
  EXPECT_EQ(trained(plugin("own_lars"), {})["parameters_sha256"],
            trained(plugin("own_lars"), "--shards 3"_w)["parameters_sha256"]);
  EXPECT_EQ(trained(plugin("old_version_1"), {})["ended"], "completed");
}

TEST_F(TrainCommandWithWholeVariables, IsRefusedInOneLineWhereItCannotBe) {
  expect_refused(train("muon", "--policy hogwild"_w),
                 "optimizer 'muon' looks at whole variables, and under hogwild");
  expect_refused(train("lamb", "--shards 99"_w),
                 "99 shards cannot be cut between the variables of a model of 6");
  expect_refused(train("muon:adamw=head", {}), "no variable of the model has this in its name");
  expect_refused(train(plugin("own_lars"), "--policy hogwild"_w),
                 "looks at whole variables, and under hogwild");
  expect_refused(train("muon:nesterov=perhaps", {}), "nesterov");
}

/// Parameter hosts and workers that need a plug-in of the server's user.
struct PluginRemoteTool : RemoteTool {
  /// A server that listens to such workers, and states `more`.
  static words serve(const words& more) { return "serve --listen 127.0.0.1:0 --workers 1"_w + run + more; }
  /// The same bytes in another place, as on another machine.
  std::string copy_of(const std::string& name) const {
    std::filesystem::copy_file(plugin(name), path(name + "-elsewhere.so"));
    return path(name + "-elsewhere.so");
  }

  inline static const words run = "--model mlp:hidden=5 --batch 4 --seed 3 --data"_w + MAILGRAD_SMALL_CSV;
};

TEST_F(PluginRemoteTool, HasTheSameRulePolicyAndCureAtAParameterHost) {
  const words own = "--steps 20 --shards 2 --optimizer"_w + plugin("own_sgd") + "--policy" +
                    ("async, " + plugin("fair_turns") + ":1@5") + "--cure" + plugin("fading");
  done("train --report"_w + path("here") + run + own);
  tool server(serve("--shard-hosts 1 --report"_w + path("there") + "--record" + path("recording") + own));
  const std::string address = address_of(server);
  tool host("shard --join"_w + address + "--plugin" + copy_of("own_sgd") + "--plugin" +
            copy_of("fair_turns") + "--plugin" + copy_of("fading")),
      worker({"join", address});
  ASSERT_EQ(server.code(), 0) << server.err() << host.err();
  expect_ended({&host, &worker});
  EXPECT_EQ(report("there")["parameters_sha256"], report("here")["parameters_sha256"]);
  EXPECT_EQ(report("there")["switches"].size(), 1U);
  done({"replay", path("recording")});
}

TEST_F(PluginRemoteTool, IsRefusedByAHostThatHasOnlyAnotherOfTheSameName) {
  tool server(serve("--shard-hosts 1 --optimizer"_w + plugin("factor_2")));
  const std::string address = address_of(server);
  tool host({"shard", "--join", address, "--plugin", plugin("factor_3")}), worker({"join", address});
  for (tool* each : {&host, &server}) {
    EXPECT_EQ(each->code(), 1);
    EXPECT_THAT(each->err(),
                HasAll("optimizer 'namesake' of the run: expected a plug-in with it and SHA-256 ",
                       "name it by --plugin when this process is started"));
  }
  worker.code();
}

TEST_F(PluginRemoteTool, TakesLocalStepsByIt) {
  const words own = run + "--local-steps 2 --policy sync --optimizer"_w + plugin("own_sgd");
  done("train --devices cpu:0,cpu:0 --report"_w + path("here") + own);
  done("train --processes 2 --report"_w + path("there") + own);
  EXPECT_EQ(report("there")["parameters_sha256"], report("here")["parameters_sha256"]);
}

TEST_F(PluginRemoteTool, IsLoadedForNobodyWhoOnlyAsks) {
  tool server(serve("--epochs 100000"_w));
  const std::string address = address_of(server);
  tool worker({"join", address});
  ASSERT_TRUE(worker.says("has joined") && server.says("has joined")) << server.err();
  expect_error({"switch", address, plugin("fair_turns") + ":1"},
               "a plug-in is loaded by the process that names it, and by no other");
  done({"stop", address});
  expect_ended({&server});
}

} // namespace
} // namespace mailgrad::testing
