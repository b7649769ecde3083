#pragma once

#include <mailgrad/tests/actors/runs/assembled_run.hpp>

#include <gtest/gtest.h>

#include <array>
#include <ostream>
#include <string>

namespace mailgrad::testing {

/// A cure, the optimiser and local steps that it needs, and one policy or several.
struct treated_run {
  const char* cure;
  const char* optimizer = "momentum";
  std::uint64_t local_steps = 0;
  const char* policy = "async";
  const char* outer = "sgd"; ///< the optimiser of the shards, if there are local steps
};

inline void PrintTo(const treated_run& t, std::ostream* out) {
  *out << t.cure << ' ' << t.optimizer << ' ' << t.local_steps << ' ' << t.policy << ' ' << t.outer;
}

/// Runs with every kind of cure, and runs with local steps under every kind of policy.
inline constexpr std::array treated_runs{treated_run{"inverse"},
                                         treated_run{"fedbuff", "sgd", 2, "k-batch-async:2"},
                                         treated_run{"dc-asgd"},
                                         treated_run{"dc-asgd-a", "adam", 0, "k-async:2"},
                                         treated_run{"delay-feedback", "sgd", 0, "async"},
                                         treated_run{"gap-aware", "momentum", 0, "async, ssp:1@5, async@9"},
                                         treated_run{"dana-zero", "sgd"},
                                         treated_run{"dana-slim", "sgd", 0, "ssp:1"},
                                         treated_run{"dana-dc", "sgd", 0, "async, ringmaster:2@6"},
                                         treated_run{"easgd", "nesterov", 3},
                                         treated_run{"easgd:0.5", "sgd", 1},
                                         treated_run{"easgd", "sgd", 2, "sync"},
                                         treated_run{"easgd", "sgd", 1, "async, sync@5, async@9"},
                                         treated_run{"momentum-compensation"},
                                         treated_run{"cgad", "sgd", 2, "async", "adam"},
                                         treated_run{"mla", "sgd", 3, "async", "nesterov"},
                                         treated_run{"heloco", "sgd", 2, "k-batch-async:2", "nesterov"},
                                         treated_run{"none", "adam", 2, "sync"},
                                         treated_run{"none", "sgd", 3, "backup:1, async@7"},
                                         treated_run{"none", "sgd", 5, "rennala:2"}};

inline std::string name_of_treated(const ::testing::TestParamInfo<treated_run>& info) {
  const treated_run& t = info.param;
  return test_name(std::string(t.cure) + ' ' + t.optimizer + ' ' + std::to_string(t.local_steps) + ' ' +
                   t.policy);
}

inline assembly treated(const treated_run& t) {
  assembly a;
  a.policy = t.policy;
  a.cure = t.cure;
  a.optimizer = t.optimizer;
  a.local_steps = t.local_steps;
  a.outer_optimizer = t.outer;
  return a;
}

} // namespace mailgrad::testing
